// SPDX-License-Identifier: GPL-2.0-only
//! Saved logs, whole and broken: how they ended, in one sentence, and what could still be read.

use ceasefire_results::protocol::{parse_log, read_log, LogParser, LINE_BYTES_MAX};
use ceasefire_results::{aggregate, GuestLog, Outcome, RowKey};
use std::path::Path;

fn golden(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn counts(log: &GuestLog) -> (usize, usize, usize) {
    (log.runs.len(), log.skips.len(), log.fails.len())
}

#[test]
fn every_golden_log_ends_as_its_name_says() {
    let cases: &[(&str, Outcome, (usize, usize, usize))] = &[
        ("good.log", Outcome::Complete, (3, 1, 0)),
        ("abis.log", Outcome::Complete, (3, 1, 0)),
        ("truncated.log", Outcome::Truncated("line 7 is half a record".into()), (2, 0, 0)),
        ("noverdict.log", Outcome::NoVerdict, (1, 0, 0)),
        ("garbage.log", Outcome::Garbage, (0, 0, 0)),
        (
            "panic.log",
            Outcome::Panic("WARNING: CPU: 3 PID: 87 at mm/memory.c:1234 zap_pte_range+0x12/0x900".into()),
            (1, 0, 0),
        ),
        ("timeout.log", Outcome::TimedOut(Some(300)), (0, 0, 1)),
        ("newer.log", Outcome::NewerProtocol(2), (0, 0, 0)),
    ];
    for (name, outcome, expected) in cases {
        let log = parse_log(&golden(name));
        assert_eq!(&log.outcome, outcome, "{name}");
        assert_eq!(counts(&log), *expected, "{name}");
        let is_whole = ["good.log", "abis.log"].contains(name);
        assert_eq!(log.is_success(), is_whole, "{name}");
        match log.usable() {
            Ok(()) => assert!(is_whole, "{name}"),
            Err(error) => {
                assert_eq!(error.kind.exit_code(), 1, "{name}");
                assert!(!error.message.is_empty() && !error.message.contains('\n'), "{name}: {error}");
            }
        }
    }
}

#[test]
fn an_abis_kernels_log_carries_its_mode_and_its_counters() {
    let log = parse_log(&golden("abis.log"));
    assert_eq!(log.boot.as_ref().and_then(|boot| boot.mode.as_deref()), Some("idle"));
    let abis = &log.runs[0].mechanisms["abis"];
    assert_eq!((abis["zap_idle"], abis["spte_bytes"], abis["violations"]), (420, 12_288, 0));
    assert!(parse_log(&golden("good.log")).runs.iter().all(|run| run.mechanisms.is_empty()));
}

#[test]
fn a_good_log_keeps_its_figures_amid_kernel_noise() {
    let log = parse_log(&golden("good.log"));
    let boot = log.boot.as_ref().expect("a boot line");
    assert_eq!(
        (boot.cpus, boot.nodes, boot.counters.as_str(), boot.memory_kib),
        (4, 1, "ceasefire", Some(507_904))
    );
    assert_eq!(log.log, ["mounted /ext2"]);
    assert_eq!(log.problems.len(), 1, "{:?}", log.problems);
    assert!(log.problems[0].contains("a-kind-of-tomorrow"), "{:?}", log.problems);
    let run = &log.runs[1];
    assert_eq!(
        (run.workload.as_str(), run.units, run.counter("received_irq")),
        ("exactly-n", 1000, Some(3001))
    );
    assert_eq!(run.counter("walks"), None);
    assert_eq!(run.extra["calls_per_unit"], 1.0);
}

#[test]
fn a_log_in_pieces_reads_like_the_whole() {
    for name in ["good.log", "truncated.log", "garbage.log", "panic.log", "timeout.log"] {
        let bytes = golden(name);
        let whole = parse_log(&bytes);
        for size in [1, 2, 7, 64, 4096] {
            let mut parser = LogParser::new();
            bytes.chunks(size).for_each(|piece| parser.push(piece));
            assert_eq!(parser.finish(), whole, "{name} in pieces of {size}");
        }
        assert_eq!(read_log(bytes.as_slice()).expect("reads"), whole, "{name}");
    }
}

#[test]
fn a_cut_at_any_byte_is_never_a_success() {
    let bytes = golden("good.log");
    let verdict = b"{\"kind\":\"verdict\"";
    let verdict_at = bytes.windows(verdict.len()).position(|window| window == verdict).expect("a verdict");
    let verdict_end =
        verdict_at + bytes[verdict_at..].iter().position(|&byte| byte == b'\n').expect("a line end");
    for length in 0..bytes.len() {
        let log = parse_log(&bytes[..length]);
        assert_eq!(log.is_success(), length >= verdict_end, "cut after {length} bytes: {:?}", log.outcome);
    }
}

#[test]
fn a_missing_record_is_noticed_by_the_verdicts_count() {
    let text = String::from_utf8(golden("good.log")).expect("text");
    let without: String =
        text.lines().filter(|line| !line.contains("\"zero\"")).map(|line| format!("{line}\n")).collect();
    let log = parse_log(without.as_bytes());
    assert_eq!(log.outcome, Outcome::Truncated("the verdict counts 3 runs, the log holds 2".into()));
}

#[test]
fn a_damaged_record_is_a_problem_and_spoils_the_log() {
    let text = String::from_utf8(golden("good.log")).expect("text");
    for (from, to, says) in [
        ("\"threads\":4,\"repeat\":1", "\"threads\":4,\"threads\":4,\"repeat\":1", "duplicate field"),
        ("\"received_irq\":2999", "\"received_irq\":-2999", "invalid value"),
        ("\"received_irq\":2999", "\"received_irq\":29999999999999999999999", "invalid"),
        ("\"received_irq\":2999", "\"received_irq\":2999,\"received_irq\":2", "duplicate field"),
    ] {
        let damaged = text.replace(from, to);
        assert_ne!(damaged, text);
        let log = parse_log(damaged.as_bytes());
        assert!(matches!(log.outcome, Outcome::Truncated(_)), "{to}: {:?}", log.outcome);
        assert!(log.problems.iter().any(|problem| problem.contains(says)), "{to}: {:?}", log.problems);
    }
}

#[test]
fn endless_lines_and_endless_problems_are_bounded() {
    let mut bytes = golden("good.log");
    let mut front = vec![b'x'; LINE_BYTES_MAX * 8];
    front.push(b'\n');
    for _ in 0..10_000 {
        front.extend_from_slice(b"{\"kind\":}\n");
    }
    front.append(&mut bytes);
    let log = parse_log(&front);
    assert!(log.is_success(), "{:?}", log.outcome);
    assert!(log.problems.len() <= 51, "{}", log.problems.len());
    assert!(
        log.problems.last().is_some_and(|last| last.contains("more problems")),
        "{:?}",
        log.problems.last()
    );
    assert!(log.problems[0].contains("256 KiB"), "{}", log.problems[0]);
}

#[test]
fn what_a_record_carries_cannot_move_the_cursor() {
    let text = String::from_utf8(golden("good.log")).expect("text");
    for (from, to) in [
        ("a-kind-of-tomorrow", "\\u001b[2J"),
        ("one node", "\\u001b[2J"),
        ("mounted /ext2", "\\u001b[2J"),
        ("\"workload\":\"zero\"", "\"workload\":\"\\u001b[2J\""),
        ("\"unit\":\"loop\"", "\"unit\":\"\\u001b[2J\""),
        ("6.12.117\",", "\\u001b[2J\","),
    ] {
        let moving = text.replace(from, to);
        assert_ne!(moving, text, "{from}");
        let log = parse_log(moving.as_bytes());
        assert!(log.is_success(), "{from}: {:?}", log.outcome);
        let said = format!("{}{}{}", log.summary(), log.problems.concat(), log.log.concat());
        assert!(!said.contains('\u{1b}'), "{from}: {said}");
    }
}

#[test]
fn every_sort_of_kernel_complaint_is_the_outcome() {
    for line in [
        "[    1.0] Kernel panic - not syncing: sysrq triggered crash",
        "Kernel panic - not syncing: VFS: Unable to mount root fs",
        "[    1.000000][    T1] BUG: kernel NULL pointer dereference, address: 0000000000000000",
        "<4>[  1.0] Oops: Oops: 0002 [#1] SMP",
        "[   61.0] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [workloads:87]",
        "[    1.0] kernel BUG at mm/memory.c:123!",
        "WARNING: possible recursive locking detected",
    ] {
        let mut bytes = golden("good.log");
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        let log = parse_log(&bytes);
        assert!(matches!(log.outcome, Outcome::Panic(_)), "{line}: {:?}", log.outcome);
        let mut apart = parse_log(&golden("good.log"));
        apart.add_console(line.as_bytes());
        assert_eq!(apart.outcome, log.outcome, "{line}");
    }
    for line in
        ["dpkg: WARNING: old", "[    1.0] Debugging: no BUG: here", "perl: warning: Setting locale failed."]
    {
        assert_eq!(ceasefire_results::protocol::first_complaint(line.as_bytes()), None, "{line}");
    }
}

#[test]
fn a_supervisor_sees_the_verdict_as_it_arrives_and_can_say_time_is_over() {
    let mut parser = LogParser::new();
    let bytes = golden("good.log");
    parser.push(&bytes[..700]);
    assert!(!parser.has_verdict());
    parser.push(&bytes[700..]);
    assert!(parser.has_verdict());
    assert_eq!(parser.so_far().runs.len(), 3);

    let mut late = parse_log(&golden("noverdict.log"));
    late.timed_out(30);
    assert!(late.outcome.sentence().contains("30 s"), "{}", late.outcome.sentence());
    let mut panicked = parse_log(&golden("panic.log"));
    panicked.timed_out(30);
    assert!(matches!(panicked.outcome, Outcome::Panic(_)), "the panic is the cause, the time-out its effect");
}

#[test]
fn on_a_host_the_exit_code_is_the_verdict() {
    for (code, is_usable, is_success) in [
        (Some(0), true, true),
        (Some(4), true, true),
        (Some(1), true, false),
        (Some(2), false, false),
        (None, false, false),
    ] {
        let mut log = parse_log(&golden("noverdict.log"));
        log.end_on_host(code);
        assert_eq!(log.usable().is_ok(), is_usable, "exit {code:?}");
        assert_eq!(log.is_success(), is_success, "exit {code:?}");
    }
    let mut half = parse_log(&golden("truncated.log"));
    half.end_on_host(Some(0));
    assert!(half.usable().is_err(), "half a record stays half a record");
}

#[test]
fn only_complete_logs_become_results() {
    for name in ["truncated.log", "noverdict.log", "garbage.log", "panic.log", "timeout.log", "newer.log"] {
        let key = RowKey { kernel: "vanilla".into(), vcpus: 4, nodes: 1, ..RowKey::default() };
        let error = aggregate(Default::default(), &[(key, parse_log(&golden(name)))]).expect_err(name);
        assert!(error.message.starts_with("vanilla, 4 vCPUs: "), "{name}: {error}");
    }
}

#[test]
fn a_guest_commands_lines_come_whole_with_their_tabs() {
    let long = "x".repeat(2000);
    let line = format!("{{\"kind\":\"log\",\"text\":\"processor\\t: 0 {long} \\u001b[2J\"}}\n");
    let log = parse_log(line.as_bytes());
    assert_eq!(log.log, [format!("processor\t: 0 {long} \u{fffd}[2J")]);
}
