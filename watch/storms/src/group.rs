// SPDX-License-Identifier: GPL-2.0-only
//! A memory cgroup of this process's own, of either version. It is left and removed when it is dropped, also where the
//! storm is interrupted.

use ceasefire_base::{cancel, Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

pub struct Group {
    parent: PathBuf,
    path: PathBuf,
    is_v2: bool,
    /// The controller for groups in the parent, which had it off.
    has_enabled: bool,
}

const SUBTREE: &str = "cgroup.subtree_control";

fn skip(what: &str) -> Error {
    Error::skip(format!("{what}: {}", std::io::Error::last_os_error()))
        .remedy("this storm needs root and a memory cgroup that it may make a group in")
}

/// Where a process's group of the memory controller is, and where the hierarchy's root is.
pub struct MemoryGroup {
    pub root: PathBuf,
    pub group: PathBuf,
    pub is_v2: bool,
}

/// `process`: its number, or "self".
pub fn memory_group(process: &str) -> Option<MemoryGroup> {
    let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let find = |kind: &str, option: &str| {
        let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let mut here = fields.filter(|f| f.len() > 3 && f[2] == kind && f[3].split(',').any(|o| o == option));
        here.next().map(|f| PathBuf::from(f[1]))
    };
    let (root, path, is_v2) = groups
        .lines()
        .find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            match controllers.split(',').any(|name| name == "memory") {
                true => Some((find("cgroup", "memory")?, path.to_string(), false)),
                false => None,
            }
        })
        .or_else(|| {
            let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
            Some((find("cgroup2", "rw")?, path.to_string(), true))
        })?;
    let relative = Path::new(&path).strip_prefix("/").ok()?;
    // In a container the path may be one that only the host can see.
    let groups = [root.join(relative), root.clone()];
    let group = groups.into_iter().find(|group| group.join("cgroup.procs").exists())?;
    Some(MemoryGroup { root, group, is_v2 })
}

impl Group {
    pub fn join() -> Result<Group> {
        cancel::install()?;
        let MemoryGroup { group: parent, is_v2, .. } =
            memory_group("self").ok_or_else(|| skip("no memory cgroup"))?;
        let path = parent.join(format!("ceasefire-storm-{}", std::process::id()));
        fs::create_dir(&path).map_err(|_| skip("no group could be made"))?;
        let mut group = Group { parent, path, is_v2, has_enabled: false };
        if !group.path.join(group.knob()).exists() {
            group.has_enabled = is_v2 && fs::write(group.parent.join(SUBTREE), "+memory").is_ok();
        }
        if !group.path.join(group.knob()).exists() {
            return Err(skip("the group has no memory controller"));
        }
        fs::write(group.path.join("cgroup.procs"), "0").map_err(|_| skip("the group cannot be joined"))?;
        Ok(group)
    }

    fn knob(&self) -> &'static str {
        match self.is_v2 {
            true => "memory.reclaim",
            false => "memory.limit_in_bytes",
        }
    }

    /// Reclaims what it can, in this thread. A refusal says that some pages were in use.
    pub fn shrink(&self) -> Result<()> {
        let knob = self.path.join(self.knob());
        match self.is_v2 {
            true => {
                let _ = fs::write(&knob, "1M");
                Ok(())
            }
            false => {
                let _ = fs::write(&knob, "64K");
                fs::write(&knob, "-1").map_err(|_| skip("the limit of the group cannot be lifted"))
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::write(self.parent.join("cgroup.procs"), "0");
        let _ = fs::remove_dir(&self.path);
        if self.has_enabled {
            let _ = fs::write(self.parent.join(SUBTREE), "-memory");
        }
    }
}
