// SPDX-License-Identifier: GPL-2.0-only
//! What a unit of work costs where CPUs interrupt each other: the kernel's instructions of all vCPUs, and what they
//! leave out at published prices. docs/reference/net-cycles.md prints this table and says what it leaves out.

use crate::cycles::{Cost, End, COSTS, INSTRUCTION};
use crate::protocol::Run;
use crate::schema::{self, Net, Row};
use crate::stats::Spread;
use std::collections::BTreeMap;

/// Beside the lines of [`COSTS`], whose first these stand for.
pub const NET_COSTS: &[Cost] = &[
    Cost { name: "kernel instruction", counter: "kernel_instructions", ..INSTRUCTION },
    Cost {
        name: "interrupt taken",
        counter: "ipi_targets",
        less: None,
        is_optional: false,
        low: 200.0,
        high: 340.0,
        source: "low: L. Torvalds, \"Re: [PATCH] syscall latency improvement #1\" (linux-kernel, 25 January 2002): trap and \
                 IRET are on the order of 200. High: \"How to Deter or Disarm TLB Shootdowns\" (web article, October 2021), a \
                 loop of madvise(): with two threads a call takes 2,700 - 342 ns more than with one, of which 1,398 are the \
                 sender's, so being interrupted once takes up to 960 ns; less some 620 for the handler, which is counted",
    },
    Cost {
        name: "wait for a target",
        counter: "received_irq",
        less: None,
        is_optional: false,
        low: 0.0,
        high: 350.0,
        source: "low: nothing, as if no sender waited. High: the same article, native_flush_tlb_others(): 1,398 ns with one \
                 target, 3,891 with 7, 6,610 with 13. So each further target takes 415 to 453 ns. 350 stays below, because what \
                 it takes to send is counted apart",
    },
];

fn lines() -> impl Iterator<Item = &'static Cost> {
    NET_COSTS.iter().chain(COSTS.iter().filter(|cost| cost.counter != INSTRUCTION.counter))
}

/// The sum over the table; `None` if anything in it was not counted that every machine has.
pub fn net(count: impl Fn(&str) -> Option<f64>, end: End) -> Option<f64> {
    lines().map(|cost| cost.of(&count, end)).sum()
}

/// Per unit of work, over the repeats; `priced`: what the kernel's mechanisms give prices to.
pub(crate) fn of(runs: &[&Run], priced: impl Fn(&Run) -> f64) -> Option<Net> {
    let at = |end: End| {
        let each = runs.iter().map(|run| {
            let sum = net(|counter| run.counter(counter).map(|count| count as f64), end)?;
            Some((sum + priced(run)) / run.units as f64)
        });
        Spread::of(&each.collect::<Option<Vec<f64>>>()?)
    };
    Some(Net { low: at(End::Low)?, used: at(End::Middle)?, high: at(End::High)? })
}

/// The constants by name, as a results file carries them.
pub fn constants() -> BTreeMap<String, f64> {
    lines().map(|cost| (cost.name.to_string(), cost.cycles())).collect()
}

/// What a variant costs more than the baseline, per unit. The ends are as far apart as any two boots were.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    pub low: Spread,
    pub used: Spread,
    pub high: Spread,
    /// With each price at the end that is worse for the variant: what it has more of is dear, what it has less of is cheap.
    /// No mixture of prices gives more in any two boots.
    pub worst: Spread,
}

/// What a change comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Less at whichever prices, in every pair of boots.
    Gain,
    /// More at some prices, by the medians.
    Loss,
    /// Less by the medians; the boots lie too far apart to say so.
    Unproved,
}

impl Change {
    /// `None` where either row lacks anything that has a price.
    pub fn between(base: &Row, variant: &Row) -> Option<Change> {
        let (old, new) = (base.cycles_net_per_unit?, variant.cycles_net_per_unit?);
        let low = difference(old.low, new.low);
        let mut worst = low;
        for cost in lines() {
            let more = difference(counted(cost, base)?, counted(cost, variant)?);
            let dearer = |more: f64| more.max(0.0) * (cost.high - cost.low);
            worst.min += dearer(more.min);
            worst.median += dearer(more.median);
            worst.max += dearer(more.max);
        }
        Some(Change {
            low,
            used: difference(old.used, new.used),
            high: difference(old.high, new.high),
            worst,
        })
    }

