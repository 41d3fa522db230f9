// SPDX-License-Identifier: GPL-2.0-only
//! The report's tables: every row, what workloads add themselves, and the cost rows.

use super::{open_table, section};
use crate::finding;
use crate::numbers::{figure, grouped, with_range, ABSENT};
use crate::svg::escape;
use crate::table::checked_sentence;
use ceasefire_base::text::count;
use ceasefire_mechanism::{Mechanism, Sites};
use ceasefire_results::mechanism::{self, Shown, Site};
use ceasefire_results::schema::{Condition, Counter, Results, Row, Source, COUNTERS};
use ceasefire_results::stats::Spread;

pub(crate) fn counts(results: &Results, page: &mut String) {
    let rows = finding::in_order(results, false);
    if rows.is_empty() {
        return;
    }
    section(page, "Every row");
    let absent = "A dash means not measured, which is not zero.";
    let noisy = if rows.iter().any(|row| row.noisy) {
        " ~ marks a spread over 10 % between repeats; its range stands below it."
    } else {
        ""
    };
    page.push_str(&format!(
        "<p class=\"note\">Per unit of work, median of the repeats. {absent}{noisy}</p>\n"
    ));
    // Walks stand beside the counts they are the price of, elided pages beside what is gone; the rest of either
    // has a table of its own.
    let columns = Columns::of(results, &rows, true, |figure| {
        figure.source == Source::Guest || figure.key == "walks" || figure.key == "elided"
    });
    table(&rows, &columns, "Every row, per unit of work", page);
    let columns = Columns::of(results, &rows, false, |figure| figure.source == Source::Machine);
    if !columns.figures.is_empty() {
        page.push_str(
            "<h3>What the TLBs did</h3>\n<p class=\"note\">Per unit of work, over all vCPUs, counted by the machine. \
             The work of reading the counters is in it: some walks per repeat, not per unit.</p>\n",
        );
        table(&rows, &columns, "What the TLBs did, per unit of work", page);
    }
    sites(results, &rows, page);
    extras(results, page);
}

/// Where a mechanism decided, what, and why. Rows in which it decided nothing are left out.
fn sites(results: &Results, rows: &[&Row], page: &mut String) {
    for mechanism in results.with_sites() {
        let Some(words) = &mechanism.sites else { continue };
        let rows: Vec<&Row> =
            rows.iter().filter(|row| row.mechanisms.contains_key(&mechanism.name)).copied().collect();
        if !rows.is_empty() {
            sites_of(results, mechanism, words, &rows, page);
        }
    }
}

