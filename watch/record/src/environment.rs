// SPDX-License-Identifier: GPL-2.0-only
//! Where, when and how it was recorded; and how it ended.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Fields are added, never renamed; readers ignore those they do not know.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// Version of the ceasefire that wrote it.
    pub ceasefire: String,
    pub kernel: String,
    pub machine: String,
    pub cpu_model: String,
    pub cpus: u32,
    pub nodes: u32,
    pub memory_kib: u64,
    /// Seconds since 1970.
    pub started_s: u64,
    /// The command that was watched; empty where the whole machine was.
    pub command: Vec<String>,
    /// Filters, in words.
    pub filters: Vec<String>,
    pub interval_ns: u64,
    pub has_events: bool,
    pub has_user_stacks: bool,
    /// Microseconds at once that ended the recording.
    pub auto_us: Option<u64>,
    /// Kernel settings that matter here: path and content.
    pub settings: BTreeMap<String, String>,
}

/// A process that sent shootdowns, as it was while recording.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    pub tgid: u32,
    pub comm: String,
    pub command: Vec<String>,
    pub threads: u32,
    /// CPUs it may run on, as the kernel writes them.
    pub cpus_allowed: String,
    /// Objects mapped that are allocators or runtimes, by file name.
    pub libraries: Vec<String>,
    /// Variables that set up an allocator or a runtime.
    pub variables: Vec<String>,
    /// Allocators and runtimes within the program itself.
    pub built_with: Vec<Built>,
    /// What runs it, and the C library.
    pub runtimes: Vec<Runtime>,
    /// The lowest limit of its memory cgroup and those above, if it was reached.
    pub memory_limit: Option<MemoryLimit>,
}

impl Process {
    /// "java 17.0.15 (collector G1), glibc 2.36"
    pub fn runs_on(&self) -> String {
        let one = |runtime: &Runtime| {
            let parts = [runtime.version.as_deref(), runtime.detail.as_deref()];
            [runtime.name.as_str()]
                .into_iter()
                .chain(parts.into_iter().flatten())
                .collect::<Vec<_>>()
                .join(" ")
        };
        self.runtimes.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// Of a variable that it was started with.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().find_map(|text| text.strip_prefix(name)?.strip_prefix('='))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Runtime {
    pub name: String,
    /// As its files say it.
    pub version: Option<String>,
    /// In words: "(collector G1)".
    pub detail: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryLimit {
    /// The file that sets it, in bytes.
    pub path: String,
    pub bytes: u64,
    /// How often more was wanted, since there is such a group.
    pub reached: u64,
}

/// An allocator or a runtime that is part of a program.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Built {
    pub name: String,
    /// The variable that this build of it listens to.
    pub variable: Option<String>,
    pub version: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct End {
    /// Why recording stopped, in one sentence.
    pub reason: String,
    pub events: u64,
    /// Events that came after the most that was asked for, or were pushed out by later ones.
    pub events_dropped: u64,
    /// The shootdown that --auto waited for: who lost how much.
    pub evidence: Option<String>,
}
