// SPDX-License-Identifier: GPL-2.0-only
//! Senders down, victims across; interruptions, a second or since the reset.

use crate::rows::{per_second, Cell, Column, Key, Row, Table, Windows};
use ceasefire_watch_model::{Class, Counts, Pair};
use ceasefire_watch_views::names::Names;
use ceasefire_watch_views::numbers::count;
use ceasefire_watch_views::stat::classed;
use std::collections::BTreeSet;

/// Columns in front of the victims: the sender and its two sums.
pub const FIRST: usize = 3;
/// More are not told apart by anyone.
const VICTIMS_MAX: usize = 64;

/// Class, sender, victim.
type Cells = Counts<(Class, u32, u32)>;

/// `by` 2: since the reset; else a second. Victims that interest most stand first, `skip` of them are scrolled away.
pub fn table(windows: &Windows, by: usize, filter: &str, skip: usize) -> Table {
    let names = Names::of(&windows.total);
    let wanted = filter.to_lowercase();
    let is_wanted = |pair: &&Pair| {
        let both = [names.get(pair.sender_tid), names.get(pair.victim_tid)];
        pair.class != Class::Own && both.iter().any(|name| name.to_lowercase().contains(&wanted))
    };
    let cell = |pair: &Pair| ((pair.class, pair.sender_tid, pair.victim_tid), pair.interruptions);
    let total: Cells = windows.total.pairs.iter().filter(is_wanted).map(cell).collect();
    let last: Cells = windows.last.pairs.iter().filter(is_wanted).map(cell).collect();
    let ns = windows.last.window_ns;
    let is_rate = by != 2;
    let shown = |cell: (Class, u32, u32)| match is_rate {
        true => per_second(last.get(&cell), ns),
        false => total.get(&cell),
    };

    let victims: Counts<u32> = total.iter().map(|((_, _, victim), n)| (*victim, n)).collect();
    let victims = victims.largest(VICTIMS_MAX);
    let skip = skip.min(victims.len().saturating_sub(1));
    let victims: Vec<u32> = victims.into_iter().skip(skip).map(|(tid, _)| tid).collect();

    let mut columns = vec![
        Column::text("SENDER \\ VICTIM", 255),
        Column::number("ALL/s", if is_rate { 100 } else { 0 }),
        Column::number("ALL", if is_rate { 0 } else { 100 }),
    ];
    columns.extend(
        victims
            .iter()
            .enumerate()
            .map(|(place, tid)| Column::number(&names.get(*tid), 99 - place.min(98) as u8)),
    );
    let senders: BTreeSet<(Class, u32)> =
        total.iter().map(|((class, sender, _), _)| (*class, *sender)).collect();
    let row = |(class, sender): (Class, u32)| {
        let all = |cells: &Cells| -> u64 {
            let of_sender = cells.iter().filter(|((c, s, _), _)| (*c, *s) == (class, sender));
            of_sender.map(|(_, interruptions)| interruptions).sum()
        };
        let rate = per_second(all(&last), ns);
        let mut cells = vec![
            Cell::text(classed(names.get(sender), class)),
            Cell { text: count(rate), order: rate },
            Cell::number(all(&total)),
        ];
        cells.extend(victims.iter().map(|victim| match total.get(&(class, sender, *victim)) {
            0 => Cell::text("-".to_string()),
            _ => Cell::number(shown((class, sender, *victim))),
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
