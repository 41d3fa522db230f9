// SPDX-License-Identifier: GPL-2.0-only
//! Is each deliberate break of mode full caught?

use super::common::checked::{self, consoles, counted, lab, BREAKS_WITH_REPLICAS, TRAPS};
use super::common::{results, root, Scratch};
use super::{kernel, PRIVATE};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::time::Instant;

/// How a break of the debug kernel shows.
#[derive(Clone, Copy, PartialEq)]
enum Shows {
    /// The kernel's own check: the oracle has a holder, or the slot is not what it should be.
    Check,
    /// A thread reads what it should not.
    Stale,
    /// By chance either of the two: a thread may read before the kernel looks.
    Either,
    /// The probe at boot finds insertion at fault, and the mode is refused.
    Refused,
    /// By chance: the kernel or a program dies of it, or either of the first two.
    Anyhow,
    /// Nothing is wrong, and nothing gained: of what was inserted no page is one CPU's alone.
    NoGain,
}
use Shows::{Anyhow, Check, Either, NoGain, Refused, Stale};

/// Each break of mode full, a command that must find it, and how.
#[rustfmt::skip]
const BREAKS: [(&str, &str, Shows); 38] = [
    ("owed-ignored-on-switch", "owner --units 4000 --cpus 8 --nodes 2", Stale),
    ("owed-ignored-on-lazy", "owner --units 4000 --cpus 8 --nodes 2", Stale),
    ("owed-one-look", "owner --units 4000 --cpus 8 --nodes 2", Check),
    ("owed-dropped-by-handler", "owner --units 4000 --cpus 8 --nodes 2", Check),
    ("owed-paid-by-range", "owner --units 4000 --set first=migrate --set second=copy --cpus 8 --nodes 2", Stale),
    ("narrow-range-short", "zero --cpus 8 --nodes 2", Check),
    ("narrow-drops-set-member", "anon-r-seq --units 1600 --cpus 8 --nodes 2 --repeats 4", Check),
    ("narrow-is-round", "held --set scenario=alone --units 96 --cpus 8 --nodes 2", Check),
    ("batch-unpaid", "owner --units 4000 --cpus 8 --nodes 2", Stale),
    ("batch-uncached", "refault --cpus 4 --nodes 2", Check),
    ("batch-round-unraised", "batch --cpus 2 --nodes 2 --thread-mode multi", Stale),
    ("private-survives-young", "owner --units 4000 --cpus 8 --nodes 2", Check),
    ("replay-unknown", "zero --cpus 8 --nodes 2", Anyhow),
    ("replay-short", "refault --units 4000 --cpus 4 --nodes 2", Either),
    ("insert-over-shared", "overlap --cpus 8 --nodes 2", Check),
    ("insert-over-never", "overlap --set switch=before --cpus 8 --nodes 2", Check),
    ("zap-unstamped", "owner --units 4000 --cpus 8 --nodes 2", Check),
    ("protect-unflushed", "stress-mix --set opt-in=1 --cpus 4 --nodes 2", Check),
    ("insert-in-batch", "refault --set by=cgroup --cpus 4 --nodes 2", Check),
    ("insert-unread-kept", "owner --units 4000 --cpus 8 --nodes 2", Check),
    ("insert-interrupted", "owner --units 4000 --cpus 8 --nodes 2", Anyhow),
    ("insert-born-accessed", "owner --units 300 --cpus 4 --nodes 2", NoGain),
    ("freed-tables-elided", "tables --cpus 8 --nodes 2", Check),
    ("moved-table-elided", "tables --cpus 8 --nodes 2", Check),
    ("notifiers-ignored", "tables --set device=1 --cpus 8 --nodes 2", Check),
    ("insert-primary-first", "zero --cpus 8 --nodes 2", Check),
    ("insert-no-invlpg-after", "zero --cpus 2", Refused),
    ("insert-left-behind", "zero --cpus 2", Refused),
    ("invlpg-spares", "zero --cpus 2", Refused),
    ("nested-unproven", "overlap --cpus 8 --nodes 2", Stale),
    ("nested-unaccounted", "overlap --set switch=during --set tables=256 --units 40 --cpus 8 --nodes 2", Stale),
    ("nested-early", "overlap --cpus 8 --nodes 2", Stale),
    ("hidden-over-another", "hidden --cpus 4", Check),
    ("hidden-over-revealed", "hidden --cpus 4 --nodes 2 --repeats 8", Check),
    ("hidden-is-uncached", "hidden --cpus 2", Check),
    ("hidden-taken-unflushed", "migrate --cpus 8 --nodes 2", Check),
    ("request-spans", "refault --set by=cgroup --cpus 4 --tlb hardware,insert=on", Check),
    ("request-hides-accessed", "hidden --cpus 4 --nodes 2 --tlb hardware,insert=on", Check),
];
/// Harmless, or found by other tests: docs/reference/breaks.md says which.
const HARMLESS: [&str; 6] = [
    "insert-no-invlpg-before",
    "hide-nothing",
    "hidden-revealed-private",
    "replay-tables",
    "insert-unread",
    "hidden-executable",
];

