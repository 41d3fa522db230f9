// SPDX-License-Identifier: GPL-2.0-only
//! A comparison for a terminal: absolute figures beside every percentage.

use crate::numbers::{figure, percent, share};
use ceasefire_base::text::{clean, flow, pad_left, pad_right, width, wrap, Options, Paint};
use ceasefire_results::compare::{Change, Comparison, Regression, RowChange, RowName, JUDGED};

pub fn render(comparison: &Comparison, options: &Options) -> String {
    let columns = options.columns();
    let mut lines = Vec::new();
    let (still, moving): (Vec<&RowChange>, Vec<&RowChange>) =
        comparison.rows.iter().partition(|row| row.changes.iter().all(|change| change.a == change.b));
    for row in moving {
        let title = if row.a.kernel == row.b.kernel && row.a.mode == row.b.mode {
            row.b.label()
        } else {
            let mode = row.a.mode.as_ref().map_or_else(String::new, |mode| format!(" ({mode})"));
            format!("{}, against {}{mode}", row.b.label(), row.a.kernel)
        };
        let title = format!("{title} (per {})", row.unit);
        lines.extend(wrap(&title, "", 2, columns).iter().map(|line| options.paint(Paint::Strong, line)));
        let (equal, moved): (Vec<&Change>, Vec<&Change>) =
            row.changes.iter().partition(|change| change.a == change.b);
        lines.extend(moved_lines(&moved, options));
        if let Some(sentence) = avoided(row) {
            lines.extend(wrap(&sentence, "  ", 4, columns));
        }
        if !equal.is_empty() {
            let names: Vec<&str> = equal.iter().map(|change| change.title.as_str()).collect();
            let sentence = format!("unchanged: {}", names.join(", "));
            lines.extend(
                wrap(&sentence, "  ", 4, columns).iter().map(|line| options.paint(Paint::Quiet, line)),
            );
        }
    }
    list("Unchanged in every figure", still.iter().map(|row| row.b.label()), options, &mut lines);
    for (title, names) in
        [("Only in the first file", &comparison.only_a), ("Only in the second file", &comparison.only_b)]
    {
        list(title, names.iter().map(RowName::label), options, &mut lines);
    }
    list("Warnings", comparison.warnings.iter().cloned(), options, &mut lines);
    if comparison
        .rows
        .iter()
        .flat_map(|row| &row.changes)
        .any(|change| change.within_spread && change.a != change.b)
    {
        lines.push(String::new());
        let legend = "= the repeats of both sides overlap: no change is proved.";
        lines.extend(wrap(legend, "", 2, columns).iter().map(|line| options.paint(Paint::Quiet, line)));
    }
    if lines.first().is_some_and(|line| line.is_empty()) {
        lines.remove(0);
    }
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

/// Where the targets changed at all.
fn avoided(row: &RowChange) -> Option<String> {
    let received = row.changes.iter().find(|change| change.figure == "received" && change.a != change.b)?;
    let mark = if received.within_spread { " =" } else { "" };
    Some(format!(
        "avoided: {} of the {} targets that nobody needed{mark}",
        share(row.avoided_percent?),
        figure(row.avoidable?)
    ))
}

fn words(change: &Change) -> String {
    change.percent.map_or_else(|| "from zero".into(), percent)
}

/// One regression, for an error.
pub fn regression(found: &Regression) -> String {
    format!(
        "{}: {} per {} rose from {} to {} ({})",
        found.row.b.label(),
        found.change.title,
        found.row.unit,
        figure(found.change.a.median),
        figure(found.change.b.median),
        words(found.change)
    )
}

fn moved_lines(moved: &[&Change], options: &Options) -> Vec<String> {
    let cells: Vec<[String; 5]> = moved
        .iter()
        .map(|change| {
            let mark = if change.within_spread { "=" } else { "" };
            [
                change.title.clone(),
                figure(change.a.median),
                figure(change.b.median),
                words(change),
                mark.into(),
            ]
        })
        .collect();
    let widest = |index: usize| cells.iter().map(|cell| width(&cell[index])).max().unwrap_or(0);
    let (label, old, new, change_width) = (widest(0), widest(1), widest(2), widest(3));
    let mut lines = Vec::new();
    for (cell, change) in cells.iter().zip(moved) {
        let text = format!(
            "  {}  {} -> {}  {} {}",
            pad_right(&cell[0], label),
            pad_left(&cell[1], old),
            pad_left(&cell[2], new),
            pad_left(&cell[3], change_width),
            cell[4]
        );
        let paint = match (change.within_spread, JUDGED.contains(&change.figure.as_str())) {
            (true, _) | (_, false) => Paint::Quiet,
            _ if change.size() > 0.0 => Paint::Bad,
            _ => Paint::Good,
        };
        let text = text.trim_end();
        if width(text) <= options.columns() {
            lines.push(options.paint(paint, text));
        } else {
            let tokens =
                [cell[0].clone(), format!("{} -> {}", cell[1], cell[2]), cell[3].clone(), cell[4].clone()];
            let filled: Vec<String> = tokens.into_iter().filter(|token| !token.is_empty()).collect();
            lines.extend(
                flow(&filled, "  ", 4, options.columns()).iter().map(|line| options.paint(paint, line)),
            );
        }
    }
    lines
}

fn list(title: &str, entries: impl Iterator<Item = String>, options: &Options, lines: &mut Vec<String>) {
    let entries: Vec<String> = entries.map(|entry| clean(&entry)).collect();
    if entries.is_empty() {
        return;
    }
    lines.push(String::new());
    let heading = format!("{title} ({})", entries.len());
    lines.extend(
        wrap(&heading, "", 2, options.columns()).iter().map(|line| options.paint(Paint::Doubt, line)),
    );
    for entry in entries {
        lines.extend(wrap(&entry, "  ", 4, options.columns()));
    }
}
