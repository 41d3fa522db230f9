// SPDX-License-Identifier: GPL-2.0-only
//! A cgroup of the trials' own: what counts finds the command by it, and nothing of it is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PREFIX: &str = "ceasefire-deter-";
/// Until processes that were killed are gone.
const EMPTY_MAX: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// None where there is no cgroup v2, or none may be made.
    pub fn create() -> Option<Cgroup> {
        let parent = directory_of(std::process::id())?;
        tidy(&parent);
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        Some(Cgroup { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Ends what a trial has left.
    pub fn kill(&self) {
        kill(&self.path);
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

fn processes(path: &Path) -> Vec<i32> {
    let text = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn kill(path: &Path) {
    let end = Instant::now() + EMPTY_MAX;
    // Linux 5.14; before it, one by one.
    let is_killed = fs::write(path.join("cgroup.kill"), "1").is_ok();
    loop {
        let left = processes(path);
        if left.is_empty() || Instant::now() >= end {
            return;
        }
        if !is_killed {
            for pid in left.into_iter().filter(|pid| *pid > 1) {
                // SAFETY: plain system call; the number is of a process that is in our cgroup.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn remove(path: &Path) {
    kill(path);
    let end = Instant::now() + EMPTY_MAX;
    while fs::remove_dir(path).is_err() && path.exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What one that was killed with SIGKILL has left.
fn tidy(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(pid) = name.strip_prefix(PREFIX).and_then(|pid| pid.parse::<u32>().ok()) else { continue };
        if !Path::new(&format!("/proc/{pid}")).exists() {
            remove(&entry.path());
        }
    }
}

/// Where a process is in cgroup v2.
pub fn directory_of(pid: u32) -> Option<PathBuf> {
    own_directory(
        &fs::read_to_string("/proc/self/mountinfo").ok()?,
        &fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?,
    )
}

fn own_directory(mounts: &str, own: &str) -> Option<PathBuf> {
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut words = before.split(' ').skip(3);
        let (root, point) = (words.next()?, words.next()?);
        let below = Path::new(own).strip_prefix(root).ok().filter(|_| after.starts_with("cgroup2 "))?;
        Some(Path::new(point).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_place_is_found_where_it_is_mounted() {
        let mounts = "24 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            30 24 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let of = |own: &str| own_directory(mounts, own);
        assert_eq!(of("9:cpu:/x\n0::/a/b\n"), Some("/sys/fs/cgroup/unified/a/b".into()));
        assert_eq!(of("0::/\n"), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(of("9:cpu:/x\n"), None);
        assert_eq!(own_directory("", "0::/\n"), None);
    }

    /// As root alone; elsewhere there is nothing to test.
    #[test]
    fn nothing_of_it_is_left() {
        let Some(cgroup) = Cgroup::create() else { return };
        let path = cgroup.path().to_path_buf();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        fs::write(path.join("cgroup.procs"), child.id().to_string()).expect("moved");
        drop(cgroup);
        assert!(!child.wait().expect("ended").success());
        assert!(!path.exists());
    }
}
