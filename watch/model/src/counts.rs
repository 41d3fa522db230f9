// SPDX-License-Identifier: GPL-2.0-only
//! Figures that are added up, and taken from each other: none overflows, none falls below nothing.

use crate::Histogram;
use std::collections::BTreeMap;

/// Counts by what they are of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts<K>(BTreeMap<K, u64>);

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Counts(BTreeMap::new())
    }
}

impl<K: Ord> Counts<K> {
    pub fn add(&mut self, key: K, count: u64) {
        self.0.entry(key).or_default().plus(&count);
    }

    pub fn get(&self, key: &K) -> u64 {
        self.0.get(key).copied().unwrap_or(0)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&K, u64)> {
        self.0.iter().map(|(key, count)| (key, *count))
    }

    pub fn total(&self) -> u64 {
        self.0.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Of that which counts most.
    pub fn most(&self) -> Option<(&K, u64)> {
        self.iter().max_by_key(|(_, count)| *count)
    }

    /// What counts most comes first; of equal ones, in order.
    pub fn largest(self, most: usize) -> Vec<(K, u64)> {
        let mut counts: Vec<(K, u64)> = self.0.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts.truncate(most);
        counts
    }
}

impl<K: Ord> FromIterator<(K, u64)> for Counts<K> {
    fn from_iter<I: IntoIterator<Item = (K, u64)>>(counts: I) -> Self {
        let mut sums = Counts::default();
        counts.into_iter().for_each(|(key, count)| sums.add(key, count));
        sums
    }
}

/// A figure, or several that are added up together.
pub(crate) trait Figure {
    fn plus(&mut self, more: &Self);
    /// What is left of it after `earlier`.
    fn minus(&mut self, earlier: &Self);
}

impl Figure for u64 {
    fn plus(&mut self, more: &u64) {
        *self = self.saturating_add(*more);
    }

    fn minus(&mut self, earlier: &u64) {
        *self = self.saturating_sub(*earlier);
    }
}

/// Known only if it is known of both; what was not counted before has been nothing.
impl Figure for Option<u64> {
    fn plus(&mut self, more: &Option<u64>) {
        *self = self.zip(*more).map(|(mine, more)| mine.saturating_add(more));
    }

    fn minus(&mut self, earlier: &Option<u64>) {
        *self = self.map(|now| now.saturating_sub(earlier.unwrap_or(0)));
    }
}

impl Figure for Histogram {
    fn plus(&mut self, more: &Histogram) {
        self.merge(more);
    }

    fn minus(&mut self, earlier: &Histogram) {
        *self = self.since(earlier);
    }
}

/// All fields of a row that are such figures, in one place.
macro_rules! figures {
    ($row:ty: $($field:ident),*) => {
        impl $crate::counts::Figure for $row {
            fn plus(&mut self, more: &Self) {
                $($crate::counts::Figure::plus(&mut self.$field, &more.$field);)*
            }

            fn minus(&mut self, earlier: &Self) {
                $($crate::counts::Figure::minus(&mut self.$field, &earlier.$field);)*
            }
        }
    };
}
pub(crate) use figures;
