// SPDX-License-Identifier: GPL-2.0-only
//! Do kernel and emulator build from what is in the repository, and is a second build free?

mod common;
use common::{ceasefire, succeed};
use std::time::Instant;

#[test]
fn everything_builds_and_is_found_again() {
    let begun = Instant::now();
    let first = succeed(&mut ceasefire(&["lab", "build"]));
    println!("first: {} s", begun.elapsed().as_secs());
    let begun = Instant::now();
    let second = succeed(&mut ceasefire(&["lab", "build"]));
    assert!(begun.elapsed().as_secs() < 10, "a cached build took {:?}", begun.elapsed());
    assert_eq!(first.stdout, second.stdout);
    for built in ["QEMU ", "kernel vanilla: ", "kernel abis: ", "kernel abis-debug: "] {
        assert!(second.stdout.contains(built), "{built}: {}", second.stdout);
    }
    assert!(!second.stdout.contains("selftests-"), "only by name: {}", second.stdout);
}
