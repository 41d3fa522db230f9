// SPDX-License-Identifier: GPL-2.0-only
//! Do two independent sources agree on every shootdown?

mod common;
use common::{close, lab_run, median, row, Scratch};

/// The tracepoint counts targets where they are chosen, the interrupt row where they arrive.
fn exactly_n_at(vcpus: u64) {
    let out = Scratch::new("counters");
    let cpus = vcpus.to_string();
    let results = lab_run(&out, &["zero", "exactly-n", "madvise-scaling", "--cpus", &cpus, "--repeats", "3"]);
    let targets = (vcpus - 1) as f64;

    let exact = row(&results, "exactly-n", vcpus);
    assert_eq!(exact["repeats"], 3);
    assert!(exact["units"].as_f64().is_some_and(|units| units >= 500.0), "too few to judge 1 %: {exact}");
    assert!(close(median(exact, "sent_per_unit"), 1.0, 0.01), "{exact}");
    for source in ["received_per_unit", "received_irq_per_unit"] {
        for end in ["min", "median", "max"] {
            let measured = exact[source][end].as_f64().expect("a number");
            assert!(close(measured, targets, 0.01), "{source} {end} is {measured}, not {targets}");
        }
    }

    let zero = row(&results, "zero", vcpus);
    for field in ["sent_per_unit", "received_per_unit", "received_irq_per_unit"] {
        assert_eq!(zero[field]["max"].as_f64(), Some(0.0), "{field}: {zero}");
    }

    let madvise = row(&results, "madvise-scaling", vcpus);
    assert!(close(median(madvise, "received_per_unit"), targets, 0.01), "{madvise}");

    for control in results["controls"].as_array().expect("controls") {
        assert_eq!(control["ok"], true, "{control}");
    }
}

#[test]
fn two_vcpus() {
    exactly_n_at(2);
}

#[test]
fn four_vcpus() {
    exactly_n_at(4);
}

#[test]
fn eight_vcpus() {
    exactly_n_at(8);
}

#[test]
fn sixteen_vcpus() {
    exactly_n_at(16);
}

/// Kernel-range shootdowns go to every CPU and never show in the interrupt row.
#[test]
fn kernel_ranges_are_counted_apart() {
    let out = Scratch::new("counters-kernel");
    let results = lab_run(&out, &["kernel-range", "--cpus", "4", "--repeats", "3"]);
    let kernel = row(&results, "kernel-range", 4);
    assert!(close(median(kernel, "kernel_range_per_unit"), 3.0, 0.01), "{kernel}");
    assert_eq!(median(kernel, "received_irq_per_unit"), 0.0, "{kernel}");
}
