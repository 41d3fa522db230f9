// SPDX-License-Identifier: GPL-2.0-only
//! The report's tables: every row, what workloads add themselves, and the cost rows.

use super::parts::{items, note, table, Level};
use super::plots::by_workload;
use crate::numbers::{figure, grouped, prose_percent, with_range, ABSENT};
use crate::rows;
use crate::table::checked_sentence;
use ceasefire_base::text::count;
use ceasefire_mechanism::{Mechanism, Sites};
use ceasefire_results::mechanism::{self, Shown, Site};
use ceasefire_results::schema::{counter, Condition, Counter, Results, Row, Source, COUNTERS};
use ceasefire_results::stats::Spread;
use maud::{html, Markup};

pub(crate) fn counts(results: &Results, level: Level) -> Markup {
    let rows = rows::in_order(results, false);
    if rows.is_empty() {
        return html! {};
    }
    // Walks stand beside the counts they are the price of, elided pages beside what is gone, needed targets beside all of
    // them; the rest of each has a table of its own.
    let is_unasked = rows.iter().any(|row| row.unasked_per_unit.is_some_and(|unasked| unasked.max > 0.0));
    let all = Columns::of(results, &rows, true, |counter| match counter.key {
        "needed" | "walks" | "elided" => true,
        "unasked" => is_unasked,
        _ => counter.source == Source::Guest,
    });
    let machine = Columns::of(results, &rows, false, |counter| counter.source == Source::Machine);
    html! {
        (level.heading("Every row"))
        p.note {
            "Per unit of work, median of the repeats. A dash means not measured, which is not zero."
            @if rows.iter().any(|row| row.noisy) {
                " ~ marks a spread over 10 % between repeats; its range stands below it."
            }
        }
        (all.table(&rows, "Every row, per unit of work"))
        @if !machine.figures.is_empty() {
            h3 { "What the TLBs did" }
            (note("Per unit of work, over all vCPUs, counted by the machine. The work of reading the counters is in it: some \
                   walks per repeat, not per unit."))
            (machine.table(&rows, "What the TLBs did, per unit of work"))
        }
        @for mechanism in results.with_sites() {
            @if let Some(words) = &mechanism.sites { (sites(results, mechanism, words, &rows)) }
        }
        (extras(results))
    }
}

/// Where a mechanism decided, what, and why. Rows in which it decided nothing are left out.
fn sites(results: &Results, mechanism: &Mechanism, words: &Sites, rows: &[&Row]) -> Markup {
    let rows: Vec<&Row> =
        rows.iter().filter(|row| row.mechanisms.contains_key(&mechanism.name)).copied().collect();
    if rows.is_empty() {
        return html! {};
    }
    let is_some = |site: &Site| site.values().any(|spread| spread.max > 0.0);
    let decided: Vec<(&Row, Vec<(String, Site)>)> = rows
        .iter()
        .map(|row| {
            let all = mechanism::sites(row, mechanism).into_iter();
            (*row, all.filter(|(_, site)| is_some(site)).collect::<Vec<_>>())
        })
        .collect();
    let idle = decided.iter().filter(|(_, sites)| sites.is_empty()).count();
    let counters = mechanism::site_counters(mechanism, &rows);
    let inner = html! {
        thead { tr {
            th.text scope="col" { "site" }
            @for counter in &counters { th scope="col" title=(counter.meaning) { (counter.title) } }
        } }
        @for (row, sites) in decided.iter().filter(|(_, sites)| !sites.is_empty()) {
            tbody {
                (name(counters.len() + 1, &row.workload, &of_row(results, row)))
                @for (name, site) in sites {
                    tr {
                        th.text scope="row" { (name) }
                        @for counter in &counters { (cell(site.get(counter.name.as_str()).copied(), false)) }
                    }
                }
            }
        }
    };
    html! {
        h3 { (words.title) }
        p.note {
            "Per unit of work. " (words.note)
            @if let Some(sentence) = checked_sentence(&rows) { " " (sentence) }
            @if idle > 0 { " In " (count(idle as u64, "row")) " no flush request came to a decision." }
        }
        (table(&format!("{}, per unit of work", words.title), &inner))
    }
}

