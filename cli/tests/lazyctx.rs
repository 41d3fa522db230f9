// SPDX-License-Identifier: GPL-2.0-only
//! Is a new context id a flush: does no address space meet what another left, and is each break of that found? On the
//! emulated PowerPC, whose machine is asked at every id that is taken and at every renewal.

mod common;
use common::checked::{self, consoles, lab};
use common::{lab_run, Said, Scratch};
use serde_json::Value;

/// What Linux says when process 1 ends.
const DIED: &str = "Attempted to kill init";

/// Each, on how few ids, with what work, and what the guest's console says of it.
#[rustfmt::skip]
const BREAKS: [(&str, &str, &str, &str); 9] = [
    ("tlb-kept", "lazyctx_ids=10", "--units 20 --set processes=1", "is used again and has"),
    ("freed-at-once", "lazyctx_ids=64", "--units 20", "is used again and has"),
    ("live-reclaimed", "lazyctx_ids=64", "--units 20", DIED),
    ("borrowed-kept", "", "--units 20", "segment registers are another's"),
    ("hashpte-left", "", "--units 20", "has HASHPTE"),
    ("young-renews", "", "--units 20", "clearing an access bit gave a new id"),
    ("exit-unflushed", "", "--units 20", "lazyctx_destroy"),
    ("nested-exits", "", "--units 8 --set shared_pages=1024", "new id is not empty"),
    ("pass-short", "lazyctx_ids=250", "--units 60", "is used again and has"),
];
/// Found by the engine's model: engine/lazyctx/tests/run.
const OF_THE_MODEL: [&str; 2] = ["freed-early", "debt-forgotten"];

fn kernel(mode: &str, words: &str) -> Vec<String> {
    checked::named("lazyctx-debug", mode, words)
}

fn counter(row: &Value, name: &str) -> f64 {
    row["mechanisms"]["lazyctx"][name]["median"]
        .as_f64()
        .unwrap_or_else(|| panic!("no counter {name}: {row}"))
        * row["units"].as_f64().expect("units")
}

fn clean(work: &[&str], mode: &str, words: &str) -> Value {
    let out = Scratch::new("lazyctx");
    let kernel = kernel(mode, words);
    let args: Vec<&str> = work.iter().copied().chain(kernel.iter().map(String::as_str)).collect();
    let results = lab_run(&out, &args);
    let [row] = results["rows"].as_array().expect("rows").as_slice() else { panic!("{results}") };
    assert_eq!(row["violations"].as_u64(), Some(0), "{row}");
    assert_eq!(
        row["mechanisms"]["lazyctx"]["oracle"]["median"].as_f64(),
        Some(1.0),
        "the machine was not asked"
    );
    row.clone()
}

/// Ids that are few are used again and again; each is asked for first.
#[test]
fn no_id_is_used_again_while_something_has_it() {
    for mode in ["lazy", "lazy-idle"] {
        let row = clean(&["spaces", "--repeats", "1", "--units", "20"], mode, "lazyctx_ids=48");
        let [ids, reuses, spaces] =
            ["checked_ids", "reuses", "checked_spaces"].map(|name| counter(&row, name));
        println!("{mode}: {ids} ids taken, {reuses} of them again, {spaces} renewals");
        assert!(ids >= 400.0 && reuses >= ids - 48.0 && spaces >= 20.0, "{row}");
    }
}

/// The mode is changed all the time: ids go over to the engine, and back to Linux.
#[test]
fn the_mode_can_be_changed_under_load() {
    let work =
        ["spaces", "--repeats", "1", "--units", "12", "--set", "switches=1", "--set", "shared_pages=64"];
    for ids in ["", "lazyctx_ids=48"] {
        let row = clean(&work, "lazy-idle", ids);
        let [ids, flushed, searched, all] =
            ["checked_ids", "flushed", "searched", "all_renewals"].map(|name| counter(&row, name));
        println!("{ids} ids taken, {flushed} pages flushed, {searched} searched, {all} copies renewed");
        assert!(ids >= 20.0 && flushed > 0.0 && searched > 0.0 && all > 0.0, "{row}");
    }
}

/// Nobody is looked for where the mode is off, and everything where the control is on.
#[test]
fn the_control_searches_and_off_does_nothing() {
    let work =
        ["mmap-latency", "--repeats", "1", "--units", "20", "--set", "pages=1024", "--set", "touch=none"];
    let row = clean(&work, "search", "");
    assert!(counter(&row, "searched") >= 20.0 * 1024.0, "{row}");
    let row = clean(&work, "off", "lazyctx_count=1");
    for name in ["searched", "taken", "flushed", "reclaimed"] {
        assert_eq!(counter(&row, name), 0.0, "{name}: {row}");
    }
    assert!(counter(&row, "reloads") > 0.0 && counter(&row, "tlb_misses") > 0.0, "{row}");
}

