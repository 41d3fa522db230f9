// SPDX-License-Identifier: GPL-2.0-only
//! Every count there is: its name in files and tables, who counts it, what it means.

use super::Row;
use crate::stats::Spread;

/// One count of a row: its name in files, in tables, and what it means.
pub struct Counter {
    /// The counter's name in the guest protocol, and the row's field without `_per_unit`.
    pub key: &'static str,
    pub title: &'static str,
    pub meaning: &'static str,
    pub source: Source,
    pub get: fn(&Row) -> Option<Spread>,
}

/// Who counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The guest's kernel; in cost rows the CPU.
    Guest,
    /// The emulated TLBs.
    Machine,
    /// A kernel that asks these who holds what.
    Oracle,
    /// A kernel with a mechanism that lets shootdowns off.
    Mechanism,
    /// Nobody: computed from the others.
    Model,
}

/// Every per-unit count there is, in the order tables and definitions show them.
pub const COUNTERS: &[Counter] = &[
    Counter {
        key: "requested",
        title: "requested",
        meaning: "Flush requests: calls of flush_tlb_mm_range, arch_tlbbatch_flush, flush_tlb_all and \
                  flush_tlb_kernel_range. One may end in no, one or many targets.",
        source: Source::Guest,
        get: |row| row.requested_per_unit,
    },
    Counter {
        key: "sent",
        title: "sent",
        meaning: "Shootdowns: initiations for an address space with at least one remote target queued.",
        source: Source::Guest,
        get: |row| row.sent_per_unit,
    },
    Counter {
        key: "received",
        title: "received",
        meaning: "Targets: CPUs queued to run flush_tlb_func (or a function of a mechanism's own), counted where they are chosen \
                  (tracepoint csd_queue_cpu).",
        source: Source::Guest,
        get: |row| row.received_per_unit,
    },
    Counter {
        key: "needed",
        title: "needed",
        meaning: "Of the targets received, those that held an entry which the flush was for, by the machine's TLBs, and \
                  the unasked. Received minus needed is avoidable: no kernel need have sent it.",
        source: Source::Oracle,
        get: |row| row.needed_per_unit,
    },
    Counter {
        key: "unasked",
        title: "unasked",
        meaning: "Of the targets needed, those that count as needed because the machine was not asked: flushes at fork, of \
                  soft-dirty bits, of page tables that move, of what another task's batch had taken.",
        source: Source::Oracle,
        get: |row| row.unasked_per_unit,
    },
    Counter {
        key: "received_irq",
        title: "received (irq)",
        meaning: "The same from a second source: the TLB row of /proc/interrupts.",
        source: Source::Guest,
        get: |row| row.received_irq_per_unit,
    },
    Counter {
        key: "kernel_sent",
        title: "kernel-range sent",
        meaning: "Shootdowns of kernel addresses: initiations of do_flush_tlb_all and \
                  do_kernel_range_flush. The TLB row misses these.",
        source: Source::Guest,
        get: |row| row.kernel_sent_per_unit,
    },
    Counter {
        key: "kernel_range",
        title: "kernel-range",
        meaning: "Targets of kernel-range and flush-all shootdowns.",
        source: Source::Guest,
        get: |row| row.kernel_range_per_unit,
    },
    Counter {
        key: "local_full",
        title: "full flushes",
        meaning: "Full flushes a CPU executed on its own TLB, whoever asked for them.",
        source: Source::Guest,
        get: |row| row.local_full_per_unit,
    },
    Counter {
        key: "local_single",
        title: "single pages",
        meaning: "Single pages a CPU invalidated in its own TLB, whoever asked for them.",
        source: Source::Guest,
        get: |row| row.local_single_per_unit,
    },
    Counter {
        key: "other_ipis",
        title: "other IPIs",
        meaning: "Every other cross-CPU function call, plus rescheduling interrupts: a gain must not move here.",
        source: Source::Guest,
        get: |row| row.other_ipis_per_unit,
    },
    Counter {
        key: "faults",
        title: "faults",
        meaning: "Page faults (vmstat pgfault).",
        source: Source::Guest,
        get: |row| row.faults_per_unit,
    },
    Counter {
        key: "walks",
        title: "walks",
        meaning: "Page walks, speculative and faulting ones among them; only where the machine can count them.",
        source: Source::Machine,
        get: |row| row.walks_per_unit,
    },
    Counter {
        key: "instructions",
        title: "instructions",
        meaning: "Instructions, in cost rows only: one vCPU under -icount shift=0, where the time-stamp counter counts them.",
        source: Source::Guest,
        get: |row| row.instructions_per_unit,
    },
    Counter {
        key: "kernel_instructions",
        title: "kernel instructions",
        meaning: "Instructions at CPL 0 of all vCPUs, in cost rows of several vCPUs: without loops that wait and without the handlers \
                  of timers, with the handlers of other interrupts.",
        source: Source::Machine,
        get: |row| row.kernel_instructions_per_unit,
    },
    Counter {
        key: "handler_instructions",
        title: "in handlers",
        meaning: "Of these, the ones in handlers of interrupts.",
        source: Source::Machine,
        get: |row| row.handler_instructions_per_unit,
    },
    Counter {
        key: "spin_instructions",
        title: "in loops that wait",
        meaning: "Instructions at CPL 0 between a PAUSE and the same PAUSE; how many depends on the host.",
        source: Source::Machine,
        get: |row| row.spin_instructions_per_unit,
    },
    Counter {
        key: "timer_instructions",
        title: "in timers' handlers",
        meaning: "Instructions at CPL 0 in handlers of the vCPUs' timers; how many depends on the host.",
        source: Source::Machine,
        get: |row| row.timer_instructions_per_unit,
    },
    Counter {
        key: "cycles_net",
        title: "cycles (net)",
        meaning: "Kernel instructions, walks, assists and flushes, as in cycles (model), plus what the sender and the targets of an interrupt pay, \
                  each at a published price; in cost rows of several vCPUs. Not a time.",
        source: Source::Model,
        get: |row| row.cycles_net_per_unit.map(|net| net.used),
    },
    Counter {
        key: "ns",
        title: "time (ns)",
        meaning: "Wall-clock time of the measured part in nanoseconds; on a host alone, since an emulated machine's clock tells nothing.",
        source: Source::Guest,
        get: |row| row.ns_per_unit,
    },
    Counter {
        key: "cycles_modelled",
        title: "cycles (model)",
        meaning: "Instructions, page walks, accessed and dirty bits set, CR3 loads, INVLPG, INVPCID, IPIs and TLB inserts, each at a published \
                  price; in cost rows only. A model for comparing two kernels on the same work, not a time.",
        source: Source::Model,
        get: |row| row.cycles_modelled_per_unit,
    },
    Counter {
        key: "fills",
        title: "TLB fills",
        meaning: "TLB entries installed by walks, speculative ones among them.",
        source: Source::Machine,
        get: |row| row.fills_per_unit,
    },
    Counter {
        key: "evictions",
        title: "evictions",
        meaning: "Valid TLB entries displaced by others; none in a TLB without a bound.",
        source: Source::Machine,
        get: |row| row.evictions_per_unit,
    },
    Counter {
        key: "structure_hits",
        title: "structure hits",
        meaning: "Walks that began below the root, in the paging-structure cache.",
        source: Source::Machine,
        get: |row| row.structure_hits_per_unit,
    },
    Counter {
        key: "speculative_walks",
        title: "speculative walks",
        meaning: "Walks that no access asked for; they are in the walks, too.",
        source: Source::Machine,
        get: |row| row.speculative_walks_per_unit,
    },
    Counter {
        key: "assists_accessed",
        title: "accessed assists",
        meaning: "Accessed bits set in entries that map a page; on hardware each is a microcode assist.",
        source: Source::Machine,
        get: |row| row.assists_accessed_per_unit,
    },
    Counter {
        key: "assists_dirty",
        title: "dirty assists",
        meaning: "Dirty bits set likewise.",
        source: Source::Machine,
        get: |row| row.assists_dirty_per_unit,
    },
    Counter {
        key: "cr3_flush",
        title: "CR3 loads, flushing",
        meaning: "Loads of CR3 that invalidated the translations of their PCID.",
        source: Source::Machine,
        get: |row| row.cr3_flush_per_unit,
    },
    Counter {
        key: "cr3_noflush",
        title: "CR3 loads, keeping",
        meaning: "Loads of CR3 that kept them.",
        source: Source::Machine,
        get: |row| row.cr3_noflush_per_unit,
    },
    Counter {
        key: "invlpg",
        title: "INVLPG",
        meaning: "INVLPG instructions.",
        source: Source::Machine,
        get: |row| row.invlpg_per_unit,
    },
    Counter {
        key: "invpcid",
        title: "INVPCID",
        meaning: "INVPCID instructions of all types.",
        source: Source::Machine,
        get: |row| row.invpcid_per_unit,
    },
    Counter {
        key: "flush_all",
        title: "flushes by CR0, CR4",
        meaning: "Everything invalidated by a write of CR0 or CR4, or by INIT.",
        source: Source::Machine,
        get: |row| row.flush_all_per_unit,
    },
    Counter {
        key: "ipis",
        title: "IPIs",
        meaning: "Writes of an interrupt command register that sent a fixed interrupt to at least one target, for whatever purpose.",
        source: Source::Machine,
        get: |row| row.ipis_per_unit,
    },
    Counter {
        key: "ipi_targets",
        title: "IPI targets",
        meaning: "The targets of these.",
        source: Source::Machine,
        get: |row| row.ipi_targets_per_unit,
    },
    Counter {
        key: "inserts",
        title: "TLB inserts",
        meaning: "Translations that the kernel put into a TLB without using them; their walks are in the walks, too.",
        source: Source::Machine,
        get: |row| row.inserts_per_unit,
    },
    Counter {
        key: "insert_ops",
        title: "insert requests",
        meaning: "The instructions that asked for these, each for up to 512 pages.",
        source: Source::Machine,
        get: |row| row.insert_ops_per_unit,
    },
    Counter {
        key: "user_interrupts",
        title: "user interrupts",
        meaning: "External interrupts that came to a CPU while it was in user mode; its own timer is not among them.",
        source: Source::Machine,
        get: |row| row.user_interrupts_per_unit,
    },
    Counter {
        key: "invlpgb",
        title: "INVLPGB",
        meaning: "Instructions that ask all CPUs to drop translations.",
        source: Source::Machine,
        get: |row| row.invlpgb_per_unit,
    },
    Counter {
        key: "invlpgb_all",
        title: "INVLPGB of all",
        meaning: "Of these, the ones that name no address.",
        source: Source::Machine,
        get: |row| row.invlpgb_all_per_unit,
    },
    Counter {
        key: "tlbsync",
        title: "TLBSYNC",
        meaning: "Instructions that wait until all CPUs have done so.",
        source: Source::Machine,
        get: |row| row.tlbsync_per_unit,
    },
    Counter {
        key: "broadcast_targets",
        title: "CPUs asked by broadcast",
        meaning: "Other CPUs that these instructions asked, each instruction by itself; none of them is interrupted.",
        source: Source::Machine,
        get: |row| row.broadcast_targets_per_unit,
    },
    Counter {
        key: "broadcast_hits",
        title: "CPUs that lost entries by broadcast",
        meaning: "Of these, the ones that held something that had to go.",
        source: Source::Machine,
        get: |row| row.broadcast_hits_per_unit,
    },
    Counter {
        key: "reads_local",
        title: "local reads",
        meaning: "Paging-structure entries that walks read on their CPU's own node, at all levels, speculative walks among them; \
                  only where the machine has several nodes.",
        source: Source::Machine,
        get: |row| row.reads_local_per_unit,
    },
    Counter {
        key: "reads_remote",
        title: "remote reads",
        meaning: "Those that they read on another node.",
        source: Source::Machine,
        get: |row| row.reads_remote_per_unit,
    },
    Counter {
        key: "reads_local_leaf",
        title: "local PTE reads",
        meaning: "Of the local reads, those of the last level, which maps pages of 4 KiB.",
        source: Source::Machine,
        get: |row| row.reads_local_leaf_per_unit,
    },
    Counter {
        key: "reads_remote_leaf",
        title: "remote PTE reads",
        meaning: "Of the remote reads, those of the last level.",
        source: Source::Machine,
        get: |row| row.reads_remote_leaf_per_unit,
    },
    Counter {
        key: "reads_local_user",
        title: "local PTE reads, user",
        meaning: "Of the local PTE reads, those for addresses of programs. The kernel's own memory has one table for all nodes.",
        source: Source::Machine,
        get: |row| row.reads_local_user_per_unit,
    },
    Counter {
        key: "reads_remote_user",
        title: "remote PTE reads, user",
        meaning: "Of the remote PTE reads, those for addresses of programs.",
        source: Source::Machine,
        get: |row| row.reads_remote_user_per_unit,
    },
    Counter {
        key: "elided",
        title: "elided pages",
        meaning: "Pages that needed a flush and that a proof let off, in whole or for all CPUs but some.",
        source: Source::Mechanism,
        get: |row| row.elided.map(|elided| elided.pages),
    },
    Counter {
        key: "elided_none",
        title: "requests to none",
        meaning: "Flush requests that asked nobody, because every page of theirs was let off.",
        source: Source::Mechanism,
        get: |row| row.elided.map(|elided| elided.none),
    },
    Counter {
        key: "elided_one",
        title: "requests to one",
        meaning: "Flush requests that asked one CPU alone.",
        source: Source::Mechanism,
        get: |row| row.elided.map(|elided| elided.one),
    },
    Counter {
        key: "elided_set",
        title: "requests to a set",
        meaning: "Flush requests that asked a set of CPUs smaller than all.",
        source: Source::Mechanism,
        get: |row| row.elided.map(|elided| elided.set),
    },
];

/// Looks a counter up by key; the table is short and fixed.
pub fn counter(key: &str) -> Option<&'static Counter> {
    COUNTERS.iter().find(|counter| counter.key == key)
}
