// SPDX-License-Identifier: GPL-2.0-only
//! The report's pictures: what is left of the baseline's count, a curve per kernel over threads, and bars side by side.

use super::parts::{figure, note, section};
use crate::chart::{self, Bar, Series};
use crate::picture;
use crate::rows;
use crate::summary::Summary;
use crate::svg::Svg;
use ceasefire_base::text::count;
use ceasefire_results::schema::{Condition, Results, Row};
use maud::{html, Markup};
use std::collections::BTreeSet;

/// All workloads at once, where there is something to compare.
pub(super) fn first(results: &Results) -> Markup {
    let summary = Summary::of(results);
    if !summary.is_compared() || summary.lines.iter().all(|line| line.is_silent()) {
        return html! {};
    }
    let place = summary.place().unwrap_or_else(|| "most threads".into());
    let needed = match summary.knows_needed() {
        true => format!(" The mark is what {} needed.", summary.names[0]),
        false => String::new(),
    };
    html! {
        (section("What is left of the baseline\u{2019}s shootdowns"))
        (note(&format!("Received per unit of work at {place}, as a share of {}. Gains stand first.{needed}", summary.names[0])))
        figure.picture { (picture::inside(results, &summary)) }
    }
}

pub(super) fn plots(results: &Results) -> Markup {
    let rows = rows::shown(results);
    let all: Vec<(&str, Vec<&Row>)> =
        by_workload(&rows).into_iter().filter(|(_, rows)| thread_counts(rows).len() > 1).collect();
    // A flat line at zero is a sentence.
    let is_silent =
        |rows: &[&Row]| rows.iter().all(|row| row.received_per_unit.map_or(true, |spread| spread.max == 0.0));
    let (silent, panels): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, rows)| is_silent(rows));
    if panels.is_empty() && silent.is_empty() {
        return html! {};
    }
    let labels = labels(&panels);
    html! {
        (section("Received per unit of work, by threads"))
        (note("CPUs interrupted per unit of work. Points are medians, bars reach from the smallest to the largest repeat, \
               axes are linear and start at zero. Each workload has its own unit and its own scale."))
        @if !silent.is_empty() {
            @let names: Vec<String> = silent.iter().map(|(name, _)| name.to_string()).collect();
            (note(&format!("No CPU is interrupted at any number of threads in {}.", rows::list(&names))))
        }
        (legend(&labels))
        div.grid {
            @for (name, rows) in &panels {
                @let what = format!("received per {}", rows[0].unit);
                (figure(&caption(results, name, &what, true), &chart::lines(name, &what, &curves(rows, &labels))))
            }
        }
    }
}

/// Every panel gets every series, so that a colour and a shape mean the same kernel everywhere.
fn curves(rows: &[&Row], labels: &[String]) -> Vec<Series> {
    let mut series: Vec<Series> =
        labels.iter().map(|label| Series { label: label.clone(), points: Vec::new() }).collect();
    for (label, members) in series_of(rows) {
        let Some(target) = series.iter_mut().find(|series| series.label == label) else { continue };
        target.points =
            members.iter().filter_map(|row| Some((row.threads, row.received_per_unit?))).collect();
        target.points.sort_by_key(|point| point.0);
    }
    series
}

fn labels(panels: &[(&str, Vec<&Row>)]) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for (label, _) in panels.iter().flat_map(|(_, rows)| series_of(rows)) {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    labels
}

/// A kernel, a mode, and the condition where one thread count was measured under several.
fn series_of<'a>(rows: &[&'a Row]) -> Vec<(String, Vec<&'a Row>)> {
    let is_same = |a: &Row, b: &Row| a.kernel_label() == b.kernel_label() && a.threads == b.threads;
    let is_twice = rows.iter().enumerate().any(|(index, a)| rows[..index].iter().any(|b| is_same(a, b)));
    let told = if is_twice { Condition::telling(rows) } else { Vec::new() };
    let mut series: Vec<(String, Vec<&Row>)> = Vec::new();
    for label in rows::kernels(rows) {
        for row in rows.iter().filter(|row| row.kernel_label() == label) {
            let words = told.iter().filter_map(|condition| (condition.words)(row));
            let name = std::iter::once(label.clone()).chain(words).collect::<Vec<_>>().join(", ");
            match series.iter_mut().find(|(known, _)| *known == name) {
                Some((_, members)) => members.push(row),
                None => series.push((name, vec![row])),
            }
        }
    }
    series
}

