// SPDX-License-Identifier: GPL-2.0-only
//! The published table of what a kernel gains or loses where CPUs interrupt each other.

use crate::numbers::{figure, median, prose_percent};
use crate::publish::{condition, hashes, minus, wrapped};
use crate::rows::{in_order, kernels, list};
use ceasefire_base::text::count;
use ceasefire_results::net::{Change, Verdict};
use ceasefire_results::schema::{Results, Row};
use ceasefire_results::stats::Spread;

/// What `ceasefire lab run --cost` has measured on several vCPUs.
pub(crate) fn is_net(results: &Results) -> bool {
    let is_net = |row: &Row| row.cost && row.cycles_net_per_unit.is_some();
    !results.rows.is_empty() && results.rows.iter().all(is_net)
}

/// `−2,365 [−2,401, −2,300]`
fn signed(value: f64) -> String {
    let text = minus(&figure(value));
    if value > 0.0 {
        format!("+{text}")
    } else {
        text
    }
}

fn change(spread: Spread) -> String {
    let [median, min, max] = [spread.median, spread.min, spread.max].map(signed);
    if min == max {
        median
    } else {
        format!("{median} [{min}, {max}]")
    }
}

pub(crate) fn net_table(results: &Results) -> String {
    let rows = in_order(results, true);
    let labels = kernels(&rows);
    let boots = rows.iter().map(|row| row.boots).min().unwrap_or_default();
    let condition = condition(&results.environment, place(&rows), count(u64::from(boots), "boot"));
    let mut text = wrapped(&format!("Condition: {condition}."), "");
    text += &format!("\n{}", wrapped(&format!("Sources: {}.", hashes(&results.environment)), ""));
    let base = labels.first().cloned().unwrap_or_default();
    let others: Vec<String> = labels.iter().skip(1).map(|label| format!("`{label}`")).collect();
    let sentence = format!(
        "Cycles are changes per unit of work, {} against `{base}`: medians, and at low prices the ends, as far apart as any two boots.",
        list(&others)
    );
    text += &format!("\n{}", wrapped(&sentence, ""));
    let is_named = others.len() > 1;
    let name = if is_named { " kernel |" } else { "" };
    text += &format!(
        "\n| unit of |{name} kernel instructions | targets | cycles, low | used | high | used, share | |\n|---|{}---|---|---|---|---|---|---|\n",
        if is_named { "---|" } else { "" }
    );
    let mut bad = Vec::new();
    for (base, row) in pairs(&rows, &base) {
        let (Some(old), Some(new)) = (base.cycles_net_per_unit, row.cycles_net_per_unit) else { continue };
        let changed = Change::between(old, new);
        let verdict = match changed.verdict() {
            Verdict::Gain => "gain",
            Verdict::Loss => "**loss**",
            Verdict::Unproved => "not proved",
        };
        if changed.verdict() != Verdict::Gain {
            let kernel = if is_named { format!(" in {}", row.kernel_label()) } else { String::new() };
            bad.push(format!("`{}`{kernel}", row.workload));
        }
        let name = if is_named { format!(" `{}` |", row.kernel_label()) } else { String::new() };
        let to = |get: fn(&Row) -> Option<Spread>| format!("{} to {}", median(get(base)), median(get(row)));
        text += &format!(
            "| `{}` |{name} {} | {} | {} | {} | {} | {} | {verdict} |\n",
            row.workload,
            to(|row| row.kernel_instructions_per_unit),
            to(|row| row.received_irq_per_unit),
            change(changed.low),
            signed(changed.used.median),
            signed(changed.high.median),
            prose_percent(changed.used.median / old.used.median * 100.0)
        );
    }
    let bad = match bad.is_empty() {
        true => "No losses.".to_string(),
        false => format!("Losses, or gains not proved at every price: {}.", list(&bad)),
    };
    text + "\n" + &wrapped(&bad, "")
}

fn place(rows: &[&Row]) -> Option<String> {
    let mut shapes: Vec<String> = Vec::new();
    for row in rows {
        let shape = format!("{} on {}", count(u64::from(row.threads), "thread"), row.shape());
        if !shapes.contains(&shape) {
            shapes.push(shape);
        }
    }
    (!shapes.is_empty()).then(|| list(&shapes))
}

/// Each row with the baseline's of the same work.
pub(crate) fn pairs<'a>(rows: &[&'a Row], base: &str) -> Vec<(&'a Row, &'a Row)> {
    let of = |row: &Row| {
        rows.iter().find(|other| other.kernel_label() == base && row.is_same_work(other)).copied()
    };
    rows.iter().filter(|row| row.kernel_label() != base).filter_map(|row| Some((of(row)?, *row))).collect()
}
