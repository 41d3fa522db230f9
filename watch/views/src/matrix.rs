// SPDX-License-Identifier: GPL-2.0-only
//! Who interrupts whom: senders down, victims across.

use crate::names::Names;
use crate::numbers::count;
use crate::{honesty, stat, table};
use ceasefire_watch_model::{Class, Counts, Snapshot};
use std::collections::BTreeMap;

pub fn render(window: &Snapshot, top: usize) -> String {
    let (mut cells, mut rows, mut columns) = (BTreeMap::new(), Counts::default(), Counts::default());
    for pair in window.pairs.iter().filter(|pair| pair.class != Class::Own) {
        let cell: &mut u64 = cells.entry((pair.class, pair.sender_tid, pair.victim_tid)).or_default();
        *cell = cell.saturating_add(pair.interruptions);
        rows.add((pair.class, pair.sender_tid), pair.interruptions);
        columns.add((pair.class, pair.victim_tid), pair.interruptions);
    }
    if cells.is_empty() {
        return format!("no shootdowns\n{}", honesty::block(&window.coverage));
    }
    let names = Names::of(window);
    let (rows, columns) = (rows.largest(top), threads(columns, top));
    let titles: Vec<String> = columns.iter().map(|tid| names.get(*tid)).collect();
    let mut head = vec!["sender \\ victim"];
    head.extend(titles.iter().map(String::as_str));
    let body: Vec<Vec<String>> = rows
        .iter()
        .map(|((class, sender), _)| {
            let cell =
                |victim: &u32| cells.get(&(*class, *sender, *victim)).map_or("-".to_string(), |n| count(*n));
            let sender = stat::classed(names.get(*sender), *class);
            std::iter::once(sender).chain(columns.iter().map(cell)).collect()
        })
        .collect();
    format!("{}{}", table::render(&head, &[0], &body), honesty::block(&window.coverage))
}

/// A column is for every class: its place is that of its greatest one.
fn threads(columns: Counts<(Class, u32)>, top: usize) -> Vec<u32> {
    let mut threads: BTreeMap<u32, u64> = BTreeMap::new();
    for ((_, tid), interruptions) in columns.iter() {
        let most = threads.entry(*tid).or_default();
        *most = interruptions.max(*most);
    }
    let threads: Counts<u32> = threads.into_iter().collect();
    threads.largest(top).into_iter().map(|(tid, _)| tid).collect()
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
