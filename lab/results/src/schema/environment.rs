// SPDX-License-Identifier: GPL-2.0-only
//! Where and with what rows were measured.

use ceasefire_mechanism::Mechanism;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where and with what the rows were measured; a row says itself where it differs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    #[serde(default)]
    pub ceasefire: String,
    /// Of the checkout that measured, with `-dirty` where it had changes.
    #[serde(default)]
    pub commit: Option<String>,
    /// UTC, `2026-03-01T12:00:00Z`.
    #[serde(default)]
    pub date: String,
    /// The exact command that makes this file again.
    #[serde(default)]
    pub command: Option<String>,
    /// `guest` or `host`.
    #[serde(default)]
    pub place: String,
    #[serde(default)]
    pub seed: Option<u64>,
    /// Hash of the workloads' sources.
    #[serde(default)]
    pub workloads: Option<String>,
    #[serde(default)]
    pub kernels: Vec<Kernel>,
    #[serde(default)]
    pub qemu: Option<Qemu>,
    #[serde(default)]
    pub host: Host,
    /// Transparent huge pages: `always`, `madvise`, `never`.
    #[serde(default)]
    pub thp: Option<String>,
    #[serde(default)]
    pub pti: Option<bool>,
    #[serde(default)]
    pub pcid: Option<bool>,
    #[serde(default)]
    pub invpcid: Option<bool>,
    /// What the guest's /proc/cpuinfo says of its first CPU.
    #[serde(default)]
    pub cpu_flags: Option<String>,
    /// What modelled cycles were made with, by name; empty in a file without them.
    #[serde(default)]
    pub cycle_costs: BTreeMap<String, f64>,
    /// What the rows' mechanisms say of themselves: enough to show their counters anywhere.
    #[serde(default)]
    pub mechanisms: Vec<Mechanism>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    pub name: String,
    /// Version of the source it was built from.
    #[serde(default)]
    pub base: Option<String>,
    /// What it calls itself (`uname -r`).
    #[serde(default)]
    pub release: Option<String>,
    /// Whether that source version is one the kernel's BASE file names as checked.
    #[serde(default)]
    pub source_checked: Option<bool>,
    #[serde(default)]
    pub series: Option<String>,
    #[serde(default)]
    pub config: Option<String>,
    /// `ceasefire` (the lab kernel's probes) or `generic`.
    #[serde(default)]
    pub counters: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Qemu {
    pub version: String,
    #[serde(default)]
    pub series: Option<String>,
    #[serde(default)]
    pub accel: String,
    #[serde(default)]
    pub thread_mode: Option<String>,
    #[serde(default)]
    pub slice_us: Option<u32>,
    #[serde(default)]
    pub cpu: Option<String>,
    #[serde(default)]
    pub memory_mib: Option<u64>,
    /// `built` by the lab, `installed` on the machine, or `given` by the user.
    #[serde(default)]
    pub origin: String,
    /// Of the executable.
    #[serde(default)]
    pub sha256: Option<String>,
    #[serde(default)]
    pub la57: Option<bool>,
    /// Null for a QEMU without a TLB model.
    #[serde(default)]
    pub tlb: Option<Tlb>,
}

/// The emulated TLBs; null where there is nothing of the kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tlb {
    /// As `--tlb` takes it.
    pub spec: String,
    #[serde(default)]
    pub model: bool,
    #[serde(default)]
    pub oracle: bool,
    /// `ideal`, `dirty` or `denied`.
    #[serde(default)]
    pub access_bit: Option<String>,
    /// 0: so many that hardly any is ever evicted.
    #[serde(default)]
    pub entries: Option<u32>,
    #[serde(default)]
    pub ways: Option<u32>,
    #[serde(default)]
    pub psc: Option<u32>,
    #[serde(default)]
    pub speculation_us: Option<u32>,
    #[serde(default)]
    pub seed: Option<u32>,
    /// Whether the guest may put translations into the TLB.
    #[serde(default)]
    pub insert: Option<bool>,
    /// When INVLPGB is done, `early` or `late`; null where the processors have none.
    #[serde(default)]
    pub broadcast: Option<String>,
    /// How many pages one INVLPGB may name.
    #[serde(default)]
    pub broadcast_pages: Option<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    #[serde(default)]
    pub cores: Option<u32>,
    #[serde(default)]
    pub cpu: Option<String>,
    #[serde(default)]
    pub release: Option<String>,
}
