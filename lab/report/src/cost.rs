// SPDX-License-Identifier: GPL-2.0-only
//! The published table of what a kernel costs.

use crate::numbers::median;
use crate::publish::{condition, hashes, minus, wrapped};
use crate::rows::{in_order, kernels};
use ceasefire_base::text::count;
use ceasefire_results::schema::{Results, Row};

/// What `ceasefire lab run --cost` has measured: no shootdowns.
pub(crate) fn is_cost(results: &Results) -> bool {
    !results.rows.is_empty() && results.rows.iter().all(|row| row.cost)
}

/// Instructions and modelled cycles a unit, held against the first kernel and mode.
pub(crate) fn cost_table(results: &Results) -> String {
    let rows = in_order(results, true);
    let labels = kernels(&rows);
    let boots = rows.iter().map(|row| row.boots).min().unwrap_or_default();
    let condition = condition(&results.environment, Some("1 vCPU".into()), count(u64::from(boots), "boot"));
    let mut text = wrapped(&format!("Condition: {condition}."), "");
    text += &format!("\n{}", wrapped(&format!("Sources: {}.", hashes(&results.environment)), ""));
    let heads: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
    let heads = heads.join(" | ");
    text += &format!(
        "\n| unit of | instructions, {heads} | cycles, {heads} |\n|---|{}\n",
        "---|".repeat(2 * labels.len())
    );
    let place = |row: &Row| (row.workload.clone(), row.threads, row.set.clone());
    let mut rest = &rows[..];
    while let Some(first) = rest.first() {
        let end = rest.iter().position(|row| place(row) != place(first)).unwrap_or(rest.len());
        let (group, after) = rest.split_at(end);
        rest = after;
        let mut cells = vec![format!("`{}`", first.workload)];
        for get in [|row: &Row| row.instructions_per_unit, |row: &Row| row.cycles_modelled_per_unit] {
            let base = get(first);
            cells.push(median(base));
            cells.extend(labels.iter().skip(1).map(|label| {
                let row = group.iter().find(|row| row.kernel_label() == *label);
                match (base, row.and_then(|row| get(row))) {
                    (Some(old), Some(new)) if old.median > 0.0 => {
                        minus(&format!("{:+.1} %", (new.median - old.median) / old.median * 100.0))
                    }
                    _ => "-".into(),
                }
            }));
        }
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text
}
