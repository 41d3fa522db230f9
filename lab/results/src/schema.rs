// SPDX-License-Identifier: GPL-2.0-only
//! `ceasefire.results/1`: the file everything is reported and compared from.
//! Fields are added, never renamed; null means "not measured"; a reader ignores fields it does not know.

use crate::abis;
use crate::stats::Spread;
use ceasefire_base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const SCHEMA: &str = "ceasefire.results/1";
const SCHEMA_NAME: &str = "ceasefire.results";
const SCHEMA_MAJOR: u64 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    pub schema: String,
    pub environment: Environment,
    pub controls: Vec<Control>,
    pub skipped: Vec<Unmeasured>,
    pub rows: Vec<Row>,
    #[serde(default)]
    pub failed: Vec<Unmeasured>,
    /// What the reader of a guest log had to skip, one sentence each.
    #[serde(default)]
    pub problems: Vec<String>,
    /// From the workloads' own descriptions; empty in a file made from a saved log alone.
    #[serde(default)]
    pub workloads: Vec<About>,
}

/// Where and with what the rows were measured; a row says itself where it differs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    #[serde(default)]
    pub ceasefire: String,
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
    /// `ideal` or `intel`.
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

/// A workload as it describes itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    pub name: String,
    #[serde(default)]
    pub group: String,
    #[serde(default)]
    pub unit: String,
    #[serde(default)]
    pub about: String,
    /// Every thread touches every page: no design may gain here.
    #[serde(default)]
    pub shared: bool,
}

/// A promise and what was counted. `ok` is null where the figure could not be measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Control {
    pub name: String,
    pub expected: f64,
    /// Of the repeat farthest from the promise.
    pub measured: Option<f64>,
    pub ok: Option<bool>,
    /// `sent`, `received` (tracepoint) or `received_irq` (the `TLB` row of /proc/interrupts).
    #[serde(default)]
    pub source: String,
    #[serde(default)]
    pub workload: String,
    #[serde(default)]
    pub kernel: String,
    #[serde(default)]
    pub mode: Option<String>,
    #[serde(default)]
    pub threads: u32,
    #[serde(default)]
    pub vcpus: u32,
    #[serde(default)]
    pub nodes: u32,
}

/// A row that was asked for and not measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Unmeasured {
    pub workload: String,
    pub reason: String,
    #[serde(default)]
    pub threads: Option<u32>,
    #[serde(default)]
    pub kernel: Option<String>,
    #[serde(default)]
    pub mode: Option<String>,
    #[serde(default)]
    pub vcpus: Option<u32>,
    #[serde(default)]
    pub nodes: Option<u32>,
    /// The exact command that runs this row alone.
    #[serde(default)]
    pub rerun: Option<String>,
}

/// Per unit: pages that a proof let off, and flush requests that asked nobody, one CPU or a set of them for it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Elided {
    pub pages: Spread,
    pub none: Spread,
    pub one: Spread,
    pub set: Spread,
}

/// One workload at one thread count on one kernel and machine; counts are per unit of work.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub workload: String,
    pub kernel: String,
    pub mode: Option<String>,
    pub adaptive: Option<bool>,
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
    /// What an ABIS kernel counts, by its names, per unit; `spte_bytes` and `spte_tables` are levels at the end.
    #[serde(default)]
    pub abis: Option<BTreeMap<String, Spread>>,
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
    /// Measured for cost: one vCPU, counted instructions, no probes.
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
    /// Where this row's machine differs from the environment's.
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
    /// KEY=VALUE settings of the workload.
    #[serde(default)]
    pub set: Option<String>,
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
}

impl Row {
    /// `vanilla`, or `abis (full)`.
    pub fn kernel_label(&self) -> String {
        match (&self.mode, self.adaptive) {
            (None, _) => self.kernel.clone(),
            (Some(mode), Some(true)) => format!("{} ({mode}, adaptive)", self.kernel),
            (Some(mode), _) => format!("{} ({mode})", self.kernel),
        }
    }

    /// One of the ABIS kernel's own counters.
    pub fn abis_figure(&self, name: &str) -> Option<Spread> {
        self.abis.as_ref()?.get(name).copied()
    }

