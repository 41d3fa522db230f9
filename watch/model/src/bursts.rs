// SPDX-License-Identifier: GPL-2.0-only
//! Shootdowns over time: the worst second of a window, and its worst 10 ms.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What shootdowns did in some stretch of time, all CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Moment {
    /// CLOCK_MONOTONIC.
    pub start_ns: u64,
    pub received: u64,
    /// By handlers.
    pub stolen_ns: u64,
}

impl Moment {
    fn weight(&self) -> (u64, u64) {
        (self.stolen_ns, self.received)
    }

    fn worse(one: Option<Moment>, other: Option<Moment>) -> Option<Moment> {
        one.into_iter().chain(other).max_by_key(Moment::weight)
    }
}

/// The one in which handlers took most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Bursts {
    pub second: Option<Moment>,
    pub hundredth: Option<Moment>,
}

impl Bursts {
    pub fn is_none(&self) -> bool {
        *self == Bursts::default()
    }

    /// Those of another window: the worse ones stay.
    pub fn add(&mut self, other: &Bursts) {
        self.second = Moment::worse(self.second, other.second);
        self.hundredth = Moment::worse(self.hundredth, other.hundredth);
    }
}

/// Finds bursts in a row of stretches of 10 ms.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// Of the last second, by number; those in which nothing happened are left out.
    last: VecDeque<(u64, Moment)>,
    sum: Moment,
    worst: Bursts,
}

const IN_A_SECOND: u64 = 100;

impl Series {
    /// `number`: of 10 ms, rising.
    pub fn take(&mut self, number: u64, moment: Moment) {
        while let Some((first, gone)) = self.last.front().copied() {
            if first + IN_A_SECOND > number {
                break;
            }
            self.sum.received = self.sum.received.saturating_sub(gone.received);
            self.sum.stolen_ns = self.sum.stolen_ns.saturating_sub(gone.stolen_ns);
            self.last.pop_front();
        }
        self.last.push_back((number, moment));
        self.sum.received = self.sum.received.saturating_add(moment.received);
        self.sum.stolen_ns = self.sum.stolen_ns.saturating_add(moment.stolen_ns);
        self.sum.start_ns = self.last.front().map_or(0, |(_, first)| first.start_ns);
        self.worst.add(&Bursts { second: Some(self.sum), hundredth: Some(moment) });
    }

    /// The worst since it was asked last; a second that lies in two windows is whole in neither.
    pub fn drain(&mut self) -> Bursts {
        std::mem::take(self).worst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(number: u64, received: u64) -> (u64, Moment) {
        (number, Moment { start_ns: number * 10_000_000, received, stolen_ns: received * 500 })
    }

    #[test]
    fn the_worst_second_may_begin_anywhere() {
        let mut series = Series::default();
        for (number, received) in [(0, 5), (60, 40), (99, 1), (150, 50), (159, 3), (160, 30), (400, 60)] {
            let (number, moment) = moment(number, received);
            series.take(number, moment);
        }
        let worst = series.drain();
        let second = worst.second.expect("a second");
        // From 60 to 159: 40 + 1 + 50 + 3; from 61 to 160 only 84.
        assert_eq!((second.start_ns, second.received), (600_000_000, 94));
        assert_eq!(worst.hundredth.map(|worst| worst.received), Some(60));
        assert!(series.drain().is_none());
    }
}
