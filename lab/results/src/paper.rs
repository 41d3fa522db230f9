// SPDX-License-Identifier: GPL-2.0-only
//! `ceasefire.paper/1`: a paper's evaluation done again. Rows as in a results file, by figure, each held against what
//! the paper says. Fields are added, never renamed; null means "not measured".

pub mod figures;

use crate::compare::{self, Mapping, Side};
use crate::schema::{About, Control, Environment, Results, Row, Unmeasured};
use crate::stats::Spread;
use crate::{mechanism, old};
use ceasefire_base::{text::count, Error, Result};
use figures::{Evaluation, Figure, Quantity, Work, EVALUATIONS, MEAN, SUM};
use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "ceasefire.paper/1";

/// A rise smaller than this, in per cent or per unit, is no loss to publish: rounding, timer ticks, kernel threads.
const LOSS_PERCENT: f64 = 2.0;
const LOSS_PER_UNIT: f64 = 0.02;
/// What a gain could have moved to, or cost.
const LOSSES: &[&str] = &[
    "sent",
    "received",
    "kernel_range",
    "local_full",
    "other_ipis",
    "faults",
    "walks",
    "instructions",
    "cycles_modelled",
];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Paper {
    pub schema: String,
    /// Which paper's: [`Evaluation::id`]. The first file of this form had one alone.
    #[serde(default = "first")]
    pub evaluation: String,
    pub environment: Environment,
    pub repeats: u32,
    /// Each repeat is a boot of its own.
    #[serde(default)]
    pub is_of_boots: bool,
    /// As rows are labelled; the baseline first.
    pub kernels: Vec<String>,
    pub controls: Vec<Control>,
    #[serde(default)]
    pub workloads: Vec<About>,
    pub figures: Vec<Measured>,
}

/// One figure's counterpart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    pub id: String,
    pub title: String,
    /// Of the paper.
    pub section: String,
    pub compared: Vec<Compared>,
    pub losses: Vec<Loss>,
    pub rows: Vec<Row>,
    #[serde(default)]
    pub skipped: Vec<Unmeasured>,
    #[serde(default)]
    pub failed: Vec<Unmeasured>,
    #[serde(default)]
    pub problems: Vec<String>,
    /// The commands that measure these rows again, one a boot.
    pub commands: Vec<String>,
}

/// What the paper says, and what was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    pub workload: String,
    pub quantity: String,
    pub unit: String,
    pub kernel: String,
    pub threads: u32,
    pub vcpus: u32,
    pub repeats: u32,
    pub paper_percent: f64,
    pub paper_words: String,
    /// Shown beside the paper's figure, and not judged by it.
    #[serde(default)]
    pub is_aside: bool,
    pub section: String,
    pub baseline: Option<Spread>,
    pub here: Option<Spread>,
    /// Against the baseline; null where the baseline has none.
    pub percent: Option<f64>,
    /// Pages let off per unit: what a batch of pages, flushed whole or not at all, hides.
    #[serde(default)]
    pub elided: Option<Spread>,
}

/// What rose, and not by chance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    pub workload: String,
    pub kernel: String,
    pub threads: u32,
    pub vcpus: u32,
    /// The machine and setting, where they are the figure's point.
    pub at: Option<String>,
    pub figure: String,
    pub unit: String,
    pub baseline: Spread,
    pub here: Spread,
    /// Null: from zero.
    pub percent: Option<f64>,
}

fn first() -> String {
    EVALUATIONS[0].id.into()
}

impl Measured {
    /// `kernels`: labels, the baseline first. `results` holds this figure's rows alone.
    pub fn new(
        figure: &'static Figure,
        results: Results,
        kernels: &[String],
        commands: Vec<String>,
    ) -> Result<Measured> {
        results.reportable()?;
        let kernels = &with_others(kernels, &results.rows);
        Ok(Measured {
            id: figure.id.into(),
            title: figure.title.into(),
            section: figure.section.into(),
            compared: compared(figure, &results.rows, kernels),
            losses: losses(figure, &results, kernels)?,
            rows: results.rows,
            skipped: results.skipped,
            failed: results.failed,
            problems: results.problems,
            commands,
        })
    }
}