fn sites_of(results: &Results, mechanism: &Mechanism, words: &Sites, rows: &[&Row], page: &mut String) {
    let is_some = |site: &Site| site.values().any(|spread| spread.max > 0.0);
    let decided: Vec<(&Row, Vec<(String, Site)>)> = rows
        .iter()
        .map(|row| {
            let all = mechanism::sites(row, mechanism).into_iter();
            (*row, all.filter(|(_, site)| is_some(site)).collect::<Vec<_>>())
        })
        .collect();
    page.push_str(&format!("<h3>{}</h3>\n", escape(&words.title)));
    page.push_str(&format!("<p class=\"note\">Per unit of work. {}", escape(&words.note)));
    if let Some(sentence) = checked_sentence(rows) {
        page.push_str(&format!(" {}", escape(&sentence)));
    }
    let idle = decided.iter().filter(|(_, sites)| sites.is_empty()).count();
    if idle > 0 {
        page.push_str(&format!(" In {} no flush request came to a decision.", count(idle as u64, "row")));
    }
    page.push_str("</p>\n");
    let counters = mechanism::site_counters(mechanism, rows);
    open_table(page, &format!("{}, per unit of work", words.title));
    page.push_str("<thead><tr><th class=\"text\" scope=\"col\">site</th>");
    for counter in &counters {
        page.push_str(&format!(
            "<th scope=\"col\" title=\"{}\">{}</th>",
            escape(&counter.meaning),
            escape(&counter.title)
        ));
    }
    page.push_str("</tr></thead>\n");
    for (row, sites) in decided.iter().filter(|(_, sites)| !sites.is_empty()) {
        page.push_str(&format!(
            "<tbody>\n<tr class=\"name\"><th scope=\"rowgroup\" colspan=\"{}\"><span><b>{}</b> {}</span></th></tr>\n",
            counters.len() + 1,
            escape(&row.workload),
            escape(&of_row(results, row))
        ));
        for (name, site) in sites {
            page.push_str(&format!("<tr><th class=\"text\" scope=\"row\">{}</th>", escape(name)));
            for counter in &counters {
                page.push_str(&cell(site.get(counter.name.as_str()).copied(), false));
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</tbody>\n");
    }
    page.push_str("</table></div>\n");
}

/// What a row's sites add up to.
fn of_row(results: &Results, row: &Row) -> String {
    let mut parts = vec![format!(
        "per {}, {}, {}",
        row.unit,
        count(u64::from(row.threads), "thread"),
        row.kernel_label()
    )];
    parts.extend(row.elided.map(|elided| format!("{} pages elided", figure(elided.pages.median))));
    for shown in results.shown(|counter| counter.summary.is_some()) {
        let (Some(spread), Some(words)) = (shown.get(row), &shown.counter.summary) else { continue };
        parts.push(match shown.counter.is_level() {
            true => format!("{} {words}", grouped(spread.median)),
            false => format!("{} {words}", figure(spread.median)),
        });
    }
    parts.extend(row.checked.map(|checked| {
        format!("{} elisions checked, {} wrong", grouped(checked as f64), row.violations.unwrap_or(0))
    }));
    parts.join("; ")
}

fn table(rows: &[&Row], columns: &Columns, label: &str, page: &mut String) {
    open_table(page, label);
    columns.head(page);
    let mut last = "";
    for row in rows {
        if last != row.workload {
            // A body per workload, its name kept in view while the figures scroll sideways.
            page.push_str(if last.is_empty() { "<tbody>\n" } else { "</tbody>\n<tbody>\n" });
            page.push_str(&format!(
                "<tr class=\"name\"><th scope=\"rowgroup\" colspan=\"{}\"><span><b>{}</b> per {}</span></th></tr>\n",
                columns.number(),
                escape(&row.workload),
                escape(&row.unit)
            ));
            last = &row.workload;
        }
        columns.row(row, page);
    }
    page.push_str("</tbody></table></div>\n");
}

/// Which columns this file needs: a kernel or a machine that is everywhere the same stands in the environment.
struct Columns<'a> {
    figures: Vec<&'static Counter>,
    /// Of the mechanisms, where the rows stand with their units.
    own: Vec<Shown<'a>>,
    has_kernel: bool,
    /// What tells rows apart beside kernel, workload and threads.
    conditions: Vec<&'static Condition>,
    /// Units and repeats, once a page.
    has_units: bool,
}

impl<'a> Columns<'a> {
    /// The wanted figures that at least one row has.
    fn of(
        results: &'a Results,
        rows: &[&Row],
        has_units: bool,
        wanted: impl Fn(&Counter) -> bool,
    ) -> Columns<'a> {
        let is_measured = |figure: &&Counter| rows.iter().any(|row| (figure.get)(row).is_some());
        Columns {
            figures: COUNTERS.iter().filter(|figure| wanted(figure)).filter(is_measured).collect(),
            own: if has_units { results.shown(|counter| counter.table) } else { Vec::new() },
            has_kernel: rows.iter().any(|row| row.kernel_label() != rows[0].kernel_label()),
            conditions: Condition::telling(rows),
            has_units,
        }
    }

    fn number(&self) -> usize {
        let has_targets = self.figures.iter().any(|figure| figure.key == "received");
        1 + self.figures.len()
            + self.own.len()
            + if self.has_units { 2 } else { 0 }
            + usize::from(has_targets)
            + usize::from(self.has_kernel)
            + usize::from(!self.conditions.is_empty())
    }

    fn head(&self, page: &mut String) {
        page.push_str("<thead><tr><th scope=\"col\">threads</th>");
        if self.has_kernel {
            page.push_str("<th class=\"text\" scope=\"col\">kernel</th>");
        }
        if !self.conditions.is_empty() {
            page.push_str("<th class=\"text\" scope=\"col\">condition</th>");
        }
        for figure in &self.figures {
            page.push_str(&format!(
                "<th scope=\"col\" title=\"{}\">{}</th>",
                escape(figure.meaning),
                escape(figure.title)
            ));
            if figure.key == "received" {
                page.push_str("<th scope=\"col\" title=\"Received divided by sent\">targets / sent</th>");
            }
        }
        for shown in &self.own {
            page.push_str(&format!(
                "<th scope=\"col\" title=\"{}\">{}</th>",
                escape(&shown.counter.meaning),
                escape(&shown.counter.title)
            ));
        }
        if self.has_units {
            page.push_str("<th scope=\"col\">units</th><th scope=\"col\">repeats</th>");
        }
        page.push_str("</tr></thead>\n");
    }

    fn row(&self, row: &Row, page: &mut String) {
        page.push_str(&format!("<tr><th scope=\"row\">{}</th>", row.threads));
        if self.has_kernel {
            page.push_str(&format!("<td class=\"text\">{}</td>", escape(&row.kernel_label())));
        }
        if !self.conditions.is_empty() {
            page.push_str(&format!("<td class=\"text\">{}</td>", escape(&words_of(&self.conditions, row))));
        }
        for figure in &self.figures {
            page.push_str(&cell((figure.get)(row), matches!(figure.key, "sent" | "received")));
            if figure.key == "received" {
                let targets =
                    row.targets_per_shootdown().map_or_else(|| ABSENT.into(), crate::numbers::figure);
                page.push_str(&format!("<td>{}</td>", escape(&targets)));
            }
        }
        for shown in &self.own {
            page.push_str(&cell(shown.get(row), false));
        }
        if self.has_units {
            page.push_str(&format!("<td>{}</td><td>{}</td>", grouped(row.units as f64), row.repeats));
        }
        page.push_str("</tr>\n");
    }
}

