// SPDX-License-Identifier: GPL-2.0-only
//! What a unit of work costs where CPUs interrupt each other: the kernel's instructions of all vCPUs, and what they
//! leave out at published prices. docs/reference/net-cycles.md prints this table and says what it leaves out.

use crate::cycles::{Cost, End, COSTS, INSTRUCTION};
use crate::protocol::Run;
use crate::schema::Net;
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
                 target, 3,891 with 7, 6,610 with 13, so at least 508 a target; less some 160 for sending, which is counted",
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
}

/// What a change comes to, with interrupts at every one of their prices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Less at all prices, in every pair of boots.
    Gain,
    /// More at some price, by the medians.
    Loss,
    /// Less by the medians; the boots lie too far apart to say so.
    Unproved,
}

impl Change {
    pub fn between(base: Net, variant: Net) -> Change {
        let change = |old: Spread, new: Spread| Spread {
            min: new.min - old.max,
            median: new.median - old.median,
            max: new.max - old.min,
        };
        Change {
            low: change(base.low, variant.low),
            used: change(base.used, variant.used),
            high: change(base.high, variant.high),
        }
    }

    pub fn verdict(&self) -> Verdict {
        let ends = [self.low, self.used, self.high];
        if ends.iter().all(|end| end.max < 0.0) {
            Verdict::Gain
        } else if ends.iter().any(|end| end.median >= 0.0) {
            Verdict::Loss
        } else {
            Verdict::Unproved
        }
    }
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
    fn a_gain_is_one_at_every_price_and_in_every_pair_of_boots() {
        let net = |low, used, high| Net { low, used, high };
        let base = net(spread(90.0, 100.0, 110.0), spread(190.0, 200.0, 210.0), spread(290.0, 300.0, 310.0));
        let to = |low, used, high| Change::between(base, net(low, used, high));
        let less = to(spread(70.0, 80.0, 89.0), spread(70.0, 80.0, 90.0), spread(70.0, 80.0, 90.0));
        assert_eq!(less.low, spread(-40.0, -20.0, -1.0));
        assert_eq!(less.verdict(), Verdict::Gain);
        let wide = to(spread(70.0, 80.0, 91.0), spread(70.0, 80.0, 91.0), spread(70.0, 80.0, 91.0));
        assert_eq!(wide.verdict(), Verdict::Unproved, "at the low price two boots overlap");
        let more = to(spread(95.0, 101.0, 105.0), spread(70.0, 80.0, 90.0), spread(70.0, 80.0, 90.0));
        assert_eq!(more.verdict(), Verdict::Loss, "a gain at two prices of three is a loss");
        assert_eq!(to(base.low, base.used, base.high).verdict(), Verdict::Loss, "nothing is no gain");
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
