// SPDX-License-Identifier: GPL-2.0-only
//! Rows and controls as every view orders them.

use ceasefire_results::schema::{Control, Results, Row};

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

/// What one row promised, from every source that counts it.
pub(crate) fn promises(controls: &[Control]) -> Vec<&[Control]> {
    let place = |control: &Control| {
        (
            control.workload.clone(),
            control.threads,
            control.kernel.clone(),
            control.mode.clone(),
            control.vcpus,
            control.nodes,
        )
    };
    let mut groups = Vec::new();
    let mut start = 0;
    for end in 1..=controls.len() {
        let is_other = controls.get(end).map_or(true, |next| {
            let group = &controls[start..end];
            place(next) != place(&group[0]) || group.iter().any(|known| known.source == next.source)
        });
        if is_other {
            groups.push(&controls[start..end]);
            start = end;
        }
    }
    groups
}

/// `a, b and c`
pub(crate) fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
