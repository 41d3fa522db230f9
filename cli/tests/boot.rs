// SPDX-License-Identifier: GPL-2.0-only
//! Does the guest boot, in every shape we use?

mod common;
use common::{ceasefire, lab_run, median, refused, row, run, skip, succeed, Scratch};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Boots, sees that the guest has what `--la57` says, and that PCID and INVPCID are in its cpuinfo.
fn boots_with_pcid(cpus: &str, thread_mode: &str, la57: &str) {
    let begun = Instant::now();
    let results = boots(&["--cpus", cpus, "--thread-mode", thread_mode, "--la57", la57]);
    let environment = &results["environment"];
    let flags: Vec<&str> =
        environment["cpu_flags"].as_str().expect("the guest's cpuinfo").split_whitespace().collect();
    let shape = format!("{cpus} vCPUs, thread={thread_mode}, la57={la57}");
    assert!(flags.contains(&"pcid") && flags.contains(&"invpcid"), "{shape}: {flags:?}");
    assert_eq!(flags.contains(&"la57"), la57 == "on", "{shape}: {flags:?}");
    assert_eq!(environment["qemu"]["thread_mode"], thread_mode);
    if thread_mode == "single" {
        assert_eq!(environment["qemu"]["slice_us"], 1000, "{shape}");
    }
    println!("{shape}: {} s", begun.elapsed().as_secs());
}

fn boots(args: &[&str]) -> serde_json::Value {
    let out = Scratch::new("boot");
    let mut all = vec!["zero", "--repeats", "1"];
    all.extend(args);
    let results = lab_run(&out, &all);
    assert_eq!(results["failed"].as_array().map(Vec::len), Some(0), "{results}");
    results
}

/// Each of these in some boot; `every_shape` has each with each.
#[test]
fn pcid_and_five_levels() {
    for (cpus, thread_mode, la57) in [("1", "single", "off"), ("2", "multi", "on"), ("8", "single", "on")] {
        boots_with_pcid(cpus, thread_mode, la57);
    }
}

#[test]
#[ignore = "long: make test-shapes"]
fn every_shape() {
    for cpus in ["1", "2", "8", "16"] {
        for thread_mode in ["single", "multi"] {
            for la57 in ["off", "on"] {
                boots_with_pcid(cpus, thread_mode, la57);
            }
        }
    }
}

#[test]
fn sixteen_vcpus_in_four_nodes() {
    let results = boots(&["--cpus", "16", "--nodes", "4"]);
    assert_eq!(row(&results, "zero", 16)["nodes"], 4);
}

#[test]
fn one_command_in_the_guest() {
    let said = succeed(&mut ceasefire(&["lab", "shell", "--cpus", "2", "--command", "cat /proc/cpuinfo"]));
    assert_eq!(said.stdout.matches("processor\t").count(), 2, "{}", said.stdout);
    refused(&mut ceasefire(&["lab", "shell", "--command", "cat /no/such/file"]), 1, "");
}

