// SPDX-License-Identifier: GPL-2.0-only
//! Does every replica of a page table say what the table says, is one that does not found, and do all of them go with
//! their process?
//!
//! CEASEFIRE_NUMAPTE_KERNEL=NAME: another kernel with CONFIG_NUMAPTE_DEBUG in place of `numapte-debug`. One that has ABIS
//! as well is in its mode idle: who needs no flush at all is let off by that.

mod common;
use common::checked::{self, consoles, lab};
use common::{median, row, Scratch};
use serde_json::Value;

const MACHINE: [&str; 6] = ["--cpus", "4", "--nodes", "2", "--tlb", "hardware"];
const ALL: [&str; 6] = ["--set", "hotplug=1", "--set", "ksm=1", "--set", "thp=1"];

/// What a comparison, the machine or the memory shows of a break in any boot.
const BREAKS: [&str; 6] = [
    "full-canonical",
    "clear-canonical",
    "store-canonical",
    "wrprotect-unfolded",
    "gate-present",
    "enable-silent",
];

fn kernel_name() -> String {
    std::env::var("CEASEFIRE_NUMAPTE_KERNEL").unwrap_or_else(|_| "numapte-debug".into())
}

fn kernel(mode: &str, more: &str) -> Vec<String> {
    let kernel = kernel_name();
    let first = if kernel.starts_with("abis-") { "idle+" } else { "" };
    checked::named(&kernel, &format!("{first}{mode}"), more)
}

fn clean(args: &[&str], mode: &str, more: &str) -> Value {
    checked::clean(&[args, &MACHINE].concat(), &kernel(mode, more))
}

fn counter(row: &Value, name: &str) -> f64 {
    row["mechanisms"]["numapte"][name]["max"].as_f64().unwrap_or_else(|| panic!("no counter {name}: {row}"))
        * row["units"].as_f64().expect("units")
}

/// `audit_failures` are violations, of which `clean` allows none.
fn every_replica_is_right(args: &[&str], mode: &str, more: &str, least: f64) {
    let results = clean(args, mode, more);
    for row in results["rows"].as_array().expect("rows").iter().filter(|row| row["group"] != "control") {
        let audits = counter(row, "audits");
        let replicated = counter(row, "replicated");
        let asked = counter(row, "root_audits");
        // Trees begin with the process, before what is counted.
        let roots = row["mechanisms"]["numapte"]["pages_root"]["max"].as_f64().expect("a level");
        println!("{mode} {more} {}: {audits} compared, {replicated} tables, {asked} roots", row["workload"]);
        assert!(audits >= least && roots >= 1.0 && replicated >= 1.0 && asked >= 1.0, "{row}");
    }
}

#[test]
fn every_replica_is_right_whatever_changes() {
    every_replica_is_right(&[&["stress-mix", "--units", "600"], &ALL[..]].concat(), "on", "", 5000.0);
}

/// One tree for each process, and nothing to compare.
#[test]
fn off_is_off() {
    let results = clean(&["stress-mix", "--units", "200"], "off", "");
    let row = row(&results, "stress-mix", 4);
    for name in ["begun", "replicated", "copied", "propagated", "audits"] {
        assert_eq!(counter(row, name), 0.0, "{name}: {row}");
    }
}

/// What each line `name value` says, one after the other.
fn gauges(text: &str, name: &str) -> Vec<u64> {
    let of_name = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().filter_map(of_name).collect()
}

/// Replicas go with their process. The guest's own processes have some, too, and begin when they please; so one run of
/// the workload is compared with three. A CPU that idles holds the root of who ran there last: `zero` takes its place.
#[test]
fn nothing_is_left_at_the_end() {
    let owner = "/bin/workloads run owner --threads 4 --units 200";
    let settled = "/bin/workloads run zero --threads 4; cat /sys/kernel/debug/numapte/counters";
    let command = format!("{owner}; {settled}; {owner}; {owner}; {owner}; {settled}");
    let text = checked::shell(&command, &MACHINE, &kernel("on", ""));
    let both = |name: &str| match gauges(&text, name)[..] {
        [once, more] => (once, more),
        _ => panic!("{name}: {text}"),
    };
    let (begun, audits) = (both("begun"), both("audits"));
    assert!(begun.1 >= begun.0 + 3 && audits.1 > audits.0 + 15_000, "{text}");
    for level in ["pte", "pmd", "pud", "p4d", "root"] {
        let (once, more) = both(&format!("pages_{level}"));
        println!("pages_{level}: {once}, {more}");
        assert!(more <= once, "{level}: {text}");
    }
    assert_eq!(both("audit_failures"), (0, 0), "{text}");
}

/// Replicas are given back all the time, while threads use and change the memory. Then the counters.
fn under_pressure(units: u32) -> String {
    let pressure = "while :; do echo 2 > /proc/sys/vm/drop_caches; done & pressure=$!";
    let work = format!("/bin/workloads run stress-mix --threads 4 --units {units}; said=$?; kill $pressure");
    format!("{pressure}; {work}; cat /sys/kernel/debug/numapte/counters; exit $said")
}

