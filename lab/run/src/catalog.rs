// SPDX-License-Identifier: GPL-2.0-only
//! The workloads there are, as the workloads binary itself tells them.

use ceasefire_base::{exec, Error, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Groups that run only when asked for by name.
const GROUP_APP: &str = "app";
pub const GROUP_CONTROL: &str = "control";
pub const GROUP_STRESS: &str = "stress";
/// About the processor, not about the kernel.
const GROUP_HARDWARE: &str = "hardware";
/// As large and as long as the applications.
pub const GROUP_NUMA: &str = "numa";
/// What runs a program of the user's own; nobody else can name it.
pub const GROUP_OWN: &str = "own";
pub const PROGRAM: &str = "program";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    pub name: String,
    pub group: String,
    pub unit: String,
    pub about: String,
    pub threads_min: u32,
    pub needs: Vec<String>,
    pub packages: Vec<String>,
    pub programs: Vec<String>,
    pub shared: bool,
    /// Why it cannot run where it was asked for; the binary does not know.
    #[serde(skip)]
    pub refusal: Option<String>,
}

impl Workload {
    pub fn needs(&self, feature: &str) -> bool {
        self.needs.iter().any(|need| need == feature)
    }
}

#[derive(Debug, Clone)]
pub struct Catalog {
    pub workloads: Vec<Workload>,
}

impl Catalog {
    /// What this program has.
    pub fn of(binary: &Path) -> Result<Catalog> {
        Catalog::parse(&exec::read(&exec::Command::new(binary).arg("list"))?)
    }

    /// Reads the JSON Lines of `workloads list`.
    pub fn parse(text: &str) -> Result<Catalog> {
        let mut workloads = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let workload: Workload = serde_json::from_str(line).map_err(|error| {
                Error::failed(format!("the workloads binary listed something unreadable: {error}"))
                    .remedy("a workload's description is wrong: see the WORKLOAD() entries in workloads/*.c")
            })?;
            workloads.push(workload);
        }
        if workloads.is_empty() {
            return Err(Error::failed("the workloads binary lists no workload")
                .remedy("check workloads/*.c for WORKLOAD() entries"));
        }
        Ok(Catalog { workloads })
    }

    pub fn groups(&self) -> Vec<&str> {
        let mut groups = Vec::new();
        for workload in &self.workloads {
            if !groups.contains(&workload.group.as_str()) {
                groups.push(&workload.group);
            }
        }
        groups
    }

    /// The workloads meant by a list of names and groups, in the catalog's order, controls first.
    /// An empty list means everything but the applications, the stress programs, what is about the processor, and what
    /// is as large as an application.
    pub fn select(&self, names: &[String]) -> Result<Vec<&Workload>> {
        for name in names {
            if name != "all" && !self.workloads.iter().any(|w| w.name == *name || w.group == *name) {
                return Err(self.unknown(name));
            }
        }
        let is_chosen = |w: &&Workload| {
            if names.is_empty() {
                return ![GROUP_APP, GROUP_STRESS, GROUP_HARDWARE, GROUP_NUMA, GROUP_OWN]
                    .contains(&w.group.as_str());
            }
            let is_any = |name: &String| name == "all" && w.group != GROUP_OWN;
            names.iter().any(|name| is_any(name) || *name == w.name || *name == w.group)
        };
        let mut chosen: Vec<&Workload> = self.workloads.iter().filter(is_chosen).collect();
        chosen.sort_by_key(|w| w.group != GROUP_CONTROL);
        Ok(chosen)
    }

    fn unknown(&self, name: &str) -> Error {
        let known = self.workloads.iter().map(|w| w.name.as_str()).chain(self.groups());
        Error::usage(format!("there is no workload or group named '{name}'"))
            .remedy(format!("nearest: {}; `ceasefire lab list` shows all", nearest(name, known, 3)))
    }
}

/// The names most like this one, the nearest first.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>, count: usize) -> String {
    let mut known: Vec<&str> = known.into_iter().collect();
    known.sort_by_key(|candidate| strsim::levenshtein(name, candidate));
    known.truncate(count);
    known.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_suggest_the_nearest() {
        let line = r#"{"name":"munmap","group":"micro","unit":"call","about":"a","threads_min":1,"needs":[],"packages":[],"programs":[],"shared":false}"#;
        let catalog = Catalog::parse(line).expect("parses");
        let error = catalog.select(&["munmpa".to_string()]).expect_err("unknown");
        assert!(error.remedy.as_deref().is_some_and(|r| r.contains("nearest: munmap")), "{error:?}");
        assert_eq!(catalog.select(&["micro".to_string()]).expect("a group").len(), 1);
    }

    #[test]
    fn applications_and_stress_programs_run_only_when_named() {
        let line = |name: &str, group: &str| {
            format!(
                r#"{{"name":"{name}","group":"{group}","unit":"u","about":"a","threads_min":1,"needs":[],"packages":[],"programs":[],"shared":false}}"#
            )
        };
        let text = [
            ("munmap", "micro"),
            ("apache", "app"),
            ("stale", "stress"),
            ("promises", "hardware"),
            ("gups", GROUP_NUMA),
            (PROGRAM, GROUP_OWN),
        ]
        .map(|(name, group)| line(name, group))
        .join("\n");
        let catalog = Catalog::parse(&text).expect("parses");
        let names = |asked: &[String]| {
            let chosen = catalog.select(asked).expect("known");
            chosen.iter().map(|w| w.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&[]), ["munmap"]);
        assert_eq!(names(&["stress".to_string()]), ["stale"]);
        assert_eq!(names(&["numa".to_string()]), ["gups"]);
        assert_eq!(names(&["all".to_string()]).len(), 5);
        assert_eq!(names(&[PROGRAM.to_string()]), [PROGRAM]);
    }

    #[test]
    fn unreadable_or_empty_lists_are_errors() {
        assert!(Catalog::parse("").is_err());
        assert!(Catalog::parse("{\"name\":1}").is_err());
    }
}
