// SPDX-License-Identifier: GPL-2.0-only
//! The report of the illumos article on Linux, on one screen: pages by process and cause, what ranges saved over single
//! pages, and what putting neighbours together would save on top.

mod rows;

use crate::honesty;
use crate::numbers::{count, ratio, time};
use crate::table::{fit, paragraph};
use ceasefire_watch_model::neighbours::{Place, CEILING_PAGES, WINDOW_PAGES};
use ceasefire_watch_model::{
    Batching, Cause, Class, Counts, Histogram, Saving, Savings, Site, Snapshot, WhyFull, SCHEMA,
};
use rows::Row;
use serde_json::{json, Value};

/// Never added up.
pub const BOTH: [Class; 2] = [Class::User, Class::KernelRange];
const UNKNOWN: &str = "not known: it needs every shootdown one by one (ceasefire watch record --events)";

/// `savings`: of the same shootdowns one by one; none where only counts were taken. `width`: columns there are.
pub fn render(window: &Snapshot, savings: Option<&Savings>, top: usize, width: usize) -> String {
    let mut text = String::new();
    for class in BOTH {
        let part = pages(window, savings, class, top, width);
        if !part.is_empty() {
            text.push_str(&part);
            text.push_str(&write_back(&rows::rows(window, savings, class), savings, class, width));
            text.push('\n');
        }
    }
    if text.is_empty() {
        text.push_str("no shootdowns\n\n");
    }
    text.push_str(&batching(window, savings, width));
    for line in honesty::block(&window.coverage).lines() {
        text.push_str(if line.is_empty() { "\n" } else { "" });
        text.push_str(&paragraph(width, "", line));
    }
    text
}

/// Its table and the line below it; nothing where there was no shootdown of this class.
pub fn pages(window: &Snapshot, savings: Option<&Savings>, class: Class, top: usize, width: usize) -> String {
    let sites: Vec<&Site> = window.sites.iter().filter(|site| site.class == class).collect();
    if sites.is_empty() {
        return String::new();
    }
    let rows = rows::rows(window, savings, class);
    let mut text = paragraph(width, "", &format!("PAGES BY PROCESS AND CAUSE ({})", class.name()));
    text.push_str(&rows::render(width, &rows, &rows::total(window, savings, class), top));
    text.push_str(&overall(window, class, &sites, width));
    text
}

fn sum(sites: &[&Site], field: impl Fn(&Site) -> u64) -> u64 {
    sites.iter().map(|site| field(site)).fold(0, u64::saturating_add)
}

fn ranged(sites: &[&Site]) -> u64 {
    sum(sites, |site| site.pages.count())
}

fn full(sites: &[&Site]) -> u64 {
    sum(sites, |site| if site.kind.is_full() { site.tally.shootdowns } else { 0 })
}

/// What the figures above it say in all, and what they leave out.
fn overall(window: &Snapshot, class: Class, sites: &[&Site], width: usize) -> String {
    let (pages, ranged, full) = (sum(sites, |site| site.tally.pages), ranged(sites), full(sites));
    let mut text = format!(
        "OVERALL ({}): {} pages in {} ranged shootdowns, factor {}.",
        class.name(),
        count(pages),
        count(ranged),
        ratio(pages, ranged)
    );
    if full > 0 {
        let known = sites.iter().filter_map(|site| Some((site.why_full?, site.tally.shootdowns)));
        let known: Counts<WhyFull> = known.filter(|(_, shootdowns)| *shootdowns > 0).collect();
        let parts = known.iter().map(|(why, shootdowns)| format!("{} {}", count(shootdowns), why.name()));
        let parts: Vec<String> = parts.collect();
        let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
        text.push_str(&format!(" {} were full{parts}: their pages are not known.", count(full)));
    }
    let mut wait = Histogram::default();
    sites.iter().for_each(|site| wait.merge(&site.wait));
    if let (true, Some(half), Some(most)) = (window.has_latencies, wait.quantile(0.5), wait.quantile(0.99)) {
        text.push_str(&format!(" The initiator waited p50 < {}, p99 < {}.", time(half), time(most)));
    }
    paragraph(width, "  ", &text)
}

