// SPDX-License-Identifier: GPL-2.0-only
//! The published table of what a kernel costs.

use crate::numbers::median;
use crate::publish::{condition, hashes, minus, wrapped};
use crate::rows::{in_order, kernels};
use ceasefire_base::text::count;
use ceasefire_base::{Error, Result};
use ceasefire_results::schema::{Results, Row};

/// What `ceasefire lab run --cost` has measured: no shootdowns.
pub(crate) fn is_cost(results: &Results) -> bool {
    !results.rows.is_empty() && results.rows.iter().all(|row| row.cost)
}

/// Instructions and modelled cycles a unit, held against the first kernel and mode. Refused where a row is of several CPUs.
pub(crate) fn cost_table(results: &Results) -> Result<String> {
    let rows = in_order(results, true);
    let is_wide = |row: &&&Row| row.vcpus > 1;
    if let Some(row) = rows.iter().filter(is_wide).find(|row| row.cycles_net_per_unit.is_none()) {
        return Err(Error::usage(format!(
            "{} on {} has no net cycles, and this table is of 1 vCPU",
            row.workload,
            row.shape()
        ))
        .remedy("measure again with this version's QEMU: docs/reference/net-cycles.md"));
    }
    if let Some(row) = rows.iter().find(is_wide) {
        return Err(Error::usage(format!(
            "{} on {} is counted otherwise than rows of 1 vCPU",
            row.workload,
            row.shape()
        ))
        .remedy(
            "measure each number of CPUs in a run of its own, and publish each under a name of its own",
        ));
    }
    let labels = kernels(&rows);
    let boots = rows.iter().map(|row| row.boots).min().unwrap_or_default();
    let condition = condition(&results.environment, Some("1 vCPU".into()), count(u64::from(boots), "boot"));
    let mut text = wrapped(&format!("Condition: {condition}."), "");
    text += &format!("\n{}", wrapped(&format!("Sources: {}.", hashes(&results.environment)), ""));
    let heads: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
    let heads = heads.join(" | ");
    // Pages have 120 columns. Where the names do not fit twice, the cycles have the order of the instructions.
    let mut head = format!("| unit of | instructions, {heads} | cycles, {heads} |");
    if head.len() > 120 {
        head = format!("| unit of | instructions, {heads} | cycles{} |", " | ".repeat(labels.len() - 1));
    }
    text += &format!("\n{head}\n|---|{}\n", "---|".repeat(2 * labels.len()));
    let place = |row: &Row| (row.workload.clone(), row.threads, row.set.clone());
    // With several settings the rows of a kernel stand together, not those of a setting.
    let mut places = Vec::new();
    for first in &rows {
        if places.contains(&place(first)) {
            continue;
        }
        places.push(place(first));
        let group: Vec<&&Row> = rows.iter().filter(|row| place(row) == place(first)).collect();
        let name = [first.workload.clone(), first.set.clone().unwrap_or_default()].join(" ");
        let mut cells = vec![format!("`{}`", name.trim())];
        for get in [|row: &Row| row.instructions_per_unit, |row: &Row| row.cycles_modelled_per_unit] {
            let of = |label: &String| get(group.iter().find(|row| row.kernel_label() == *label)?);
            let base = labels.first().and_then(of);
            cells.push(median(base));
            cells.extend(labels.iter().skip(1).map(|label| match (base, of(label)) {
                (Some(old), Some(new)) if old.median > 0.0 => {
                    minus(&format!("{:+.1} %", (new.median - old.median) / old.median * 100.0))
                }
                _ => "-".into(),
            }));
        }
        text += &format!("| {} |\n", cells.join(" | "));
    }
    Ok(text)
}
