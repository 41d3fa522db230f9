// SPDX-License-Identifier: GPL-2.0-only
//! Log2 buckets, as the probes count them.

use serde::{Deserialize, Serialize};

pub const BUCKETS: usize = 32;

/// Bucket 0 holds zeroes, bucket n the values from 2^(n-1) to 2^n - 1, the last one everything above.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Histogram {
    /// Trailing empty buckets may be left out.
    pub buckets: Vec<u64>,
}

impl Histogram {
    /// Empty buckets at the end are dropped.
    pub fn new(buckets: &[u64]) -> Histogram {
        let used = buckets.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        Histogram { buckets: buckets[..used.min(BUCKETS)].to_vec() }
    }

    pub fn bucket_of(value: u64) -> usize {
        (u64::BITS - value.leading_zeros()).min(BUCKETS as u32 - 1) as usize
    }

    /// Least and greatest value of a bucket.
    pub fn bounds(bucket: usize) -> (u64, u64) {
        match bucket {
            0 => (0, 0),
            n if n >= BUCKETS - 1 => (1 << (BUCKETS - 2), u64::MAX),
            n => (1 << (n - 1), (1 << n) - 1),
        }
    }

    pub fn add(&mut self, value: u64) {
        let bucket = Self::bucket_of(value);
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] = self.buckets[bucket].saturating_add(1);
    }

    pub fn merge(&mut self, other: &Histogram) {
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let before = |n: usize| earlier.buckets.get(n).copied().unwrap_or(0);
        let left: Vec<u64> =
            self.buckets.iter().enumerate().map(|(n, count)| count.saturating_sub(before(n))).collect();
        Histogram::new(&left)
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The greatest value of the highest bucket that holds any.
    pub fn upper_bound(&self) -> Option<u64> {
        self.buckets.iter().rposition(|count| *count > 0).map(|bucket| Self::bounds(bucket).1)
    }

    /// The greatest value of the bucket that holds this share (0 to 1) of the values: never too low.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let total = self.count();
        if total == 0 {
            return None;
        }
        let wanted = ((total as f64 * share).ceil() as u64).clamp(1, total);
        let mut seen = 0u64;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen = seen.saturating_add(*count);
            if seen >= wanted {
                return Some(Self::bounds(bucket).1);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_within_its_buckets_bounds() {
        for value in (0..70_000).chain([1 << 30, (1 << 31) - 1, 1 << 31, u64::MAX]) {
            let (least, greatest) = Histogram::bounds(Histogram::bucket_of(value));
            assert!(least <= value && value <= greatest, "{value}: {least} to {greatest}");
        }
    }

    #[test]
    fn a_difference_and_its_start_make_the_whole() {
        let mut early = Histogram::default();
        (0..100).for_each(|value| early.add(value));
        let mut late = early.clone();
        (50..5000).for_each(|value| late.add(value));
        let mut sum = late.since(&early);
        assert_eq!(sum.count(), 4950);
        sum.merge(&early);
        assert_eq!(sum, late);
    }

    #[test]
    fn quantiles_are_upper_bounds() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        (0..1000).for_each(|_| histogram.add(100));
        histogram.add(10_000);
        assert_eq!(histogram.quantile(0.5), Some(127));
        assert_eq!(histogram.quantile(1.0), Some(16_383));
    }
}
