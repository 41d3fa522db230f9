// SPDX-License-Identifier: GPL-2.0-only
//! Does ABIS cost nothing while it is off, and save what it promises while it is on?

mod common;
use common::{lab_run, median, Scratch};
use serde_json::Value;

/// Where headline figures are measured (docs/reference/machine.md).
const MACHINE: [&str; 4] = ["--cpus", "8", "--tlb", "hardware"];
/// The same without the speculative walker, which walks for any present entry: it uses most pages of a small address
/// space between one call and the next, and used pages must be flushed.
const NO_SPECULATION: [&str; 4] = ["--cpus", "8", "--tlb", "hardware,speculation-us=0"];
/// A file of 56 MiB: the first rounds, which nobody can save, are a small share of its shootdowns.
const MMAP_READ_UNITS: &str = "14336";

fn rows<'a>(results: &'a Value, workload: &str) -> Vec<&'a Value> {
    let rows = results["rows"].as_array().expect("rows");
    rows.iter().filter(|row| row["workload"] == workload).collect()
}

/// The rows of a workload: vanilla where it was measured, then `off`, then `idle`.
fn by_mode<'a>(results: &'a Value, workload: &str, mode: Option<&str>) -> &'a Value {
    rows(results, workload)
        .into_iter()
        .find(|row| row["mode"].as_str() == mode)
        .unwrap_or_else(|| panic!("no row {workload} in mode {mode:?}"))
}

fn run(args: &[&str]) -> Value {
    run_on(&MACHINE, args)
}

fn run_on(machine: &[&str], args: &[&str]) -> Value {
    let out = Scratch::new("claim");
    let mut all = args.to_vec();
    all.extend(machine);
    lab_run(&out, &all)
}

fn share(measured: f64, base: f64) -> f64 {
    if base == 0.0 {
        return if measured == 0.0 { 0.0 } else { f64::INFINITY };
    }
    (measured - base) / base
}

/// Counts that differ by less than this per unit are rounding, timer ticks and kernel threads.
const NOISE_PER_UNIT: f64 = 0.02;

fn same_within_spread(vanilla: &Value, off: &Value, field: &str) {
    let end = |row: &Value, end: &str| row[field][end].as_f64().expect("counted");
    let low = end(vanilla, "min").min(end(off, "min"));
    let high = end(vanilla, "max").max(end(off, "max"));
    let spread = (end(vanilla, "max") - end(vanilla, "min")).max(end(off, "max") - end(off, "min"));
    let apart = (median(off, field) - median(vanilla, field)).abs();
    let allowed = spread.max(NOISE_PER_UNIT).max(0.01 * high);
    assert!(
        apart <= allowed,
        "{}: {field} is {} on vanilla and {} with off ({low} to {high})",
        vanilla["workload"],
        median(vanilla, field),
        median(off, field)
    );
}

#[test]
fn off_counts_what_vanilla_counts() {
    off_counts(&["exactly-n", "munmap-shared", "msync-mt"]);
}

#[test]
#[ignore = "more boots: make test-claim-all"]
fn off_counts_what_vanilla_counts_elsewhere() {
    off_counts(&["munmap", "mprotect"]);
}

fn off_counts(workloads: &[&str]) {
    let results = run(&[workloads, &["--kernel", "vanilla,abis:off", "--repeats", "3"]].concat());
    for workload in workloads {
        let (vanilla, off) = (by_mode(&results, workload, None), by_mode(&results, workload, Some("off")));
        assert_eq!(vanilla["checksum"], off["checksum"], "{workload} did other work");
        for field in ["requested_per_unit", "sent_per_unit", "received_per_unit", "other_ipis_per_unit"] {
            same_within_spread(vanilla, off, field);
        }
        let pages = off["elided"]["pages"]["max"].as_f64();
        assert_eq!(pages.unwrap_or(0.0), 0.0, "elided while off: {off}");
    }
}

#[test]
fn off_and_idle_cost_what_is_promised() {
    cost_is_as_promised(&["anon-r-seq", "munmap"]);
}

