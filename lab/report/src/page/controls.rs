// SPDX-License-Identifier: GPL-2.0-only
//! The report's controls: one sentence for those who trust, a table for those who do not.

use super::parts::{head, note, section, table};
use crate::numbers::{grouped, ABSENT};
use crate::rows::promises;
use ceasefire_base::text::count;
use ceasefire_results::schema::{counter, Control, Results};
use ceasefire_results::Verdict;
use maud::{html, Markup};
use std::collections::BTreeSet;

/// A class and a sentence.
fn verdict(results: &Results) -> (&'static str, String) {
    let held = match results.controls.iter().filter(|control| control.ok == Some(true)).count() {
        1 => "The one control figure holds (within 1 %; a promise of zero exactly)".into(),
        n => format!("All {n} control figures hold (within 1 %; a promise of zero exactly)"),
    };
    match results.verdict() {
        Verdict::NoControl => {
            ("doubt", "No control ran: nothing in this file shows that its counts are right.".to_string())
        }
        Verdict::Partly(names) => {
            ("doubt", format!("{held} and {} could not be measured here.", count(names.len() as u64, "figure")))
        }
        Verdict::Proven => (
            "good",
            format!("{held}: workloads whose shootdowns are known beforehand, one of them none, counted by two sources."),
        ),
        // No page is made then.
        Verdict::Failed(names) => ("bad", format!("{} wrong.", count(names.len() as u64, "figure"))),
    }
}

/// The one sentence that stands above everything.
pub(crate) fn sentence(results: &Results) -> Markup {
    let (class, sentence) = verdict(results);
    html! { p class=(class) { (sentence) } }
}

pub(crate) fn controls(results: &Results) -> Markup {
    let copies = results
        .rows
        .iter()
        .filter(|row| !row.cost && row.received_per_unit.is_some() && !row.has_two_sources())
        .count();
    let promises = promises(&results.controls);
    // A long list that holds everywhere is folded; anything doubtful is shown at once.
    let is_open = promises.len() <= 6 || results.verdict() != Verdict::Proven;
    html! {
        (section("Controls"))
        @if let Some(sentence) = agreement(results) { (note(&sentence)) }
        @if copies > 0 {
            p.note {
                "In " (count(copies as u64, "row")) ", received is the interrupt row: no tracepoint could be read there."
            }
        }
        @if !promises.is_empty() {
            details open[is_open] {
                summary { (count(promises.len() as u64, "promise")) ", with what was counted" }
                (table("Controls", &of_promises(&promises)))
            }
        }
    }
}

/// Of the two sources of "received".
fn agreement(results: &Results) -> Option<String> {
    let both = results.rows.iter().filter(|row| row.has_two_sources()).count();
    let disagreements = results.disagreements();
    if both == 0 {
        return None;
    }
    let names: BTreeSet<&str> = disagreements.iter().map(|row| row.workload.as_str()).collect();
    Some(match names.is_empty() {
        true => format!(
            "In all {both} rows measured by both, the tracepoint and the interrupt row agree within 1 %."
        ),
        false => format!(
            "The tracepoint and the interrupt row differ by more than 1 % in {} of {}: {}.",
            disagreements.len(),
            count(both as u64, "row"),
            names.into_iter().collect::<Vec<_>>().join(", ")
        ),
    })
}

const SOURCES: [&str; 3] = ["sent", "received", "received_irq"];

fn of_promises(promises: &[&[Control]]) -> Markup {
    let titles = SOURCES.map(|source| (counter(source).map_or(source, |counter| counter.title), false));
    html! {
        (head(&[&[("control", true), ("threads", false), ("on", true)], &titles[..]].concat()))
        tbody {
            @for (index, group) in promises.iter().enumerate() {
                @let first = &group[0];
                @let is_next = index > 0 && promises[index - 1][0].workload != first.workload;
                tr.next[is_next] {
                    th.text scope="row" { (first.workload) }
                    td { (first.threads) }
                    td.text {
                        (first.kernel)
                        @if let Some(mode) = &first.mode { " (" (mode) ")" }
                        ", " (count(u64::from(first.vcpus), "vCPU"))
                    }
                    @for source in SOURCES { (cell(group.iter().find(|control| control.source == source))) }
                }
            }
        }
    }
}

fn cell(control: Option<&Control>) -> Markup {
    let Some(control) = control else { return html! { td.absent { (ABSENT) } } };
    let (class, word) = match control.ok {
        Some(true) => ("good", "holds"),
        Some(false) => ("bad", "wrong"),
        None => ("doubt", "not measured"),
    };
    html! {
        td {
            (control.measured.map_or_else(|| ABSENT.into(), grouped)) " "
            span.absent { "of " (grouped(control.expected)) } " "
            span class=(class) { (word) }
        }
    }
}