    pub fn verdict(&self) -> Verdict {
        // The median of sums is not the sum of medians: the worst need not be above all others by the medians.
        let medians = [self.low, self.used, self.high, self.worst].map(|end| end.median);
        if medians.iter().any(|median| *median >= 0.0) {
            Verdict::Loss
        } else if self.worst.max < 0.0 {
            Verdict::Gain
        } else {
            Verdict::Unproved
        }
    }
}

fn difference(old: Spread, new: Spread) -> Spread {
    Spread { min: new.min - old.max, median: new.median - old.median, max: new.max - old.min }
}

/// How many a unit are paid for.
fn counted(cost: &Cost, row: &Row) -> Option<Spread> {
    let none = Spread { min: 0.0, median: 0.0, max: 0.0 };
    let of = |key: &str| schema::counter(key).and_then(|counter| (counter.get)(row));
    let all = of(cost.counter).or(cost.is_optional.then_some(none))?;
    let free = cost.less.map_or(Some(none), of)?;
    let paid = difference(free, all);
    Some(Spread { min: paid.min.max(0.0), median: paid.median.max(0.0), max: paid.max.max(0.0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycles::tests::{item, written};
    use std::fmt::Write;

    fn spread(min: f64, median: f64, max: f64) -> Spread {
        Spread { median, min, max }
    }

    #[test]
    fn every_line_is_ordered_sourced_and_of_a_counter_of_its_own() {
        let lines: Vec<&Cost> = lines().collect();
        assert_eq!(lines.len(), NET_COSTS.len() + COSTS.len() - 1);
        for (index, cost) in lines.iter().enumerate() {
            assert!(cost.low >= 0.0 && cost.low <= cost.high && cost.high > 0.0, "{}", cost.name);
            assert!(cost.source.len() > 20 && !cost.source.contains('|'), "{}", cost.name);
            assert!(lines[index + 1..].iter().all(|other| other.counter != cost.counter), "{}", cost.name);
        }
        assert_eq!(constants().len(), lines.len());
        assert_eq!(constants().get("instruction"), None, "a row of several vCPUs has none");
    }

    #[test]
    fn a_sum_by_hand_at_every_end() {
        let counts = [
            ("kernel_instructions", 10_000.0),
            ("handler_instructions", 2_000.0),
            ("spin_instructions", 77.0),
            ("timer_instructions", 500.0),
            ("walks", 10.0),
            ("ipis", 1.0),
            ("ipi_targets", 7.0),
            ("received_irq", 7.0),
        ];
        let count = |counter: &str| {
            let known = counts.iter().find(|(name, _)| *name == counter);
            Some(known.map_or(0.0, |(_, count)| *count))
        };
        // 10,000 + 10 × 34 + 300 + 7 × 200
        assert_eq!(net(count, End::Low), Some(12_040.0));
        // 10,000 + 10 × 39.5 + 600 + 7 × 270 + 7 × 175
        assert_eq!(net(count, End::Middle), Some(14_110.0));
        // 10,000 + 10 × 45 + 900 + 7 × 340 + 7 × 350
        assert_eq!(net(count, End::High), Some(16_180.0));
        let missing = |counter: &str| count(counter).filter(|_| counter != "ipi_targets");
        assert_eq!(net(missing, End::Low), None);
    }

    #[test]
    fn what_was_not_counted_is_not_net() {
        let needed = lines().filter(|cost| !cost.is_optional);
        for missing in needed.flat_map(|cost| [Some(cost.counter), cost.less]).flatten() {
            let count = |counter: &str| (counter != missing).then_some(1.0);
            assert_eq!(net(count, End::Low), None, "{missing}");
        }
        let optional: Vec<&str> = lines().filter(|cost| cost.is_optional).map(|cost| cost.counter).collect();
        assert_eq!(optional, ["insert_ops"], "what a machine that exists may not count");
    }

    /// What mechanisms ask for stands beside the table, at its one price.
    #[test]
    fn what_mechanisms_give_prices_to_is_added_at_every_end() {
        let counters = lines().flat_map(|cost| [Some(cost.counter), cost.less]).flatten();
        let run = Run {
            workload: "w".into(),
            threads: 8,
            repeat: 0,
            seed: 1,
            unit: "call".into(),
            units: 10,
            checksum: "aa".into(),
            counters: counters.map(|counter| (counter.to_string(), Some(0))).collect(),
            expect: None,
            mechanisms: BTreeMap::new(),
            extra: BTreeMap::new(),
            duration_ns: None,
        };
        let net = of(&[&run], |run| 7.0 * run.units as f64).expect("all counted");
        assert_eq!([net.low.median, net.used.median, net.high.median], [7.0; 3]);
    }

    /// Everything is counted: what is not named, never.
    fn row(net: [Spread; 3], counts: &[(&str, Spread)]) -> Row {
        let zero = Some(exactly(0.0));
        let [low, used, high] = net;
        let mut row = Row {
            cycles_net_per_unit: Some(Net { low, used, high }),
            kernel_instructions_per_unit: zero,
            ipi_targets_per_unit: zero,
            received_irq_per_unit: zero,
            walks_per_unit: zero,
            speculative_walks_per_unit: zero,
            assists_accessed_per_unit: zero,
            assists_dirty_per_unit: zero,
            cr3_flush_per_unit: zero,
            cr3_noflush_per_unit: zero,
            invlpg_per_unit: zero,
            invpcid_per_unit: zero,
            ipis_per_unit: zero,
            ..Row::default()
        };
        for (counter, spread) in counts {
            let field = match *counter {
                "received_irq" => &mut row.received_irq_per_unit,
                "walks" => &mut row.walks_per_unit,
                "speculative_walks" => &mut row.speculative_walks_per_unit,
                "insert_ops" => &mut row.insert_ops_per_unit,
                _ => panic!("{counter}"),
            };
            *field = Some(*spread);
        }
        row
    }

    fn exactly(value: f64) -> Spread {
        spread(value, value, value)
    }

    fn between(base: &Row, variant: &Row) -> Change {
        Change::between(base, variant).expect("all counted")
    }

    #[test]
    fn every_price_has_a_count_of_a_row() {
        for cost in lines() {
            assert!(schema::counter(cost.counter).is_some(), "{}", cost.counter);
            assert!(cost.less.map_or(true, |less| schema::counter(less).is_some()), "{}", cost.name);
        }
        let whole = row([exactly(1.0); 3], &[]);
        let lacking = Row { ipis_per_unit: None, ..whole.clone() };
        assert!(Change::between(&whole, &whole).is_some(), "nobody has inserts");
        for (base, variant) in [(&whole, &lacking), (&lacking, &whole), (&whole, &Row::default())] {
            assert_eq!(Change::between(base, variant), None);
        }
    }

    #[test]
    fn a_gain_is_one_at_every_price_and_in_every_pair_of_boots() {
        let base =
            row([spread(90.0, 100.0, 110.0), spread(190.0, 200.0, 210.0), spread(290.0, 300.0, 310.0)], &[]);
        let to = |low, used, high| between(&base, &row([low, used, high], &[]));
        let less = to(spread(70.0, 80.0, 89.0), spread(70.0, 80.0, 90.0), spread(70.0, 80.0, 90.0));
        assert_eq!(less.low, spread(-40.0, -20.0, -1.0));
        assert_eq!(less.verdict(), Verdict::Gain);
        let wide = to(spread(70.0, 80.0, 91.0), spread(70.0, 80.0, 91.0), spread(70.0, 80.0, 91.0));
        assert_eq!(wide.verdict(), Verdict::Unproved, "at the low price two boots overlap");
        let more = to(spread(95.0, 101.0, 105.0), spread(70.0, 80.0, 90.0), spread(70.0, 80.0, 90.0));
        assert_eq!(more.verdict(), Verdict::Loss, "a gain at two prices of three is a loss");
        assert_eq!(between(&base, &base).verdict(), Verdict::Loss, "nothing is no gain");
        let gain = Change {
            low: exactly(-9.0),
            used: exactly(-9.0),
            high: exactly(-9.0),
            worst: spread(-9.0, -5.0, -1.0),
        };
        assert_eq!(gain.verdict(), Verdict::Gain);
        for (changed, verdict) in [
            (Change { low: exactly(0.0), ..gain }, Verdict::Loss),
            (Change { used: exactly(0.0), ..gain }, Verdict::Loss),
            (Change { high: exactly(0.0), ..gain }, Verdict::Loss),
            (Change { worst: spread(-9.0, 0.0, 1.0), ..gain }, Verdict::Loss),
            (Change { worst: spread(-9.0, -5.0, 0.0), ..gain }, Verdict::Unproved),
        ] {
            assert_eq!(changed.verdict(), verdict, "{changed:?}");
        }
    }

    /// Waits saved, walks added: nobody says that waits are dear where walks are.
    #[test]
    fn the_worst_prices_are_not_all_low_nor_all_high() {
        // Of 10,000 with 8 waits, and of 9,900 with 10 walks more.
        let base = row(
            [10_000.0, 11_400.0, 12_800.0].map(exactly),
            &[("received_irq", exactly(8.0)), ("walks", exactly(5.0)), ("speculative_walks", exactly(5.0))],
        );
        let walks = |walks: f64| {
            let sums = [9_560.0 + walks * 34.0, 9_560.0 + walks * 39.5, 9_560.0 + walks * 45.0];
            between(&base, &row(sums.map(exactly), &[("walks", exactly(walks))]))
        };
        let few = walks(9.0);
        assert_eq!([few.low, few.high, few.worst].map(|end| end.median), [-134.0, -2_835.0, -35.0]);
        assert_eq!(few.verdict(), Verdict::Gain);
        let many = walks(10.0);
        assert_eq!([many.low, many.used, many.high].map(|end| end.max), [-100.0, -1_445.0, -2_790.0]);
        assert_eq!((many.worst, many.verdict()), (exactly(10.0), Verdict::Loss));
        // Inserts that only one of the two machines can count.
        let inserts = row([exactly(9_000.0); 3], &[("insert_ops", exactly(2.0))]);
        assert_eq!(between(&base, &inserts).worst, exactly(-1_000.0 + 2.0 * 60.0));
        // Any two boots, also of counts.
        let apart = row([exactly(9_980.0); 3], &[("walks", spread(0.0, 1.0, 2.0))]);
        let apart = between(&base, &apart);
        assert_eq!((apart.worst, apart.verdict()), (spread(-20.0, -9.0, 2.0), Verdict::Unproved));
    }

    fn table() -> String {
        let mut text = String::from(
            "\n## The prices\n\nCycles each. All others are those of [modelled cycles](modelled-cycles.md#the-constants); \
             an IPI sent is among them.\n\n| what | counter | low | used | high |\n|---|---|---:|---:|---:|\n",
        );
        for cost in NET_COSTS {
            let [low, used, high] = [cost.low, cost.cycles(), cost.high];
            let _ = writeln!(text, "| {} | `{}` | {low} | {used} | {high} |", cost.name, cost.counter);
        }
        text.push_str("\nSources:\n\n");
        for cost in NET_COSTS {
            text.push_str(&item(&format!("**{}**: {}", cost.name, cost.source)));
        }
        text
    }

    #[test]
    fn the_page_shows_the_prices() {
        written("docs/reference/net-cycles.md", "lab/results/src/net.rs", &table());
    }
}
