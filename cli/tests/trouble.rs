// SPDX-License-Identifier: GPL-2.0-only
//! Do panics, time-outs, Ctrl-C, damaged caches and full disks lose nothing?

mod common;
use common::{ceasefire, refused, results, run, skip, succeed, Scratch};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Processes whose environment carries this mark: everything one run started, wherever it went.
fn running_with(mark: &str) -> Vec<(i32, String)> {
    let needle = format!("CEASEFIRE_TEST_MARK={mark}");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
        let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environ.split(|b| *b == 0).any(|v| v == needle.as_bytes()) {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            found.push((pid, name.trim().to_string()));
        }
    }
    found
}

fn mark() -> String {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    format!("{}-{}", std::process::id(), COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
}

fn start(args: &[&str], mark: &str, cache: Option<&Path>) -> Child {
    let mut command = ceasefire(args);
    command.env("CEASEFIRE_TEST_MARK", mark).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(cache) = cache {
        command.env("CEASEFIRE_CACHE", cache);
    }
    command.spawn().expect("the binary starts")
}

fn wait_for(what: &str, seconds: u64, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    while !condition() {
        assert!(Instant::now() < deadline, "waited {seconds} s in vain for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn signal(pid: i32, signal: i32) {
    // SAFETY: kill() takes no pointers; the pid is a child we have not reaped yet, or a process it started.
    unsafe { libc::kill(pid, signal) };
}

fn finish(child: Child) -> (i32, String) {
    let output = child.wait_with_output().expect("the binary ends");
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn out_argument(out: &Scratch) -> String {
    out.0.to_string_lossy().into_owned()
}

const LONG: [&str; 9] = ["lab", "run", "mprotect", "--cpus", "2", "--units", "1000000000", "--repeats", "1"];

/// The newest verdict log below a results directory, if a boot wrote one.
fn log_in(out: &Path) -> Option<PathBuf> {
    let logs = fs::read_dir(out.join("logs")).ok()?;
    logs.flatten().map(|e| e.path()).find(|p| p.to_string_lossy().ends_with(".jsonl"))
}

#[test]
fn a_kernel_panic_is_a_failed_run_that_names_it() {
    let out = Scratch::new("panic");
    let said = refused(
        ceasefire(&["lab", "run", "zero", "--cpus", "1", "--out", &out_argument(&out)])
            .args(["--kernel-args", "rdinit=/no-such-init root=/dev/none"]),
        1,
        "panic",
    );
    assert!(said.stderr.contains("rerun: "), "the command to repeat it is missing: {}", said.stderr);
    assert!(!out.0.join("results.json").exists(), "a failed run must not leave results");
}

#[test]
fn a_guest_that_hangs_is_stopped() {
    let out = Scratch::new("hang");
    let started = Instant::now();
    let mut args = LONG.to_vec();
    let out_dir = out_argument(&out);
    args.extend(["--timeout", "12", "--out", &out_dir]);
    refused(&mut ceasefire(&args), 1, "12 s");
    assert!(started.elapsed() < Duration::from_secs(40));
    assert!(!out.0.join("results.json").exists());
}

#[test]
fn an_emulator_that_dies_is_noticed_at_once() {
    let out = Scratch::new("died");
    let mark = mark();
    let mut args = LONG.to_vec();
    let out_dir = out_argument(&out);
    args.extend(["--out", &out_dir]);
    let child = start(&args, &mark, None);
    let qemu = || running_with(&mark).into_iter().find(|(_, name)| name.starts_with("qemu-system"));
    wait_for("the emulator", 60, || qemu().is_some());
    signal(qemu().expect("just seen").0, libc::SIGKILL);
    let killed = Instant::now();
    let (code, stderr) = finish(child);
    assert!(killed.elapsed() < Duration::from_secs(3), "took {:?}", killed.elapsed());
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("signal 9"), "{stderr}");
    assert!(running_with(&mark).is_empty());
}

#[test]
fn ctrl_c_while_a_guest_runs_leaves_nothing_running() {
    let out = Scratch::new("ctrl-c");
    fs::write(out.0.join("results.json"), "{\"kept\": true}").expect("an earlier result");
    let mark = mark();
    let mut args = LONG.to_vec();
    let out_dir = out_argument(&out);
    args.extend(["--out", &out_dir]);
    let child = start(&args, &mark, None);
    wait_for("the guest's first line", 60, || log_in(&out.0).is_some());
    signal(child.id() as i32, libc::SIGINT);
    let (code, stderr) = finish(child);
    assert_eq!(code, 130, "{stderr}");
    wait_for("the emulator's end", 3, || running_with(&mark).is_empty());
    assert_eq!(results(&out.0)["kept"], true, "an interrupted run must not touch earlier results");
}

/// Seconds after the start at which the build is interrupted: fetching, unpacking, compiling.
#[test]
#[ignore = "long: make test-longer"]
fn ctrl_c_in_every_stage_of_a_build_leaves_nothing_behind() {
    let cache = Scratch::new("build-cache");
    for seconds in [0, 1, 4, 12, 20] {
        let mark = mark();
        let mut child = start(&["lab", "build"], &mark, Some(&cache.0));
        std::thread::sleep(Duration::from_secs(seconds) + Duration::from_millis(300));
        if let Some(status) = child.try_wait().expect("can be asked") {
            let (_, stderr) = finish(child);
            panic!("the build ended by itself after {seconds} s: {status} {stderr}");
        }
        signal(child.id() as i32, libc::SIGINT);
        let (code, stderr) = finish(child);
        assert_eq!(code, 130, "after {seconds} s: {stderr}");
        wait_for("the compilers' end", 5, || running_with(&mark).is_empty());
        let left: Vec<_> = fs::read_dir(cache.0.join("tmp"))
            .map(|d| d.flatten().map(|e| e.path()).collect())
            .unwrap_or_default();
        assert!(left.is_empty(), "after {seconds} s these were left: {left:?}");
    }
}

#[test]
#[ignore = "long: make test-longer"]
fn a_damaged_cache_entry_is_said_and_made_again() {
    let cache = Scratch::new("damaged");
    // No control: what other programs do to the counts of a busy host is not the question here.
    let list = || {
        let mut command =
            ceasefire(&["lab", "run", "mprotect", "--on", "host", "--cpus", "1", "--repeats", "1"]);
        command.env("CEASEFIRE_CACHE", &cache.0).args(["--out", &cache.0.join("out").to_string_lossy()]);
        command
    };
    succeed(&mut list());
    let mut binaries = Vec::new();
    find(&cache.0, "workloads", &mut binaries);
    assert_eq!(binaries.len(), 1, "{binaries:?}");
    let whole = fs::metadata(&binaries[0]).expect("the cached binary").len();
    let file = fs::OpenOptions::new().write(true).open(&binaries[0]).expect("writable");
    file.set_len(whole / 2).expect("truncated");
    drop(file);
    let said = succeed(&mut list());
    assert!(said.stderr.contains("damaged"), "{}", said.stderr);
    assert_eq!(fs::metadata(&binaries[0]).expect("made again").len(), whole);
}

fn find(directory: &Path, name: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            find(&path, name, found);
        } else if path.file_name().is_some_and(|n| n == name) {
            found.push(path);
        }
    }
}

#[test]
fn a_full_disk_is_named_with_its_remedy() {
    let cache = Scratch::new("full");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=8m", "ceasefire-test"])
        .arg(&cache.0)
        .status()
        .is_ok_and(|s| s.success());
    if !mounted {
        return skip("full disk", "mounting a small tmpfs needs root");
    }
    let said = run(ceasefire(&["lab", "build"]).env("CEASEFIRE_CACHE", &cache.0));
    let mut left = Vec::new();
    find(&cache.0, "manifest.json", &mut left);
    let _ = Command::new("umount").arg(&cache.0).status();
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stderr.contains("disk full"), "{}", said.stderr);
    assert!(said.stderr.contains("remedy: "), "{}", said.stderr);
    assert!(left.is_empty(), "a half-written entry counts as whole: {left:?}");
}

