// SPDX-License-Identifier: GPL-2.0-only
//! The published table of where page walks read: what share of programs' PTEs was on another node, and what the page
//! tables took.

use crate::held::held;
use crate::numbers::{figure, grouped};
use crate::publish::{condition, hashes, unmeasured, wrapped};
use crate::summary::Summary;
use ceasefire_base::text::count;
use ceasefire_results::schema::{Results, Row};

/// Rows that say on which node walks read, and that interrupt nobody.
pub(crate) fn is_walks(results: &Results) -> bool {
    let is_of_walks = |row: &Row| {
        !row.cost
            && row.remote_leaf_percent().is_some()
            && !row.received_per_unit.is_some_and(|received| received.median >= 0.01)
    };
    !results.rows.is_empty() && results.rows.iter().all(is_of_walks)
}

/// A line for each workload; for each kernel or mode the share, and the PTEs that walks read per unit.
pub(crate) fn walks_table(results: &Results, summary: &Summary) -> String {
    let environment = &results.environment;
    let nodes = summary.lines.first().map_or(1, |line| line.base.nodes);
    let place = summary.place().map(|place| format!("{place} in {}", count(u64::from(nodes), "node")));
    let condition = condition(environment, place, summary.repeats());
    let mut text = wrapped(&format!("Condition: {condition}."), "");
    text += &format!("\n{}", wrapped(&format!("Sources: {}.", hashes(environment)), ""));
    let names = || summary.names.iter().map(|name| format!("`{name}`"));
    let mut heads: Vec<String> = names().collect();
    let has_tables = results.rows.iter().any(|row| results.table_pages(row).is_some());
    if has_tables {
        heads.extend(names().enumerate().map(|(i, name)| match i {
            0 => format!("pages of page tables, {name}"),
            _ => name,
        }));
    }
    text += &format!("\n| workload | {} |\n|---|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
    for line in &summary.lines {
        let rows = || std::iter::once(Some(line.base)).chain(line.others.iter().copied());
        let mut cells: Vec<String> = rows().map(cell).collect();
        if has_tables {
            let pages = |row: Option<&Row>| row.and_then(|row| results.table_pages(row));
            cells.extend(rows().map(|row| pages(row).map_or_else(|| "-".into(), grouped)));
        }
        text += &format!("| `{}` | {} |\n", line.name, cells.join(" | "));
    }
    let controls = held(&results.controls);
    let words = format!("{controls} {}", unmeasured(results));
    format!("{text}\n{}", wrapped(&words, ""))
}

/// `66.7 % of 1.02`
fn cell(row: Option<&Row>) -> String {
    let of = |row: &Row| {
        let (local, remote) = (row.reads_local_user_per_unit?.median, row.reads_remote_user_per_unit?.median);
        Some(format!("{} % of {}", figure(row.remote_leaf_percent()?), figure(local + remote)))
    };
    row.and_then(of).unwrap_or_else(|| "-".into())
}
