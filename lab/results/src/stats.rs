// SPDX-License-Identifier: GPL-2.0-only
//! The few statistics a handful of repeats can carry: median, smallest, largest. Ours: a library would be larger
//! than they are.

use serde::{Deserialize, Serialize};

/// A spread beyond this share of the median is marked in every table and plot.
pub const NOISY_SHARE: f64 = 0.10;

/// Median, smallest and largest of the repeats.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// `None` for no values, or if any of them is not a finite number.
    pub fn of(values: &[f64]) -> Option<Spread> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            // Halved before adding, so that two huge values cannot overflow.
            sorted[middle - 1] / 2.0 + sorted[middle] / 2.0
        };
        Some(Spread { median, min: sorted[0], max: sorted[sorted.len() - 1] })
    }

    pub fn is_ordered(&self) -> bool {
        self.min <= self.median && self.median <= self.max
    }

    /// (max - min) / median. A median of zero with any other value beside it is infinitely wide.
    pub fn width_share(&self) -> f64 {
        let width = self.max - self.min;
        if width == 0.0 {
            0.0
        } else if self.median == 0.0 {
            f64::INFINITY
        } else {
            width / self.median.abs()
        }
    }

    pub fn is_noisy(&self) -> bool {
        self.width_share() > NOISY_SHARE
    }

    /// Whether two spreads share a value; then their medians' difference proves nothing.
    pub fn overlaps(&self, other: &Spread) -> bool {
        self.min <= other.max && other.min <= self.max
    }
}

/// Median of a list, `None` if it is empty or holds something that is not finite.
pub fn median(values: &[f64]) -> Option<f64> {
    Spread::of(values).map(|spread| spread.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(values: &[f64]) -> Spread {
        Spread::of(values).expect("values")
    }

    #[test]
    fn spread_of_odd_even_and_single() {
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(spread(&[7.0]), Spread { median: 7.0, min: 7.0, max: 7.0 });
        assert_eq!(spread(&[f64::MAX, f64::MAX]).median, f64::MAX);
    }

    #[test]
    fn spread_refuses_nothing_and_nonsense() {
        for values in [&[][..], &[f64::NAN], &[1.0, f64::INFINITY]] {
            assert_eq!(Spread::of(values), None, "{values:?}");
        }
    }

    #[test]
    fn noisy_is_tight_from_both_sides() {
        assert!(!spread(&[95.0, 100.0, 105.0]).is_noisy(), "exactly 10 % is not over 10 %");
        assert!(spread(&[95.0, 100.0, 105.1]).is_noisy());
        assert!(!spread(&[0.0, 0.0, 0.0]).is_noisy());
        assert!(spread(&[0.0, 0.0, 1.0]).is_noisy(), "zero median beside something else");
    }

    #[test]
    fn overlap_includes_touching_and_is_symmetric() {
        let low = spread(&[1.0, 2.0]);
        let high = spread(&[2.0, 3.0]);
        let apart = spread(&[2.1, 3.0]);
        assert!(low.overlaps(&high) && high.overlaps(&low));
        assert!(!low.overlaps(&apart) && !apart.overlaps(&low));
    }
}