/// The labels, and those of kernels that this figure alone has.
pub fn with_others(kernels: &[String], rows: &[Row]) -> Vec<String> {
    let mut all = kernels.to_vec();
    for label in rows.iter().map(Row::kernel_label) {
        if !all.contains(&label) {
            all.push(label);
        }
    }
    all
}

impl Paper {
    /// The table of its figures.
    pub fn table(&self) -> &'static Evaluation {
        figures::evaluation(&self.evaluation).unwrap_or(&EVALUATIONS[0])
    }

    /// `5 boots`, or `5 repeats` of one.
    pub fn times(&self) -> String {
        count(u64::from(self.repeats), if self.is_of_boots { "boot" } else { "repeat" })
    }

    pub fn figure(&self, id: &str) -> Option<&Measured> {
        self.figures.iter().find(|measured| measured.id == id)
    }

    /// Figures in the table's order; one that was there is replaced.
    pub fn put(&mut self, measured: Measured) {
        self.figures.retain(|known| known.id != measured.id);
        self.figures.push(measured);
        let table = self.table().figures;
        self.figures.sort_by_key(|measured| table.iter().position(|figure| figure.id == measured.id));
    }

    /// Whether figures of both may stand on one page.
    pub fn is_same_condition(&self, other: &Paper) -> bool {
        let of = |paper: &Paper| {
            let environment = &paper.environment;
            let kernels: Vec<_> = environment
                .kernels
                .iter()
                .map(|kernel| {
                    (kernel.name.clone(), kernel.base.clone(), kernel.series.clone(), kernel.config.clone())
                })
                .collect();
            let machine = environment
                .qemu
                .as_ref()
                .map(|qemu| (qemu.sha256.clone(), qemu.accel.clone(), qemu.slice_us));
            let how = (paper.evaluation.clone(), paper.kernels.clone(), paper.repeats, paper.is_of_boots);
            (how, kernels, machine, environment.workloads.clone())
        };
        of(self) == of(other)
    }

    /// One figure as a results file, for the tables of the report.
    pub fn results(&self, measured: &Measured) -> Results {
        let mut environment = self.environment.clone();
        let names = measured.rows.iter().flat_map(|row| row.mechanisms.keys());
        mechanism::describe(&mut environment.mechanisms, names);
        Results {
            rows: measured.rows.clone(),
            skipped: measured.skipped.clone(),
            failed: measured.failed.clone(),
            problems: measured.problems.clone(),
            controls: self.controls.clone(),
            workloads: self.workloads.clone(),
            ..Results::new(environment)
        }
    }

    pub fn to_json(&self) -> Result<String> {
        let mut text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::failed(format!("the evaluation cannot be written as JSON: {error}")))?;
        text.push('\n');
        Ok(text)
    }

    /// Whether this JSON says that it is of this kind, whatever its version.
    pub fn is_meant(bytes: &[u8]) -> bool {
        #[derive(Deserialize)]
        struct Head {
            schema: String,
        }
        serde_json::from_slice::<Head>(bytes).is_ok_and(|head| head.schema.starts_with("ceasefire.paper/"))
    }

    pub fn from_json(bytes: &[u8], name: &str) -> Result<Paper> {
        let remedy = "give a paper.json written by `ceasefire lab paper`";
        let wrong = |error: serde_json::Error| {
            Error::usage(format!("{name} is not a file of the paper's evaluation: {error}")).remedy(remedy)
        };
        let mut paper: Paper = serde_json::from_slice(bytes).map_err(wrong)?;
        old::paper(&mut paper, bytes).map_err(wrong)?;
        if paper.schema != SCHEMA {
            return Err(Error::usage(format!("{name} is written in another form than {SCHEMA}"))
                .remedy("use the ceasefire that wrote it, or measure again"));
        }
        if figures::evaluation(&paper.evaluation).is_none() {
            let known: Vec<&str> = EVALUATIONS.iter().map(|evaluation| evaluation.id).collect();
            return Err(Error::usage(format!(
                "{name} is of a paper that is not known here: {}",
                paper.evaluation
            ))
            .remedy(format!("use the ceasefire that wrote it; this one knows {}", known.join(", "))));
        }
        for measured in &paper.figures {
            paper.results(measured).check(name)?;
            let compared =
                measured.compared.iter().flat_map(|entry| [entry.baseline, entry.here, entry.elided]);
            let losses = measured.losses.iter().flat_map(|loss| [Some(loss.baseline), Some(loss.here)]);
            if compared.chain(losses).flatten().any(|spread| !spread.is_ordered()) {
                return Err(Error::usage(format!("{name} contradicts itself in {}", measured.id))
                    .remedy("measure again; do not edit results by hand"));
            }
        }
        Ok(paper)
    }
}

