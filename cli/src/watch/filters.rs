// SPDX-License-Identifier: GPL-2.0-only
//! Filters on the sender: what the command line says, as the probes want it.

use super::args::Filters;
use ceasefire_base::{Error, Result};
use ceasefire_watch::{Cgroup, Filter};
use ceasefire_watch_model::ranges;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Errors: one that nothing can meet.
pub fn filter(filters: &Filters) -> Result<Filter> {
    for (what, id) in [("process", filters.pid), ("thread", filters.tid)] {
        let Some(id) = id else { continue };
        if is_gone(id) {
            return Err(Error::usage(format!("there is no {what} {id}"))
                .remedy("`ps -eT` lists processes and threads"));
        }
    }
    if let Some((tid, pid)) = filters.pid.and_then(|pid| Some((pid, process_of(pid)?))) {
        if tid != pid {
            return Err(Error::usage(format!("{tid} is a thread of process {pid}"))
                .remedy(format!("--tid {tid} for it alone, or --pid {pid}")));
        }
    }
    let possible = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let possible = ranges::parse(&possible);
    if let Some(cpu) = filters.cpu.filter(|cpu| !possible.is_empty() && !possible.contains(cpu)) {
        let possible: Vec<u32> = possible.into_iter().collect();
        return Err(Error::usage(format!("there is no CPU {cpu}"))
            .remedy(format!("this machine has {}", ranges::show(&possible))));
    }
    Ok(Filter {
        tgid: filters.pid,
        tid: filters.tid,
        cpu: filters.cpu,
        cgroup: filters.cgroup.as_deref().map(cgroup).transpose()?,
        comm: filters.comm.clone(),
        wait_ns_min: filters.min_us.unwrap_or(0).saturating_mul(1000),
    })
}

/// No process or thread of this number runs any code again.
pub fn is_gone(id: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{id}/stat")) else { return true };
    // After the name, which may have blanks and brackets.
    let is_dead = stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X']));
    // A leader may end before its threads do.
    is_dead && fs::read_dir(format!("/proc/{id}/task")).map_or(0, Iterator::count) <= 1
}

fn process_of(id: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

pub fn cgroup(path: &Path) -> Result<Cgroup> {
    let refused = |why: String| {
        Error::usage(format!("cannot watch the cgroup {}: {why}", path.display()))
            .remedy("name its directory in the unified hierarchy, such as /sys/fs/cgroup/system.slice")
    };
    let directory = path.canonicalize().map_err(|error| refused(error.to_string()))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let level = level(&mounts, &directory).ok_or_else(|| refused("it is none of cgroup v2".into()))?;
    let id = directory.metadata().map_err(|error| refused(error.to_string()))?.ino();
    Ok(Cgroup { id, level })
}

/// Steps from the hierarchy's root to `directory`; None where no cgroup v2 is mounted.
fn level(mounts: &str, directory: &Path) -> Option<u32> {
    let steps = |path: &Path| {
        path.components().filter(|part| matches!(part, std::path::Component::Normal(_))).count()
    };
    let mount = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let mut words = before.split(' ').skip(3);
        let (root, point) = (words.next()?, words.next()?);
        let below = directory.strip_prefix(point).ok().filter(|_| after.starts_with("cgroup2 "))?;
        u32::try_from(steps(Path::new(root)) + steps(below)).ok()
    };
    mounts.lines().filter_map(mount).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "24 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
        30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n\
        31 24 0:27 / /sys/fs/cgroup-old/cpu rw - cgroup cgroup rw,cpu\n\
        32 24 0:26 /a/b /mnt/part rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn a_cgroups_level_is_its_distance_from_the_root() {
        let of = |path: &str| level(MOUNTS, Path::new(path));
        assert_eq!(of("/sys/fs/cgroup"), Some(0));
        assert_eq!(of("/sys/fs/cgroup/system.slice/ssh.service"), Some(2));
        assert_eq!(of("/mnt/part/c"), Some(3));
        assert_eq!(of("/tmp"), None);
        assert_eq!(of("/sys/fs/cgroup-old/cpu/x"), None);
    }

    #[test]
    fn who_never_was_is_gone_and_we_are_not() {
        assert!(is_gone(u32::MAX));
        assert!(!is_gone(std::process::id()));
        assert_eq!(process_of(std::process::id()), Some(std::process::id()));
    }
}