/// Workloads in the file's order, each with its rows.
pub(super) fn by_workload<'a>(rows: &[&'a Row]) -> Vec<(&'a str, Vec<&'a Row>)> {
    let mut groups: Vec<(&str, Vec<&Row>)> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|(name, _)| *name == row.workload) {
            Some((_, members)) => members.push(row),
            None => groups.push((&row.workload, vec![row])),
        }
    }
    groups
}

fn thread_counts(rows: &[&Row]) -> BTreeSet<u32> {
    rows.iter().map(|row| row.threads).collect()
}

fn caption(results: &Results, workload: &str, what: &str, says_more: bool) -> Markup {
    let about = results.about(workload);
    let is_shared =
        results.rows.iter().filter(|row| row.workload == workload).all(|row| results.is_shared(row));
    html! {
        figcaption {
            @if let Some(about) = about.filter(|about| !about.group.is_empty()) { i { (about.group) } }
            b { (workload) } (what)
            @if let Some(about) = about.filter(|_| says_more) {
                br; (about.about)
                @if is_shared { " Fully shared: no design may gain here." }
            }
        }
    }
}

/// Colours and shapes mean the same kernel in every picture.
fn legend(labels: &[String]) -> Markup {
    html! {
        @if labels.len() > 1 {
            ul.legend { @for (index, label) in labels.iter().enumerate() { li { (mark(index, label)) (label) } } }
        }
    }
}

fn mark(index: usize, label: &str) -> Markup {
    let mut svg = Svg::new(12.0, 12.0, "");
    svg.mark(&chart::colour_class(index), index, (6.0, 6.0), label);
    svg.silent()
}

/// Several kernels: received, side by side, at the most threads they share. One kernel: the workloads that
/// have no curve, with what became of their flush requests.
pub(super) fn bars(results: &Results) -> Markup {
    let rows = rows::shown(results);
    let kernels = rows::kernels(&rows);
    if kernels.len() > 1 {
        return side_by_side(results, &rows, &kernels);
    }
    let single: Vec<(&str, Vec<&Row>)> =
        by_workload(&rows).into_iter().filter(|(_, rows)| thread_counts(rows).len() == 1).collect();
    if single.is_empty() {
        return html! {};
    }
    html! {
        (section("Measured at one thread count"))
        (note("Flush requests, shootdowns sent, and CPUs that received one, per unit of work; and those that had to, where \
               the machine was asked. Each picture has its own scale."))
        div.grid {
            @for (name, rows) in single {
                @let row = rows[rows.len() - 1];
                @let what = format!("per {}, at {}", row.unit, count(u64::from(row.threads), "thread"));
                (figure(&caption(results, name, &what, true), &chart::bars(name, &what, &requests(row))))
            }
        }
    }
}

fn requests(row: &Row) -> Vec<Bar> {
    [
        ("requested", 5, row.requested_per_unit),
        ("sent", 1, row.sent_per_unit),
        ("received", 0, row.received_per_unit),
        ("needed", 2, row.needed_per_unit),
    ]
    .into_iter()
    .filter_map(|(label, colour, value)| Some(Bar { label: label.into(), colour, value: value? }))
    .collect()
}

fn side_by_side(results: &Results, rows: &[&Row], kernels: &[String]) -> Markup {
    let mut figures = Vec::new();
    for (name, rows) in by_workload(rows) {
        let has_partner = |row: &&&Row| {
            row.kernel_label() == kernels[0]
                && rows.iter().any(|other| other.kernel_label() != kernels[0] && row.is_same_work(other))
        };
        let Some(base) = rows.iter().filter(has_partner).max_by_key(|row| (row.threads, row.vcpus)) else {
            continue;
        };
        // Described above already, where it has a curve.
        let has_plot = thread_counts(&rows).len() > 1;
        let what = format!("received per {}, at {}", base.unit, count(u64::from(base.threads), "thread"));
        let bar = |(colour, label): (usize, &String)| {
            let row = rows.iter().find(|row| row.kernel_label() == *label && row.is_same_work(base))?;
            Some(Bar { label: label.clone(), colour, value: row.received_per_unit? })
        };
        let list: Vec<Bar> = kernels.iter().enumerate().filter_map(bar).collect();
        if list.iter().any(|bar| bar.value.max > 0.0) {
            figures.push(figure(&caption(results, name, &what, !has_plot), &chart::bars(name, &what, &list)));
        }
    }
    html! {
        @if !figures.is_empty() {
            (section("Kernels side by side"))
            (note("The same work on each kernel, at the largest thread count they share. Lengths compare kernels within one \
                   picture, not pictures."))
            div.grid { @for figure in figures { (figure) } }
        }
    }
}
