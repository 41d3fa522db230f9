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
    /// Variables that set up an allocator.
    pub variables: Vec<String>,
    /// Allocators and runtimes within the program itself.
    pub built_with: Vec<Built>,
}

/// An allocator or a runtime that is part of a program.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Built {
    pub name: String,
    /// The variable that this build of it listens to.
    pub variable: Option<String>,
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
