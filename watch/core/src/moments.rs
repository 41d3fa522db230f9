// SPDX-License-Identifier: GPL-2.0-only
//! From the probes' stretches of 10 ms to the worst of a window.

use crate::wire::{MomentsOfCpu, MOMENT_NS};
use ceasefire_watch_model::bursts::Series;
use ceasefire_watch_model::{Bursts, Moment};
use std::collections::BTreeMap;

/// The probes keep 2.56 s, some of which is not complete yet.
const LOOK_NS: u64 = 1_000_000_000;
/// A shootdown is added up within 50 ms (UNCLOSED_NS_MAX of the probes).
const COMPLETE: u64 = 6;

#[derive(Default)]
pub struct Moments {
    series: Series,
    looked_ns: u64,
    /// The first number that was not taken yet.
    next: u64,
}

impl Moments {
    pub fn is_due(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.looked_ns) >= LOOK_NS
    }

    pub fn look(&mut self, cpus: &[MomentsOfCpu], now_ns: u64) {
        let end = (now_ns / MOMENT_NS).saturating_sub(COMPLETE);
        let mut sums: BTreeMap<u64, Moment> = BTreeMap::new();
        for moment in cpus.iter().flat_map(|cpu| &cpu.of).filter(|moment| moment.received > 0) {
            let number = u64::from(moment.number);
            if number < self.next || number >= end {
                continue;
            }
            let sum = sums.entry(number).or_default();
            sum.start_ns = number * MOMENT_NS;
            sum.received += u64::from(moment.received);
            sum.stolen_ns += moment.stolen_ns;
        }
        sums.into_iter().for_each(|(number, moment)| self.series.take(number, moment));
        self.next = self.next.max(end);
        self.looked_ns = now_ns;
    }

    pub fn drain(&mut self) -> Bursts {
        self.series.drain()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Moment as Row, MOMENTS};

    fn cpu(rows: &[(u32, u32)]) -> MomentsOfCpu {
        let mut of = [Row { number: 0, received: 0, stolen_ns: 0 }; MOMENTS];
        for (number, received) in rows {
            of[*number as usize % MOMENTS] = Row { number: *number, received: *received, stolen_ns: 1 };
        }
        MomentsOfCpu { of }
    }

    #[test]
    fn each_stretch_is_taken_once_and_when_it_is_complete() {
        let mut moments = Moments::default();
        let cpus = [cpu(&[(1000, 5), (1001, 7)]), cpu(&[(1000, 6)])];
        moments.look(&cpus, 1007 * MOMENT_NS);
        assert_eq!(moments.drain().hundredth.map(|moment| moment.received), Some(11), "the other may grow");
        moments.look(&cpus, 1100 * MOMENT_NS);
        assert_eq!(moments.drain().second.map(|moment| moment.received), Some(7));
        moments.look(&cpus, 1200 * MOMENT_NS);
        assert!(moments.drain().is_none());
    }
}
