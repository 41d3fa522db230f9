// SPDX-License-Identifier: GPL-2.0-only
//! Is every flush that the kernel leaves out one that nobody needed?
//!
//! CEASEFIRE_ORACLE_KERNEL=NAME: another kernel with CONFIG_ABIS_DEBUG in place of `abis-debug`.
//! CEASEFIRE_ORACLE_IMAGE=FILE: a bzImage of such a kernel.
//! CEASEFIRE_STRESS_PAGES=N: the budget of the long tests, instead of ten million pages; many vCPUs in turns map a tenth.

mod common;
use common::checked::{self, consoles, counted, lab, violation, without_error, TRAPS};
use common::{close, median, results, root, row, Scratch};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

/// Caught or not, all of them take no longer on an idle machine.
const MUTANTS_SECONDS: u64 = 180;

/// A kernel, as `lab run` and `lab shell` take it, eliding, with more words on its command line.
fn named(kernel: &str, more: &str) -> Vec<String> {
    checked::named(kernel, "idle", more)
}

/// The debug kernel.
fn kernel(more: &str) -> Vec<String> {
    checked::chosen("ORACLE", "abis-debug", "idle", more)
}

/// A run of the debug kernel without a violation; its rows, and what it counted.
fn clean(args: &[&str]) -> Value {
    checked::clean(args, &kernel(""))
}

const BREAKS_PAGE: &str = "docs/reference/breaks.md";

/// Site and reason of mode idle, as docs/reference/coverage.md has them.
fn sites_and_reasons() -> Vec<(String, String)> {
    let text =
        fs::read_to_string(root().join("docs/reference/coverage.md")).expect("docs/reference/coverage.md");
    let table = text.split("## Sites that ask").nth(1).and_then(|rest| rest.split("\n## ").next());
    let mut found = Vec::new();
    for line in table.expect("the sites").lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [sites, _, reasons] = cells[..] else { panic!("three columns: {line}") };
        for site in sites.split(", ") {
            // Only mode full makes pages private.
            let reasons = reasons.split(", ").filter(|reason| *reason != "private");
            found.extend(reasons.map(|reason| (site.trim_matches('`').to_string(), reason.to_string())));
        }
    }
    found
}

/// Every pair that the documentation names has been checked so often, and each site's sample had holders.
fn every_pair_is_checked(row: &Value, least: u64) {
    let pairs = sites_and_reasons();
    assert!(pairs.len() >= 12, "{pairs:?}");
    for (site, reason) in &pairs {
        let checked = counted(row, &format!("{site}_checked_{reason}"));
        let (sampled, held) =
            (counted(row, &format!("{site}_sampled")), counted(row, &format!("{site}_sampled_held")));
        println!("{site:11} {reason:8} {checked:8} checked; {held} of {sampled} sampled were held");
        assert!(checked >= least, "{site} {reason}: {checked} checked, {least} wanted");
        assert!(held > 0, "{site}: of {sampled} flushes not left out nobody held an entry");
    }
}

#[test]
fn pages_that_all_hold_are_always_flushed() {
    let results = clean(&["held", "--cpus", "8", "--nodes", "2", "--tlb", "hardware"]);
    let row = row(&results, "held", 8);
    for (_, scenario) in TRAPS {
        let key = format!("{scenario}_regions");
        assert!(row["extra"][&key].as_f64().is_some_and(|regions| regions > 0.0), "{key}: {row}");
    }
}

#[test]
fn every_site_and_reason_is_checked() {
    // A kernel that checks itself walks much more, and after one of eight walks the machine walks unasked: few pages stay
    // unused until they are let off. That kernel is to find nothing; the others reach the counts.
    let checks_itself =
        std::env::var("CEASEFIRE_ORACLE_KERNEL").is_ok_and(|kernel| kernel.starts_with("checked-"));
    every_pair_is_checked_in(512, if checks_itself { 50 } else { 250 });
}

#[test]
#[ignore = "more boots: make test-stress"]
fn every_site_and_reason_is_checked_a_thousand_times() {
    every_pair_is_checked_in(1024, 1000);
}

fn every_pair_is_checked_in(units: u64, least: u64) {
    let of_them = units.to_string();
    let results =
        clean(&["elisions", "--units", &of_them, "--cpus", "8", "--nodes", "2", "--tlb", "hardware"]);
    every_pair_is_checked(row(&results, "elisions", 8), least);
}

