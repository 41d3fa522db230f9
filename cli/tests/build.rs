// SPDX-License-Identifier: GPL-2.0-only
//! Do kernels and emulator build from what is in the repository, and is a second build free?

mod common;
use common::{ceasefire, succeed};
use std::time::Instant;

/// What the tiers after this one boot.
const KERNELS: [&str; 3] = ["vanilla", "abis", "batch-debug"];

#[test]
fn what_the_tests_boot_builds_and_is_found_again() {
    let build = [&["lab", "build"], &KERNELS[..]].concat();
    let begun = Instant::now();
    let first = succeed(&mut ceasefire(&build));
    println!("first: {} s", begun.elapsed().as_secs());
    let begun = Instant::now();
    let second = succeed(&mut ceasefire(&build));
    assert!(begun.elapsed().as_secs() < 10, "a cached build took {:?}", begun.elapsed());
    assert_eq!(first.stdout, second.stdout);
    for built in KERNELS.map(|name| format!("kernel {name}: ")).into_iter().chain(["QEMU ".into()]) {
        assert!(second.stdout.contains(&built), "{built}: {}", second.stdout);
    }
}
