// SPDX-License-Identifier: GPL-2.0-only
//! Does a record keep what was seen, for every view and for another machine? Recording needs root; reading does not.

#[path = "../../watch/record/tests/sample/mod.rs"]
mod sample;

mod common;
use common::{ceasefire, may_watch, refused, run, skip, succeed, Said, Scratch, BINARY};
use serde_json::Value;
use std::path::{Path, PathBuf};

const VIEWS: [&str; 7] = ["stat", "hist", "stacks", "matrix", "trace", "advice", "savings"];

fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn report(file: &Path, more: &[&str]) -> Said {
    let file = path(file);
    let mut args = vec!["watch", "report", &file];
    args.extend(more);
    succeed(&mut ceasefire(&args))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text.trim().lines().last().unwrap_or_default()).expect("JSON")
}

/// Records a storm; None where this machine does not let us.
fn recorded(scratch: &Scratch, more: &[&str], storm: &str, rounds: &str) -> Option<(PathBuf, Said)> {
    if !may_watch() {
        return None;
    }
    let file = scratch.0.join("storm.record");
    let name = path(&file);
    let mut args = vec!["watch", "record", "-o", &name];
    args.extend(more);
    args.extend(["--", BINARY, "watch", "storm", storm, "--rounds", rounds]);
    let said = succeed(&mut ceasefire(&args));
    Some((file, said))
}

/// Named while the process lived, which must be long enough to be looked at: the report has no file to look them up in.
#[test]
fn user_frames_have_names() {
    let scratch = Scratch::new("frames");
    let recorded = recorded(&scratch, &["--user-stacks"], "madvise-dontneed", "60000");
    let Some((file, _)) = recorded else { return };
    let folded = report(&file, &["--view", "stacks", "--folded"]).stdout;
    assert!(folded.lines().any(|line| line.contains("madvise (libc")), "{folded}");
}

fn leftovers(scratch: &Scratch) -> usize {
    let entries = std::fs::read_dir(&scratch.0).expect("scratch");
    entries.flatten().filter(|entry| entry.file_name().to_string_lossy().ends_with(".part")).count()
}

#[test]
fn every_view_of_a_record_needs_neither_root_nor_the_machine() {
    let scratch = Scratch::new("views");
    let file = scratch.file("a.record", &sample::record());
    for view in VIEWS {
        let said = report(&file, &["--view", view]);
        assert!(said.stdout.contains("user targets"), "{view} lacks its honesty block: {}", said.stdout);
        assert!(said.stdout.contains("Linux 6.18.0, 4 CPUs"), "{view}: {}", said.stdout);
        let said = report(&file, &["--view", view, "--json"]);
        let value = json(&said.stdout);
        assert_eq!(value["schema"], "ceasefire.watch/1");
        assert_eq!(value["verb"], view);
        assert_eq!(value["coverage"]["classes"][0]["queued"], 9600, "{view}");
    }
    assert_eq!(report(&file, &["--json", "--each"]).stdout.lines().count(), 3);
    let events = report(&file, &["--view", "trace", "--json"]);
    assert_eq!(events.stdout.lines().count(), 150 + 1);
    // 150 pages side by side, one flush each, within a millisecond: one line, 150 shootdowns, a factor of one.
    let lines = report(&file, &["--view", "trace"]).stdout;
    let line = lines.lines().nth(1).expect("a line");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[1..4], ["150", "150", "1"], "{line}");
    assert_eq!(report(&file, &["--view", "trace", "--each"]).stdout.matches("munmap").count(), 150);
    let saved = json(&report(&file, &["--view", "savings", "--json"]).stdout);
    assert_eq!(saved["batching"][1]["range"], "touching");
    assert_eq!(saved["batching"][1]["total"]["saved_shootdowns"], 149);
    let rows = saved["processes"].as_array().expect("rows");
    let of = |cause: &str| rows.iter().find(|row| row["cause"] == cause).expect("a row");
    assert_eq!(of("munmap")["process"], "app101 100");
    assert_eq!(of("munmap")["saved_shootdowns_at_most"], 149);
    assert!(report(&file, &["--view", "stacks", "--folded"]).stdout.lines().all(|line| line.contains(';')));
}

