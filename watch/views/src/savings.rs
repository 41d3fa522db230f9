// SPDX-License-Identifier: GPL-2.0-only
//! The report of the illumos article on Linux: pages by stack, latency, what ranges saved over single pages, and what
//! putting neighbours together would save on top.

use crate::hist::chart;
use crate::honesty;
use crate::numbers::{count, ratio, time};
use crate::table;
use ceasefire_watch_model::neighbours::{Place, CEILING_PAGES};
use ceasefire_watch_model::{
    Batching, Class, Counts, Histogram, Saving, Site, Snapshot, WhyFull, SCHEMA,
};
use serde_json::{json, Value};

/// Never added up.
const BOTH: [Class; 2] = [Class::User, Class::KernelRange];

/// `events`: the same shootdowns one by one; none where only counts were taken.
pub fn render(window: &Snapshot, events: Option<&[Batching]>, top: usize) -> String {
    let mut text = String::new();
    for class in BOTH {
        let sites: Vec<&Site> = window.sites.iter().filter(|site| site.class == class).collect();
        if !sites.is_empty() {
            text.push_str(&stacks(window, class, &sites, top));
            text.push_str(&latency(window, class, &sites));
            text.push_str(&savings(class, &sites));
        }
    }
    if text.is_empty() {
        text.push_str("no shootdowns\n");
    }
    text.push_str(&batching(window, events, top));
    text.push_str(&honesty::block(&window.coverage));
    text
}

fn sum(sites: &[&Site], field: impl Fn(&Site) -> u64) -> u64 {
    sites.iter().map(|site| field(site)).fold(0, u64::saturating_add)
}

fn ranged(sites: &[&Site]) -> u64 {
    sum(sites, |site| site.pages.count())
}

fn stacks(window: &Snapshot, class: Class, sites: &[&Site], top: usize) -> String {
    let mut sorted: Vec<&&Site> = sites.iter().filter(|site| site.tally.pages > 0).collect();
    sorted.sort_by_key(|site| std::cmp::Reverse(site.tally.pages));
    if sorted.is_empty() {
        return String::new();
    }
    let top = top.min(sorted.len());
    let mut text = format!("\nTOP {top} STACKS BY PAGES FLUSHED ({})\n", class.name());
    for site in sorted.iter().take(top) {
        let ranged = site.pages.count();
        text.push_str(&format!(
            "\n  {}: {} pages in {} ranged shootdowns, factor {}\n",
            site.cause,
            count(site.tally.pages),
            count(ranged),
            ratio(site.tally.pages, ranged)
        ));
        let frames = site.kernel_stack.and_then(|id| window.stacks.kernel.get(&id));
        for frame in frames.into_iter().flatten() {
            text.push_str(&format!("      {frame}\n"));
        }
        text.push_str(&chart("  pages of one shootdown", "pages", &site.pages));
    }
    text
}

fn latency(window: &Snapshot, class: Class, sites: &[&Site]) -> String {
    let mut all = Histogram::default();
    sites.iter().for_each(|site| all.merge(&site.wait));
    if !window.has_latencies || all.count() == 0 {
        return String::new();
    }
    let title = format!("OVERALL LATENCY ({}): initiator's wait", class.name());
    chart(&title, "ns", &all)
}

fn savings(class: Class, sites: &[&Site]) -> String {
    let mut pages = Histogram::default();
    sites.iter().for_each(|site| pages.merge(&site.pages));
    let (flushed, shootdowns) = (sum(sites, |site| site.tally.pages), ranged(sites));
    let mut text = format!("\nOVERALL SAVINGS ({})\n", class.name());
    text.push_str(&format!(
        "  total pages flushed   {:>15}\n  ranged shootdowns     {:>15}\n  total factor saved    {:>15}\n",
        count(flushed),
        count(shootdowns),
        ratio(flushed, shootdowns)
    ));
    let full = sum(sites, |site| if site.kind.is_full() { site.tally.shootdowns } else { 0 });
    if full > 0 {
        let known = sites.iter().filter_map(|site| Some((site.why_full?, site.tally.shootdowns)));
        let known = known.filter(|(_, shootdowns)| *shootdowns > 0);
        let known: Counts<WhyFull> = known.collect();
        let parts: Vec<String> =
            known.iter().map(|(why, shootdowns)| format!("{} {}", count(shootdowns), why.name())).collect();
        text.push_str(&format!(
            "  full flushes          {:>15}  ({}); their pages are not known\n",
            count(full),
            parts.join(", ")
        ));
    }
    if pages.count() > 0 {
        text.push_str(&chart("the factor saved (pages / shootdowns)", "factor", &pages));
    }
    text
}

