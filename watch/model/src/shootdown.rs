// SPDX-License-Identifier: GPL-2.0-only
//! One shootdown: who asked whom to flush what, why, and how long each part of it took.

use crate::{Cause, WhyFull};
use serde::{Deserialize, Serialize};

/// What is flushed, and for whom. Counted apart, never summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Translations of user address spaces: the `TLB` row.
    User,
    /// Kernel addresses; the `TLB` row misses these.
    KernelRange,
    /// Sent by the observer itself; in no other figure.
    Own,
    /// No flush: any other function that one CPU has another run.
    CrossCall,
}

impl Class {
    pub const ALL: [Class; 4] = [Class::User, Class::KernelRange, Class::Own, Class::CrossCall];

    /// Of translations.
    pub fn is_flush(self) -> bool {
        matches!(self, Class::User | Class::KernelRange)
    }

    pub fn name(self) -> &'static str {
        match self {
            Class::User => "user",
            Class::KernelRange => "kernel-range",
            Class::Own => "own",
            Class::CrossCall => "cross-call",
        }
    }
}

/// How the flush was asked for; with the cause it tells why it was full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Ranged,
    /// Full: another thread was unmapping the same address space.
    Nested,
    /// Full: pages of whatever address spaces at once.
    Batched,
    /// Full: the range was over the ceiling, or the whole was asked for.
    Whole,
    /// What was asked for could not be read.
    Unknown,
}

impl Kind {
    pub const ALL: [Kind; 5] = [Kind::Ranged, Kind::Nested, Kind::Batched, Kind::Whole, Kind::Unknown];

    pub fn is_full(self) -> bool {
        matches!(self, Kind::Nested | Kind::Batched | Kind::Whole)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Task {
    /// Process; 0 is the idle task.
    pub tgid: u32,
    /// Thread.
    pub tid: u32,
    pub comm: String,
    /// Id of its cgroup (v2): the inode of its directory.
    pub cgroup: u64,
}

/// Three times that are never merged: they begin and end at different places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Latencies {
    /// From queueing to the start of the handler, slowest target.
    pub delivery_ns_max: u64,
    /// In the handler, slowest target: what that victim lost.
    pub handler_ns_max: u64,
    /// From the first target's queueing to the last one's answer: what the initiator lost.
    pub wait_ns: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shootdown {
    /// When the first target was queued, CLOCK_MONOTONIC.
    pub start_ns: u64,
    pub class: Class,
    pub cause: Cause,
    pub cpu: u32,
    pub task: Task,
    /// Into the stacks that go with it; none was taken, or it was lost.
    pub kernel_stack: Option<u32>,
    pub user_stack: Option<u32>,
    /// First address; null where the flush was full.
    pub address: Option<u64>,
    /// 4 KiB pages; null where the flush was full.
    pub pages: Option<u64>,
    /// Entries invalidated one by one, huge pages being one each.
    pub entries: Option<u64>,
    pub kind: Kind,
    pub why_full: Option<WhyFull>,
    /// Page tables were freed, too: lazy CPUs are asked as well.
    pub freed_tables: bool,
    pub targets: u32,
    /// Those below 1,024.
    pub target_cpus: Vec<u32>,
    /// Null without the receiving side.
    pub latencies: Option<Latencies>,
    /// Who lost most, and on which CPU.
    pub slowest: Option<(u32, Task)>,
}
