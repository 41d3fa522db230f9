// SPDX-License-Identifier: GPL-2.0-only
//! CPUs that were meant to be left alone: who interrupted them all the same.

use crate::names::Names;
use crate::numbers::{count, time};
use crate::{stat, table};
use ceasefire_watch_model::{ranges, Class, Counts, Snapshot};
use serde_json::{json, Value};
use std::collections::BTreeMap;

/// Of whatever class: a CPU that was to be left alone was not.
pub fn interruptions(window: &Snapshot, cpus: &[u32]) -> u64 {
    by_class(window, cpus).total()
}

/// Those that were no flush.
pub fn cross_calls(window: &Snapshot, cpus: &[u32]) -> u64 {
    by_class(window, cpus).get(&Class::CrossCall)
}

/// Our own interrupts are not counted: they end when the watching does.
fn by_class(window: &Snapshot, cpus: &[u32]) -> Counts<Class> {
    let victims = window.victims.iter().filter(|row| row.class != Class::Own && cpus.contains(&row.cpu));
    victims.map(|row| (row.class, row.interruptions)).collect()
}

pub fn render(window: &Snapshot, cpus: &[u32], top: usize) -> String {
    let classes = by_class(window, cpus);
    let kernel_range = match classes.get(&Class::KernelRange) {
        0 => String::new(),
        n => format!(" and {} for kernel addresses", count(n)),
    };
    let calls = match classes.get(&Class::CrossCall) {
        0 => String::new(),
        n => format!(" and {} other cross calls", count(n)),
    };
    let mut text = format!(
        " isolated CPUs {}: {} interruptions{kernel_range}{calls} in {}\n",
        ranges::show(cpus),
        count(classes.get(&Class::User)),
        time(window.window_ns)
    );
    let rows: Vec<Vec<String>> = rows(window, cpus).into_iter().take(top).map(|(_, row)| row).collect();
    let head = ["CPU", "ran", "interruptions", "class", "by", "mostly"];
    text.push_str(&table::render(&head, &[0, 1, 3, 4, 5], &rows));
    text
}

pub fn json(window: &Snapshot, cpus: &[u32]) -> Value {
    let classes = by_class(window, cpus);
    let classes: BTreeMap<&str, u64> = classes.iter().map(|(class, n)| (class.name(), n)).collect();
    json!({"cpus": cpus, "interruptions": interruptions(window, cpus), "by_class": classes})
}

/// One for each thread that was interrupted by another, most first.
fn rows(window: &Snapshot, cpus: &[u32]) -> Vec<(u64, Vec<String>)> {
    let names = Names::of(window);
    let sent = stat::sent(window);
    let pairs = window.pairs.iter().filter(|p| p.class != Class::Own && cpus.contains(&p.victim_cpu));
    let mut rows: Vec<(u64, Vec<String>)> = pairs
        .map(|pair| {
            let mostly = sent.get(&(pair.class, pair.sender_tid)).map(stat::Sent::mostly);
            let row = vec![
                pair.victim_cpu.to_string(),
                names.get(pair.victim_tid),
                count(pair.interruptions),
                pair.class.name().to_string(),
                names.get(pair.sender_tid),
                mostly.unwrap_or_else(|| "-".to_string()),
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
    use crate::testing::{pair, pair_of_classes, sender, victim};
    use ceasefire_watch_model::Cause;

    #[test]
    fn only_those_cpus_and_not_our_own() {
        let window = Snapshot {
            victims: vec![
                victim(Class::User, 1, 2, 3),
                victim(Class::Own, 1, 9, 5),
                victim(Class::User, 0, 8, 7),
            ],
            senders: vec![sender(Class::User, 1, Cause::Munmap, 3)],
            pairs: vec![pair(Class::User, 1, 2, 3)],
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

    #[test]
    fn each_class_has_its_own_number_and_cause() {
        let window = pair_of_classes();
        let text = render(&window, &[1], 10);
        let head = " isolated CPUs 1: 3 interruptions and 5 for kernel addresses in";
        assert!(text.starts_with(head), "{text}");
        let last: Vec<&str> =
            text.lines().skip(2).filter_map(|line| line.split_whitespace().last()).collect();
        assert_eq!(last, ["vmalloc", "munmap"], "{text}");
        let by_class = serde_json::json!({"user": 3, "kernel-range": 5});
        assert_eq!(json(&window, &[1])["by_class"], by_class);
    }
}