fn percent(part: u64, of: u64) -> String {
    match of {
        0 => "-".into(),
        of => format!("{:.1} %", part as f64 * 100.0 / of as f64),
    }
}

/// What 'neighbouring' means, for every report that uses the word.
pub fn definition(within_ns: u64) -> String {
    format!(
        "Neighbours: flushes of one thread from one stack, none of its others between them, begun within {} of the\n\
         first. 'touching': each range also begins where the last one ends, or ends where it begins. One flush for\n\
         each group would come up to {} later for the first; whether that is allowed, the kernel's code must say.\n",
        time(within_ns),
        time(within_ns)
    )
}

fn batching(window: &Snapshot, events: Option<&[Batching]>, top: usize) -> String {
    let mut text = String::from("\nWHAT BATCHING NEIGHBOURS WOULD SAVE, AT MOST\n");
    let Some([first, ..]) = events else {
        text.push_str("  not known: it needs every shootdown one by one (ceasefire watch record --events)\n");
        return text;
    };
    for line in definition(first.neighbours.within_ns).lines() {
        text.push_str(&format!("  {line}\n"));
    }
    for class in classes(window, events) {
        let sites: Vec<&Site> = window.sites.iter().filter(|site| site.class == class).collect();
        let (seen, all) = (first.total(class).shootdowns, sum(&sites, |site| site.tally.shootdowns));
        let (from, share) = (count(seen), percent(seen, all));
        text.push_str(&format!("  from {from} of {} {} shootdowns ({share})\n", count(all), class.name()));
    }
    for batching in events.into_iter().flatten() {
        for class in classes(window, events) {
            text.push_str(&total(batching, class));
            text.push_str(&places(window, batching, class, top));
        }
    }
    text
}

/// Those there is something to say about.
fn classes(window: &Snapshot, events: Option<&[Batching]>) -> Vec<Class> {
    let has_any = |class: Class| {
        window.sites.iter().any(|site| site.class == class)
            || events.into_iter().flatten().any(|batching| batching.totals.contains_key(&class))
    };
    BOTH.into_iter().filter(|class| has_any(*class)).collect()
}

fn total(batching: &Batching, class: Class) -> String {
    let total = batching.total(class);
    format!(
        "\n  {} ({}): {} of {} shootdowns ({}), {} of {} received ({}), {} of {} waited\n",
        batching.neighbours.range.name(),
        class.name(),
        count(total.saved_shootdowns),
        count(total.shootdowns),
        percent(total.saved_shootdowns, total.shootdowns),
        count(total.saved_targets),
        count(total.targets),
        percent(total.saved_targets, total.targets),
        time(total.saved_wait_ns),
        time(total.wait_ns),
    )
}

fn largest(batching: &Batching, class: Class, top: usize) -> Vec<(&Place, &Saving)> {
    let is_of_class = |(place, saving): &(&Place, &Saving)| place.0 == class && saving.runs > 0;
    let mut places: Vec<_> = batching.places.iter().filter(is_of_class).collect();
    places.sort_by_key(|(_, saving)| std::cmp::Reverse(saving.saved_targets));
    places.truncate(top);
    places
}

fn places(window: &Snapshot, batching: &Batching, class: Class, top: usize) -> String {
    let rows: Vec<Vec<String>> = largest(batching, class, top)
        .into_iter()
        .map(|((_, cause, stack), saving)| {
            let frames = stack.and_then(|id| window.stacks.kernel.get(&id));
            let way: Vec<&str> = frames.into_iter().flatten().map(String::as_str).collect();
            let way = &way[way.iter().take_while(|frame| is_shared(frame)).count()..];
            vec![
                cause.to_string(),
                count(saving.shootdowns),
                count(saving.saved_shootdowns),
                percent(saving.saved_shootdowns, saving.shootdowns),
                count(saving.saved_targets),
                time(saving.saved_wait_ns),
                format!("{} of {}", count(saving.full_runs), count(saving.runs)),
                way[..way.len().min(3)].join(" < "),
            ]
        })
        .collect();
    if rows.is_empty() {
        return "    no neighbours\n".into();
    }
    let full = format!("groups full or over {CEILING_PAGES} pages");
    let head = ["cause", "sent", "saved", "share", "received less", "waited less", &full, "innermost frames"];
    table::render(&head, &[0, 7], &rows)
}

