// SPDX-License-Identifier: GPL-2.0-only
//! One row: what was measured, on what, and every count of it per unit of work.

use crate::stats::Spread;
use ceasefire_base::text::count;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Per unit: pages that a proof let off, and flush requests that asked nobody, one CPU or a set of them for it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Elided {
    pub pages: Spread,
    pub none: Spread,
    pub one: Spread,
    pub set: Spread,
}

/// Per unit, at the low, the used and the high end of the published prices: see `net`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Net {
    pub low: Spread,
    pub used: Spread,
    pub high: Spread,
}

/// One workload at one thread count on one kernel and machine; counts are per unit of work.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub workload: String,
    pub kernel: String,
    pub mode: Option<String>,
    pub vcpus: u32,
    pub nodes: u32,
    pub threads: u32,
    pub repeats: u32,
    pub unit: String,
    /// Units of work per repeat (median, rounded).
    pub units: u64,
    /// Of the work done; null where repeats did different amounts.
    pub checksum: Option<String>,
    pub requested_per_unit: Option<Spread>,
    pub sent_per_unit: Option<Spread>,
    pub received_per_unit: Option<Spread>,
    /// Targets of kernel-range and flush-all shootdowns.
    pub kernel_range_per_unit: Option<Spread>,
    pub local_full_per_unit: Option<Spread>,
    pub local_single_per_unit: Option<Spread>,
    pub other_ipis_per_unit: Option<Spread>,
    pub faults_per_unit: Option<Spread>,
    pub walks_per_unit: Option<Spread>,
    pub instructions_per_unit: Option<Spread>,
    /// See `cycles`; null where instructions or the machine's counters are.
    pub cycles_modelled_per_unit: Option<Spread>,
    #[serde(default)]
    pub elided: Option<Elided>,
    /// Elisions the oracle checked, and those it found wrong.
    #[serde(default)]
    pub checked: Option<u64>,
    #[serde(default)]
    pub violations: Option<u64>,
    /// What the kernel's mechanisms count, by the names of both, per unit; a level is what there was at the end.
    #[serde(default)]
    pub mechanisms: BTreeMap<String, BTreeMap<String, Spread>>,
    /// Sites where the debug kernel's samples of kept flushes never found a holder.
    #[serde(default)]
    pub asked_wrongly: Vec<String>,
    #[serde(default)]
    pub received_irq_per_unit: Option<Spread>,
    /// Kernel-range shootdowns sent (initiations).
    #[serde(default)]
    pub kernel_sent_per_unit: Option<Spread>,
    /// Sent or received spreads over 10 % of its median.
    #[serde(default)]
    pub noisy: bool,
    /// Measured for cost: no probes; counted instructions with one vCPU, the kernel's alone with several.
    #[serde(default)]
    pub cost: bool,
    #[serde(default)]
    pub seed: u64,
    /// The workload promises an exact figure; see `controls`.
    #[serde(default)]
    pub control: bool,
    /// Medians of the workload's own figures.
    #[serde(default)]
    pub extra: BTreeMap<String, f64>,
    /// Wall time of the measured part; under emulation it is no performance figure.
    #[serde(default)]
    pub duration_ns: Option<Spread>,
    /// The same per unit, on a host alone: there a clock tells something.
    #[serde(default)]
    pub ns_per_unit: Option<Spread>,
    /// Boots that the repeats are of; 0 in a file that does not tell.
    #[serde(default)]
    pub boots: u32,
    /// Of the guest's machine, as this row had it.
    #[serde(default)]
    pub accel: Option<String>,
    #[serde(default)]
    pub thread_mode: Option<String>,
    #[serde(default)]
    pub slice_us: Option<u32>,
    #[serde(default)]
    pub cpu: Option<String>,
    #[serde(default)]
    pub thp: Option<String>,
    #[serde(default)]
    pub pti: Option<bool>,
    #[serde(default)]
    pub pcid: Option<bool>,
    /// Words that the user added to the kernel's command line.
    #[serde(default)]
    pub kernel_args: Option<String>,
    /// KEY=VALUE settings of the workload.
    #[serde(default)]
    pub set: Option<String>,
    /// The observer looked on, in the guest: it walks and is interrupted itself.
    #[serde(default, skip_serializing_if = "is_false")]
    pub recorded: bool,
    /// The command of a program of the user's own, below the directory that went along.
    #[serde(default)]
    pub program: Option<String>,
    /// Five-level page tables were offered.
    #[serde(default)]
    pub la57: Option<bool>,
    /// The TLBs, as `--tlb` takes them; `qemu.tlb` spells them out.
    #[serde(default)]
    pub tlb: Option<String>,
    /// Counted by the machine, like `walks_per_unit`; null on a machine that does not.
    #[serde(default)]
    pub fills_per_unit: Option<Spread>,
    #[serde(default)]
    pub evictions_per_unit: Option<Spread>,
    #[serde(default)]
    pub structure_hits_per_unit: Option<Spread>,
    #[serde(default)]
    pub speculative_walks_per_unit: Option<Spread>,
    #[serde(default)]
    pub assists_accessed_per_unit: Option<Spread>,
    #[serde(default)]
    pub assists_dirty_per_unit: Option<Spread>,
    #[serde(default)]
    pub cr3_flush_per_unit: Option<Spread>,
    #[serde(default)]
    pub cr3_noflush_per_unit: Option<Spread>,
    #[serde(default)]
    pub invlpg_per_unit: Option<Spread>,
    #[serde(default)]
    pub invpcid_per_unit: Option<Spread>,
    #[serde(default)]
    pub flush_all_per_unit: Option<Spread>,
    #[serde(default)]
    pub ipis_per_unit: Option<Spread>,
    #[serde(default)]
    pub ipi_targets_per_unit: Option<Spread>,
    #[serde(default)]
    pub inserts_per_unit: Option<Spread>,
    #[serde(default)]
    pub insert_ops_per_unit: Option<Spread>,
    /// External interrupts that came to a CPU in user mode, the local timer's apart; null on machines of before 0.2 ...
    #[serde(default)]
    pub user_interrupts_per_unit: Option<Spread>,
    /// ... and what INVLPGB and TLBSYNC did: instructions, those that named no address ...
    #[serde(default)]
    pub invlpgb_per_unit: Option<Spread>,
    #[serde(default)]
    pub invlpgb_all_per_unit: Option<Spread>,
    #[serde(default)]
    pub tlbsync_per_unit: Option<Spread>,
    /// ... the other CPUs that they reached, and those of them that lost an entry.
    #[serde(default)]
    pub broadcast_targets_per_unit: Option<Spread>,
    #[serde(default)]
    pub broadcast_hits_per_unit: Option<Spread>,
    /// What page walks read of their own node and of others, at all levels; null on a machine with one node ...
    #[serde(default)]
    pub reads_local_per_unit: Option<Spread>,
    #[serde(default)]
    pub reads_remote_per_unit: Option<Spread>,
    /// ... and of them, the entries of the last level (PTEs).
    #[serde(default)]
    pub reads_local_leaf_per_unit: Option<Spread>,
    #[serde(default)]
    pub reads_remote_leaf_per_unit: Option<Spread>,
    /// ... and of these, the ones for addresses of programs; null on machines of before 0.2.
    #[serde(default)]
    pub reads_local_user_per_unit: Option<Spread>,
    #[serde(default)]
    pub reads_remote_user_per_unit: Option<Spread>,
    /// Of those received, the targets that held something to be flushed, or about whom nobody asked ...
    #[serde(default)]
    pub needed_per_unit: Option<Spread>,
    /// ... and the latter alone.
    #[serde(default)]
    pub unasked_per_unit: Option<Spread>,
    /// Cost rows of several vCPUs: instructions at CPL 0 but those of loops that wait and of timers' handlers ...
    #[serde(default)]
    pub kernel_instructions_per_unit: Option<Spread>,
    /// ... and of them, those in handlers of other interrupts.
    #[serde(default)]
    pub handler_instructions_per_unit: Option<Spread>,
    /// The rest of CPL 0.
    #[serde(default)]
    pub spin_instructions_per_unit: Option<Spread>,
    #[serde(default)]
    pub timer_instructions_per_unit: Option<Spread>,
    /// Null where any of its counts is.
    #[serde(default)]
    pub cycles_net_per_unit: Option<Net>,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Row {
    /// `vanilla`, or `toy (on)`.
    pub fn kernel_label(&self) -> String {
        match &self.mode {
            None => self.kernel.clone(),
            Some(mode) => format!("{} ({mode})", self.kernel),
        }
    }

    /// `8 vCPUs`, or `16 vCPUs in 4 nodes`.
    pub fn shape(&self) -> String {
        let vcpus = count(u64::from(self.vcpus), "vCPU");
        match self.nodes {
            0 | 1 => vcpus,
            nodes => format!("{vcpus} in {nodes} nodes"),
        }
    }

    /// One of a mechanism's own counters.
    pub fn counted(&self, mechanism: &str, name: &str) -> Option<Spread> {
        self.mechanisms.get(mechanism)?.get(name).copied()
    }

    /// Without a probe the guest repeats the interrupt row as `received`, and says so by having no
    /// kernel-range figure: then there are not two sources to hold against each other.
    pub fn has_two_sources(&self) -> bool {
        self.kernel_range_per_unit.is_some()
            && self.received_per_unit.is_some()
            && self.received_irq_per_unit.is_some()
    }

    /// Targets that no flush needed, of the medians: received minus needed.
    pub fn avoidable_per_unit(&self) -> Option<f64> {
        Some(self.received_per_unit?.median - self.needed_per_unit?.median)
    }

    /// PTEs of programs' addresses that walks read on another node, in per cent of those they read, of the medians; of all
    /// addresses where the machine did not tell them apart; `None` where they read none.
    pub fn remote_leaf_percent(&self) -> Option<f64> {
        let (local, remote) = match (self.reads_local_user_per_unit, self.reads_remote_user_per_unit) {
            (Some(local), Some(remote)) => (local.median, remote.median),
            _ => (self.reads_local_leaf_per_unit?.median, self.reads_remote_leaf_per_unit?.median),
        };
        (local + remote > 0.0).then(|| remote / (local + remote) * 100.0)
    }

    /// Received over sent, of the medians; `None` where nothing was sent.
    pub fn targets_per_shootdown(&self) -> Option<f64> {
        let (sent, received) = (self.sent_per_unit?.median, self.received_per_unit?.median);
        (sent > 0.0).then(|| received / sent)
    }
}
