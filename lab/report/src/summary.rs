// SPDX-License-Identifier: GPL-2.0-only
//! Variants of one kernel, or kernels, side by side: a line per workload where most threads ran, each variant held
//! against the first, and what rose beside it.

use crate::numbers::{figure, percent, share};
use crate::rows::{kernels, shown};
use ceasefire_base::text::clean;
use ceasefire_results::schema::{counter, Condition, Counter, Results, Row};
use ceasefire_results::stats::Spread;
use ceasefire_results::Avoided;

/// What a gain could have moved to, or cost.
const WATCHED: &[&str] = &[
    "kernel_range",
    "other_ipis",
    "local_full",
    "local_single",
    "faults",
    "walks",
    "assists_accessed",
    "assists_dirty",
];
/// Less than this, in per cent and per unit, is rounding, timer ticks and kernel threads.
const RISE_PERCENT: f64 = 2.0;
const RISE_PER_UNIT: f64 = 0.02;

pub(crate) struct Summary<'a> {
    /// Of the variants, the baseline first, as rows are labelled and as short as they can be told apart.
    pub labels: Vec<String>,
    pub names: Vec<String>,
    /// The kernel, where all variants are modes of it.
    pub kernel: Option<String>,
    pub lines: Vec<Line<'a>>,
}

/// One workload under one setting.
pub(crate) struct Line<'a> {
    pub name: String,
    pub base: &'a Row,
    /// In the order of the variants but the baseline.
    pub others: Vec<Option<&'a Row>>,
}

/// From one median to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Change {
    /// Nothing in either.
    None,
    /// The repeats of both overlap, so no change is proved; or it is less than [`CHANGE_PERCENT`].
    Same,
    FromZero,
    Percent(f64),
}

/// A smaller change, in per cent, is not worth a word.
const CHANGE_PERCENT: f64 = 1.0;

pub(crate) struct Rise {
    /// Index of the variant.
    pub variant: usize,
    pub counter: &'static Counter,
    pub old: Spread,
    pub new: Spread,
}

impl Change {
    pub fn of(old: Spread, new: Spread) -> Change {
        match (old.median, new.median) {
            (0.0, 0.0) => Change::None,
            _ if old.overlaps(&new) => Change::Same,
            (0.0, _) => Change::FromZero,
            (old, new) if (new - old).abs() < old * CHANGE_PERCENT / 100.0 => Change::Same,
            (old, new) => Change::Percent((new - old) / old * 100.0),
        }
    }

    pub fn words(self) -> String {
        match self {
            Change::None => "0".into(),
            Change::Same => "same".into(),
            Change::FromZero => "from 0".into(),
            Change::Percent(-100.0) => "-100 %".into(),
            // All but something is not all.
            Change::Percent(change) if change > -100.0 && change < -99.9 => "-99.9 %".into(),
            Change::Percent(change) => percent(change),
        }
    }
}

impl Rise {
    fn of(variant: usize, counter: &'static Counter, base: &Row, row: &Row) -> Option<Rise> {
        let (old, new) = ((counter.get)(base)?, (counter.get)(row)?);
        let rise = new.median - old.median;
        let is_rise = new.min > old.max && rise > RISE_PER_UNIT && rise > old.median * RISE_PERCENT / 100.0;
        is_rise.then_some(Rise { variant, counter, old, new })
    }

    /// Beside what it was: from little to something is more than from much to more.
    pub fn size(&self) -> f64 {
        (self.new.median - self.old.median) / self.old.median.max(RISE_PER_UNIT)
    }

    /// `walks +11.0 %`, or `accessed assists 0 to 1.00` where a percentage would say nothing.
    pub fn words(&self) -> String {
        let title = self.counter.title;
        match (self.new.median - self.old.median) / self.old.median * 100.0 {
            change if change < 1_000.0 => format!("{title} {}", percent(change)),
            _ => format!("{title} {} to {}", figure(self.old.median), figure(self.new.median)),
        }
    }
}

