// SPDX-License-Identifier: GPL-2.0-only
//! The report's pictures: a curve per kernel over threads, and bars side by side.

use super::section;
use crate::chart::{self, Bar, Series};
use crate::finding;
use crate::svg::{escape, Svg};
use ceasefire_base::text::count;
use ceasefire_results::schema::{Results, Row};
use std::collections::BTreeSet;

pub(super) fn plots(results: &Results, page: &mut String) {
    let rows = finding::shown(results);
    let panels: Vec<(&str, Vec<&Row>)> =
        by_workload(&rows).into_iter().filter(|(_, rows)| thread_counts(rows).len() > 1).collect();
    if panels.is_empty() {
        return;
    }
    section(page, "Received per unit of work, by threads");
    page.push_str(
        "<p class=\"note\">CPUs interrupted per unit of work. Points are medians, bars reach from the smallest to the largest \
         repeat, axes are linear and start at zero. Each workload has its own unit and its own scale.</p>\n",
    );
    let labels = labels(&panels);
    legend(page, &labels);
    page.push_str("<div class=\"grid\">\n");
    for (name, rows) in &panels {
        let what = format!("received per {}", rows[0].unit);
        // Every panel gets every series, so that a colour and a shape mean the same kernel everywhere.
        let mut series: Vec<Series> =
            labels.iter().map(|label| Series { label: label.clone(), points: Vec::new() }).collect();
        for (label, members) in series_of(rows) {
            let Some(target) = series.iter_mut().find(|series| series.label == label) else { continue };
            target.points = members
                .iter()
                .filter_map(|&index| Some((rows[index].threads, rows[index].received_per_unit?)))
                .collect();
            target.points.sort_by_key(|point| point.0);
        }
        page.push_str(&format!(
            "<figure>{}{}</figure>\n",
            caption(results, name, &what, true),
            chart::lines(name, &what, &series)
        ));
    }
    page.push_str("</div>\n");
}

fn labels(panels: &[(&str, Vec<&Row>)]) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for (_, rows) in panels {
        for (label, _) in series_of(rows) {
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
    }
    labels
}

/// A kernel, a mode, and the machine's shape where one thread count was measured on several.
fn series_of(rows: &[&Row]) -> Vec<(String, Vec<usize>)> {
    let is_same = |a: &Row, b: &Row| a.kernel_label() == b.kernel_label() && a.threads == b.threads;
    let has_shapes = rows.iter().enumerate().any(|(index, a)| rows[..index].iter().any(|b| is_same(a, b)));
    let mut series: Vec<(String, Vec<usize>)> = Vec::new();
    for label in finding::kernels(rows) {
        let members = rows.iter().enumerate().filter(|(_, row)| row.kernel_label() == label);
        for (index, row) in members {
            let mut name = label.clone();
            if has_shapes {
                name.push_str(&format!(", {}", count(u64::from(row.vcpus), "vCPU")));
                if row.nodes > 1 {
                    name.push_str(&format!(" in {} nodes", row.nodes));
                }
                if let Some(mode) = &row.thread_mode {
                    name.push_str(&format!(" ({mode})"));
                }
                if let Some(set) = &row.set {
                    name.push_str(&format!(", {set}"));
                }
            }
            match series.iter_mut().find(|(known, _)| *known == name) {
                Some((_, members)) => members.push(index),
                None => series.push((name, vec![index])),
            }
        }
    }
    series
}

