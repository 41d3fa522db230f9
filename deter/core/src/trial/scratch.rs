// SPDX-License-Identifier: GPL-2.0-only
//! A directory of one `try`, for what the command prints; gone with it.

use super::stage::scratch_error;
use crate::lock;
use ceasefire_base::Result;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PREFIX: &str = "ceasefire-deter-";
/// Locked as long as the directory is used: in another container the same number is another process.
const LOCK: &str = "lock";

#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    _lock: File,
}

impl Scratch {
    /// Below $TMPDIR; removes what those that were killed have left there.
    pub fn new() -> Result<Scratch> {
        Scratch::below(&std::env::temp_dir())
    }

    fn below(parent: &Path) -> Result<Scratch> {
        tidy(parent);
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| scratch_error("create the directory", &path, &error))?;
        let lock = path.join(LOCK);
        let file = File::create(&lock).map_err(|error| scratch_error("write", &lock, &error))?;
        is_free(&file);
        Ok(Scratch { path, _lock: file })
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// And takes it, until the file is closed.
fn is_free(lock: &File) -> bool {
    lock::take(lock, Duration::ZERO).unwrap_or(false)
}

fn tidy(parent: &Path) {
    // SAFETY: a call without preconditions.
    let user = unsafe { libc::geteuid() };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(pid) = name.strip_prefix(PREFIX).and_then(|pid| pid.parse::<u32>().ok()) else { continue };
        // Not through a link: `metadata` of an entry does not follow it.
        let is_ours = entry.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == user);
        let is_gone = pid == std::process::id() || !Path::new(&format!("/proc/{pid}")).exists();
        let is_left = match File::open(entry.path().join(LOCK)) {
            Ok(lock) => is_free(&lock),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if is_ours && is_gone && is_left {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_killed_have_left_is_removed() {
        let parent = tempfile::tempdir().expect("a directory");
        let make = |name: &str| {
            let path = parent.path().join(format!("{PREFIX}{name}"));
            fs::create_dir(&path).expect("made");
            fs::write(path.join(LOCK), "").expect("written");
            path
        };
        let (dead, alive, used, other) = (make("4194304"), make("1"), make("4194303"), make("x"));
        let lock = File::open(used.join(LOCK)).expect("there");
        assert!(is_free(&lock));
        let linked = parent.path().join(format!("{PREFIX}4194302"));
        std::os::unix::fs::symlink(&other, &linked).expect("linked");
        let scratch = Scratch::below(parent.path()).expect("made");
        assert!(!dead.exists() && alive.exists() && used.exists() && other.exists() && linked.exists());
        let file = scratch.file("stdout");
        fs::write(&file, "x").expect("written");
        drop(scratch);
        assert!(!file.exists());
    }
}
