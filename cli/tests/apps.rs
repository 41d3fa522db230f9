// SPDX-License-Identifier: GPL-2.0-only
//! Do real programs reach the rates they reach elsewhere? Far below, the workload is broken, not the kernel good.

mod common;
use common::{lab_run, median, row, Scratch};

#[test]
fn apache_shoots_down_at_every_request() {
    let out = Scratch::new("apache");
    let results = lab_run(&out, &["apache", "--cpus", "4", "--repeats", "2", "--units", "120"]);
    assert_eq!(results["failed"].as_array().map(Vec::len), Some(0), "{}", results["failed"]);
    let apache = row(&results, "apache", 4);
    let (sent, received) = (median(apache, "sent_per_unit"), median(apache, "received_per_unit"));
    println!("apache at 4 vCPUs: {sent:.2} sent, {received:.2} received per request");
    // One a request; a worker whose fellows all sleep interrupts nobody.
    assert!(sent >= 0.95, "{apache}");
    assert!(received >= 1.8, "{apache}");
}

/// A client that waits for its clock at the end, as wrk does for up to 100 ms, would add a million a request.
#[test]
fn what_apache_costs_is_its_requests() {
    let out = Scratch::new("apache-cost");
    let args = ["apache", "--cost", "--repeats", "2", "--units", "100"];
    let request = ["--set", "bytes=10701", "--set", "compress=0"];
    let results = lab_run(&out, &[&args[..], &request].concat());
    let instructions = median(row(&results, "apache", 1), "instructions_per_unit");
    println!("apache: {instructions:.0} instructions per request");
    assert!((50_000.0..500_000.0).contains(&instructions), "{results}");
}

#[test]
#[ignore = "long: make test-longer"]
fn pbzip2_in_a_small_cgroup_swaps_under_its_own_threads() {
    let out = Scratch::new("pbzip2");
    let results = lab_run(&out, &["pbzip2", "--cpus", "8", "--repeats", "1"]);
    assert_eq!(results["failed"].as_array().map(Vec::len), Some(0), "{}", results["failed"]);
    let row = row(&results, "pbzip2", 8);
    let units = row["units"].as_f64().expect("units");
    let sent = median(row, "sent_per_unit") * units;
    let targets = median(row, "received_per_unit") / median(row, "sent_per_unit");
    println!("pbzip2 at 8 vCPUs: {sent:.0} sent, {targets:.2} targets each");
    assert!(sent >= 10_800.0, "{row}");
    assert!(targets >= 5.75, "{row}");
}
