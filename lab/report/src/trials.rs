// SPDX-License-Identifier: GPL-2.0-only
//! The trial of remedies (`make deter-trial`) as it is kept and published: which remedy helps which program.

use crate::numbers::figure;
use crate::publish::wrapped;
use ceasefire_base::{Error, Result};
use serde::{Deserialize, Serialize};

pub const FILE: &str = "deter.json";
pub const BLOCK: &str = "deter-table";
const SCHEMA: &str = "ceasefire.deter-trial/1";
/// Fewer rounds have no range.
const REPEATS_LEAST: u32 = 3;
const NONE: &str = "none";

/// What is read is what is kept: fields of a trial that no table needs are left out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Trials {
    schema: String,
    date: String,
    commit: String,
    kernel: String,
    cpus: u32,
    processor: String,
    programs: Vec<Program>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Program {
    name: String,
    about: String,
    unit: String,
    version: String,
    /// Why it was not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    skip: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<Found>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Found {
    repeats: u32,
    counter: String,
    found: Option<String>,
    is_too_few: bool,
    is_output_compared: bool,
    rows: Vec<Row>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Row {
    remedy: String,
    verdict: String,
    flushes_per_unit: Option<Range>,
    received_per_unit: Option<Range>,
    rss_kib: Option<Range>,
    faults_per_unit: Option<Range>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Range {
    min: f64,
    median: f64,
    max: f64,
}

impl Trials {
    /// Whether it is one, not whether it is whole.
    pub fn is_meant(bytes: &[u8]) -> bool {
        let start = &bytes[..bytes.len().min(200)];
        String::from_utf8_lossy(start).contains(SCHEMA)
    }

    pub fn from_json(bytes: &[u8], name: &str) -> Result<Trials> {
        let refused = |why: String| {
            Err(Error::failed(format!("{name} is no trial of remedies: {why}")).remedy("make deter-trial"))
        };
        match serde_json::from_slice::<Trials>(bytes) {
            Err(error) => refused(error.to_string()),
            Ok(trials) if trials.schema != SCHEMA => refused(format!("its form is {}", trials.schema)),
            Ok(trials) => Ok(trials),
        }
    }

    /// A line a program. Errors: what must not be published.
    pub fn to_kept(&self, name: &str) -> Result<String> {
        let refused = |why: String, remedy: &str| Err(Error::usage(format!("{name} {why}")).remedy(remedy));
        if self.commit.ends_with("-dirty") || self.commit == "unknown" {
            return refused("was not measured at a commit".into(), "commit the changes, and measure again");
        }
        for program in &self.programs {
            let Some(result) = &program.result else { continue };
            let name = &program.name;
            if result.repeats < REPEATS_LEAST {
                return refused(
                    format!("has {} rounds of {name}", result.repeats),
                    "make deter-trial REPEATS=3",
                );
            }
            if result.counter != "observer" {
                return refused(
                    format!("has no flushes of {name}"),
                    "measure as root, with the observer: make watch",
                );
            }
            if !result.is_output_compared || result.rows.iter().any(|row| row.verdict == "changed-output") {
                return refused(
                    format!("has outputs of {name} that differ"),
                    "look at what that program prints",
                );
            }
        }
        let mut kept = self.clone();
        let results = kept.programs.iter_mut().filter_map(|program| program.result.as_mut());
        results.flat_map(|result| &mut result.rows).for_each(Row::round);
        let text = serde_json::to_string(&kept)
            .map_err(|error| Error::failed(format!("the trial cannot be written as JSON: {error}")))?;
        Ok(text.replace(",{\"name\"", ",\n{\"name\"") + "\n")
    }

    /// The table, then what else was found of each program.
    pub fn table(&self) -> String {
        let tried: Vec<(&Program, &Found)> =
            self.programs.iter().filter_map(|program| Some((program, program.result.as_ref()?))).collect();
        let repeats = tried.iter().map(|(_, found)| found.repeats).min().unwrap_or(0);
        let mut text = wrapped(
            &format!(
                "Measured on {} at commit {:.7}: Linux {}, {} CPUs ({}), {repeats} rounds (twice as many for small differences), median (least-most); \
                 `make deter-trial`. Flushes are requests that can reach others, a unit of work.",
                self.date, self.commit, self.kernel, self.cpus, self.processor
            ),
            "",
        );
        text += "\n| program (unit) | flushes | with | flushes | | received | memory |\n|---|---|---|---|---|---|---|\n";
        for (program, found) in &tried {
            text += &line(program, found);
        }
        text.push('\n');
        for (program, found) in &tried {
            text += &item(&details(program, found));
        }
        for program in &self.programs {
            if let Some(why) = &program.skip {
                text += &item(&format!("**{}** was not tried: {why}.", program.name));
            }
        }
        text
    }
}

impl Row {
    /// Four digits are more than the spread leaves.
    fn round(&mut self) {
        let all = [
            &mut self.flushes_per_unit,
            &mut self.received_per_unit,
            &mut self.rss_kib,
            &mut self.faults_per_unit,
        ];
        for range in all.into_iter().flatten() {
            for value in [&mut range.min, &mut range.median, &mut range.max] {
                *value = format!("{value:.3e}").parse().unwrap_or(*value);
            }
        }
    }
}

fn item(sentence: &str) -> String {
    let lines = wrapped(sentence, "  ");
    format!("- {}", lines.get(2..).unwrap_or_default())
}

fn range(range: Option<Range>) -> String {
    range.map_or_else(
        || "-".into(),
        |range| format!("{} ({}-{})", figure(range.median), figure(range.min), figure(range.max)),
    )
}

fn change(from: Option<Range>, to: Option<Range>) -> String {
    match (from, to) {
        (Some(from), Some(to)) if from.median > 0.0 => {
            let percent = (to.median / from.median - 1.0) * 100.0;
            match percent <= -99.0 {
                true => format!("{percent:+.1} %"),
                false => format!("{percent:+.0} %"),
            }
        }
        _ => String::new(),
    }
}

fn line(program: &Program, found: &Found) -> String {
    let of = |name: &str| found.rows.iter().find(|row| row.remedy == name);
    let base = of(NONE);
    let best = found.found.as_deref().and_then(of);
    let flushes = |row: Option<&Row>| row.and_then(|row| row.flushes_per_unit);
    let middle = |row: Option<&Row>| {
        row.and_then(|row| row.received_per_unit).map_or_else(|| "-".into(), |range| figure(range.median))
    };
    let start = format!("| {} ({}) | {} |", program.name, program.unit, range(flushes(base)));
    match best {
        None => format!("{start} nothing helps | | | {} | |\n", middle(base)),
        Some(best) => format!(
            "{start} {} | {} | {} | {} to {} | {} |\n",
            best.remedy,
            range(flushes(Some(best))),
            change(flushes(base), flushes(Some(best))),
            middle(base),
            middle(Some(best)),
            change(base.and_then(|row| row.rss_kib), best.rss_kib),
        ),
    }
}

fn details(program: &Program, found: &Found) -> String {
    let base = found.rows.iter().find(|row| row.remedy == NONE).and_then(|row| row.flushes_per_unit);
    let mut parts = Vec::new();
    if found.is_too_few {
        parts.push("too few flushes to need a remedy".to_string());
    }
    for (verdict, words) in [
        ("ties", "ties with the best"),
        ("helps", "helps"),
        ("fewer-received", "fewer received, as many flushes"),
        ("no-change", "no effect"),
        ("worse", "worse"),
        ("failed", "fails"),
    ] {
        let rows = found.rows.iter().filter(|row| row.verdict == verdict);
        let names: Vec<String> = rows
            .map(|row| match verdict {
                "helps" | "worse" => format!("{} ({})", row.remedy, change(base, row.flushes_per_unit)),
                _ => row.remedy.clone(),
            })
            .collect();
        if !names.is_empty() {
            parts.push(format!("{words}: {}", names.join(", ")));
        }
    }
    format!("**{}** ({}; {}): {}.", program.name, program.about, program.version, parts.join("; "))
}
