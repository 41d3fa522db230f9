// SPDX-License-Identifier: GPL-2.0-only
//! Logs and results of before mechanisms had names: there was one, and its counters stood in a field of its own. And
//! results of before the TLBs that take every liberty were called `adversary`.

use crate::mechanism::Counted;
use crate::paper::Paper;
use crate::record::{first, Unique};
use crate::schema;
use crate::stats::Spread;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What the field was called, and what the mechanism is called now.
const NAME: &str = "abis";
/// What the accessed bit's setting `denied` was called. `hardware` had it, until it became what processors do.
const DENIED: &str = "intel";

#[derive(Deserialize)]
struct Run {
    #[serde(default, rename = "abis")]
    counters: Option<Unique<u64>>,
}

#[derive(Deserialize)]
struct Row {
    #[serde(default, rename = "abis")]
    counters: Option<BTreeMap<String, Spread>>,
}

#[derive(Deserialize)]
struct File {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Evaluation {
    figures: Vec<File>,
}

fn named<T>(counters: Option<BTreeMap<String, T>>) -> BTreeMap<String, BTreeMap<String, T>> {
    counters.map(|counters| (NAME.to_string(), counters)).into_iter().collect()
}

fn fill(rows: &mut [schema::Row], old: File) {
    for (row, old) in rows.iter_mut().zip(old.rows) {
        if row.mechanisms.is_empty() {
            row.mechanisms = named(old.counters);
        }
    }
}

/// Of a run's record that names no mechanism.
pub(crate) fn counted(record: &str) -> Result<Counted, serde_json::Error> {
    Ok(named(first::<Run>(record)?.counters.map(|counters| counters.0)))
}

/// Puts the counters of a file where they are now, and calls its TLBs what they are called now.
pub(crate) fn results(results: &mut schema::Results, bytes: &[u8]) -> Result<(), serde_json::Error> {
    fill(&mut results.rows, serde_json::from_slice(bytes)?);
    if is_renamed(&mut results.environment) {
        results.rows.iter_mut().for_each(|row| row.tlb = row.tlb.as_deref().map(spec_now));
    }
    Ok(())
}

/// Whether the TLBs had other names than now.
fn is_renamed(environment: &mut schema::Environment) -> bool {
    let tlb = environment.qemu.as_mut().and_then(|qemu| qemu.tlb.as_mut());
    let Some(tlb) = tlb.filter(|tlb| tlb.access_bit.as_deref() == Some(DENIED)) else { return false };
    tlb.access_bit = Some("denied".into());
    tlb.spec = spec_now(&tlb.spec);
    true
}

/// As `--tlb` takes it now.
fn spec_now(spec: &str) -> String {
    let now = |word| match word {
        "hardware" => "adversary",
        "access-bit=intel" => "access-bit=denied",
        other => other,
    };
    spec.split(',').map(now).collect::<Vec<_>>().join(",")
}

/// Its rows keep the names by which the table of figures finds them; what is said of the machine is said in today's.
pub(crate) fn paper(paper: &mut Paper, bytes: &[u8]) -> Result<(), serde_json::Error> {
    let old: Evaluation = serde_json::from_slice(bytes)?;
    paper.figures.iter_mut().zip(old.figures).for_each(|(figure, old)| fill(&mut figure.rows, old));
    is_renamed(&mut paper.environment);
    Ok(())
}
