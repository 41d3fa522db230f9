// SPDX-License-Identifier: GPL-2.0-only
//! What a tour ends in: one screen. A line per workload where most threads ran, each variant beside the baseline, and
//! what rose; then whether the counts can be believed, and where the rest is.

use crate::numbers::{figure, grouped, median};
use crate::summary::{Change, Line, Summary};
use ceasefire_base::text::{clean, flow, pad_left, pad_right, width, wrap, Options, Paint};
use ceasefire_results::schema::{Results, Row};
use std::path::Path;

const GAP: usize = 2;
const ROSE: &str = "what rose beside it";
/// A column for what rose is worth its place from here on.
const ROSE_WIDTH_MIN: usize = 24;

/// Where the page and the data were written.
pub struct Files<'a> {
    pub page: &'a Path,
    pub data: &'a Path,
}

pub fn render(results: &Results, files: &Files, options: &Options) -> String {
    let summary = Summary::of(results);
    let columns = options.columns();
    let mut lines = Vec::new();
    let mut say = |paint: Option<Paint>, text: &str| {
        for line in wrap(text, "", 2, columns) {
            lines.push(paint.map_or_else(|| line.clone(), |paint| options.paint(paint, &line)));
        }
    };
    say(Some(Paint::Strong), &title(&summary));
    let (silent, told): (Vec<&Line>, Vec<&Line>) = summary.lines.iter().partition(|line| line.is_silent());
    let table = table(&summary, &told, options);
    lines.extend(table);
    let mut say = |paint: Option<Paint>, text: String| {
        for line in wrap(&text, "", 2, columns) {
            lines.push(paint.map_or_else(|| line.clone(), |paint| options.paint(paint, &line)));
        }
    };
    if !silent.is_empty() {
        let names: Vec<String> = silent.iter().map(|line| with_rises(&summary, line)).collect();
        say(None, format!("No shootdown in any: {}.", names.join(", ")));
    }
    if let Some(unasked) = summary.unasked() {
        say(None, unasked);
    }
    if let Some(memory) = memory(results, &summary) {
        say(None, memory);
    }
    let (words, is_good) = controls(results);
    say(Some(if is_good { Paint::Good } else { Paint::Doubt }), words);
    if let Some((words, is_good)) = checked(results) {
        say(Some(if is_good { Paint::Good } else { Paint::Bad }), words);
    }
    let missing = results.skipped.len() + results.failed.len() > 0;
    let words = format!("Not measured: {} skipped, {} failed.", results.skipped.len(), results.failed.len());
    say(missing.then_some(Paint::Doubt), words);
    say(None, format!("Report: {}; data: {}", files.page.display(), files.data.display()));
    let marks = match summary.knows_needed() {
        true => {
            "needed = those that held what was flushed, by the machine's TLBs; avoided = share of the others; none = within \
             the repeats' spread, or 1 %; - = all were needed."
        }
        false => "same = within the repeats' spread, or 1 %.",
    };
    let unit =
        "How to read it: CPUs interrupted per unit of the workload's work, median of the repeats; less is better.";
    say(Some(Paint::Quiet), format!("{unit} {marks}"));
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n") + "\n"
}

fn title(summary: &Summary) -> String {
    let place = summary.place().map_or_else(String::new, |place| format!(", {place}"));
    let kernel = summary.kernel.as_ref().map_or_else(String::new, |kernel| format!(", kernel {kernel}"));
    match summary.names.first().filter(|_| summary.is_compared()) {
        Some(baseline) if summary.knows_needed() => {
            format!("TLB shootdowns received{place}{kernel}: needed and avoided against {baseline}")
        }
        Some(baseline) => format!("TLB shootdowns received{place}{kernel}: change against {baseline}"),
        None => format!("TLB shootdowns received{place}{kernel}"),
    }
}

/// Name, baseline and what it needed, then figure and gain of each variant.
fn cells(line: &Line, knows_needed: bool) -> Vec<String> {
    let mut cells = vec![clean(&line.name), median(line.received())];
    cells.extend(knows_needed.then(|| median(line.base.needed_per_unit)));
    for (index, row) in line.others.iter().enumerate() {
        cells.push(median(row.and_then(|row| row.received_per_unit)));
        cells.push(gain(line, index, knows_needed));
    }
    cells
}

