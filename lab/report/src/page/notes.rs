// SPDX-License-Identifier: GPL-2.0-only
//! What stands below the figures: what is missing, where it was measured, what the words mean, how to do it again.

use super::section;
use crate::svg::escape;
use crate::table::missing_sentence;
use ceasefire_base::text::count;
use ceasefire_mechanism::Counter;
use ceasefire_results::schema::{Results, Tlb, COUNTERS};

pub(crate) fn missing(results: &Results, page: &mut String) {
    if results.skipped.is_empty() && results.failed.is_empty() && results.problems.is_empty() {
        return;
    }
    section(page, "Not measured");
    for (title, class, list) in [("Skipped", "doubt", &results.skipped), ("Failed", "bad", &results.failed)] {
        if list.is_empty() {
            continue;
        }
        page.push_str(&format!(
            "<h3 class=\"{class}\">{title} ({})</h3>\n<ul class=\"plain\">\n",
            list.len()
        ));
        for entry in list {
            page.push_str(&format!("<li>{}", escape(&missing_sentence(entry))));
            if let Some(rerun) = &entry.rerun {
                page.push_str(&format!("<br><code>{}</code>", escape(rerun)));
            }
            page.push_str("</li>\n");
        }
        page.push_str("</ul>\n");
    }
    if !results.problems.is_empty() {
        page.push_str(&format!(
            "<h3 class=\"doubt\">Problems in the guest's log ({})</h3>\n<ul class=\"plain\">\n",
            results.problems.len()
        ));
        for problem in &results.problems {
            page.push_str(&format!("<li>{}</li>\n", escape(problem)));
        }
        page.push_str("</ul>\n");
    }
}

pub(crate) fn environment(results: &Results, page: &mut String) {
    let environment = &results.environment;
    section(page, "Environment");
    page.push_str("<dl class=\"pairs\">\n");
    let mut pair = |name: &str, value: String| {
        if !value.is_empty() {
            page.push_str(&format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(&value)));
        }
    };
    for kernel in &environment.kernels {
        let mut parts: Vec<String> = Vec::new();
        parts.extend(kernel.release.clone());
        parts.extend(kernel.base.as_ref().map(|base| format!("source {base}")));
        if kernel.source_checked == Some(false) {
            parts.push("a source version not checked before".into());
        }
        parts.extend(kernel.series.as_ref().map(|hash| format!("series {hash}")));
        parts.extend(kernel.config.as_ref().map(|hash| format!("config {hash}")));
        parts.extend(kernel.counters.as_ref().map(|counters| format!("{counters} counters")));
        pair(&format!("kernel {}", kernel.name), parts.join(", "));
    }
    if let Some(qemu) = &environment.qemu {
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
        pair("machine", parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", "));
    }
    let on_off =
        |flag: Option<bool>| flag.map(|on| if on { "on" } else { "off" }.to_string()).unwrap_or_default();
    pair("measured in", environment.place.clone());
    pair("huge pages", environment.thp.clone().unwrap_or_default());
    pair("PTI", on_off(environment.pti));
    pair("PCID", on_off(environment.pcid));
    pair("INVPCID", on_off(environment.invpcid));
    if let Some(tlb) = environment.qemu.as_ref().and_then(|qemu| qemu.tlb.as_ref()) {
        pair("TLBs", tlb_words(tlb));
    }
    let costs: Vec<String> =
        environment.cycle_costs.iter().map(|(name, cycles)| format!("{name} {cycles}")).collect();
    pair("modelled cycles", costs.join(", "));
    pair("seed", environment.seed.map(|seed| seed.to_string()).unwrap_or_default());
    pair("workload sources", environment.workloads.clone().unwrap_or_default());
    let mut host: Vec<String> = Vec::new();
    host.extend(environment.host.cores.map(|cores| count(u64::from(cores), "core")));
    host.extend(environment.host.cpu.clone());
    host.extend(environment.host.release.as_ref().map(|release| format!("Linux {release}")));
    pair("host", host.join(", "));
    pair("ceasefire", environment.ceasefire.clone());
    page.push_str("</dl>\n");
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
    format!("{}: {}", tlb.spec, parts.join(", "))
}

pub(crate) fn definitions(results: &Results, page: &mut String) {
    section(page, "What the counters mean");
    page.push_str("<p class=\"note\">All are differences over the measured part of a run, over the whole system, divided by the units of work done.</p>\n<dl>\n");
    for figure in COUNTERS {
        page.push_str(&format!("<dt>{}</dt><dd>{}</dd>\n", escape(figure.title), escape(figure.meaning)));
    }
    for shown in results.shown(Counter::is_shown) {
        let of = format!("{}: {}", shown.mechanism.title, shown.counter.title);
        page.push_str(&format!("<dt>{}</dt><dd>{}</dd>\n", escape(&of), escape(&shown.counter.meaning)));
    }
    page.push_str("</dl>\n");
}

pub(crate) fn reproduce(results: &Results, page: &mut String) {
    section(page, "Measure it again");
    match &results.environment.command {
        Some(command) => {
            page.push_str(&format!("<pre tabindex=\"0\"><code>{}</code></pre>\n", escape(command)))
        }
        None => page.push_str("<p class=\"note\">This file does not say which command made it.</p>\n"),
    }
    page.push_str("<p class=\"note\">The hashes above name the exact kernel, machine and workload sources. Counts vary from repeat to repeat; the ranges above show by how much.</p>\n");
}