/// The first line of a table's part: kept in view while the figures scroll sideways.
fn name(columns: usize, workload: &str, words: &str) -> Markup {
    html! { tr.name { th scope="rowgroup" colspan=(columns) { span { b { (workload) } " " (words) } } } }
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
        let is_measured = |counter: &&Counter| rows.iter().any(|row| (counter.get)(row).is_some());
        Columns {
            figures: COUNTERS.iter().filter(|counter| wanted(counter)).filter(is_measured).collect(),
            own: if has_units { results.shown(|counter| counter.table) } else { Vec::new() },
            has_kernel: rows.iter().any(|row| row.kernel_label() != rows[0].kernel_label()),
            conditions: Condition::telling(rows),
            has_units,
        }
    }

    fn table(&self, rows: &[&Row], label: &str) -> Markup {
        let inner = html! {
            thead { tr { (self.head()) } }
            @for (workload, rows) in by_workload(rows) {
                tbody {
                    (name(self.number(), workload, &format!("per {}", rows[0].unit)))
                    @for row in rows { tr { (self.row(row)) } }
                }
            }
        };
        table(label, &inner)
    }

    fn number(&self) -> usize {
        let has_targets = self.figures.iter().any(|counter| counter.key == "received");
        1 + self.figures.len()
            + self.own.len()
            + if self.has_units { 2 } else { 0 }
            + usize::from(has_targets)
            + usize::from(self.has_kernel)
            + usize::from(!self.conditions.is_empty())
    }

    fn head(&self) -> Markup {
        html! {
            th scope="col" { "threads" }
            @if self.has_kernel { th.text scope="col" { "kernel" } }
            @if !self.conditions.is_empty() { th.text scope="col" { "condition" } }
            @for counter in &self.figures {
                th scope="col" title=(counter.meaning) { (counter.title) }
                @if counter.key == "received" { th scope="col" title="Received divided by sent" { "targets / sent" } }
            }
            @for shown in &self.own { th scope="col" title=(shown.counter.meaning) { (shown.counter.title) } }
            @if self.has_units { th scope="col" { "units" } th scope="col" { "repeats" } }
        }
    }

    fn row(&self, row: &Row) -> Markup {
        html! {
            th scope="row" { (row.threads) }
            @if self.has_kernel { td.text { (row.kernel_label()) } }
            @if !self.conditions.is_empty() { td.text { (words_of(&self.conditions, row)) } }
            @for counter in &self.figures {
                (cell((counter.get)(row), matches!(counter.key, "sent" | "received")))
                @if counter.key == "received" {
                    td { (row.targets_per_shootdown().map_or_else(|| ABSENT.into(), figure)) }
                }
            }
            @for shown in &self.own { (cell(shown.get(row), false)) }
            @if self.has_units { td { (grouped(row.units as f64)) } td { (row.repeats) } }
        }
    }
}

fn words_of(conditions: &[&Condition], row: &Row) -> String {
    let words: Vec<String> = conditions.iter().filter_map(|condition| (condition.words)(row)).collect();
    words.join(", ")
}

/// The workloads' own figures have no common columns.
fn extras(results: &Results) -> Markup {
    let sentence = |row: &Row| {
        let values: Vec<String> =
            row.extra.iter().map(|(name, value)| format!("{name} {}", figure(*value))).collect();
        let threads = count(u64::from(row.threads), "thread");
        format!("{}, {}, {threads}: {}", row.workload, row.kernel_label(), values.join(", "))
    };
    let list: Vec<String> =
        results.rows.iter().filter(|row| !row.cost && !row.extra.is_empty()).map(sentence).collect();
    html! {
        @if !list.is_empty() {
            h3 { "What workloads add themselves" }
            (items(list.into_iter()))
        }
    }
}

/// What a count of instructions does not show.
const HIDDEN: [&str; 7] =
    ["walks", "assists_accessed", "assists_dirty", "cr3_flush", "cr3_noflush", "invlpg", "invpcid"];

/// Rows of one vCPU and of several have a table each: all instructions and the kernel's alone do not compare.
pub(crate) fn cost(results: &Results, level: Level) -> Markup {
    let is_net = |row: &&Row| row.kernel_instructions_per_unit.is_some();
    let (several, one): (Vec<&Row>, Vec<&Row>) =
        rows::in_order(results, true).into_iter().partition(|row| is_net(row));
    if several.is_empty() && one.is_empty() {
        return html! {};
    }
    html! {
        (level.heading("Cost"))
        @if !one.is_empty() { (cost_of(&one, false)) }
        @if !several.is_empty() { (cost_of(&several, true)) }
    }
}

