// SPDX-License-Identifier: GPL-2.0-only
//! The report: one HTML file that needs nothing else. No script, no network; every text is escaped.

pub(crate) mod controls;
pub(crate) mod notes;
mod plots;
pub(crate) mod tables;

use crate::finding;
use crate::svg::escape;
use ceasefire_base::text::count;
use ceasefire_base::Result;
use ceasefire_results::schema::Results;
use std::collections::BTreeSet;

pub(crate) const STYLE: &str = include_str!("page/style.css");

/// Refuses, in one sentence, if a control failed.
pub fn html(results: &Results) -> Result<String> {
    results.reportable()?;
    let mut page = String::with_capacity(64 * 1024);
    head(results, &mut page);
    controls::controls(results, &mut page);
    plots::plots(results, &mut page);
    plots::bars(results, &mut page);
    tables::counts(results, &mut page);
    tables::cost(results, &mut page);
    notes::missing(results, &mut page);
    notes::environment(results, &mut page);
    notes::definitions(results, &mut page);
    notes::reproduce(results, &mut page);
    page.push_str(&format!(
        "<footer>Written by ceasefire {} from a {} file. This page loads nothing and runs no script.</footer>\n</main>\n</body>\n</html>\n",
        escape(&results.environment.ceasefire),
        escape(&results.schema)
    ));
    Ok(page)
}

fn head(results: &Results, page: &mut String) {
    let environment = &results.environment;
    let title = title(results);
    open(&title, page);
    page.push_str(&format!("<p class=\"eyebrow\">Ceasefire lab report</p>\n<h1>{}</h1>\n", escape(&title)));
    for sentence in finding::sentences(results) {
        page.push_str(&format!("<p class=\"finding\">{}</p>\n", escape(&sentence)));
    }
    let mut facts: Vec<String> = Vec::new();
    if !environment.date.is_empty() {
        facts.push(readable_date(&environment.date));
    }
    facts.push(count(results.rows.len() as u64, "row"));
    let (low, high) = repeats(results);
    facts.push(if low == high {
        count(low, "repeat") + " each"
    } else {
        format!("{low} to {high} repeats each")
    });
    facts.extend(shapes(results));
    if let Some(qemu) = &environment.qemu {
        facts.push(format!("QEMU {}, {}", qemu.version, qemu.accel));
    }
    let items: Vec<String> = facts.iter().map(|fact| format!("<li>{}</li>", escape(fact))).collect();
    page.push_str(&format!("<ul class=\"facts\">{}</ul>\n", items.join("")));
    if environment.qemu.as_ref().is_some_and(|qemu| qemu.accel.starts_with("tcg")) {
        page.push_str(
            "<p class=\"note\">Measured on an emulated machine: how often something happens can be counted there, \
             how long it takes cannot. No times are shown.</p>\n",
        );
    }
}

/// Everything before a page's first words.
pub(crate) fn open(title: &str, page: &mut String) {
    page.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n");
    page.push_str("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n");
    page.push_str(&format!(
        "<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        escape(title)
    ));
}

/// `2026-03-01T12:00:00Z` as `2026-03-01 12:00 UTC`; anything else as it is.
pub(crate) fn readable_date(date: &str) -> String {
    match date.strip_suffix('Z').and_then(|date| date.split_once('T')) {
        Some((day, time)) if time.len() >= 5 && time.is_ascii() => format!("{day} {} UTC", &time[..5]),
        _ => date.to_string(),
    }
}

fn title(results: &Results) -> String {
    let mut releases: Vec<&str> = Vec::new();
    for kernel in &results.environment.kernels {
        if let Some(release) = kernel.release.as_deref().or(kernel.base.as_deref()) {
            if !releases.contains(&release) {
                releases.push(release);
            }
        }
    }
    match releases.as_slice() {
        [] => "TLB shootdowns".into(),
        [one] => format!("TLB shootdowns on Linux {one}"),
        several => format!("TLB shootdowns on {} kernels", several.len()),
    }
}

fn repeats(results: &Results) -> (u64, u64) {
    let all = || results.rows.iter().map(|row| u64::from(row.repeats));
    (all().min().unwrap_or(0), all().max().unwrap_or(0))
}

/// `1 and 8 vCPUs`, or `16 vCPUs in 4 nodes`.
fn shapes(results: &Results) -> Option<String> {
    let vcpus: BTreeSet<u32> = results.rows.iter().map(|row| row.vcpus).collect();
    let nodes: BTreeSet<u32> = results.rows.iter().map(|row| row.nodes.max(1)).collect();
    let largest = *vcpus.last()?;
    let mut words = format!("{} {}", listed(&vcpus), if largest == 1 { "vCPU" } else { "vCPUs" });
    if nodes.last().is_some_and(|&most| most > 1) {
        words.push_str(&format!(" in {} nodes", listed(&nodes)));
    }
    Some(words)
}

/// `1, 2 and 8`
fn listed(numbers: &BTreeSet<u32>) -> String {
    let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
    match words.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

pub(crate) fn section(page: &mut String, title: &str) {
    page.push_str(&format!("<h2>{}</h2>\n", escape(title)));
}

pub(crate) fn open_table(page: &mut String, label: &str) {
    page.push_str(&format!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\"><table>\n",
        escape(label)
    ));
}
