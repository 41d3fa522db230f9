// SPDX-License-Identifier: GPL-2.0-only
//! Two results files side by side: matched rows, their changes, and which changes are regressions.

use crate::avoided::Avoided;
use crate::mechanism::Shown;
use crate::schema::{self, Condition, Results, Row, CONDITIONS};
use crate::stats::Spread;
use ceasefire_base::text::count;
use ceasefire_base::{Error, Result};
use serde::Serialize;

pub const SCHEMA: &str = "ceasefire.compare/1";

/// More of these is worse: what `--fail-over` looks at.
pub const JUDGED: &[&str] = &["sent", "received", "local_full", "other_ipis", "instructions"];
/// What a comparison shows; the judged ones among them.
const COMPARED: &[&str] = &[
    "requested",
    "sent",
    "received",
    "needed",
    "unasked",
    "kernel_range",
    "local_full",
    "local_single",
    "other_ipis",
    "faults",
    "instructions",
    "cycles_modelled",
    "walks",
    "assists_accessed",
    "assists_dirty",
    "cr3_flush",
    "cr3_noflush",
    "invlpg",
    "invpcid",
    "inserts",
    "reads_local",
    "reads_remote",
    "reads_local_leaf",
    "reads_remote_leaf",
    "reads_local_user",
    "reads_remote_user",
    "elided",
    "elided_none",
];

/// Rows of this kernel in the first file belong to rows of that kernel in the second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub a: Side,
    pub b: Side,
}

/// `KERNEL` or `KERNEL:MODE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    pub kernel: String,
    pub mode: Option<String>,
}

impl Mapping {
    /// `vanilla=toy:on`
    pub fn parse(text: &str) -> Result<Mapping> {
        let side = |text: &str| {
            let (kernel, mode) = match text.split_once(':') {
                Some((kernel, mode)) => (kernel, Some(mode.to_string())),
                None => (text, None),
            };
            let is_whole = !kernel.is_empty() && mode.as_deref() != Some("");
            is_whole.then(|| Side { kernel: kernel.to_string(), mode })
        };
        text.split_once('=').and_then(|(a, b)| Some(Mapping { a: side(a)?, b: side(b)? })).ok_or_else(|| {
            Error::usage(format!("'{text}' does not say which kernel to hold against which"))
                .remedy("write KERNEL[:MODE]=KERNEL[:MODE], for example vanilla=NAME:MODE")
        })
    }
}

impl Side {
    fn of(row: &Row) -> Side {
        Side { kernel: row.kernel.clone(), mode: row.mode.clone() }
    }
}

