// SPDX-License-Identifier: GPL-2.0-only
//! Does Linux for PowerPC boot and run the workloads, counted as those of x86 are? Run by `make test-powerpc`.

mod common;
use common::{ceasefire, lab_run, median, run, succeed, Scratch};
use serde_json::Value;

fn measured(args: &[&str]) -> Value {
    let out = Scratch::new("powerpc");
    let results = lab_run(&out, &[args, &["--kernel", "ppc"]].concat());
    assert_eq!(results["failed"].as_array().map(Vec::len), Some(0), "{}", results["failed"]);
    results
}

fn rows(results: &Value) -> &[Value] {
    results["rows"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Of their workloads, in order.
fn names(of: &[Value]) -> Vec<&str> {
    let mut names: Vec<&str> = of.iter().filter_map(|one| one["workload"].as_str()).collect();
    names.sort_unstable();
    names
}

/// The small workloads that run on one CPU, by name.
const SMALL: [&str; 18] = [
    "anon-r-seq",
    "barrier",
    "context-switch",
    "cow-mt-rand",
    "cow-mt-seq",
    "exactly-n",
    "exec",
    "file-reread",
    "fork",
    "mmap-latency",
    "mprotect",
    "munmap",
    "munmap-shared",
    "pipe",
    "pipe-latency",
    "spaces",
    "turns",
    "zero",
];
/// What this kernel or board has not: secret memory, a file system on a disk, stacks in vmalloc memory, a second node.
const SKIPPED: [&str; 5] = ["kernel-range", "migrate", "mmap-read", "msync-mt", "vmalloc-stacks"];

/// Every small workload that can run with one CPU does, and what x86 alone has is unknown, not zero.
#[test]
fn small_workloads_run_on_one_cpu() {
    let results = measured(&["control", "micro", "lmbench", "context", "--repeats", "1", "--units", "16"]);
    let skipped = results["skipped"].as_array().map(Vec::as_slice).unwrap_or_default();
    assert_eq!(names(rows(&results)), SMALL, "{}", results["skipped"]);
    assert_eq!(names(skipped), SKIPPED, "{}", results["skipped"]);
    for row in rows(&results) {
        for field in ["sent_per_unit", "received_per_unit", "received_irq_per_unit", "walks_per_unit"] {
            assert!(row[field].is_null(), "{field}: {row}");
        }
        assert_eq!(row["vcpus"], 1, "{row}");
        assert!(row["tlb"].is_null() && row["la57"].is_null(), "{row}");
        assert!(row["faults_per_unit"]["median"].is_number(), "{row}");
    }
    for field in ["pcid", "invpcid", "pti"] {
        assert!(results["environment"][field].is_null(), "{field}");
    }
    assert_eq!(results["environment"]["qemu"]["memory_mib"], 64);
    assert_eq!(results["environment"]["qemu"]["cpu"], "604,tlb-model=on,tlb-oracle=on");
}

/// A load and a store that fault go on behind themselves, which is assembler of this processor's own.
#[test]
fn faults_are_survived_and_told() {
    let results =
        measured(&["numa-regions", "--repeats", "1", "--units", "64", "--set", "op=munmap,mprotect"]);
    let sets: Vec<&str> = rows(&results).iter().filter_map(|row| row["set"].as_str()).collect();
    assert_eq!(sets, ["op=munmap", "op=mprotect"], "{results}");
}

/// Each repeat is a boot. A call alone costs less than its unit, and one of more pages more.
#[test]
fn instructions_repeat_across_boots() {
    let set = ["--set", "pages=1,64", "--set", "apart=1"];
    let args = [&["munmap", "--cost", "--repeats", "2", "--units", "200"], &set[..]].concat();
    let results = measured(&args);
    let rows = rows(&results);
    assert_eq!(rows.len(), 2, "{results}");
    let mut calls = Vec::new();
    for row in rows {
        let spread = &row["instructions_per_unit"];
        let [min, unit, max] = ["min", "median", "max"].map(|end| spread[end].as_f64().expect("counted"));
        let call = row["extra"]["munmap_instructions"].as_f64().expect("counted apart");
        println!("{}: {unit:.1} instructions per unit, {call:.1} of them munmap", row["set"]);
        assert!((max - min) / unit <= 0.002, "{row}");
        assert!(call > 500.0 && call < unit, "{row}");
        calls.push(call);
    }
    assert!(calls[1] > 3.0 * calls[0], "{calls:?}");
}

/// A range that nobody has touched costs no more than a few instructions for each page.
#[test]
fn what_nobody_touched_costs_little() {
    let set = ["--set", "pages=1,1024", "--set", "touch=none", "--set", "apart=1"];
    let args = [&["mmap-latency", "--cost", "--repeats", "1"], &set[..]].concat();
    let results = measured(&args);
    let [one, many] = [0, 1].map(|row| median(&rows(&results)[row], "instructions_per_unit"));
    println!("{one:.1} instructions for 1 page, {many:.1} for 1,024");
    assert!(one > 1000.0 && many < one + 20.0 * 1023.0, "{one} {many}");
}

/// Processes that sleep between their turns, with a working set each: all words are right.
#[test]
fn processes_take_turns_and_sleep() {
    let results = measured(&["turns", "--repeats", "2", "--units", "160", "--set", "sleep_us=2000"]);
    let [row] = rows(&results) else { panic!("{results}") };
    assert_eq!(row["repeats"], 2, "{row}");
    let skipped = ["turns", "--kernel", "ppc", "--cost", "--set", "sleep_us=2000", "--repeats", "1"];
    let out = Scratch::new("powerpc-skip");
    let out = out.0.to_string_lossy().into_owned();
    let said = run(&mut ceasefire(&[&["lab", "run"], &skipped[..], &["--out", &out]].concat()));
    assert_eq!(said.code, 4, "{}", said.stderr);
    let wrong = ["turns", "--kernel", "ppc", "--set", "wrong=3", "--repeats", "1", "--out", &out];
    let said = run(&mut ceasefire(&[&["lab", "run"], &wrong[..]].concat()));
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stderr.contains("a word was wrong"), "{}", said.stderr);
}

/// The guest has words of its own where this machine's shell cannot go along.
#[test]
fn a_command_runs_in_the_guest() {
    let said =
        succeed(&mut ceasefire(&["lab", "shell", "--kernel", "ppc", "--command", "cat /proc/cpuinfo"]));
    assert!(said.stdout.contains("604"), "{}", said.stdout);
}
