// SPDX-License-Identifier: GPL-2.0-only
//! Interrupts that are no flush, what all of them weigh, and whether a change helped: on this machine, as root.

mod common;
use common::{ceasefire, may_watch, refused, run, skip, succeed, Scratch};
use serde_json::Value;

fn class<'a>(report: &'a Value, name: &str) -> &'a Value {
    let classes = report["coverage"]["classes"].as_array().expect("classes");
    classes.iter().find(|class| class["class"] == name).expect("the class")
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn last_json(text: &str) -> Value {
    serde_json::from_str(text.lines().last().expect("a report")).expect("JSON")
}

/// Membarriers interrupt without flushing: the row TLB does not move, and every sender is known all the same.
#[test]
fn cross_calls_of_100_000_and_more_are_seen_whole() {
    if !may_watch() {
        return;
    }
    let storm = ["watch", "storm", "membarrier", "--rounds", "400000"];
    let args = [&["watch", "stat", "--json", "--", common::BINARY][..], &storm].concat();
    let interrupted = |report: &Value| number(&report["coverage"]["interrupts"]["kernel"]);
    let mut reports = (0..5).map(|_| -> Value {
        let said = succeed(&mut ceasefire(&args));
        serde_json::from_str(said.stdout.lines().last().expect("a report")).expect("JSON")
    });
    let Some(report) = reports.find(|report| interrupted(report) >= 100_000) else {
        return skip("watch storms", "other programs had the victim's CPU in each of five tries");
    };
    let (seen, kernel) = (number(&report["coverage"]["interrupts"]["seen"]), interrupted(&report));
    let (calls, user) = (class(&report, "cross-call"), class(&report, "user"));
    println!("saw the senders of {seen} of {kernel} interrupts; {calls}");
    let share = seen as f64 / kernel as f64;
    assert!((0.999..=1.001).contains(&share), "{share}");
    let membarriers = |table: &str| -> u64 {
        let rows = report[table].as_array().expect("rows").iter();
        rows.filter(|row| row["cause"] == "membarrier").map(|row| number(&row["tally"]["targets"])).sum()
    };
    assert_eq!(membarriers("sites"), membarriers("senders"));
    assert!(membarriers("sites") * 1000 >= number(&calls["queued"]) * 990, "{calls}");
    assert!(number(&user["queued"]) < number(&calls["queued"]) / 10, "{user}");
    assert_eq!(number(&report["coverage"]["lost"]["rows"]), 0);
}

/// Who starts counting with perf, and so changes the kernel's code, is told from who only calls membarrier.
#[test]
fn other_cross_calls_are_shown_where_they_are_asked_for() {
    if !may_watch() {
        return;
    }
    let storm = ["--", common::BINARY, "watch", "storm", "text-patching", "--rounds", "50"];
    let stat = succeed(&mut ceasefire(&[&["watch", "stat"][..], &storm].concat())).stdout;
    let row = stat.lines().find(|line| line.contains("do_sync_core")).expect("a row of the function");
    assert!(row.trim_start().starts_with("text-patching") && row.contains("ceasefire"), "{row}");
    for (more, is_shown) in [(&["--cross-calls"][..], true), (&[], false)] {
        let matrix = succeed(&mut ceasefire(&[&["watch", "matrix"], more, &storm[..]].concat())).stdout;
        assert_eq!(matrix.contains("(cross-call)"), is_shown, "{matrix}");
    }
    let stacks = [&["watch", "stacks", "--cross-calls", "--cause", "text-patching"][..], &storm].concat();
    let stacks = succeed(&mut ceasefire(&stacks)).stdout;
    assert!(stacks.contains("perf_event_alloc") || stacks.contains("__x64_sys_perf_event_open"), "{stacks}");
}

/// A clean row TLB is no clean CPU.
#[test]
fn an_isolated_cpu_is_not_left_alone_by_other_cross_calls() {
    if !may_watch() {
        return;
    }
    for (storm, class) in [("membarrier", "cross-call"), ("munmap", "user")] {
        let storm = ["watch", "storm", storm, "--rounds", "500"];
        let args = [&["watch", "stat", "--json", "--isolated", "--", common::BINARY][..], &storm].concat();
        let said = run(ceasefire(&args).env("CEASEFIRE_WATCH_ISOLATED", "1"));
        assert_eq!(said.code, 1, "{}\n{}", said.stdout, said.stderr);
        assert!(said.stderr.contains("cross calls") || class == "user", "{}", said.stderr);
        let report: Value =
            serde_json::from_str(said.stdout.lines().last().expect("a report")).expect("JSON");
        assert!(number(&report["isolated"]["by_class"][class]) > 0, "{}", report["isolated"]);
    }
}

