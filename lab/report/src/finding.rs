// SPDX-License-Identifier: GPL-2.0-only
//! The one sentence above a report: computed from the rows, with its condition, and nothing else.

use crate::numbers::{figure, prose_percent as percent};
use ceasefire_base::text::count;
use ceasefire_results::schema::{Results, Row};
use ceasefire_results::stats;
use std::collections::BTreeSet;

/// Rows that say something about shootdowns: not the controls, not the cost rows, targets measured.
pub(crate) fn shown(results: &Results) -> Vec<&Row> {
    results.rows.iter().filter(|row| !row.control && !row.cost && row.received_per_unit.is_some()).collect()
}

/// Kernels and modes in the order they appear; the baseline is `vanilla` if it is there, else the first.
pub(crate) fn kernels(rows: &[&Row]) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for row in rows {
        let label = row.kernel_label();
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    if let Some(index) = labels.iter().position(|label| label == "vanilla") {
        let baseline = labels.remove(index);
        labels.insert(0, baseline);
    }
    labels
}

/// Rows for a table: workloads in the file's order, then threads, then kernels side by side.
pub(crate) fn in_order(results: &Results, cost: bool) -> Vec<&Row> {
    let mut rows: Vec<&Row> = results.rows.iter().filter(|row| row.cost == cost).collect();
    let mut workloads: Vec<&str> = Vec::new();
    for row in &rows {
        if !workloads.contains(&row.workload.as_str()) {
            workloads.push(&row.workload);
        }
    }
    let labels = kernels(&rows);
    let place = |row: &Row| {
        let label = row.kernel_label();
        (
            workloads.iter().position(|name| *name == row.workload),
            row.nodes,
            row.threads,
            row.vcpus,
            labels.iter().position(|known| *known == label),
        )
    };
    rows.sort_by_cached_key(|row| place(row));
    rows
}

pub(crate) fn sentences(results: &Results) -> Vec<String> {
    let rows = shown(results);
    let labels = kernels(&rows);
    match labels.as_slice() {
        [] => vec!["No row of this file measures shootdowns.".into()],
        [_] => vec![alone(&rows)],
        [baseline, others @ ..] => others.iter().map(|other| against(&rows, baseline, other)).collect(),
    }
}

/// One kernel: how many CPUs one shootdown interrupts, which is independent of every unit.
fn alone(rows: &[&Row]) -> String {
    let threads = rows.iter().map(|row| row.threads).max().unwrap_or(0);
    let widest: Vec<&&Row> = rows.iter().filter(|row| row.threads == threads).collect();
    let mut targets: Vec<(f64, &str)> =
        widest.iter().filter_map(|row| Some((row.targets_per_shootdown()?, row.workload.as_str()))).collect();
    targets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let silent: BTreeSet<&str> = widest
        .iter()
        .filter(|row| row.received_per_unit.is_some_and(|received| received.max == 0.0))
        .map(|row| row.workload.as_str())
        .collect();
    let at = format!("At {}", count(u64::from(threads), "thread"));
    let (Some(least), Some(most)) = (targets.first(), targets.last()) else {
        let rows = count(widest.len() as u64, "row");
        return if silent.len() == widest.len() {
            format!("{at}, no other CPU received a shootdown in any of {rows}.")
        } else {
            format!("{at}, shootdowns were received in {} of {rows}; how many were sent was not measured.", {
                widest.iter().filter(|row| row.received_per_unit.is_some_and(|r| r.max > 0.0)).count()
            })
        };
    };
    let values: Vec<f64> = targets.iter().map(|target| target.0).collect();
    let middle = stats::median(&values).map_or_else(String::new, figure);
    let mut sentence = if targets.len() == 1 {
        format!("{at}, one shootdown of {} interrupts {} other CPUs", least.1, figure(least.0))
    } else {
        format!(
            "{at}, one shootdown interrupts a median of {middle} other CPUs over {} (from {} in {} to {} in {})",
            count(targets.len() as u64, "row"),
            figure(least.0),
            least.1,
            figure(most.0),
            most.1
        )
    };
    // Of a user address space: kernel ranges are counted apart, and some of these cause nothing else.
    match silent.len() {
        0 => {}
        1..=3 => {
            sentence.push_str(&format!(
                "; {} caused none of a user address space",
                silent.into_iter().collect::<Vec<_>>().join(", ")
            ));
        }
        n => sentence.push_str(&format!("; {n} workloads caused none of a user address space")),
    }
    sentence.push('.');
    sentence
}

/// Two kernels: the change of what was received, with its range, and where it may have moved to.
fn against(rows: &[&Row], baseline: &str, other: &str) -> String {
    let mut received: Vec<(f64, String)> = Vec::new();
    let mut full = Vec::new();
    let mut ipis = Vec::new();
    let (mut matched, mut from_zero, mut stayed_zero) = (0u64, 0u64, 0u64);
    for row in rows.iter().filter(|row| row.kernel_label() == other) {
        let Some(base) = rows.iter().find(|b| b.kernel_label() == baseline && row.is_same_work(b)) else {
            continue;
        };
        matched += 1;
        let change = |get: fn(&Row) -> Option<stats::Spread>| {
            let (old, new) = (get(base)?.median, get(row)?.median);
            (old > 0.0).then(|| (new - old) / old * 100.0)
        };
        match change(|row| row.received_per_unit) {
            Some(change) => received
                .push((change, format!("{} at {}", row.workload, count(u64::from(row.threads), "thread")))),
            None if row.received_per_unit.is_some_and(|spread| spread.median > 0.0) => from_zero += 1,
            None => stayed_zero += 1,
        }
        full.extend(change(|row| row.local_full_per_unit));
        ipis.extend(change(|row| row.other_ipis_per_unit));
    }
    received.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (Some(least), Some(most)) = (received.first(), received.last()) else {
        return format!(
            "No row of {other} can be held against {baseline}: {} in both, none with anything received in {baseline}.",
            count(matched, "row")
        );
    };
    let values: Vec<f64> = received.iter().map(|change| change.0).collect();
    let median = |values: &[f64]| stats::median(values).map_or_else(|| "not measured".into(), percent);
    let mut sentence = format!(
        "Against {baseline}, {other} changes the shootdowns received per unit by a median of {} over {} (from {} in {} to {} in {}); \
         full flushes by a median of {}, other IPIs by {}",
        median(&values),
        count(received.len() as u64, "row"),
        percent(least.0),
        least.1,
        percent(most.0),
        most.1,
        median(&full),
        median(&ipis),
    );
    if from_zero > 0 {
        sentence
            .push_str(&format!("; {} received nothing before and something now", count(from_zero, "row")));
    }
    if stayed_zero > 0 {
        sentence.push_str(&format!("; {} received nothing in either", count(stayed_zero, "row")));
    }
    sentence.push('.');
    sentence
}
