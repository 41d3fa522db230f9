// SPDX-License-Identifier: GPL-2.0-only
//! Does what answers calls reach the programs that it can reach, say so of the others, and leave nothing?

mod common;
use common::{ceasefire, refused, root, run, succeed, Scratch};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

struct Bench {
    scratch: Scratch,
}

impl Bench {
    fn new(name: &str) -> Bench {
        Bench { scratch: Scratch::new(name) }
    }

    fn program(&self, name: &str, options: &[&str]) -> String {
        let path = self.scratch.0.join(name);
        let cc = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let mut command = Command::new(cc);
        command
            .args(["-O1", "-fno-builtin", "-Wall", "-Wextra", "-Werror"])
            .args(options)
            .arg("-o")
            .arg(&path);
        let built = command.arg(root().join("cli/tests/programs/noticed.c")).status();
        assert!(built.expect("a C compiler").success());
        path.to_string_lossy().into_owned()
    }

    /// `deter run ARGS`, with a cache of its own.
    fn deter(&self, args: &[&str]) -> Command {
        let mut all = vec!["deter", "run"];
        all.extend(args);
        let mut command = ceasefire(&all);
        command.env("XDG_CACHE_HOME", &self.scratch.0).env_remove("LD_PRELOAD");
        command
    }

    fn kept(&self) -> Vec<String> {
        let entries = fs::read_dir(self.scratch.0.join("ceasefire/deter")).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

const AS_IT_IS: &str = "resident 0, zero 1\nfree refused\ntrimmed 1\n";

#[test]
fn each_takes_effect_and_says_its_risks_before() {
    let bench = Bench::new("intercept");
    let program = bench.program("noticed", &[]);
    assert_eq!(succeed(&mut Command::new(&program)).stdout, AS_IT_IS);
    for (name, expected, risk) in [
        ("malloc-trim-off", "resident 0, zero 1\nfree refused\ntrimmed 0\n", "stays with it"),
        ("madvise-lazy-off", "resident 0, zero 1\nfree answered\ntrimmed 1\n", "no_new_privs"),
        ("zero-instead", "resident 1, zero 1\nfree refused\ntrimmed 1\n", "not atomic"),
        (
            "zero-instead,malloc-trim-off,madvise-lazy-off",
            "resident 1, zero 1\nfree answered\ntrimmed 0\n",
            "0.09",
        ),
    ] {
        let said = succeed(&mut bench.deter(&["--loose", "--with", name, "--", &program, "1"]));
        assert_eq!(said.stdout, expected, "{name}: {}", said.stderr);
        assert!(said.stderr.contains("ceasefire: risk: ") && said.stderr.contains(risk), "{}", said.stderr);
        assert!(said.stderr.contains("the remedy is in place"), "{name}: {}", said.stderr);
        let quiet = succeed(&mut bench.deter(&["-q", "--loose", "--with", name, "--", &program]));
        assert!(quiet.stdout == expected && !quiet.stderr.contains("risk"), "{}", quiet.stderr);
        let shown = succeed(&mut ceasefire(&["deter", "show", name.split(',').next().expect("one")])).stdout;
        assert!(shown.contains("# risk: "), "{shown}");
    }
    assert_eq!(bench.kept(), ["libceasefire-deter.so"]);
}

#[test]
fn a_static_program_sees_the_filter_and_no_library() {
    let bench = Bench::new("static");
    let program = bench.program("noticed", &["-static"]);
    refused(&mut bench.deter(&["--with", "malloc-trim-off", "--", &program]), 2, "linked");
    let said = run(&mut bench.deter(&["--loose", "--with", "zero-instead", "--", &program]));
    assert_eq!(said.code, 2, "{}", said.stderr);
    let said = succeed(&mut bench.deter(&["--with", "madvise-lazy-off", "--", &program, "1"]));
    assert_eq!(said.stdout, AS_IT_IS.replace("refused", "answered"));
    assert!(said.stderr.contains("the remedy is in place"), "{}", said.stderr);
}

#[test]
fn programs_that_must_not_be_intercepted_are_refused() {
    let bench = Bench::new("refused");
    let program = bench.program("noticed", &[]);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("set");
    refused(&mut bench.deter(&["--with", "malloc-trim-off", "--", &program]), 2, "setuid");
    let program = bench.program("sanitized", &["-DAS_WITH_A_SANITIZER"]);
    refused(&mut bench.deter(&["--with", "malloc-trim-off", "--", &program]), 2, "it has asan");
    let program = bench.program("other", &[]);
    refused(&mut bench.deter(&["--with", "zero-instead", "--", &program]), 2, "can notice");
    let mut homeless = bench.deter(&["--with", "malloc-trim-off", "--", &program]);
    homeless.env_remove("XDG_CACHE_HOME").env_remove("HOME");
    // SAFETY: a call without preconditions.
    if unsafe { libc::geteuid() } != 0 {
        refused(&mut homeless, 2, "no directory");
    }
}

/// The guard ends with the program, however that ends, and the program has nothing that it did not have.
#[test]
fn nothing_is_left_however_the_program_ends() {
    let bench = Bench::new("left");
    let program = bench.program("noticed", &[]);
    let stops = || bench.kept().iter().filter(|name| name.starts_with("stop-")).count();
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL] {
        let mut command = bench.deter(&["-q", "--with", "malloc-trim-off", "--", &program, "600"]);
        // Where the tests run in the background of a shell, SIGINT is ignored, and children inherit that.
        // SAFETY: between fork and exec, a call that may be made there.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            })
        };
        let mut child = command.stdout(Stdio::piped()).spawn().expect("starts");
        wait_for(|| stops() == 1 && maps(child.id()).contains("libceasefire-deter.so"));
        let guards = with_parent_gone(child.id());
        // SAFETY: the child is ours and not reaped.
        unsafe { libc::kill(child.id() as i32, signal) };
        child.wait().expect("ours");
        wait_for(|| stops() == 0 && guards.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()));
    }
    // What it leaves running goes to the kernel again.
    let script = format!("(sleep 0.5; {program} >late) & exit 3");
    let mut command = bench.deter(&["-q", "--loose", "--with", "zero-instead", "--", "sh", "-c", &script]);
    let said = run(command.current_dir(&bench.scratch.0));
    assert_eq!(said.code, 3, "{}", said.stderr);
    wait_for(|| fs::read_to_string(bench.scratch.0.join("late")).is_ok_and(|text| text == AS_IT_IS));
    assert_eq!(stops(), 0);
}