fn percent(part: u64, of: u64) -> String {
    match of {
        0 => "-".into(),
        of => format!("{:.1} %", part as f64 * 100.0 / of as f64),
    }
}

/// The remedy, where there is write-back.
fn write_back(rows: &[Row], savings: Option<&Savings>, class: Class, width: usize) -> String {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.is_write_back()).collect();
    if rows.is_empty() {
        return String::new();
    }
    let sum = |part: fn(&Row) -> u64| rows.iter().map(|row| part(row)).fold(0, u64::saturating_add);
    let (pages, ranged) = (sum(|row| row.pages), sum(|row| row.ranged));
    let now = match pages >= ranged.saturating_mul(2) {
        true => "several pages are flushed at once already",
        false => "Linux flushes each page that it makes clean",
    };
    let way = rows.iter().map(|row| rows::telling(row.frames.unwrap_or_default()).join(" < "));
    let way = way.into_iter().find(|way| !way.is_empty()).map_or(String::new(), |way| format!("; {way}"));
    let factor = ratio(pages, ranged);
    let mut text = format!("REMEDY for msync and write-back (factor {factor}{way}): {now}. ");
    text.push_str("One flush for each range would save ");
    match savings.map(|savings| savings.rule(&Cause::WriteBack).total(class)) {
        None => text.push_str(&format!("shootdowns; how many is {UNKNOWN}.")),
        Some(all) => text.push_str(&format!(
            "at most {} of {} shootdowns ({}). It needs a kernel that batches write-back. What a program syncs page by \
             page, with a call for each, stays as it is: let it sync larger ranges.",
            count(all.saved_shootdowns),
            count(all.shootdowns),
            percent(all.saved_shootdowns, all.shootdowns)
        )),
    }
    paragraph(width, "  ", &text)
}

/// What 'neighbouring' means.
fn definition(within_ns: u64) -> String {
    let within = time(within_ns);
    format!(
        "any range: flushes of one thread from one stack, none of its others between them, begun within {within} of \
         the first. touching: each range also begins where the last one ends, or ends where it begins. write-back: \
         single pages that one thread makes clean for one cause, up to {}, each behind the last and begun within \
         {within} of it. full: one flush for that group would be one of everything (over {CEILING_PAGES} pages). Whether a \
         flush may wait for the next ones, the kernel's code must say. 'saved' above: write-back for its causes, \
         touching for all others.",
        count(WINDOW_PAGES)
    )
}

fn batching(window: &Snapshot, savings: Option<&Savings>, width: usize) -> String {
    let mut text = paragraph(width, "", "WHAT BATCHING NEIGHBOURS WOULD SAVE, AT MOST");
    let Some(savings) = savings else {
        text.push_str(&paragraph(width, "  ", UNKNOWN));
        return text;
    };
    let [first, ..] = &savings.batching;
    let classes = || BOTH.into_iter().filter(|class| has_any(window, first, *class));
    let mut cells: Vec<Vec<String>> = Vec::new();
    for batching in &savings.batching {
        for class in classes() {
            cells.extend(way(batching, class));
        }
    }
    let head = ["rule", "class", "sent", "saved", "share", "received less", "waited less", "groups", "full"];
    text.push_str(&fit(width, &head, &[0, 1], &cells));
    for class in classes() {
        let sites: Vec<&Site> = window.sites.iter().filter(|site| site.class == class).collect();
        let (seen, all) = (first.total(class).shootdowns, sum(&sites, |site| site.tally.shootdowns));
        let from = format!(
            "From {} of {} {} shootdowns ({}).",
            count(seen),
            count(all),
            class.name(),
            percent(seen, all)
        );
        text.push_str(&paragraph(width, "  ", &from));
    }
    text.push_str(&paragraph(width, "  ", &definition(first.neighbours.within_ns)));
    text
}

/// Is there something to say about it?
fn has_any(window: &Snapshot, seen: &Batching, class: Class) -> bool {
    window.sites.iter().any(|site| site.class == class) || seen.totals.contains_key(&class)
}

