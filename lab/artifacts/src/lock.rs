// SPDX-License-Identifier: GPL-2.0-only
//! File locks between processes (and threads: each lock has a file of its own open).

use ceasefire_base::{disk, Error, Progress, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

const RETRY: Duration = Duration::from_millis(100);

/// Given up when dropped, and by the system when the process ends.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// None: somebody builds.
    pub fn try_shared(path: &Path) -> Result<Option<Lock>> {
        Lock::attempt(path, libc::LOCK_SH)
    }

    /// None: somebody builds or uses it. `work` is shown to those who wait.
    pub fn try_exclusive(path: &Path, work: &str) -> Result<Option<Lock>> {
        let Some(mut lock) = Lock::attempt(path, libc::LOCK_EX)? else { return Ok(None) };
        // Only for the sentence others show while they wait.
        let _ = lock.file.set_len(0);
        let _ = write!(lock.file, "process {} ({work})", std::process::id());
        Ok(Some(lock))
    }

    /// From exclusive to shared: others may use the entry now.
    pub fn share(&mut self) -> Result<()> {
        let _ = self.file.set_len(0);
        flock(&self.file, libc::LOCK_SH).map_err(|error| no_lock(&error))
    }

    fn attempt(path: &Path, mode: i32) -> Result<Option<Lock>> {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(|error| disk::error("open the lock", path, &error))?;
        match flock(&file, mode | libc::LOCK_NB) {
            Ok(()) => Ok(Some(Lock { file })),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(no_lock(&error)),
        }
    }
}

/// Tries until the lock is had, showing who has it.
pub fn wait(
    progress: &Progress,
    title: &str,
    mut attempt: impl FnMut() -> Result<Option<Lock>>,
    path: &Path,
) -> Result<Lock> {
    if let Some(lock) = attempt()? {
        return Ok(lock);
    }
    let step = progress.step(format!("{title}: another run is at it"));
    loop {
        let holder = fs::read_to_string(path).unwrap_or_default();
        match holder.as_str() {
            "" => step.waiting("waiting for the runs that use it"),
            holder => step.waiting(format!("waiting for {holder}")),
        }
        ceasefire_base::cancel::wait(RETRY)?;
        if let Some(lock) = attempt()? {
            step.done("free");
            return Ok(lock);
        }
    }
}

fn flock(file: &File, operation: i32) -> io::Result<()> {
    // SAFETY: plain system call on a descriptor that is open for as long as `file` lives.
    match unsafe { libc::flock(file.as_raw_fd(), operation) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn no_lock(error: &io::Error) -> Error {
    Error::failed(format!("the file system gives no locks: {}", disk::reason(error)))
        .remedy("choose a directory on a local file system for CEASEFIRE_CACHE and --out")
}
