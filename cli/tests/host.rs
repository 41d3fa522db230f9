// SPDX-License-Identifier: GPL-2.0-only
//! Do the workloads run on this machine?

mod common;
use common::{ceasefire, close, median, results, row, run, skip, Scratch};

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