/// None where that way is about nothing that was seen.
fn way(batching: &Batching, class: Class) -> Option<Vec<String>> {
    let total = batching.totals.get(&class)?;
    Some(vec![
        batching.neighbours.range.name().into(),
        class.name().into(),
        count(total.shootdowns),
        count(total.saved_shootdowns),
        percent(total.saved_shootdowns, total.shootdowns),
        count(total.saved_targets),
        time(total.saved_wait_ns),
        count(total.runs),
        count(total.full_runs),
    ])
}

fn largest(batching: &Batching, class: Class, top: usize) -> Vec<(&Place, &Saving)> {
    let is_of_class = |(place, saving): &(&Place, &Saving)| place.0 == class && saving.runs > 0;
    let mut places: Vec<_> = batching.places.iter().filter(is_of_class).collect();
    places.sort_by_key(|(_, saving)| std::cmp::Reverse(saving.saved_targets));
    places.truncate(top);
    places
}

/// The same as one document; histograms are those of the sites.
pub fn json(window: &Snapshot, savings: Option<&Savings>, top: usize) -> String {
    let class = |class: Class| {
        let sites: Vec<&Site> = window.sites.iter().filter(|site| site.class == class).collect();
        let (mut pages, mut wait) = (Histogram::default(), Histogram::default());
        sites.iter().for_each(|site| {
            pages.merge(&site.pages);
            wait.merge(&site.wait);
        });
        json!({
            "class": class.name(),
            "pages": sum(&sites, |site| site.tally.pages),
            "ranged_shootdowns": ranged(&sites),
            "full_shootdowns": full(&sites),
            "factor_distribution": pages,
            "wait_distribution": wait,
        })
    };
    let row = |class: Class, row: &Row| {
        json!({
            "class": class.name(), "cause": row.cause, "kernel_frames": row.frames,
            "tgid": row.process.as_ref().map(|(tgid, _)| tgid),
            "process": row.process.as_ref().map(|(_, name)| name),
            "pages": row.pages, "shootdowns": row.shootdowns, "ranged_shootdowns": row.ranged,
            "full_shootdowns": row.full, "pages_distribution": row.distribution,
            "saved_shootdowns_at_most": row.saved,
        })
    };
    let processes = BOTH.into_iter().flat_map(|class| {
        let rows = rows::rows(window, savings, class);
        rows.iter().take(top).map(|one| row(class, one)).collect::<Vec<Value>>()
    });
    let batchings = savings.map(|savings| {
        let all = savings.batching.iter().map(|batching| batched(window, batching, top));
        all.collect::<Vec<Value>>()
    });
    let value = json!({
        "schema": SCHEMA, "verb": "savings", "window_ns": window.window_ns,
        "classes": BOTH.map(class),
        "processes": processes.collect::<Vec<_>>(),
        "batching": batchings,
        "coverage": window.coverage,
    });
    value.to_string()
}

fn batched(window: &Snapshot, batching: &Batching, top: usize) -> Value {
    let row = |class: Class, saving: &Saving| {
        json!({
            "class": class.name(),
            "shootdowns": saving.shootdowns, "targets": saving.targets, "wait_ns": saving.wait_ns,
            "groups": saving.runs, "saved_shootdowns": saving.saved_shootdowns,
            "saved_targets": saving.saved_targets, "saved_wait_ns": saving.saved_wait_ns,
            "full_groups": saving.full_runs,
        })
    };
    let of_class = |class: Class| row(class, &batching.total(class));
    let places = BOTH.into_iter().flat_map(|class| largest(batching, class, top));
    let places = places.map(|((class, cause, stack), sums)| {
        let mut row = row(*class, sums);
        row["cause"] = json!(cause);
        row["kernel_frames"] = json!(stack.and_then(|id| window.stacks.kernel.get(&id)));
        row
    });
    json!({
        "range": batching.neighbours.range.name(), "within_ns": batching.neighbours.within_ns,
        // Of the class it names; `totals` has all.
        "total": of_class(Class::User), "totals": BOTH.map(of_class),
        "places": places.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
