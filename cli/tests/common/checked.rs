// SPDX-License-Identifier: GPL-2.0-only
//! Kernels that ask the machine, at every flush that they leave out, who holds the entry.

use super::{ceasefire, results, run, succeed, Said, Scratch};
use serde_json::Value;
use std::fs;

/// Each break of the debug kernel that mode `idle` has, and the scenario of `held` that it must fail in.
pub const TRAPS: [(&str, &str); 11] = [
    ("gap-none", "fresh"),
    ("in-flight-ignored", "racing"),
    ("naive-credit", "racing"),
    ("early-credit", "fresh"),
    ("partial-round", "ranged"),
    ("never-is-zero", "unstamped"),
    ("epoch-ignored", "switched"),
    ("accessed-ignored", "used"),
    ("clear-unstamped", "again"),
    ("uncached-unflushed", "fresh"),
    ("software-bit", "synced"),
];

/// Breaks of ABIS that show only where page tables are replicated: tests/composed.rs.
pub const BREAKS_WITH_REPLICAS: [&str; 3] =
    ["hidden-unrevealed", "hidden-again-nofault", "request-hides-replicated"];

/// Warnings are shown.
const WORDS: &str = "loglevel=5";

/// A kernel, as `lab run` and `lab shell` take it, in this mode, with more words on its command line. One that batches
/// write-back, too, does not where nothing is said of that; one that replicates page tables, too, does.
pub fn named(kernel: &str, mode: &str, more: &str) -> Vec<String> {
    let more_mode = match kernel {
        _ if mode.contains('+') => "",
        _ if kernel.starts_with("batch") => "+off",
        _ if kernel.starts_with("abis-numapte") => "+on",
        _ => "",
    };
    let mode = format!("{mode}{more_mode}");
    let words = format!("{WORDS} {more}");
    ["--kernel", kernel, "--mode", &mode, "--kernel-args", &words].map(String::from).to_vec()
}

/// What CEASEFIRE_…_IMAGE or CEASEFIRE_…_KERNEL says, or this one.
pub fn chosen(variables: &str, kernel: &str, mode: &str, more: &str) -> Vec<String> {
    match std::env::var(format!("CEASEFIRE_{variables}_IMAGE")) {
        Ok(image) => {
            vec![
                "--kernel-image".into(),
                image,
                "--kernel-args".into(),
                format!("{} {WORDS} {more}", boot_words(mode)),
            ]
        }
        Err(_) => {
            let other = std::env::var(format!("CEASEFIRE_{variables}_KERNEL"));
            named(other.as_deref().unwrap_or(kernel), mode, more)
        }
    }
}

/// Of ABIS; `full+on` is of a kernel that batches write-back, too.
fn boot_words(mode: &str) -> String {
    match mode.split_once('+') {
        Some((abis, batch)) => format!("abis={abis} batch={batch}"),
        None => format!("abis={mode}"),
    }
}

pub fn lab(out: &Scratch, args: &[&str], kernel: &[String]) -> Said {
    let dir = out.0.to_string_lossy().into_owned();
    let mut all = vec!["lab", "run", "--out", &dir];
    if !args.contains(&"--repeats") {
        all.extend(["--repeats", "1"]);
    }
    all.extend(args);
    all.extend(kernel.iter().map(String::as_str));
    run(&mut ceasefire(&all))
}

pub fn shell(command: &str, args: &[&str], kernel: &[String]) -> String {
    let mut all = vec!["lab", "shell", "--command", command];
    all.extend(args);
    all.extend(kernel.iter().map(String::as_str));
    succeed(&mut ceasefire(&all)).stdout
}

/// A run without a violation; its rows, and what it counted.
pub fn clean(args: &[&str], kernel: &[String]) -> Value {
    let results = without_error(args, kernel);
    for row in results["rows"].as_array().expect("rows") {
        assert_eq!(row["violations"].as_u64(), Some(0), "{row}");
    }
    results
}

/// Linux 6.12's account of the fair server's bandwidth goes below zero now and then, when CPUs come and go on a host that
/// has other work (seen twice in some 60 runs, in code that no patch of ours touches). The guest stops at any warning.
fn is_fault_of_linux(console: &str) -> bool {
    let first = console.lines().find(|line| line.contains("WARNING: ") || line.contains("BUG: "));
    first.is_some_and(|line| line.contains(" at kernel/sched/deadline.c:"))
}

pub fn without_error(args: &[&str], kernel: &[String]) -> Value {
    let once = || {
        let out = Scratch::new("checked");
        let said = lab(&out, args, kernel);
        let console = consoles(&out);
        (out, said, console)
    };
    let (mut out, mut said, mut console) = once();
    for _ in 1..3 {
        if said.code != 0 && is_fault_of_linux(&console) {
            println!("once more: the guest met a fault of Linux itself: {args:?}");
            (out, said, console) = once();
        }
    }
    assert_eq!(said.code, 0, "{args:?}\n{}\n{}\n{console}", said.stdout, said.stderr);
    assert!(!console.contains("could not be set back"), "{args:?}\n{console}");
    results(&out.0)
}

/// What the guests' kernels said.
pub fn consoles(out: &Scratch) -> String {
    let Ok(files) = fs::read_dir(out.0.join("logs")) else { return String::new() };
    let paths = files.filter_map(|file| Some(file.ok()?.path()));
    let of_console = paths.filter(|path| path.extension().is_some_and(|end| end == "console"));
    of_console.map(|path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()).collect()
}

/// The kernel's own sentence about an elision that was wrong.
pub fn violation(console: &str) -> Option<&str> {
    console.lines().find(|line| line.contains(" elided (") && line.contains("holds it: pte "))
}

/// Rows carry figures per unit.
pub fn counted(row: &Value, name: &str) -> u64 {
    let units = row["units"].as_f64().expect("units");
    row["mechanisms"]["abis"][name]["max"].as_f64().map_or(0, |per_unit| (per_unit * units).round() as u64)
}

/// The breaks that a debug kernel knows, from its own list.
pub fn mutants(list: &str) -> Vec<String> {
    let names = list.split_whitespace().map(|name| name.trim_matches(['[', ']']).to_string());
    names.filter(|name| name != "none").collect()
}