/// Twice as many busy threads as the machine has CPUs, until dropped.
struct Busy(&'static AtomicBool, Vec<std::thread::JoinHandle<()>>);

impl Busy {
    fn new() -> Busy {
        let is_over: &AtomicBool = Box::leak(Box::default());
        let threads = 2 * std::thread::available_parallelism().map_or(1, usize::from);
        let spin = move || while !is_over.load(Ordering::Relaxed) {};
        Busy(is_over, (0..threads).map(|_| std::thread::spawn(spin)).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.drain(..).for_each(|thread| thread.join().expect("a busy thread"));
    }
}

/// Where Linux times its counter itself, a busy machine makes a guest's clock run several times too fast.
#[test]
#[ignore = "more boots: make test-shapes"]
fn a_guest_on_a_busy_machine_tells_the_time() {
    let _busy = Busy::new();
    let command = "cat /proc/cmdline /proc/uptime; sleep 10; cat /proc/uptime";
    let mut shell = ceasefire(&["lab", "shell", "--cpus", "2", "--with", "/bin/sleep", "--command", command]);
    let mut shell = shell.stdout(Stdio::piped()).spawn().expect("the binary starts");
    let lines = BufReader::new(shell.stdout.take().expect("its output")).lines();
    let said: Vec<(Instant, String)> =
        lines.map(|line| (Instant::now(), line.expect("a line of text"))).collect();
    assert!(shell.wait().expect("it ends").success());
    let [(_, words), (begin, from), (end, to)] = &said[..] else { panic!("{said:?}") };
    assert!(words.contains(" tsc_early_khz="), "{words}");
    let uptime = |text: &str| text.split(' ').next().and_then(|first| first.parse::<f64>().ok());
    let guest = uptime(to).expect("seconds") - uptime(from).expect("seconds");
    let host = end.duration_since(*begin);
    println!("{guest:.2} s in the guest, {:.2} s here", host.as_secs_f64());
    // What the guest says arrives late on a busy machine. A clock that is six times too fast is 8 seconds off.
    assert!(guest >= 10.0 && host.abs_diff(Duration::from_secs_f64(guest)) < Duration::from_secs(3));
}

/// Every micro row is there, none is empty, and the rows that must shoot down do: on a machine that takes every liberty,
/// which changes what a TLB holds and never what a program computes.
#[test]
#[ignore = "long: make test-shapes"]
fn the_micro_set_runs_whole_on_tlbs_that_take_every_liberty() {
    let out = Scratch::new("micro");
    let begun = Instant::now();
    let mut args = vec!["control", "micro", "article", "lmbench", "writeback"];
    args.extend(["--cpus", "4", "--repeats", "1", "--tlb", "adversary"]);
    let results = lab_run(&out, &args);
    println!("the micro set at 4 vCPUs: {} s", begun.elapsed().as_secs());
    assert_eq!(results["failed"].as_array().map(Vec::len), Some(0), "{}", results["failed"]);
    assert_eq!(results["skipped"].as_array().map(Vec::len), Some(0), "{}", results["skipped"]);
    let tlb = &results["environment"]["qemu"]["tlb"];
    assert_eq!((&tlb["spec"], &tlb["access_bit"]), (&"adversary".into(), &"denied".into()));
    for row in results["rows"].as_array().expect("rows") {
        assert_eq!(row["repeats"], 1, "{row}");
        assert_eq!(row["tlb"], "adversary", "{row}");
        for field in ["units", "walks_per_unit", "structure_hits_per_unit"] {
            let figure = if field == "units" { row[field].as_f64() } else { Some(median(row, field)) };
            assert!(figure.is_some_and(|figure| figure > 0.0), "{field}: {row}");
        }
    }
    // One page a shootdown, to all the others: the theory of each is at the head of its source.
    for workload in ["cow-mt-seq", "cow-mt-rand", "msync-mt", "writeback", "madvise-scaling"] {
        let sent = median(row(&results, workload, 4), "sent_per_unit");
        assert!((0.9..=1.1).contains(&sent), "{workload} sends {sent} per unit");
    }
    assert!(out.0.join("report.html").exists());
}

/// Whoever writes back: one thread in its call, or the kernel's own thread. And page by page in each mapping.
#[test]
#[ignore = "more boots: make test-shapes"]
fn each_page_written_back_is_one_shootdown_in_each_mapping() {
    for (by, mappings) in [("msync", 2), ("fsync", 1), ("sync_file_range", 1), ("kworker", 1)] {
        let (by, mapped) = (format!("by={by}"), format!("mappings={mappings}"));
        let args = ["writeback", "--set", &by, "--set", &mapped, "--set", "pages=100", "--units", "250"];
        let sent = || {
            let out = Scratch::new("writeback");
            let results = lab_run(&out, &[&args[..], &["--cpus", "4", "--repeats", "1"]].concat());
            median(row(&results, "writeback", 4), "sent_per_unit")
        };
        // Beside three other guests it was 1.70 once, for two mappings; why has not been traced.
        let is_one_each = |sent: f64| (sent - f64::from(mappings)).abs() < 0.01;
        let mut last = sent();
        for _ in 1..3 {
            if !is_one_each(last) {
                println!("{by}, {mapped}: {last} sent per page, once more");
                last = sent();
            }
        }
        assert!(is_one_each(last), "{by}, {mapped}: {last} sent per page");
    }
}

#[test]
fn what_was_synced_is_in_the_store_and_one_lost_word_is_told() {
    let out = Scratch::new("synced");
    let args = ["synced", "--cpus", "4", "--repeats", "1", "--units", "200"];
    let results = lab_run(&out, &args);
    let extra = &row(&results, "synced", 4)["extra"];
    println!("synced: {extra}");
    assert!(extra["checked_promises"].as_f64().is_some_and(|promises| promises > 1000.0), "{extra}");
    let out = out.0.join("planted").to_string_lossy().into_owned();
    let planted = [&["lab", "run"], &args[..], &["--set", "plant=1", "--out", &out]].concat();
    refused(&mut ceasefire(&planted), 1, "lost: page 0 has ");
}

/// Only kernels with ext4 and loop devices have it.
#[test]
#[ignore = "more boots: make test-shapes"]
fn a_file_system_that_the_kernel_lacks_is_a_skip() {
    let out = Scratch::new("ext4");
    let out_dir = out.0.to_string_lossy().into_owned();
    let args = ["lab", "run", "writeback", "--cpus", "2", "--set", "fs=ext4", "--out", &out_dir];
    let said = run(&mut ceasefire(&args));
    assert_eq!(said.code, 4, "{}", said.stderr);
    assert!(said.stdout.contains("CONFIG_EXT4_FS"), "{}", said.stdout);
}

#[test]
fn a_kernel_image_is_taken_as_it_is() {
    let said = succeed(&mut ceasefire(&["lab", "build", "vanilla"]));
    let line = said.stdout.lines().find(|l| l.starts_with("kernel vanilla: ")).expect("the image's path");
    let image = line.trim_start_matches("kernel vanilla: ").to_string();
    let results = boots(&["--cpus", "2", "--kernel-image", &image]);
    assert_eq!(results["environment"]["kernels"][0]["base"], serde_json::Value::Null);
}

#[test]
fn stock_qemu_runs_the_same_kernel() {
    let out = Scratch::new("stock");
    let out_dir = out.0.to_string_lossy().into_owned();
    let said =
        run(&mut ceasefire(&["lab", "run", "zero", "--cpus", "2", "--machine", "stock", "--out", &out_dir]));
    match said.code {
        0 => {}
        4 => skip("stock QEMU", "qemu-system-x86_64 is not installed"),
        code => panic!("exit {code}: {}", said.stderr),
    }
}

#[test]
fn kvm_boots_or_is_refused_in_one_sentence() {
    let out = Scratch::new("kvm");
    let out_dir = out.0.to_string_lossy().into_owned();
    let args = ["lab", "run", "zero", "--cpus", "1", "--accel", "kvm", "--out", &out_dir];
    if run(&mut ceasefire(&args)).code == 0 {
        let results = common::results(&out.0);
        assert_eq!(results["environment"]["qemu"]["accel"], "kvm");
        return;
    }
    refused(&mut ceasefire(&args), 4, "");
    skip("kvm", "this machine's KVM cannot boot a guest");
}
