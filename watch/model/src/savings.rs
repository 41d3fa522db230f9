// SPDX-License-Identifier: GPL-2.0-only
//! What is known of shootdowns only where each was seen by itself.

use crate::neighbours::{told_apart, Origin};
use crate::{Batching, Cause, Class, Histogram, Range, Shootdown};
use std::collections::BTreeMap;

/// What one flush for several would save, and how many pages each had.
#[derive(Debug, Clone)]
pub struct Savings {
    /// Any range, touching, write-back's.
    pub batching: [Batching; 3],
    /// Pages of one ranged shootdown.
    pub pages: BTreeMap<Origin, Histogram>,
}

impl Savings {
    pub fn new(within_ns: u64) -> Savings {
        let batching = [Range::Any, Range::Touching, Range::Ascending];
        Savings { batching: batching.map(|range| Batching::new(range, within_ns)), pages: BTreeMap::new() }
    }

    pub fn take(&mut self, shootdown: &Shootdown) {
        self.batching.iter_mut().for_each(|batching| batching.take(shootdown));
        let origin =
            (shootdown.task.tgid, (shootdown.class, shootdown.cause.clone(), shootdown.kernel_stack));
        if let Some((pages, sum)) = shootdown.pages.zip(told_apart(&mut self.pages, origin)) {
            sum.add(pages);
        }
    }

    /// No more will come.
    pub fn end(&mut self) {
        self.batching.iter_mut().for_each(Batching::end);
    }

    /// The rule that fits a cause.
    pub fn rule(&self, cause: &Cause) -> &Batching {
        let [_, touching, ascending] = &self.batching;
        if cause.is_write_back() {
            ascending
        } else {
            touching
        }
    }

    /// Shootdowns of a class, those for each cause by the rule that fits it.
    pub fn saved(&self, class: Class) -> u64 {
        let [_, touching, ascending] = &self.batching;
        let others = touching.places.iter().filter(|((_, cause, _), _)| !cause.is_write_back());
        let all = ascending.places.iter().chain(others).filter(|((of, _, _), _)| *of == class);
        all.map(|(_, saving)| saving.saved_shootdowns).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neighbours::tests::flush;

    #[test]
    fn each_cause_has_its_own_rule() {
        let mut savings = Savings::new(1000);
        let mut take = |start_ns: u64, class: Class, cause: Cause, page: u64| {
            savings.take(&Shootdown { class, cause, ..flush(start_ns, 8, 1, page << 12, Some(1)) });
        };
        // Every other page: behind the last, but not touching it.
        (0..10).for_each(|n| take(n, Class::User, Cause::Msync, 2 * n));
        (10..20).for_each(|n| take(n, Class::User, Cause::Munmap, 2 * n));
        (20..24).for_each(|n| take(n, Class::KernelRange, Cause::SetMemory, n));
        savings.end();
        assert_eq!((savings.saved(Class::User), savings.saved(Class::KernelRange)), (9, 3));
        let origin = (8, (Class::User, Cause::Msync, Some(1)));
        assert_eq!(savings.pages.get(&origin).map(Histogram::count), Some(10));
        let saved = |cause: Cause| {
            let origin = (8, (Class::User, cause.clone(), Some(1)));
            savings.rule(&cause).origins.get(&origin).map(|saving| saving.saved_shootdowns)
        };
        assert_eq!((saved(Cause::Msync), saved(Cause::Munmap)), (Some(9), Some(0)));
    }
}
