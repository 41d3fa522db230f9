// SPDX-License-Identifier: GPL-2.0-only
//! What stands below the figures: what is missing, where it was measured, what the words mean, how to do it again.

use super::parts::{items, note, section};
use crate::table::missing_sentence;
use ceasefire_base::text::count;
use ceasefire_mechanism::Counter;
use ceasefire_results::schema::{Environment, Kernel, Qemu, Results, Tlb, COUNTERS};
use maud::{html, Markup};

pub(crate) fn missing(results: &Results) -> Markup {
    if results.skipped.is_empty() && results.failed.is_empty() && results.problems.is_empty() {
        return html! {};
    }
    let lists = [("Skipped", "doubt", &results.skipped), ("Failed", "bad", &results.failed)];
    html! {
        (section("Not measured"))
        @for (title, class, list) in lists.iter().filter(|(_, _, list)| !list.is_empty()) {
            h3 class=(class) { (title) " (" (list.len()) ")" }
            ul.plain {
                @for entry in list.iter() {
                    li {
                        (missing_sentence(entry))
                        @if !entry.output.is_empty() { pre { (entry.output.join("\n")) } }
                        @if let Some(rerun) = &entry.rerun { br; code { (rerun) } }
                    }
                }
            }
        }
        @if !results.problems.is_empty() {
            h3.doubt { "Problems in the guest's log (" (results.problems.len()) ")" }
            (items(results.problems.iter().cloned()))
        }
    }
}

pub(crate) fn environment(results: &Results) -> Markup {
    let pairs = pairs(&results.environment);
    html! {
        (section("Environment"))
        dl.pairs {
            @for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) { dt { (name) } dd { (value) } "\n" }
        }
    }
}

fn pairs(environment: &Environment) -> Vec<(String, String)> {
    let on_off =
        |flag: Option<bool>| flag.map(|on| if on { "on" } else { "off" }.to_string()).unwrap_or_default();
    let costs: Vec<String> =
        environment.cycle_costs.iter().map(|(name, cycles)| format!("{name} {cycles}")).collect();
    let qemu = environment.qemu.as_ref();
    let host = &environment.host;
    let host: Vec<String> = [
        host.cores.map(|cores| count(u64::from(cores), "core")),
        host.cpu.clone(),
        host.release.as_ref().map(|release| format!("Linux {release}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut pairs: Vec<(String, String)> = environment
        .kernels
        .iter()
        .map(|kernel| (format!("kernel {}", kernel.name), kernel_words(kernel)))
        .collect();
    let rest = [
        ("machine", qemu.map(machine_words).unwrap_or_default()),
        ("measured in", environment.place.clone()),
        ("huge pages", environment.thp.clone().unwrap_or_default()),
        ("PTI", on_off(environment.pti)),
        ("PCID", on_off(environment.pcid)),
        ("INVPCID", on_off(environment.invpcid)),
        ("TLBs", qemu.and_then(|qemu| qemu.tlb.as_ref()).map(tlb_words).unwrap_or_default()),
        ("modelled cycles", costs.join(", ")),
        ("seed", environment.seed.map(|seed| seed.to_string()).unwrap_or_default()),
        ("workload sources", environment.workloads.clone().unwrap_or_default()),
        ("host", host.join(", ")),
        ("ceasefire", environment.ceasefire.clone()),
        ("commit", environment.commit.clone().unwrap_or_default()),
    ];
    pairs.extend(rest.map(|(name, value)| (name.into(), value)));
    pairs
}

fn kernel_words(kernel: &Kernel) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(kernel.release.clone());
    parts.extend(kernel.base.as_ref().map(|base| format!("source {base}")));
    if kernel.source_checked == Some(false) {
        parts.push("a source version not checked before".into());
    }
    parts.extend(kernel.series.as_ref().map(|hash| format!("series {hash}")));
    parts.extend(kernel.config.as_ref().map(|hash| format!("config {hash}")));
    parts.extend(kernel.counters.as_ref().map(|counters| format!("{counters} counters")));
    parts.join(", ")
}

fn machine_words(qemu: &Qemu) -> String {
    let mut parts = vec![format!("QEMU {}", qemu.version)];
    parts.extend(qemu.series.as_ref().map(|hash| format!("series {hash}")));
    parts.push(qemu.accel.clone());
    parts.extend(qemu.thread_mode.as_ref().map(|mode| format!("thread mode {mode}")));
    parts.extend(qemu.slice_us.map(|slice| format!("slice {slice} µs")));
    parts.extend(qemu.cpu.as_ref().map(|cpu| format!("-cpu {cpu}")));
    parts.extend(qemu.memory_mib.map(|memory| format!("{memory} MiB")));
    // The lab's own is named by its series.
    if qemu.series.is_none() {
        parts.push(qemu.origin.clone());
        parts.extend(qemu.sha256.as_ref().map(|hash| format!("SHA-256 {hash}")));
    }
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

fn tlb_words(tlb: &Tlb) -> String {
    if !tlb.model {
        return format!("{}: as in stock QEMU, apart for user and kernel, without PCID", tlb.spec);
    }
    let some = |number: Option<u32>| number.filter(|&number| number > 0);
    let mut parts = Vec::new();
    parts.extend(tlb.access_bit.as_ref().map(|kind| format!("access bits {kind}")));
    parts.push(match (some(tlb.entries), tlb.ways) {
        (Some(entries), Some(ways)) => format!("{entries} entries of {ways} ways"),
        (Some(entries), None) => format!("{entries} entries"),
        (None, _) => "hardly any evicted".into(),
    });
    parts.push(match some(tlb.psc) {
        Some(entries) => format!("paging-structure cache of {entries}"),
        None => "no paging-structure cache".into(),
    });
    parts.push(match (some(tlb.speculation_us), tlb.seed) {
        (Some(mean), Some(seed)) => format!("a speculative walk every {mean} µs, seed {seed}"),
        (Some(mean), None) => format!("a speculative walk every {mean} µs"),
        (None, _) => "no speculative walks".into(),
    });
    if tlb.insert == Some(true) {
        parts.push("insertion by the kernel, which no processor has".into());
    }
    if let Some(broadcast) = &tlb.broadcast {
        parts.push(format!("INVLPGB and TLBSYNC as AMD's processors have, {broadcast}"));
    }
    format!("{}: {}", tlb.spec, parts.join(", "))
}

pub(crate) fn definitions(results: &Results) -> Markup {
    html! {
        (section("What the counters mean"))
        (note("All are differences over the measured part of a run, over the whole system, divided by the units of work done."))
        dl {
            @for counter in COUNTERS { dt { (counter.title) } dd { (counter.meaning) } "\n" }
            @for shown in results.shown(Counter::is_shown) {
                dt { (shown.mechanism.title) ": " (shown.counter.title) }
                dd { (shown.counter.meaning) } "\n"
            }
        }
    }
}

pub(crate) fn reproduce(results: &Results) -> Markup {
    html! {
        (section("Measure it again"))
        @match &results.environment.command {
            Some(command) => pre tabindex="0" { code { (command) } },
            None => (note("This file does not say which command made it.")),
        }
        (note("The hashes above name the exact kernel, machine and workload sources. Counts vary from repeat to repeat; the \
               ranges above show by how much."))
    }
}
