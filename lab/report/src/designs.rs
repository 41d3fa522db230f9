// SPDX-License-Identifier: GPL-2.0-only
//! The published tables of designs: kernels of more than one Linux, or with hardware that interrupts nobody. What is
//! received says too little there: requests, interruptions of programs, walks and full flushes stand beside it.

use crate::held::held;
use crate::numbers::{figure, median, ABSENT};
use crate::publish::{condition, hashes, unmeasured, wrapped};
use crate::summary::Summary;
use ceasefire_results::schema::{Counter, Results, Row, COUNTERS};

/// A table each, in this order; by the key of the counter.
const SHOWN: [&str; 8] =
    ["received", "needed", "user_interrupts", "requested", "local_full", "walks", "tlbsync", "invlpgb"];

/// Kernels of several releases, or rows where the processor broadcast.
pub(crate) fn is_designs(results: &Results) -> bool {
    let mut releases: Vec<&Option<String>> =
        results.environment.kernels.iter().map(|kernel| &kernel.release).collect();
    releases.dedup();
    let broadcasts = |row: &Row| row.tlbsync_per_unit.is_some_and(|spread| spread.max > 0.0);
    releases.len() > 1 || results.rows.iter().any(broadcasts)
}

/// For each counter a line for each workload, and a column for each kernel or mode.
pub(crate) fn designs_table(results: &Results, summary: &Summary) -> String {
    let environment = &results.environment;
    let mut text =
        wrapped(&format!("Condition: {}.", condition(environment, summary.place(), summary.repeats())), "");
    text += &format!("\n{}", wrapped(&format!("Sources: {}.", hashes(environment)), ""));
    let heads: Vec<String> = summary.names.iter().map(|name| format!("`{name}`")).collect();
    for key in SHOWN {
        let Some(counter) = COUNTERS.iter().find(|counter| counter.key == key) else { continue };
        let lines: Vec<String> = summary
            .lines
            .iter()
            .filter_map(|line| {
                let rows: Vec<Option<&Row>> =
                    std::iter::once(Some(line.base)).chain(line.others.iter().copied()).collect();
                cells(counter, &rows).map(|cells| format!("| `{}` | {} |\n", line.name, cells.join(" | ")))
            })
            .collect();
        if lines.is_empty() {
            continue;
        }
        text +=
            &format!("\n{}", wrapped(&format!("**{}** per unit. {}", counter.title, counter.meaning), ""));
        text += &format!("\n| workload | {} |\n|---|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
        text += &lines.concat();
    }
    let controls = held(&results.controls);
    format!("{text}\n{}", wrapped(&format!("{controls} {}", unmeasured(results)), ""))
}

/// `None` where nobody has counted anything.
fn cells(counter: &Counter, rows: &[Option<&Row>]) -> Option<Vec<String>> {
    let spreads: Vec<_> = rows.iter().map(|row| row.and_then(counter.get)).collect();
    let is_something = spreads.iter().flatten().any(|spread| figure(spread.max) != "0");
    let cell = |spread: &Option<_>| spread.map_or_else(|| ABSENT.to_string(), |_| median(*spread));
    is_something.then(|| spreads.iter().map(cell).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_that_is_shown_exists() {
        for key in SHOWN {
            assert!(COUNTERS.iter().any(|counter| counter.key == key), "{key}");
        }
    }
}