/// Workloads in the file's order, each with its rows.
fn by_workload<'a>(rows: &[&'a Row]) -> Vec<(&'a str, Vec<&'a Row>)> {
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

fn caption(results: &Results, workload: &str, what: &str, says_more: bool) -> String {
    let about = results.about(workload);
    let group = about.map_or("", |about| about.group.as_str());
    let tag = if group.is_empty() { String::new() } else { format!("<i>{}</i>", escape(group)) };
    let about = about.filter(|_| says_more);
    let words = about.map_or_else(String::new, |about| format!("<br>{}", escape(&about.about)));
    let is_shared = about.is_some_and(|about| about.shared);
    let nil = if is_shared { " Fully shared: no design may gain here." } else { "" };
    format!("<figcaption>{tag}<b>{}</b>{}{words}{nil}</figcaption>", escape(workload), escape(what))
}

/// Colours and shapes mean the same kernel in every picture.
fn legend(page: &mut String, labels: &[String]) {
    if labels.len() < 2 {
        return;
    }
    page.push_str("<ul class=\"legend\">");
    for (index, label) in labels.iter().enumerate() {
        let mut svg = Svg::new(12.0, 12.0, "");
        svg.mark(&chart::colour_class(index), index, (6.0, 6.0), label);
        page.push_str(&format!(
            "<li>{}{}</li>",
            svg.finish().replace(" role=\"img\" aria-label=\"\"", " aria-hidden=\"true\""),
            escape(label)
        ));
    }
    page.push_str("</ul>\n");
}

/// Several kernels: received, side by side, at the most threads they share. One kernel: the workloads that
/// have no curve, with what became of their flush requests.
pub(super) fn bars(results: &Results, page: &mut String) {
    let rows = finding::shown(results);
    let kernels = finding::kernels(&rows);
    if kernels.len() > 1 {
        side_by_side(results, &rows, &kernels, page);
        return;
    }
    let single: Vec<(&str, Vec<&Row>)> =
        by_workload(&rows).into_iter().filter(|(_, rows)| thread_counts(rows).len() == 1).collect();
    if single.is_empty() {
        return;
    }
    section(page, "Measured at one thread count");
    page.push_str("<p class=\"note\">Flush requests, shootdowns sent, and CPUs that received one, per unit of work. Each picture has its own scale.</p>\n");
    page.push_str("<div class=\"grid\">\n");
    for (name, rows) in single {
        let row = rows[rows.len() - 1];
        let what = format!("per {}, at {}", row.unit, count(u64::from(row.threads), "thread"));
        let list: Vec<Bar> = [
            ("requested", 5, row.requested_per_unit),
            ("sent", 1, row.sent_per_unit),
            ("received", 0, row.received_per_unit),
        ]
        .into_iter()
        .filter_map(|(label, colour, value)| Some(Bar { label: label.into(), colour, value: value? }))
        .collect();
        page.push_str(&format!(
            "<figure>{}{}</figure>\n",
            caption(results, name, &what, true),
            chart::bars(name, &what, &list)
        ));
    }
    page.push_str("</div>\n");
}

fn side_by_side(results: &Results, rows: &[&Row], kernels: &[String], page: &mut String) {
    let mut figures = String::new();
    for (name, rows) in by_workload(rows) {
        let Some(base) = rows
            .iter()
            .filter(|row| row.kernel_label() == kernels[0])
            .filter(|row| {
                rows.iter().any(|other| other.kernel_label() != kernels[0] && row.is_same_work(other))
            })
            .max_by_key(|row| (row.threads, row.vcpus))
        else {
            continue;
        };
        // Described above already, where it has a curve.
        let has_plot = thread_counts(&rows).len() > 1;
        let what = format!("received per {}, at {}", base.unit, count(u64::from(base.threads), "thread"));
        let list: Vec<Bar> = kernels
            .iter()
            .enumerate()
            .filter_map(|(colour, label)| {
                let row = rows.iter().find(|row| row.kernel_label() == *label && row.is_same_work(base))?;
                Some(Bar { label: label.clone(), colour, value: row.received_per_unit? })
            })
            .collect();
        figures.push_str(&format!(
            "<figure>{}{}</figure>\n",
            caption(results, name, &what, !has_plot),
            chart::bars(name, &what, &list)
        ));
    }
    if figures.is_empty() {
        return;
    }
    section(page, "Kernels side by side");
    page.push_str("<p class=\"note\">The same work on each kernel, at the largest thread count they share. Lengths compare kernels within one picture, not pictures.</p>\n");
    page.push_str(&format!("<div class=\"grid\">\n{figures}</div>\n"));
}