/// The limit of `--fail-over`: a finite percentage, zero or more.
pub fn parse_percent(text: &str) -> Result<f64> {
    let number = text.trim().trim_end_matches('%').trim_end();
    number.parse::<f64>().ok().filter(|limit| limit.is_finite() && *limit >= 0.0).ok_or_else(|| {
        Error::usage(format!("'{text}' is not a percentage"))
            .remedy("give a number of 0 or more, for example --fail-over 5")
    })
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    pub schema: &'static str,
    pub rows: Vec<RowChange>,
    /// Rows without a partner in the other file.
    pub only_a: Vec<RowName>,
    pub only_b: Vec<RowName>,
    /// Why a reader should hesitate: other workload sources, other work, figures missing on one side.
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowName {
    pub workload: String,
    pub kernel: String,
    pub mode: Option<String>,
    pub threads: u32,
    pub vcpus: u32,
    pub nodes: u32,
    pub cost: bool,
    /// What else tells rows of these files apart: kernel arguments, settings, the machine.
    pub conditions: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowChange {
    pub a: RowName,
    pub b: RowName,
    pub unit: String,
    /// Targets per unit that `a` need not have interrupted; null where no machine tells.
    pub avoidable: Option<f64>,
    /// The share of them that `b` avoids; null where there are none, too. See the change of `received` for the spread.
    pub avoided_percent: Option<f64>,
    pub changes: Vec<Change>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The counter's name; of a mechanism's own `MECHANISM.NAME`.
    pub figure: String,
    #[serde(skip)]
    pub title: String,
    pub a: Spread,
    pub b: Spread,
    /// Of the medians; null where the first is zero and the second is not.
    pub percent: Option<f64>,
    /// From zero to something: an infinite rise.
    pub from_zero: bool,
    /// The repeats of both sides overlap: no change is proved.
    pub within_spread: bool,
}

impl Change {
    fn between(figure: &str, title: &str, a: Spread, b: Spread) -> Change {
        let percent = if a.median == b.median {
            Some(0.0)
        } else if a.median == 0.0 {
            None
        } else {
            Some((b.median - a.median) / a.median.abs() * 100.0)
        };
        Change {
            figure: figure.into(),
            title: title.into(),
            a,
            b,
            percent,
            from_zero: percent.is_none(),
            within_spread: a.overlaps(&b),
        }
    }

    /// Percent, where a rise from zero is larger than every number.
    pub fn size(&self) -> f64 {
        self.percent.unwrap_or(f64::INFINITY)
    }
}

impl RowName {
    fn of(row: &Row, told: &[&Condition]) -> RowName {
        RowName {
            conditions: told.iter().filter_map(|condition| (condition.words)(row)).collect(),
            workload: row.workload.clone(),
            kernel: row.kernel.clone(),
            mode: row.mode.clone(),
            threads: row.threads,
            vcpus: row.vcpus,
            nodes: row.nodes,
            cost: row.cost,
        }
    }

    pub fn label(&self) -> String {
        let mode = self.mode.as_ref().map_or_else(String::new, |mode| format!(" ({mode})"));
        let nodes = if self.nodes > 1 { format!(" in {} nodes", self.nodes) } else { String::new() };
        let cost = if self.cost { ", cost" } else { "" };
        let threads = count(u64::from(self.threads), "thread");
        let vcpus = count(u64::from(self.vcpus), "vCPU");
        let conditions: String = self.conditions.iter().map(|words| format!(", {words}")).collect();
        format!("{}, {threads}, {vcpus}{nodes}, {}{mode}{cost}{conditions}", self.workload, self.kernel)
    }
}

/// A rise over the limit that the repeats' spread does not explain.
#[derive(Debug, Clone, PartialEq)]
pub struct Regression<'a> {
    pub row: &'a RowChange,
    pub change: &'a Change,
}

/// Refuses files whose controls failed, and files that share no row.
pub fn compare(a: &Results, b: &Results, mappings: &[Mapping]) -> Result<Comparison> {
    for (results, which) in [(a, "first"), (b, "second")] {
        results.reportable().map_err(|error| Error {
            message: format!("the {which} file cannot be compared: {}", error.message),
            ..error
        })?;
    }
    let mappings = complete(a, b, mappings)?;
    let is_mapped = |row: &Row, side: fn(&Mapping) -> &Side| {
        mappings.as_ref().map_or(true, |list| list.iter().any(|mapping| *side(mapping) == Side::of(row)))
    };
    let rows_a: Vec<&Row> = a.rows.iter().filter(|row| is_mapped(row, |mapping| &mapping.a)).collect();
    let mut rows_b: Vec<Option<&Row>> =
        b.rows.iter().filter(|row| is_mapped(row, |mapping| &mapping.b)).map(Some).collect();
    let told = told(&rows_a.iter().copied().chain(rows_b.iter().copied().flatten()).collect::<Vec<_>>());

    let own = b.shown(|counter| counter.table || counter.summary.is_some());
    let mut comparison = Comparison {
        schema: SCHEMA,
        rows: Vec::new(),
        only_a: Vec::new(),
        only_b: Vec::new(),
        warnings: environment_warnings(a, b),
    };
    // The same conditions and seed first, for all rows: other seeds may do other work.
    let nearness: [fn(&Row, &Row) -> bool; 3] =
        [|a, b| a.is_alike(b) && a.seed == b.seed, |a, b| a.is_alike(b), |_, _| true];
    let mut partners: Vec<Option<&Row>> = vec![None; rows_a.len()];
    for is_near in nearness {
        for (row, partner) in rows_a.iter().zip(&mut partners).filter(|(_, partner)| partner.is_none()) {
            let is_it = |other: &&Row| is_partner(row, other, mappings.as_deref()) && is_near(row, other);
            *partner =
                rows_b.iter_mut().find(|other| other.as_ref().is_some_and(is_it)).and_then(Option::take);
        }
    }
    for (row, partner) in rows_a.iter().zip(partners) {
        match partner {
            Some(partner) => comparison.add(row, partner, &told, &own),
            None => comparison.only_a.push(RowName::of(row, &told)),
        }
    }
    comparison.only_b.extend(rows_b.iter().flatten().map(|row| RowName::of(row, &told)));
    if comparison.rows.is_empty() {
        return Err(Error::usage("no row of the first file has a partner in the second")
            .remedy("compare files of the same workloads, threads, vCPUs and nodes, or say which kernels belong together: --map vanilla=NAME:MODE"));
    }
    Ok(comparison)
}

/// Where the user maps nothing and each file holds one kernel, those two belong together.
fn complete(a: &Results, b: &Results, mappings: &[Mapping]) -> Result<Option<Vec<Mapping>>> {
    let sides = |results: &Results| {
        let mut sides: Vec<Side> = Vec::new();
        for row in &results.rows {
            let side = Side::of(row);
            if !sides.contains(&side) {
                sides.push(side);
            }
        }
        sides
    };
    let (sides_a, sides_b) = (sides(a), sides(b));
    for mapping in mappings {
        for (side, known, which) in [(&mapping.a, &sides_a, "first"), (&mapping.b, &sides_b, "second")] {
            if !known.contains(side) {
                let name = |side: &Side| match &side.mode {
                    Some(mode) => format!("{}:{mode}", side.kernel),
                    None => side.kernel.clone(),
                };
                let names: Vec<String> = known.iter().map(name).collect();
                return Err(Error::usage(format!("the {which} file holds no row of {}", name(side)))
                    .remedy(format!("it holds: {}", names.join(", "))));
            }
        }
    }
    Ok(match (mappings, sides_a.as_slice(), sides_b.as_slice()) {
        ([], [a], [b]) => Some(vec![Mapping { a: a.clone(), b: b.clone() }]),
        ([], _, _) => None,
        (given, _, _) => Some(given.to_vec()),
    })
}

fn is_partner(a: &Row, b: &Row, mappings: Option<&[Mapping]>) -> bool {
    let is_same_place = (&a.workload, a.threads, a.vcpus, a.nodes, a.cost, &a.set)
        == (&b.workload, b.threads, b.vcpus, b.nodes, b.cost, &b.set);
    let is_same_kernel = match mappings {
        Some(list) => list.iter().any(|mapping| mapping.a == Side::of(a) && mapping.b == Side::of(b)),
        None => Side::of(a) == Side::of(b),
    };
    is_same_place && is_same_kernel
}

/// Beside what a name says anyway.
fn told(rows: &[&Row]) -> Vec<&'static Condition> {
    let mut told = Condition::telling(rows);
    told.retain(|condition| condition.name != CONDITIONS[0].name);
    told
}