#[test]
#[ignore = "more boots: make test-claim-all"]
fn off_and_idle_cost_what_is_promised_elsewhere() {
    cost_is_as_promised(&["mprotect", "mmap-latency"]);
}

fn cost_is_as_promised(workloads: &[&str]) {
    let out = Scratch::new("claim-cost");
    let results = lab_run(
        &out,
        &[workloads, &["--kernel", "vanilla,abis:off,abis:idle", "--cost", "--repeats", "1"]].concat(),
    );
    for workload in workloads {
        let cost = |mode, field: &str| median(by_mode(&results, workload, mode), field);
        for field in ["instructions_per_unit", "cycles_modelled_per_unit"] {
            let vanilla = cost(None, field);
            let off = share(cost(Some("off"), field), vanilla);
            let idle = share(cost(Some("idle"), field), vanilla);
            println!(
                "{workload}: {field} {vanilla:.1}, off {:+.2} %, idle {:+.2} %",
                off * 100.0,
                idle * 100.0
            );
            // It may be a little cheaper than the unchanged kernel: gcc assigns registers otherwise.
            let allowed = -0.015..=0.005;
            assert!(allowed.contains(&off), "{workload}: {field} with off differs by {:.2} %", off * 100.0);
            if ["anon-r-seq", "munmap"].contains(workload) {
                assert!(idle <= 0.02, "{workload}: {field} with idle rises by {:.2} %", idle * 100.0);
            }
        }
    }
}

#[test]
#[ignore = "more boots: make test-claim-all"]
fn idle_saves_what_reclaim_unmaps() {
    // Boots differ more than repeats: 0.92 to 0.98 in one.
    let boots = ["--boots", "3", "--repeats", "3"];
    let args = ["mmap-read", "--units", MMAP_READ_UNITS, "--kernel", "abis:off,abis:idle"];
    let results = run(&[&args[..], &boots].concat());
    let (off, idle) =
        (by_mode(&results, "mmap-read", Some("off")), by_mode(&results, "mmap-read", Some("idle")));
    let saved = -share(median(idle, "received_per_unit"), median(off, "received_per_unit"));
    println!("mmap-read: received {:.1} % less", saved * 100.0);
    assert!(saved >= 0.95, "only {:.1} % less was received", saved * 100.0);
    // A gain may not simply move.
    for field in ["other_ipis_per_unit", "local_full_per_unit", "walks_per_unit", "kernel_range_per_unit"] {
        let (before, after) = (median(off, field), median(idle, field));
        assert!(after <= before * 1.05 + NOISE_PER_UNIT, "{field} rose from {before} to {after}");
    }
    assert_eq!(off["checksum"], idle["checksum"]);
}

#[test]
#[ignore = "more boots: make test-claim-all"]
fn what_was_written_back_is_unmapped_for_free() {
    for pages in ["1", "32", "512"] {
        let set = format!("pages={pages}");
        let args = ["msync-munmap", "--kernel", "abis:off,abis:idle", "--set", &set, "--repeats", "2"];
        let results = run_on(&NO_SPECULATION, &args);
        let mode = |mode| by_mode(&results, "msync-munmap", Some(mode));
        let received = |row| median(row, "received_per_unit");
        println!("munmap of {pages}: received {}, then {}", received(mode("off")), received(mode("idle")));
        assert!(received(mode("off")) >= 6.9, "off: {}", mode("off"));
        assert_eq!(mode("idle")["received_per_unit"]["max"].as_f64(), Some(0.0), "{}", mode("idle"));
    }
}

/// A run of `idle-pages`.
fn idle_pages(kernel: &str, op: &str, clear: &str, rounds: u64, units: u32, pages: u32, seed: u32) -> Value {
    let (units, seed) = (units.to_string(), seed.to_string());
    let sets =
        [format!("op={op}"), format!("clear={clear}"), format!("rounds={rounds}"), format!("pages={pages}")];
    let mut args = vec![
        "idle-pages",
        "--kernel",
        kernel,
        "--nodes",
        "2",
        "--units",
        &units,
        "--seed",
        &seed,
        "--repeats",
        "1",
    ];
    args.extend(sets.iter().flat_map(|set| ["--set", set.as_str()]));
    by_mode(&run(&args), "idle-pages", Some("idle")).clone()
}