    /// Without a probe the guest repeats the interrupt row as `received`, and says so by having no
    /// kernel-range figure: then there are not two sources to hold against each other.
    pub fn has_two_sources(&self) -> bool {
        self.kernel_range_per_unit.is_some()
            && self.received_per_unit.is_some()
            && self.received_irq_per_unit.is_some()
    }

    /// Received over sent, of the medians; `None` where nothing was sent.
    pub fn targets_per_shootdown(&self) -> Option<f64> {
        let (sent, received) = (self.sent_per_unit?.median, self.received_per_unit?.median);
        (sent > 0.0).then(|| received / sent)
    }
}

/// Whether the figures may be shown as results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every control that ran could be judged from both sources and held.
    Proven,
    /// Controls held, but some of their figures cannot be measured here (named).
    Partly(Vec<String>),
    /// No control ran: the figures stand alone.
    NoControl,
    /// No report: these controls failed.
    Failed(Vec<String>),
}

impl Results {
    pub fn new(environment: Environment) -> Self {
        Results {
            schema: SCHEMA.into(),
            environment,
            controls: Vec::new(),
            skipped: Vec::new(),
            rows: Vec::new(),
            failed: Vec::new(),
            problems: Vec::new(),
            workloads: Vec::new(),
        }
    }

    pub fn verdict(&self) -> Verdict {
        let named = |wanted: Option<bool>| -> Vec<String> {
            self.controls.iter().filter(|c| c.ok == wanted).map(|c| c.name.clone()).collect()
        };
        let failed = named(Some(false));
        if !failed.is_empty() {
            return Verdict::Failed(failed);
        }
        if !self.controls.iter().any(|c| c.ok == Some(true)) {
            return Verdict::NoControl;
        }
        match named(None) {
            unjudged if unjudged.is_empty() => Verdict::Proven,
            unjudged => Verdict::Partly(unjudged),
        }
    }

    /// No report if a control failed or an elision was found wrong: one sentence naming them, exit code 1.
    pub fn reportable(&self) -> Result<()> {
        if let Verdict::Failed(names) = self.verdict() {
            let shown = names.iter().take(3).cloned().collect::<Vec<_>>().join("; ");
            let more = names.len().saturating_sub(3);
            let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
            return Err(Error::failed(format!("no report, because a control failed: {shown}{rest}"))
                .remedy("the counts cannot be trusted here: run `ceasefire lab run control` alone and look at its figures"));
        }
        if let Some(row) = self.rows.iter().find(|row| row.violations.unwrap_or(0) > 0) {
            return Err(Error::failed(format!(
                "no report, because {} at {} threads on {} skipped {} flushes that were needed",
                row.workload,
                row.threads,
                row.kernel_label(),
                row.violations.unwrap_or(0)
            ))
            .remedy("this kernel corrupts memory: see the warnings in its console log"));
        }
        // In some workloads nobody holds what is flushed (a fault has dropped it): another row of the kernel may show
        // that the question is right.
        let is_proven = |of: &Row, site: &str| {
            self.rows.iter().filter(|row| row.kernel == of.kernel).any(|row| abis::found_holders(row, site))
        };
        let wrong = self.rows.iter().find_map(|row| {
            row.asked_wrongly.iter().find(|site| !is_proven(row, site)).map(|site| (row, site))
        });
        if let Some((row, site)) = wrong {
            return Err(Error::failed(format!(
                "no report, because {} at {} threads on {} asked wrongly at {site}: no sample of the flushes kept there ever found a holder",
                row.workload,
                row.threads,
                row.kernel_label(),
            ))
            .remedy("the question asked of the machine at that site is not the one that matters: its silence proves nothing"));
        }
        Ok(())
    }

    /// Rows whose two sources of "received" differ by more than the controls may.
    pub fn disagreements(&self) -> Vec<&Row> {
        self.rows
            .iter()
            .filter(|row| row.has_two_sources())
            .filter(|row| match (row.received_per_unit, row.received_irq_per_unit) {
                (Some(tracepoint), Some(interrupts)) => {
                    !crate::aggregate::holds(interrupts.median, tracepoint.median)
                }
                _ => false,
            })
            .collect()
    }