/// Innermost frames that all shootdowns have.
fn is_shared(frame: &str) -> bool {
    ["smp_call_function", "on_each_cpu", "flush_tlb", "native_flush", "tlb_f", "arch_tlbbatch"]
        .iter()
        .any(|stem| frame.starts_with(stem))
}

/// The same as one document; histograms are those of the sites.
pub fn json(window: &Snapshot, events: Option<&[Batching]>, top: usize) -> String {
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
            "full_shootdowns": sum(&sites, |s| if s.kind.is_full() { s.tally.shootdowns } else { 0 }),
            "factor_distribution": pages,
            "wait_distribution": wait,
        })
    };
    let saving = |saving: &Saving| {
        json!({
            "shootdowns": saving.shootdowns, "targets": saving.targets, "wait_ns": saving.wait_ns,
            "groups": saving.runs, "saved_shootdowns": saving.saved_shootdowns,
            "saved_targets": saving.saved_targets, "saved_wait_ns": saving.saved_wait_ns,
            "full_groups": saving.full_runs,
        })
    };
    let batchings: Option<Vec<Value>> = events.map(|events| {
        let one = |batching: &Batching| {
            let of_class = |class: Class| {
                let mut row = saving(&batching.total(class));
                row["class"] = json!(class.name());
                row
            };
            let places = BOTH.into_iter().flat_map(|class| largest(batching, class, top));
            let places = places.map(|((class, cause, stack), sums)| {
                let mut row = saving(sums);
                row["class"] = json!(class.name());
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
        };
        events.iter().map(one).collect()
    });
    let value = json!({
        "schema": SCHEMA, "verb": "savings", "window_ns": window.window_ns,
        "classes": BOTH.map(class),
        "batching": batchings, "coverage": window.coverage,
    });
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{pair_of_classes, task};
    use ceasefire_watch_model::{Cause, Kind, Range, Shootdown};

    fn flush(start_ns: u64, class: Class, cause: Cause) -> Shootdown {
        Shootdown {
            start_ns,
            class,
            cause,
            cpu: 0,
            task: task("sender", 1),
            kernel_stack: None,
            user_stack: None,
            address: None,
            pages: None,
            entries: None,
            kind: Kind::Whole,
            why_full: None,
            freed_tables: false,
            targets: 1,
            target_cpus: vec![1],
            latencies: None,
            slowest: None,
        }
    }

    #[test]
    fn what_batching_saves_is_told_by_class() {
        let mut any = Batching::new(Range::Any, 1000);
        (0..3).for_each(|ns| any.take(&flush(ns, Class::User, Cause::Munmap)));
        (10..15).for_each(|ns| any.take(&flush(ns, Class::KernelRange, Cause::Vmalloc)));
        any.end();
        let window = pair_of_classes();
        let text = render(&window, Some(&[any.clone()]), 5);
        assert!(text.contains("  from 3 of 3 user shootdowns (100.0 %)\n"), "{text}");
        assert!(text.contains("  from 5 of 5 kernel-range shootdowns (100.0 %)\n"), "{text}");
        assert!(text.contains("\n  any range (user): 2 of 3 shootdowns (66.7 %)"), "{text}");
        assert!(text.contains("\n  any range (kernel-range): 4 of 5 shootdowns (80.0 %)"), "{text}");
        let value: Value = serde_json::from_str(&json(&window, Some(&[any]), 5)).expect("JSON");
        let batching = &value["batching"][0];
        assert_eq!(
            (&batching["total"]["class"], &batching["total"]["shootdowns"]),
            (&json!("user"), &json!(3))
        );
        assert_eq!(batching["totals"][1]["shootdowns"], 5);
        assert_eq!(batching["places"][1]["class"], "kernel-range");
    }
}
