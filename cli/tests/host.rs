// SPDX-License-Identifier: GPL-2.0-only
//! Do the workloads run on this machine?

mod common;
use ceasefire_artifacts::{guest, Context};
use ceasefire_base::{Progress, Verbosity};
use common::{ceasefire, close, median, results, row, run, skip, Scratch};
use std::fs;
use std::process::Command;

#[test]
fn the_same_workloads_run_on_the_host() {
    let cores = std::thread::available_parallelism().expect("known").get().min(4);
    if cores < 2 {
        return skip("host", "one CPU has nobody to interrupt");
    }
    let out = Scratch::new("host");
    let out_dir = out.0.to_string_lossy().into_owned();
    let cpus = cores.to_string();
    let said = run(&mut ceasefire(&[
        "lab", "run", "control", "munmap", "mprotect", "--on", "host", "--cpus", &cpus, "--out", &out_dir,
    ]));
    // Other programs on this machine interrupt its CPUs too: a control may fail here, and then there is no report.
    if said.code == 1 && said.stderr.contains("a control failed") {
        assert!(!out.0.join("results.json").exists(), "a failed control must leave no results");
        return skip("host controls", "other programs on this machine shoot down too");
    }
    assert_eq!(said.code, 0, "{}", said.stderr);
    let results = results(&out.0);
    assert_eq!(results["environment"]["place"], "host");
    let exact = row(&results, "exactly-n", cores as u64);
    assert!(close(median(exact, "received_irq_per_unit"), (cores - 1) as f64, 0.01), "{exact}");
}

/// The kernel's own names go through as they are: sums as differences, memory as a level, no line that is none.
#[test]
fn an_abis_kernels_counters_are_passed_on() {
    let scratch = Scratch::new("fake-abis");
    let out = scratch.0.join("out").to_string_lossy().into_owned();
    let lines =
        "zap_idle 5\nzap_none 3\nrounds 12\nspte_bytes 8192\nspte_tables 2\ninsert_bytes 4096\nBad 1\nworse x\nhalf 12x\n -\n";
    let counters = scratch.file("counters", lines.as_bytes());
    // A file that does not change stands for a kernel in which nothing happened.
    let script = format!(
        "mount -t tmpfs none /sys/kernel/debug && mkdir /sys/kernel/debug/abis && \
         cp {} /sys/kernel/debug/abis/counters && \
         exec {} lab run munmap --on host --cpus 1 --repeats 1 --units 10 --quiet --out {out}",
        counters.display(),
        common::BINARY
    );
    let isolated = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]).current_dir(common::root());
        command
    };
    if !run(&mut isolated("mount -t tmpfs none /sys/kernel/debug")).code.eq(&0) {
        return skip("fake counters", "mounting a small tmpfs needs root");
    }
    let said = run(&mut isolated(&script));
    assert_eq!(said.code, 0, "{}", said.stderr);
    let results = results(&fs::canonicalize(&out).expect("results"));
    let row = row(&results, "munmap", 1);
    let names: Vec<&String> = row["mechanisms"]["abis"].as_object().expect("abis").keys().collect();
    assert_eq!(
        names,
        ["insert_bytes", "rounds", "spte_bytes", "spte_tables", "zap_idle", "zap_none"],
        "{row}"
    );
    let median_of = |name: &str| row["mechanisms"]["abis"][name]["median"].as_f64();
    assert_eq!((median_of("zap_idle"), median_of("rounds")), (Some(0.0), Some(0.0)), "{row}");
    assert_eq!((median_of("spte_bytes"), median_of("spte_tables")), (Some(8192.0), Some(2.0)), "{row}");
    // Secondary page tables are memory in use, not memory allocated meanwhile.
    assert_eq!(median_of("insert_bytes"), Some(4096.0), "{row}");
    assert_eq!(row["elided"]["pages"]["median"].as_f64(), Some(0.0), "{row}");
    assert!(row["checked"].is_null() && row["violations"].is_null(), "{row}");
}