fn cost_of(rows: &[&Row], is_net: bool) -> Markup {
    let is_counted = |counter: &&Counter| rows.iter().any(|row| (counter.get)(row).is_some());
    let hidden: Vec<&Counter> = HIDDEN.iter().filter_map(|key| counter(key)).filter(is_counted).collect();
    let [counted, modelled] = match is_net {
        true => ["kernel_instructions", "cycles_net"],
        false => ["instructions", "cycles_modelled"],
    }
    .map(counter);
    let modelled = modelled.filter(is_counted);
    // A row has one of them.
    let instructions = |row: &Row| row.instructions_per_unit.or(row.kernel_instructions_per_unit);
    let baseline = rows::kernels(rows).into_iter().next().unwrap_or_default();
    let inner = html! {
        thead { tr {
            @for name in ["workload", "kernel", "unit"] { th.text scope="col" { (name) } }
            @for name in [counted.map_or("instructions", |counter| counter.title), "range", "against baseline"] {
                th scope="col" { (name) }
            }
            @if let Some(counter) = modelled {
                th scope="col" title=(counter.meaning) { (counter.title) }
                th scope="col" { "against baseline" }
            }
            @for counter in &hidden { th scope="col" title=(counter.meaning) { (counter.title) } }
            th scope="col" { "repeats" }
        } }
        tbody {
            @for row in rows {
                @let base = rows.iter().find(|base| base.kernel_label() == baseline && row.is_same_work(base)).copied();
                tr {
                    th.text scope="row" { (row.workload) }
                    td.text { (row.kernel_label()) }
                    td.text { (row.unit) }
                    (cell(instructions(row), false))
                    td { (range(instructions(row))) }
                    td { (against(base, row, instructions)) }
                    @if let Some(counter) = modelled {
                        (cell((counter.get)(row), false))
                        td { (against(base, row, counter.get)) }
                    }
                    @for counter in &hidden { (cell((counter.get)(row), false)) }
                    td { (row.repeats) }
                }
            }
        }
    };
    html! {
        p.note {
            @if is_net {
                "Instructions of the kernel per unit of work, on all vCPUs, without loops that wait and without timers. "
            } @else {
                "Instructions per unit of work at one vCPU, counted by the emulator without probes. "
            }
            "Instructions hide the price of CR3 loads, INVLPG and access-bit assists"
            @if hidden.is_empty() { "." } @else { ": their numbers stand beside." }
            @if is_net && modelled.is_some() {
                " Cycles (net) charge a published price for each, and for what the senders and the targets of interrupts pay \
                 (docs/reference/net-cycles.md): they compare two kernels on the same work and are not a time."
            } @else if modelled.is_some() {
                " Cycles (model) charge a published price for each, the same for every kernel \
                 (docs/reference/modelled-cycles.md): they compare two kernels on the \
                 same work and are not a time."
            }
        }
        (table(if is_net { "Cost per unit of work, several vCPUs" } else { "Cost per unit of work" }, &inner))
    }
}

/// In per cent of the baseline's median.
fn against(base: Option<&Row>, row: &Row, get: fn(&Row) -> Option<Spread>) -> String {
    match (base.and_then(get), get(row)) {
        _ if base.is_some_and(|base| base.kernel_label() == row.kernel_label()) => "baseline".into(),
        (Some(old), Some(new)) if old.median > 0.0 => {
            prose_percent((new.median - old.median) / old.median * 100.0)
        }
        _ => ABSENT.into(),
    }
}

fn range(spread: Option<Spread>) -> String {
    spread.map_or_else(
        || ABSENT.into(),
        |spread| {
            format!(
                "{} to {} ({:.2} %)",
                figure(spread.min),
                figure(spread.max),
                spread.width_share() * 100.0
            )
        },
    )
}

fn cell(spread: Option<Spread>, shows_range: bool) -> Markup {
    html! {
        @match spread {
            None => td.absent { (ABSENT) },
            Some(spread) if shows_range && spread.is_noisy() => td {
                (figure(spread.median)) span.mark { "~" }
                small { (figure(spread.min)) " to " (figure(spread.max)) }
            },
            Some(spread) => td title=(with_range(spread)) { (figure(spread.median)) },
        }
    }
}
