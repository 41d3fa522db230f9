// SPDX-License-Identifier: GPL-2.0-only
//! 20,000 damaged inputs from a fixed seed through both readers: no panic, bounded time, and never
//! a success the log does not hold.
#[path = "../../results/tests/sample/mod.rs"]
mod sample;

use ceasefire_report::{page as report, table};
use ceasefire_results::{aggregate, compare, parse_log, Results};
use sample::Random;
use std::time::{Duration, Instant};

const INPUTS: u64 = 20_000;
const SEED: u64 = 0x00ce_a5ef_19e5;
/// Generous: the slowest input takes microseconds; only a hang or a blow-up comes near.
const INPUT_TIME_MAX: Duration = Duration::from_secs(2);

const INSERTS: &[&[u8]] = &[
    b"{\"kind\":\"run\"",
    b"{\"kind\":\"verdict\",\"ok\":true,\"runs\":0,\"skips\":0,\"fails\":0}\n",
    b"null",
    b"-1",
    b"1e999",
    b"18446744073709551616",
    b"\xff\xfe",
    b"\0",
    b"\\u0000",
    b"\"",
    b"{",
    b"}",
    b"[[[[[[[[",
    b"\n",
    b"\r\n",
    b"Kernel panic - not syncing",
    b"[    1.0] BUG: ",
    b"0",
    b"{\"median\":1,\"min\":2,\"max\":0}",
];

fn mutate(good: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..=random.below(6) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len());
        let to = (at + random.below(200)).min(bytes.len());
        match random.below(8) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..to)),
            4 => {
                let copy = bytes[at..to].to_vec();
                bytes.splice(at..at, copy);
            }
            5 => {
                let insert = INSERTS[random.below(INSERTS.len())];
                bytes.splice(at..at, insert.iter().copied());
            }
            6 => {
                // A digit becomes another: counts change, the form does not.
                if let Some(digit) = bytes[at..].iter_mut().find(|byte| byte.is_ascii_digit()) {
                    *digit = b'0' + random.below(10) as u8;
                }
            }
            _ => {
                let other = random.below(bytes.len());
                bytes.swap(at, other);
            }
        }
    }
    bytes
}

/// How long this thread has run, where the kernel says so.
fn on_cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

fn timed<T>(what: &str, input: u64, work: impl FnOnce() -> T) -> T {
    let clock = Instant::now();
    let start = on_cpu();
    let result = work();
    // A busy machine may keep this thread waiting.
    let spent = match (start, on_cpu()) {
        (Some(start), Some(end)) => end - start,
        _ => clock.elapsed(),
    };
    assert!(spent < INPUT_TIME_MAX, "{what}, seed {SEED:#x}, input {input}: {spent:?}");
    result
}

#[test]
fn damaged_logs_are_read_without_a_crash() {
    let good: Vec<Vec<u8>> = ["good.log", "panic.log", "timeout.log", "garbage.log", "abis.log"]
        .iter()
        .map(|name| {
            let path =
                std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/tests/golden").join(name);
            std::fs::read(path).expect("a golden log")
        })
        .collect();
    let mut random = Random(SEED);
    let mut usable = 0;
    for input in 0..INPUTS {
        let bytes = mutate(&good[[0, 1, 2, 3, 3, 3, 3, 4][(input % 8) as usize]], &mut random);
        let log = timed("log", input, || parse_log(&bytes));
        assert!(!log.outcome.sentence().is_empty());
        assert!(log.problems.len() <= 51, "input {input}");
        if log.usable().is_ok() {
            usable += 1;
            let verdict = log.verdict.expect("a usable log has a verdict");
            assert_eq!(verdict.runs, log.runs.len() as u64, "input {input}");
        }
        // Whatever was read is carried to the end: rows, table, report, file.
        if let Ok(results) =
            aggregate(sample::environment(&["vanilla"]), &[(sample::key("vanilla", None), log)])
        {
            timed("rendering", input, || {
                let _ = report::html(&results);
                table::render(&results, &table::Options { width: 60, colour: true });
            });
            let text = results.to_json().expect("whatever was read can be written");
            assert_eq!(
                Results::from_json(text.as_bytes(), "f").expect("and read again"),
                results,
                "input {input}"
            );
        }
    }
    assert!(
        usable > 100 && usable < INPUTS * 9 / 10,
        "the mutator is too wild or too tame: {usable} of {INPUTS} usable"
    );
}

#[test]
fn damaged_results_are_read_without_a_crash() {
    let mut small = sample::two_kernels();
    small.rows.retain(|row| row.threads == 8 || row.cost);
    small.rows.truncate(6);
    small.controls.truncate(3);
    let good = small.to_json().expect("writes").into_bytes();
    let mut random = Random(SEED ^ 1);
    let mut readable = 0;
    for input in 0..INPUTS {
        let bytes = mutate(&good, &mut random);
        match timed("results", input, || Results::from_json(&bytes, "f")) {
            Err(error) => {
                assert!(!error.message.contains('\n') && error.remedy.is_some(), "input {input}: {error}")
            }
            Ok(results) => {
                readable += 1;
                timed("rendering", input, || {
                    let _ = report::html(&results);
                    table::render(&results, &table::Options { width: 40, colour: false });
                    if let Ok(comparison) = compare::compare(&small, &results, &[]) {
                        comparison.over(5.0);
                        ceasefire_report::comparison(
                            &comparison,
                            &table::Options { width: 40, colour: false },
                        );
                        comparison.to_json().expect("a comparison can be written");
                    }
                });
            }
        }
    }
    assert!(
        readable > 100 && readable < INPUTS * 9 / 10,
        "the mutator is too wild or too tame: {readable} of {INPUTS} readable"
    );
}
