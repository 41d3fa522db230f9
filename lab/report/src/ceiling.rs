// SPDX-License-Identifier: GPL-2.0-only
//! The published table of the flush ceiling: up to how many pages it is cheaper to flush each than to flush everything
//! and walk again for what is still in use.

use crate::numbers::{figure, grouped};
use crate::publish::{condition, hashes, minus, wrapped};
use ceasefire_base::text::count;
use ceasefire_base::{Error, Result};
use ceasefire_results::cycles::{modelled, End};
use ceasefire_results::schema::{counter, Results, Row};
use std::collections::{BTreeMap, BTreeSet};

const WORKLOAD: &str = "flush-ceiling";

/// Only rows of the workload that is made for it.
pub(crate) fn is_ceiling(results: &Results) -> bool {
    !results.rows.is_empty() && results.rows.iter().all(|row| row.cost && row.workload == WORKLOAD)
}

/// Both ways of one range and one working set, in pages.
#[derive(Default, Clone, Copy)]
struct Pair<'a> {
    singly: Option<&'a Row>,
    full: Option<&'a Row>,
}

impl Pair<'_> {
    /// Cycles that flushing everything costs more than flushing each page: what there is more of and what there is less
    /// of, each at its prices.
    fn more(&self, dearer: End, spared: End) -> Option<f64> {
        let of = |row: &Row, name: &str| Some((counter(name)?.get)(row)?.median);
        let (full, singly) = (self.full?, self.singly?);
        let more = |a: &Row, b: &Row, name: &str| Some((of(a, name)? - of(b, name)?).max(0.0));
        Some(
            modelled(|name| more(full, singly, name), dearer)?
                - modelled(|name| more(singly, full, name), spared)?,
        )
    }

    fn more_walks(&self) -> Option<f64> {
        let walks = |row: &Row| row.walks_per_unit.map(|spread| spread.median);
        Some(walks(self.full?)? - walks(self.singly?)?)
    }
}

