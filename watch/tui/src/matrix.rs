// SPDX-License-Identifier: GPL-2.0-only
//! Senders down, victims across; interruptions, a second or since the reset.

use crate::rows::{per_second, Cell, Column, Key, Row, Table, Windows};
use ceasefire_watch_model::{Class, Pair, Snapshot};
use ceasefire_watch_views::numbers::count;
use ceasefire_watch_views::stat::{self, classed};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Columns in front of the victims: the sender and its two sums.
pub const FIRST: usize = 3;
/// More are not told apart by anyone.
const VICTIMS_MAX: usize = 64;

/// `by` 2: since the reset; else a second. Victims that interest most stand first, `skip` of them are scrolled away.
pub fn table(windows: &Windows, by: usize, filter: &str, skip: usize) -> Table {
    let names = names(&windows.total);
    let name = |tid: u32| match (names.get(&tid), tid) {
        (Some(name), _) => name.clone(),
        (None, 0) => "idle".to_string(),
        (None, tid) => tid.to_string(),
    };
    let wanted = filter.to_lowercase();
    let is_wanted = |pair: &&Pair| {
        let both = [name(pair.sender_tid), name(pair.victim_tid)];
        pair.class != Class::Own && both.iter().any(|name| name.to_lowercase().contains(&wanted))
    };
    let total = sums(windows.total.pairs.iter().filter(is_wanted));
    let last = sums(windows.last.pairs.iter().filter(is_wanted));
    let ns = windows.last.window_ns;
    let is_rate = by != 2;
    let shown = |cell: (Class, u32, u32)| match is_rate {
        true => per_second(last.get(&cell).copied().unwrap_or(0), ns),
        false => total.get(&cell).copied().unwrap_or(0),
    };

    let mut victims: HashMap<u32, u64> = HashMap::new();
    for ((_, _, victim), interruptions) in &total {
        *victims.entry(*victim).or_default() += interruptions;
    }
    let mut victims: Vec<(u32, u64)> = victims.into_iter().collect();
    victims.sort_by_key(|(tid, sum)| (std::cmp::Reverse(*sum), *tid));
    victims.truncate(VICTIMS_MAX);
    let skip = skip.min(victims.len().saturating_sub(1));
    let victims: Vec<u32> = victims.into_iter().skip(skip).map(|(tid, _)| tid).collect();

    let mut columns = vec![
        Column::text("SENDER \\ VICTIM", 255),
        Column::number("ALL/s", if is_rate { 100 } else { 0 }),
        Column::number("ALL", if is_rate { 0 } else { 100 }),
    ];
    columns.extend(
        victims.iter().enumerate().map(|(place, tid)| Column::number(&name(*tid), 99 - place.min(98) as u8)),
    );
    let senders: BTreeSet<(Class, u32)> = total.keys().map(|(class, sender, _)| (*class, *sender)).collect();
    let row = |(class, sender): (Class, u32)| {
        let all = |sums: &Sums| -> u64 {
            let of_sender = sums.iter().filter(|((c, s, _), _)| (*c, *s) == (class, sender));
            of_sender.map(|(_, interruptions)| interruptions).sum()
        };
        let rate = per_second(all(&last), ns);
        let mut cells = vec![
            Cell::text(classed(name(sender), class)),
            Cell { text: count(rate), order: rate },
            Cell::number(all(&total)),
        ];
        cells.extend(victims.iter().map(|victim| match total.contains_key(&(class, sender, *victim)) {
            true => Cell::number(shown((class, sender, *victim))),
            false => Cell::text("-".to_string()),
        }));
        Row { key: Key::Sender(class, sender), cells }
    };
    let rows = senders.into_iter().map(row).collect();
    let all = windows.total.pairs.iter().filter(|pair| pair.class != Class::Own);
    let all: BTreeSet<_> = all.map(|pair| (pair.class, pair.sender_tid)).collect();
    let mut table = Table { columns, rows, sorted_by: by, left_out: 0 };
    table.left_out = all.len() - table.rows.len();
    table
}

type Sums = BTreeMap<(Class, u32, u32), u64>;

fn sums<'a>(pairs: impl Iterator<Item = &'a Pair>) -> Sums {
    let mut sums = Sums::new();
    for pair in pairs {
        *sums.entry((pair.class, pair.sender_tid, pair.victim_tid)).or_default() += pair.interruptions;
    }
    sums
}

/// Of every thread that a window names.
pub fn names(window: &Snapshot) -> HashMap<u32, String> {
    let senders = window.senders.iter().map(|sender| &sender.task);
    let tasks = senders.chain(window.victims.iter().map(|victim| &victim.task));
    tasks.map(|task| (task.tid, stat::task(task))).collect()
}
