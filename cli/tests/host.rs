// SPDX-License-Identifier: GPL-2.0-only
//! Do the workloads run on this machine?

mod common;
use ceasefire_artifacts::{guest, Context};
use ceasefire_base::{Progress, Verbosity};
use common::{ceasefire, close, median, results, row, run, skip, Scratch};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn the_same_workloads_run_on_the_host() {
    let cores = std::thread::available_parallelism().expect("known").get().min(4);
    if cores < 2 {
        return skip("host", "one CPU has nobody to interrupt");
    }
    let out = Scratch::new("host");
    let out_dir = out.0.to_string_lossy().into_owned();
    let cpus = cores.to_string();
    let said = run(&mut ceasefire(&[
        "lab", "run", "control", "munmap", "mprotect", "--on", "host", "--cpus", &cpus, "--out", &out_dir,
    ]));
    // Other programs on this machine interrupt its CPUs too: a control may fail here, and then there is no report.
    if said.code == 1 && said.stderr.contains("a control failed") {
        assert!(!out.0.join("results.json").exists(), "a failed control must leave no results");
        return skip("host controls", "other programs on this machine shoot down too");
    }
    assert_eq!(said.code, 0, "{}", said.stderr);
    let results = results(&out.0);
    assert_eq!(results["environment"]["place"], "host");
    let exact = row(&results, "exactly-n", cores as u64);
    assert!(close(median(exact, "received_irq_per_unit"), (cores - 1) as f64, 0.01), "{exact}");
}

/// The kernel's own names go through as they are: sums as differences, memory as a level, no line that is none.
#[test]
fn an_abis_kernels_counters_are_passed_on() {
    let scratch = Scratch::new("fake-abis");
    let out = scratch.0.join("out").to_string_lossy().into_owned();
    let lines =
        "zap_idle 5\nzap_none 3\nrounds 12\nspte_bytes 8192\nspte_tables 2\ninsert_bytes 4096\nBad 1\nworse x\nhalf 12x\n -\n";
    let counters = scratch.file("counters", lines.as_bytes());
    // A file that does not change stands for a kernel in which nothing happened.
    let script = format!(
        "mount -t tmpfs none /sys/kernel/debug && mkdir /sys/kernel/debug/abis && \
         cp {} /sys/kernel/debug/abis/counters && \
         exec {} lab run munmap --on host --cpus 1 --repeats 1 --units 10 --quiet --out {out}",
        counters.display(),
        common::BINARY
    );
    let isolated = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]).current_dir(common::root());
        command
    };
    if !run(&mut isolated("mount -t tmpfs none /sys/kernel/debug")).code.eq(&0) {
        return skip("fake counters", "mounting a small tmpfs needs root");
    }
    let said = run(&mut isolated(&script));
    assert_eq!(said.code, 0, "{}", said.stderr);
    let results = results(&fs::canonicalize(&out).expect("results"));
    let row = row(&results, "munmap", 1);
    let names: Vec<&String> = row["mechanisms"]["abis"].as_object().expect("abis").keys().collect();
    assert_eq!(
        names,
        ["insert_bytes", "rounds", "spte_bytes", "spte_tables", "zap_idle", "zap_none"],
        "{row}"
    );
    let median_of = |name: &str| row["mechanisms"]["abis"][name]["median"].as_f64();
    assert_eq!((median_of("zap_idle"), median_of("rounds")), (Some(0.0), Some(0.0)), "{row}");
    assert_eq!((median_of("spte_bytes"), median_of("spte_tables")), (Some(8192.0), Some(2.0)), "{row}");
    // Secondary page tables are memory in use, not memory allocated meanwhile.
    assert_eq!(median_of("insert_bytes"), Some(4096.0), "{row}");
    assert_eq!(row["elided"]["pages"]["median"].as_f64(), Some(0.0), "{row}");
    assert!(row["checked"].is_null() && row["violations"].is_null(), "{row}");
}

