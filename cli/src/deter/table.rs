// SPDX-License-Identifier: GPL-2.0-only
//! What `try` found, for a person: the table, then the sentence to act on.

use super::lines::{columns, say};
use ceasefire_base::exec::print_line;
use ceasefire_base::text;
use ceasefire_deter::plan::list;
use ceasefire_deter::trial::rank::{Range, Ranking, Row, Verdict};
use ceasefire_deter::trial::report::words;
use ceasefire_deter::trial::state::State;
use ceasefire_deter::trial::NONE;
use ceasefire_watch_views::table;

pub fn print(state: &State, ranking: &Ranking, lost: &[String], notes: &[String]) {
    let request = &state.request;
    let rounds = text::count(u64::from(request.repeats), "round");
    say("", &format!("{}: {rounds}, per unit ({})", request.command.join(" "), request.units));
    let base = ranking.rows.iter().find(|row| row.remedy == NONE);
    let has_flushes = ranking.rows.iter().any(|row| row.flushes_per_unit.is_some());
    let mut head = vec!["remedy"];
    if has_flushes {
        head.push("flushes/unit");
    }
    head.extend(["received/unit", "RSS", "faults", "time"]);
    let rows: Vec<Vec<String>> = ranking.rows.iter().map(|row| cells(row, base, has_flushes)).collect();
    print_line(table::fit(columns(), &head, &[0], &rows).trim_end());
    for verdict in [
        Verdict::Best,
        Verdict::Ties,
        Verdict::Helps,
        Verdict::FewerReceived,
        Verdict::NoChange,
        Verdict::Worse,
        Verdict::TooMuchMemory,
        Verdict::NotCounted,
    ] {
        let of = ranking.rows.iter().filter(|row| row.verdict == verdict);
        let names: Vec<String> = of.map(|row| row.remedy.clone()).collect();
        let is_chance = ranking.is_too_few && verdict == Verdict::NoChange;
        if !names.is_empty() && !is_chance {
            say("  ", &format!("{}: {}", words(verdict), list(&names)));
        }
    }
    for row in &ranking.rows {
        for sentence in &row.says {
            say("  ", &format!("{}: {sentence}", row.remedy));
        }
    }
    for sentence in notes.iter().chain(lost) {
        say("  note: ", sentence);
    }
    match ranking.best() {
        Some(row) => say("", &format!("next: {}", next(&row.remedy))),
        None if ranking.is_too_few => {
            say("", "the command as it is has too few shootdowns to tell: none is needed, or more work is");
        }
        None => say("", "none of these helps"),
    }
}

/// How to have it.
fn next(name: &str) -> String {
    match name.contains('+') {
        true => format!("ceasefire deter run --with {} -- COMMAND", name.replace('+', ",")),
        false => format!("ceasefire deter show {name}"),
    }
}

fn cells(row: &Row, base: Option<&Row>, has_flushes: bool) -> Vec<String> {
    let change = |own: Option<Range>, base: Option<Range>| match (own, base) {
        _ if row.remedy == NONE => String::new(),
        (Some(own), Some(base)) if base.median > 0.0 => {
            format!("{:+.0} %", (own.median / base.median - 1.0) * 100.0)
        }
        _ => "-".to_string(),
    };
    let mut cells = vec![row.remedy.clone()];
    if has_flushes {
        cells.push(range(row.flushes_per_unit));
    }
    cells.push(range(row.received_per_unit));
    cells.push(change(row.rss_kib, base.and_then(|base| base.rss_kib)));
    cells.push(change(row.faults_per_unit, base.and_then(|base| base.faults_per_unit)));
    cells.push(change(row.seconds, base.and_then(|base| base.seconds)));
    cells
}

/// `6.8 (6.1-7.4)`
fn range(range: Option<Range>) -> String {
    range.map_or_else(
        || "-".into(),
        |range| format!("{} ({}-{})", number(range.median), number(range.min), number(range.max)),
    )
}

/// Two or three digits that count.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        x if x >= 100.0 => format!("{value:.0}"),
        x if x >= 1.0 => format!("{value:.1}"),
        x if x >= 0.1 => format!("{value:.2}"),
        x if x >= 0.0001 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [(0.0, "0"), (161.4, "161"), (6.84, "6.8"), (0.63, "0.63"), (0.017, "0.0170")] {
            assert_eq!(number(value), text);
        }
        assert_eq!(range(Range::of([1.0, 2.0, 3.0])), "2.0 (1.0-3.0)");
        assert_eq!(next("a+b"), "ceasefire deter run --with a,b -- COMMAND");
    }
}
