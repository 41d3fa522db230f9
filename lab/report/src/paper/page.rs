// SPDX-License-Identifier: GPL-2.0-only
//! The evaluation as one HTML file that needs nothing else: each figure of the paper, ours beside it, and what differs.

use super::{found, words};
use crate::chart::{self, Across, Bar, Series};
use crate::numbers::{figure as number, prose_percent as percent, with_range, ABSENT};
use crate::page::parts::{document, figure as picture, head, items, note, section, table, Level};
use crate::page::{controls, notes, readable_date, tables};
use crate::table::missing_sentence;
use ceasefire_base::text::count;
use ceasefire_base::Result;
use ceasefire_results::paper::figures::{Axis, Figure, Quantity, EVALUATIONS};
use ceasefire_results::paper::{is_off, left, with_others, Compared, Loss, Measured, Paper};
use ceasefire_results::schema::{self, Row};
use ceasefire_results::stats::Spread;
use maud::{html, Markup};

/// More than this many rises are folded away: the worst stand above.
const LOSSES_SHOWN: usize = 8;

/// Refuses, in one sentence, if a control failed.
pub fn html(paper: &Paper) -> Result<String> {
    for measured in &paper.figures {
        paper.results(measured).reportable()?;
    }
    let mut whole = schema::Results::new(paper.environment.clone());
    whole.controls = paper.controls.clone();
    let body = html! {
        (lead(paper, &whole))
        (summary(paper))
        @for figure in paper.table().figures { (one(paper, figure)) }
        (controls::controls(&whole))
        (notes::environment(&whole))
        (notes::definitions(&whole))
        (notes::reproduce(&whole))
    };
    let written =
        format!("Written by ceasefire {} in the form {}.", paper.environment.ceasefire, paper.schema);
    Ok(document(paper.table().title, &body, &written))
}

/// A true minus sign, for a page.
fn minus(text: &str) -> String {
    text.replace('-', "\u{2212}")
}

fn lead(paper: &Paper, whole: &schema::Results) -> Markup {
    let table = paper.table();
    let facts = [
        readable_date(&paper.environment.date),
        format!("{} of {} figures", paper.figures.len(), table.figures.len()),
        paper.times() + " each",
        paper.kernels.join(", "),
    ];
    html! {
        p.eyebrow { "Ceasefire lab" }
        h1 { (table.title) }
        @for sentence in words::sentences(paper) { p.finding { (sentence.replace(" -", " \u{2212}")) } }
        (controls::sentence(whole))
        ul.facts { @for fact in facts.iter().filter(|fact| !fact.is_empty()) { li { (fact) } } }
        (note(&format!("The paper is {}. What differs in every figure:", table.paper)))
        (items(table.differs.iter().map(|words| words.to_string())))
    }
}

fn summary(paper: &Paper) -> Markup {
    let of = |measured: &Measured| -> Vec<(String, Compared)> {
        measured.compared.iter().map(|entry| (measured.section.clone(), entry.clone())).collect()
    };
    let all: Vec<(String, Compared)> = paper.figures.iter().flat_map(of).collect();
    let unmeasured: Vec<&Figure> =
        paper.table().figures.iter().filter(|figure| paper.figure(figure.id).is_none()).collect();
    html! {
        (section("The paper's figures and ours"))
        (note("Against the unchanged kernel. A dash means not measured, which is not zero. Figures without a claim of the \
               paper stand below alone."))
        (claims(all.iter().map(|(section, entry)| (section.as_str(), entry)).collect()))
        @if !unmeasured.is_empty() {
            h3.doubt { "Not measured in this file" }
            ul.plain {
                @for figure in unmeasured {
                    li { (figure.title) " (" (figure.section) "): " code { (again(paper, figure)) } }
                }
            }
        }
    }
}

/// What measures it.
fn again(paper: &Paper, figure: &Figure) -> String {
    match paper.table().id {
        id if id == EVALUATIONS[0].id => format!("ceasefire lab paper --only {}", figure.id),
        id => format!("ceasefire lab paper {id} --only {}", figure.id),
    }
}

fn claims(entries: Vec<(&str, &Compared)>) -> Markup {
    if entries.is_empty() {
        return html! {};
    }
    let titles = [
        ("what", true),
        ("the paper", true),
        ("here", false),
        ("unchanged", false),
        ("changed", false),
        ("condition", true),
    ];
    let inner =
        html! { (head(&titles)) tbody { @for (section, entry) in entries { (claim(section, entry)) } } };
    table("The paper's figures and ours", &inner)
}

