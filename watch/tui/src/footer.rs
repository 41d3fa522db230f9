// SPDX-License-Identifier: GPL-2.0-only
//! How every view ends: what was seen of what there was, what was lost, what watching cost.

use crate::flow;
use ceasefire_watch_model::{Class, ClassCoverage, Snapshot};
use ceasefire_watch_views::honesty;
use ceasefire_watch_views::numbers::count;

/// Since the reset, in lines of at most this width.
pub fn lines(total: &Snapshot, width: usize) -> Vec<String> {
    let coverage = &total.coverage;
    let own = coverage.class(Class::Own).map_or(0, |own| own.queued);
    let mut parts = Vec::new();
    if let Some(user) = coverage.class(Class::User) {
        parts.push(user_targets(user, own));
    }
    if let Some(kernel) = coverage.class(Class::KernelRange).filter(|class| class.queued > 0) {
        parts.push(format!(
            "saw {} kernel-range targets (no kernel counter){}",
            count(kernel.queued),
            filtered(kernel)
        ));
    }
    if let Some((seen, all)) = coverage.interrupts.and_then(|all| Some((all.seen, all.kernel?))) {
        parts.push(format!("senders of {} of {} call interrupts", count(seen), count(all)));
    }
    let lost = honesty::lost(&coverage.lost, ["events", "stacks", "rows", "descriptions", "answers"]);
    parts.push(format!("lost {lost}"));
    let mut lines = flow::wrapped(&parts.join("; "), width);
    lines.extend(flow::wrapped(&overhead(total), width));
    lines
}

fn user_targets(class: &ClassCoverage, own: u64) -> String {
    let seen = class.queued + own;
    let of_all = match class.kernel {
        None => "user targets (no kernel counter)".to_string(),
        Some(0) => "of 0 user targets".to_string(),
        Some(all) => {
            // Never rounded up: 100 % means all.
            let share = (seen as f64 * 10_000.0 / all as f64).floor() / 100.0;
            format!("of {} user targets ({share:.2} %)", count(all))
        }
    };
    let own = if own > 0 { format!(", {} our own", count(own)) } else { String::new() };
    format!("saw {} {of_all}{own}{}", count(seen), filtered(class))
}

fn filtered(class: &ClassCoverage) -> String {
    match class.filtered {
        0 => String::new(),
        left_out => format!(", {} outside the filters", count(left_out)),
    }
}

fn overhead(total: &Snapshot) -> String {
    let overhead = &total.coverage.overhead;
    let probes = match overhead.probe_share() {
        Some(share) => format!("probes {:.2} % of one CPU", share * 100.0),
        None => "probes not timed".to_string(),
    };
    let own = match total.window_ns {
        0 => String::new(),
        window => format!("{:.2} % and ", overhead.own_cpu_ns as f64 * 100.0 / window as f64),
    };
    let blind = match total.coverage.blind.len() {
        0 => String::new(),
        1 => "; 1 blind spot: ?".to_string(),
        spots => format!("; {spots} blind spots: ?"),
    };
    format!("overhead: {probes}, own {own}{:.1} MiB{blind}", overhead.own_rss_kib_max as f64 / 1024.0)
}