fn row_of<'a>(rows: &'a [Row], kernel: &str, base: &Row) -> Option<&'a Row> {
    rows.iter().find(|row| row.kernel_label() == kernel && row.is_same_work(base))
}

fn change(old: Spread, new: Spread) -> Option<f64> {
    (old.median > 0.0).then(|| (new.median - old.median) / old.median * 100.0)
}

/// Each claim on each kernel but the baseline and those that are off, where most threads ran.
fn compared(figure: &'static Figure, rows: &[Row], kernels: &[String]) -> Vec<Compared> {
    let Some((baseline, others)) = kernels.split_first() else { return Vec::new() };
    let mut list = Vec::new();
    for claim in figure.claims {
        for kernel in others.iter().filter(|label| !is_off(label)) {
            let widest = |(_, work, name): (&str, &Work, &str)| {
                rows.iter()
                    .filter(|row| row.kernel_label() == *baseline && row.workload == name && work.is_of(row))
                    .filter(|row| {
                        claim.quantity.get(row).is_some() || is_without_targets(claim.quantity, row)
                    })
                    .max_by_key(|row| (row.vcpus, row.threads))
            };
            let mut entry = Compared {
                workload: claim.workload.into(),
                quantity: claim.quantity.words().into(),
                unit: String::new(),
                kernel: kernel.clone(),
                threads: 0,
                vcpus: 0,
                repeats: 0,
                paper_percent: claim.percent,
                paper_words: claim.words.into(),
                is_aside: claim.is_aside,
                section: claim.section.into(),
                baseline: None,
                here: None,
                percent: None,
                elided: None,
            };
            let is_of_list = [MEAN, SUM].contains(&claim.workload);
            let shown = figure.shown().filter(|(name, ..)| is_of_list || *name == claim.workload);
            let (mut changes, mut sums) = (Vec::new(), (0.0, 0.0));
            for base in shown.filter_map(widest) {
                let Some(row) = row_of(rows, kernel, base) else { continue };
                let (old, new) = (claim.quantity.get(base), claim.quantity.get(row));
                (entry.threads, entry.vcpus, entry.repeats) = (base.threads, base.vcpus, row.repeats);
                if !is_of_list {
                    (entry.baseline, entry.here, entry.unit) = (old, new, base.unit.clone());
                    entry.elided = row.elided.map(|elided| elided.pages);
                }
                if let (Some(old), Some(new)) = (old, new) {
                    changes.extend(change(old, new));
                    sums = (sums.0 + old.median, sums.1 + new.median);
                }
            }
            if !changes.is_empty() {
                entry.percent = Some(changes.iter().sum::<f64>() / changes.len() as f64);
            }
            if claim.workload == SUM {
                entry.percent = (sums.0 > 0.0).then(|| (sums.1 - sums.0) / sums.0 * 100.0);
            }
            list.push(entry);
        }
    }
    list
}

