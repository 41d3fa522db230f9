// SPDX-License-Identifier: GPL-2.0-only
//! A counter of a mechanism: how it is named, what it means, what the report does with it.

use crate::Mechanism;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The word for a place in the kernel: counters of it stand in a table of their own, a line for each place.
const SITE: &str = "SITE";

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counter {
    /// As the kernel prints it; a part in capitals stands for each word of that list (`SITE_idle`).
    pub name: String,
    #[serde(default)]
    pub kind: Kind,
    #[serde(default)]
    pub source: Source,
    /// What one of it is.
    #[serde(default)]
    pub unit: String,
    /// In tables.
    pub title: String,
    pub meaning: String,
    /// Cycles each, for modelled cycles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
    /// The total, one of all mechanisms, that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adds_to: Option<Total>,
    /// A column of the tables.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub table: bool,
    /// Words behind its figure, in the line above a row's sites.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_fault: Option<PerFault>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It grows; its growth over the measured part counts, per unit of work.
    #[default]
    Sum,
    /// How much there is; the value at the end counts, and is not divided.
    Level,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    #[default]
    Kernel,
    /// The debug kernel alone counts it.
    Debug,
}

/// Figures that all mechanisms share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Total {
    /// Pages that a proof let off, in whole or for all CPUs but some.
    ElidedPages,
    /// Flush requests that asked nobody, one CPU, a set of them.
    RequestsNone,
    RequestsOne,
    RequestsSet,
    /// Elisions that the machine was asked about, and those where somebody held the entry.
    Checked,
    Violations,
    /// Flushes that were kept and looked into, and those where somebody held the entry.
    Sampled,
    SampledHeld,
    /// Pages that it keeps as page tables, beside the process's own.
    TablePages,
}

/// What stands in a cost row: how many there were for each page fault.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerFault {
    pub modes: Vec<String>,
    /// Behind the figure.
    pub words: String,
    /// In place of a zero.
    pub none: String,
    /// In place of a zero where this other counter is not zero.
    #[serde(default)]
    pub unless: Option<String>,
    #[serde(default)]
    pub unless_words: Option<String>,
}

fn is_open(part: &str) -> bool {
    !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase())
}

/// The value of each capital word in a name.
pub type Values = BTreeMap<String, String>;

impl Counter {
    /// Every name that it stands for.
    pub(crate) fn expand(
        &self,
        words: &BTreeMap<String, Vec<String>>,
    ) -> Result<Vec<(String, Values)>, String> {
        let mut all = vec![(String::new(), Values::new())];
        for part in self.name.split('_') {
            let is_open = is_open(part);
            let choices = match is_open {
                false => vec![part.to_string()],
                true => words
                    .get(part)
                    .cloned()
                    .ok_or_else(|| format!("counter {}: [words] has no {part}", self.name))?,
            };
            let mut longer = Vec::new();
            for (name, values) in &all {
                for choice in &choices {
                    let mut values = values.clone();
                    if is_open {
                        values.insert(part.to_string(), choice.clone());
                    }
                    let joint = if name.is_empty() { "" } else { "_" };
                    longer.push((format!("{name}{joint}{choice}"), values));
                }
            }
            all = longer;
        }
        Ok(all)
    }

    /// One of a place in the kernel.
    pub fn is_of_sites(&self) -> bool {
        self.name.split('_').any(|part| part == SITE)
    }

    pub fn is_level(&self) -> bool {
        self.kind == Kind::Level
    }

    /// It stands for one name.
    pub fn is_single(&self) -> bool {
        !self.name.split('_').any(is_open)
    }

    /// Somewhere on the page, so that the page must define it.
    pub fn is_shown(&self) -> bool {
        self.table || self.summary.is_some() || self.is_of_sites()
    }
}

/// The counters of one mechanism by the names that the kernel prints.
#[derive(Debug)]
pub struct Names<'a>(BTreeMap<String, (&'a Counter, Values)>);

impl<'a> Names<'a> {
    pub(crate) fn of(mechanism: &'a Mechanism) -> Names<'a> {
        let mut names = BTreeMap::new();
        for counter in &mechanism.counter {
            for (name, values) in counter.expand(&mechanism.words).unwrap_or_default() {
                names.insert(name, (counter, values));
            }
        }
        Names(names)
    }

    pub fn get(&self, name: &str) -> Option<&'a Counter> {
        self.0.get(name).map(|(counter, _)| *counter)
    }

    pub fn all(&self) -> impl Iterator<Item = &'a Counter> + '_ {
        self.0.values().map(|(counter, _)| *counter)
    }

    /// The place in the kernel that a counter is of.
    pub fn site(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.1.get(SITE).map(String::as_str)
    }

    /// What nobody has described is a sum: most are.
    pub fn is_level(&self, name: &str) -> bool {
        self.get(name).is_some_and(Counter::is_level)
    }

    pub fn levels(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, (counter, _))| counter.is_level()).map(|(name, _)| name.as_str())
    }

    /// Does any of them belong to this total?
    pub fn has(&self, total: Total) -> bool {
        self.0.values().any(|(counter, _)| counter.adds_to == Some(total))
    }
}
