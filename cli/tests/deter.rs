// SPDX-License-Identifier: GPL-2.0-only
//! Do remedies say what they do, leave nothing behind, and meet bad input with one sentence? Needs no root.

mod common;
use common::{ceasefire, refused, run, skip, succeed, Scratch};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn deter(args: &[&str]) -> Command {
    let mut all = vec!["deter"];
    all.extend(args);
    ceasefire(&all)
}

fn json(command: &mut Command) -> serde_json::Value {
    serde_json::from_str(&succeed(command).stdout).expect("JSON")
}

/// Without a TLB row (a container may hide it) nothing can be tried.
fn can_count(test: &str) -> bool {
    let has = fs::read_to_string("/proc/interrupts").is_ok_and(|text| text.contains("TLB:"));
    if !has {
        skip(test, "/proc/interrupts has no row TLB");
    }
    has
}

#[test]
fn wrong_words_are_usage_errors() {
    for (args, fragment) in [
        (&["plan"][..], "needs a process or a command"),
        (&["plan", "-p", "4194304"], "no process 4194304"),
        (&["plan", "-p", "2x"], "--pid"),
        (&["plan", "--", "no-such-program"], "no-such-program"),
        (&["plan", "--", "/etc/passwd"], "cannot be executed"),
        (&["plan", "--", "/"], "is a directory"),
        (&["plan", "--seen", "/no/such", "--", "true"], "/no/such"),
        (&["show", "jemaloc"], "jemaloc"),
        (&["show", "jemalloc", "--as", "ansible"], "ansible"),
        (&["show", "host-ksm", "--as", "docker"], "not of a container"),
        (&["host", "on"], "<NAME>"),
        (&["host", "on", "glibc-keep"], "about a program"),
        (&["host", "on", "nope"], "nope"),
        (&["run", "--with", "nope", "--", "true"], "nope"),
        (&["run", "--with", "host-ksm", "--", "true"], "about the host"),
        (&["run", "--with", "google-tcmalloc-keep", "--", "true"], "from outside"),
        (&["run", "--with", "zero-instead", "--", "true"], "can notice"),
        (&["run", "--loose", "--with", "zero-instead", "--", "/no/such"], "/no/such"),
        (&["run", "--with", "glibc-keep", "--", "no-such-program"], "no-such-program"),
        (&["run", "--with", "glibc-keep"], "COMMAND"),
        (&["try", "--units", "0", "--", "true"], "--units 0"),
        (&["try", "--unit", "(", "--", "true"], "no regular expression"),
        (&["try", "--units", "1", "--unit", "x", "--", "true"], "exclude each other"),
        (&["try", "--repeats", "0", "--", "true"], "--repeats 0"),
        (&["try", "--max-rss", "50", "--", "true"], "+50%"),
        (&["try", "--limit", "soon", "--", "true"], "--limit"),
        (&["try", "--with", "glibc-keep+nope", "--", "true"], "nope"),
        (&["try", "--", "no-such-program"], "no-such-program"),
    ] {
        refused(&mut deter(args), 2, fragment);
    }
}

#[test]
fn a_plan_names_what_could_help_and_changes_nothing() {
    let scratch = Scratch::new("plan");
    let mark = scratch.0.join("ran");
    let script = scratch.file("script", format!("#!/bin/sh\ntouch {}\n", mark.display()).as_bytes());
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("set");
    let name = script.to_string_lossy().into_owned();
    let plan = json(&mut deter(&["plan", "--json", "--", &name]));
    assert_eq!(plan["schema"], "ceasefire.deter-plan/1");
    assert_eq!(plan["program"]["script"], name.as_str());
    assert!(!mark.exists(), "it was run");
    let all = plan["helps"].as_array().expect("rows").len()
        + plan["does_not_apply"].as_array().expect("rows").len();
    let list = json(&mut deter(&["show", "--json"]));
    assert_eq!(all, list["remedy"].as_array().expect("rows").len(), "every remedy is on one side");
    let said = succeed(&mut deter(&["plan", "--all", "--", "cat"])).stdout;
    assert!(
        said.contains("could help")
            && said.contains("does not apply")
            && said.contains("jvm-fixed-heap: it is not Java")
    );
}

#[test]
fn a_process_is_looked_at_while_it_runs() {
    let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
    let plan = json(&mut deter(&["plan", "--json", "-p", &child.id().to_string()]));
    assert_eq!(plan["program"]["threads"], 1);
    assert!(plan["removed"].to_string().contains("one thread"), "{plan}");
    assert!(child.try_wait().expect("ours").is_none(), "it was stopped");
    child.kill().expect("ours");
    child.wait().expect("ours");
}

#[test]
fn output_bends_to_the_terminal() {
    for columns in [40, 80] {
        for args in [&["plan", "--all", "--", "cat"][..], &["show"]] {
            let said = succeed(deter(args).env("COLUMNS", columns.to_string()));
            for line in said.stdout.lines() {
                assert!(line.chars().count() <= columns, "{columns}: {line}");
            }
        }
    }
}

