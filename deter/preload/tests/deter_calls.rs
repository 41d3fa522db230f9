// SPDX-License-Identifier: GPL-2.0-only
//! Calls of memory management answer the same with and without the library, and memory holds the same: a list of calls
//! with good and bad arguments, and random ones against a model.
//!
//! CEASEFIRE_FUZZ_CALLS=N for more calls than 20,000, CEASEFIRE_FUZZ_SEED=N for others.

mod common;

use common::{library, program, run, text, ALL, STRICT};
use std::path::Path;

fn variable(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(value) => value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")),
        Err(_) => default,
    }
}

#[test]
fn a_list_of_calls_answers_the_same() {
    let (program, library) = (program("compare", &[]), library());
    let without = run(&program, &[], None);
    let lines = String::from_utf8_lossy(&without.stdout).into_owned();
    assert!(without.status.success() && lines.lines().count() > 900, "{}", text(&without));
    for modes in [STRICT, ALL] {
        let with = run(&program, &[], Some((&library, modes)));
        assert!(with.status.success(), "{modes}: {}", text(&with));
        let with = String::from_utf8_lossy(&with.stdout).into_owned();
        for (number, (with, without)) in with.lines().zip(lines.lines()).enumerate() {
            assert_eq!(with, without, "{modes}: line {}", number + 1);
        }
        assert_eq!(with.lines().count(), lines.lines().count());
    }
}

/// What one run prints, and how many pages the library has kept in it.
fn fuzz(calls: u64, threads: u64, preload: Option<(&Path, &str)>) -> (String, u64) {
    let seed = variable("CEASEFIRE_FUZZ_SEED", 1);
    let args = [seed.to_string(), calls.to_string(), threads.to_string()];
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut command = common::command(&program("fuzz", &[]), &args, preload);
    let output = common::finish(&mut command, b"", 60 + calls / 1000);
    let modes = preload.map_or("without the library", |preload| preload.1);
    assert!(output.status.success(), "fuzz {args:?} {modes}: {}", text(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let kept = said.lines().find_map(|line| line.strip_prefix("kept ")?.parse().ok()).expect("kept");
    (String::from_utf8_lossy(&output.stdout).into_owned(), kept)
}

fn fuzzed(calls: u64, threads: u64) {
    let library = library();
    let (without, none) = fuzz(calls, threads, None);
    assert_eq!(none, 0);
    for modes in [STRICT, ALL] {
        let (with, kept) = fuzz(calls, threads, Some((&library, modes)));
        assert_eq!(with, without, "{modes}");
        // In strict mode nothing shows that the library has answered. The ranges are the same.
        assert!((modes == STRICT && kept == 0) || kept > calls / 1000, "{modes}: kept {kept}");
    }
    println!("{calls} calls in {threads} threads, each of 3 times: no difference");
}

#[test]
fn random_calls_answer_the_same() {
    fuzzed(variable("CEASEFIRE_FUZZ_CALLS", 20_000), 1);
}

#[test]
fn random_calls_in_threads_answer_the_same() {
    fuzzed(variable("CEASEFIRE_FUZZ_CALLS", 20_000), 4);
}