/// The share that is avoided, or the change where nobody knows what was needed.
fn gain(line: &Line, index: usize, knows_needed: bool) -> String {
    match knows_needed {
        true => line.avoided_words(index).unwrap_or_default(),
        false => line.change(index).map_or_else(String::new, Change::words),
    }
}

fn paint(line: &Line) -> Option<Paint> {
    let changes: Vec<Change> = (0..line.others.len()).filter_map(|other| line.change(other)).collect();
    let is = |good: bool| {
        changes.iter().any(|change| match change {
            Change::Percent(change) => (*change < 0.0) == good,
            Change::FromZero => !good,
            _ => false,
        })
    };
    match (is(true), is(false)) {
        (_, true) => Some(Paint::Bad),
        (true, _) => Some(Paint::Good),
        _ => None,
    }
}

fn table(summary: &Summary, told: &[&Line], options: &Options) -> Vec<String> {
    let columns = options.columns();
    let knows_needed = summary.knows_needed();
    let body: Vec<Vec<String>> = told.iter().map(|line| cells(line, knows_needed)).collect();
    let mut head = vec![String::new(), summary.names.first().cloned().unwrap_or_default()];
    head.extend(knows_needed.then(|| "needed".into()));
    for name in summary.names.iter().skip(1) {
        let gain = if knows_needed { "avoided" } else { "" };
        head.extend([clean(name), gain.into()]);
    }
    head[0] = "workload".into();
    let widths: Vec<usize> = (0..head.len())
        .map(|index| {
            body.iter()
                .chain([&head])
                .filter_map(|cells| cells.get(index))
                .map(|cell| width(cell))
                .max()
                .unwrap_or(0)
        })
        .collect();
    let row = |cells: &[String]| {
        let mut text = pad_right(&cells[0], widths[0]);
        for (cell, columns) in cells.iter().zip(&widths).skip(1) {
            text += &" ".repeat(GAP);
            text += &pad_left(cell, *columns);
        }
        text
    };
    let used = widths.iter().sum::<usize>() + GAP * (widths.len() - 1);
    let compared = summary.is_compared();
    let room = columns.saturating_sub(used + GAP);
    if used > columns {
        return stacked(summary, told, options);
    }
    // Without the variants' names where these make a line too long.
    let fits = |is_named: &bool| told.iter().all(|line| width(&rose(summary, line, room, *is_named)) <= room);
    let is_named = Some(room).filter(|room| compared && *room >= ROSE_WIDTH_MIN);
    let is_named = is_named.and_then(|_| [true, false].into_iter().find(fits));
    let has_column = is_named.is_some();
    let title = if has_column { format!("{}{}{ROSE}", row(&head), " ".repeat(GAP)) } else { row(&head) };
    let mut lines = vec![options.paint(Paint::Quiet, title.trim_end())];
    for (line, cells) in told.iter().zip(&body) {
        let text = row(cells);
        let text = paint(line).map_or_else(|| text.clone(), |paint| options.paint(paint, &text));
        if let Some(is_named) = is_named {
            lines.push(format!("{text}{}{}", " ".repeat(GAP), rose(summary, line, room, is_named)));
            continue;
        }
        lines.push(text);
        if !line.rises().is_empty() {
            lines.extend(wrap(
                &format!("rose: {}", rose(summary, line, usize::MAX, true)),
                "    ",
                6,
                columns,
            ));
        }
    }
    lines
}

/// On a narrow screen each workload has lines of its own.
fn stacked(summary: &Summary, told: &[&Line], options: &Options) -> Vec<String> {
    let mut lines = Vec::new();
    for line in told {
        let knows_needed = summary.knows_needed();
        let cells = cells(line, knows_needed);
        let mut tokens = vec![format!("{}:", cells[0])];
        tokens.push(format!("{} {}", summary.names[0], cells[1]));
        tokens.extend(knows_needed.then(|| format!("needed {}", cells[2])));
        let variants = cells[2 + usize::from(knows_needed)..].chunks(2);
        for (name, pair) in summary.names.iter().skip(1).zip(variants) {
            let gain = match pair[1].as_str() {
                "" => String::new(),
                "-" if knows_needed => String::new(),
                gain if knows_needed => format!(" (avoided {gain})"),
                gain => format!(" ({gain})"),
            };
            tokens.push(format!("{} {}{gain}", clean(name), pair[0]));
        }
        if !line.rises().is_empty() {
            tokens.push("rose:".into());
            tokens.extend(line.rises().iter().map(|rise| rise.words()));
        }
        let text = flow(&tokens, "", 2, options.columns());
        lines.extend(
            text.iter()
                .map(|text| paint(line).map_or_else(|| text.clone(), |paint| options.paint(paint, text))),
        );
    }
    lines
}

