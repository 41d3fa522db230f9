// SPDX-License-Identifier: GPL-2.0-only
//! The published table of what a kernel costs.

use crate::numbers::{figure, ABSENT};
use crate::publish::{condition, hashes, minus, wrapped};
use crate::rows::{in_order, kernels};
use ceasefire_base::text::count;
use ceasefire_base::{Error, Result};
use ceasefire_results::schema::{Results, Row};

type Figure<'a> = &'a dyn Fn(&Row) -> Option<f64>;

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
    let has_cycles = rows.iter().any(|row| row.cycles_modelled_per_unit.is_some());
    let heads: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
    let heads = heads.join(" | ");
    let (head, columns) = match has_cycles {
        false => (format!("| instructions of | {heads} |"), labels.len()),
        // Pages have 120 columns. Where the names do not fit twice, the cycles have the order of the instructions.
        true => match format!("| unit of | instructions, {heads} | cycles, {heads} |") {
            head if head.len() > 120 => (
                format!("| unit of | instructions, {heads} | cycles{} |", " | ".repeat(labels.len() - 1)),
                2 * labels.len(),
            ),
            head => (head, 2 * labels.len()),
        },
    };
    text += &format!("\n{head}\n|---|{}\n", "---|".repeat(columns));
    let place = |row: &Row| (row.workload.clone(), row.threads, row.set.clone());
    // With several settings the rows of a kernel stand together, not those of a setting.
    let mut places = Vec::new();
    for first in &rows {
        if places.contains(&place(first)) {
            continue;
        }
        places.push(place(first));
        let group: Vec<&&Row> = rows.iter().filter(|row| place(row) == place(first)).collect();
        let mut line = |name: &str, instructions: Figure, cycles: Figure| {
            let mut cells = vec![format!("`{}`", name.trim())];
            for get in [instructions, cycles].into_iter().take(1 + usize::from(has_cycles)) {
                let of = |label: &String| get(group.iter().find(|row| row.kernel_label() == *label)?);
                let base = labels.first().and_then(of);
                cells.push(base.map_or_else(|| ABSENT.into(), figure));
                cells.extend(labels.iter().skip(1).map(|label| match (base, of(label)) {
                    (Some(old), Some(new)) if old > 0.0 => {
                        minus(&format!("{:+.1} %", (new - old) / old * 100.0))
                    }
                    _ => ABSENT.into(),
                }));
            }
            text += &format!("| {} |\n", cells.join(" | "));
        };
        let name = format!("{} {}", first.workload, first.set.as_deref().unwrap_or_default());
        line(&name, &|row| Some(row.instructions_per_unit?.median), &|row| {
            Some(row.cycles_modelled_per_unit?.median)
        });
        // A call of it alone (apart=1).
        for key in first.extra.keys() {
            let Some(call) = key.strip_suffix("_instructions") else { continue };
            line(&format!("{}: {call}", name.trim()), &|row| row.extra.get(key).copied(), &|_| None);
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ceasefire_results::stats::Spread;

    fn results(cycles: Option<f64>) -> Results {
        let row = |mode: &str, instructions: f64, call: f64| Row {
            workload: "fork".into(),
            kernel: "lazyctx".into(),
            mode: Some(mode.into()),
            set: Some("apart=1".into()),
            vcpus: 1,
            boots: 5,
            cost: true,
            instructions_per_unit: Spread::of(&[instructions]),
            cycles_modelled_per_unit: cycles.and_then(|cycles| Spread::of(&[cycles])),
            extra: [("fork_instructions".into(), call), ("pages".into(), 3.0)].into(),
            ..Row::default()
        };
        Results {
            schema: String::new(),
            environment: Default::default(),
            controls: Vec::new(),
            skipped: Vec::new(),
            rows: vec![row("off", 400.0, 200.0), row("lazy", 380.0, 220.0)],
            failed: Vec::new(),
            problems: Vec::new(),
            workloads: Vec::new(),
            recorded: Vec::new(),
        }
    }

    #[test]
    fn a_call_alone_has_a_row_and_cycles_have_columns_where_they_are_counted() {
        let lines = |cycles| {
            let text = cost_table(&results(cycles)).expect("a table");
            text.lines().filter(|line| line.starts_with("| ")).map(String::from).collect::<Vec<_>>()
        };
        assert_eq!(
            lines(None),
            [
                "| instructions of | `lazyctx (off)` | `lazyctx (lazy)` |",
                "| `fork apart=1` | 400 | −5.0 % |",
                "| `fork apart=1: fork` | 200 | +10.0 % |",
            ]
        );
        assert_eq!(
            lines(Some(500.0))[1..],
            [
                "| `fork apart=1` | 400 | −5.0 % | 500 | +0.0 % |",
                "| `fork apart=1: fork` | 200 | +10.0 % | - | - |"
            ]
        );
    }
}
