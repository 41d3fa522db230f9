// SPDX-License-Identifier: GPL-2.0-only
//! What cgroups are called, by their ids: the innermost systemd unit, or the path where there is none.

use crate::totals::Naming;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// More are not looked at: the rest is called by its number.
const CGROUPS_MAX: usize = 65_536;
const SUFFIXES: [&str; 2] = [".service", ".scope"];

pub struct Units {
    root: PathBuf,
    names: HashMap<u64, String>,
    /// No second look before the next window.
    is_fresh: bool,
}

impl Units {
    /// `root`: where cgroup v2 is mounted. Not looked at before somebody asks.
    pub fn new(root: PathBuf) -> Units {
        Units { root, names: HashMap::new(), is_fresh: false }
    }

    /// Cgroups may have come since the last window.
    pub fn next(&mut self) {
        self.is_fresh = false;
    }

    fn look(&mut self) {
        self.is_fresh = true;
        self.names.clear();
        let mut left = vec![self.root.clone()];
        while let Some(directory) = left.pop() {
            let Ok(about) = directory.metadata() else { continue };
            let below = directory.strip_prefix(&self.root).unwrap_or(&directory);
            self.names.insert(about.ino(), unit(below));
            if self.names.len() + left.len() >= CGROUPS_MAX {
                continue;
            }
            let Ok(entries) = fs::read_dir(&directory) else { continue };
            left.extend(
                entries
                    .flatten()
                    .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                    .map(|entry| entry.path()),
            );
        }
    }
}

impl Naming for Units {
    fn name(&mut self, id: u64) -> String {
        if !self.names.contains_key(&id) && !self.is_fresh {
            self.look();
        }
        self.names.get(&id).cloned().unwrap_or_else(|| "gone".to_string())
    }

    fn is_gone(&mut self, name: &str) -> bool {
        if !self.is_fresh {
            self.look();
        }
        !self.names.values().any(|there| there == name)
    }
}

fn unit(path: &Path) -> String {
    let parts: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let is_unit = |part: &&String| SUFFIXES.iter().any(|suffix| part.ends_with(suffix));
    match parts.iter().rev().find(is_unit) {
        Some(unit) => unit.clone(),
        None => format!("/{}", parts.join("/")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_the_innermost_service_or_scope() {
        for (path, name) in [
            ("", "/"),
            ("system.slice/nginx.service", "nginx.service"),
            ("user.slice/user-1000.slice/user@1000.service/app.slice/app-x.scope", "app-x.scope"),
            ("system.slice/docker-1234.scope/inner", "docker-1234.scope"),
            ("jobs/42", "/jobs/42"),
        ] {
            assert_eq!(unit(Path::new(path)), name);
        }
    }

    #[test]
    fn what_came_later_is_found_in_the_next_window() {
        let root = std::env::temp_dir().join(format!("ceasefire-units-{}", std::process::id()));
        fs::create_dir_all(root.join("a.service")).expect("a directory");
        let id = |name: &str| root.join(name).metadata().expect("there").ino();
        let mut units = Units::new(root.clone());
        assert_eq!(units.name(id("a.service")), "a.service");
        fs::create_dir_all(root.join("b/c.scope/d")).expect("a directory");
        assert_eq!(units.name(id("b/c.scope/d")), "gone");
        units.next();
        assert_eq!(units.name(id("b/c.scope/d")), "c.scope");
        assert_eq!(units.name(id("b")), "/b");
        assert!(!units.is_gone("c.scope") && units.is_gone("d.scope"));
        fs::remove_dir_all(&root).expect("removed");
    }
}
