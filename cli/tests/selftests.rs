// SPDX-License-Identifier: GPL-2.0-only
//! Do Linux's own tests of memory management say on our kernels what they say on an unchanged one?

mod common;
use common::{ceasefire, refused, succeed, Scratch};
use std::fs;

/// A kernel with ABIS in each of its modes.
fn in_each_mode(kernel: &str) -> Vec<(&str, Option<&str>)> {
    ["off", "idle", "full"].map(|mode| (kernel, Some(mode))).to_vec()
}

fn run_all(kernels: Vec<(&str, Option<&str>)>, subset: &str, patience: &str, least: usize) {
    for (kernel, mode) in kernels {
        let out = Scratch::new("selftests");
        let dir = out.0.to_string_lossy().into_owned();
        let mut args = vec!["lab", "selftests", "--subset", subset, "--kernel", kernel, "--out", &dir];
        args.extend(["--patience", patience]);
        if let Some(mode) = mode {
            args.extend(["--mode", mode]);
        }
        let said = succeed(&mut ceasefire(&args));
        print!("{}", said.stdout);
        let text = fs::read_to_string(out.0.join("selftests.json")).expect("selftests.json was written");
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(report["schema"], "ceasefire.selftests/1");
        assert_eq!(report["boots"], 1);
        let tests = report["tests"].as_array().expect("tests");
        assert!(tests.len() >= least, "{} tests", tests.len());
        assert!(tests.iter().all(|test| test["got"] == test["wanted"]), "{text}");
    }
}

/// Against the list alone: the unchanged kernel, whose tests the list was made from, costs a build of its own. The debug
/// kernel is there already, and asks the oracle at each of their elisions.
#[test]
fn the_short_subset_is_as_on_an_unchanged_kernel_in_mode_full() {
    run_all(vec![("batch-debug", Some("full+on"))], "short", "2", 20);
}

#[test]
#[ignore = "long: make test-selftests-all"]
fn all_of_them_are_as_on_an_unchanged_kernel() {
    let kernels = [vec![("selftests-vanilla", None)], in_each_mode("abis-debug")].concat();
    run_all(kernels, "all", "2", 30);
}

/// lockdep, KASAN and page-table checks: a warning of theirs ends the boot, and the test that ran has failed.
#[test]
#[ignore = "long: make test-nightly"]
fn nightly_all_of_them_on_the_checked_kernel_in_mode_off() {
    run_all(vec![("checked-abis", Some("off"))], "all", "10", 30);
}

#[test]
#[ignore = "long: make test-nightly"]
fn nightly_all_of_them_on_the_checked_kernel_in_mode_idle() {
    run_all(vec![("checked-abis", Some("idle"))], "all", "10", 30);
}

#[test]
#[ignore = "long: make test-nightly"]
fn nightly_all_of_them_on_the_checked_kernel_in_mode_full() {
    run_all(vec![("checked-abis", Some("full"))], "all", "10", 30);
}

/// The plain kernel has no soft-dirty bits, which 5 subtests need: 16 pass instead of 21.
#[test]
fn a_kernel_that_behaves_otherwise_fails_and_is_told_how() {
    let out = Scratch::new("selftests-other");
    let dir = out.0.to_string_lossy().into_owned();
    let args =
        ["lab", "selftests", "madv_populate", "mremap_dontunmap", "--kernel", "vanilla", "--out", &dir];
    let said = refused(&mut ceasefire(&args), 1, "selftest madv_populate: wanted pass 21, got pass 16");
    assert!(
        said.stderr.contains("rerun: ceasefire lab selftests madv_populate --kernel vanilla"),
        "{}",
        said.stderr
    );
    assert!(said.stdout.contains("mremap_dontunmap  ok"), "{}", said.stdout);
}