/// The readers of `stale` must see nothing wrong, and must see it where something is.
#[test]
fn stale_reads_are_seen_where_there_are_any() {
    if std::thread::available_parallelism().expect("known").get() < 2 {
        return skip("host stale", "one CPU has no readers");
    }
    let out = Scratch::new("host-stale");
    let out_dir = out.0.to_string_lossy().into_owned();
    let stale = |units: &str, settings: &[&str]| {
        let mut args =
            vec!["lab", "run", "stale", "--on", "host", "--cpus", "2", "--repeats", "1", "--out", &out_dir];
        args.extend(["--units", units]);
        settings.iter().for_each(|setting| args.extend(["--set", setting]));
        run(&mut ceasefire(&args))
    };
    let said = stale("20000", &[]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let results = results(&out.0);
    let extra = &row(&results, "stale", 2)["extra"];
    println!("stale on the host: {extra}");
    assert_eq!(extra["stale_reads"].as_f64(), Some(0.0), "{extra}");
    assert!(extra["reads"].as_f64().is_some_and(|reads| reads >= 20000.0), "too few reads to tell: {extra}");
    for wrong in ["plant=gone", "plant=earlier", "plant=poison"] {
        let said = stale("4000", &[wrong]);
        assert_eq!(said.code, 1, "{wrong} was not seen: {}", said.stdout);
        assert!(said.stderr.contains("stale read: "), "{wrong}: {}", said.stderr);
    }
}

/// A busy machine gets few turns: what was tried in the time there was is reported, with how often.
#[test]
fn a_processors_promises_are_tried_for_as_long_as_there_is_time() {
    let cpus = std::thread::available_parallelism().expect("known").get().min(2).to_string();
    let out = Scratch::new("host-promises");
    let dir = out.0.to_string_lossy().into_owned();
    // The time in which the program is compiled, by whoever needs it first, is not the budget's.
    workloads();
    let begun = std::time::Instant::now();
    let mut args = vec!["lab", "run", "promises", "--on", "host", "--cpus", &cpus, "--repeats", "1"];
    args.extend(["--units", "100000000", "--set", "seconds=2", "--out", &dir]);
    let said = run(&mut ceasefire(&args));
    if said.stderr.contains("nothing could be measured") {
        return skip("host promises", "no /proc/self/clear_refs here");
    }
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(begun.elapsed().as_secs() < 30, "a budget of 2 s took {:?}", begun.elapsed());
    let results = results(&out.0);
    let extra = &row(&results, "promises", cpus.parse().expect("a number"))["extra"];
    let tries = |name: &str| extra[name].as_f64().expect("counted");
    assert_eq!(tries("tries_asked"), 1e8);
    assert!((1.0..1e8).contains(&tries("tries")) && tries("tries_other_cpu") < 1e8, "{extra}");
}

/// What idle page tracking says is clear must be what was cleared; elsewhere these skip with a remedy.
#[test]
fn access_bits_are_cleared_and_seen_to_be() {
    let out = Scratch::new("host-idle");
    let out_dir = out.0.to_string_lossy().into_owned();
    let said = run(&mut ceasefire(&[
        "lab",
        "run",
        "idle-pages",
        "idle-shared",
        "--on",
        "host",
        "--cpus",
        "2",
        "--repeats",
        "1",
        "--units",
        "16",
        "--set",
        "pages=16",
        "--out",
        &out_dir,
    ]));
    if said.stderr.contains("nothing could be measured") {
        return skip("host idle pages", "no idle page tracking here, no root, or one CPU");
    }
    assert_eq!(said.code, 0, "{}", said.stderr);
    let results = results(&out.0);
    let extra = &row(&results, "idle-pages", 2)["extra"];
    assert!(extra["cleared_pages"].as_f64().is_some_and(|pages| pages >= 200.0), "of 256 pages: {extra}");
}

/// Its work is the timer's, and the timer's is not counted.
#[test]
fn what_follows_the_clock_is_no_cost_row() {
    let said = run(Command::new(workloads()).args(["run", "numa-balancing", "--threads", "2", "--cost"]));
    assert_eq!(said.code, 4, "{} {}", said.stdout, said.stderr);
    assert!(said.stdout.contains("which --cost leaves out"), "{} {}", said.stdout, said.stderr);
}

/// One repeat of a workload by the program itself: exit code, and its line.
fn repeat(program: &Path, workload: &str, arguments: &[&str], settings: &[&str]) -> (i32, Value) {
    let mut command = Command::new(program);
    command.args(["run", workload]).args(arguments);
    for setting in settings {
        command.args(["--set", setting]);
    }
    let said = run(&mut command);
    (said.code, serde_json::from_str(said.stdout.trim()).unwrap_or_else(|_| Value::String(said.stderr)))
}

/// Refused, or found wrong, in one sentence with these words.
fn fails(program: &Path, workload: &str, settings: &[&str], words: &str) {
    let (code, line) = repeat(program, workload, &["--units", "20"], settings);
    assert_eq!(code, 1, "{workload} {settings:?}: {line}");
    let reason = line["reason"].as_str().expect("a sentence");
    assert!(reason.contains(words) && !reason.contains('\n'), "{workload} {settings:?}: {reason}");
}

fn workloads() -> PathBuf {
    let context = Context::open(Progress::new(Verbosity::Quiet)).expect("the checkout and the cache");
    guest::workloads_binary(&context).expect("built")
}

/// Who made the memory, who has read it and how many threads there are is nothing that the result depends on; the seed,
/// the size and one wrong bit are.
#[test]
fn what_walks_page_tables_finds_what_it_must() {
    let program = workloads();
    let list = run(Command::new(&program).arg("list")).stdout;
    let all = list.lines().map(|line| serde_json::from_str::<Value>(line).expect("a workload"));
    let names: Vec<String> = all
        .filter(|workload| workload["group"] == "numa" && workload["name"] != "numa-regions")
        .map(|workload| workload["name"].as_str().expect("a name").to_string())
        .collect();
    assert!(names.len() >= 7, "{names:?}");
    let is_alone = std::thread::available_parallelism().expect("known").get() < 2;
    let threads = if is_alone { "1" } else { "2" };
    for name in &names {
        let checksum = |arguments: &[&str], settings: &[&str]| {
            let arguments = [&["--units", "2000"], arguments].concat();
            let (code, line) = repeat(&program, name, &arguments, &[&["mib=1"], settings].concat());
            assert_eq!(code, 0, "{name} {arguments:?} {settings:?}: {line}");
            assert!(line["extra"]["page_table_kib"].as_f64().is_some_and(|kib| kib > 0.0), "{line}");
            assert!(line["units"].as_u64().is_some_and(|units| units >= 2000), "{line}");
            line["checksum"].as_str().expect("a checksum").to_string()
        };
        let alike = checksum(&["--threads", threads], &[]);
        assert_eq!(
            checksum(&["--threads", threads], &["init=each", "warm=1", "cpus=ordered"]),
            alike,
            "{name}"
        );
        // Each thread of `swaps` has elements of its own.
        assert_eq!(checksum(&[], &[]) == alike, is_alone || name != "swaps", "{name}");
        assert_ne!(checksum(&["--threads", threads, "--seed", "2"], &[]), alike, "{name}");
        assert_ne!(checksum(&["--threads", threads], &["mib=2"]), alike, "{name}");
        let (code, line) = repeat(&program, name, &["--units", "2000"], &["mib=1", "plant=1"]);
        let reason = line["reason"].as_str().unwrap_or_default();
        assert!(code == 1 && ["must be", "wrong"].iter().any(|word| reason.contains(word)), "{name}: {line}");
    }
    fails(&program, "gups", &["mib=48"], "mib is 48, and must be a power of two from 1 to 1024");
    fails(&program, "btree", &["init=all"], "init is one or each, not all");
    fails(&program, "munmap", &["cpus=near"], "cpus is ordered, spread or apart, not near");
}

/// The lab runs them as any other workload.
#[test]
fn the_lab_runs_what_walks_page_tables() {
    let out = Scratch::new("host-numa");
    let words = "gups bfs --on host --cpus 1 --repeats 2 --units 1000 --set mib=1";
    let results = common::lab_run(&out, &words.split(' ').collect::<Vec<_>>());
    let extra = &row(&results, "bfs", 1)["extra"];
    assert_eq!(extra["searches"].as_f64(), Some(1.0), "{extra}");
}

#[test]
fn regions_are_changed_and_looked_at_again() {
    let program = workloads();
    // Pages that are gone cannot be looked at: what was read of them tells.
    let (gone, there) = ("the checksum is", "1 pages do not have the word that was written");
    for (settings, wrong) in [
        (&["op=munmap"][..], gone),
        (&["op=munmap", "pages=600", "layout=packed"], gone),
        (&["op=mprotect", "pages=3"], there),
        (&["op=free", "pages=3"], there),
        (&["op=remap", "pages=3"], there),
        (&["op=remap", "pages=600", "layout=packed"], there),
        (&["op=touch", "pages=2", "layout=packed"], there),
        (&["op=read", "passes=3"], there),
    ] {
        let (code, line) = repeat(&program, "numa-regions", &["--units", "21"], settings);
        assert_eq!(code, 0, "{settings:?}: {line}");
        fails(&program, "numa-regions", &[settings, &["plant=1"]].concat(), wrong);
    }
    fails(
        &program,
        "numa-regions",
        &["op=mremap"],
        "op is munmap, mprotect, free, remap, touch or read, not mremap",
    );
    fails(&program, "numa-regions", &["layout=near"], "layout is apart or packed, not near");
    fails(&program, "numa-regions", &["mapper=all"], "mapper is user or other, not all");
    fails(&program, "numa-regions", &["op=read", "passes=0"], "passes is 0, and must be 1 to 1000");
    fails(&program, "numa-regions", &["pages=0"], "pages is 0, and must be 1 or more");
    fails(
        &program,
        "numa-regions",
        &["pages=30000"],
        "20 regions of 30000 pages are more than 524288 pages in all",
    );
    let many = fs::read_to_string("/proc/sys/vm/max_map_count").expect("a limit");
    let units = many.trim().parse::<u64>().expect("a number").saturating_add(1).min(524288);
    let words = format!("numa-regions --threads 2 --units {units} --set layout=packed");
    let (code, said) = on_nodes(&fake_nodes(&[&[0, 1]]), &words);
    // Some distributions allow more mappings than there may be pages.
    if units < 524288 {
        let reason = format!("and vm.max_map_count is {}: ask for fewer --units", many.trim());
        assert!(code == 1 && said.contains(&reason), "{said}");
    }
}

/// Nodes as /sys/devices/system/node shows them, each with these CPUs.
fn fake_nodes(nodes: &[&[u32]]) -> Scratch {
    let scratch = Scratch::new("host-nodes");
    for (node, cpus) in nodes.iter().enumerate() {
        let directory = scratch.0.join(format!("node{node}"));
        fs::create_dir(&directory).expect("a node");
        cpus.iter().for_each(|cpu| fs::create_dir(directory.join(format!("cpu{cpu}"))).expect("a CPU"));
    }
    scratch
}

/// The program's exit code, and what it says, on such nodes.
fn on_nodes(nodes: &Scratch, words: &str) -> (i32, String) {
    let mut command = Command::new(workloads());
    command.arg("run").args(words.split(' ')).env("CEASEFIRE_FAKE_NODES", &nodes.0);
    let said = run(&mut command);
    (said.code, said.stdout + &said.stderr)
}

/// Which CPUs threads get decides which nodes they are on, and so what can be measured at all.
#[test]
fn threads_go_to_the_nodes_that_are_asked_for() {
    let few_nodes =
        "readers=1 needs threads on 2 NUMA nodes, and they run on 1: give more --nodes, or --set cpus=spread";
    let uneven = "move=1 needs as many threads on each NUMA node";
    let cases: &[(&[&[u32]], &str, &str)] = &[
        (&[&[0, 1], &[2]], "--threads 2 --set readers=1", ""),
        (&[&[0, 1], &[2]], "--threads 2 --set readers=1 --set cpus=spread", ""),
        (&[&[0, 1], &[2]], "--threads 2 --set readers=1 --set cpus=apart", ""),
        (&[&[0, 1], &[2]], "--threads 2 --set readers=1 --set cpus=ordered", few_nodes),
        (&[&[0, 1], &[2]], "--threads 3 --set readers=1 --set cpus=ordered", ""),
        (&[&[0, 1], &[2]], "--threads 1 --set readers=1", few_nodes),
        // Nodes whose numbers or whose CPUs' numbers are not in order.
        (&[&[2], &[0, 1]], "--threads 2 --set readers=1", ""),
        (&[&[0, 2], &[1, 3]], "--threads 2 --set readers=1 --set cpus=ordered", ""),
        // Two threads on either node; or one, and then those of the other node first.
        (&[&[0, 1, 2], &[3, 4, 5]], "--threads 4 --set move=1", ""),
        (&[&[0, 1, 2], &[3, 4, 5]], "--threads 4 --set move=1 --set cpus=apart", uneven),
        (&[&[0, 1, 2], &[3, 4, 5]], "--threads 6 --set move=1 --set cpus=apart", ""),
        (&[&[0, 1], &[2]], "--threads 3 --set move=1", uneven),
        // A node that has no CPUs left is passed over.
        (&[&[0], &[1, 2, 3], &[4]], "--threads 5 --set readers=2", ""),
        (
            &[&[0], &[1, 2, 3], &[4]],
            "--threads 5 --set readers=3",
            "readers=3 needs threads on 4 NUMA nodes, and they run on 3",
        ),
        (&[&[0, 1]], "--threads 2 --set mapper=other", "mapper=other needs threads on 2 NUMA nodes"),
        (&[&[0, 1]], "--threads 2 --set move=1", "move=1 needs threads on 2 NUMA nodes"),
        (&[&[0, 1]], "--threads 2 --set cpus=apart", "cpus=apart needs CPUs of 2 NUMA nodes"),
        (&[&[0, 1]], "--threads 2 --set cpus=spread", ""),
    ];
    for (nodes, words, reason) in cases {
        let (code, said) = on_nodes(&fake_nodes(nodes), &format!("numa-regions --units 21 {words}"));
        assert_eq!(code, if reason.is_empty() { 0 } else { 4 }, "{nodes:?} {words}: {said}");
        assert!(said.contains(reason), "{nodes:?} {words}: {said}");
    }
}

/// What readers, mappers and movers of other nodes do to a region is looked at, too.
#[test]
fn regions_are_changed_after_other_nodes_have_used_them() {
    let nodes = fake_nodes(&[&[0, 1], &[2, 3]]);
    for (words, wrong) in [
        ("op=munmap --set readers=1", "the checksum is"),
        (
            "op=mprotect --set readers=1 --set mapper=other --set layout=packed",
            "1 pages do not have the word",
        ),
        ("op=read --set readers=1 --set passes=2", "1 pages do not have the word"),
        ("op=munmap --set move=1 --set cpus=apart", "the checksum is"),
    ] {
        let words = format!("numa-regions --threads 4 --units 21 --set {words}");
        let (code, said) = on_nodes(&nodes, &words);
        assert_eq!(code, 0, "{words}: {said}");
        let (code, said) = on_nodes(&nodes, &format!("{words} --set plant=1"));
        assert!(code == 1 && said.contains(wrong), "{words}: {said}");
    }
}

/// What a node has no room for would lie on another one, with its page tables.
#[test]
fn what_does_not_fit_into_its_nodes_is_not_measured() {
    let nodes = fake_nodes(&[&[0], &[1]]);
    let free = |node: u32, kib: u32| {
        let path = nodes.0.join(format!("node{node}/meminfo"));
        fs::write(path, format!("Node {node} MemTotal: 999999 kB\nNode {node} MemFree:  {kib} kB\n"))
            .expect("written");
    };
    free(0, 2048);
    free(1, 1600);
    let gups = |words: &str| on_nodes(&nodes, &format!("gups --threads 2 --units 20 --set {words}"));
    // Where one node has all memory, no other can take what it has no room for.
    fs::write(nodes.0.join("has_memory"), "0\n").expect("written");
    assert_eq!(gups("mib=4").0, 0);
    fs::write(nodes.0.join("has_memory"), "0-1\n").expect("written");
    for words in ["mib=2", "mib=2 --set init=each"] {
        assert_eq!(gups(words).0, 0, "{words}");
    }
    for (words, reason) in [
        (
            "mib=4",
            "needs 4 MiB on NUMA node 0, where 2 MiB are free: ask for less, or give the guest more --memory",
        ),
        ("mib=4 --set init=each", "needs 2 MiB on NUMA node 1, where 1 MiB are free"),
    ] {
        let (code, said) = gups(words);
        assert!(code == 4 && said.contains(reason), "{words}: {said}");
    }
    let (code, said) = on_nodes(&nodes, "numa-regions --threads 2 --units 1024");
    assert!(code == 4 && said.contains("needs 2 MiB on NUMA node 1"), "{said}");
    // The outer relation takes room, too.
    let (code, said) = on_nodes(&nodes, "hash-join --threads 2 --units 200000 --set mib=1");
    assert!(code == 4 && said.contains("needs 3 MiB on NUMA node 0"), "{said}");
}

/// No page of a parent shows what its child wrote, nor the other way round.
#[test]
fn families_keep_their_pages_apart() {
    let program = workloads();
    for (settings, wrong) in [
        (&["pages=40"][..], "page 39 is not what the parent wrote"),
        (&["pages=40", "writer=child"], "child 0 failed, or read a page that was not what it inherited"),
        (&["pages=40", "writer=parent"], "child 0 failed, or read a page that was not what it inherited"),
    ] {
        let (code, line) = repeat(&program, "fork", &["--units", "20"], settings);
        assert_eq!(code, 0, "{settings:?}: {line}");
        fails(&program, "fork", &[settings, &["plant=1"]].concat(), wrong);
    }
    fails(&program, "fork", &["writer=both", "pages=1"], "writer is none, child or parent, not both");
    fails(&program, "fork", &["writer=child"], "give pages=N, too");
    fails(&program, "fork", &["pages=200000"], "must be 0 to 131072");
}
