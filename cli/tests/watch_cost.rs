// SPDX-License-Identifier: GPL-2.0-only
//! Does watching cost no more than it may, in time and in memory? On this machine, as root; on one that does other things,
//! too, time says nothing.
//!
//! CEASEFIRE_COST_ROUNDS=N: so many rounds of all settings (40).
//! CEASEFIRE_COST_MILLIONS=N: so many million shootdowns while memory is looked at (36: an hour of 10,000 a second).

mod common;
#[path = "common/empty_probes.rs"]
mod empty_probes;
#[path = "common/pty.rs"]
mod pty;

use common::{ceasefire, may_watch, succeed, Scratch, BINARY};
use pty::Pty;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Setting {
    name: &'static str,
    words: &'static [&'static str],
    /// What the median call may take, unwatched being 1.
    allowed: f64,
    /// Those of the observer that a call passes; for the floor each has a program that does nothing.
    tracepoints: &'static [&'static str],
}

const SETTINGS: [Setting; 3] = [
    Setting {
        name: "counts",
        words: &["stat", "--json", "--sender-only", "--no-stacks"],
        allowed: 1.08,
        tracepoints: &["tlb_flush", "csd_queue_cpu", "csd_function_entry", "call_function_single_entry"],
    },
    Setting {
        name: "latencies",
        words: &["stat", "--json", "--no-stacks"],
        allowed: 1.12,
        tracepoints: &[
            "tlb_flush",
            "csd_queue_cpu",
            "csd_function_entry",
            "csd_function_exit",
            "call_function_single_entry",
        ],
    },
    Setting {
        name: "both stacks",
        words: &["stacks", "--json", "--user-stacks"],
        allowed: 1.20,
        tracepoints: &["tlb_flush", "csd_queue_cpu", "csd_function_entry", "csd_function_exit"],
    },
];
const CALLS: &str = "100000";
const MEMORY_KIB_MAX: u64 = 60 << 10;
/// Allocators keep what they have touched: between two quarters of a run, so much may come.
const GROWTH_KIB_MAX: u64 = 1 << 10;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// One run of the storm: its median call, and what share of the kernel's row was seen where somebody watched.
fn call(words: &[&str]) -> (f64, Option<f64>) {
    let storm = ["watch", "storm", "madvise-dontneed", "--rounds", CALLS];
    let said = match words {
        [] => succeed(&mut ceasefire(&storm)),
        _ => succeed(&mut ceasefire(&[&["watch"], words, &["--", BINARY], &storm].concat())),
    };
    let lines: Vec<Value> = said.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let truth = lines.iter().find(|line| line["storm"].is_string()).expect("the storm's own words");
    let of = |report: &Value, class: &str, name: &str| {
        let classes = report["coverage"]["classes"].as_array().expect("classes");
        let row = classes.iter().find(|row| row["class"] == class).expect("the class");
        row[name].as_f64().expect("a number")
    };
    let share = lines.iter().find(|line| line["coverage"].is_object()).map(|report| {
        (of(report, "user", "queued") + of(report, "own", "queued")) / of(report, "user", "kernel")
    });
    (truth["call_ns_p50"].as_f64().expect("a time"), share)
}

/// The median, and the upper 95 % bound of it (order statistics).
fn median_and_bound(values: &mut [f64]) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let median = (values[(count - 1) / 2] + values[count / 2]) / 2.0;
    let bound = (count as f64 / 2.0 + 1.645 * (count as f64).sqrt() / 2.0).ceil() as usize;
    (median, values[bound.min(count - 1)])
}

