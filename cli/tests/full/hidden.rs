// SPDX-License-Identifier: GPL-2.0-only
//! Entries that hardware does not see, and insertions that do not succeed: does nobody notice?

use super::common::checked::{self, counted};
use super::common::row;
use super::{clean, extra, kernel, FOUR};

/// Whoever populates spares others the faults.
#[test]
#[ignore = "more boots: make test-full-all"]
fn what_is_populated_is_not_hidden() {
    for by in ["by=mmap", "by=madvise", "by=pin"] {
        let results = clean(&["populate", "--set", by], &["--cpus", "4", "--tlb", "hardware"]);
        let row = row(&results, "populate", 4);
        let faults = row["faults_per_unit"]["max"].as_f64().expect("counted");
        println!("populate {by}: {faults} faults a page");
        assert!(faults <= 0.01, "{row}");
        assert_eq!(counted(row, "hidden_faults"), 0, "{row}");
    }
}

/// What one thread has in its TLB alone, nobody else can tell from any other page: samplers, mlock(), mprotect().
#[test]
#[ignore = "more boots: make test-full-all"]
fn nobody_notices_what_is_hidden() {
    let args = [&["hidden"][..], &FOUR].concat();
    for mode in ["off", "full"] {
        let results = checked::clean(&args, &kernel(mode, ""));
        let row = row(&results, "hidden", 4);
        let [samples, short, faults] =
            ["samples", "samples_short", "populated_faults"].map(|name| extra(row, name));
        println!(
            "mode {mode}: {samples} samples, {short} of them short, {faults} faults on what was populated"
        );
        assert!(samples >= 200.0 && short == 0.0 && faults == 0.0, "{row}");
        let least = [("hidden", 500), ("hidden_taken", 20), ("hidden_again", 20), ("hidden_revealed", 50)];
        for (name, least) in least.iter().filter(|_| mode == "full") {
            println!("{name:19} {:6}", counted(row, name));
            assert!(counted(row, name) >= *least, "{row}");
        }
    }
}

/// A fetch is no read: what may be executed is never hidden, so no fetch finds it absent.
#[test]
#[ignore = "more boots: make test-full-all"]
fn what_may_be_executed_is_not_hidden() {
    let args = [&["hidden", "--set", "exec=1"][..], &FOUR].concat();
    let hidden = |words: &str| {
        let results = checked::clean(&args, &kernel("full", words));
        counted(row(&results, "hidden", 4), "hidden")
    };
    // A page of the program's own constants may be among them.
    let intact = hidden("");
    assert!(intact <= 50, "{intact} pages that may be executed are hidden");
    let broken = hidden("abis_mutant=hidden-executable");
    println!("{broken} pages that may be executed are hidden by a break");
    assert!(broken >= 500, "the break is not seen");
}

/// The read that fills the TLB may fail once it has filled it. Then the page is flushed, and anybody's: either would do.
#[test]
#[ignore = "more boots: make test-full-all"]
fn a_page_that_could_not_be_read_is_anybodys() {
    let args = [&["owner", "hidden", "stress-mix"][..], &FOUR].concat();
    let results = checked::clean(&args, &kernel("full", "abis_mutant=insert-unread"));
    for workload in ["owner", "hidden", "stress-mix"] {
        let row = row(&results, workload, 4);
        let [unread, insertions] = ["insert_refused_fault", "insert_switches"].map(|name| counted(row, name));
        println!("{workload}: {unread} pages could not be read in {insertions} insertions");
        assert!(unread >= 100 && unread * 10 >= insertions, "{row}");
    }
}
