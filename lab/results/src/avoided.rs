// SPDX-License-Identifier: GPL-2.0-only
//! How much of what nobody needed a variant spares. The baseline says what that is: a variant that flushes more leaves
//! less to be held, and would get credit for it.

use crate::schema::Row;

/// A smaller part of what the baseline interrupts, in per cent, is not worth a word.
const LEAST_PERCENT: f64 = 1.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Avoided {
    /// All that the baseline interrupts it needs.
    NothingToAvoid,
    /// Of the targets that the baseline did not need. Negative if there are more than in the baseline. Never over 100:
    /// fewer than the baseline needed is another execution, in which less was held, and no gain.
    Share {
        percent: f64,
        /// The repeats of both overlap: nothing is proved.
        within_spread: bool,
    },
}

impl Avoided {
    /// `None` where nobody knows what the baseline needed.
    pub fn of(base: &Row, other: &Row) -> Option<Avoided> {
        let (old, new) = (base.received_per_unit?, other.received_per_unit?);
        let avoidable = base.avoidable_per_unit()?;
        if avoidable <= old.median * LEAST_PERCENT / 100.0 {
            return Some(Avoided::NothingToAvoid);
        }
        let percent = ((old.median - new.median) / avoidable * 100.0).min(100.0);
        Some(Avoided::Share { percent, within_spread: old.overlaps(&new) })
    }

    pub fn percent(self) -> Option<f64> {
        match self {
            Avoided::NothingToAvoid => None,
            Avoided::Share { percent, .. } => Some(percent),
        }
    }

    /// The share that is proved: zero within the spread, and where it is too small for a word.
    pub fn proved(self) -> Option<f64> {
        match self {
            Avoided::Share { within_spread: true, .. } => Some(0.0),
            _ => self.percent().map(|percent| if percent.abs() < LEAST_PERCENT { 0.0 } else { percent }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Spread;

    fn row(received: [f64; 3], needed: Option<f64>) -> Row {
        let [min, median, max] = received;
        Row {
            received_per_unit: Some(Spread { min, median, max }),
            needed_per_unit: needed.map(|value| Spread { min: value, median: value, max: value }),
            ..Row::default()
        }
    }

    #[test]
    fn what_a_variant_spares_is_held_against_what_the_baseline_did_not_need() {
        let share = |percent, within_spread| Some(Avoided::Share { percent, within_spread });
        let nothing = Some(Avoided::NothingToAvoid);
        for (old, needed, new, expected, proved, why) in [
            ([7.0; 3], Some(0.0), [0.0; 3], share(100.0, false), Some(100.0), "all"),
            ([8.0; 3], Some(4.0), [6.0; 3], share(50.0, false), Some(50.0), "half of what nobody needed"),
            ([8.0; 3], Some(4.0), [10.0; 3], share(-50.0, false), Some(-50.0), "more than before"),
            ([8.0; 3], Some(4.0), [3.0; 3], share(100.0, false), Some(100.0), "no credit for more"),
            ([7.0; 3], Some(7.0), [7.0; 3], nothing, None, "all is needed"),
            ([7.0; 3], Some(6.95), [0.0; 3], nothing, None, "all but a hundredth is needed"),
            ([0.0; 3], Some(0.0), [0.0; 3], nothing, None, "nothing is received"),
            ([0.0; 3], Some(0.0), [5.0; 3], nothing, None, "from nothing to something"),
            ([6.0, 8.0, 9.0], Some(4.0), [5.0, 6.0, 7.0], share(50.0, true), Some(0.0), "spreads overlap"),
            ([800.0; 3], Some(400.0), [799.0; 3], share(0.25, false), Some(0.0), "too little for a word"),
            ([7.0; 3], None, [0.0; 3], None, None, "nobody was asked"),
        ] {
            // What the variant itself needs plays no part.
            for own in [None, Some(0.0), Some(3.0)] {
                let found = Avoided::of(&row(old, needed), &row(new, own));
                assert_eq!(found, expected, "{why}");
                assert_eq!(found.and_then(Avoided::proved), proved, "{why}");
            }
        }
        assert_eq!(
            Avoided::of(&row([7.0; 3], Some(0.0)), &Row::default()),
            None,
            "the variant was not counted"
        );
    }
}