#[test]
fn savings_fit_every_terminal_and_name_the_remedy() {
    let scratch = Scratch::new("savings");
    let file = path(&scratch.file("a.record", &sample::record()));
    let shown = |columns: usize, more: &[&str]| {
        let args = [&["watch", "report", &file, "--view", "savings"], more].concat();
        succeed(ceasefire(&args).env("COLUMNS", columns.to_string())).stdout
    };
    for columns in [40, 100] {
        let text = shown(columns, &[]);
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|widest| widest <= columns), "{widest:?} of {columns}:\n{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("OVERALL (user)") && words.contains("factor"), "{text}");
    }
    // Nothing of the sample's write-back was seen one by one.
    let text = shown(100, &["--cause", "write-back"]);
    let remedy = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let remedy = remedy.split("REMEDY ").nth(1).expect("a remedy");
    assert!(remedy.contains("save at most 0 of 0 shootdowns"), "{text}");
    assert!(!shown(100, &["--cause", "munmap"]).contains("REMEDY"));
}

#[test]
fn advice_has_evidence_and_a_command() {
    let scratch = Scratch::new("advice");
    let file = scratch.file("a.record", &sample::record());
    let value = json(&report(&file, &["--view", "advice", "--json"]).stdout);
    let all = value["advice"].as_array().expect("advice");
    let of = |subject: &str| all.iter().find(|advice| advice["subject"] == subject);
    for advice in all {
        assert!(!advice["evidence"].as_array().expect("a list").is_empty(), "{advice}");
        assert!(advice["command"].as_str().is_some_and(|command| command.len() > 5), "{advice}");
        assert!(advice["caution"].as_str().is_some_and(|caution| !caution.is_empty()), "{advice}");
    }
    let glibc = of("madvise-dontneed").expect("advice")["command"].as_str().expect("a command").to_string();
    assert!(glibc.contains("glibc.malloc.trim_threshold") && glibc.contains("arena_max"), "{glibc}");
    assert!(of("numa-balancing").expect("advice")["command"].to_string().contains("numa_balancing=0"));
    assert!(of("munmap piece by piece").is_some());
    assert!(of("threads of other processes hit").expect("advice")["command"].to_string().contains("taskset"));
    // Nothing happened of these.
    for absent in ["reclaim", "ksm", "fork"] {
        assert!(of(absent).is_none(), "{absent}");
    }
}

#[test]
fn wrong_records_get_one_sentence() {
    let scratch = Scratch::new("wrong");
    let good = sample::record();
    let with = |name: &str, bytes: &[u8]| path(&scratch.file(name, bytes));
    let newer = [b"ceasefire.watch-record/3\n", &good[25..]].concat();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    let mut huge = good[..25].to_vec();
    huge.extend(b"ENVT\xff\xff\xff\xff....{}");
    for (file, code, fragment) in [
        (with("empty", b""), 1, "is empty"),
        (with("newer", &newer), 1, "newer ceasefire: version 3"),
        (with("garbage", &[0xa5; 70_000]), 2, "no record"),
        (with("text", b"hello\n"), 2, "no record"),
        (with("begun", &good[..40]), 1, "ends in the middle"),
        (with("huge", &huge), 1, "damaged"),
        (path(&scratch.0.join("missing")), 2, "no such file"),
        (path(&scratch.0), 2, "is a directory"),
    ] {
        for view in VIEWS {
            refused(&mut ceasefire(&["watch", "report", &file, "--view", view]), code, fragment);
        }
    }
    // What precedes the damage is shown; scripts still see that it is not all.
    for (file, fragment) in [
        (with("cut", &good[..good.len() - 9]), "ends in the middle"),
        (with("flipped", &flipped), "checksum"),
    ] {
        let said = refused(&mut ceasefire(&["watch", "report", &file]), 1, fragment);
        assert!(
            said.stdout.contains("causes") && said.stdout.contains("what follows is missing"),
            "{}",
            said.stdout
        );
    }
    let file = with("good", &good);
    refused(&mut ceasefire(&["watch", "report", &file, "--view", "weather"]), 2, "weather");
    refused(&mut ceasefire(&["watch", "report", &file, "--cause", "weather"]), 2, "weather");
    refused(&mut ceasefire(&["watch", "report", &file, "--within-us", "0"]), 2, "0");
    let savings = ["watch", "report", &file, "--view", "savings"];
    for (flags, named) in [
        (&["--within-us", "1000001"][..], "1000001"),
        (&["--within-us", "soon"], "soon"),
        (&["--top", "-1"], "-1"),
        (&["--cause", "sync"], "sync"),
        (&["--width", "40"], "--width"),
    ] {
        refused(&mut ceasefire(&[&savings, flags].concat()), 2, named);
    }
    refused(&mut ceasefire(&["watch", "report"]), 2, "FILE");
}

