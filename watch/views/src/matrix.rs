// SPDX-License-Identifier: GPL-2.0-only
//! Who interrupts whom: senders down, victims across.

use crate::numbers::count;
use crate::{honesty, stat, table};
use ceasefire_watch_model::{Class, Snapshot, Task};
use std::collections::{BTreeMap, HashMap};

pub fn render(window: &Snapshot, top: usize) -> String {
    let mut cells: BTreeMap<(Class, u32, u32), u64> = BTreeMap::new();
    let mut rows: BTreeMap<(Class, u32), u64> = BTreeMap::new();
    let mut columns: BTreeMap<(Class, u32), u64> = BTreeMap::new();
    for pair in window.pairs.iter().filter(|pair| pair.class != Class::Own) {
        for sum in [
            cells.entry((pair.class, pair.sender_tid, pair.victim_tid)).or_default(),
            rows.entry((pair.class, pair.sender_tid)).or_default(),
            columns.entry((pair.class, pair.victim_tid)).or_default(),
        ] {
            *sum = sum.saturating_add(pair.interruptions);
        }
    }
    if cells.is_empty() {
        return format!("no shootdowns\n{}", honesty::block(&window.coverage));
    }
    let names = names(window);
    let name = |tid: u32| {
        names.get(&tid).cloned().unwrap_or_else(|| if tid == 0 { "idle".into() } else { tid.to_string() })
    };
    let (rows, columns) = (largest(rows, top), largest(of_threads(columns), top));
    let titles: Vec<String> = columns.iter().map(|tid| name(*tid)).collect();
    let mut head = vec!["sender \\ victim"];
    head.extend(titles.iter().map(String::as_str));
    let body: Vec<Vec<String>> = rows
        .iter()
        .map(|(class, sender)| {
            let cell =
                |victim: &u32| cells.get(&(*class, *sender, *victim)).map_or("-".to_string(), |n| count(*n));
            let sender = stat::classed(name(*sender), *class);
            std::iter::once(sender).chain(columns.iter().map(cell)).collect()
        })
        .collect();
    format!("{}{}", table::render(&head, &[0], &body), honesty::block(&window.coverage))
}

/// A column is for every class: its place is that of its greatest one.
fn of_threads(columns: BTreeMap<(Class, u32), u64>) -> BTreeMap<u32, u64> {
    let mut threads: BTreeMap<u32, u64> = BTreeMap::new();
    for ((_, tid), interruptions) in columns {
        let most = threads.entry(tid).or_default();
        *most = interruptions.max(*most);
    }
    threads
}

fn largest<K: Copy + Ord>(sums: BTreeMap<K, u64>, top: usize) -> Vec<K> {
    let mut sums: Vec<(K, u64)> = sums.into_iter().collect();
    sums.sort_by_key(|(key, n)| (std::cmp::Reverse(*n), *key));
    sums.into_iter().take(top).map(|(key, _)| key).collect()
}

/// Of every thread that a window names.
pub(crate) fn names(window: &Snapshot) -> HashMap<u32, String> {
    let tasks = window
        .senders
        .iter()
        .map(|sender| &sender.task)
        .chain(window.victims.iter().map(|victim| &victim.task));
    tasks.map(|task: &Task| (task.tid, stat::task(task))).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_class_has_a_row_of_its_own() {
        let text = super::render(&crate::testing::pair_of_classes(), 9);
        assert!(text.contains("  sender 1 (kernel-range)         5\n"), "{text}");
        assert!(text.contains("  sender 1                        3\n"), "{text}");
    }
}
