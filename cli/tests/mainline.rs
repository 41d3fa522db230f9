// SPDX-License-Identifier: GPL-2.0-only
//! Does today's Linux boot in every shape, does it count as 6.12 counts, and does INVLPGB leave nobody to interrupt?

mod common;
use common::{lab_run, median, row, Scratch};
use serde_json::Value;

/// With INVLPGB the control that must show N shows that nobody was interrupted, which is checked here and not by the lab.
const BROADCAST: [&str; 4] = ["--mode", "invlpgb", "--tlb", "hardware,broadcast=early"];
const INTERRUPTS: [&str; 4] = ["--mode", "ipi", "--tlb", "hardware,broadcast=early"];

fn mainline(args: &[&str], more: &[&str]) -> Value {
    let out = Scratch::new("mainline");
    let results = lab_run(&out, &[args, &["--kernel", "mainline"], more].concat());
    assert_eq!(results["failed"].as_array().map(Vec::len), Some(0), "{}", results["failed"]);
    results
}

#[test]
fn it_boots_in_every_shape() {
    let shapes = [("1", "single"), ("2", "single"), ("8", "single"), ("16", "single"), ("2", "multi")];
    for (cpus, thread_mode) in shapes {
        for la57 in ["off", "on"] {
            let more = ["--cpus", cpus, "--thread-mode", thread_mode, "--la57", la57, "--mode", "ipi"];
            let results = mainline(&["exactly-n", "--repeats", "1"], &more);
            let flags = results["environment"]["cpu_flags"].as_str().expect("the guest's cpuinfo");
            assert_eq!(flags.split_whitespace().any(|flag| flag == "la57"), la57 == "on", "{flags}");
            println!("{cpus} vCPUs, thread={thread_mode}, la57={la57}: the controls hold");
        }
    }
}

/// Every small workload runs, and those of which the theory is known interrupt whom they must.
#[test]
fn the_workloads_run_and_interrupt_as_ever() {
    let groups = ["control", "micro", "article", "lmbench", "writeback"];
    let results =
        mainline(&groups, &["--cpus", "8", "--repeats", "1", "--mode", "ipi", "--tlb", "adversary"]);
    assert_eq!(results["skipped"].as_array().map(Vec::len), Some(0), "{}", results["skipped"]);
    for (workload, wanted) in [
        ("munmap", 7.0),
        ("munmap-shared", 7.0),
        ("mprotect", 14.0),
        ("madvise-scaling", 7.0),
        ("cow-mt-seq", 7.0),
        ("msync-mt", 7.0),
        ("writeback", 7.0),
    ] {
        let received = median(row(&results, workload, 8), "received_per_unit");
        assert!((received / wanted - 1.0).abs() < 0.05, "{workload}: {received} received, not {wanted}");
    }
    let kernel_range = median(row(&results, "kernel-range", 8), "kernel_range_per_unit");
    assert!((6.5..=7.5).contains(&kernel_range), "{kernel_range}");
}

#[test]
fn real_programs_run() {
    for programs in ["apache", "memcached"] {
        let results = mainline(&[programs, "--repeats", "1"], &["--cpus", "8", "--mode", "ipi"]);
        let received = median(row(&results, programs, 8), "received_per_unit");
        println!("{programs}: {received} received");
        assert!(received > 0.0);
    }
}

/// Warm, nobody is interrupted for a flush, and programs that run are interrupted by nobody. The same kernel by interrupts
/// is what it is held against.
#[test]
fn with_invlpgb_nobody_is_interrupted() {
    let workloads =
        ["munmap", "munmap-shared", "mprotect", "madvise-scaling", "cow-mt-seq", "cow-mt-rand", "msync-mt"];
    for cpus in ["8", "16"] {
        let others = cpus.parse::<f64>().expect("a number") - 1.0;
        let args = [&workloads[..], &["--cpus", cpus, "--repeats", "1"]].concat();
        let broadcast = mainline(&args, &BROADCAST);
        let interrupts = mainline(&args, &INTERRUPTS);
        for workload in workloads {
            let threads = cpus.parse().expect("a number");
            let (with, without) = (row(&broadcast, workload, threads), row(&interrupts, workload, threads));
            let received = median(with, "received_per_unit");
            assert_eq!(received, 0.0, "{workload} on {cpus}: {with}");
            let left = median(without, "received_per_unit");
            assert!(left >= 0.95 * others, "{workload} on {cpus} by interrupts: {left}");
            let user = median(with, "user_interrupts_per_unit");
            println!(
                "{workload} on {cpus}: {left} received by interrupts, none by INVLPGB; {user} came to user mode"
            );
            assert!(user < 0.01, "{workload} on {cpus}: {user} interrupts came to user mode");
            assert!(median(with, "tlbsync_per_unit") >= 0.9, "{with}");
        }
    }
}

/// One wait for each call, whoever holds what.
#[test]
fn each_call_waits_once() {
    let results = mainline(&["munmap", "--cpus", "8", "--repeats", "3"], &BROADCAST);
    let row = row(&results, "munmap", 8);
    for counter in ["invlpgb_per_unit", "tlbsync_per_unit"] {
        let count = median(row, counter);
        assert!((0.99..=1.05).contains(&count), "{counter}: {count}");
    }
    let targets = median(row, "broadcast_targets_per_unit");
    assert!((6.9..=7.4).contains(&targets), "{targets}");
}

/// Frames change while others read: nobody reads what was there before, in turns and truly at once.
#[test]
fn nobody_reads_stale_data() {
    for (cpus, thread_mode) in [("8", "single"), ("2", "multi")] {
        for tlb in ["hardware,broadcast=early", "hardware,broadcast=late"] {
            let more = [
                "--mode",
                "invlpgb",
                "--tlb",
                tlb,
                "--cpus",
                cpus,
                "--thread-mode",
                thread_mode,
                "--repeats",
                "1",
            ];
            for workload in ["stale", "stress-mix", "overlap"] {
                mainline(&[workload], &more);
                println!("{workload}, {cpus} vCPUs, thread={thread_mode}, {tlb}: nothing stale");
            }
        }
    }
}
