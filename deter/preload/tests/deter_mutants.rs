// SPDX-License-Identifier: GPL-2.0-only
//! Deliberate mistakes in the library, each of which some test must notice: a test that notices none proves nothing.

mod common;

use ceasefire_deter_preload::{Stop, STOP_VARIABLE};
use common::{command, finish, library, library_with, program, text, ALL, STRICT};

struct Mutant {
    number: u32,
    what: &'static str,
    /// The case that notices it.
    program: &'static str,
    args: &'static [&'static str],
    modes: &'static str,
    /// More definitions, of the mistaken library and of the one without the mistake.
    define: &'static [&'static str],
    /// With a stop file that says "stop".
    stopped: bool,
}

const fn mutant(
    number: u32,
    what: &'static str,
    case: (&'static str, &'static [&'static str]),
    modes: &'static str,
) -> Mutant {
    Mutant { number, what, program: case.0, args: case.1, modes, define: &[], stopped: false }
}

const FUZZ: (&str, &[&str]) = ("fuzz", &["1", "20000", "1"]);

const MUTANTS: &[Mutant] = &[
    mutant(1, "fork does not wipe the table", ("table", &["forks"]), ALL),
    mutant(2, "a range that ends one page too late is covered", ("calls", &["answers"]), STRICT),
    mutant(3, "the last page of a change stays in the table", FUZZ, STRICT),
    Mutant {
        define: &["-DRANGES_MOST=8"],
        ..mutant(4, "a full table is not split", ("table", &["full"]), ALL)
    },
    mutant(5, "changes in flight do not see each other", ("table", &["racing"]), STRICT),
    mutant(6, "the last page is not zeroed", ("calls", &["zeroing"]), ALL),
    Mutant {
        define: &["-DALL_ABSENT"],
        ..mutant(7, "absent pages are taken for zero", ("calls", &["zeroing"]), ALL)
    },
    mutant(8, "the library zeroes its own frame", ("calls", &["own-stack"]), ALL),
    Mutant { stopped: true, ..mutant(9, "a stop is overlooked", ("table", &["neighbours"]), ALL) },
    mutant(10, "any kind of mapping is taken", ("table", &["kinds"]), ALL),
    mutant(11, "MAP_FIXED takes nothing out", ("table", &["neighbours"]), ALL),
    mutant(12, "mremap takes nothing out", ("table", &["changes"]), ALL),
    mutant(13, "errno is lost", ("calls", &["zeroing"]), ALL),
    mutant(14, "advice is answered everywhere", ("calls", &["answers"]), STRICT),
    mutant(15, "mprotect takes nothing out", ("table", &["changes"]), ALL),
    mutant(16, "signals come while the lock is held", ("calls", &["signals"]), ALL),
    mutant(17, "the table has no lock", ("table", &["crowd"]), ALL),
    mutant(18, "a length in the middle of a page is rounded down", ("calls", &["zeroing"]), ALL),
    mutant(19, "mlock takes nothing out", ("table", &["changes"]), ALL),
    mutant(20, "a seccomp filter of the program's is overlooked", ("table", &["seccomp"]), ALL),
    mutant(21, "a range that was unmapped unseen is not forgotten", ("table", &["unseen"]), STRICT),
];

/// What a run shows: how it ended, and what it said.
fn shown(mutant: &Mutant, library: &std::path::Path) -> String {
    let mut command = command(&program(mutant.program, &[]), mutant.args, Some((library, mutant.modes)));
    let folder = tempfile::tempdir().expect("a directory");
    if mutant.stopped {
        let path = folder.path().join("stop");
        Stop::create(&path).and_then(|stop| stop.stop()).expect("a stop file");
        command.env(STOP_VARIABLE, path);
    }
    let output = finish(&mut command, b"", 20);
    let said: Vec<String> = text(&output)
        .lines()
        .filter(|line| !line.starts_with("last was") && !line.starts_with("kept "))
        .map(str::to_owned)
        .collect();
    format!("{:?}\n{}", output.status.code(), said.join("\n"))
}

#[test]
fn each_deliberate_mistake_is_noticed() {
    let mut missed = Vec::new();
    for mutant in MUTANTS {
        let whole = match mutant.define {
            [] => library(),
            define => library_with(define),
        };
        let flag = format!("-DBREAK={}", mutant.number);
        let broken = library_with(&[&[flag.as_str()], mutant.define].concat());
        let good = shown(mutant, &whole);
        assert!(good.starts_with("Some(0)"), "{}: without the mistake: {good}", mutant.what);
        // A race may need more than one try.
        match (0..5).map(|_| shown(mutant, &broken)).find(|bad| *bad != good) {
            Some(bad) => {
                let difference = bad.lines().zip(good.lines()).find(|(bad, good)| bad != good);
                println!("{:2} {}: {:?}", mutant.number, mutant.what, difference.map(|(bad, _)| bad));
            }
            None => missed.push(mutant.what),
        }
    }
    assert!(missed.is_empty(), "nobody notices: {missed:?}");
}