/// Share of the pages that were elided.
fn elided(kernel: &str, op: &str, clear: &str, rounds: u64) -> f64 {
    // Without rounds the first flush tells: migration and reclaim flush fully, reclaim of written pages one by one.
    let units = if rounds == 0 { 1 } else { 32 };
    // So does the classic LRU when it takes pages beside those whose bits it clears.
    let pages = if rounds == 0 && (op == "reclaim" || clear == "classic") { 1 } else { 32 };
    let all = f64::from(units * pages);
    for seed in 1..=8 {
        let row = idle_pages(kernel, op, clear, rounds, units, pages, seed);
        let cleared = match clear {
            "classic" => row["extra"]["cleared_pages"].as_f64().expect("counted"),
            _ => all,
        };
        if cleared < 0.5 * all {
            println!("{op} after {clear}: reclaim took the pages, once more");
            continue;
        }
        let elided = row["elided"]["pages"]["median"].as_f64().expect("counted") * f64::from(units);
        println!("{op} after {clear} and {rounds} rounds: {:.1} % elided", elided / cleared * 100.0);
        return elided / cleared;
    }
    panic!("{clear} takes the pages whose bits it should clear");
}

fn matrix(kernel: &str, clear: &str) {
    for op in ["munmap", "mprotect", "migrate", "reclaim"] {
        assert_eq!(elided(kernel, op, clear, 0), 0.0, "{op} after {clear} without a round");
        let share = elided(kernel, op, clear, 2);
        assert!(share >= 0.9, "{op} after {clear} and two rounds: {share}");
    }
}

#[test]
#[ignore = "more boots: make test-claim-all"]
fn idle_pages_change_for_free_after_two_rounds_and_never_before() {
    matrix("abis:idle", "page-idle");
}

#[test]
#[ignore = "more boots: make test-claim-all"]
fn whoever_cleared_the_bits() {
    matrix("abis:idle", "mglru");
}

/// Eight boots a clearer more: run by name.
#[test]
#[ignore = "more boots: make test-claim-all"]
fn even_the_classic_lru() {
    matrix("abis:idle", "classic");
}

/// The debug kernel has DAMON; in the others it would be a thread more.
#[test]
#[ignore = "more boots: make test-claim-all"]
fn even_damon() {
    matrix("abis-debug:idle", "damon");
}

/// prctl(PR_SET_ABIS, 0)
#[test]
fn a_process_that_refuses_is_flushed_as_ever() {
    let args = ["idle-pages", "--kernel", "abis:idle", "--units", "32", "--repeats", "1"];
    let refused: Vec<&str> = args.iter().copied().chain(["--set", "refuse=1"]).collect();
    // A region is flushed for one page that somebody used, and the speculative walker uses some.
    let (with, without) = (run_on(&NO_SPECULATION, &args), run_on(&NO_SPECULATION, &refused));
    let row = |results| median(by_mode(results, "idle-pages", Some("idle")), "received_per_unit");
    let pages = |results| by_mode(results, "idle-pages", Some("idle"))["elided"]["pages"]["median"].as_f64();
    assert!(row(&with) < 1.0 && pages(&with) > Some(0.0), "{with}");
    assert!(row(&without) >= 6.9, "{without}");
    assert_eq!(pages(&without), Some(0.0), "{without}");
}

#[test]
fn what_everyone_uses_gains_nothing() {
    let workloads = ["munmap-shared", "idle-shared"];
    let mut args = workloads.to_vec();
    args.extend(["--kernel", "abis:off,abis:idle", "--repeats", "2"]);
    let results = run(&args);
    for workload in workloads {
        let (off, idle) =
            (by_mode(&results, workload, Some("off")), by_mode(&results, workload, Some("idle")));
        let gain = -share(median(idle, "received_per_unit"), median(off, "received_per_unit"));
        println!("{workload}: received {:.2} % less", gain * 100.0);
        assert!(gain.abs() <= 0.02, "{workload} gains {:.1} %: it cannot", gain * 100.0);
    }
}
