// SPDX-License-Identifier: GPL-2.0-only
//! The report: one HTML file that needs nothing else.

pub(crate) mod controls;
pub(crate) mod notes;
pub(crate) mod parts;
mod plots;
pub(crate) mod tables;

use crate::finding;
use crate::rows;
use ceasefire_base::text::count;
use ceasefire_base::Result;
use ceasefire_results::Results;
use maud::{html, Markup};
use parts::Level;
use std::collections::BTreeSet;

/// Refuses, in one sentence, if a control failed.
pub fn html(results: &Results) -> Result<String> {
    results.reportable()?;
    let body = html! {
        (head(results))
        (plots::first(results))
        (controls::controls(results))
        (plots::plots(results))
        (plots::bars(results))
        (tables::counts(results, Level::Section))
        (tables::cost(results, Level::Section))
        (notes::missing(results))
        (notes::environment(results))
        (notes::definitions(results))
        (notes::reproduce(results))
    };
    let written =
        format!("Written by ceasefire {} from a {} file.", results.environment.ceasefire, results.schema);
    Ok(parts::document(&title(results), &body, &written))
}

fn head(results: &Results) -> Markup {
    let environment = &results.environment;
    html! {
        p.eyebrow { "Ceasefire lab report" }
        h1 { (title(results)) }
        p { (finding::SHOOTDOWN) @if let Some(subject) = finding::subject(results) { " " (subject) } }
        @for sentence in finding::sentences(results) { p.finding { (sentence) } }
        (controls::sentence(results))
        ul.facts { @for fact in facts(results) { li { (fact) } } }
        @if environment.qemu.as_ref().is_some_and(|qemu| qemu.accel.starts_with("tcg")) {
            p.note {
                "Measured on an emulated machine: how often something happens can be counted there, how long it takes cannot. \
                 No times are shown."
            }
        }
    }
}

fn facts(results: &Results) -> Vec<String> {
    let environment = &results.environment;
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
    facts.extend(environment.qemu.as_ref().map(|qemu| format!("QEMU {}, {}", qemu.version, qemu.accel)));
    facts
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
    let listed =
        |numbers: &BTreeSet<u32>| rows::list(&numbers.iter().map(u32::to_string).collect::<Vec<_>>());
    let largest = *vcpus.last()?;
    let words = format!("{} {}", listed(&vcpus), if largest == 1 { "vCPU" } else { "vCPUs" });
    Some(match nodes.last() {
        Some(&most) if most > 1 => format!("{words} in {} nodes", listed(&nodes)),
        _ => words,
    })
}
