// SPDX-License-Identifier: GPL-2.0-only
//! One line a shootdown, with the columns of the illumos script: ADDRESS PAGES SHOOTDOWNS FACTOR LATENCY CAUSE.

use crate::numbers::us;
use crate::stat;
use ceasefire_watch_model::Shootdown;

pub fn head() -> String {
    format!(
        "{:<18} {:>7} {:>10} {:>7} {:>12} {:<18} {:<24} {}",
        "ADDRESS", "PAGES", "SHOOTDOWNS", "FACTOR", "LATENCY (us)", "CAUSE", "SENDER", "TARGETS"
    )
}

pub fn line(shootdown: &Shootdown) -> String {
    let address = shootdown.address.map_or("-".to_string(), |address| format!("{address:#x}"));
    let pages = match (shootdown.pages, shootdown.why_full) {
        (Some(pages), _) => pages.to_string(),
        (None, Some(_)) => "full".to_string(),
        (None, None) => "-".to_string(),
    };
    let factor = shootdown.pages.map_or("-".to_string(), |pages| pages.to_string());
    let wait = shootdown.latencies.map_or("-".to_string(), |times| us(times.wait_ns as f64));
    let cause = match shootdown.why_full {
        Some(why) => format!("{} ({})", shootdown.cause, why.name()),
        None => shootdown.cause.to_string(),
    };
    let sender = format!("{} @{}", stat::task(&shootdown.task), shootdown.cpu);
    let targets: Vec<String> = shootdown.target_cpus.iter().take(16).map(u32::to_string).collect();
    let targets =
        if targets.is_empty() { shootdown.targets.to_string() } else { format!("@{}", targets.join(",")) };
    format!("{address:<18} {pages:>7} {:>10} {factor:>7} {wait:>12} {cause:<18} {sender:<24} {targets}", 1)
}