fn claim(section: &str, entry: &Compared) -> Markup {
    let (class, verdict) = match (entry.is_reached(), entry.percent) {
        (Some(true), _) => ("good", "reached".to_string()),
        (Some(false), Some(found)) => {
            let word = if entry.paper_percent > 0.0 { "over" } else { "short" };
            ("bad", format!("{word} by {:.1} points", found - entry.paper_percent))
        }
        _ if entry.is_aside => ("doubt", "beside it, not judged".to_string()),
        _ => ("doubt", String::new()),
    };
    let spread = |spread: Option<Spread>| spread.map_or_else(|| ABSENT.into(), with_range);
    let is_ratio = entry.unit.is_empty() || entry.quantity == Quantity::Targets.words();
    html! {
        tr {
            th.text scope="row" { (entry.workload) small { (entry.quantity) @if !is_ratio { " per " (entry.unit) } } }
            td.text { (percent(entry.paper_percent)) small { (entry.paper_words) "; " (section) } }
            td { (minus(&found(entry))) small class=(class) { (verdict) } }
            td { (spread(entry.baseline)) }
            td {
                (spread(entry.here))
                @if let Some(pages) = entry.elided.filter(|pages| pages.max > 0.0) {
                    small { (number(pages.median)) " pages elided" }
                }
            }
            td.text {
                (entry.kernel)
                small {
                    // How many repeats is said above, once for all.
                    @if entry.repeats > 0 {
                        (count(u64::from(entry.vcpus), "vCPU"))
                        @if entry.threads != entry.vcpus { ", " (count(u64::from(entry.threads), "thread")) }
                    }
                }
            }
        }
    }
}

fn one(paper: &Paper, figure: &'static Figure) -> Markup {
    html! {
        (section(figure.title))
        (note(&format!("In the paper: section {}. {}", figure.section, figure.shows)))
        @match paper.figure(figure.id) {
            Some(measured) => (whole(paper, figure, measured)),
            None => p.doubt { "Not measured in this file: " code { (again(paper, figure)) } },
        }
    }
}

fn whole(paper: &Paper, figure: &'static Figure, measured: &Measured) -> Markup {
    let results = paper.results(measured);
    let differs = figure.differs.iter().copied().chain([figure.unanswered]).map(String::from);
    html! {
        (pictures(paper, figure, measured))
        (claims(measured.compared.iter().map(|entry| (measured.section.as_str(), entry)).collect()))
        (losses(&measured.losses))
        @for (class, word, list) in [("doubt", "Skipped", &measured.skipped), ("bad", "Failed", &measured.failed)] {
            @if !list.is_empty() {
                h3 class=(class) { (word) " (" (list.len()) ")" }
                (items(list.iter().map(missing_sentence)))
            }
        }
        h3 { "What differs" }
        (items(differs))
        details {
            summary { (count(measured.rows.len() as u64, "row")) " and " (count(measured.commands.len() as u64, "command")) }
            (tables::counts(&results, Level::Inner))
            (tables::cost(&results, Level::Inner))
            h3 { "Each boot alone" }
            pre tabindex="0" { code { @for command in &measured.commands { (command) "\n" } } }
        }
    }
}

/// Beside every gain what it cost, or moved to.
fn losses(losses: &[Loss]) -> Markup {
    let mut worst: Vec<&Loss> = losses.iter().collect();
    worst.sort_by(|a, b| b.percent.unwrap_or(f64::INFINITY).total_cmp(&a.percent.unwrap_or(f64::INFINITY)));
    let (shown, folded) = worst.split_at(worst.len().min(LOSSES_SHOWN));
    html! {
        h3 { "What rose" }
        @if losses.is_empty() {
            (note("Nothing beyond the spread of the repeats: not other IPIs, full flushes, walks, faults or cost."))
        } @else {
            (loss_table(shown))
        }
        @if !folded.is_empty() { details { summary { (folded.len()) " more" } (loss_table(folded)) } }
    }
}

fn loss_table(losses: &[&Loss]) -> Markup {
    let titles = [
        ("row", true),
        ("what, per unit", true),
        ("change", false),
        ("unchanged", false),
        ("changed", false),
        ("on", true),
    ];
    let inner = html! {
        (head(&titles))
        tbody {
            @for loss in losses {
                tr {
                    th.text scope="row" { (loss.workload) @if let Some(at) = &loss.at { ", " (at) } }
                    td.text {
                        (schema::counter(&loss.figure).map_or(loss.figure.as_str(), |known| known.title))
                        " per " (loss.unit)
                    }
                    td { (loss.percent.map_or_else(|| "from zero".into(), percent)) }
                    td { (with_range(loss.baseline)) }
                    td { (with_range(loss.here)) }
                    td.text { (loss.kernel) ", " (count(u64::from(loss.threads), "thread")) }
                }
            }
        }
    };
    table("What rose", &inner)
}

fn pictures(paper: &Paper, figure: &'static Figure, measured: &Measured) -> Markup {
    let (is_wide, pictures) = match figure.axis {
        Axis::Workloads => (false, side_by_side(paper, figure, measured)),
        Axis::Vcpus => (true, curves(paper, figure, measured, ("vCPUs", "vCPU"), |row| row.vcpus)),
        Axis::Threads => (true, curves(paper, figure, measured, ("threads", "thread"), |row| row.threads)),
        Axis::Points(title) => (true, shares(paper, figure, measured, title)),
    };
    html! { div.grid.wide[is_wide] { @for picture in pictures { (picture) } } }
}

