// SPDX-License-Identifier: GPL-2.0-only
//! Who interrupts whom: senders down, victims across.

use crate::numbers::count;
use crate::{honesty, stat, table};
use ceasefire_watch_model::{Class, Snapshot, Task};
use std::collections::{BTreeMap, HashMap};

pub fn render(window: &Snapshot, top: usize) -> String {
    let mut cells: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let (mut rows, mut columns): (BTreeMap<u32, u64>, BTreeMap<u32, u64>) = Default::default();
    for pair in window.pairs.iter().filter(|pair| pair.class != Class::Own) {
        for sum in [
            cells.entry((pair.sender_tid, pair.victim_tid)).or_default(),
            rows.entry(pair.sender_tid).or_default(),
            columns.entry(pair.victim_tid).or_default(),
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
    let (rows, columns) = (largest(rows, top), largest(columns, top));
    let titles: Vec<String> = columns.iter().map(|tid| name(*tid)).collect();
    let mut head = vec!["sender \\ victim"];
    head.extend(titles.iter().map(String::as_str));
    let body: Vec<Vec<String>> = rows
        .iter()
        .map(|sender| {
            let cell = |victim: &u32| cells.get(&(*sender, *victim)).map_or("-".to_string(), |n| count(*n));
            std::iter::once(name(*sender)).chain(columns.iter().map(cell)).collect()
        })
        .collect();
    format!("{}{}", table::render(&head, &[0], &body), honesty::block(&window.coverage))
}

fn largest(sums: BTreeMap<u32, u64>, top: usize) -> Vec<u32> {
    let mut sums: Vec<(u32, u64)> = sums.into_iter().collect();
    sums.sort_by_key(|(tid, n)| (std::cmp::Reverse(*n), *tid));
    sums.into_iter().take(top).map(|(tid, _)| tid).collect()
}

fn names(window: &Snapshot) -> HashMap<u32, String> {
    let tasks = window
        .senders
        .iter()
        .map(|sender| &sender.task)
        .chain(window.victims.iter().map(|victim| &victim.task));
    tasks.map(|task: &Task| (task.tid, stat::task(task))).collect()
}
