// SPDX-License-Identifier: GPL-2.0-only
//! One line a range, or a shootdown, with the columns of the illumos script: ADDRESS PAGES SHOOTDOWNS FACTOR LATENCY
//! CAUSE.

use crate::numbers::{ratio, us};
use crate::stat;
use crate::table::pad;
use ceasefire_watch_model::{ranges, Run, Shootdown};

pub fn head() -> String {
    format!(
        "{:<18} {:>7} {:>10} {:>7} {:>12} {:<18} {:<24} {}",
        "ADDRESS", "PAGES", "SHOOTDOWNS", "FACTOR", "LATENCY (us)", "CAUSE", "SENDER", "TARGETS"
    )
}

/// One shootdown.
pub fn line(shootdown: &Shootdown) -> String {
    let wait = shootdown.latencies.map(|times| times.wait_ns);
    columns(shootdown, shootdown.address, shootdown.pages, 1, wait)
}

/// A range flushed in one or several shootdowns: pages, shootdowns, pages for each; the waits added up.
pub fn run_line(run: &Run) -> String {
    let wait = run.first.latencies.map(|_| run.wait_ns);
    columns(&run.first, run.address, run.pages, run.shootdowns, wait)
}

fn columns(
    first: &Shootdown,
    address: Option<u64>,
    pages: Option<u64>,
    shootdowns: u64,
    wait_ns: Option<u64>,
) -> String {
    let address = address.map_or("-".to_string(), |address| format!("{address:#x}"));
    let factor = pages.map_or("-".to_string(), |pages| match pages % shootdowns.max(1) {
        0 => (pages / shootdowns.max(1)).to_string(),
        _ => ratio(pages, shootdowns),
    });
    let pages = match (pages, first.why_full) {
        (Some(pages), _) => pages.to_string(),
        (None, Some(_)) => "full".to_string(),
        (None, None) => "-".to_string(),
    };
    let wait = wait_ns.map_or("-".to_string(), |wait_ns| us(wait_ns as f64));
    let cause = match first.why_full {
        Some(why) => format!("{} ({})", first.cause, why.name()),
        None => first.cause.to_string(),
    };
    let sender = pad(&format!("{} @{}", stat::task(&first.task), first.cpu), 24, true);
    let targets = match &first.target_cpus[..] {
        [] => first.targets.to_string(),
        cpus => format!("@{}", ranges::show(cpus)),
    };
    format!("{address:<18} {pages:>7} {shootdowns:>10} {factor:>7} {wait:>12} {cause:<18} {sender} {targets}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ceasefire_watch_model::{Cause, Class, Kind, Neighbours, Range, Task};

    #[test]
    fn a_range_flushed_piece_by_piece_is_one_line_with_its_factor() {
        let flush = |start_ns: u64, page: u64, pages: u64| Shootdown {
            start_ns,
            class: Class::User,
            cause: Cause::Munmap,
            cpu: 0,
            task: Task { tid: 7, comm: "app".into(), ..Task::default() },
            kernel_stack: Some(1),
            user_stack: None,
            address: Some(page << 12),
            pages: Some(pages),
            entries: Some(pages),
            kind: Kind::Ranged,
            why_full: None,
            freed_tables: false,
            targets: 1,
            target_cpus: vec![1],
            latencies: None,
            slowest: None,
        };
        let mut neighbours = Neighbours::new(Range::Touching, 1_000);
        assert!(neighbours.take(&flush(0, 16, 3)).is_empty());
        assert!(neighbours.take(&flush(9, 19, 2)).is_empty());
        let lines: Vec<String> = neighbours.rest().iter().map(run_line).collect();
        let words: Vec<&str> = lines[0].split_whitespace().collect();
        assert_eq!(words[..6], ["0x10000", "5", "2", "2.50", "-", "munmap"]);
        assert_eq!(
            line(&flush(0, 16, 3)).split_whitespace().take(4).collect::<Vec<_>>(),
            ["0x10000", "3", "1", "3"]
        );
    }
}