/// The first line of a report: a storm is accused by the name of its cause, an idle second is not.
#[test]
fn the_first_line_accuses_a_storm_and_says_of_what_it_is_made() {
    if !may_watch() {
        return;
    }
    for (storm, rounds, kind) in
        [("munmap", "20000", "flushes"), ("cow", "20000", "flushes"), ("membarrier", "20000", "cross_calls")]
    {
        let storm_args = ["--", common::BINARY, "watch", "storm", storm, "--rounds", rounds];
        let report = last_json(
            &succeed(&mut ceasefire(&[&["watch", "stat", "--json"][..], &storm_args].concat())).stdout,
        );
        let verdict = &report["verdict"];
        println!("{storm}: {verdict}");
        assert_eq!(verdict[kind], "accused", "{verdict}");
        assert!(verdict["text"].as_str().is_some_and(|text| text.contains(storm)), "{verdict}");
        if kind == "flushes" {
            let worst = &report["bursts"]["hundredth"];
            assert!(
                number(&worst["received"]) > 0 && number(&worst["stolen_ns"]) > 0,
                "{}",
                report["bursts"]
            );
            assert!(number(&report["bursts"]["second"]["received"]) >= number(&worst["received"]));
        }
    }
    let report = last_json(&succeed(&mut ceasefire(&["watch", "stat", "--json", "--", "sleep", "1"])).stdout);
    println!("asleep: {}", report["verdict"]);
    // Others may storm on this machine.
    if number(&class(&report, "user")["queued"]) < 100 {
        assert_eq!(report["verdict"]["flushes"], "acquitted", "{}", report["verdict"]);
    }
}

#[test]
fn the_wait_is_a_part_of_the_whole_call() {
    if !may_watch() {
        return;
    }
    let storm = ["--", common::BINARY, "watch", "storm", "munmap", "--rounds", "2000"];
    let report = last_json(
        &succeed(&mut ceasefire(&[&["watch", "stat", "--json", "--whole-calls"][..], &storm].concat()))
            .stdout,
    );
    let sites = report["sites"].as_array().expect("sites").iter();
    let of = |name: &str| -> u64 {
        let mine = sites.clone().filter(|site| site["cause"] == "munmap");
        mine.map(|site| site[name].as_u64().or_else(|| site["tally"][name].as_u64()).unwrap_or(0)).sum()
    };
    let (calls, call_ns, sent, wait_ns) = (of("calls"), of("call_ns"), of("shootdowns"), of("wait_ns"));
    println!("{calls} calls of {call_ns} ns, {sent} shootdowns of {wait_ns} ns");
    assert!(calls.abs_diff(sent) * 100 <= sent, "{calls} calls, {sent} shootdowns");
    assert!(wait_ns > 0 && wait_ns < call_ns, "{wait_ns} of {call_ns}");
}

/// Twice as many rounds in the same time are told from as many again, and a pipeline is told.
#[test]
fn a_change_is_told_from_chance_and_a_pipeline_is_told() {
    if !may_watch() {
        return;
    }
    let scratch = Scratch::new("compare");
    let record = |name: &str, rounds: u64| {
        let file = scratch.0.join(name).to_string_lossy().into_owned();
        let script = format!(
            "for i in 1 2 3 4 5 6; do '{}' watch storm munmap --rounds {rounds} >/dev/null; sleep 0.2; done",
            common::BINARY
        );
        let args = ["watch", "record", "-o", &file, "--interval", "0.4", "--", "sh", "-c", &script];
        succeed(&mut ceasefire(&args));
        file
    };
    let (many, few) = (record("many", 8000), record("few", 200));
    let compare =
        |more: &[&str], a: &str, b: &str| run(&mut ceasefire(&[&["watch", "compare", a, b], more].concat()));
    let said = compare(&[], &many, &few);
    println!("{}", said.stdout);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.contains("munmap"), "{}", said.stdout);
    assert_eq!(compare(&["--want-less", "30"], &many, &few).code, 0);
    assert_eq!(compare(&["--fail-over", "30"], &many, &few).code, 0);
    assert_eq!(compare(&["--fail-over", "30"], &few, &many).code, 1);
    assert_eq!(compare(&["--want-less", "10"], &few, &many).code, 1);
    let per_unit: Value =
        serde_json::from_str(&compare(&["--json", "--units", "48000,1200"], &many, &few).stdout)
            .expect("JSON");
    assert_eq!(per_unit["per"], "unit");
    refused(&mut ceasefire(&["watch", "compare", &many, &few, "--units", "5"]), 2, "units");
    let all = per_unit["changes"].as_array().expect("changes").iter();
    let user = all.clone().find(|row| row["class"] == "user" && row["cause"] == "munmap").expect("munmap");
    assert!(user["before"].as_f64().is_some_and(|each| (0.5..2.0).contains(&each)), "{user}");
}
