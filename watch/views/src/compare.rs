// SPDX-License-Identifier: GPL-2.0-only
//! Two records, before and after a change: rates by cause, and how far they can be told from chance.

use crate::{numbers, stat, table};
use ceasefire_watch_model::{Class, Snapshot};
use serde_json::{json, Value};
use std::collections::{BTreeMap, BTreeSet};

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    Received,
    Sent,
    /// Nanoseconds in handlers.
    Stolen,
    /// Nanoseconds that senders waited.
    Waited,
}

impl Figure {
    pub fn name(self) -> &'static str {
        match self {
            Figure::Received => "received",
            Figure::Sent => "sent",
            Figure::Stolen => "stolen",
            Figure::Waited => "waited",
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Figure::Received | Figure::Sent if value < 100.0 => format!("{value:.2}"),
            Figure::Received | Figure::Sent => numbers::count(value.round() as u64),
            Figure::Stolen | Figure::Waited => numbers::time(value.round() as u64),
        }
    }
}

/// Class and cause; no cause is the whole class.
pub type Row = (Class, Option<String>);

/// The windows of a record: their length in seconds, and what each row counts.
#[derive(Debug, Clone, Default)]
pub struct Side {
    windows: Vec<(f64, BTreeMap<Row, f64>)>,
    /// What is counted are events, not nanoseconds.
    is_of_events: bool,
    /// Of work, where somebody has counted it.
    pub units: Option<f64>,
}

impl Side {
    pub fn take(&mut self, window: &Snapshot, figure: Figure) {
        let mut sums: BTreeMap<Row, f64> = BTreeMap::new();
        for site in window.sites.iter().filter(|site| site.class != Class::Own) {
            let value = match figure {
                Figure::Received => site.tally.targets,
                Figure::Sent => site.tally.shootdowns,
                Figure::Stolen => site.handler_ns,
                Figure::Waited => site.tally.wait_ns,
            };
            for row in [None, Some(site.cause.name().to_string())] {
                *sums.entry((site.class, row)).or_default() += value as f64;
            }
        }
        self.is_of_events = matches!(figure, Figure::Received | Figure::Sent);
        self.windows.push((window.window_ns as f64 / 1e9, sums));
    }

    pub fn windows(&self) -> usize {
        self.windows.len()
    }

    fn seconds(&self) -> f64 {
        self.windows.iter().map(|(seconds, _)| seconds).sum()
    }

    /// A rate, and its standard error relative to it: windows of unequal length, each as likely as the others (a ratio
    /// estimate). None where there are too few.
    fn rate(&self, row: &Row) -> (f64, Option<f64>) {
        let seconds = self.seconds();
        let of = |sums: &BTreeMap<Row, f64>| sums.get(row).copied().unwrap_or(0.0);
        let all: f64 = self.windows.iter().map(|(_, sums)| of(sums)).sum();
        if seconds <= 0.0 {
            return (0.0, None);
        }
        let rate = all / seconds;
        let count = self.windows.len() as f64;
        let error = (self.windows.len() >= WINDOWS_MIN && rate > 0.0).then(|| {
            let square = |(seconds, sums): &(f64, BTreeMap<Row, f64>)| (of(sums) - rate * seconds).powi(2);
            let sum: f64 = self.windows.iter().map(square).sum();
            (sum * count / (count - 1.0)).sqrt() / all
        });
        (self.units.filter(|units| *units > 0.0).map_or(rate, |units| all / units), error)
    }
}

/// Fewer do not tell how much they differ among each other.
pub const WINDOWS_MIN: usize = 4;

/// One row of both.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub row: Row,
    pub before: f64,
    pub after: f64,
    /// After / before; none where there was nothing before.
    pub ratio: Option<f64>,
    /// 95 %, of that.
    pub interval: Option<(f64, f64)>,
}

/// Two sides' rows, largest first; those of whole classes lead.
pub fn changes(before: &Side, after: &Side) -> Vec<Change> {
    let rows: BTreeSet<&Row> =
        before.windows.iter().chain(&after.windows).flat_map(|(_, sums)| sums.keys()).collect();
    let mut all: Vec<Change> = rows.into_iter().map(|row| change(row, before, after)).collect();
    all.sort_by(|a, b| {
        let size = |change: &Change| change.before.max(change.after);
        (a.row.0, a.row.1.is_some())
            .cmp(&(b.row.0, b.row.1.is_some()))
            .then_with(|| size(b).total_cmp(&size(a)))
    });
    all
}

fn change(row: &Row, before: &Side, after: &Side) -> Change {
    let ((was, was_error), (is, is_error)) = (before.rate(row), after.rate(row));
    let ratio = (was > 0.0).then(|| is / was);
    let has_enough = |side: &Side| side.windows() >= WINDOWS_MIN;
    let interval = match (ratio, was_error, is_error) {
        // Nothing left: at most as much as chance may hide (three events, the rule of three).
        (Some(_), Some(_), None) if is == 0.0 && has_enough(after) && after.is_of_events => {
            Some((0.0, 3.0 / (was * after.units.unwrap_or_else(|| after.seconds()))))
        }
        (Some(ratio), Some(was_error), Some(is_error)) => {
            let degrees = (before.windows() + after.windows()) as f64 - 2.0;
            let factor = (student(degrees) * was_error.hypot(is_error)).exp();
            Some((ratio / factor, ratio * factor))
        }
        _ => None,
    };
    Change { row: row.clone(), before: was, after: is, ratio, interval }
}

