// SPDX-License-Identifier: GPL-2.0-only
//! A file is read only if it is whole, of this form, and does not contradict itself.

use super::{Results, COUNTERS, SCHEMA, SCHEMA_MAJOR, SCHEMA_NAME};
use crate::{mechanism, old};
use ceasefire_base::{Error, Result};
use serde::Deserialize;

impl Results {
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
        let mut results: Results = serde_json::from_slice(bytes).map_err(broken)?;
        old::results(&mut results, bytes).map_err(broken)?;
        let names = results.rows.iter().flat_map(|row| row.mechanisms.keys());
        mechanism::describe(&mut results.environment.mechanisms, names);
        results.check(name)?;
        Ok(results)
    }

    /// What serde's types cannot say.
    pub(crate) fn check(&self, name: &str) -> Result<()> {
        for (index, row) in self.rows.iter().enumerate() {
            let spreads =
                COUNTERS.iter().filter_map(|counter| (counter.get)(row).map(|spread| (counter.key, spread)));
            let counted = row.mechanisms.values().flatten().map(|(name, spread)| (name.as_str(), *spread));
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
