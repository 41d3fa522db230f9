// SPDX-License-Identifier: GPL-2.0-only
//! stress-ng's stressors of memory management find nothing under the library that they do not find without.
//!
//! CEASEFIRE_DETER_STRESS_SECONDS=N for another time than an hour; CEASEFIRE_STRESS_NG=FILE for one that is not in PATH.

mod common;

use common::{library, skip, text, ALL, STRICT};
use std::path::Path;
use std::process::Output;

/// Not those that fill the memory, or open the host's devices.
const STRESSORS: [&str; 24] = [
    "bad-altstack",
    "madvise",
    "malloc",
    "mlock",
    "mmap",
    "mmapaddr",
    "mmapfixed",
    "mmapfork",
    "mmapmany",
    "mprotect",
    "mremap",
    "msync",
    "msyncmany",
    "munmap",
    "pagemove",
    "shm",
    "shm-sysv",
    "stackmmap",
    "userfaultfd",
    "vm",
    "vm-addr",
    "vm-rw",
    "vm-segv",
    "vm-splice",
];

fn stress(stressor: &str, seconds: u64, preload: Option<(&Path, &str)>) -> Output {
    let folder = tempfile::tempdir().expect("a directory");
    let stress_ng = std::env::var_os("CEASEFIRE_STRESS_NG").unwrap_or_else(|| "stress-ng".into());
    let (name, seconds_text) = (format!("--{stressor}"), format!("{seconds}s"));
    let mut args = vec![name.as_str(), "2", "--timeout", &seconds_text, "--verify", "--metrics-brief"];
    for (of, option) in [("malloc", "--malloc-bytes"), ("mmap", "--mmap-bytes"), ("vm", "--vm-bytes")] {
        if stressor == of {
            args.extend([option, "64M"]);
        }
    }
    let mut command = common::command(Path::new(&stress_ng), &args, preload);
    command.current_dir(folder.path());
    common::finish(&mut command, b"", seconds + 120)
}

/// How it ended, and what it found.
fn found(output: &Output) -> (Option<i32>, Vec<String>) {
    let said = text(output);
    let fails = said.lines().filter(|line| line.contains("fail:") || line.contains("error:"));
    // Behind the process id.
    (
        output.status.code(),
        fails.filter_map(|line| line.split_once(']')).map(|(_, what)| what.trim().to_owned()).collect(),
    )
}

#[test]
#[ignore = "an hour"]
fn stressors_find_no_difference() {
    let stress_ng = std::env::var_os("CEASEFIRE_STRESS_NG").unwrap_or_else(|| "stress-ng".into());
    if std::process::Command::new(&stress_ng).arg("--version").output().is_err() {
        return skip("stress-ng is not installed");
    }
    let seconds: u64 =
        std::env::var("CEASEFIRE_DETER_STRESS_SECONDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3600);
    let each = (seconds / STRESSORS.len() as u64).max(1);
    let library = library();
    let mut differences = Vec::new();
    for stressor in STRESSORS {
        let without = found(&stress(stressor, (each / 10).max(1), None));
        for (modes, seconds) in [(STRICT, each), (ALL, (each / 4).max(1))] {
            let with = found(&stress(stressor, seconds, Some((&library, modes))));
            println!("{stressor} {modes}, {seconds} s: exit code {:?}", with.0);
            if with != without {
                differences.push(format!("{stressor} {modes}: {with:?} instead of {without:?}"));
            }
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
}
