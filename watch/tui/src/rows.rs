// SPDX-License-Identifier: GPL-2.0-only
//! From windows to tables: senders, victims, causes. Figures a second are of the last interval, the others since the
//! reset.

use ceasefire_watch_model::{Class, Counts, Snapshot, Tally};
use ceasefire_watch_views::numbers::{count, max_us, mean_us};
use ceasefire_watch_views::stat::{self, classed, Caused, Sent};
use std::collections::BTreeMap;

/// What a row is about, from one interval to the next.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A thread, on whatever CPU.
    Sender(Class, u32),
    /// A thread on a CPU.
    Victim(Class, u32, u32),
    Cause(Class, String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub title: String,
    /// Where there is no room, the least goes first.
    pub keep: u8,
    pub is_text: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    pub text: String,
    pub order: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub key: Key,
    pub cells: Vec<Cell>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
    /// Column by which it is sorted.
    pub sorted_by: usize,
    /// Rows that the filter left out.
    pub left_out: usize,
}

/// The two windows every view is made of.
#[derive(Debug, Clone, Default)]
pub struct Windows {
    /// Since the reset.
    pub total: Snapshot,
    /// The last interval.
    pub last: Snapshot,
}

impl Column {
    pub fn number(title: &str, keep: u8) -> Column {
        Column { title: title.to_string(), keep, is_text: false }
    }

    pub fn text(title: &str, keep: u8) -> Column {
        Column { title: title.to_string(), keep, is_text: true }
    }
}

impl Cell {
    pub fn text(text: String) -> Cell {
        Cell { text, order: 0 }
    }

    pub fn number(value: u64) -> Cell {
        Cell { text: count(value), order: value }
    }

    fn rate(value: u64, window_ns: u64) -> Cell {
        let rate = per_second(value, window_ns);
        Cell { text: count(rate), order: rate }
    }

    /// A share of the time, or of all, in per cent.
    fn percent(part: u64, whole: u64) -> Cell {
        match whole {
            0 => Cell::none(),
            whole => {
                let percent = part as f64 * 100.0 / whole as f64;
                Cell { text: format!("{percent:.1}"), order: (percent * 1000.0) as u64 }
            }
        }
    }

    fn mean_us(sum_ns: u64, count: u64) -> Cell {
        Cell { text: mean_us(sum_ns, count), order: sum_ns.checked_div(count).unwrap_or(0) }
    }

    fn none() -> Cell {
        Cell::text("-".to_string())
    }

    fn when(self, is_known: bool) -> Cell {
        if is_known {
            self
        } else {
            Cell::none()
        }
    }
}

pub fn per_second(value: u64, window_ns: u64) -> u64 {
    match window_ns {
        0 => 0,
        ns => (value as f64 * 1e9 / ns as f64).round() as u64,
    }
}

pub fn senders(windows: &Windows) -> Table {
    let columns = vec![
        Column::text("SENDER", 9),
        Column::number("SENT/s", 6),
        Column::number("RECEIVED/s", 8),
        Column::number("RECEIVED", 4),
        Column::number("WAITED %", 5),
        Column::text("MOSTLY", 7),
    ];
    let (ns, is_timed) = (windows.last.window_ns, windows.total.has_latencies);
    let last = stat::sent(&windows.last);
    let row = |((class, tid), sum): ((Class, u32), Sent)| {
        let recent = last.get(&(class, tid)).map_or(Tally::default(), |last| last.tally);
        let cells = vec![
            Cell::text(classed(stat::task(&sum.task), class)),
            Cell::rate(recent.shootdowns, ns),
            Cell::rate(recent.targets, ns),
            Cell::number(sum.tally.targets),
            Cell::percent(recent.wait_ns, ns).when(is_timed),
            Cell::text(sum.mostly()),
        ];
        Row { key: Key::Sender(class, tid), cells }
    };
    let rows = stat::sent(&windows.total).into_iter().map(row).collect();
    Table { columns, rows, sorted_by: 2, left_out: 0 }
}