#[test]
fn a_storm_is_recorded_whole() {
    let scratch = Scratch::new("storm");
    let Some((file, said)) = recorded(&scratch, &["--events"], "munmap", "5000") else { return };
    assert!(said.stderr.contains("the command ended"), "{}", said.stderr);
    assert_eq!(leftovers(&scratch), 0);
    let value = json(&report(&file, &["--json"]).stdout);
    let classes = value["coverage"]["classes"].as_array().expect("classes").clone();
    let of = |name: &str| {
        let class = classes.iter().find(|class| class["class"] == name).expect("the class");
        (class["queued"].as_u64().expect("a number"), class["kernel"].as_u64())
    };
    let ((seen, kernel), own) = (of("user"), of("own").0);
    let kernel = kernel.expect("the row");
    assert!((seen + own).abs_diff(kernel) <= 2 + kernel / 1000, "{seen} + {own} of {kernel}");
    let site = value["sites"].as_array().expect("sites").iter().find(|site| site["cause"] == "munmap");
    let sent = site.expect("munmap")["tally"]["shootdowns"].as_u64().expect("a number");
    let events = report(&file, &["--view", "trace", "--json", "--cause", "munmap"]).stdout;
    let lines = events.lines().filter(|line| line.contains("\"pages\":8")).count() as u64;
    let lost = value["coverage"]["lost"]["events"].as_u64().expect("a number");
    println!("{sent} munmap shootdowns counted, {lines} recorded one by one, {lost} events lost");
    assert!(lines + lost + 20 >= sent && lines <= sent, "{lines} of {sent}, {lost} lost");
    assert!(lines > 100);
    for view in VIEWS {
        report(&file, &["--view", view]);
    }
}

/// Linux flushes the pages of one call one by one: factor 1, and one flush for all would do.
#[test]
fn write_back_page_by_page_is_named_with_what_one_flush_would_save() {
    let scratch = Scratch::new("write-back");
    if run(&mut ceasefire(&["watch", "storm", "msync-range", "--rounds", "1"])).code == 4 {
        return skip("watch savings", "it needs two CPUs and a file on a disk");
    }
    let Some((file, _)) = recorded(&scratch, &["--events"], "msync-range", "20") else { return };
    // A host that takes the CPU away puts pages of a call far apart; each call begins again at the first page.
    let within = ["--within-us", "1000000"];
    let value = json(
        &report(&file, &[&["--view", "savings", "--json", "--cause", "msync"], &within[..]].concat()).stdout,
    );
    let rows = value["processes"].as_array().expect("rows");
    let ours = |row: &&Value| row["process"].as_str().is_some_and(|name| name.starts_with("ceasefire "));
    let row = rows.iter().find(ours).expect("the storm");
    let number = |name: &str| row[name].as_u64().expect("a number");
    let (sent, pages) = (number("ranged_shootdowns"), number("pages"));
    let saved = number("saved_shootdowns_at_most");
    println!("{pages} pages in {sent} shootdowns, of which at most {saved} would be saved");
    // Where the host has stopped the victim's CPU, nobody is interrupted.
    assert!(sent >= 20 * 64 / 10, "{row}");
    assert!((1.0..1.05).contains(&(pages as f64 / sent as f64)), "{row}");
    assert!(saved * 2 > sent && saved < sent, "{row}");
    let frames = row["kernel_frames"].to_string();
    assert!(frames.contains("mkclean"), "{frames}");
    let text = report(&file, &["--view", "savings"]).stdout;
    assert!(text.contains("REMEDY for msync and write-back (factor 1.0"), "{text}");
}