fn environment_warnings(a: &Results, b: &Results) -> Vec<String> {
    let (a, b) = (&a.environment, &b.environment);
    let qemu = |environment: &schema::Environment| {
        environment.qemu.as_ref().map(|qemu| (qemu.version.clone(), qemu.series.clone(), qemu.accel.clone()))
    };
    // A file of an earlier version says nothing of its TLBs: the emulator's series differs then, too.
    let paging = |environment: &schema::Environment| {
        environment.qemu.as_ref().map(|qemu| (qemu.tlb.as_ref().map(|tlb| tlb.spec.clone()), qemu.la57))
    };
    let mut warnings = Vec::new();
    for (differs, what) in [
        (a.workloads != b.workloads, "the workloads' sources differ"),
        (a.place != b.place, "one file was measured in a guest, the other on a host"),
        (qemu(a) != qemu(b), "the emulators differ"),
        ((&a.thp, a.pti, a.pcid) != (&b.thp, b.pti, b.pcid), "huge pages, PTI or PCID are set differently"),
        (paging(a) != paging(b), "the TLBs or the levels of page tables are set differently"),
        (differ_in_costs(a, b), "the cycles are modelled with different constants"),
    ] {
        if differs {
            warnings.push(what.to_string());
        }
    }
    warnings
}

