// SPDX-License-Identifier: GPL-2.0-only
//! Writing results so that a reader never meets half a file, and a few facts about this machine.

use ceasefire_base::{disk, Result};
use std::fs;
use std::path::Path;

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

/// An empty directory of ours: logs of an earlier run would be mistaken for this one's.
pub fn fresh_directory(path: &Path) -> Result<()> {
    let make = || {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir_all(path)
    };
    make().map_err(|error| disk::error("write", path, &error))
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
        let dir = std::env::temp_dir().join(format!("ceasefire-files-{}", std::process::id()));
        fresh_directory(&dir).expect("a directory");
        let path = dir.join("results.json");
        write_whole(&path, b"one").expect("written");
        write_whole(&path, b"two").expect("replaced");
        assert_eq!(fs::read(&path).expect("there"), b"two");
        assert_eq!(fs::read_dir(&dir).expect("dir").count(), 1, "nothing is left beside it");
        // A directory in the place of the file cannot be replaced by rename.
        let taken = dir.join("taken.json");
        fs::create_dir(&taken).expect("made");
        fs::write(taken.join("x"), "kept").expect("written");
        write_whole(&taken, b"lost").expect_err("cannot replace a directory");
        assert_eq!(fs::read(taken.join("x")).expect("there"), b"kept");
        assert_eq!(fs::read_dir(&dir).expect("dir").count(), 2);
        fs::remove_dir_all(&dir).expect("removed");
    }
}