#[test]
fn auto_stops_at_the_first_loss_and_keeps_it() {
    let scratch = Scratch::new("auto");
    let Some((file, said)) = recorded(&scratch, &["--auto", "0"], "mprotect", "2000") else { return };
    assert!(said.stderr.contains("stopped: ") && said.stderr.contains(" at once to "), "{}", said.stderr);
    // The command went on to its end, and said so.
    assert!(said.stdout.contains("\"rounds\":2000"), "{}", said.stdout);
    let line = report(&file, &["--view", "trace", "--json"]).stdout;
    let event: Value = serde_json::from_str(line.lines().next().expect("the evidence")).expect("JSON");
    assert!(event["latencies"]["handler_ns_max"].as_u64() > Some(0), "{event}");
    assert!(!event["kernel_frames"].as_array().expect("frames").is_empty(), "{event}");
}

#[test]
fn a_full_disk_keeps_what_was_recorded() {
    if !may_watch() {
        return;
    }
    let scratch = Scratch::new("full");
    let disk = scratch.0.join("disk");
    std::fs::create_dir(&disk).expect("made");
    let mounted =
        run(std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "none"]).arg(&disk));
    if mounted.code != 0 {
        return skip("watch full disk", "tmpfs cannot be mounted here");
    }
    let file = disk.join("a.record");
    let name = path(&file);
    let args = [
        "watch", "record", "--events", "-o", &name, "--", BINARY, "watch", "storm", "munmap", "--rounds",
        "20000",
    ];
    let said = run(&mut ceasefire(&args));
    let shown = run(&mut ceasefire(&["watch", "report", &name]));
    let unmounted = run(std::process::Command::new("umount").arg(&disk));
    assert_eq!(unmounted.code, 0, "{}", unmounted.stderr);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stderr.contains("no space left"), "{}", said.stderr);
    assert!(shown.stdout.contains("could not be written any further") || shown.code == 1, "{}", shown.stdout);
    assert!(!shown.stderr.contains("no record") && !shown.stderr.contains("panicked"), "{}", shown.stderr);
}

#[test]
fn an_interrupt_keeps_what_was_recorded() {
    if !may_watch() {
        return;
    }
    let scratch = Scratch::new("interrupt");
    let file = scratch.0.join("a.record");
    let mut child = ceasefire(&["watch", "record", "-o", &path(&file)]).spawn().expect("starts");
    std::thread::sleep(std::time::Duration::from_millis(2500));
    run(std::process::Command::new("kill").args(["-INT", &child.id().to_string()]));
    let status = child.wait().expect("ends");
    assert_eq!(status.code(), Some(0));
    assert_eq!(leftovers(&scratch), 0);
    assert!(report(&file, &[]).stdout.contains("; interrupted"));
}

#[test]
fn wrong_requests_to_record_get_one_sentence() {
    if !may_watch() {
        return;
    }
    let scratch = Scratch::new("requests");
    let missing = path(&scratch.0.join("no/such/dir/a.record"));
    let record = |more: &[&str]| {
        let mut args = vec!["watch", "record"];
        args.extend(more);
        ceasefire(&args)
    };
    refused(&mut record(&["-o", &missing, "--for", "1"]), 2, "directory does not exist");
    refused(&mut record(&["-o", "/dev/null", "--for", "1"]), 2, "no ordinary file");
    refused(&mut record(&["-o", &path(&scratch.0), "--for", "1"]), 2, "no ordinary file");
    refused(&mut record(&["--cause", "munmap", "--for", "1"]), 2, "every cause");
    refused(&mut record(&["--for", "0"]), 2, "10 ms");
    refused(&mut record(&["-o", &path(&scratch.0.join("a")), "--", "no-such-program"]), 2, "no-such-program");
    assert_eq!(std::fs::read_dir(&scratch.0).expect("scratch").count(), 0, "something was left");
}