/// A file without modelled cycles has no constants to differ in.
fn differ_in_costs(a: &schema::Environment, b: &schema::Environment) -> bool {
    !a.cycle_costs.is_empty() && !b.cycle_costs.is_empty() && a.cycle_costs != b.cycle_costs
}

impl Comparison {
    /// `own`: counters of the mechanisms.
    fn add(&mut self, a: &Row, b: &Row, told: &[&Condition], own: &[Shown]) {
        let name = RowName::of(b, told);
        for condition in CONDITIONS.iter().filter(|condition| condition.differs(a, b)) {
            let words = |row: &Row| (condition.words)(row).unwrap_or_else(|| "none".into());
            self.warn_once(&format!("rows differ in {}: {} and {}", condition.name, words(a), words(b)));
        }
        if a.unit != b.unit {
            self.warnings.push(format!(
                "{}: counted per '{}' and per '{}', not compared",
                name.label(),
                a.unit,
                b.unit
            ));
            return;
        }
        let is_same_input = (a.seed, a.units) == (b.seed, b.units);
        if is_same_input && a.checksum.is_some() && b.checksum.is_some() && a.checksum != b.checksum {
            self.warnings.push(format!("{}: the work done is not the same (checksums differ)", name.label()));
        }
        let mut changes = Vec::new();
        for counter in COMPARED.iter().filter_map(|key| schema::counter(key)) {
            match ((counter.get)(a), (counter.get)(b)) {
                (Some(old), Some(new)) => changes.push(Change::between(counter.key, counter.title, old, new)),
                (None, None) => {}
                // A kernel that lets nothing off has nothing to count.
                _ if counter.source == schema::Source::Mechanism => {}
                // That one machine counts and the other does not is said once, for all rows; the model follows from it.
                _ if counter.source == schema::Source::Machine => {
                    let is_counted = |row: &Row| row.walks_per_unit.is_some();
                    self.warn_once(match is_counted(a) == is_counted(b) {
                        true => "one of the files has fewer of the machine's counters",
                        false => "only one of the machines counts page walks",
                    })
                }
                _ if counter.source == schema::Source::Oracle => {
                    self.warn_once("only one of the kernels asks which targets were needed")
                }
                _ if counter.source == schema::Source::Model => {
                    self.warn_once("only one of the files has modelled cycles")
                }
                (old, _) => {
                    let side = if old.is_some() { "first" } else { "second" };
                    self.warnings.push(format!(
                        "{}: only the {side} file measures {}",
                        name.label(),
                        counter.title
                    ));
                }
            }
        }
        for shown in own {
            if let (Some(old), Some(new)) = (shown.get(a), shown.get(b)) {
                changes.push(Change::between(&shown.key(), &shown.counter.title, old, new));
            }
        }
        self.rows.push(RowChange {
            a: RowName::of(a, told),
            b: name,
            unit: b.unit.clone(),
            avoidable: a.avoidable_per_unit(),
            avoided_percent: Avoided::of(a, b).and_then(Avoided::percent),
            changes,
        });
    }

    fn warn_once(&mut self, sentence: &str) {
        if !self.warnings.iter().any(|warning| warning == sentence) {
            self.warnings.push(sentence.into());
        }
    }

    /// Rises of judged figures over `limit` percent that are not within the spread, the worst first.
    pub fn over(&self, limit: f64) -> Vec<Regression<'_>> {
        let mut found: Vec<Regression> = Vec::new();
        for row in &self.rows {
            for change in &row.changes {
                if JUDGED.contains(&change.figure.as_str()) && !change.within_spread && change.size() > limit
                {
                    found.push(Regression { row, change });
                }
            }
        }
        found.sort_by(|a, b| b.change.size().total_cmp(&a.change.size()));
        found
    }

    pub fn to_json(&self) -> Result<String> {
        let mut text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::failed(format!("the comparison cannot be written as JSON: {error}")))?;
        text.push('\n');
        Ok(text)
    }
}