fn nobody_reads_stale(
    tlb: &str,
    cpus: &str,
    threads: u64,
    thread_mode: &str,
    stale_pages: &str,
    changes: &str,
) {
    let shape = ["--cpus", cpus, "--nodes", "2", "--tlb", tlb, "--thread-mode", thread_mode];
    for (workload, units) in [("stale", stale_pages), ("stress-mix", changes)] {
        let begun = Instant::now();
        let mut args = vec![workload, "--units", units];
        args.extend(shape);
        let results = clean(&args);
        let row = row(&results, workload, threads);
        let checked = row["checked"].as_u64().expect("a debug kernel");
        println!(
            "{workload} {cpus} vCPUs {thread_mode}: {} units, {checked} elisions checked, {} s",
            row["units"],
            begun.elapsed().as_secs()
        );
        assert!(checked > 0, "{row}");
        if workload == "stale" {
            assert_eq!(row["extra"]["stale_reads"].as_f64(), Some(0.0), "{row}");
        }
    }
}

#[test]
#[ignore = "more boots: make test-stress"]
fn nobody_reads_stale_round_robin() {
    nobody_reads_stale("adversary", "8", 8, "single", "20000", "200");
}

#[test]
fn nobody_reads_stale_on_two_host_threads() {
    nobody_reads_stale("hardware", "2", 2, "multi", "20000", "200");
}

/// Rows "| `name` | … | `scenario` |" of the section on mode idle.
fn mutants_documented() -> BTreeMap<String, String> {
    let text = fs::read_to_string(root().join(BREAKS_PAGE)).expect(BREAKS_PAGE);
    let section = text.split("\n## Mode `idle`\n").nth(1).and_then(|rest| rest.split("\n## ").next());
    let rows = section.expect("mode idle").lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let cells: Vec<&str> =
            line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        assert_eq!(cells.len(), 3, "{line}");
        (cells[0].to_string(), cells[2].to_string())
    })
    .collect()
}

#[test]
fn each_break_is_documented() {
    let traps: BTreeMap<String, String> =
        TRAPS.iter().map(|(mutant, scenario)| (mutant.to_string(), scenario.to_string())).collect();
    assert_eq!(mutants_documented(), traps, "{BREAKS_PAGE}, mode idle");
}

#[test]
fn a_break_is_caught() {
    all_are_caught(&TRAPS[..1]);
}

#[test]
#[ignore = "more boots: make test-stress"]
fn each_break_is_caught() {
    all_are_caught(&TRAPS);
}

fn all_are_caught(traps: &[(&str, &str)]) {
    let mut survivors = Vec::new();
    let begun = Instant::now();
    for (mutant, scenario) in traps {
        let out = Scratch::new("oracle-mutant");
        let setting = format!("scenario={scenario}");
        let this = Instant::now();
        let said = lab(
            &out,
            &["held", "--set", &setting, "--units", "96", "--cpus", "8", "--nodes", "2", "--tlb", "hardware"],
            &kernel(&format!("abis_mutant={mutant}")),
        );
        let console = consoles(&out);
        assert!(console.contains(&format!("broken on purpose: {mutant}")), "{mutant}: {console}");
        match violation(&console) {
            Some(line) if said.code == 1 => {
                println!("{mutant:18} {scenario:9} {:3} s  {line}", this.elapsed().as_secs())
            }
            _ => {
                println!("{mutant:18} {scenario:9} SURVIVED, exit code {}", said.code);
                survivors.push(mutant);
            }
        }
    }
    let spent = begun.elapsed().as_secs();
    println!("{} breaks in {spent} s", traps.len());
    assert!(survivors.is_empty(), "not caught: {survivors:?}");
    // On a machine that does other things, too, time says nothing.
    let load = fs::read_to_string("/proc/loadavg").ok().and_then(|text| text.split(' ').next()?.parse().ok());
    let is_idle = load.unwrap_or(f64::MAX) < 2.0;
    assert!(!is_idle || spent <= MUTANTS_SECONDS, "{spent} s, {MUTANTS_SECONDS} allowed");
}