#[test]
fn every_remedy_is_shown_in_every_form() {
    let list = json(&mut deter(&["show", "--json"]));
    for remedy in list["remedy"].as_array().expect("rows") {
        let name = remedy["name"].as_str().expect("a name");
        let shown = succeed(&mut deter(&["show", name])).stdout;
        assert!(shown.contains("# undo: ") && shown.contains("# costs: "), "{shown}");
    }
    let unit = succeed(&mut deter(&["show", "python-malloc-keep", "--as", "systemd"])).stdout;
    assert!(unit.contains("Environment=\"PYTHONMALLOC=malloc\""), "{unit}");
}

#[test]
fn a_program_runs_as_itself_with_what_was_chosen() {
    let said = run(&mut deter(&[
        "run",
        "--with",
        "glibc-stack-cache",
        "--",
        "sh",
        "-c",
        "echo $GLIBC_TUNABLES; exit 7",
    ]));
    assert_eq!((said.code, said.stdout.trim()), (7, "glibc.pthread.stack_cache_size=1073741824"));
    let mut command =
        deter(&["run", "--with", "glibc-stack-cache", "--", "sh", "-c", "echo $GLIBC_TUNABLES"]);
    let said = succeed(command.env("GLIBC_TUNABLES", "glibc.malloc.arena_max=2"));
    assert_eq!(said.stdout.trim(), "glibc.malloc.arena_max=2:glibc.pthread.stack_cache_size=1073741824");
    assert_eq!(succeed(&mut deter(&["run", "--with", "one-cpu", "--", "nproc"])).stdout.trim(), "1");
    let said = run(&mut deter(&["run", "--with", "jvm-fixed-heap", "--", "true"]));
    assert!(said.stderr.contains("jvm-fixed-heap has no effect: it is not Java"), "{}", said.stderr);
}

#[test]
fn host_settings_are_restored_where_they_are_still_ours() {
    let root = Scratch::new("host");
    let setting = |path: &str, value: &str| {
        let path = root.0.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, value).expect("written");
    };
    let value = |path: &str| fs::read_to_string(root.0.join(path)).expect("there").trim().to_string();
    let (ksm, numa) = ("sys/kernel/mm/ksm/run", "proc/sys/kernel/numa_balancing");
    setting(ksm, "1\n");
    setting(numa, "1\n");
    let host = |args: &[&str]| {
        let mut all = vec!["host"];
        all.extend(args);
        let mut command = deter(&all);
        command.env("CEASEFIRE_DETER_ROOT", &root.0);
        command
    };
    assert_eq!(succeed(&mut host(&["status"])).stdout.trim(), "nothing is set");
    succeed(&mut host(&["on", "host-ksm,host-numa-balancing"]));
    assert_eq!((value(ksm), value(numa)), ("0".into(), "0".into()));
    setting(numa, "2\n");
    let rows = json(&mut host(&["status", "--json"]));
    assert_eq!((&rows["rows"][0]["state"], &rows["rows"][1]["state"]), (&"on".into(), &"changed".into()));
    let said = succeed(&mut host(&["off"])).stdout;
    assert!(said.contains("somebody else has set"), "{said}");
    assert_eq!((value(ksm), value(numa)), ("1".into(), "2".into()));
    refused(&mut host(&["on", "host-zone-reclaim"]), 4, "none of these settings");
    setting("var/lib/ceasefire/deter/host.json", "{");
    refused(&mut host(&["off"]), 1, "damaged");
}

#[test]
fn a_trial_ranks_and_tells_what_it_could_not_see() {
    if !can_count("deter_try") {
        return;
    }
    let said = run(&mut deter(&[
        "try",
        "--no-bpf",
        "--json",
        "--repeats",
        "2",
        "--unit",
        "x",
        "--with",
        "glibc-keep",
        "--",
        "echo",
        "x x",
    ]));
    assert!(said.code == 0 || said.code == 3, "{}: {}", said.code, said.stderr);
    let found: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!(found["schema"], "ceasefire.deter-try/1");
    assert_eq!(found["counter"], "proc");
    assert_eq!(found["ranked_by"], "received_per_unit");
    assert_eq!(found["is_output_compared"], true);
    let rows = found["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(row["trials"], 2);
        assert!(row["flushes_per_unit"].is_null() && row["received_per_unit"]["median"].is_number(), "{row}");
        assert!(row["faults_per_unit"]["min"].is_number() && row["seconds"]["max"].is_number(), "{row}");
    }
    assert!(found["lost"].to_string().contains("all programs"), "{found}");
}