/// What the processor counts of its searches adds up.
#[test]
fn the_machines_counts_agree() {
    let row = clean(&["turns", "--repeats", "1", "--set", "sleep_us=2000"], "lazy-idle", "lazyctx_count=1");
    let [searches, found, misses, references] =
        ["searches", "searches_found", "tlb_misses", "references"].map(|name| counter(&row, name));
    println!("{searches} searches, {found} found, {references} entries read");
    assert!(searches >= misses && misses > 0.0 && found <= searches, "{row}");
    assert!(references >= searches && references <= 16.0 * searches, "{row}");
    assert!(
        counter(&row, "passes") > 0.0 && counter(&row, "reclaimed") > 0.0,
        "nothing was done in idle time: {row}"
    );
}

fn broken(mutant: &str, words: &str, work: &str) -> (Scratch, Said) {
    let out = Scratch::new("lazyctx-mutant");
    let kernel = kernel("lazy-idle", &format!("lazyctx_mutant={mutant} {words}"));
    let work: Vec<&str> = ["spaces"].into_iter().chain(work.split(' ')).collect();
    let said = lab(&out, &work, &kernel);
    (out, said)
}

fn survives((mutant, words, work, sign): &(&str, &str, &str, &str)) -> Option<String> {
    let (out, said) = broken(mutant, words, work);
    let console = consoles(&out);
    if !console.contains(&format!("broken on purpose: {mutant}")) {
        return Some(format!("{mutant} was not chosen: {}", said.stderr));
    }
    // By chance a program dies of it before process 1 does.
    let died = || said.stderr.lines().find(|line| *sign == DIED && line.contains("killed by signal"));
    let found = console.lines().find(|line| line.contains(sign)).or_else(died);
    println!("{mutant:16} {}", found.unwrap_or("not found"));
    (said.code == 0 || found.is_none())
        .then(|| format!("{mutant}: not found, exit code {}: {}", said.code, said.stderr))
}

#[test]
fn each_break_is_caught() {
    for (words, work) in [
        ("lazyctx_ids=48", "--units 8 --set shared_pages=1024"),
        ("lazyctx_ids=10", "--units 20 --set processes=1"),
    ] {
        let (_, said) = broken("none", words, work);
        assert_eq!(said.code, 0, "without a break: {}", said.stderr);
    }
    let survivors: Vec<String> = BREAKS.iter().filter_map(survives).collect();
    assert!(survivors.is_empty(), "{}", survivors.join("\n"));
}

/// The list above is the engine's.
#[test]
fn each_break_is_known() {
    let header = std::fs::read_to_string(common::root().join("engine/lazyctx/mutants.h")).expect("mutants.h");
    let named: Vec<&str> =
        header.lines().filter_map(|line| line.split_once("] = \"")?.1.split('"').next()).collect();
    let mut known: Vec<&str> =
        BREAKS.iter().map(|known| known.0).chain(OF_THE_MODEL).chain(["none"]).collect();
    assert_eq!(named.len(), known.len());
    known.retain(|name| !named.contains(name));
    assert!(known.is_empty(), "{known:?}");
}

/// Instructions, which repeat but for a timer's tick: the fewest of three repeats.
#[test]
fn off_costs_what_the_unchanged_kernel_does() {
    let out = Scratch::new("lazyctx-off");
    let work = ["munmap", "mprotect", "fork", "pipe-latency", "--cost", "--repeats", "3", "--units", "200"];
    let kernels = ["--kernel", "ppc,lazyctx:off"];
    let results = lab_run(&out, &[&work[..], &kernels].concat());
    let rows = results["rows"].as_array().expect("rows");
    for base in rows.iter().filter(|row| row["kernel"] == "ppc") {
        let off = rows
            .iter()
            .find(|row| row["kernel"] == "lazyctx" && row["workload"] == base["workload"])
            .expect("a row of each");
        let fewest = |row: &Value| row["instructions_per_unit"]["min"].as_f64().expect("counted");
        let [base_count, off_count] = [base, off].map(fewest);
        let percent = (off_count / base_count - 1.0) * 100.0;
        println!("{}: {base_count:.1} instructions, off {percent:+.2} %", base["workload"]);
        assert!(percent.abs() <= 0.5, "{off}");
    }
}

/// A million renewals, and a hundred thousand ids used again by others: random work for these, and then ranges alone.
#[test]
#[ignore = "long: make test-lazyctx-stress"]
fn none_of_a_million_renewals_leaves_something() {
    let million: f64 =
        std::env::var("CEASEFIRE_STRESS_RENEWALS").map_or(1e6, |count| count.parse().expect("a number"));
    let (mut renewals, mut reuses, mut seed) = (0.0, 0.0, 0);
    while renewals < million {
        let text = seed.to_string();
        let is_random = reuses < million / 10.0;
        let work: &[&str] = if is_random {
            &["spaces", "--units", "20", "--set", "shared_pages=256"]
        } else {
            &["mprotect", "--units", "40000", "--set", "pages=32"]
        };
        let work = [work, &["--repeats", "1", "--seed", &text]].concat();
        let row = clean(&work, "lazy-idle", "lazyctx_ids=256 lazyctx_cutoff=1");
        assert!(counter(&row, "checked_spaces") > 0.0, "nothing was renewed: {row}");
        renewals += counter(&row, "checked_spaces");
        reuses += counter(&row, "reuses");
        seed += 1;
        println!("{}: {renewals} renewals, {reuses} ids used again, none wrong", work[0]);
    }
    assert!(reuses >= million / 10.0, "{reuses}");
}
