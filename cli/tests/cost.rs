// SPDX-License-Identifier: GPL-2.0-only
//! Do instruction counts repeat across boots?

mod common;
use common::{lab_run, Scratch};

/// Each repeat is a boot of its own; the bar is 0.2 %.
#[test]
fn instructions_repeat_across_boots() {
    repeats(&["anon-r-seq", "munmap", "mprotect", "mmap-latency"], "plain");
}

/// The speculative walker's moments come from a seed, and under icount from the guest's own clock.
#[test]
#[ignore = "more boots: make test-longer"]
fn so_they_do_with_a_speculative_walker() {
    repeats(&["munmap", "mmap-latency"], "hardware");
}

fn repeats(workloads: &[&str], tlb: &str) {
    let out = Scratch::new("cost");
    let mut args = workloads.to_vec();
    args.extend(["--cost", "--repeats", "3", "--tlb", tlb]);
    let results = lab_run(&out, &args);
    let rows = results["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), workloads.len(), "{results}");
    for row in rows {
        assert_eq!(row["cost"], true);
        assert_eq!(row["vcpus"], 1);
        assert_eq!(row["repeats"], 3);
        assert!(row["cpu"].as_str().is_some_and(|cpu| cpu.starts_with("max,-erms,-fsrm,")), "{row}");
        assert_eq!(row["tlb"], tlb);
        let spread = &row["instructions_per_unit"];
        let [min, median, max] = ["min", "median", "max"].map(|end| spread[end].as_f64().expect("counted"));
        assert!(median > 10.0, "{row}");
        let share = (max - min) / median;
        println!("{}: {median:.1} instructions per unit, spread {:.3} %", row["workload"], share * 100.0);
        assert!(share <= 0.002, "{} spreads {:.3} %", row["workload"], share * 100.0);
        // What instructions hide is counted beside them.
        let walks = &row["walks_per_unit"];
        let [min, median, max] = ["min", "median", "max"].map(|end| walks[end].as_f64().expect("counted"));
        println!("{}: {median:.3} walks per unit ({min:.3} to {max:.3})", row["workload"]);
        // Nothing in the guest depends on a speculative walk, so a few more or less leave the instructions alone.
        let share_max = if tlb == "plain" { 0.002 } else { 0.05 };
        assert!(median > 0.0 && (max - min) / median <= share_max, "{walks}");
    }
}

/// On several vCPUs the machine counts, and each spared target shows: a handler of some 300 instructions and a flush.
#[test]
#[ignore = "more boots: make test-longer"]
fn the_kernels_instructions_are_counted_on_eight_vcpus() {
    let out = Scratch::new("net");
    let kernels = "abis:off,abis:full";
    let args =
        ["munmap", "--cost", "--cpus", "8", "--repeats", "3", "--kernel", kernels, "--tlb", "hardware"];
    let results = lab_run(&out, &args);
    let rows = results["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2, "{results}");
    let median = |row: &serde_json::Value, name: &str| row[name]["median"].as_f64().expect("counted");
    for row in rows {
        assert!(row["cpu"].as_str().is_some_and(|cpu| cpu.ends_with(",tlb-count=on")), "{row}");
        assert!(row["instructions_per_unit"].is_null() && row["sent_per_unit"].is_null(), "{row}");
        println!("{}: {}", row["mode"], row["kernel_instructions_per_unit"]);
    }
    let (off, full) = (&rows[0], &rows[1]);
    assert!((median(off, "received_irq_per_unit") - 7.0).abs() < 0.1, "{off}");
    assert!(median(full, "received_irq_per_unit") < 0.1, "{full}");
    let handler = median(off, "handler_instructions_per_unit") / 7.0;
    assert!((200.0..500.0).contains(&handler), "a handler of {handler} instructions");
    // Nobody waits long where who waits ends its turn.
    assert!(median(off, "spin_instructions_per_unit") < 50.0, "{off}");
    for end in ["low", "used", "high"] {
        let net = |row: &serde_json::Value| median(&row["cycles_net_per_unit"], end);
        assert!(net(full) < net(off), "at the {end} prices");
    }
}