/// Refused where a way, a range or a working set is missing, and where rows are of several kernels or machines.
pub(crate) fn ceiling_table(results: &Results) -> Result<String> {
    let place = |row: &Row| (row.kernel_label(), row.shape(), row.tlb.clone(), row.kernel_args.clone());
    let places: BTreeSet<_> = results.rows.iter().map(place).collect();
    if places.len() > 1 || results.rows.iter().any(|row| row.vcpus != 1) {
        return Err(unusable("the table is of one kernel, in one mode, on one machine of 1 vCPU".into()));
    }
    let mut pairs: BTreeMap<(u64, u64), Pair> = BTreeMap::new();
    for row in &results.rows {
        let set = row.set.as_deref().unwrap_or_default();
        let word = |key: &str| {
            set.split(',')
                .filter_map(|pair| pair.split_once('='))
                .find(|(name, _)| *name == key)
                .map(|(_, value)| value)
        };
        let number = |key: &str| word(key).and_then(|value| value.parse::<u64>().ok());
        let (Some(pages), Some(working), Some(by)) = (number("pages"), number("working"), word("by")) else {
            return Err(unusable(format!("a row of {WORKLOAD} is set to '{set}'")));
        };
        let pair = pairs.entry((pages, working)).or_default();
        let way = if by == "full" { &mut pair.full } else { &mut pair.singly };
        if way.replace(row).is_some() {
            return Err(unusable(format!("two rows are set to '{set}'")));
        }
    }
    let ranges: BTreeSet<u64> = pairs.keys().map(|(pages, _)| *pages).collect();
    let sets: BTreeSet<u64> = pairs.keys().map(|(_, working)| *working).collect();
    let more = |pages: u64, working: u64, dearer: End, spared: End| {
        let found = pairs.get(&(pages, working)).and_then(|pair| pair.more(dearer, spared));
        found.ok_or_else(|| unusable(format!("{pages} pages beside {working} were not measured both ways")))
    };
    let boots = results.rows.iter().map(|row| row.boots).min().unwrap_or_default();
    let condition = condition(&results.environment, Some("1 vCPU".into()), count(u64::from(boots), "boot"));
    let mut text = wrapped(&format!("Condition: {condition}."), "");
    text += &format!("\n{}\n", wrapped(&format!("Sources: {}.", hashes(&results.environment)), ""));
    let heads: Vec<String> = sets.iter().map(|working| grouped(*working as f64)).collect();
    text += &format!("| pages flushed | {} |\n|---|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
    for pages in &ranges {
        let mut cells = vec![pages.to_string()];
        for working in &sets {
            cells.push(minus(&figure(more(*pages, *working, End::Middle, End::Middle)?)));
        }
        text += &format!("| {} |\n", cells.join(" | "));
    }
    let mut best = vec!["**best ceiling**".to_string()];
    let mut spread = vec!["at other prices".to_string()];
    let mut walks = vec!["more walks after a full flush".to_string()];
    let (first, last) =
        (ranges.first().copied().unwrap_or_default(), ranges.last().copied().unwrap_or_default());
    let shown = |ceiling: f64| match ceiling {
        _ if ceiling < first as f64 && first > 1 => format!("under {first}"),
        _ if ceiling.is_finite() => format!("{:.0}", ceiling.floor()),
        _ => format!("over {last}"),
    };
    for working in &sets {
        let at = |dearer: End, spared: End| {
            let points =
                ranges.iter().map(|pages| Ok((*pages as f64, more(*pages, *working, dearer, spared)?)));
            Ok::<String, Error>(shown(crossing(&points.collect::<Result<Vec<_>>>()?)))
        };
        best.push(format!("**{}**", at(End::Middle, End::Middle)?));
        // Each at the price that speaks against it.
        let (low, high) = (at(End::Low, End::High)?, at(End::High, End::Low)?);
        spread.push(if low == high { low } else { format!("{low} to {high}") });
        let first = ranges.first().and_then(|pages| pairs.get(&(*pages, *working)));
        walks.push(first.and_then(Pair::more_walks).map_or("-".into(), figure));
    }
    for line in [best, spread, walks] {
        text += &format!("| {} |\n", line.join(" | "));
    }
    Ok(text)
}

/// Where the second of each pair becomes negative, between two points as on a straight line. 0: already at the first;
/// infinite: not at the last either.
fn crossing(points: &[(f64, f64)]) -> f64 {
    match points.iter().position(|(_, more)| *more < 0.0) {
        None => f64::INFINITY,
        Some(0) => 0.0,
        Some(index) => {
            let ((x0, y0), (x1, y1)) = (points[index - 1], points[index]);
            x0 + (x1 - x0) * y0 / (y0 - y1)
        }
    }
}

fn unusable(what: String) -> Error {
    Error::usage(what).remedy(format!(
        "measure again: ceasefire lab run {WORKLOAD} --cost --cpus 1 --repeats 5 --set pages=N,… --set working=N,… --set \
         by=pages,full --tlb hardware,speculation-us=0"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ceasefire_results::stats::Spread;

    fn row(pages: u64, working: u64, by: &str, counts: [f64; 3]) -> Row {
        let [invlpg, loads, walks] =
            counts.map(|value| Some(Spread { median: value, min: value, max: value }));
        let zero = Some(Spread { median: 0.0, min: 0.0, max: 0.0 });
        Row {
            workload: WORKLOAD.into(),
            kernel: "vanilla".into(),
            set: Some(format!("pages={pages},working={working},by={by}")),
            vcpus: 1,
            nodes: 1,
            cost: true,
            boots: 5,
            instructions_per_unit: zero,
            walks_per_unit: walks,
            speculative_walks_per_unit: zero,
            assists_accessed_per_unit: zero,
            assists_dirty_per_unit: zero,
            cr3_flush_per_unit: loads,
            cr3_noflush_per_unit: zero,
            invlpg_per_unit: invlpg,
            invpcid_per_unit: zero,
            ipis_per_unit: zero,
            ..Row::default()
        }
    }

    fn file(rows: Vec<Row>) -> Results {
        Results { rows, ..Results::new(Default::default()) }
    }

    #[test]
    fn the_ceiling_is_where_all_become_cheaper_than_each() {
        // An INVLPG is 230, a CR3 load 173.5, a walk 39.5: 230 N against 173.5 + 39.5 W.
        let of = |pages: u64, working: u64| {
            let each = row(pages, working, "pages", [pages as f64, 0.0, 0.0]);
            [each, row(pages, working, "full", [0.0, 1.0, working as f64])]
        };
        let rows =
            [(1, 64), (33, 64), (1, 4096), (33, 4096), (1, 0), (33, 0)].map(|(n, w)| of(n, w)).concat();
        let text = ceiling_table(&file(rows)).expect("whole");
        let cells = |head: &str| -> Vec<String> {
            let line =
                text.lines().find(|line| line.starts_with(head)).unwrap_or_else(|| panic!("{head}: {text}"));
            line.trim_matches('|').split('|').skip(1).map(|cell| cell.trim().to_string()).collect()
        };
        assert_eq!(cells("| pages flushed"), ["0", "64", "4,096"]);
        assert_eq!(cells("| 1 "), ["\u{2212}56.5", "2,472", "161,736"]);
        assert_eq!(cells("| 33 "), ["\u{2212}7,416", "\u{2212}4,888", "154,376"]);
        assert_eq!(cells("| **best"), ["**0**", "**11**", "**over 33**"]);
        // 96 + 34 W against 260 N, and 251 + 45 W against 200 N.
        assert_eq!(cells("| at other prices"), ["0 to 1", "8 to 15", "over 33"]);
        assert_eq!(cells("| more walks"), ["0", "64.0", "4,096"]);
        let rows = [of(16, 64), of(33, 64)].concat();
        let text = ceiling_table(&file(rows)).expect("whole");
        assert!(text.contains("| **best ceiling** | **under 16** |"), "{text}");
    }

    #[test]
    fn rows_that_are_not_of_one_place_are_refused() {
        let whole = || vec![row(1, 64, "pages", [1.0, 0.0, 0.0]), row(1, 64, "full", [0.0, 1.0, 64.0])];
        let refused =
            |more: Row| ceiling_table(&file([whole(), vec![more]].concat())).expect_err("refused").message;
        let other = |pages: u64| row(pages, 64, "full", [0.0, 1.0, 64.0]);
        assert!(refused(Row { kernel: "abis".into(), ..other(2) }).contains("one kernel"));
        assert!(refused(Row { tlb: Some("plain".into()), ..other(2) }).contains("one machine"));
        assert!(refused(Row { vcpus: 8, ..other(2) }).contains("1 vCPU"));
        assert_eq!(refused(other(1)), "two rows are set to 'pages=1,working=64,by=full'");
    }

    #[test]
    fn a_way_that_is_missing_is_refused() {
        let half = file(vec![row(1, 64, "pages", [1.0, 0.0, 0.0])]);
        assert_eq!(
            ceiling_table(&half).expect_err("half").message,
            "1 pages beside 64 were not measured both ways"
        );
        let unset = Row { set: None, ..row(1, 64, "full", [0.0, 1.0, 64.0]) };
        assert!(ceiling_table(&file(vec![unset])).is_err());
        assert!(is_ceiling(&half) && !is_ceiling(&file(Vec::new())));
    }
}
