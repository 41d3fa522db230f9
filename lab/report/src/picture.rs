// SPDX-License-Identifier: GPL-2.0-only
//! One picture of a comparison: what each workload receives, as a share of the baseline. A file of its own, for a README,
//! or the first picture of a page.

use crate::chart::colour_class;
use crate::numbers::{figure, prose_percent as percent};
use crate::rows::list;
use crate::summary::{Change, Line, Summary};
use crate::svg::{Anchor, Svg};
use ceasefire_base::{Error, Result};
use ceasefire_results::schema::{Results, Row};
use maud::Markup;

const WIDTH: f64 = 900.0;
const NAMES: f64 = 158.0;
/// For the figures beside the bars.
const FIGURES: f64 = 196.0;
const BAR: f64 = 8.0;
const GAP: f64 = 10.0;
/// Longer bars are cut off here, as a share of the baseline.
const SHARE_MAX: f64 = 1.25;
const STYLE: &str =
    "svg{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans','DejaVu Sans',sans-serif}\
text{font-size:13px;fill:#4c545d}.card{fill:#fbfaf7}.title{font-size:18px;font-weight:600;fill:#1d2126}\
.value{fill:#1d2126;font-weight:600}.grid{stroke:#dfdcd4}.axis{stroke:#59616b}\
.needed{stroke:#1d2126;stroke-width:2}.s0{fill:#a9b2bb}.s1{fill:#b8501a}.s2{fill:#1d7a5f}.s3{fill:#7a4a9e}.s4{fill:#8a6d00}.s5{fill:#1f5fa8}";

/// Refuses what a page refuses, and a file in which nothing is compared.
pub fn file(results: &Results) -> Result<String> {
    results.reportable()?;
    let summary = Summary::of(results);
    if !summary.is_compared() {
        return Err(Error::usage("one kernel in one mode has nothing to be held against")
            .remedy("measure two: --kernel vanilla,NAME:MODE, or --kernel NAME --mode off,MODE"));
    }
    Ok(draw(results, &summary, true).file(STYLE))
}

/// For a page that says the rest around it.
pub(crate) fn inside(results: &Results, summary: &Summary) -> Markup {
    draw(results, summary, false).finish()
}

fn draw(results: &Results, summary: &Summary, is_alone: bool) -> Svg {
    let mut lines: Vec<&Line> =
        summary.lines.iter().filter(|line| share(line.base, line.base).is_some()).collect();
    // Gains first, and of equal ones the file's order.
    let last =
        |line: &Line| line.others.last().and_then(|row| share(line.base, (*row)?)).unwrap_or(f64::INFINITY);
    lines.sort_by(|a, b| last(a).total_cmp(&last(b)));
    let notes = notes(results, summary, &lines);
    let top = if is_alone { 92.0 } else { 34.0 };
    let pitch = BAR * summary.names.len() as f64 + GAP;
    let bottom = top + pitch * lines.len() as f64;
    let height = bottom + if is_alone { 30.0 + 17.0 * notes.len() as f64 } else { 24.0 };
    let (left, width) = (NAMES + 12.0, WIDTH - NAMES - FIGURES - 24.0);
    let all =
        lines.iter().flat_map(|line| line.others.iter().flatten().filter_map(|row| share(line.base, row)));
    let most = all.fold(1.0, f64::max).min(SHARE_MAX);

    let mut svg = Svg::new(WIDTH, height, &spoken(summary, &lines));
    if is_alone {
        svg.rect("card", (0.0, 0.0), (WIDTH, height));
        svg.text("title", Anchor::Start, (16.0, 30.0), &title(summary));
    }
    // What the colours mean stands above the bars.
    let mut x = left;
    for (index, name) in summary.names.iter().enumerate() {
        svg.rect(&format!("bar {}", colour_class(index)), (x, top - 32.0), (12.0, 12.0));
        svg.text("tick", Anchor::Start, (x + 18.0, top - 21.5), name);
        x += 46.0 + 7.5 * name.chars().count() as f64;
    }
    if summary.knows_needed() {
        svg.line("needed", (x + 6.0, top - 33.0), (x + 6.0, top - 19.0));
        svg.text("tick", Anchor::Start, (x + 14.0, top - 21.5), &format!("needed by {}", summary.names[0]));
    }
    svg.text("tick", Anchor::End, (WIDTH - 16.0, top - 21.5), "received per unit of work");
    let mut marks = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let y = top + pitch * index as f64;
        let middle = y + (pitch - GAP) / 2.0 + 4.5;
        svg.text("value", Anchor::End, (NAMES, middle), &cut(&line.name));
        for (place, row) in std::iter::once(Some(line.base)).chain(line.others.iter().copied()).enumerate() {
            let Some(share) = row.and_then(|row| share(line.base, row)) else { continue };
            let length = (share.min(most) / most * width).max(if share > 0.0 { 1.0 } else { 0.0 });
            let class = format!("bar {}", colour_class(place));
            svg.rect(&class, (left, y + BAR * place as f64), (length, BAR - 1.0));
        }
        svg.line("axis", (left, y - 1.0), (left, y + pitch - GAP + 1.0));
        if let Some(needed) = needed_share(line.base) {
            let x = left + needed / most * width;
            marks.push(((x, y - 2.0), (x, y + pitch - GAP + 1.0)));
        }
        svg.text("tick", Anchor::End, (WIDTH - 16.0, middle), &figures(line));
    }
    for percent in [0, 25, 50, 75, 100] {
        let x = left + f64::from(percent) / 100.0 / most * width;
        if percent > 0 {
            svg.line("grid", (x, top - 4.0), (x, bottom - 4.0));
        }
        svg.text("tick", Anchor::Middle, (x, bottom + 13.0), &format!("{percent} %"));
    }
    // Over the grid, which would cover one at 100 %.
    for (from, to) in marks {
        svg.line("needed", from, to);
    }
    if is_alone {
        for (index, note) in notes.iter().enumerate() {
            svg.text("tick", Anchor::Start, (16.0, bottom + 37.0 + 17.0 * index as f64), note);
        }
    }
    svg
}

