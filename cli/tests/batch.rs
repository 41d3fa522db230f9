// SPDX-License-Identifier: GPL-2.0-only
//! Batched write-back: does one flush serve many pages, is each page that is cleaned without a flush one that nobody can
//! write, and is each deliberate break found?
//!
//! CEASEFIRE_BATCH_KERNEL=NAME: another kernel with CONFIG_WRITEBACK_BATCH_DEBUG in place of `batch-debug`.
//! CEASEFIRE_BATCH_IMAGE=FILE: a bzImage of such a kernel.

mod common;
use common::checked::{self, consoles, lab};
use common::{median, row, Scratch};
use serde_json::Value;

const EIGHT: [&str; 2] = ["--cpus", "8"];
const MACHINE: [&str; 2] = ["--tlb", "hardware"];

fn kernel(mode: &str, more: &str) -> Vec<String> {
    checked::chosen("BATCH", "batch-debug", mode, more)
}

fn clean(args: &[&str], mode: &str) -> Value {
    checked::clean(&[args, &MACHINE].concat(), &kernel(mode, ""))
}

fn batch_counter(row: &Value, name: &str) -> f64 {
    row["mechanisms"]["batch"][name]["max"].as_f64().unwrap_or_else(|| panic!("no counter {name}: {row}"))
        * row["units"].as_f64().expect("units")
}

fn sent(results: &Value, workload: &str) -> f64 {
    median(row(results, workload, 8), "sent_per_unit")
}

/// A shootdown for each page without, hardly any with.
fn one_flush_serves_many(by: &str, fs: &str) {
    let args = [&["writeback", "--set", by, "--set", fs], &EIGHT[..]].concat();
    let (off, on) = (clean(&args, "off+off"), clean(&args, "off+on"));
    let (off, on, row) = (sent(&off, "writeback"), sent(&on, "writeback"), row(&on, "writeback", 8));
    println!("{by} {fs}: {off:.3} sent a page, {on:.4} with batching");
    assert!(off > 0.95, "{by} {fs}: {off}");
    assert!(on <= 0.01, "{by} {fs}: {on}");
    assert!(batch_counter(row, "checked") > 1000.0, "{row}");
}

#[test]
fn one_flush_serves_many_pages() {
    one_flush_serves_many("by=kworker", "fs=ext4");
}

#[test]
#[ignore = "more boots: make test-batch-all"]
fn one_flush_serves_many_pages_whoever_writes_back() {
    for by in ["by=msync", "by=fsync", "by=sync_file_range", "by=kworker"] {
        for fs in ["fs=ext2", "fs=ext4"] {
            one_flush_serves_many(by, fs);
        }
    }
}

/// A single page, and a process that refuses, are as in Linux.
#[test]
fn what_is_left_to_linux_is_as_in_linux() {
    let single = clean(&[&["msync-mt", "--units", "400"], &EIGHT[..]].concat(), "off+on");
    assert!(sent(&single, "msync-mt") > 0.95, "{single}");
    let refused =
        clean(&[&["writeback", "--set", "refuse=1", "--units", "1024"], &EIGHT[..]].concat(), "off+on");
    assert!(sent(&refused, "writeback") > 0.95, "{refused}");
    assert!(batch_counter(row(&refused, "writeback", 8), "refused") >= 1.0, "{refused}");
}

/// Kernel address space: the article's factor.
#[test]
fn a_slab_is_one_flush_or_one_for_each_page() {
    for (by, expected) in [("by=range", 1.0), ("by=pages", 32.0)] {
        let results = clean(&[&["slabs", "--set", by], &EIGHT[..]].concat(), "off+off");
        let sent = median(row(&results, "slabs", 8), "kernel_sent_per_unit");
        println!("{by}: {sent} kernel-range shootdowns a slab");
        assert!(common::close(sent, expected, 0.02), "{by}: {sent}");
    }
}

/// Nothing is lost, and every page that is cleaned without a flush is asked about; with ABIS in each mode.
#[test]
#[ignore = "more boots: make test-batch-all"]
fn nothing_is_lost() {
    nothing_is_lost_in("full+on");
}

#[test]
#[ignore = "more boots: make test-batch-all"]
fn nothing_is_lost_in_the_other_modes() {
    nothing_is_lost_in("off+on");
    nothing_is_lost_in("idle+on");
}

fn nothing_is_lost_in(mode: &str) {
    let results = clean(&["synced", "--cpus", "8", "--nodes", "2"], mode);
    let row = row(&results, "synced", 8);
    let checked = batch_counter(row, "checked");
    let promises = row["extra"]["checked_promises"].as_f64().unwrap_or(0.0);
    println!("{mode}: {promises} promises kept; {checked} pages cleaned without a flush, each asked about");
    assert!(checked >= 2000.0 && promises >= 10000.0, "{mode}: {row}");
}

/// Each break, and whether the machine finds it, or the data alone.
const BREAKS: [(&str, bool); 5] = [
    ("unflushed", true),
    ("pending-ignored", true),
    ("clean-early", false),
    ("write-left", true),
    ("mapping-forgotten", false),
];

/// What is lost depends on who comes in between: `clean-early` is found in every other run.
const TRIES: u32 = 16;

#[test]
fn breaks_are_found() {
    is_found("unflushed");
    is_found("write-left");
}

#[test]
#[ignore = "more boots: make test-batch-all"]
fn each_break_is_found() {
    BREAKS.iter().for_each(|(mutant, _)| is_found(mutant));
}

fn is_found(mutant: &str) {
    let (_, is_asked) = BREAKS.into_iter().find(|(name, _)| *name == mutant).expect("a break");
    let found = (1..=TRIES).find_map(|seed| find(mutant, seed).map(|by_machine| (seed, by_machine)));
    let Some((tries, by_machine)) = found else { panic!("{mutant}: not found in {TRIES} tries") };
    let whom = if by_machine { "the machine" } else { "the data" };
    println!("{mutant}: found by {whom}, try {tries}");
    assert_eq!(by_machine, is_asked, "{mutant}");
}

/// Whether the run fails, and then whether by the machine's answer.
fn find(mutant: &str, seed: u32) -> Option<bool> {
    let out = Scratch::new("batch-mutant");
    let seed = seed.to_string();
    let args = [&["synced", "--cpus", "8", "--seed", &seed], &MACHINE[..]].concat();
    let said = lab(&out, &args, &kernel("off+on", &format!("batch_mutant={mutant}")));
    let console = consoles(&out);
    assert!(console.contains(&format!("broken on purpose: {mutant}")), "{mutant}: {console}");
    if said.code == 0 {
        return None;
    }
    let by_machine = console.contains("which is being cleaned");
    let by_data = said.stderr.contains("in the store after");
    assert!(said.code == 1 && (by_machine || by_data), "{mutant}: {}\n{}", said.stdout, said.stderr);
    Some(by_machine)
}