#[test]
fn what_is_given_back_comes_back() {
    let text = checked::shell(&under_pressure(600), &MACHINE, &kernel("on", ""));
    let one = |name: &str| *gauges(&text, name).first().unwrap_or_else(|| panic!("{name}: {text}"));
    let (reclaimed, replicated, audits) = (one("reclaimed"), one("replicated"), one("audits"));
    println!("{reclaimed} of {replicated} replicas were given back, {audits} compared");
    assert!(reclaimed >= 20 && replicated >= reclaimed && audits >= 5000, "{text}");
    assert_eq!(one("audit_failures"), 0, "{text}");
}

/// A processor sets bits in, or goes on from, a page that is something else by then: the machine says who would.
#[test]
fn a_break_is_found_where_replicas_are_given_back() {
    let kernel = kernel("on", "numapte_mutant=fold-early");
    let command = under_pressure(5000);
    let args = [&["lab", "shell", "--command", &command], &MACHINE[..]].concat();
    let said = common::run(common::ceasefire(&args).args(kernel));
    let is_found =
        said.stderr.contains("complained: WARNING: ") && said.stderr.contains("mm/numapte/audit_filter.c");
    assert!(said.code == 1 && is_found, "{}\n{}", said.stdout, said.stderr);
}

/// Whether a comparison says so, which stops the guest, the machine, or the workload.
fn is_found(mutant: &str, args: &[&str]) -> bool {
    let out = Scratch::new("numapte-mutant");
    let said = lab(&out, &[args, &MACHINE].concat(), &kernel("on", &format!("numapte_mutant={mutant}")));
    let console = consoles(&out);
    assert!(console.contains(&format!("broken on purpose: {mutant}")), "{mutant}: {console}");
    println!("{mutant}: exit code {}", said.code);
    said.code == 1
}

/// To change a region that one node uses interrupts that node's other CPU; one that both have read, all CPUs.
#[test]
fn a_shootdown_is_for_the_nodes_that_use_the_page_table() {
    for op in ["op=munmap", "op=mprotect"] {
        for (readers, words, wanted) in
            [("readers=0", "", 1.0), ("readers=1", "", 3.0), ("readers=0", "numapte_filter=0", 3.0)]
        {
            let args = ["numa-regions", "--set", op, "--set", readers];
            let results = clean(&args, "on", words);
            let row = row(&results, "numa-regions", 4);
            println!("{op} {readers} {words}: {} received", median(row, "received_per_unit"));
            assert!(
                (median(row, "received_per_unit") - wanted).abs() < 0.05,
                "{op} {readers} {words}: {row}"
            );
            let site = if op == "op=munmap" { "let_off_zap" } else { "let_off_protect" };
            assert!(wanted > 1.0 || counter(row, site) >= 100.0, "{site}: {row}");
        }
    }
}

/// Where a flush is asked for some nodes, the machine is asked for those that it lets off, and finds nobody.
#[test]
fn nobody_needs_a_flush_that_is_for_others() {
    let results = clean(&["stress-mix", "--units", "600"], "on", "");
    let row = row(&results, "stress-mix", 4);
    for site in ["clear", "move"] {
        let asked = counter(row, &format!("let_off_{site}"));
        println!("{site}: asked {asked} times");
        assert!(asked >= 1.0, "{site}: {row}");
    }
}

/// Who asks, and where it asks often and lets off.
const ASKERS: [(&str, &str, &str); 7] = [
    ("zap", "numa-regions --units 64 --set op=munmap --set pages=512 --repeats 10", ""),
    ("protect", "numa-regions --units 64 --set op=mprotect --set pages=512 --repeats 10", ""),
    ("advise", "numa-regions --units 64 --set op=free --set pages=512 --repeats 10", ""),
    ("move", "numa-regions --units 4000 --set op=remap --set pages=2 --repeats 10", ""),
    ("clear", "cow-mt-seq --units 16384 --set cpus=spread --repeats 10", ""),
    ("batch", "migrate --units 16384 --set cpus=spread --repeats 10", ""),
    ("tables", "mmap-latency --units 5000 --set mib=1 --set cpus=spread --repeats 10", "numapte_segregate=2"),
];

