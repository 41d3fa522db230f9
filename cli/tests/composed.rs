// SPDX-License-Identifier: GPL-2.0-only
//! ABIS and replicated page tables in one kernel: is a flush for the CPUs that may hold the entry, of the nodes that use
//! its page table, and is every one that is left out one that nobody needed?

mod common;
use common::checked::{self, consoles, lab};
use common::{median, row, Scratch};
use serde_json::Value;

const KERNEL: &str = "abis-numapte-debug";
const MACHINE: [&str; 6] = ["--cpus", "4", "--nodes", "2", "--tlb", "hardware"];

fn kernel(mode: &str, more: &str) -> Vec<String> {
    checked::named(KERNEL, mode, more)
}

/// `violations` are of both mechanisms, and `clean` allows none.
fn clean(args: &[&str], mode: &str) -> Value {
    checked::clean(&[args, &MACHINE].concat(), &kernel(mode, ""))
}

fn counter(row: &Value, mechanism: &str, name: &str) -> f64 {
    row["mechanisms"][mechanism][name]["max"].as_f64().unwrap_or_else(|| panic!("no counter {name}: {row}"))
        * row["units"].as_f64().expect("units")
}

/// Each mode of one with each of the other. Where both are on, both leave something out, and both ask the machine.
#[test]
fn each_mode_goes_with_each() {
    for abis in ["off", "idle", "full"] {
        for numapte in ["off", "on", "eager"] {
            let mode = format!("{abis}+{numapte}");
            let results = clean(&["stress-mix", "--units", "600"], &mode);
            let row = row(&results, "stress-mix", 4);
            let asked = counter(row, "abis", "checked");
            let let_off: f64 = ["zap", "protect", "clear", "move", "batch", "tables"]
                .iter()
                .map(|site| counter(row, "numapte", &format!("let_off_{site}")))
                .sum();
            println!("{mode}: {asked} elisions and {let_off} flushes for some nodes were asked about");
            assert_eq!(asked >= 1.0, abis != "off", "{row}");
            assert_eq!(let_off >= 1.0, numapte != "off", "{row}");
        }
    }
}

/// A region that one CPU uses: hardly an interrupt, where the node alone would be one. One that both nodes have read: all
/// CPUs, as ever.
#[test]
fn a_private_region_interrupts_nobody() {
    for op in ["op=munmap", "op=mprotect"] {
        for (readers, most, least) in [("readers=0", 0.6, 0.0), ("readers=1", 3.0, 2.95)] {
            let results = clean(&["numa-regions", "--set", op, "--set", readers], "full+on");
            let received = median(row(&results, "numa-regions", 4), "received_per_unit");
            println!("{op} {readers}: {received} received");
            assert!((least..=most).contains(&received), "{op} {readers}: {received}");
        }
    }
}

/// Stacks in hidden pages that a sampler could not read, in this mode.
fn samples_short(mode: &str, words: &str) -> f64 {
    let results = checked::clean(&[&["hidden"], &MACHINE[..]].concat(), &kernel(mode, words));
    let row = row(&results, "hidden", 4);
    let [samples, short] =
        ["samples", "samples_short"].map(|name| row["extra"][name].as_f64().expect("counted"));
    println!("{mode} {words}: {samples} samples, {short} of them short");
    assert!(samples >= 200.0, "{row}");
    assert_eq!(counter(row, "abis", "hidden") >= 500.0, mode == "full+on", "{row}");
    short
}

/// It reveals what is hidden and tries again. Who is sampled runs where the page table lies.
#[test]
fn a_reader_that_may_not_fault_gets_what_it_wants() {
    assert_eq!(samples_short("off+on", ""), 0.0);
    assert_eq!(samples_short("full+on", ""), 0.0);
    assert!(samples_short("full+on", "abis_mutant=hidden-unrevealed") > 0.0, "not found: hidden-unrevealed");
}

/// Where its node has a replica, it must give up. Nobody else of the node is there who would fill the replica.
#[test]
fn a_reader_that_may_not_fault_comes_to_an_end() {
    let args = ["hidden", "--threads", "2", "--set", "cpus=spread", "--timeout", "60"];
    let results = clean(&args, "full+on");
    assert!(row(&results, "hidden", 2)["extra"]["samples_short"].as_f64() >= Some(200.0), "{results}");
    assert!(is_found("abis_mutant", "hidden-again-nofault", "full+on", &args));
}

#[test]
fn what_the_machine_fills_is_not_hidden_behind_a_replica() {
    let args = ["hidden", "--tlb", "hardware,insert=on"];
    let results = checked::clean(&[&args, &MACHINE[..4]].concat(), &kernel("full-hw+on", ""));
    assert!(counter(row(&results, "hidden", 4), "abis", "inserted") >= 1.0, "{results}");
    assert!(is_found("abis_mutant", "request-hides-replicated", "full-hw+on", &args));
}

fn is_found(parameter: &str, mutant: &str, mode: &str, args: &[&str]) -> bool {
    let out = Scratch::new("composed-mutant");
    let machine = if args.contains(&"--tlb") { &MACHINE[..4] } else { &MACHINE };
    let said = lab(&out, &[args, machine].concat(), &kernel(mode, &format!("{parameter}={mutant}")));
    let console = consoles(&out);
    assert!(console.contains(&format!("broken on purpose: {mutant}")), "{mutant}: {console}");
    println!("{mutant}: exit code {}", said.code);
    said.code == 1
}

/// Where ABIS leaves nothing out, too.
#[test]
fn a_flush_for_others_that_is_for_some_nodes_is_found() {
    assert!(is_found("numapte_mutant", "nested-filtered", "off+on", &["overlap"]));
}

#[test]
fn a_round_that_is_none_is_found() {
    let args = ["held", "--set", "scenario=beside"];
    let results = clean(&args, "idle+on");
    assert!(counter(row(&results, "held", 4), "abis", "zap_recent") >= 10.0, "{results}");
    assert!(is_found("numapte_mutant", "round-filtered", "idle+on", &args));
}
