// SPDX-License-Identifier: GPL-2.0-only
//! CPUs that were meant to be left alone: who interrupted them all the same.

use crate::numbers::{count, time};
use crate::{stat, table};
use ceasefire_watch_model::{ranges, Class, Snapshot, Victim};
use serde_json::{json, Value};
use std::collections::BTreeMap;

/// Our own interrupts are not counted: they end when the watching does.
fn victims<'a>(window: &'a Snapshot, cpus: &'a [u32]) -> impl Iterator<Item = &'a Victim> {
    window.victims.iter().filter(|victim| victim.class != Class::Own && cpus.contains(&victim.cpu))
}

pub fn interruptions(window: &Snapshot, cpus: &[u32]) -> u64 {
    victims(window, cpus).map(|victim| victim.interruptions).fold(0, u64::saturating_add)
}

pub fn render(window: &Snapshot, cpus: &[u32], top: usize) -> String {
    let mut text = format!(
        " isolated CPUs {}: {} interruptions in {}\n",
        ranges::show(cpus),
        count(interruptions(window, cpus)),
        time(window.window_ns)
    );
    let rows = rows(window, cpus);
    if !rows.is_empty() {
        let shown: Vec<Vec<String>> = rows.into_iter().take(top).map(|(_, row)| row).collect();
        let head = ["CPU", "ran", "interruptions", "class", "by", "mostly"];
        text.push_str(&table::render(&head, &[0, 1, 3, 4, 5], &shown));
    }
    text
}

pub fn json(window: &Snapshot, cpus: &[u32]) -> Value {
    json!({"cpus": cpus, "interruptions": interruptions(window, cpus)})
}

/// One for each thread that was interrupted by another, most first.
fn rows(window: &Snapshot, cpus: &[u32]) -> Vec<(u64, Vec<String>)> {
    let names: BTreeMap<u32, String> =
        window.victims.iter().map(|victim| (victim.task.tid, stat::task(&victim.task))).collect();
    let mut senders: BTreeMap<u32, (String, BTreeMap<String, u64>)> = BTreeMap::new();
    for sender in &window.senders {
        let entry = senders.entry(sender.task.tid).or_default();
        entry.0 = stat::task(&sender.task);
        let sum = entry.1.entry(sender.cause.to_string()).or_default();
        *sum = sum.saturating_add(sender.tally.targets);
    }
    let pairs = window.pairs.iter().filter(|p| p.class != Class::Own && cpus.contains(&p.victim_cpu));
    let mut rows: Vec<(u64, Vec<String>)> = pairs
        .map(|pair| {
            let name = names.get(&pair.victim_tid).cloned().unwrap_or_else(|| pair.victim_tid.to_string());
            let by = senders.get(&pair.sender_tid);
            let mostly = by.and_then(|(_, causes)| causes.iter().max_by_key(|(_, n)| **n));
            let row = vec![
                pair.victim_cpu.to_string(),
                name,
                count(pair.interruptions),
                pair.class.name().to_string(),
                by.map_or_else(|| pair.sender_tid.to_string(), |(name, _)| name.clone()),
                mostly.map_or_else(|| "-".to_string(), |(cause, _)| cause.clone()),
            ];
            (pair.interruptions, row)
        })
        .collect();
    rows.sort_by_key(|(n, _)| std::cmp::Reverse(*n));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use ceasefire_watch_model::{Cause, Histogram, Kind, Maximum, Pair, Sender, Tally, Task};

    fn task(name: &str, tid: u32) -> Task {
        Task { tgid: tid, tid, comm: name.to_string(), cgroup: 1 }
    }

    fn victim(class: Class, cpu: u32, tid: u32, interruptions: u64) -> Victim {
        Victim {
            cpu,
            task: task("victim", tid),
            class,
            interruptions,
            delivery_ns: 0,
            stolen_ns: 0,
            stolen_ns_max: 0,
            stolen_ns_max_is: Maximum::Exact,
            stolen: Histogram::default(),
        }
    }

    fn sender(tid: u32, cause: Cause) -> Sender {
        Sender {
            task: task("sender", tid),
            cpu: 0,
            class: Class::User,
            cause,
            kind: Kind::Ranged,
            freed_tables: false,
            kernel_stack: None,
            user_stack: None,
            syscall: None,
            argument: 0,
            tally: Tally { shootdowns: 3, targets: 3, ..Tally::default() },
        }
    }

    fn pair(sender_tid: u32, victim_tid: u32, interruptions: u64) -> Pair {
        Pair {
            class: Class::User,
            sender_tid,
            sender_cpu: 0,
            victim_tid,
            victim_cpu: 1,
            interruptions,
            stolen_ns: 0,
            stolen_ns_max: 0,
            stolen_ns_max_is: Maximum::Exact,
        }
    }

    #[test]
    fn only_those_cpus_and_not_our_own() {
        let window = Snapshot {
            victims: vec![
                victim(Class::User, 1, 2, 3),
                victim(Class::Own, 1, 9, 5),
                victim(Class::User, 0, 8, 7),
            ],
            senders: vec![sender(1, Cause::Munmap)],
            pairs: vec![pair(1, 2, 3)],
            ..Snapshot::default()
        };
        assert_eq!(interruptions(&window, &[1]), 3);
        assert_eq!(interruptions(&window, &[2, 3]), 0);
        let text = render(&window, &[1], 10);
        assert!(text.starts_with(" isolated CPUs 1: 3 interruptions"), "{text}");
        let row = "1    victim 2              3  user   sender 1  munmap";
        assert!(text.contains(row), "{text}");
        assert_eq!(json(&window, &[1])["interruptions"], 3);
    }
}