fn words_of(conditions: &[&Condition], row: &Row) -> String {
    let words: Vec<String> = conditions.iter().filter_map(|condition| (condition.words)(row)).collect();
    words.join(", ")
}

/// The workloads' own figures have no common columns.
fn extras(results: &Results, page: &mut String) {
    let rows: Vec<&Row> = results.rows.iter().filter(|row| !row.cost && !row.extra.is_empty()).collect();
    if rows.is_empty() {
        return;
    }
    page.push_str("<h3>What workloads add themselves</h3>\n<ul class=\"plain\">\n");
    for row in rows {
        let values: Vec<String> =
            row.extra.iter().map(|(name, value)| format!("{name} {}", figure(*value))).collect();
        page.push_str(&format!(
            "<li>{}</li>\n",
            escape(&format!(
                "{}, {}, {}: {}",
                row.workload,
                row.kernel_label(),
                count(u64::from(row.threads), "thread"),
                values.join(", ")
            ))
        ));
    }
    page.push_str("</ul>\n");
}

/// What a count of instructions does not show.
const HIDDEN: [&str; 7] =
    ["walks", "assists_accessed", "assists_dirty", "cr3_flush", "cr3_noflush", "invlpg", "invpcid"];

pub(crate) fn cost(results: &Results, page: &mut String) {
    let rows = finding::in_order(results, true);
    if rows.is_empty() {
        return;
    }
    section(page, "Cost");
    let hidden: Vec<&Counter> =
        HIDDEN.iter().filter_map(|key| ceasefire_results::schema::counter(key)).collect();
    let is_counted = |figure: &&&Counter| rows.iter().any(|row| (figure.get)(row).is_some());
    let hidden: Vec<&&Counter> = hidden.iter().filter(is_counted).collect();
    page.push_str(
        "<p class=\"note\">Instructions per unit of work at one vCPU, counted by the emulator without probes. Instructions hide \
         the price of CR3 loads, INVLPG and access-bit assists",
    );
    page.push_str(if hidden.is_empty() { "." } else { ": their numbers stand beside." });
    let modelled = ceasefire_results::schema::counter("cycles_modelled").filter(|figure| is_counted(&figure));
    if modelled.is_some() {
        page.push_str(
            " Cycles (model) charge a published price for each, the same for every kernel (docs/reference/modelled-cycles.md): they compare \
             two kernels on the same work and are not a time.",
        );
    }
    page.push_str("</p>\n");
    open_table(page, "Cost per unit of work");
    page.push_str("<thead><tr><th class=\"text\" scope=\"col\">workload</th><th class=\"text\" scope=\"col\">kernel</th><th class=\"text\" scope=\"col\">unit</th>");
    page.push_str("<th scope=\"col\">instructions</th><th scope=\"col\">range</th><th scope=\"col\">against baseline</th>");
    if let Some(figure) = modelled {
        page.push_str(&format!(
            "<th scope=\"col\" title=\"{}\">{}</th><th scope=\"col\">against baseline</th>",
            escape(figure.meaning),
            escape(figure.title)
        ));
    }
    for figure in &hidden {
        page.push_str(&format!(
            "<th scope=\"col\" title=\"{}\">{}</th>",
            escape(figure.meaning),
            escape(figure.title)
        ));
    }
    page.push_str("<th scope=\"col\">repeats</th></tr></thead>\n<tbody>\n");
    let baseline = finding::kernels(&rows).into_iter().next().unwrap_or_default();
    for row in &rows {
        let base = rows.iter().find(|base| base.kernel_label() == baseline && row.is_same_work(base));
        let against = |get: fn(&Row) -> Option<Spread>| match (base.and_then(|base| get(base)), get(row)) {
            _ if row.kernel_label() == baseline => "baseline".to_string(),
            (Some(old), Some(new)) if old.median > 0.0 => {
                crate::numbers::prose_percent((new.median - old.median) / old.median * 100.0)
            }
            _ => ABSENT.to_string(),
        };
        let range = row.instructions_per_unit.map_or_else(
            || ABSENT.to_string(),
            |spread| {
                format!(
                    "{} to {} ({:.2} %)",
                    figure(spread.min),
                    figure(spread.max),
                    spread.width_share() * 100.0
                )
            },
        );
        page.push_str(&format!(
            "<tr><th class=\"text\" scope=\"row\">{}</th><td class=\"text\">{}</td><td class=\"text\">{}</td>{}<td>{}</td><td>{}</td>{}{}<td>{}</td></tr>\n",
            escape(&row.workload),
            escape(&row.kernel_label()),
            escape(&row.unit),
            cell(row.instructions_per_unit, false),
            escape(&range),
            escape(&against(|row| row.instructions_per_unit)),
            modelled.map_or_else(String::new, |figure| {
                format!("{}<td>{}</td>", cell((figure.get)(row), false), escape(&against(figure.get)))
            }),
            hidden.iter().map(|figure| cell((figure.get)(row), false)).collect::<String>(),
            row.repeats
        ));
    }
    page.push_str("</tbody></table></div>\n");
}

fn cell(spread: Option<Spread>, shows_range: bool) -> String {
    match spread {
        None => format!("<td class=\"absent\">{ABSENT}</td>"),
        Some(spread) if shows_range && spread.is_noisy() => format!(
            "<td>{}<span class=\"mark\">~</span><small>{} to {}</small></td>",
            escape(&figure(spread.median)),
            escape(&figure(spread.min)),
            escape(&figure(spread.max))
        ),
        Some(spread) => {
            format!("<td title=\"{}\">{}</td>", escape(&with_range(spread)), escape(&figure(spread.median)))
        }
    }
}
