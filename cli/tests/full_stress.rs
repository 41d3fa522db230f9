// SPDX-License-Identifier: GPL-2.0-only
//! Millions of elisions of mode full, each asked about, and an hour of everything at once.
//!
//! CEASEFIRE_STRESS_ELISIONS=N: so many elisions instead of 20 million, and for each site and reason N / 200.
//! CEASEFIRE_STRESS_MINUTES=N: so many minutes instead of 60.

mod common;
use common::checked::{self, counted};
use common::row;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Inserting and eliding whether it pays or not: else most of what is asked about would not happen.
fn kernel() -> Vec<String> {
    checked::chosen("FULL", "abis-debug", "full", "abis_adaptive=0")
}

fn wanted(variable: &str, usual: u64) -> u64 {
    std::env::var(variable)
        .map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

const SITES: [&str; 6] = ["zap", "clear_flush", "protect", "remap", "migrate", "reclaim"];
const REASONS: [&str; 3] = ["idle", "uncached", "private"];

/// More than it takes; a pair that nothing comes to must not run for ever.
const SEEDS_MOST: u64 = 100;

/// Workload, vCPUs, and what it is told. Together they come to every site and reason.
const KINDS: [(&str, u64, &str); 6] = [
    ("owner", 8, "--units 20000"),
    ("elisions", 8, "--units 32768"),
    ("overlap", 8, "--units 4000"),
    ("refault", 4, "--units 8000"),
    ("hidden", 4, "--units 8000"),
    ("stress-mix", 4, "--units 2000 --set hotplug=1 --set opt-in=1"),
];

fn run(workload: &str, vcpus: u64, told: &str, seed: u64) -> Value {
    let (vcpus_text, seed) = (vcpus.to_string(), seed.to_string());
    let args = [workload, "--cpus", &vcpus_text, "--nodes", "2", "--tlb", "hardware", "--seed", &seed];
    let args: Vec<&str> = args.into_iter().chain(told.split(' ')).collect();
    let results = checked::clean(&args, &kernel());
    let row = row(&results, workload, vcpus).clone();
    let stale = row["extra"]["stale_reads"].as_f64();
    assert!(stale.unwrap_or(0.0) == 0.0, "{row}");
    row
}

#[test]
#[ignore = "long: make test-full-stress"]
fn every_site_and_reason_is_asked_about() {
    let wanted = wanted("CEASEFIRE_STRESS_ELISIONS", 20_000_000);
    let (mut elisions, mut insertions) = (0, 0);
    let mut pairs: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let begun = Instant::now();
    for seed in 1.. {
        assert!(seed <= SEEDS_MOST, "too few after {SEEDS_MOST} seeds: {pairs:?}");
        for (workload, vcpus, told) in KINDS {
            let row = run(workload, vcpus, told, seed);
            elisions += row["checked"].as_u64().expect("a debug kernel");
            insertions += counted(&row, "insert_checked");
            for site in SITES {
                for reason in REASONS {
                    *pairs.entry((site, reason)).or_default() +=
                        counted(&row, &format!("{site}_checked_{reason}"));
                }
            }
        }
        let fewest = *pairs.values().min().expect("pairs");
        println!(
            "{elisions} of {wanted} elisions and {insertions} insertions checked, {fewest} of a site and reason at \
             least, {} min",
            begun.elapsed().as_secs() / 60
        );
        if elisions >= wanted && fewest >= wanted / 200 {
            break;
        }
    }
    for site in SITES {
        let [idle, uncached, private] = REASONS.map(|reason| pairs[&(site, reason)]);
        println!("| `{site}` | {idle} | {uncached} | {private} |");
    }
}

#[test]
#[ignore = "long: make test-full-stress"]
fn everything_at_once_for_an_hour() {
    let (wanted, begun) = (Duration::from_secs(60 * wanted("CEASEFIRE_STRESS_MINUTES", 60)), Instant::now());
    let mut elisions = 0;
    for seed in 1u64.. {
        // Now and then a host thread for each vCPU.
        let threads = if seed % 4 == 0 {
            "--units 1000 --repeats 8 --thread-mode multi"
        } else {
            "--units 4000 --repeats 8"
        };
        let told = format!("{threads} --set hotplug=1 --set ksm=1 --set thp=1");
        let row = run("stress-mix", 4, &told, seed);
        elisions += row["checked"].as_u64().expect("a debug kernel");
        println!("{elisions} elisions checked, {} min", begun.elapsed().as_secs() / 60);
        if begun.elapsed() >= wanted {
            break;
        }
    }
    assert!(elisions > 0, "nothing was elided");
}
