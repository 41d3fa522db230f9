// SPDX-License-Identifier: GPL-2.0-only
use super::*;
use crate::Kind;
use std::io::Read;
use std::time::{Duration, Instant};

fn sh(script: &str) -> Command {
    Command::new("sh").arg("-c").arg(script)
}

fn alive(pid: i32) -> bool {
    // A zombie nobody reaps still answers kill(pid, 0); its state is Z.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

fn gone_soon(pid: i32) -> bool {
    (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        !alive(pid)
    })
}

#[test]
fn what_is_printed_is_what_runs() {
    for words in [
        vec!["a b", "it's", "$HOME", "", "plain", "back\\slash", "new\nline", "*", "a=b", "~", "#x"],
        vec!["'", "''", "\"", "`id`", ";", "&", "-n", "é"],
    ] {
        let command = Command::new("printf").arg("%s\\0").args(&words).env("X", "a 'b'").cwd("/");
        let direct = read(&command).expect("runs");
        let pasted = read(&sh(&command.to_shell())).expect("runs in a shell");
        assert_eq!(direct, pasted, "{}", command.to_shell());
        assert_eq!(direct, words.iter().map(|word| format!("{word}\0")).collect::<String>());
    }
}

#[test]
fn a_failure_carries_the_programs_words_and_the_log() {
    let scratch = tempfile::tempdir().expect("a directory");
    let log = scratch.path().join("log");
    let script = "echo fine; echo 'x.c:1: error: no semicolon' >&2; echo 'make: *** [x] Error 1'; exit 3";
    let options = Options { log: Some(log.clone()), ..Options::default() };
    let error = run(&sh(script), options).expect_err("fails");
    assert_eq!(error.kind, Kind::Failed);
    assert_eq!(error.message, "sh failed (exit status 3): x.c:1: error: no semicolon");
    assert!(error.remedy.is_some_and(|remedy| remedy.ends_with("/log")));
    let text = std::fs::read_to_string(&log).expect("log");
    assert!(text.starts_with("$ sh -c ") && text.contains("\nfine\n"), "{text}");
}

#[test]
fn lines_reach_the_callback_in_order() {
    let mut seen = Vec::new();
    let on_line = Box::new(|line: &str| seen.push(line.to_string()));
    let options = Options { on_line: Some(on_line), ..Options::default() };
    run(&sh("printf 'a\\rb\\n\\n'; echo c >&2; printf d"), options).expect("runs");
    assert_eq!(seen, ["a", "b", "c", "d"]);
}

#[test]
fn a_missing_program_is_a_skip_with_its_package() {
    let error = read(&Command::new("no-such-program-here")).expect_err("missing");
    assert_eq!(error.kind, Kind::Skip);
    let error = missing_program("ninja");
    assert!(error.remedy.is_some_and(|remedy| remedy.ends_with("apt-get install ninja-build")));
    let error = read(&Command::new("true").cwd("/no/such/dir")).expect_err("no directory");
    assert_eq!(error.message, "the directory /no/such/dir is not there");
}

#[test]
fn a_full_disk_is_recognised() {
    let options = Options { disk: Some(("/tmp".into(), 2500)), ..Options::default() };
    let error = run(&sh("echo 'cc1: No space left on device' >&2; exit 1"), options).expect_err("fails");
    assert!(error.message.starts_with("disk full: "), "{error:?}");
    assert!(error.message.ends_with("the step needs about 2500 MiB"), "{error:?}");
}

#[test]
fn time_limit_and_drop_kill_grandchildren_too() {
    let mut grandchild = 0;
    let on_line = Box::new(|line: &str| grandchild = line.parse().unwrap_or(0));
    let options = Options {
        on_line: Some(on_line),
        timeout: Some(Duration::from_millis(300)),
        stop: Stop { signal: libc::SIGTERM, grace: Duration::from_millis(50) },
        ..Options::default()
    };
    let error = run(&sh("trap '' TERM; sleep 600 & echo $!; wait"), options).expect_err("too long");
    assert!(error.message.contains("did not end within 0.3 s"), "{error:?}");
    assert!(grandchild > 1 && gone_soon(grandchild), "{grandchild} lives");

    let mut child = spawn(&sh("sleep 600 & echo $!; wait"), &Stream::Pipe, &Stream::Null).expect("starts");
    let mut out = child.take_stdout().expect("piped");
    let mut digits = [0u8; 16];
    let length = out.read(&mut digits).expect("a number");
    let pid: i32 = String::from_utf8_lossy(&digits[..length]).trim().parse().expect("a number");
    assert!(alive(pid));
    drop(child);
    assert!(gone_soon(pid), "{pid} lives");
}

#[test]
fn what_a_program_leaves_behind_is_killed_and_does_not_hold_us() {
    let begun = Instant::now();
    let output = run(&sh("sleep 600 & echo $!"), Options::default()).expect("runs");
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(gone_soon(output.tail[0].parse().expect("a number")));
}

/// Not a test of its own: the process that the next test kills.
#[test]
fn victim() {
    let Some(file) = std::env::var_os("CEASEFIRE_TEST_VICTIM") else { return };
    let script = "sleep 600 & echo $! > \"$0.new\"; mv \"$0.new\" \"$0\"; wait";
    let _ = run(&sh(script).arg(file), Options::default());
}

#[test]
fn nothing_outlives_us_even_when_we_are_killed() {
    let scratch = tempfile::tempdir().expect("a directory");
    let file = scratch.path().join("victim");
    let program = std::env::current_exe().expect("own path");
    let command =
        Command::new(program).args(["--exact", "exec::tests::victim"]).env("CEASEFIRE_TEST_VICTIM", &file);
    let mut child = spawn(&command, &Stream::Null, &Stream::Null).expect("starts");
    let grandchild = (0..500).find_map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        std::fs::read_to_string(&file).ok()?.trim().parse::<i32>().ok()
    });
    let grandchild = grandchild.expect("the victim started its child");
    assert!(alive(grandchild));
    child.kill().expect("killed");
    assert!(gone_soon(grandchild), "{grandchild} outlived its starter");
}

#[test]
fn messages_call_commands_by_few_words() {
    let command = Command::new("sudo").args(["-n", "env", "A=b", "apt-get", "install", "-y", "x"]);
    assert_eq!(command.short(), "apt-get install x");
    assert_eq!(Command::new("/bin/make").args(["-C", "/t", "-j3", "bzImage"]).short(), "make bzImage");
}

#[test]
fn dry_run_starts_nothing() {
    let options = Options { dry_run: true, ..Options::default() };
    run(&Command::new("no-such-program-here"), options).expect("only printed");
}
