// SPDX-License-Identifier: GPL-2.0-only
//! Small C programs, run with and without the preload library.
#![allow(dead_code)] // Each test uses a part.

#[path = "../../src/flags.rs"]
mod flags;

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, OnceLock};

/// What strict mode has, and everything.
pub const STRICT: &str = "trim,free";
pub const ALL: &str = "trim,free,zero,loose";

/// Built things by what they are built of; each once in a test binary.
fn built(key: String, build: impl FnOnce(&Path)) -> PathBuf {
    static DONE: OnceLock<Mutex<(tempfile::TempDir, BTreeMap<String, PathBuf>)>> = OnceLock::new();
    let done = DONE.get_or_init(|| Mutex::new((tempfile::tempdir().expect("a directory"), BTreeMap::new())));
    let mut done = done.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(path) = done.1.get(&key) {
        return path.clone();
    }
    let path = done.0.path().join(format!("{}.bin", done.1.len()));
    // Programs run as nobody, too.
    std::fs::set_permissions(done.0.path(), PermissionsExt::from_mode(0o755)).expect("permissions");
    build(&path);
    done.1.insert(key, path.clone());
    path
}

fn cc(args: &[&str], output: &Path) {
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let folder = env!("CARGO_MANIFEST_DIR");
    let status = Command::new(&cc).args(args).arg("-o").arg(output).current_dir(folder).status();
    assert!(status.expect("a C compiler").success(), "{cc} {args:?}");
}

/// The library that is shipped.
pub fn library() -> PathBuf {
    built("library".into(), |path| std::fs::write(path, ceasefire_deter_preload::library()).expect("a file"))
}

/// The library with other definitions, such as a deliberate mistake.
pub fn library_with(defines: &[&str]) -> PathBuf {
    built(format!("library {defines:?}"), |path| {
        let sources: Vec<String> = flags::SOURCES.iter().map(|name| format!("c/{name}")).collect();
        let mut args: Vec<&str> = flags::FLAGS.to_vec();
        // A mistake may leave something unused.
        args.push("-Wno-error");
        args.extend(defines);
        args.extend(sources.iter().map(String::as_str));
        cc(&args, path);
    })
}

/// A program of tests/c.
pub fn program(name: &str, more: &[&str]) -> PathBuf {
    built(format!("{name} {more:?}"), |path| {
        let source = format!("tests/c/{name}.c");
        let mut args =
            vec!["-O1", "-fno-builtin", "-pthread", "-Wall", "-Wextra", "-Werror", source.as_str()];
        args.extend(more);
        cc(&args, path);
    })
}

/// A command; with the library and modes where they are given.
pub fn command(program: &Path, args: &[&str], preload: Option<(&Path, &str)>) -> Command {
    let mut command = Command::new(program);
    command.args(args).env_remove("CEASEFIRE_DETER").env_remove("LD_PRELOAD");
    if let Some((library, modes)) = preload {
        command.env("LD_PRELOAD", library).env("CEASEFIRE_DETER", modes);
    }
    command
}

/// Runs it, with a time limit: a deadlock is a failure, too.
pub fn run(program: &Path, args: &[&str], preload: Option<(&Path, &str)>) -> Output {
    finish(&mut command(program, args, preload), b"", 120)
}

pub fn finish(command: &mut Command, input: &[u8], seconds_most: u64) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    // One that has ended already does not read.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input));
    let pid = child.id() as libc::pid_t;
    let (done, ended) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if ended.recv_timeout(std::time::Duration::from_secs(seconds_most)).is_err() {
            // SAFETY: a system call with integers; the child has not been waited for before `done` is sent.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    });
    let output = child.wait_with_output().expect("output");
    let _ = done.send(());
    watchdog.join().expect("the watchdog");
    output
}

pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The facts that a case prints, one a line; it must end well.
pub fn facts_of(program: &Path, case: &str, preload: Option<(&Path, &str)>) -> String {
    let output = run(program, &[case], preload);
    assert!(output.status.success(), "{case}: {:?}: {}", output.status, text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The facts, and nothing else, are these; written with blanks or line ends between the lines.
pub fn assert_facts(facts: &str, expected: &[(&str, &str)]) {
    let lines: Vec<String> = expected.iter().map(|(name, value)| format!("{name} {value}")).collect();
    assert_eq!(facts.lines().collect::<Vec<_>>(), lines, "{facts}");
}

/// A test that cannot run here says so, and is counted by whoever collects skips.
pub fn skip(why: &str) {
    println!("SKIP: {why}");
    if let Some(path) = std::env::var_os("CEASEFIRE_SKIPS") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        let _ = file.map(|mut file| writeln!(file, "deter: {why}"));
    }
}

pub fn is_root() -> bool {
    // SAFETY: a system call without arguments.
    unsafe { libc::geteuid() == 0 }
}