fn caption(title: &str, what: &str) -> Markup {
    html! { figcaption { b { (title) } (what) } }
}

/// As a picture says it.
fn per_unit(quantity: Quantity, unit: &str) -> String {
    match quantity {
        Quantity::Targets => quantity.words().to_string(),
        _ if quantity.is_of_run() => quantity.words().to_string(),
        _ => format!("{} per {unit}", quantity.words()),
    }
}

/// One picture a workload: its kernels' bars, the paper's word in the caption.
fn side_by_side(paper: &Paper, figure: &'static Figure, measured: &Measured) -> Vec<Markup> {
    let mut pictures = Vec::new();
    for (name, work, _) in figure.shown() {
        for quantity in figure.plots {
            let row_of = |label: &String| {
                let of_it = |row: &&Row| {
                    work.is_of(row) && work.shown_of(row) == name && row.kernel_label() == *label
                };
                measured.rows.iter().filter(of_it).find(|row| quantity.get(row).is_some())
            };
            let bar = |(colour, label): (usize, &String)| {
                Some(Bar { label: label.clone(), colour, value: quantity.get(row_of(label)?)? })
            };
            let labels = with_others(&paper.kernels, &measured.rows);
            let bars: Vec<Bar> = labels.iter().enumerate().filter_map(bar).collect();
            // A workload that sends nothing is there for its cost, and one of shootdowns has none.
            let Some(row) = labels.iter().find_map(row_of).filter(|_| !bars.is_empty()) else { continue };
            let threads = count(u64::from(row.threads), "thread");
            let what = format!("{}, at {threads}", per_unit(*quantity, &row.unit));
            let is_it = |entry: &&Compared| entry.workload == name && entry.quantity == quantity.words();
            let claim = measured.compared.iter().find(is_it).map_or_else(String::new, |entry| {
                format!("; the paper {}, here {}", percent(entry.paper_percent), minus(&found(entry)))
            });
            pictures
                .push(picture(&caption(name, &format!("{what}{claim}")), &chart::bars(name, &what, &bars)));
        }
    }
    pictures
}

/// A curve for each kernel, in a picture for each workload; cost has one point alone, and so bars.
fn curves(
    paper: &Paper,
    figure: &'static Figure,
    measured: &Measured,
    (title, noun): (&str, &str),
    place: fn(&Row) -> u32,
) -> Vec<Markup> {
    let mut names: Vec<&str> = Vec::new();
    for (name, ..) in figure.shown() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut pictures = Vec::new();
    for (name, quantity) in names.iter().flat_map(|name| figure.plots.iter().map(move |plot| (*name, plot))) {
        let rows: Vec<&Row> = measured.rows.iter().filter(|row| figure.name_of(row) == name).collect();
        let series: Vec<Series> = paper
            .kernels
            .iter()
            .map(|label| {
                let rows = rows.iter().filter(|row| row.kernel_label() == *label);
                let mut points: Vec<(u32, Spread)> =
                    rows.filter_map(|row| Some((place(row), quantity.get(row)?))).collect();
                points.sort_by_key(|point| point.0);
                Series { label: label.clone(), points }
            })
            .collect();
        let what = per_unit(*quantity, rows.first().map_or("unit", |row| row.unit.as_str()));
        let most = series.iter().map(|series| series.points.len()).max().unwrap_or(0);
        let drawn = match most {
            0 => continue,
            1 => {
                let bar = |(colour, series): (usize, &Series)| {
                    let (_, value) = series.points.first()?;
                    Some(Bar { label: series.label.clone(), colour, value: *value })
                };
                let bars: Vec<Bar> = series.iter().enumerate().filter_map(bar).collect();
                chart::bars(name, &what, &bars)
            }
            _ => {
                let across = Across { title, noun, is_even: true, is_named: true, y_least: 0.0 };
                chart::lines_over(name, &what, &across, &series)
            }
        };
        let at = if most == 1 { ", at 1 vCPU" } else { "" };
        pictures.push(picture(&caption(name, &format!("{what}{at}")), &drawn));
    }
    pictures
}

/// What is left of the baseline's count, in per cent: a picture a kernel, a curve a workload.
fn shares(paper: &Paper, figure: &'static Figure, measured: &Measured, title: &str) -> Vec<Markup> {
    let Some((baseline, others)) = paper.kernels.split_first() else { return Vec::new() };
    let mut pictures = Vec::new();
    for kernel in others.iter().filter(|label| !is_off(label)) {
        for quantity in figure.plots {
            let series: Vec<Series> = left(figure, measured, *quantity, (baseline, kernel))
                .into_iter()
                .map(|(name, points)| Series { label: name.into(), points })
                .collect();
            if series.iter().all(|series| series.points.is_empty()) {
                continue;
            }
            let what = format!("{}, % of the unchanged kernel's; lower is better", quantity.words());
            let across = Across { title, noun: "", is_even: true, is_named: true, y_least: 100.0 };
            let drawn = chart::lines_over(kernel, &what, &across, &series);
            pictures.push(picture(&caption(kernel, &what), &drawn));
        }
    }
    pictures
}