/// What is left of the baseline's count at each point, in per cent: a curve a workload.
pub fn left(
    figure: &'static Figure,
    measured: &Measured,
    quantity: Quantity,
    (baseline, kernel): (&str, &str),
) -> Vec<(&'static str, Vec<(u32, Spread)>)> {
    let mut curves = Vec::new();
    for (shown, work, name) in figure.shown() {
        let value = |label: &str, point: &figures::Point| {
            let is_it = |row: &&Row| row.workload == name && row.kernel_label() == label && point.is_of(row);
            quantity.get(measured.rows.iter().find(is_it)?)
        };
        let of = |point| share(value(baseline, point)?, value(kernel, point)?);
        curves.push((shown, work.points.iter().filter_map(|point| Some((point.at, of(point)?))).collect()));
    }
    curves
}

/// The widest that two spreads allow.
fn share(old: Spread, new: Spread) -> Option<Spread> {
    let of = |new: f64, old: f64| (old > 0.0).then(|| new / old * 100.0);
    Some(Spread {
        median: of(new.median, old.median)?,
        min: of(new.min, old.max)?,
        max: of(new.max, old.min)?,
    })
}

/// Nothing sent, nothing to divide by: still a row that was measured.
fn is_without_targets(quantity: Quantity, row: &Row) -> bool {
    quantity == Quantity::Targets && !row.cost && row.sent_per_unit.is_some()
}

pub fn is_off(label: &str) -> bool {
    label.ends_with("(off)")
}

/// What tells rows of one figure apart beside workload, threads and shape.
fn place_of(row: &Row) -> [&Option<String>; 3] {
    [&row.tlb, &row.set, &row.kernel_args]
}

fn losses(figure: &Figure, results: &Results, kernels: &[String]) -> Result<Vec<Loss>> {
    let Some((baseline, others)) = kernels.split_first() else { return Ok(Vec::new()) };
    let side = |label: &str| {
        let row = results.rows.iter().find(|row| row.kernel_label() == label)?;
        Some(Side { kernel: row.kernel.clone(), mode: row.mode.clone() })
    };
    let mut places: Vec<[&Option<String>; 3]> = Vec::new();
    for row in &results.rows {
        if !places.contains(&place_of(row)) {
            places.push(place_of(row));
        }
    }
    let mut found = Vec::new();
    for kernel in others {
        let (Some(a), Some(b)) = (side(baseline), side(kernel)) else { continue };
        for place in &places {
            let here = Results {
                rows: results.rows.iter().filter(|row| place_of(row) == *place).cloned().collect(),
                ..Results::new(results.environment.clone())
            };
            let mapping = Mapping { a: a.clone(), b: b.clone() };
            // A point that one of the two lacks has nothing to compare.
            let Ok(comparison) = compare::compare(&here, &here, &[mapping]) else { continue };
            for row in &comparison.rows {
                let is_loss = |change: &&compare::Change| {
                    LOSSES.contains(&change.figure.as_str())
                        && !change.within_spread
                        && change.size() > LOSS_PERCENT
                        && change.b.median - change.a.median > LOSS_PER_UNIT
                };
                found.extend(row.changes.iter().filter(is_loss).map(|change| {
                    Loss {
                        workload: here
                            .rows
                            .iter()
                            .find(|known| known.workload == row.b.workload && known.cost == row.b.cost)
                            .map_or(row.b.workload.as_str(), |known| figure.name_of(known))
                            .into(),
                        kernel: kernel.clone(),
                        threads: row.b.threads,
                        vcpus: row.b.vcpus,
                        at: place[1]
                            .clone()
                            .or_else(|| place[0].clone().filter(|tlb| Some(tlb.as_str()) != figures::TLB)),
                        figure: change.figure.clone(),
                        unit: row.unit.clone(),
                        baseline: change.a,
                        here: change.b,
                        percent: change.percent,
                    }
                }));
            }
        }
    }
    Ok(found)
}

impl Compared {
    /// As far as the paper, or farther in its direction; None: not measured, or not judged.
    pub fn is_reached(&self) -> Option<bool> {
        Some(self.percent? <= self.paper_percent).filter(|_| !self.is_aside)
    }
}