/// As a part of what the baseline receives; `None` where that is nothing.
fn share(base: &Row, row: &Row) -> Option<f64> {
    let old = base.received_per_unit?.median;
    (old > 0.0).then_some(row.received_per_unit?.median / old)
}

/// What had to be received, likewise.
fn needed_share(base: &Row) -> Option<f64> {
    let old = base.received_per_unit?.median;
    (old > 0.0).then_some(base.needed_per_unit?.median / old)
}

/// `7.00, 7.00, 0`
fn figures(line: &Line) -> String {
    let all = std::iter::once(Some(line.base)).chain(line.others.iter().copied());
    let words: Vec<String> =
        all.map(|row| crate::numbers::median(row.and_then(|row| row.received_per_unit))).collect();
    words.join(" \u{2192} ")
}

fn cut(name: &str) -> String {
    match name.chars().count() > 21 {
        true => name.chars().take(20).chain(['\u{2026}']).collect(),
        false => name.into(),
    }
}

fn title(summary: &Summary) -> String {
    let baseline = &summary.names[0];
    match &summary.kernel {
        Some(kernel) => format!("TLB shootdowns received, as a share of mode {baseline} (kernel {kernel})"),
        None => format!("TLB shootdowns received, as a share of {baseline}"),
    }
}

fn condition(results: &Results, summary: &Summary) -> String {
    let environment = &results.environment;
    let mut parts: Vec<String> = summary.place().into_iter().collect();
    parts.push(format!("median of {}", summary.repeats()));
    let release =
        environment.kernels.first().and_then(|kernel| kernel.release.as_ref().or(kernel.base.as_ref()));
    parts.extend(release.map(|release| format!("Linux {release}")));
    parts.extend(
        environment.qemu.as_ref().map(|qemu| format!("emulated by QEMU {} ({})", qemu.version, qemu.accel)),
    );
    parts.extend(environment.date.split('T').next().filter(|date| !date.is_empty()).map(String::from));
    parts.join(", ")
}

/// The condition, and what the bars leave out.
fn notes(results: &Results, summary: &Summary, lines: &[&Line]) -> Vec<String> {
    let names = |wanted: &dyn Fn(&Line) -> bool| {
        let all: Vec<String> =
            summary.lines.iter().filter(|line| wanted(line)).map(|line| line.name.clone()).collect();
        (!all.is_empty()).then(|| list(&all))
    };
    let is_drawn = |line: &Line| lines.iter().any(|drawn| drawn.name == line.name);
    let is_shared = |line: &Line| results.is_shared(line.base);
    let mut notes = vec![condition(results, summary)];
    notes.extend(
        names(&|line| is_drawn(line) && is_shared(line))
            .map(|names| format!("Every thread uses every page, so there is nothing to gain: {names}.")),
    );
    notes.extend(names(&|line| line.is_silent()).map(|names| format!("No shootdown in any: {names}.")));
    notes.extend(
        names(&|line| is_drawn(line) && line.base.noisy)
            .map(|names| format!("The repeats of {} spread over 10 %: {names}.", summary.names[0])),
    );
    notes
}

fn spoken(summary: &Summary, lines: &[&Line]) -> String {
    let change = |line: &Line| {
        let last = line.others.len().checked_sub(1).and_then(|last| line.change(last));
        match last {
            Some(Change::Percent(change)) => format!("{} {}", line.name, percent(change)),
            Some(Change::Same) => format!("{} the same", line.name),
            _ => format!(
                "{} {}",
                line.name,
                figure(line.base.received_per_unit.map_or(0.0, |spread| spread.median))
            ),
        }
    };
    let words: Vec<String> = lines.iter().map(|line| change(line)).collect();
    format!("{}. {}.", title(summary), words.join(", "))
}