/// What rose, the largest rise first, as many as there is room for.
fn rose(summary: &Summary, line: &Line, room: usize, is_named: bool) -> String {
    let rises = line.rises();
    if rises.is_empty() {
        return if line.others.iter().any(Option::is_some) { "nothing".into() } else { String::new() };
    }
    // Which variant needs saying only where there are several.
    let words = |rise: &crate::summary::Rise| match is_named && summary.names.len() > 2 {
        true => format!("{} ({})", rise.words(), clean(&summary.names[rise.variant])),
        false => rise.words(),
    };
    let mut text = String::new();
    for (index, rise) in rises.iter().enumerate() {
        let left = rises.len() - index;
        let more = if index == 0 { String::new() } else { format!("; {left} more") };
        let next = if index == 0 { words(rise) } else { format!("{text}; {}", words(rise)) };
        let tail = if left > 1 { width("; 9 more") } else { 0 };
        if index > 0 && width(&next).saturating_add(tail) > room {
            return text + &more;
        }
        text = next;
    }
    text
}

fn with_rises(summary: &Summary, line: &Line) -> String {
    match line.rises().is_empty() {
        true => clean(&line.name),
        false => format!("{} (rose: {})", clean(&line.name), rose(summary, line, usize::MAX, true)),
    }
}

/// What a mechanism still holds in memory at the end, where it holds most.
fn memory(results: &Results, summary: &Summary) -> Option<String> {
    let mut most: Option<(f64, String)> = None;
    for line in &summary.lines {
        for (index, row) in line.others.iter().enumerate() {
            let Some(bytes) = row.and_then(|row| bytes(results, row)).filter(|bytes| *bytes > 0.0) else {
                continue;
            };
            if most.as_ref().map_or(true, |(known, _)| bytes > *known) {
                most = Some((bytes, format!("{}, {}", line.name, summary.names[index + 1])));
            }
        }
    }
    most.map(|(bytes, place)| {
        format!(
            "Memory that it holds at the end: at most {} KiB ({}).",
            figure(bytes / 1024.0),
            clean(&place)
        )
    })
}

/// Levels that mechanisms count in bytes.
fn bytes(results: &Results, row: &Row) -> Option<f64> {
    let levels = results.shown(|counter| counter.is_level() && counter.unit == "bytes");
    levels.iter().filter_map(|shown| shown.get(row)).map(|spread| spread.median).reduce(|a, b| a + b)
}

fn controls(results: &Results) -> (String, bool) {
    let judged = results.controls.iter().filter(|control| control.ok.is_some()).count();
    let held = results.controls.iter().filter(|control| control.ok == Some(true)).count();
    let unjudged = results.controls.len() - judged;
    match (judged, unjudged) {
        (0, _) => ("Controls: none ran, so nothing shows that these counts are right.".into(), false),
        (_, 0) => (
            format!(
                "Controls: {held} of {judged} hold: known numbers of shootdowns, and none, from two sources."
            ),
            held == judged,
        ),
        _ => (format!("Controls: {held} of {judged} hold, {unjudged} could not be measured here."), false),
    }
}

fn checked(results: &Results) -> Option<(String, bool)> {
    let sum = |get: fn(&Row) -> Option<u64>| results.rows.iter().filter_map(get).reduce(u64::saturating_add);
    let (checked, wrong) = (sum(|row| row.checked)?, sum(|row| row.violations).unwrap_or(0));
    let words = format!(
        "Elisions: {} checked against the machine's TLBs, {} wrong.",
        grouped(checked as f64),
        grouped(wrong as f64)
    );
    Some((words, wrong == 0))
}