#[test]
fn a_changed_output_is_found() {
    if !can_count("deter_output") {
        return;
    }
    let mut command = deter(&[
        "try",
        "-q",
        "--repeats",
        "2",
        "--with",
        "glibc-keep",
        "--",
        "sh",
        "-c",
        "echo $GLIBC_TUNABLES",
    ]);
    let said = run(&mut command);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stdout.contains("its output is not what it is without"), "{}", said.stdout);
    let check = [
        "try",
        "-q",
        "--repeats",
        "1",
        "--check",
        "true",
        "--with",
        "glibc-keep",
        "--",
        "sh",
        "-c",
        "echo $GLIBC_TUNABLES",
    ];
    assert_ne!(run(&mut deter(&check)).code, 1);
}

#[test]
fn a_command_that_cannot_be_tried_is_refused() {
    if !can_count("deter_commands") {
        return;
    }
    let with = ["try", "-q", "--repeats", "1", "--with", "glibc-keep"];
    let tried = |more: &[&str]| {
        let mut all = with.to_vec();
        all.extend(more);
        deter(&all)
    };
    refused(&mut tried(&["--", "false"]), 1, "exited with 1");
    refused(&mut tried(&["--", "sh", "-c", "echo why >&2; kill -9 $$"]), 1, "signal 9: why");
    refused(&mut tried(&["--unit", "nothing", "--", "echo", "x"]), 1, "matches --unit 'nothing'");
    let needs_terminal = "test -t 0 || { echo it needs a terminal >&2; exit 5; }";
    refused(&mut tried(&["--", "sh", "-c", needs_terminal]), 1, "exited with 5: it needs a terminal");
    refused(
        &mut tried(&["--limit", "500ms", "--", "sh", "-c", "trap '' TERM; sleep 77001 & wait"]),
        1,
        "has not ended",
    );
    assert!(!is_running("77001"), "it was left running");
    let said = run(&mut tried(&["--", "sh", "-c", "setsid sleep 77002 >/dev/null 2>&1 &"]));
    assert!(said.stdout.contains("left processes running"), "{}{}", said.stdout, said.stderr);
    assert!(!is_running("77002"), "it was left running");
    let said = run(&mut tried(&["--", "head", "-c", "10000", "/dev/zero"]));
    assert!(said.code == 0 || said.code == 3, "{}", said.stderr);
}

/// It would be stopped when it reads, and nobody would see it.
#[test]
fn a_command_that_asks_the_terminal_finds_none() {
    let Some(script) = ["/usr/bin/script", "/bin/script"].iter().find(|path| Path::new(path).exists()) else {
        return skip("deter_terminal", "script is not installed");
    };
    if !can_count("deter_terminal") {
        return;
    }
    let line = format!(
        "{} deter try -q --no-bpf --limit 20s --repeats 1 --with glibc-keep -- sh -c 'read answer </dev/tty'",
        common::BINARY
    );
    let said =
        run(Command::new(script).args(["-qec", &line, "/dev/null"]).stdin(std::process::Stdio::piped()));
    assert!(
        said.code == 1 && said.stdout.contains("/dev/tty"),
        "{}: {}{}",
        said.code,
        said.stdout,
        said.stderr
    );
}

#[test]
fn an_interrupted_trial_leaves_nothing_and_goes_on() {
    if !can_count("deter_interrupt") {
        return;
    }
    let scratch = Scratch::new("try");
    let state = scratch.0.join("trials.json").to_string_lossy().into_owned();
    let args = [
        "try",
        "-q",
        "--repeats",
        "2",
        "--state",
        &state,
        "--with",
        "glibc-stack-cache",
        "--",
        "sh",
        "-c",
        "sleep 0.4; sleep 0.4001",
    ];
    let mut child = deter(&args).stderr(std::process::Stdio::piped()).spawn().expect("starts");
    wait_for(|| fs::read_to_string(&state).is_ok_and(|text| text.contains("\"round\"")));
    // SAFETY: the child is ours and not reaped.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    assert_eq!(child.wait().expect("ours").code(), Some(130));
    assert!(!is_running("0.4001"), "it was left running");
    let kept = fs::read_to_string(&state).expect("kept").matches("\"round\"").count();
    assert!((1..4).contains(&kept), "{kept}");
    let said = run(&mut deter(&args));
    assert!(said.code == 0 || said.code == 3, "{}", said.stderr);
    assert_eq!(fs::read_to_string(&state).expect("kept").matches("\"round\"").count(), 4);
    let mut other = args.to_vec();
    other[3] = "3";
    refused(&mut deter(&other), 2, "something else");
}

fn wait_for(done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !done() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(done(), "it took too long");
}

/// Whether a `sleep` of just this time is there.
fn is_running(time: &str) -> bool {
    let entries = fs::read_dir("/proc").expect("procfs").flatten();
    let is_it = |path: &Path| {
        fs::read(path.join("cmdline")).is_ok_and(|words| words == format!("sleep\0{time}\0").as_bytes())
    };
    entries
        .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
        .any(|entry| is_it(&entry.path()))
}
