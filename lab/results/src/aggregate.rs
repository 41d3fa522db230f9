// SPDX-License-Identifier: GPL-2.0-only
//! Guest logs to rows: repeats grouped, counts divided by units, equal work proved, controls judged.

use crate::cycles;
use crate::judge::holds;
use crate::mechanism::{self, Described};
use crate::net;
use crate::protocol::{GuestLog, Run};
use crate::schema::{Control, Elided, Environment, Results, Row, Unmeasured};
use crate::stats::{self, Spread};
use ceasefire_base::{Error, Result};
use ceasefire_mechanism::Total;
use std::collections::BTreeMap;

/// The place whose clock means something.
const HOST: &str = "host";

/// What a guest log does not say about its rows: the kernel and the machine it ran on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowKey {
    pub kernel: String,
    /// `None` for a kernel without modes.
    pub mode: Option<String>,
    pub vcpus: u32,
    pub nodes: u32,
    pub cost: bool,
    /// `tcg` or `kvm`.
    pub accel: Option<String>,
    pub thread_mode: Option<String>,
    pub slice_us: Option<u32>,
    pub cpu: Option<String>,
    /// Words added to the kernel's command line: they change what it does.
    pub kernel_args: Option<String>,
    /// `KEY=VALUE,…` given to the workloads of this log.
    pub set: Option<String>,
    /// The command of a program of the user's own.
    pub program: Option<String>,
    pub la57: Option<bool>,
    /// The emulated TLBs, as `--tlb` takes them.
    pub tlb: Option<String>,
    /// The observer looked on.
    pub is_recorded: bool,
}

impl RowKey {
    fn label(&self) -> String {
        let kernel = match &self.mode {
            Some(mode) => format!("{} ({mode})", self.kernel),
            None => self.kernel.clone(),
        };
        let shape = match self.nodes {
            0 | 1 => format!("{} vCPUs", self.vcpus),
            nodes => format!("{} vCPUs in {nodes} nodes", self.vcpus),
        };
        let arguments = self.kernel_args.as_ref().map_or_else(String::new, |words| format!(", {words}"));
        format!("{kernel}, {shape}{arguments}")
    }
}

/// What the guest says of itself.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Heard<'a> {
    thp: Option<&'a str>,
    pti: Option<bool>,
    pcid: Option<bool>,
}

impl Heard<'_> {
    fn of(log: &GuestLog) -> Heard<'_> {
        let boot = log.boot.as_ref();
        Heard {
            thp: boot.and_then(|boot| boot.thp.as_deref()),
            pti: boot.and_then(|boot| boot.pti),
            pcid: boot.and_then(|boot| boot.pcid),
        }
    }
}

/// One row in the making: all repeats with the same conditions, workload, threads and seed.
struct Group<'a> {
    key: &'a RowKey,
    heard: Heard<'a>,
    runs: Vec<&'a Run>,
    /// By index; the last one is known.
    boots: u32,
    last_boot: usize,
}

/// Makes rows of complete logs. An error names what makes the logs unusable: a log that is not
/// complete, repeats that disagree about their unit, or work that differs where it must be equal.
pub fn aggregate(mut environment: Environment, logs: &[(RowKey, GuestLog)]) -> Result<Results> {
    let runs = logs.iter().flat_map(|(_, log)| &log.runs);
    mechanism::describe(&mut environment.mechanisms, runs.flat_map(|run| run.mechanisms.keys()));
    let mechanisms = environment.mechanisms.clone();
    let described = Described::of(&mechanisms);
    let is_host = environment.place == HOST;
    let mut results = Results::new(environment);
    let mut groups: Vec<Group> = Vec::new();
    for (boot, (key, log)) in logs.iter().enumerate() {
        log.usable()
            .map_err(|error| Error { message: format!("{}: {}", key.label(), error.message), ..error })?;
        results.problems.extend(log.problems.iter().map(|problem| format!("{}: {problem}", key.label())));
        results.skipped.extend(log.skips.iter().map(|skip| unmeasured(key, skip)));
        results.failed.extend(log.fails.iter().map(|fail| unmeasured(key, fail)));
        for run in log.runs.iter().filter(|run| run.units > 0) {
            let heard = Heard::of(log);
            match groups.iter_mut().find(|group| group.takes(key, heard, run)) {
                Some(group) => group.add(run, boot),
                None => groups.push(Group { key, heard, runs: vec![run], boots: 1, last_boot: boot }),
            }
        }
        // Work of zero units is no measurement: the row is missing and the reader must hear it.
        results.failed.extend(log.runs.iter().filter(|run| run.units == 0).map(|run| Unmeasured {
            threads: Some(run.threads),
            ..place(key, &run.workload, "did no work: zero units")
        }));
    }
    check_work(&groups)?;
    for group in &groups {
        let mut row = group.row(&described)?;
        if is_host {
            row.ns_per_unit = group.spread(|run| Some(run.duration_ns? as f64 / run.units as f64));
        }
        results.rows.push(row);
        group.judge(&mut results.controls);
    }
    let is_modelled = results.rows.iter().any(|row| row.cycles_modelled_per_unit.is_some());
    let is_net = results.rows.iter().any(|row| row.cycles_net_per_unit.is_some());
    let costs = &mut results.environment.cycle_costs;
    costs.extend(is_modelled.then(cycles::constants).into_iter().flatten());
    costs.extend(is_net.then(net::constants).into_iter().flatten());
    if is_modelled || is_net {
        costs.extend(described.prices());
    }
    Ok(results)
}