pub fn victims(windows: &Windows) -> Table {
    let columns = vec![
        Column::text("VICTIM", 9),
        Column::number("CPU", 7),
        Column::number("INTERRUPTS/s", 8),
        Column::number("INTERRUPTS", 4),
        Column::number("STOLEN %", 6),
        Column::number("DELIVERY us", 3),
        Column::number("MAX us", 5),
    ];
    let key = |victim: &ceasefire_watch_model::Victim| Key::Victim(victim.class, victim.task.tid, victim.cpu);
    let last: BTreeMap<Key, _> = windows.last.victims.iter().map(|victim| (key(victim), victim)).collect();
    let ns = windows.last.window_ns;
    let row = |victim: &ceasefire_watch_model::Victim| {
        let key = key(victim);
        let (recent, stolen) = last.get(&key).map_or((0, 0), |last| (last.interruptions, last.stolen_ns));
        let cells = vec![
            Cell::text(classed(stat::task(&victim.task), victim.class)),
            Cell { text: victim.cpu.to_string(), order: victim.cpu.into() },
            Cell::rate(recent, ns),
            Cell::number(victim.interruptions),
            Cell::percent(stolen, ns),
            Cell::mean_us(victim.delivery_ns, victim.interruptions).when(victim.delivery_ns > 0),
            Cell { text: max_us(victim.greatest()), order: victim.stolen_ns_max },
        ];
        Row { key, cells }
    };
    let rows = windows.total.victims.iter().filter(|victim| victim.class != Class::Own).map(row).collect();
    Table { columns, rows, sorted_by: 2, left_out: 0 }
}

pub fn causes(windows: &Windows) -> Table {
    let columns = vec![
        Column::text("CAUSE", 9),
        Column::number("SENT/s", 6),
        Column::number("RECEIVED/s", 8),
        Column::number("PAGES", 4),
        Column::number("FULL %", 3),
        Column::number("DELIVERY us", 1),
        Column::number("HANDLER us", 2),
        Column::number("WAIT us", 7),
    ];
    let last = stat::caused(&windows.last);
    let (ns, is_timed) = (windows.last.window_ns, windows.total.has_latencies);
    let row = |(key, sum): ((Class, String), Caused)| {
        let recent = last.get(&key).map_or(Tally::default(), |last| last.tally);
        let pages = sum.tally.pages.checked_div(sum.ranged());
        let cells = vec![
            Cell::text(classed(key.1.clone(), key.0)),
            Cell::rate(recent.shootdowns, ns),
            Cell::rate(recent.targets, ns),
            Cell { text: sum.pages_each(), order: pages.unwrap_or(0) },
            Cell::percent(sum.full, sum.tally.shootdowns),
            Cell::mean_us(sum.delivery_ns, sum.tally.targets).when(is_timed),
            Cell::mean_us(sum.handler_ns, sum.tally.targets).when(is_timed),
            Cell::mean_us(sum.tally.wait_ns, sum.tally.shootdowns).when(is_timed),
        ];
        Row { key: Key::Cause(key.0, key.1), cells }
    };
    let rows = stat::caused(&windows.total).into_iter().map(row).collect();
    Table { columns, rows, sorted_by: 2, left_out: 0 }
}

/// Targets or interruptions of the interval, for the history of each row.
pub fn recent(last: &Snapshot) -> Counts<Key> {
    let senders = last.senders.iter();
    let senders = senders.map(|row| (Key::Sender(row.class, row.task.tid), row.tally.targets));
    let sites = last.sites.iter();
    let sites = sites.map(|row| (Key::Cause(row.class, row.cause.to_string()), row.tally.targets));
    let victims = last.victims.iter();
    let victims = victims.map(|row| (Key::Victim(row.class, row.task.tid, row.cpu), row.interruptions));
    senders.chain(sites).chain(victims).collect()
}

impl Table {
    /// Sorted: numbers from the greatest, words from A. Equal rows by name, so that they do not jump.
    pub fn sort(&mut self, column: usize) {
        let is_text = self.columns.get(column).is_some_and(|column| column.is_text);
        self.sorted_by = column;
        self.rows.sort_by(|a, b| {
            let by_number = b.cells[column].order.cmp(&a.cells[column].order);
            let by_word = a.cells[column].text.cmp(&b.cells[column].text);
            let first = if is_text { by_word } else { by_number };
            first.then_with(|| a.cells[0].text.cmp(&b.cells[0].text)).then_with(|| a.key.cmp(&b.key))
        });
    }

    /// Rows in whose words the filter occurs, whatever its case.
    pub fn filter(&mut self, wanted: &str) {
        if wanted.is_empty() {
            return;
        }
        let wanted = wanted.to_lowercase();
        let is_text: Vec<bool> = self.columns.iter().map(|column| column.is_text).collect();
        let before = self.rows.len();
        self.rows.retain(|row| {
            let mut words = row.cells.iter().zip(&is_text).filter(|(_, is_text)| **is_text);
            words.any(|(cell, _)| cell.text.to_lowercase().contains(&wanted))
        });
        self.left_out = before - self.rows.len();
    }
}