enum Watched<'a> {
    Nothing,
    /// By programs that do nothing.
    Floor(&'a Setting),
    By(&'a Setting),
}

/// At the highest rate two CPUs reach. Each round has every setting once, in turn from either end; ratios are of a round.
/// The floor beside each is what BPF programs cost there that do nothing. "Nothing" is measured at both ends of a round.
#[test]
#[ignore = "wants an idle machine: make test-watch-cost"]
fn a_call_takes_little_longer_while_it_is_watched() {
    if !may_watch() {
        return;
    }
    let mut turns = vec![Watched::Nothing];
    turns.extend(SETTINGS.iter().flat_map(|setting| [Watched::Floor(setting), Watched::By(setting)]));
    turns.push(Watched::Nothing);
    let mut ratios: BTreeMap<(&str, bool), Vec<f64>> = BTreeMap::new();
    let mut unwatched_ns = Vec::new();
    let mut shares: Vec<f64> = Vec::new();
    for _ in 0..number("CEASEFIRE_COST_ROUNDS", 40) {
        let mut times = BTreeMap::new();
        let mut nothing_ns = 0.0;
        for turn in &turns {
            match turn {
                Watched::Nothing => nothing_ns += call(&[]).0 / 2.0,
                Watched::Floor(setting) => {
                    let probes = empty_probes::attach(setting.tracepoints).expect("programs at tracepoints");
                    times.insert((setting.name, false), call(&[]).0);
                    drop(probes);
                }
                Watched::By(setting) => {
                    let (ns, share) = call(setting.words);
                    times.insert((setting.name, true), ns);
                    shares.extend(share);
                }
            }
        }
        for (what, ns) in times {
            ratios.entry(what).or_default().push(ns / nothing_ns);
        }
        unwatched_ns.push(nothing_ns);
        turns.reverse();
    }
    let (call_ns, _) = median_and_bound(&mut unwatched_ns);
    let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
    let most = shares.iter().copied().fold(0.0, f64::max);
    println!("a call: {call_ns:.0} ns; saw {:.4} to {:.4} of the kernel's row", least, most);
    let mut over = Vec::new();
    for setting in &SETTINGS {
        let mut described = |is_watched| {
            let ratios = ratios.get_mut(&(setting.name, is_watched)).expect("ratios");
            let (median, bound) = median_and_bound(ratios);
            let (first, last) = (ratios[0], ratios[ratios.len() - 1]);
            (
                bound,
                format!("{median:.3}, at most {bound:.3} ({first:.3} to {last:.3}, {} rounds)", ratios.len()),
            )
        };
        let ((_, floor), (bound, watched)) = (described(false), described(true));
        println!(
            "{:12} {watched}; {} allowed\n{:12} {floor}: programs that do nothing",
            setting.name, setting.allowed, ""
        );
        if bound > setting.allowed {
            over.push(setting.name);
        }
    }
    assert!(least >= 0.999 && most <= 1.001, "coverage: {least} to {most}");
    assert!(over.is_empty(), "more than allowed: {over:?}");
}

struct Watching(Child);

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn resident_kib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix(" kB")?.parse().ok()
}

fn median(values: &[u64]) -> u64 {
    let mut values = values.to_vec();
    values.sort_unstable();
    values[values.len() / 2]
}

/// Processes come and go, each with threads, names and stacks of its own.
#[test]
#[ignore = "long: make test-watch-cost"]
fn memory_stays_where_it_is_for_an_hours_worth() {
    const EACH: u64 = 10_000;
    if !may_watch() {
        return;
    }
    let scratch = Scratch::new("cost");
    let record = scratch.0.join("record").to_string_lossy().into_owned();
    let start = |args: &[&str]| {
        let mut command = ceasefire(&[&["watch"], args].concat());
        Watching(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"))
    };
    let stat = start(&["stat", "1"]);
    let recorder = start(&["record", "--events", "-o", &record]);
    let top = Pty::spawn(Command::new(BINARY).args(["watch", "top"]).env("TERM", "xterm-256color"), 100, 40);
    let pids = [("stat", stat.0.id()), ("record", recorder.0.id()), ("top", top.id())];
    std::thread::sleep(Duration::from_secs(2));

    let is_over = Arc::new(AtomicBool::new(false));
    let sampler = std::thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            let mut samples: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
            while !is_over.load(Ordering::Relaxed) {
                for (verb, pid) in pids {
                    let kib = resident_kib(pid).unwrap_or_else(|| panic!("{verb} is gone"));
                    samples.entry(verb).or_default().push(kib);
                }
                std::thread::sleep(Duration::from_millis(500));
            }
            samples
        }
    });
    let (begun, storms) = (Instant::now(), number("CEASEFIRE_COST_MILLIONS", 36) * 1_000_000 / EACH);
    for _ in 0..storms {
        succeed(&mut ceasefire(&["watch", "storm", "madvise-dontneed", "--rounds", &EACH.to_string()]));
    }
    is_over.store(true, Ordering::Relaxed);
    let samples = sampler.join().expect("samples");
    println!("{} calls of {storms} processes in {} s", storms * EACH, begun.elapsed().as_secs());
    let mut wrong = Vec::new();
    for (verb, samples) in &samples {
        let quarter = samples.len() / 4;
        let quarters: Vec<u64> = samples.chunks(quarter.max(1)).take(4).map(median).collect();
        let most = samples.iter().copied().max().unwrap_or(0);
        println!("{verb:7} {quarters:?} KiB by quarters, at most {most}");
        if most > MEMORY_KIB_MAX || quarters[3] > quarters[1] + GROWTH_KIB_MAX {
            wrong.push(verb);
        }
    }
    assert!(wrong.is_empty(), "too much, or growing: {wrong:?}");
}
