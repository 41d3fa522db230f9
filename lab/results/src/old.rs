// SPDX-License-Identifier: GPL-2.0-only
//! Logs and results of before mechanisms had names: there was one, and its counters stood in a field of its own.

use crate::mechanism::Counted;
use crate::paper::Paper;
use crate::record::{first, Unique};
use crate::schema;
use crate::stats::Spread;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What the field was called, and what the mechanism is called now.
const NAME: &str = "abis";

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

/// Puts the counters of a file where they are now.
pub(crate) fn results(results: &mut schema::Results, bytes: &[u8]) -> Result<(), serde_json::Error> {
    fill(&mut results.rows, serde_json::from_slice(bytes)?);
    Ok(())
}

pub(crate) fn paper(paper: &mut Paper, bytes: &[u8]) -> Result<(), serde_json::Error> {
    let old: Evaluation = serde_json::from_slice(bytes)?;
    paper.figures.iter_mut().zip(old.figures).for_each(|(figure, old)| fill(&mut figure.rows, old));
    Ok(())
}