fn break_and_look((mutant, command, shows): (&str, &str, Shows)) -> Result<(), String> {
    let out = Scratch::new("full-mutant");
    let begun = Instant::now();
    // Where the mode is refused, the lab would say so first.
    let (mode, words) = match shows {
        Refused => ("off", format!("abis=full abis_mutant={mutant}")),
        _ if command.contains("insert=on") => ("full-hw", format!("abis_mutant={mutant}")),
        _ => ("full", format!("abis_mutant={mutant}")),
    };
    let mut args: Vec<&str> = command.split(' ').collect();
    if !args.contains(&"--tlb") {
        args.extend(["--tlb", "hardware"]);
    }
    let said = lab(&out, &args, &kernel(mode, &words));
    let console = consoles(&out);
    if !console.contains(&format!("broken on purpose: {mutant}")) {
        return Err(format!("{mutant} was not chosen: {}\n{console}", said.stderr));
    }
    let in_console = |what: &[&str]| console.lines().find(|line| what.iter().any(|text| line.contains(text)));
    let checked = in_console(&[
        "holds it: ",
        "mapped before it is inserted",
        "secondary page tables",
        "though devices may walk there",
    ]);
    let stale = said.stderr.lines().find(|line| line.contains("stale read"));
    let line = match shows {
        Check => checked,
        Stale => stale,
        Either => checked.or(stale),
        Refused => in_console(&["stays off, not full: insertion does not work", "not full: INVLPG leaves"]),
        Anyhow => in_console(&["BUG: ", "Oops: ", "stack smashing detected"]).or(checked).or(stale),
        NoGain => without_gain(&out).then_some("pages were inserted, and none was one CPU's alone"),
    };
    let Some(line) = line.filter(|_| (said.code == 0) == matches!(shows, Refused | NoGain)) else {
        return Err(format!("{mutant}: {command}: not caught, exit code {}\n{}", said.code, said.stderr));
    };
    println!("{mutant:24} {:3} s  {line}", begun.elapsed().as_secs());
    Ok(())
}

/// As pages_of_one_cpu_are_flushed_there() would find it.
fn without_gain(out: &Scratch) -> bool {
    let results = results(&out.0);
    let rows = results["rows"].as_array().expect("rows");
    let private = |row: &Value, site: &str| counted(row, &format!("{site}_checked_private"));
    rows.iter().all(|row| {
        counted(row, "insert_checked") >= 5000 && PRIVATE.iter().all(|(site, _)| private(row, site) == 0)
    })
}

fn all_are_caught(breaks: &[(&str, &str, Shows)]) {
    let survivors: Vec<String> = breaks.iter().filter_map(|one| break_and_look(*one).err()).collect();
    assert!(survivors.is_empty(), "{}", survivors.join("\n"));
}

/// Found soon: one each of debts, of insertion and of lists of flushes.
#[test]
fn some_breaks_are_caught() {
    let some = ["owed-one-look", "insert-primary-first", "replay-short"];
    let chosen: Vec<_> = BREAKS.iter().copied().filter(|one| some.contains(&one.0)).collect();
    assert_eq!(chosen.len(), some.len());
    all_are_caught(&chosen);
}

#[test]
#[ignore = "long: make test-full-all"]
fn each_break_is_caught() {
    all_are_caught(&BREAKS);
}

/// The kernel's list is this file's, and whoever reads the documents finds each of them.
#[test]
fn each_break_is_known() {
    let list = checked::shell(
        "cat /sys/kernel/debug/abis/mutant",
        &["--cpus", "2", "--tlb", "hardware"],
        &kernel("full", ""),
    );
    let known: BTreeSet<String> = checked::mutants(&list).into_iter().collect();
    let of_idle = TRAPS.iter().map(|(mutant, _)| *mutant);
    let of_full: Vec<&str> =
        BREAKS.iter().map(|one| one.0).chain(HARMLESS).chain(BREAKS_WITH_REPLICAS).collect();
    let here: BTreeSet<String> = of_idle.chain(of_full.iter().copied()).map(String::from).collect();
    assert_eq!(here, known, "the kernel has other breaks");

    let page = "docs/reference/breaks.md";
    let text = fs::read_to_string(root().join(page)).expect(page);
    for name in of_full {
        assert!(text.contains(&format!("`{name}`")), "{page} has no {name}");
    }
}