/// To whom their page tables are, although it is another process that makes them.
#[test]
#[ignore = "more boots: make test-stress"]
fn software_page_tables_are_charged() {
    let charged = |mode: &str| {
        let kernel = checked::chosen("ORACLE", "abis-debug", mode, "");
        let results = checked::clean(&["charged", "--cpus", "2", "--tlb", "hardware"], &kernel);
        let row = row(&results, "charged", 2);
        row["extra"]["charged_bytes"].as_f64().expect("charged") / row["units"].as_f64().expect("units")
    };
    let (off, idle) = (charged("off"), charged("idle"));
    println!("charged for a page table: {idle:.0} bytes, {off:.0} in mode off");
    assert!(off.abs() <= 100.0 && idle >= off + 1024.0, "{idle} bytes, {off} in mode off");
}

/// No oracle, no check, and the kernel says so.
#[test]
fn a_machine_without_the_oracle_checks_nothing() {
    let out = Scratch::new("oracle-stock");
    let args = ["elisions", "--units", "1024", "--set", "only=zap_idle", "--cpus", "2", "--tlb", "stock"];
    let said = lab(&out, &args, &kernel(""));
    assert_eq!(said.code, 0, "{}\n{}", said.stdout, said.stderr);
    let results = results(&out.0);
    let row = row(&results, "elisions", 2);
    assert!(counted(row, "zap_idle") >= 1024, "{row}");
    assert_eq!((row["checked"].as_u64(), row["violations"].as_u64()), (Some(0), Some(0)), "{row}");
    assert!(consoles(&out).contains("no TLB oracle here: nothing is checked"), "{}", consoles(&out));
}

/// How far a figure is from what it must be at most, as a share of the targets: what the controls are allowed.
const SLACK: f64 = 0.01;
/// Of 8 vCPUs, all but the caller's.
const TARGETS: f64 = 7.0;

/// The only row of a run in this mode, on TLBs that take no liberties.
fn plain(mode: &str, args: &[&str]) -> Value {
    let args = [args, &["--cpus", "8", "--tlb", "plain"]].concat();
    let results = checked::clean(&args, &checked::chosen("ORACLE", "abis-debug", mode, ""));
    row(&results, args[0], 8).clone()
}

/// In every repeat.
fn is(row: &Value, field: &str, expected: f64) {
    for end in ["min", "median", "max"] {
        let measured = row[field][end].as_f64().unwrap_or_else(|| panic!("no {field}: {row}"));
        let slack = SLACK * TARGETS;
        assert!((measured - expected).abs() <= slack, "{field} {end} is {measured}, not {expected}: {row}");
    }
}

/// So many targets are needed as CPUs hold the page, whatever a kernel sends.
#[test]
fn those_that_hold_the_page_are_needed() {
    needed_are_holders("off", TARGETS, &["3"]);
}

#[test]
#[ignore = "more boots: make test-stress"]
fn those_that_hold_the_page_are_needed_in_each_mode() {
    for (mode, received) in [("off", TARGETS), ("full", 0.0)] {
        needed_are_holders(mode, received, &["7", "3", "0"]);
    }
}

fn needed_are_holders(mode: &str, received: f64, holders: &[&str]) {
    let untouched = plain(mode, &["munmap"]);
    is(&untouched, "received_per_unit", received);
    is(&untouched, "needed_per_unit", 0.0);
    is(&untouched, "unasked_per_unit", 0.0);
    for text in holders {
        let shared = plain(mode, &["munmap-shared", "--set", &format!("holders={text}")]);
        println!("{mode}: {text} hold the page: needed {}", shared["needed_per_unit"]["median"]);
        let holders: f64 = text.parse().expect("a number");
        // A page that the caller alone has touched is private in mode full.
        is(&shared, "received_per_unit", if holders > 0.0 { TARGETS } else { received });
        is(&shared, "needed_per_unit", holders);
        is(&shared, "unasked_per_unit", 0.0);
    }
}

