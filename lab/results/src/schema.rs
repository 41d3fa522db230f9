// SPDX-License-Identifier: GPL-2.0-only
//! `ceasefire.results/1`: the file everything is reported and compared from.
//! Fields are added, never renamed; null means "not measured"; a reader ignores fields it does not know.

mod check;
mod conditions;
mod counters;
mod environment;
mod row;

pub use conditions::{Condition, CONDITIONS, SHAPE};
pub use counters::{counter, Counter, Source, COUNTERS};
pub use environment::{Environment, Host, Kernel, Qemu, Tlb};
pub use row::{Elided, Net, Row};

use ceasefire_base::{Error, Result};
use serde::{Deserialize, Serialize};

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
    /// What the observer recorded while rows were measured; empty unless it was asked to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recorded: Vec<Recorded>,
}

/// One boot of a row, as the observer in the guest saw it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    pub workload: String,
    pub threads: u32,
    pub kernel: String,
    pub mode: Option<String>,
    pub vcpus: u32,
    pub nodes: u32,
    pub set: Option<String>,
    /// For `ceasefire watch report`.
    pub file: String,
    /// As `ceasefire watch report --view savings --json --top N` has it, with every row, and neighbours within 1 s.
    pub savings: Option<serde_json::Value>,
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
    /// `KEY=VALUE,…`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// The exact command that runs this row alone.
    #[serde(default)]
    pub rerun: Option<String>,
    /// The last lines of the program that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
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
            recorded: Vec::new(),
        }
    }

    pub fn about(&self, workload: &str) -> Option<&About> {
        self.workloads.iter().find(|about| about.name == workload)
    }

    /// Every thread uses every page. A setting may have changed that.
    pub fn is_shared(&self, row: &Row) -> bool {
        row.set.is_none() && self.about(&row.workload).is_some_and(|about| about.shared)
    }

    /// Pretty JSON with a final newline; the order of fields is the order of this file.
    pub fn to_json(&self) -> Result<String> {
        let mut text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::failed(format!("the results cannot be written as JSON: {error}")))?;
        text.push('\n');
        Ok(text)
    }
}