fn place(key: &RowKey, workload: &str, reason: &str) -> Unmeasured {
    Unmeasured {
        workload: workload.into(),
        reason: reason.into(),
        threads: None,
        kernel: Some(key.kernel.clone()),
        mode: key.mode.clone(),
        vcpus: Some(key.vcpus),
        nodes: Some(key.nodes),
        set: key.set.clone(),
        rerun: None,
        output: Vec::new(),
    }
}

fn unmeasured(key: &RowKey, record: &crate::protocol::Unmeasured) -> Unmeasured {
    let output = record.output.clone();
    Unmeasured { threads: record.threads, output, ..place(key, &record.workload, &record.reason) }
}

/// Equal arguments must have done equal work, over repeats and across kernels and machines:
/// otherwise the counts compare different things.
fn check_work(groups: &[Group]) -> Result<()> {
    type Arguments<'a> = (&'a str, u32, u64, u64, [Option<&'a str>; 2]);
    let mut first: BTreeMap<Arguments, (&RowKey, &Run)> = BTreeMap::new();
    for group in groups {
        for run in &group.runs {
            let words = [group.key.set.as_deref(), group.key.program.as_deref()];
            let arguments = (run.workload.as_str(), run.threads, run.seed, run.units, words);
            let (key, earlier) = *first.entry(arguments).or_insert((group.key, run));
            if earlier.checksum != run.checksum {
                return Err(Error::failed(format!(
                    "the work of {} at {} threads is not the same everywhere: checksum {} on {} (repeat {}), {} on {} (repeat {})",
                    run.workload,
                    run.threads,
                    earlier.checksum,
                    key.label(),
                    earlier.repeat,
                    run.checksum,
                    group.key.label(),
                    run.repeat,
                ))
                .remedy("either the workload is not deterministic or memory was corrupted: compare nothing before this is explained"));
            }
        }
    }
    Ok(())
}

impl<'a> Group<'a> {
    fn add(&mut self, run: &'a Run, boot: usize) {
        self.runs.push(run);
        self.boots += u32::from(self.last_boot != boot);
        self.last_boot = boot;
    }

    fn takes(&self, key: &RowKey, heard: Heard, run: &Run) -> bool {
        let first = self.runs[0];
        self.key == key
            && self.heard == heard
            && first.workload == run.workload
            && first.threads == run.threads
            && first.seed == run.seed
    }

    fn row(&self, described: &Described) -> Result<Row> {
        let (key, first) = (self.key, self.runs[0]);
        if let Some(other) = self.runs.iter().find(|run| run.unit != first.unit) {
            return Err(Error::failed(format!(
                "{} at {} threads counts '{}' in one repeat and '{}' in another",
                first.workload, first.threads, first.unit, other.unit
            ))
            .remedy("one workload has one unit: fix its description"));
        }
        let units: Vec<f64> = self.runs.iter().map(|run| run.units as f64).collect();
        let is_equal_work = self.runs.iter().all(|run| run.units == first.units);
        let sent_per_unit = self.per_unit("sent");
        let received_per_unit = self.per_unit("received");
        let is_wide = |spread: Option<Spread>| spread.is_some_and(|spread| spread.is_noisy());
        Ok(Row {
            workload: first.workload.clone(),
            kernel: key.kernel.clone(),
            mode: key.mode.clone(),
            vcpus: key.vcpus,
            nodes: key.nodes,
            threads: first.threads,
            repeats: self.runs.len() as u32,
            unit: first.unit.clone(),
            units: stats::median(&units).map_or(0, |units| units.round() as u64),
            checksum: is_equal_work.then(|| first.checksum.clone()),
            requested_per_unit: self.per_unit("requested"),
            sent_per_unit,
            received_per_unit,
            kernel_range_per_unit: self.per_unit("kernel_received"),
            local_full_per_unit: self.per_unit("local_full"),
            local_single_per_unit: self.per_unit("local_single"),
            other_ipis_per_unit: self.per_unit("other_ipis"),
            faults_per_unit: self.per_unit("faults"),
            walks_per_unit: self.per_unit("walks"),
            instructions_per_unit: self.per_unit("instructions"),
            cycles_modelled_per_unit: self.spread(|run| {
                Some((cycles::of(run)? + described.priced(&run.mechanisms)) / run.units as f64)
            }),
            elided: self.elided(described),
            checked: self.total(described, Total::Checked, "checked"),
            violations: self.total(described, Total::Violations, "violations"),
            mechanisms: self.mechanisms(described),
            asked_wrongly: described.asked_wrongly(&self.runs),
            received_irq_per_unit: self.per_unit("received_irq"),
            kernel_sent_per_unit: self.per_unit("kernel_sent"),
            noisy: is_wide(sent_per_unit) || is_wide(received_per_unit),
            cost: key.cost,
            seed: first.seed,
            control: first.expect.is_some(),
            extra: self.extra(),
            duration_ns: self.spread(|run| run.duration_ns.map(|ns| ns as f64)),
            ns_per_unit: None,
            accel: key.accel.clone(),
            thread_mode: key.thread_mode.clone(),
            slice_us: key.slice_us,
            cpu: key.cpu.clone(),
            thp: self.heard.thp.map(String::from),
            pti: self.heard.pti,
            pcid: self.heard.pcid,
            kernel_args: key.kernel_args.clone(),
            boots: self.boots,
            set: key.set.clone(),
            recorded: key.is_recorded,
            program: key.program.clone(),
            la57: key.la57,
            tlb: key.tlb.clone(),
            fills_per_unit: self.per_unit("fills"),
            evictions_per_unit: self.per_unit("evictions"),
            structure_hits_per_unit: self.per_unit("structure_hits"),
            speculative_walks_per_unit: self.per_unit("speculative_walks"),
            assists_accessed_per_unit: self.per_unit("assists_accessed"),
            assists_dirty_per_unit: self.per_unit("assists_dirty"),
            cr3_flush_per_unit: self.per_unit("cr3_flush"),
            cr3_noflush_per_unit: self.per_unit("cr3_noflush"),
            invlpg_per_unit: self.per_unit("invlpg"),
            invpcid_per_unit: self.per_unit("invpcid"),
            flush_all_per_unit: self.per_unit("flush_all"),
            ipis_per_unit: self.per_unit("ipis"),
            ipi_targets_per_unit: self.per_unit("ipi_targets"),
            inserts_per_unit: self.per_unit("inserts"),
            insert_ops_per_unit: self.per_unit("insert_ops"),
            user_interrupts_per_unit: self.per_unit("user_interrupts"),
            invlpgb_per_unit: self.per_unit("invlpgb"),
            invlpgb_all_per_unit: self.per_unit("invlpgb_all"),
            tlbsync_per_unit: self.per_unit("tlbsync"),
            broadcast_targets_per_unit: self.per_unit("broadcast_targets"),
            broadcast_hits_per_unit: self.per_unit("broadcast_hits"),
            reads_local_per_unit: self.by_node("reads_local"),
            reads_remote_per_unit: self.by_node("reads_remote"),
            reads_local_leaf_per_unit: self.by_node("reads_local_leaf"),
            reads_remote_leaf_per_unit: self.by_node("reads_remote_leaf"),
            reads_local_user_per_unit: self.by_node("reads_local_user"),
            reads_remote_user_per_unit: self.by_node("reads_remote_user"),
            needed_per_unit: self.per_unit("needed"),
            unasked_per_unit: self.per_unit("unasked"),
            kernel_instructions_per_unit: self.per_unit("kernel_instructions"),
            handler_instructions_per_unit: self.per_unit("handler_instructions"),
            spin_instructions_per_unit: self.per_unit("spin_instructions"),
            timer_instructions_per_unit: self.per_unit("timer_instructions"),
            cycles_net_per_unit: net::of(&self.runs, |run| described.priced(&run.mechanisms)),
        })
    }

    /// `None` if any repeat lacks the value: a spread over fewer repeats than the row says would lie.
    fn spread(&self, value: impl Fn(&Run) -> Option<f64>) -> Option<Spread> {
        let values: Option<Vec<f64>> = self.runs.iter().map(|run| value(run)).collect();
        Spread::of(&values?)
    }

    fn per_unit(&self, counter: &str) -> Option<Spread> {
        self.spread(|run| run.counter(counter).map(|count| count as f64 / run.units as f64))
    }

    /// The machine has these counters with one node, too, where they are 0 and tell nothing.
    fn by_node(&self, counter: &str) -> Option<Spread> {
        self.per_unit(counter).filter(|_| self.key.nodes > 1)
    }

    /// `alone`: its name among the guest's own counters. Over all repeats, saturating: an absurd count must not wrap to a good one.
    fn total(&self, described: &Described, total: Total, alone: &str) -> Option<u64> {
        let count = |run: &&Run| described.total(&run.mechanisms, total).or_else(|| run.counter(alone));
        self.runs.iter().map(count).try_fold(0u64, |sum, count| Some(sum.saturating_add(count?)))
    }

    /// What every repeat counted by the kernel's own names.
    fn mechanisms(&self, described: &Described) -> BTreeMap<String, BTreeMap<String, Spread>> {
        let is_whole = |name: &&String| self.runs.iter().all(|run| run.mechanisms.contains_key(*name));
        let mut mechanisms = BTreeMap::new();
        for mechanism in self.runs[0].mechanisms.keys().filter(is_whole) {
            let mut spreads = BTreeMap::new();
            for name in self.runs[0].mechanisms[mechanism].keys() {
                let is_level = described.is_level(mechanism, name);
                let units = |run: &Run| if is_level { 1.0 } else { run.units as f64 };
                let count = |run: &Run| run.mechanisms.get(mechanism)?.get(name).copied();
                let spread = self.spread(|run| Some(count(run)? as f64 / units(run)));
                spreads.extend(spread.map(|spread| (name.clone(), spread)));
            }
            mechanisms.insert(mechanism.clone(), spreads);
        }
        mechanisms
    }

    fn elided(&self, described: &Described) -> Option<Elided> {
        let repeats: Option<Vec<([u64; 4], u64)>> =
            self.runs.iter().map(|run| Some((described.elided(&run.mechanisms)?, run.units))).collect();
        Elided::of(&repeats?)
    }

    fn extra(&self) -> BTreeMap<String, f64> {
        let mut medians = BTreeMap::new();
        for name in self.runs[0].extra.keys() {
            if let Some(spread) = self.spread(|run| run.extra.get(name).copied()) {
                medians.insert(name.clone(), spread.median);
            }
        }
        medians
    }

    /// Every repeat must keep the promise, from every source that counts it.
    fn judge(&self, controls: &mut Vec<Control>) {
        // A cost row counts instructions with all probes off: there is nothing to hold a promise against.
        if self.key.cost {
            return;
        }
        let Some(promise) = self.runs[0].expect else { return };
        for (source, expected) in [
            ("sent", promise.sent),
            ("received", promise.received),
            ("received_irq", promise.received),
            ("tlbsync", promise.tlbsync),
        ] {
            let Some(expected) = expected else { continue };
            let expected = expected as f64;
            // Without a probe `received` is a copy of the interrupt row: no source of its own.
            let is_copy = |run: &Run| source == "received" && run.counter("kernel_received").is_none();
            let count = |run: &&Run| run.counter(source).filter(|_| !is_copy(run)).map(|count| count as f64);
            let counts: Option<Vec<f64>> = self.runs.iter().map(count).collect();
            let measured = counts.and_then(|counts| {
                counts.into_iter().max_by(|a, b| (a - expected).abs().total_cmp(&(b - expected).abs()))
            });
            // Repeats that promise different totals are a workload that changed its mind.
            let is_one_promise = self.runs.iter().all(|run| run.expect == Some(promise));
            controls.push(Control {
                name: format!(
                    "{} at {} threads ({}): {}",
                    self.runs[0].workload,
                    self.runs[0].threads,
                    self.key.label(),
                    source
                ),
                expected,
                measured,
                ok: measured.map(|measured| is_one_promise && holds(expected, measured)),
                source: source.into(),
                workload: self.runs[0].workload.clone(),
                kernel: self.key.kernel.clone(),
                mode: self.key.mode.clone(),
                threads: self.runs[0].threads,
                vcpus: self.key.vcpus,
                nodes: self.key.nodes,
            });
        }
    }
}
