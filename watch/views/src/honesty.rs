// SPDX-License-Identifier: GPL-2.0-only
//! How every report ends: what was seen of what there was, what was lost, what watching cost.

use crate::numbers::{count, time};
use ceasefire_watch_model::{Class, ClassCoverage, Coverage, InterruptCoverage, Lost, ProgramCost};

const LOST: [&str; 5] = [
    "events for which the ring had no room",
    "stacks",
    "table rows for which there was no room",
    "descriptions (counted all the same)",
    "answers that were not seen, or belong to shootdowns we did not see begin",
];

pub fn block(coverage: &Coverage) -> String {
    let mut text = String::from("\n");
    for class in &coverage.classes {
        if class.class == Class::Own && class.queued == 0 {
            continue;
        }
        text.push_str(&seen(class, coverage));
    }
    text.push_str(&coverage.interrupts.as_ref().map_or_else(String::new, interrupts));
    text.push_str(&format!("lost: {}\n", lost(&coverage.lost, LOST)));
    text.push_str(&overhead(coverage));
    for sentence in &coverage.blind {
        text.push_str(&format!("blind: {sentence}\n"));
    }
    text
}

fn seen(class: &ClassCoverage, coverage: &Coverage) -> String {
    let own = own_of(class, coverage);
    let name = class.class.name();
    let filtered = match class.filtered {
        0 => String::new(),
        _ if class.class == Class::Own => String::new(),
        filtered => format!("; {} of them outside the filters", count(filtered)),
    };
    match class.kernel {
        Some(kernel) => {
            let share = match kernel {
                0 => String::new(),
                kernel => {
                    format!(" ({:.2} %)", class.queued.saturating_add(own) as f64 * 100.0 / kernel as f64)
                }
            };
            let seen = count(class.queued.saturating_add(own));
            let own = if own > 0 { format!(", {} of them our own", count(own)) } else { String::new() };
            format!(
                "saw {seen} of {} {name} targets{share}{own}: {}{filtered}\n",
                count(kernel),
                class.source
            )
        }
        None => format!("saw {} {name} targets; {}{filtered}\n", count(class.queued), class.source),
    }
}

/// Every interrupt by which a CPU is asked to run something: flushes, other calls, our own.
fn interrupts(seen: &InterruptCoverage) -> String {
    let share = match seen.kernel {
        Some(kernel @ 1..) => format!(" ({:.2} %)", seen.seen as f64 * 100.0 / kernel as f64),
        _ => String::new(),
    };
    let of = seen.kernel.map_or_else(|| "?".into(), count);
    format!(
        "saw the senders of {} of {of} function call interrupts{share}: CAL row of /proc/interrupts\n",
        count(seen.seen)
    )
}

/// Our own are in the kernel's row, too.
fn own_of(class: &ClassCoverage, coverage: &Coverage) -> u64 {
    match class.class {
        Class::User => coverage.class(Class::Own).map_or(0, |own| own.queued),
        _ => 0,
    }
}

/// In these words: events, stacks, rows, descriptions, answers.
pub fn lost(lost: &Lost, words: [&str; 5]) -> String {
    let counts = [lost.events, lost.stacks, lost.rows, lost.slots, lost.answers];
    let parts = counts.into_iter().zip(words).filter(|(lost, _)| *lost > 0);
    let parts: Vec<String> = parts.map(|(lost, what)| format!("{} {what}", count(lost))).collect();
    if parts.is_empty() {
        "nothing".to_string()
    } else {
        parts.join(", ")
    }
}

fn overhead(coverage: &Coverage) -> String {
    let overhead = &coverage.overhead;
    let own = format!(
        "this process: {} of CPU time, {:.1} MiB at most",
        time(overhead.own_cpu_ns),
        overhead.own_rss_kib_max as f64 / 1024.0
    );
    match overhead.probe_share() {
        Some(share) => {
            let sum = |part: fn(&ProgramCost) -> u64| {
                overhead.programs.iter().map(part).fold(0, u64::saturating_add)
            };
            let each = sum(|program| program.run_ns).checked_div(sum(|program| program.runs));
            let each = each.map_or_else(String::new, |each| format!(" ({} a run)", time(each)));
            format!(
                "overhead: probes {:.2} % of one CPU{each}, timed for {}; {own}\n",
                share * 100.0,
                time(overhead.timed_ns)
            )
        }
        None => format!("overhead: probes not timed; {own}\n"),
    }
}
