// SPDX-License-Identifier: GPL-2.0-only
//! The observer inside the lab's guest: another kernel, two nodes, CPUs that are left alone.

mod common;
use common::{ceasefire, lab_run, median, row, run, Said, Scratch};
use serde_json::Value;

/// Runs one command in a guest whose last CPU of four is isolated; the guest's own lines.
fn in_guest(command: &str) -> Said {
    with_words("isolcpus=3 nohz_full=3", command)
}

fn with_words(words: &str, command: &str) -> Said {
    on(&["--kernel", "observed", "--kernel-args", words], command)
}

fn on(kernel: &[&str], command: &str) -> Said {
    let shape = ["--cpus", "4", "--nodes", "2", "--with", common::BINARY, "--command", command];
    run(&mut ceasefire(&[&["lab", "shell"], kernel, &shape].concat()))
}

/// What the command in the guest ended with.
fn guest_code(said: &Said) -> i32 {
    let text = said.stderr.split_once("exit code ").and_then(|(_, rest)| rest.split_once(':'));
    text.map_or(said.code, |(code, _)| code.parse().expect("a number"))
}

fn json_lines(said: &Said) -> Vec<Value> {
    said.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Two of them only such a guest can make.
#[test]
fn every_storm_is_attributed_on_linux_6_12_with_two_nodes() {
    let said = in_guest("ceasefire watch selftest --json");
    let verdicts = json_lines(&said);
    for verdict in &verdicts {
        println!("{:<6} {:<17} {}", verdict["verdict"], verdict["storm"], verdict["detail"]);
    }
    assert_eq!(said.code, 0, "{}\n{}", said.stdout, said.stderr);
    let is = |name: &str, wanted: &str| {
        verdicts.iter().any(|verdict| verdict["storm"] == name && verdict["verdict"] == wanted)
    };
    for name in ["numa-balancing", "migration", "soft-dirty", "munmap", "mprotect", "cow", "ksm", "reclaim"] {
        assert!(is(name, "ok"), "{name}: {}", said.stdout);
    }
    let skipped = verdicts.iter().filter(|verdict| verdict["verdict"] == "skip").count();
    assert!(skipped == 0 && verdicts.len() >= 20, "{}", said.stdout);
}

#[test]
fn an_isolated_cpu_that_is_interrupted_is_told_of() {
    let stat = |cpus: &str| {
        let storm = format!("ceasefire watch storm munmap --rounds 200 --cpus {cpus}");
        in_guest(&format!("ceasefire watch stat --json --isolated -- {storm}"))
    };
    let (left_alone, visited) = (stat("1,2"), stat("2,3"));
    let report = |said: &Said| {
        let of = json_lines(said).into_iter().find(|line| line["verb"] == "stat");
        of.unwrap_or_else(|| panic!("no report: {}\n{}", said.stdout, said.stderr))["isolated"].clone()
    };
    assert_eq!(left_alone.code, 0, "{}\n{}", left_alone.stdout, left_alone.stderr);
    assert_eq!(report(&left_alone), serde_json::json!({"cpus": [3], "interruptions": 0, "by_class": {}}));
    assert_eq!(guest_code(&visited), 1, "{}\n{}", visited.stdout, visited.stderr);
    assert!(report(&visited)["interruptions"].as_u64().is_some_and(|n| n >= 200), "{}", visited.stdout);
    assert!(visited.stdout.contains("shootdowns interrupted the isolated CPUs 3"), "{}", visited.stdout);
}

#[test]
fn a_kernel_that_is_locked_down_is_told_of() {
    let said = with_words("lockdown=confidentiality", "ceasefire watch stat 1 1");
    assert_eq!(guest_code(&said), 4, "{}\n{}", said.stdout, said.stderr);
    let text = said.stdout + &said.stderr;
    assert!(text.contains("this kernel is locked down (confidentiality)"), "{text}");
    assert!(text.contains("boot without lockdown=confidentiality"), "{text}");
}

/// A kernel with ABIS in mode full interrupts single CPUs by a function of its own: here a third of all.
#[test]
fn interrupts_of_single_cpus_are_seen_too() {
    let kernel = ["--kernel", "observed-abis", "--mode", "full", "--kernel-args", "abis_adaptive=0"];
    let kernel = [&kernel[..], &["--tlb", "hardware"]].concat();
    let out = Scratch::new("watch-guest-single");
    let shape = ["owner", "--units", "400", "--repeats", "1", "--cpus", "4", "--nodes", "2"];
    let results = lab_run(&out, &[&shape[..], &kernel].concat());
    let of_row = row(&results, "owner", 4);
    let share = median(&of_row["mechanisms"]["abis"], "narrow_ipis") / median(of_row, "received_per_unit");
    assert!(share >= 0.1, "{share} of all: the run shows nothing");

    // Stacks would make a line too long for the guest's port.
    let owner = "workloads run owner --threads 4 --units 400 --seed 1";
    let said = on(&kernel, &format!("ceasefire watch stat --json --no-stacks -- {owner}"));
    assert_eq!(said.code, 0, "{}\n{}", said.stdout, said.stderr);
    let lines = json_lines(&said);
    let report = lines.iter().find(|line| line["verb"] == "stat");
    let report = report.unwrap_or_else(|| panic!("no report: {}\n{}", said.stdout, said.stderr));
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("no number: {value}"));
    let classes = report["coverage"]["classes"].as_array().expect("classes");
    let class = |name: &str| classes.iter().find(|class| class["class"] == name).expect("a class");
    let (user, own) = (class("user"), class("own"));
    let (queued, kernel) = (number(&user["queued"]) + number(&own["queued"]), number(&user["kernel"]));
    let senders = report["senders"].as_array().expect("senders").iter();
    let described: u64 =
        senders.filter(|row| row["class"] == "user").map(|row| number(&row["tally"]["targets"])).sum();
    println!("{:.0} % are of single CPUs; saw {queued} of {kernel}, described {described}", share * 100.0);
    assert!(queued >= 1000 && queued.abs_diff(kernel) * 1000 <= kernel, "saw {user} + {own}");
    assert!(described.abs_diff(number(&user["queued"])) * 1000 <= kernel, "described {described} of {user}");
    assert_eq!(report["coverage"]["lost"]["answers"], 0, "{}", report["coverage"]["lost"]);
}