/// CEASEFIRE_STRESS_QUESTIONS=N: so many in all, and a hundredth of them of each asker.
#[test]
#[ignore = "long: make test-numapte-stress"]
fn stress_millions_of_flushes_for_some_nodes() {
    let text = std::env::var("CEASEFIRE_STRESS_QUESTIONS").unwrap_or_else(|_| "10000000".into());
    let wanted: f64 = text.parse().expect("CEASEFIRE_STRESS_QUESTIONS is a number");
    let mut asked = [0.0; ASKERS.len()];
    let mut seed = 0;
    let ask = |(site, command, words): (&str, &str, &str), seed: u32| {
        let seed = seed.to_string();
        let args: Vec<&str> = command.split(' ').chain(["--seed", &seed]).collect();
        let results = clean(&args, "on", words);
        let row = row(&results, args[0], 4);
        let per_unit = row["mechanisms"]["numapte"][format!("let_off_{site}")]["median"].as_f64();
        let repeats = row["repeats"].as_f64().expect("repeats");
        let more = per_unit.expect("a counter") * row["units"].as_f64().expect("units") * repeats;
        println!("{site}: {more:.0} more");
        assert!(more >= 1000.0, "{site} is hardly asked: {row}");
        more
    };
    for (index, asker) in ASKERS.into_iter().enumerate() {
        while asked[index] < wanted / 100.0 {
            seed += 1;
            asked[index] += ask(asker, seed);
        }
    }
    while asked.iter().sum::<f64>() < wanted {
        seed += 1;
        let index = seed as usize % 2;
        asked[index] += ask(ASKERS[index], seed);
    }
    for ((site, ..), asked) in ASKERS.iter().zip(asked) {
        println!("{site:8} {asked:9.0} asked");
    }
}

#[test]
fn a_missed_flush_is_found() {
    assert!(is_found("sharer-place", &["stale"]));
}

/// Found by what a program reads, or by the machine.
#[test]
#[ignore = "more boots: make test-numapte-all"]
fn each_missed_flush_is_found() {
    for (mutant, workload) in [("raise-none", "stale"), ("last-hold", "overlap")] {
        assert!(is_found(mutant, &[workload]), "{mutant}");
    }
}

#[test]
fn a_break_is_found() {
    assert!(is_found("gate-present", &["stress-mix", "--units", "200"]));
}

/// One allocation in three fails: page tables are shared, or a process keeps one tree, and no program notices.
#[test]
fn no_memory_is_no_failure() {
    for _ in 0..6 {
        let args = ["stress-mix", "owner", "refault", "synced", "--units", "200"];
        let results = clean(&args, "on", "numapte_fail=3");
        let rows = results["rows"].as_array().expect("rows").iter().filter(|row| row["group"] != "control");
        let rows: Vec<_> = rows.collect();
        let sum = |name| rows.iter().map(|row| counter(row, name)).sum::<f64>();
        let (shared, replicated) = (sum("fallbacks"), sum("replicated"));
        println!("{shared} tables had no memory, {replicated} had");
        if shared >= 1.0 && replicated >= 1.0 {
            return;
        }
    }
    panic!("of six boots none had both");
}

/// The others need a moment that a boot may not have, swap (`copy-over`, `fork-plain`), or (`fold-whole`) a replica that
/// is wrong already; they are of the model: engine/numapte/tests/mutants.txt.
#[test]
#[ignore = "more boots: make test-numapte-all"]
fn each_break_is_found() {
    for mutant in BREAKS {
        // Some have no end: a fault comes again and again.
        let args = [&["stress-mix", "--timeout", "180"], &ALL[2..]].concat();
        assert!(is_found(mutant, &args), "{mutant}");
    }
}

#[test]
#[ignore = "more boots: make test-numapte-all"]
fn every_replica_is_right_in_every_mode_and_workload() {
    let more = ["stale", "owner", "refault", "synced", "held"];
    every_replica_is_right(&more, "on", "", 1.0);
    every_replica_is_right(&more, "eager", "", 1.0);
    let mix = [&["stress-mix", "--units", "20000"], &ALL[..]].concat();
    every_replica_is_right(&mix, "on", "", 100_000.0);
    every_replica_is_right(&mix, "eager", "", 100_000.0);
    every_replica_is_right(&mix, "on", "numapte_forced=3", 100_000.0);
    let five_levels = [&["stress-mix", "--units", "2000", "--la57", "on"], &ALL[..]].concat();
    every_replica_is_right(&five_levels, "on", "", 10_000.0);
    every_replica_is_right(&five_levels, "eager", "", 10_000.0);
}

/// Linux's own tests; their list is of an unchanged kernel. Most have one thread, and get trees all the same.
#[test]
#[ignore = "more boots: make test-numapte-all"]
fn what_linux_tests_is_as_on_an_unchanged_kernel() {
    for (mode, words) in [("off", ""), ("on", "numapte_forced=3"), ("eager", "numapte_forced=3")] {
        let kernel = kernel_name();
        let args = ["lab", "selftests", "--kernel", &kernel, "--mode", mode, "--kernel-args", words];
        let out = Scratch::new("numapte-selftests");
        let dir = out.0.to_string_lossy().into_owned();
        let all = [&args[..], &["--patience", "10", "--out", &dir]].concat();
        print!("{}", common::succeed(&mut common::ceasefire(&all)).stdout);
    }
}