    pub fn about(&self, workload: &str) -> Option<&About> {
        self.workloads.iter().find(|about| about.name == workload)
    }

    /// Pretty JSON with a final newline; the order of fields is the order of this file.
    pub fn to_json(&self) -> Result<String> {
        let mut text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::failed(format!("the results cannot be written as JSON: {error}")))?;
        text.push('\n');
        Ok(text)
    }

    /// `name` is how the user knows the file; it stands in every error.
    pub fn from_json(bytes: &[u8], name: &str) -> Result<Results> {
        #[derive(Deserialize)]
        struct Head {
            schema: String,
        }
        let remedy = "give a results.json written by `ceasefire lab run`";
        let broken = |error: serde_json::Error| {
            let (line, column) = (error.line(), error.column());
            let message = error.to_string();
            let why = message.split(" at line ").next().unwrap_or(&message);
            let what = if error.is_data() { "is not a results file" } else { "is not whole JSON" };
            Error::usage(format!("{name} {what}: {why} (line {line}, column {column})")).remedy(remedy)
        };
        let head: Head = serde_json::from_slice(bytes).map_err(|error| {
            if !error.is_data() {
                return broken(error);
            }
            let (line, column) = (error.line(), error.column());
            Error::usage(format!(
                "{name} is not a results file: it names no schema (line {line}, column {column})"
            ))
            .remedy(remedy)
        })?;
        check_schema(&head.schema, name)?;
        let results: Results = serde_json::from_slice(bytes).map_err(broken)?;
        results.check(name)?;
        Ok(results)
    }

    /// What serde's types cannot say.
    pub(crate) fn check(&self, name: &str) -> Result<()> {
        for (index, row) in self.rows.iter().enumerate() {
            let spreads =
                FIGURES.iter().filter_map(|figure| (figure.get)(row).map(|spread| (figure.key, spread)));
            let counted = row.abis.iter().flatten().map(|(name, spread)| (name.as_str(), *spread));
            for (key, spread) in spreads.chain(counted) {
                if !spread.is_ordered() {
                    return Err(Error::usage(format!(
                        "{name} contradicts itself: row {index} ({}), {key}: the median is not between min and max",
                        row.workload
                    ))
                    .remedy("measure again; do not edit results by hand"));
                }
            }
        }
        Ok(())
    }
}

fn check_schema(schema: &str, name: &str) -> Result<()> {
    let version = schema
        .split_once('/')
        .filter(|(kind, _)| *kind == SCHEMA_NAME)
        .and_then(|(_, version)| version.parse::<u64>().ok());
    match version {
        Some(SCHEMA_MAJOR) => Ok(()),
        Some(newer) if newer > SCHEMA_MAJOR => Err(Error::usage(format!(
            "{name} is written in {SCHEMA_NAME}/{newer}, and this version reads {SCHEMA}"
        ))
        .remedy("use a newer ceasefire")),
        _ => {
            let shown: String = schema.chars().filter(|c| !c.is_control()).take(60).collect();
            Err(Error::usage(format!(
                "{name} is not a results file: its schema is '{shown}', not '{SCHEMA}'"
            ))
            .remedy("give a results.json written by `ceasefire lab run`"))
        }
    }
}

/// One count of a row: its name in files, in tables, and what it means.
pub struct Figure {
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
    /// A kernel that lets shootdowns off.
    Abis,
    /// Nobody: computed from the others.
    Model,
}

