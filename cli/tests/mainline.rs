// SPDX-License-Identifier: GPL-2.0-only
//! Does today's Linux boot in every shape, does it count as 6.12 counts, and does INVLPGB leave nobody to interrupt?

mod common;
use common::{ceasefire, lab_run, median, row, run, succeed, Scratch};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;

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
            // On threads of the host a vCPU runs something else in some of the calls: no control could hold.
            let workload = if thread_mode == "multi" { "munmap" } else { "exactly-n" };
            let results = mainline(&[workload, "--repeats", "1"], &more);
            let received = median(&results["rows"][0], "received_per_unit");
            assert!(received >= 0.9 * (cpus.parse::<f64>().expect("a number") - 1.0), "{results}");
            let flags = results["environment"]["cpu_flags"].as_str().expect("the guest's cpuinfo");
            assert_eq!(flags.split_whitespace().any(|flag| flag == "la57"), la57 == "on", "{flags}");
            println!("{cpus} vCPUs, thread={thread_mode}, la57={la57}: {received} received");
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
            // Rescheduling, as Linux counts it, and no timer: it may come for the kernel's own threads.
            let [user, other] =
                ["user_interrupts_per_unit", "other_ipis_per_unit"].map(|name| median(with, name));
            println!(
                "{workload} on {cpus}: {left} received by interrupts, none by INVLPGB; {user} came to user mode, \
                 {other} were sent for other reasons"
            );
            assert!(user <= other && other < 0.1, "{workload} on {cpus}: {user} of {other}");
            assert!(median(with, "tlbsync_per_unit") >= 0.9, "{with}");
        }
    }
}

/// One wait for each call, whoever holds what. The control says so, too.
#[test]
fn each_call_waits_once() {
    let results = mainline(&["exactly-n", "munmap", "--cpus", "8", "--repeats", "3"], &BROADCAST);
    let controls = results["controls"].as_array().expect("controls");
    assert!(!controls.is_empty() && controls.iter().all(|control| control["ok"] == true), "{controls:?}");
    let row = row(&results, "munmap", 8);
    for counter in ["invlpgb_per_unit", "tlbsync_per_unit"] {
        let count = median(row, counter);
        assert!((0.99..=1.05).contains(&count), "{counter}: {count}");
    }
    let targets = median(row, "broadcast_targets_per_unit");
    assert!((6.9..=7.4).contains(&targets), "{targets}");
}

/// More than three CPUs run the process, so Linux broadcasts; by turns, and on threads of the host. With `late` nothing
/// is done before TLBSYNC.
fn each_broadcast(ask: impl Fn(&[&str], &str)) {
    for (cpus, thread_mode) in [("8", "single"), ("4", "multi")] {
        for tlb in ["hardware,broadcast=early", "hardware,broadcast=late"] {
            let what = format!("{cpus} vCPUs, thread={thread_mode}, {tlb}");
            let machine = ["--tlb", tlb, "--cpus", cpus, "--thread-mode", thread_mode];
            ask(&[&machine[..], &["--mode", "invlpgb", "--repeats", "1"]].concat(), &what);
        }
    }
}

/// Frames change while others read: nobody reads what was there before.
#[test]
fn nobody_reads_stale_data() {
    each_broadcast(|machine, what| {
        for (workload, more) in [
            ("stale", &[][..]),
            ("stress-mix", &[]),
            ("stress-mix", &["--set", "hotplug=1"]),
            ("overlap", &[]),
        ] {
            let results = mainline(&[&[workload], more].concat(), machine);
            let waits = median(&results["rows"][0], "tlbsync_per_unit");
            println!("{workload} {more:?}, {what}: nothing stale, {waits} TLBSYNC a unit");
            assert!(waits > 0.0, "{results}");
        }
    });
}

/// A million questions, after the call has returned that took the pages away.
#[test]
fn nobody_holds_what_is_flushed() {
    each_broadcast(|machine, what| {
        let results = mainline(&["unheld", "--units", "4000"], machine);
        let row = &results["rows"][0];
        let asked = row["extra"]["asked_pages"].as_f64().expect("questions");
        println!("{asked} pages, {what}: nobody holds one");
        assert!(asked >= 250_000.0 && median(row, "tlbsync_per_unit") > 0.0, "{row}");
    });
}

/// A machine that does nothing at TLBSYNC is found out by the same question.
#[test]
fn a_machine_that_does_not_wait_is_found() {
    let broken = Scratch::new("mainline-qemu");
    let said = succeed(&mut ceasefire(&["lab", "run", "unheld", "--kernel", "mainline", "--dry-run"]));
    let qemu =
        said.stdout.split_whitespace().find(|word| word.ends_with("/qemu-system-x86_64")).expect("QEMU");
    let script = format!(
        "#!/bin/bash\nargs=(\"$@\")\nfor i in \"${{!args[@]}}\"; do\n\
         \t[ \"${{args[i]}}\" != -cpu ] || args[i+1]+=,tlb-mutant=tlbsync-does-nothing\ndone\n\
         exec {qemu} \"${{args[@]}}\"\n"
    );
    let path = broken.file("qemu", script.as_bytes());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    let path = path.to_string_lossy();
    let machine = ["--qemu", &path, "--tlb", "hardware,broadcast=late", "--cpus", "8", "--mode", "invlpgb"];
    let out = Scratch::new("mainline-broken");
    let dir = out.0.to_string_lossy();
    let args = ["lab", "run", "unheld", "--kernel", "mainline", "--repeats", "1", "--out", &dir];
    let said = run(&mut ceasefire(&[&args[..], &machine].concat()));
    assert!(said.code == 1 && said.stderr.contains("stale entry"), "{} {}", said.code, said.stderr);
}