/// Of Student's distribution, what 2.5 % lie above; within 2 % of it from four degrees on.
fn student(degrees: f64) -> f64 {
    1.96 + 2.37 / degrees + 2.8 / (degrees * degrees)
}

/// A change of a class as a whole.
pub fn of_class(changes: &[Change], class: Class) -> Option<&Change> {
    changes.iter().find(|change| change.row == (class, None))
}

pub struct Shown<'a> {
    pub figure: Figure,
    pub names: [&'a str; 2],
    pub is_per_unit: bool,
}

pub fn render(changes: &[Change], shown: &Shown<'_>, top: usize) -> String {
    let per = if shown.is_per_unit { "per unit" } else { "per second" };
    let mut text = format!(
        " {} {per}: {} (before) and {} (after)\n\n",
        shown.figure.name(),
        shown.names[0],
        shown.names[1]
    );
    let rows: Vec<Vec<String>> = changes
        .iter()
        .take(top)
        .map(|change| {
            let name = change.row.1.clone().unwrap_or_else(|| "all".into());
            let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
            vec![
                stat::classed(name, change.row.0),
                shown.figure.show(change.before),
                shown.figure.show(change.after),
                change.ratio.map_or("new".into(), percent),
                change
                    .interval
                    .map_or("-".into(), |(least, most)| format!("{} to {}", percent(least), percent(most))),
            ]
        })
        .collect();
    match rows.is_empty() {
        true => text.push_str("  no shootdowns in either\n"),
        false => {
            text.push_str(&table::render(
                &["cause", "before", "after", "change", "95 % interval"],
                &[0],
                &rows,
            ));
        }
    }
    text
}

pub fn json(changes: &[Change], shown: &Shown<'_>) -> Value {
    let rows: Vec<Value> = changes
        .iter()
        .map(|change| {
            json!({
                "class": change.row.0.name(), "cause": change.row.1, "before": change.before,
                "after": change.after, "ratio": change.ratio,
                "interval_95": change.interval.map(|(least, most)| [least, most]),
            })
        })
        .collect();
    json!({
        "schema": "ceasefire.watch-compare/1", "figure": shown.figure.name(),
        "per": if shown.is_per_unit { "unit" } else { "second" }, "changes": rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::site;
    use ceasefire_watch_model::Cause;

    /// A window of a second for each.
    fn side(received: &[u64]) -> Side {
        let mut side = Side::default();
        for targets in received {
            let window = Snapshot {
                window_ns: 1_000_000_000,
                sites: vec![site(Class::User, Cause::Munmap, *targets)],
                ..Snapshot::default()
            };
            side.take(&window, Figure::Received);
        }
        side
    }

    fn all(before: &[u64], after: &[u64]) -> Change {
        let changes = changes(&side(before), &side(after));
        of_class(&changes, Class::User).cloned().expect("a change")
    }

    #[test]
    fn a_change_is_told_from_chance() {
        let half = all(&[100, 102, 98, 101, 99], &[50, 51, 49, 50, 50]);
        let (least, most) = half.interval.expect("an interval");
        assert!((half.ratio, 0.45 < least, most < 0.55) == (Some(0.5), true, true), "{half:?}");
        let none = all(&[100, 140, 60, 120, 80], &[110, 70, 130, 90, 100]);
        let (least, most) = none.interval.expect("an interval");
        assert!(least < 1.0 && most > 1.0, "{none:?}");
    }

    #[test]
    fn little_or_nothing_has_no_interval_or_a_bound() {
        assert_eq!(all(&[100, 100], &[50, 50]).interval, None, "two windows");
        let gone = all(&[100, 100, 100, 100], &[0, 0, 0, 0]);
        assert_eq!((gone.ratio, gone.interval), (Some(0.0), Some((0.0, 3.0 / 400.0))));
        let (mut before, mut after) = (side(&[100; 4]), side(&[0; 4]));
        (before.is_of_events, after.is_of_events) = (false, false);
        let times = changes(&before, &after);
        assert_eq!(
            of_class(&times, Class::User).and_then(|change| change.interval),
            None,
            "no events, no bound"
        );
        let new = all(&[0, 0, 0, 0], &[5, 5, 5, 5]);
        assert_eq!((new.ratio, new.interval), (None, None));
    }

    #[test]
    fn units_of_work_take_the_place_of_seconds() {
        let (mut before, mut after) = (side(&[100; 5]), side(&[100; 5]));
        (before.units, after.units) = (Some(100.0), Some(200.0));
        let changes = changes(&before, &after);
        let change = of_class(&changes, Class::User).expect("a change");
        assert_eq!((change.before, change.after, change.ratio), (5.0, 2.5, Some(0.5)));
        let shown = Shown { figure: Figure::Received, names: ["a", "b"], is_per_unit: true };
        let text = render(&changes, &shown, 9);
        assert!(text.contains("  munmap    5.00   2.50  -50.0 %"), "{text}");
        assert_eq!(json(&changes, &shown)["changes"][0]["ratio"], 0.5);
    }
}