/// fork flushes everything, and asks nobody about it.
#[test]
#[ignore = "more boots: make test-stress"]
fn what_nobody_is_asked_about_counts_as_needed_and_as_unasked() {
    for mode in ["off", "full"] {
        let forked = plain(mode, &["fork"]);
        is(&forked, "unasked_per_unit", TARGETS);
        // The page that the parent then writes is asked about: the spinners do not hold it.
        is(&forked, "needed_per_unit", TARGETS);
        // On a busy host more: the parent writes further pages before its child has gone.
        let received = median(&forked, "received_per_unit");
        assert!(received >= 1.9 * TARGETS, "{received} received: {forked}");
    }
}

/// A kernel that could ask a machine, and a machine that cannot answer: not zero, but unknown.
#[test]
fn nobody_knows_what_is_needed_without_the_oracle() {
    let args = ["munmap", "--cpus", "2", "--tlb", "stock"];
    let results = checked::clean(&args, &checked::chosen("ORACLE", "abis-debug", "off", ""));
    let row = row(&results, "munmap", 2);
    assert!(close(median(row, "received_per_unit"), 1.0, SLACK), "{row}");
    for field in ["needed_per_unit", "unasked_per_unit"] {
        assert!(row[field].is_null(), "{field}: {row}");
    }
}

fn budget() -> u64 {
    let wanted = std::env::var("CEASEFIRE_STRESS_PAGES").ok();
    wanted.map_or(10_000_000, |text| text.parse().expect("CEASEFIRE_STRESS_PAGES is a number"))
}

#[test]
#[ignore = "long: make test-stress"]
fn stress_every_site_and_reason() {
    let shape = ["--cpus", "8", "--nodes", "2", "--tlb", "hardware"];
    let run = |args: &[&str]| {
        let results = clean(&[&["elisions"], args, &shape].concat());
        row(&results, "elisions", 8).clone()
    };
    let all = run(&["--units", "10240"]);
    every_pair_is_checked(&all, 10_000);
    // Then those that are made quickly, by turns.
    let quick = ["zap_idle", "protect_idle", "remap_idle", "migrate_idle"];
    let (mut checked, wanted) = (all["checked"].as_u64().expect("a debug kernel"), budget() / 10);
    for seed in 1u64.. {
        if checked >= wanted {
            break;
        }
        let only = format!("only={}", quick[seed as usize % quick.len()]);
        let row = run(&["--units", "100000", "--set", &only, "--seed", &seed.to_string()]);
        let more = row["checked"].as_u64().expect("a debug kernel");
        assert!(more >= 90_000, "{only}: {more} checked");
        checked += more;
        println!("{checked} of {wanted} elisions checked, {only}");
    }
}

/// The kernel that people run: it asks nobody, and does so faster.
fn stress_stale_reads(cpus: &str, threads: u64, thread_mode: &str, pages: u64) {
    let (pages, begun) = (pages.to_string(), Instant::now());
    let args = ["stale", "--units", &pages, "--cpus", cpus, "--nodes", "2", "--tlb", "hardware"];
    let args: Vec<&str> = args.into_iter().chain(["--thread-mode", thread_mode]).collect();
    let results = without_error(&args, &named("abis", ""));
    let row = row(&results, "stale", threads);
    let units = row["units"].as_f64().expect("units");
    let of_all = |figure: &Value| figure["median"].as_f64().expect("counted") * units;
    let elided = of_all(&row["elided"]["pages"]);
    println!(
        "stale {cpus} vCPUs {thread_mode}: {units} pages mapped, {:.0} flushes received, {elided:.0} pages elided, {} s",
        of_all(&row["received_per_unit"]),
        begun.elapsed().as_secs()
    );
    assert_eq!(row["extra"]["stale_reads"].as_f64(), Some(0.0), "{row}");
    assert!(elided > 0.0, "{row}");
}

#[test]
#[ignore = "long: make test-stress"]
fn stress_stale_reads_on_two_host_threads() {
    stress_stale_reads("2", 2, "multi", budget());
}

#[test]
#[ignore = "long: make test-stress"]
fn stress_stale_reads_round_robin() {
    // 1,000 pages a second, and 5 flushes received for each.
    stress_stale_reads("16", 16, "single", budget() / 10);
}

/// Everything at once, asked at every elision.
#[test]
#[ignore = "long: make test-stress"]
fn stress_of_all_kinds() {
    nobody_reads_stale("adversary", "2", 2, "multi", "100000", "20000");
    nobody_reads_stale("hardware", "16", 16, "single", "100000", "20000");
}