#[test]
fn no_network_is_named_with_its_remedy() {
    let cache = Scratch::new("offline");
    refused(
        ceasefire(&["lab", "build"])
            .env("CEASEFIRE_CACHE", &cache.0)
            .env("http_proxy", "http://127.0.0.1:9")
            .env("https_proxy", "http://127.0.0.1:9"),
        4,
        "network",
    );
}

#[test]
fn two_runs_at_once_do_not_disturb_each_other() {
    let outs = [Scratch::new("twice"), Scratch::new("twice")];
    let children: Vec<Child> = outs
        .iter()
        .map(|out| {
            let out_dir = out_argument(out);
            start(&["lab", "run", "exactly-n", "--cpus", "2", "--out", &out_dir], &mark(), None)
        })
        .collect();
    for (child, out) in children.into_iter().zip(&outs) {
        let (code, stderr) = finish(child);
        assert_eq!(code, 0, "{stderr}");
        assert_eq!(results(&out.0)["schema"], "ceasefire.results/1");
    }
}

/// A log that this build wrote is read back by `parse`, whole and cut off.
#[test]
fn saved_logs_can_be_read_back() {
    let out = Scratch::new("saved");
    succeed(&mut ceasefire(&["lab", "run", "zero", "--cpus", "1", "--out", &out_argument(&out)]));
    let log = log_in(&out.0).expect("a log was saved");
    let said = succeed(&mut ceasefire(&["lab", "parse", &log.to_string_lossy()]));
    assert!(said.stdout.contains("zero"), "{}", said.stdout);
    let bytes = fs::read(&log).expect("the log");
    let half = out.file("half.jsonl", &bytes[..bytes.len() / 2]);
    refused(&mut ceasefire(&["lab", "parse", &half.to_string_lossy()]), 1, "");
}