fn maps(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default()
}

/// Processes whose command line is still that of `deter run`, for this child, and that are not it.
fn with_parent_gone(child: u32) -> Vec<u32> {
    let words = |pid: u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let entries = fs::read_dir("/proc").expect("procfs").flatten();
    let pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.into_iter().filter(|pid| *pid != child && words(*pid).ends_with(b"600\0")).collect()
}

fn try_server(more: &[&str]) -> Command {
    let mut all = vec!["deter", "try", "-q", "--no-bpf", "--repeats", "1", "--with", "glibc-stack-cache"];
    all.extend(more);
    ceasefire(&all)
}

#[test]
fn a_server_is_stopped_once_its_client_has_ended() {
    if !fs::read_to_string("/proc/interrupts").is_ok_and(|text| text.contains("TLB:")) {
        return common::skip("deter_server", "/proc/interrupts has no row TLB");
    }
    let said = run(&mut try_server(&[
        "--json",
        "--client",
        "echo work; echo work",
        "--unit",
        "work",
        "--",
        "sleep",
        "77003",
    ]));
    assert!(said.code == 0 || said.code == 3, "{}", said.stderr);
    let found: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!(
        (&found["client"], &found["is_output_compared"]),
        (&"echo work; echo work".into(), &true.into())
    );
    assert_eq!(found["rows"].as_array().map(Vec::len), Some(2), "{found}");
    refused(
        &mut try_server(&["--client", "sleep 77004", "--", "false"]),
        1,
        "the server ended before its client",
    );
    refused(&mut try_server(&["--client", "sleep 77004", "--", "true"]), 1, "went into the background");
    let redis = Bench::new("client").scratch;
    let client = redis.file("redis-benchmark", b"#!/bin/sh\necho SET: 72992.70 requests per second\n");
    fs::set_permissions(&client, fs::Permissions::from_mode(0o755)).expect("set");
    let said = run(&mut try_server(&["--client", &client.to_string_lossy(), "--", "sleep", "77005"]));
    assert_eq!(said.code, 3, "{}", said.stderr);
    for part in
        ["per unit (redis-benchmark's count of requests)", "is not in what the client prints: a run is"]
    {
        let words: Vec<&str> = said.stdout.split_whitespace().collect();
        assert!(words.join(" ").contains(part), "{}", said.stdout);
    }
    refused(&mut try_server(&["--client", "exit 3", "--", "sleep", "77005"]), 1, "the client exited with 3");
    refused(
        &mut try_server(&[
            "--limit",
            "500ms",
            "--client",
            "sleep 77006",
            "--",
            "sh",
            "-c",
            "trap '' TERM; sleep 77007 & wait",
        ]),
        1,
        "has not ended",
    );
    let mut child = try_server(&["--client", "sleep 77008", "--", "sleep", "77009"]);
    let mut child = child.stderr(Stdio::piped()).spawn().expect("starts");
    wait_for(|| is_running(77008));
    // SAFETY: the child is ours and not reaped.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    assert_eq!(child.wait().expect("ours").code(), Some(130));
    for time in 77003..77010 {
        assert!(!is_running(time), "sleep {time} was left running");
    }
}

fn is_running(time: u32) -> bool {
    let wanted = format!("sleep\0{time}\0");
    let entries = fs::read_dir("/proc").expect("procfs").flatten();
    let mut paths = entries.map(|entry| -> PathBuf { entry.path().join("cmdline") });
    paths.any(|path| fs::read(path).is_ok_and(|words| words == wanted.as_bytes()))
}

fn wait_for(done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !done() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(done(), "it took too long");
}