/// The readers of `stale` must see nothing wrong, and must see it where something is.
#[test]
fn stale_reads_are_seen_where_there_are_any() {
    if std::thread::available_parallelism().expect("known").get() < 2 {
        return skip("host stale", "one CPU has no readers");
    }
    let out = Scratch::new("host-stale");
    let out_dir = out.0.to_string_lossy().into_owned();
    let stale = |units: &str, settings: &[&str]| {
        let mut args =
            vec!["lab", "run", "stale", "--on", "host", "--cpus", "2", "--repeats", "1", "--out", &out_dir];
        args.extend(["--units", units]);
        settings.iter().for_each(|setting| args.extend(["--set", setting]));
        run(&mut ceasefire(&args))
    };
    let said = stale("20000", &[]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let results = results(&out.0);
    let extra = &row(&results, "stale", 2)["extra"];
    println!("stale on the host: {extra}");
    assert_eq!(extra["stale_reads"].as_f64(), Some(0.0), "{extra}");
    assert!(extra["reads"].as_f64().is_some_and(|reads| reads >= 20000.0), "too few reads to tell: {extra}");
    for wrong in ["plant=gone", "plant=earlier", "plant=poison"] {
        let said = stale("4000", &[wrong]);
        assert_eq!(said.code, 1, "{wrong} was not seen: {}", said.stdout);
        assert!(said.stderr.contains("stale read: "), "{wrong}: {}", said.stderr);
    }
}

/// A busy machine gets few turns: what was tried in the time there was is reported, with how often.
#[test]
fn a_processors_promises_are_tried_for_as_long_as_there_is_time() {
    let cpus = std::thread::available_parallelism().expect("known").get().min(2).to_string();
    let out = Scratch::new("host-promises");
    let dir = out.0.to_string_lossy().into_owned();
    let begun = std::time::Instant::now();
    let mut args = vec!["lab", "run", "promises", "--on", "host", "--cpus", &cpus, "--repeats", "1"];
    args.extend(["--units", "100000000", "--set", "seconds=2", "--out", &dir]);
    let said = run(&mut ceasefire(&args));
    if said.stderr.contains("nothing could be measured") {
        return skip("host promises", "no /proc/self/clear_refs here");
    }
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(begun.elapsed().as_secs() < 30, "a budget of 2 s took {:?}", begun.elapsed());
    let results = results(&out.0);
    let extra = &row(&results, "promises", cpus.parse().expect("a number"))["extra"];
    let tries = |name: &str| extra[name].as_f64().expect("counted");
    assert_eq!(tries("tries_asked"), 1e8);
    assert!((1.0..1e8).contains(&tries("tries")) && tries("tries_other_cpu") < 1e8, "{extra}");
}

/// What idle page tracking says is clear must be what was cleared; elsewhere these skip with a remedy.
#[test]
fn access_bits_are_cleared_and_seen_to_be() {
    let out = Scratch::new("host-idle");
    let out_dir = out.0.to_string_lossy().into_owned();
    let said = run(&mut ceasefire(&[
        "lab",
        "run",
        "idle-pages",
        "idle-shared",
        "--on",
        "host",
        "--cpus",
        "2",
        "--repeats",
        "1",
        "--units",
        "16",
        "--set",
        "pages=16",
        "--out",
        &out_dir,
    ]));
    if said.stderr.contains("nothing could be measured") {
        return skip("host idle pages", "no idle page tracking here, no root, or one CPU");
    }
    assert_eq!(said.code, 0, "{}", said.stderr);
    let results = results(&out.0);
    let extra = &row(&results, "idle-pages", 2)["extra"];
    assert!(extra["cleared_pages"].as_f64().is_some_and(|pages| pages >= 200.0), "of 256 pages: {extra}");
}

/// Its work is the timer's, and the timer's is not counted.
#[test]
fn what_follows_the_clock_is_no_cost_row() {
    let context = Context::open(Progress::new(Verbosity::Quiet)).expect("the checkout and the cache");
    let program = guest::workloads_binary(&context).expect("built");
    let said = run(Command::new(program).args(["run", "numa-balancing", "--threads", "2", "--cost"]));
    assert_eq!(said.code, 4, "{} {}", said.stdout, said.stderr);
    assert!(said.stdout.contains("which --cost leaves out"), "{} {}", said.stdout, said.stderr);
}