/// `lab run --record` on kernel observed-batch: sent, pages and saved of the rows of one cause, one for each record.
fn recorded(cause: &str, args: &[&str]) -> Vec<[u64; 3]> {
    let out = Scratch::new("watch-guest-recorded");
    let kernel = ["--kernel", "observed-batch", "--record", "--cpus", "4", "--repeats", "1"];
    let results = lab_run(&out, &[&kernel[..], args].concat());
    let records = results["recorded"].as_array().expect("records");
    let of = |record: &Value| {
        assert!(std::path::Path::new(record["file"].as_str().expect("a file")).exists(), "{record}");
        let rows = record["savings"]["processes"].as_array().expect("rows");
        let mine = rows.iter().filter(|row| row["cause"] == cause);
        let sum = |field: &str| mine.clone().map(|row| row[field].as_u64().expect("a number")).sum();
        ["shootdowns", "pages", "saved_shootdowns_at_most"].map(sum)
    };
    records.iter().map(of).collect()
}

/// The article's before and after, on kernel addresses.
#[test]
fn a_slab_is_one_shootdown_or_one_for_each_of_its_pages() {
    let args = ["slabs", "--units", "10", "--set", "pages=1,32", "--set", "by=pages,range"];
    let [one, one_range, many, range] = recorded("unknown:slab_write", &args)[..] else {
        panic!("four rows")
    };
    assert_eq!([&one[..2], &one_range[..2]], [[10, 10], [10, 10]]);
    assert_eq!([&many[..2], &range[..2]], [[320, 320], [10, 320]]);
    // Of every slab all but one; two instructions of one function are two stacks.
    assert!((280..=310).contains(&many[2]) && range[2] == 0, "{many:?} {range:?}");
}

/// What is foreseen with batching off is seen with batching on.
#[test]
fn what_batching_would_save_is_saved() {
    let [off, on] = recorded("msync", &["writeback", "--units", "2048", "--mode", "off,on"])[..] else {
        panic!("two rows")
    };
    println!("off: sent {}, to be saved {}; on: sent {}", off[0], off[2], on[0]);
    assert_eq!(off[0], off[1], "page by page");
    // A CPU that runs something else for a moment is no target: then nothing is sent for a page.
    assert!(off[0] >= 2000 && on[0] <= 16, "{off:?} {on:?}");
    assert!((off[0] - off[2]).abs_diff(on[0]) <= 4, "foreseen {}, seen {}", off[0] - off[2], on[0]);
}
