// SPDX-License-Identifier: GPL-2.0-only
//! Writing results so that a reader never meets half a file, and a few facts about this machine.

use ceasefire_artifacts::lock::{self, Lock};
use ceasefire_base::exec::{self, Command};
use ceasefire_base::{disk, Progress, Result};
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const GIT_LIMIT: Duration = Duration::from_secs(10);

/// Writes aside and renames: an interrupted run leaves the earlier file as it was.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<()> {
    let aside = path.with_extension(format!("tmp{}", std::process::id()));
    let write = || {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&aside, content)?;
        fs::rename(&aside, path)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&aside);
        disk::error("write", path, &error)
    })
}

/// A directory for the logs of one run, without those of an earlier one. Only files that a run writes
/// are removed: the user may have named a directory that holds other things.
pub fn log_directory(path: &Path) -> Result<()> {
    output_directory(path)?;
    let entries = fs::read_dir(path).map_err(|error| disk::error("read", path, &error))?;
    for file in entries.flatten().map(|entry| entry.path()) {
        let is_ours = file.extension().is_some_and(|e| LOG_EXTENSIONS.iter().any(|ours| e == *ours));
        if is_ours && file.is_file() {
            fs::remove_file(&file).map_err(|error| disk::error("remove", &file, &error))?;
        }
    }
    Ok(())
}

const LOG_EXTENSIONS: [&str; 5] = ["jsonl", "console", "stderr", "initrd", "record"];

/// Made before minutes are spent on what should go there.
pub fn output_directory(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| {
        let error = disk::error("make the directory", path, &error);
        match error.remedy {
            Some(_) => error,
            None => error.remedy("choose another --out"),
        }
    })
}

/// Two runs into one directory would boot each other's jobs: the second waits until the first has written.
/// The directory is made, and is ours while the value lives.
pub fn own_output_directory(progress: &Progress, path: &Path) -> Result<Lock> {
    output_directory(path)?;
    let file = path.join(".lock");
    lock::wait(progress, &path.display().to_string(), || Lock::try_exclusive(&file, "measuring"), &file)
}

/// A new directory for passing files, removed with its value.
pub fn scratch(purpose: &str) -> Result<TempDir> {
    tempfile::Builder::new().prefix(&format!("ceasefire-{purpose}-")).tempdir().map_err(|error| {
        disk::error("make a directory in", &std::env::temp_dir(), &error)
            .remedy("set TMPDIR to a directory you may write to")
    })
}

/// `2026-03-01T12:00:00Z`
pub fn now_utc() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Of a checkout, with `-dirty` where it has changes; `None` where git knows nothing of it.
pub fn commit(root: &Path) -> Option<String> {
    let words = ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"];
    let git = Command::new("git").arg("-C").arg(root).args(words);
    let said = exec::capture(&git, Some(GIT_LIMIT)).ok().filter(|said| said.status.success())?;
    Some(said.stdout.trim().to_string()).filter(|commit| !commit.is_empty())
}

/// CPUs this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

pub fn cpu_name() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

pub fn release() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_earlier_file() {
        let scratch = scratch("files").expect("a directory");
        let dir = scratch.path();
        let path = dir.join("results.json");
        write_whole(&path, b"one").expect("written");
        write_whole(&path, b"two").expect("replaced");
        assert_eq!(fs::read(&path).expect("there"), b"two");
        assert_eq!(fs::read_dir(dir).expect("dir").count(), 1, "nothing is left beside it");
        // A directory in the place of the file cannot be replaced by rename.
        let taken = dir.join("taken.json");
        fs::create_dir(&taken).expect("made");
        fs::write(taken.join("x"), "kept").expect("written");
        write_whole(&taken, b"lost").expect_err("cannot replace a directory");
        assert_eq!(fs::read(taken.join("x")).expect("there"), b"kept");
        assert_eq!(fs::read_dir(dir).expect("dir").count(), 2);
    }

    #[test]
    fn a_second_run_waits_for_the_directory() {
        let scratch = scratch("own").expect("a directory");
        let out = scratch.path().join("out");
        let progress = Progress::new(ceasefire_base::Verbosity::Quiet);
        let first = own_output_directory(&progress, &out).expect("free");
        let other = out.clone();
        let second = std::thread::spawn(move || {
            own_output_directory(&Progress::new(ceasefire_base::Verbosity::Quiet), &other).map(drop)
        });
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(!second.is_finished(), "two runs would write the same files");
        drop(first);
        second.join().expect("ends").expect("free now");
    }

    #[test]
    fn dates_are_of_one_form() {
        let now = now_utc();
        let shape: String = now.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "0000-00-00T00:00:00Z");
    }

    #[test]
    fn only_our_own_logs_are_removed() {
        let scratch = scratch("logs").expect("a directory");
        for name in ["01-vanilla-2cpu.jsonl", "01-vanilla-2cpu.console", "thesis.tex"] {
            fs::write(scratch.path().join(name), "x").expect("written");
        }
        log_directory(scratch.path()).expect("cleared");
        let left: Vec<_> =
            fs::read_dir(scratch.path()).expect("dir").flatten().map(|e| e.file_name()).collect();
        assert_eq!(left, ["thesis.tex"]);
    }
}