/// Every per-unit count there is, in the order tables and definitions show them.
pub const FIGURES: &[Figure] = &[
    Figure {
        key: "requested",
        title: "requested",
        meaning: "Flush requests: calls of flush_tlb_mm_range, arch_tlbbatch_flush, flush_tlb_all and \
                  flush_tlb_kernel_range. One may end in no, one or many targets.",
        source: Source::Guest,
        get: |row| row.requested_per_unit,
    },
    Figure {
        key: "sent",
        title: "sent",
        meaning: "Shootdowns: initiations for an address space with at least one remote target queued.",
        source: Source::Guest,
        get: |row| row.sent_per_unit,
    },
    Figure {
        key: "received",
        title: "received",
        meaning: "Targets: CPUs queued to run flush_tlb_func (or abis_flush_owed), counted where they are chosen \
                  (tracepoint csd_queue_cpu).",
        source: Source::Guest,
        get: |row| row.received_per_unit,
    },
    Figure {
        key: "received_irq",
        title: "received (irq)",
        meaning: "The same from a second source: the TLB row of /proc/interrupts.",
        source: Source::Guest,
        get: |row| row.received_irq_per_unit,
    },
    Figure {
        key: "kernel_sent",
        title: "kernel-range sent",
        meaning: "Shootdowns of kernel addresses: initiations of do_flush_tlb_all and \
                  do_kernel_range_flush. The TLB row misses these.",
        source: Source::Guest,
        get: |row| row.kernel_sent_per_unit,
    },
    Figure {
        key: "kernel_range",
        title: "kernel-range",
        meaning: "Targets of kernel-range and flush-all shootdowns.",
        source: Source::Guest,
        get: |row| row.kernel_range_per_unit,
    },
    Figure {
        key: "local_full",
        title: "full flushes",
        meaning: "Full flushes a CPU executed on its own TLB, whoever asked for them.",
        source: Source::Guest,
        get: |row| row.local_full_per_unit,
    },
    Figure {
        key: "local_single",
        title: "single pages",
        meaning: "Single pages a CPU invalidated in its own TLB, whoever asked for them.",
        source: Source::Guest,
        get: |row| row.local_single_per_unit,
    },
    Figure {
        key: "other_ipis",
        title: "other IPIs",
        meaning: "Every other cross-CPU function call, plus rescheduling interrupts: a gain must not move here.",
        source: Source::Guest,
        get: |row| row.other_ipis_per_unit,
    },
    Figure {
        key: "faults",
        title: "faults",
        meaning: "Page faults (vmstat pgfault).",
        source: Source::Guest,
        get: |row| row.faults_per_unit,
    },
    Figure {
        key: "walks",
        title: "walks",
        meaning: "Page walks, speculative and faulting ones among them; only where the machine can count them.",
        source: Source::Machine,
        get: |row| row.walks_per_unit,
    },
    Figure {
        key: "instructions",
        title: "instructions",
        meaning: "Instructions, in cost rows only: one vCPU under -icount shift=0, where the time-stamp counter counts them.",
        source: Source::Guest,
        get: |row| row.instructions_per_unit,
    },
    Figure {
        key: "ns",
        title: "time (ns)",
        meaning: "Wall-clock time of the measured part in nanoseconds; on a host alone, since an emulated machine's clock tells nothing.",
        source: Source::Guest,
        get: |row| row.ns_per_unit,
    },
    Figure {
        key: "cycles_modelled",
        title: "cycles (model)",
        meaning: "Instructions, page walks, accessed and dirty bits set, CR3 loads, INVLPG, INVPCID, IPIs and TLB inserts, each at a published \
                  price; in cost rows only. A model for comparing two kernels on the same work, not a time.",
        source: Source::Model,
        get: |row| row.cycles_modelled_per_unit,
    },
    Figure {
        key: "fills",
        title: "TLB fills",
        meaning: "TLB entries installed by walks, speculative ones among them.",
        source: Source::Machine,
        get: |row| row.fills_per_unit,
    },
    Figure {
        key: "evictions",
        title: "evictions",
        meaning: "Valid TLB entries displaced by others; none in a TLB without a bound.",
        source: Source::Machine,
        get: |row| row.evictions_per_unit,
    },
    Figure {
        key: "structure_hits",
        title: "structure hits",
        meaning: "Walks that began below the root, in the paging-structure cache.",
        source: Source::Machine,
        get: |row| row.structure_hits_per_unit,
    },
    Figure {
        key: "speculative_walks",
        title: "speculative walks",
        meaning: "Walks that no access asked for; they are in the walks, too.",
        source: Source::Machine,
        get: |row| row.speculative_walks_per_unit,
    },
    Figure {
        key: "assists_accessed",
        title: "accessed assists",
        meaning: "Accessed bits set in entries that map a page; on hardware each is a microcode assist.",
        source: Source::Machine,
        get: |row| row.assists_accessed_per_unit,
    },
    Figure {
        key: "assists_dirty",
        title: "dirty assists",
        meaning: "Dirty bits set likewise.",
        source: Source::Machine,
        get: |row| row.assists_dirty_per_unit,
    },
    Figure {
        key: "cr3_flush",
        title: "CR3 loads, flushing",
        meaning: "Loads of CR3 that invalidated the translations of their PCID.",
        source: Source::Machine,
        get: |row| row.cr3_flush_per_unit,
    },
    Figure {
        key: "cr3_noflush",
        title: "CR3 loads, keeping",
        meaning: "Loads of CR3 that kept them.",
        source: Source::Machine,
        get: |row| row.cr3_noflush_per_unit,
    },
    Figure {
        key: "invlpg",
        title: "INVLPG",
        meaning: "INVLPG instructions.",
        source: Source::Machine,
        get: |row| row.invlpg_per_unit,
    },
    Figure {
        key: "invpcid",
        title: "INVPCID",
        meaning: "INVPCID instructions of all types.",
        source: Source::Machine,
        get: |row| row.invpcid_per_unit,
    },
    Figure {
        key: "flush_all",
        title: "flushes by CR0, CR4",
        meaning: "Everything invalidated by a write of CR0 or CR4, or by INIT.",
        source: Source::Machine,
        get: |row| row.flush_all_per_unit,
    },
    Figure {
        key: "ipis",
        title: "IPIs",
        meaning: "Writes of an interrupt command register that sent a fixed interrupt to at least one target, for whatever purpose.",
        source: Source::Machine,
        get: |row| row.ipis_per_unit,
    },
    Figure {
        key: "ipi_targets",
        title: "IPI targets",
        meaning: "The targets of these.",
        source: Source::Machine,
        get: |row| row.ipi_targets_per_unit,
    },
    Figure {
        key: "inserts",
        title: "TLB inserts",
        meaning: "Translations that the kernel put into a TLB without using them; their walks are in the walks, too.",
        source: Source::Machine,
        get: |row| row.inserts_per_unit,
    },
    Figure {
        key: "insert_ops",
        title: "insert requests",
        meaning: "The instructions that asked for these, each for up to 512 pages.",
        source: Source::Machine,
        get: |row| row.insert_ops_per_unit,
    },
    Figure {
        key: "elided",
        title: "elided pages",
        meaning: "Pages that needed a flush without ABIS and that a proof let off, in whole or for all CPUs but some.",
        source: Source::Abis,
        get: |row| row.elided.map(|elided| elided.pages),
    },
    Figure {
        key: "elided_none",
        title: "requests to none",
        meaning: "Flush requests that asked nobody, because every page of theirs was let off.",
        source: Source::Abis,
        get: |row| row.elided.map(|elided| elided.none),
    },
    Figure {
        key: "elided_one",
        title: "requests to one",
        meaning: "Flush requests that asked one CPU alone.",
        source: Source::Abis,
        get: |row| row.elided.map(|elided| elided.one),
    },
    Figure {
        key: "elided_set",
        title: "requests to a set",
        meaning: "Flush requests that asked a set of CPUs smaller than all.",
        source: Source::Abis,
        get: |row| row.elided.map(|elided| elided.set),
    },
    Figure {
        key: "rounds",
        title: "rounds",
        meaning: "Full flushes of an address space that every CPU has executed.",
        source: Source::Abis,
        get: |row| row.abis_figure("rounds"),
    },
    Figure {
        key: "rounds_forced",
        title: "forced rounds",
        meaning: "Flushes widened to a full one so that later ones can be let off; their price is in the other figures.",
        source: Source::Abis,
        get: |row| row.abis_figure("rounds_forced"),
    },
    Figure {
        key: "spte_bytes",
        title: "software PTEs (bytes)",
        meaning: "Memory of the software page tables at the end of the measured part, of the whole system; not per unit.",
        source: Source::Abis,
        get: |row| row.abis_figure("spte_bytes"),
    },
];

/// Looks a figure up by key; the table is short and fixed.
pub fn figure(key: &str) -> Option<&'static Figure> {
    FIGURES.iter().find(|figure| figure.key == key)
}
