// SPDX-License-Identifier: GPL-2.0-only
//! The evaluation for a terminal of any width.

use super::found;
use crate::numbers::{figure as number, percent, with_range};
use ceasefire_base::text::{count, wrap, Options, Paint};
use ceasefire_results::paper::figures::{Axis, Figure, Quantity};
use ceasefire_results::paper::{is_off, left, Compared, Loss, Measured, Paper};
use ceasefire_results::schema::{self, Row};

/// Of each figure; the page has all.
const LOSSES_SHOWN: usize = 3;

pub fn render(paper: &Paper, options: &Options) -> String {
    let mut lines = Vec::new();
    let mut say = |paint: Option<Paint>, text: &str, first: &str, rest: usize| {
        for line in wrap(text, first, rest, options.columns()) {
            lines.push(match paint {
                Some(paint) => options.paint(paint, &line),
                None => line,
            });
        }
    };
    for sentence in sentences(paper) {
        say(None, &sentence, "", 0);
    }
    for figure in paper.table().figures {
        say(None, "", "", 0);
        say(Some(Paint::Strong), &format!("{} ({})", figure.title, figure.id), "", 2);
        let Some(measured) = paper.figure(figure.id) else {
            say(Some(Paint::Doubt), "not measured in this file", "  ", 2);
            continue;
        };
        for entry in &measured.compared {
            let paint = match entry.is_reached() {
                Some(true) => Paint::Good,
                Some(false) => Paint::Bad,
                None => Paint::Doubt,
            };
            say(Some(paint), &compared(entry), "  ", 4);
        }
        if let (Axis::Points(title), Some((baseline, others))) = (figure.axis, paper.kernels.split_first()) {
            say(None, &format!("received, % of {baseline}'s, by {title}:"), "  ", 4);
            for kernel in others.iter().filter(|label| !is_off(label)) {
                for (name, points) in left(figure, measured, Quantity::Received, (baseline, kernel)) {
                    let points: Vec<String> =
                        points.iter().map(|(at, value)| format!("{at}: {}", number(value.median))).collect();
                    say(None, &format!("{name}, {kernel}: {}", points.join(", ")), "    ", 6);
                }
            }
        }
        // Nothing of the paper's to hold against it: what was counted stands alone.
        if figure.claims.is_empty() && !matches!(figure.axis, Axis::Points(_)) {
            for line in counted(paper, figure, measured) {
                say(None, &line, "  ", 4);
            }
        }
        let mut losses: Vec<_> = measured.losses.iter().collect();
        let size = |loss: &Loss| loss.percent.unwrap_or(f64::INFINITY);
        losses.sort_by(|a, b| size(b).total_cmp(&size(a)));
        for loss in losses.iter().take(LOSSES_SHOWN) {
            let title = schema::counter(&loss.figure).map_or(loss.figure.as_str(), |known| known.title);
            let change = loss.percent.map_or_else(|| "from zero".into(), percent);
            let at = loss.at.as_ref().map_or_else(String::new, |at| format!(", {at}"));
            let threads = count(u64::from(loss.threads), "thread");
            let text = format!(
                "rose: {}{at}, {threads}, {}: {title} per {} {change}, {} to {}",
                loss.workload,
                loss.kernel,
                loss.unit,
                number(loss.baseline.median),
                with_range(loss.here)
            );
            say(None, &text, "  ", 4);
        }
        if losses.len() > LOSSES_SHOWN {
            let more = count((losses.len() - LOSSES_SHOWN) as u64, "more rise");
            say(None, &format!("{more} on the page"), "  ", 4);
        }
        for (word, list) in [("skipped", &measured.skipped), ("failed", &measured.failed)] {
            for entry in list {
                say(
                    Some(Paint::Doubt),
                    &format!("{word}: {}", crate::table::missing_sentence(entry)),
                    "  ",
                    4,
                );
            }
        }
    }
    lines.join("\n") + "\n"
}

/// A line for each workload and count where most threads ran: the kernels' medians.
fn counted(paper: &Paper, figure: &'static Figure, measured: &Measured) -> Vec<String> {
    let mut lines = Vec::new();
    for (shown, work, _) in figure.shown() {
        for quantity in figure.plots {
            let of_kernel = |label: &String| {
                let is_it = |row: &&Row| {
                    work.is_of(row) && work.shown_of(row) == shown && row.kernel_label() == *label
                };
                let rows = measured.rows.iter().filter(is_it).filter(|row| quantity.get(row).is_some());
                let widest = rows.max_by_key(|row| (row.vcpus, row.threads))?;
                Some(format!("{label} {}", number(quantity.get(widest)?.median)))
            };
            let cells: Vec<String> = paper.kernels.iter().filter_map(of_kernel).collect();
            if !cells.is_empty() {
                lines.push(format!("{shown}, {}: {}", quantity.words(), cells.join(", ")));
            }
        }
    }
    lines
}

fn compared(entry: &Compared) -> String {
    let mut text = format!("{}, {}: {}", entry.workload, entry.quantity, found(entry));
    if let (Some(old), Some(new)) = (entry.baseline, entry.here) {
        text.push_str(&format!(" ({} to {})", number(old.median), with_range(new)));
    }
    text.push_str(&format!("; the paper {}", percent(entry.paper_percent)));
    if entry.repeats > 0 {
        text.push_str(&format!(", {} at {}", entry.kernel, count(u64::from(entry.threads), "thread")));
    }
    text
}

/// The finding above everything: how many of the paper's figures are met, and which are not.
pub(super) fn sentences(paper: &Paper) -> Vec<String> {
    let Some((baseline, others)) = paper.kernels.split_first() else { return Vec::new() };
    let of = |kernel: &String| {
        let all: Vec<&Compared> = paper
            .figures
            .iter()
            .flat_map(|m| &m.compared)
            .filter(|entry| entry.kernel == *kernel && !entry.is_aside)
            .collect();
        let named = |wanted: Option<bool>| -> Vec<String> {
            all.iter()
                .filter(|entry| entry.is_reached() == wanted)
                .map(|entry| match entry.percent {
                    Some(_) => format!("{} {} {}", entry.workload, entry.quantity, found(entry)),
                    None => format!("{} {}", entry.workload, entry.quantity),
                })
                .collect()
        };
        if all.is_empty() {
            return None;
        }
        let mut text = format!(
            "Against {baseline}, {kernel} reaches {} of the {} figures of the paper that counting can answer",
            named(Some(true)).len(),
            all.len()
        );
        for (words, list) in [("short", named(Some(false))), ("not measured", named(None))] {
            if !list.is_empty() {
                text.push_str(&format!("; {words}: {}", list.join(", ")));
            }
        }
        Some(text + ".")
    };
    others.iter().filter(|label| !is_off(label)).filter_map(of).collect()
}
