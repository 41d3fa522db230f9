// SPDX-License-Identifier: GPL-2.0-only
//! The report's controls: one sentence for those who trust, a table for those who do not.

use super::{open_table, section};
use crate::numbers::{grouped, ABSENT};
use crate::svg::escape;
use ceasefire_base::text::count;
use ceasefire_results::schema::{Control, Results};
use ceasefire_results::Verdict;
use std::collections::BTreeSet;

pub(crate) fn controls(results: &Results, page: &mut String) {
    section(page, "Controls");
    let held = results.controls.iter().filter(|control| control.ok == Some(true)).count();
    let (class, sentence) = match results.verdict() {
        Verdict::NoControl => {
            ("doubt", "No control ran: nothing in this file shows that its counts are right.".to_string())
        }
        Verdict::Partly(names) => (
            "doubt",
            format!(
                "{} and {} could not be measured here.",
                held_words(held),
                count(names.len() as u64, "figure")
            ),
        ),
        Verdict::Proven => ("good", format!("{}.", held_words(held))),
        // html() has refused already.
        Verdict::Failed(names) => ("bad", format!("{} wrong.", count(names.len() as u64, "figure"))),
    };
    page.push_str(&format!("<p class=\"{class}\">{}</p>\n", escape(&sentence)));
    let disagreements = results.disagreements();
    let both = results.rows.iter().filter(|row| row.has_two_sources()).count();
    let copies = results
        .rows
        .iter()
        .filter(|row| !row.cost && row.received_per_unit.is_some() && !row.has_two_sources())
        .count();
    if both > 0 {
        let sentence = if disagreements.is_empty() {
            format!(
                "In all {both} rows measured by both, the tracepoint and the interrupt row agree within 1 %."
            )
        } else {
            let names: BTreeSet<&str> = disagreements.iter().map(|row| row.workload.as_str()).collect();
            format!(
                "The tracepoint and the interrupt row differ by more than 1 % in {} of {}: {}.",
                disagreements.len(),
                count(both as u64, "row"),
                names.into_iter().collect::<Vec<_>>().join(", ")
            )
        };
        page.push_str(&format!("<p class=\"note\">{}</p>\n", escape(&sentence)));
    }
    if copies > 0 {
        page.push_str(&format!(
            "<p class=\"note\">In {}, received is the interrupt row: no tracepoint could be read there.</p>\n",
            count(copies as u64, "row")
        ));
    }
    if results.controls.is_empty() {
        return;
    }
    let promises = promises(&results.controls);
    // A long list that holds everywhere is folded; anything doubtful is shown at once.
    let is_open = promises.len() <= 6 || results.verdict() != Verdict::Proven;
    page.push_str(&format!(
        "<details{}><summary>{}, with what was counted</summary>\n",
        if is_open { " open" } else { "" },
        count(promises.len() as u64, "promise")
    ));
    open_table(page, "Controls");
    page.push_str("<thead><tr><th class=\"text\" scope=\"col\">control</th><th scope=\"col\">threads</th>");
    page.push_str("<th class=\"text\" scope=\"col\">on</th>");
    for source in SOURCES {
        let title = figure_title(source);
        page.push_str(&format!("<th scope=\"col\">{}</th>", escape(title)));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    let mut last = "";
    for group in promises {
        let Some(first) = group.first() else { continue };
        let next = if last.is_empty() || last == first.workload { "" } else { " class=\"next\"" };
        last = &first.workload;
        let mode = first.mode.as_ref().map_or_else(String::new, |mode| format!(" ({mode})"));
        page.push_str(&format!(
            "<tr{next}><th class=\"text\" scope=\"row\">{}</th><td>{}</td><td class=\"text\">{}</td>",
            escape(&first.workload),
            first.threads,
            escape(&format!("{}{mode}, {}", first.kernel, count(u64::from(first.vcpus), "vCPU"))),
        ));
        for source in SOURCES {
            page.push_str(&match group.iter().find(|control| control.source == source) {
                None => format!("<td class=\"absent\">{ABSENT}</td>"),
                Some(control) => promise_cell(control),
            });
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n</details>\n");
}

const SOURCES: [&str; 3] = ["sent", "received", "received_irq"];

fn figure_title(key: &'static str) -> &'static str {
    ceasefire_results::schema::counter(key).map_or(key, |figure| figure.title)
}

fn promise_cell(control: &Control) -> String {
    let (class, word) = match control.ok {
        Some(true) => ("good", "holds"),
        Some(false) => ("bad", "wrong"),
        None => ("doubt", "not measured"),
    };
    let measured = control.measured.map_or_else(|| ABSENT.into(), grouped);
    format!(
        "<td>{measured} <span class=\"absent\">of {}</span> <span class=\"{class}\">{word}</span></td>",
        grouped(control.expected)
    )
}

/// Controls of one workload, thread count, kernel and machine stand together.
fn promises(controls: &[Control]) -> Vec<Vec<&Control>> {
    let is_same = |a: &Control, b: &Control| {
        (&a.workload, a.threads, &a.kernel, &a.mode, a.vcpus, a.nodes)
            == (&b.workload, b.threads, &b.kernel, &b.mode, b.vcpus, b.nodes)
    };
    let mut groups: Vec<Vec<&Control>> = Vec::new();
    for control in controls {
        match groups.last_mut() {
            Some(group) if is_same(group[0], control) => group.push(control),
            _ => groups.push(vec![control]),
        }
    }
    groups
}

fn held_words(held: usize) -> String {
    match held {
        1 => "The one control figure holds (within 1 %; a promise of zero exactly)".into(),
        n => format!("All {n} control figures hold (within 1 %; a promise of zero exactly)"),
    }
}