impl<'a> Summary<'a> {
    pub fn of(results: &'a Results) -> Summary<'a> {
        let rows = shown(results);
        let labels = kernels(&rows);
        let mut lines: Vec<Line> = Vec::new();
        for base in rows.iter().filter(|row| Some(&row.kernel_label()) == labels.first()) {
            let partner = |label: &String| {
                rows.iter().find(|row| row.kernel_label() == *label && row.is_same_work(base)).copied()
            };
            let line = Line { name: name(base), base, others: labels.iter().skip(1).map(partner).collect() };
            // Most threads, but not a point that the baseline has alone.
            let size =
                |line: &Line| (line.others.iter().flatten().count(), line.base.threads, line.base.vcpus);
            match lines.iter_mut().find(|known| known.name == line.name) {
                Some(known) if size(known) < size(&line) => *known = line,
                Some(_) => {}
                None => lines.push(line),
            }
        }
        let kernel = rows.first().map(|row| row.kernel.clone());
        let is_one = |kernel: &String| rows.iter().all(|row| row.kernel == *kernel && row.mode.is_some());
        let kernel = kernel.filter(is_one);
        let short = |label: &String| {
            let mode = kernel.as_ref().and_then(|kernel| label.strip_prefix(kernel.as_str()));
            mode.map_or_else(|| label.clone(), |mode| mode.trim_matches([' ', '(', ')']).to_string())
        };
        Summary { names: labels.iter().map(short).collect(), labels, kernel, lines }
    }

    /// Whether there is anything to hold against a baseline.
    pub fn is_compared(&self) -> bool {
        self.lines.iter().any(|line| line.others.iter().any(Option::is_some))
    }

    /// Whether the machine was asked which of the baseline's targets were needed.
    pub fn knows_needed(&self) -> bool {
        self.lines.iter().any(|line| line.base.needed_per_unit.is_some())
    }

    /// Where the baseline may have needed less, because nobody was asked.
    pub fn unasked(&self) -> Option<String> {
        let is_unasked =
            |line: &&Line| line.base.unasked_per_unit.is_some_and(|unasked| unasked.median > 0.0);
        let words = |line: &Line| {
            format!("{} {}", clean(&line.name), crate::numbers::median(line.base.unasked_per_unit))
        };
        let all: Vec<String> = self.lines.iter().filter(is_unasked).map(words).collect();
        (!all.is_empty()).then(|| format!("Counted as needed because nobody was asked: {}.", all.join(", ")))
    }

    /// What each variant needed itself: what is left of its targets, and could not be spared.
    pub fn needed_by_variants(&self) -> Vec<String> {
        let median = |spread: Option<Spread>| spread.map_or(0.0, |spread| spread.median);
        let words = |line: &Line, other: usize| {
            let row = line.others[other]?;
            let (needed, received) = (row.needed_per_unit?.median, row.received_per_unit?.median);
            let unasked = match median(row.unasked_per_unit) {
                0.0 => String::new(),
                unasked => format!(", {} of them not asked about", figure(unasked)),
            };
            (needed > 0.0).then(|| {
                format!("`{}` {} of {}{unasked}", clean(&line.name), figure(needed), figure(received))
            })
        };
        let of = |(other, name): (usize, &String)| {
            let all: Vec<String> = self.lines.iter().filter_map(|line| words(line, other)).collect();
            (!all.is_empty()).then(|| format!("Needed in `{name}` itself: {}.", all.join("; ")))
        };
        self.names.iter().skip(1).enumerate().filter_map(of).collect()
    }

    /// Threads and machine, where they are everywhere the same: `8 threads on 8 vCPUs`.
    pub fn place(&self) -> Option<String> {
        let first = self.lines.first()?.base;
        let is_same = |line: &Line| (line.base.threads, line.base.vcpus) == (first.threads, first.vcpus);
        let threads = ceasefire_base::text::count(u64::from(first.threads), "thread");
        let vcpus = ceasefire_base::text::count(u64::from(first.vcpus), "vCPU");
        self.lines.iter().all(is_same).then(|| format!("{threads} on {vcpus}"))
    }

    /// `5 boots`, `3 repeats`
    pub fn repeats(&self) -> String {
        let most = |get: fn(&Row) -> u32| self.lines.iter().map(|line| get(line.base)).max().unwrap_or(0);
        let (repeats, boots) = (most(|row| row.repeats), most(|row| row.boots));
        let [in_repeats, in_boots] = [(repeats, "repeat"), (boots, "boot")]
            .map(|(n, noun)| ceasefire_base::text::count(u64::from(n), noun));
        match boots {
            0 | 1 => in_repeats,
            _ if boots == repeats => in_boots,
            _ => format!("{in_repeats} in {in_boots}"),
        }
    }
}

/// The workload, and what it was told.
pub(crate) fn name(row: &Row) -> String {
    let extras: Vec<String> = Condition::extras(row).collect();
    match extras.is_empty() {
        true => row.workload.clone(),
        false => format!("{} {}", row.workload, extras.join(" ")),
    }
}

impl<'a> Line<'a> {
    pub fn received(&self) -> Option<Spread> {
        self.base.received_per_unit
    }

    /// Of one variant, by its place after the baseline.
    pub fn change(&self, other: usize) -> Option<Change> {
        Some(Change::of(self.received()?, self.others[other]?.received_per_unit?))
    }

    /// How much a variant, by its place after the baseline, spares of what nobody needed.
    pub fn avoided(&self, other: usize) -> Option<Avoided> {
        Avoided::of(self.base, self.others[other]?)
    }

    /// The same in a word; `None` where no machine tells.
    pub fn avoided_words(&self, other: usize) -> Option<String> {
        let avoided = self.avoided(other)?;
        Some(match (avoided.proved(), self.change(other)) {
            (Some(0.0), _) => "none".into(),
            (Some(percent), _) => share(percent),
            // Where all is needed there is no share of the rest; but there may be more of it.
            (None, Some(Change::FromZero)) => "more".into(),
            (None, Some(Change::Percent(change))) if change > 0.0 => "more".into(),
            (None, _) => "-".into(),
        })
    }

    /// No variant receives anything.
    pub fn is_silent(&self) -> bool {
        let is_zero = |row: &Row| row.received_per_unit.map_or(true, |received| received.max == 0.0);
        is_zero(self.base) && self.others.iter().flatten().all(|row| is_zero(row))
    }

    /// What rose in one variant, by its place after the baseline.
    pub fn rises_of(&self, other: usize) -> Vec<Rise> {
        let all = WATCHED.iter().filter_map(|key| counter(key));
        all.filter_map(|counter| Rise::of(other + 1, counter, self.base, self.others[other]?)).collect()
    }

    /// The largest rise of each counter over the variants, the largest of all first.
    pub fn rises(&self) -> Vec<Rise> {
        let mut rises: Vec<Rise> = Vec::new();
        for rise in (0..self.others.len()).flat_map(|other| self.rises_of(other)) {
            match rises.iter_mut().find(|known| known.counter.key == rise.counter.key) {
                Some(known) if known.new.median < rise.new.median => *known = rise,
                Some(_) => {}
                None => rises.push(rise),
            }
        }
        rises.sort_by(|a, b| b.size().total_cmp(&a.size()));
        rises
    }
}
