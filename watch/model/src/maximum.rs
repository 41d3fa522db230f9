// SPDX-License-Identifier: GPL-2.0-only
//! What a maximum says. The probes keep the greatest value since the start; of a window that tells only a part.

use crate::Histogram;
use serde::{Deserialize, Serialize};

/// From what says most to what says least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Maximum {
    /// The window's own.
    #[default]
    Exact,
    /// Nothing in the window was greater.
    AtMost,
    /// Nothing since the start was greater; of the window no more is known.
    SinceStart,
}

/// A maximum and what it says.
pub type Greatest = (u64, Maximum);

impl Maximum {
    pub fn is_exact(&self) -> bool {
        *self == Maximum::Exact
    }

    /// What is left of `now` after a moment at which it was `then`. `values`: the window's, of which there were
    /// `count`; one that lacks some of them bounds nothing.
    pub fn since(now: Greatest, then: u64, values: Option<&Histogram>, count: u64) -> Greatest {
        let (greatest, _) = now;
        if greatest > then || greatest == 0 {
            return now;
        }
        match values.filter(|values| values.count() >= count).and_then(Histogram::upper_bound) {
            Some(bound) => (bound.min(greatest), Maximum::AtMost),
            None => (greatest, Maximum::SinceStart),
        }
    }

    /// Of two; of equal ones that which says more.
    pub fn greater(one: Greatest, other: Greatest) -> Greatest {
        match one.0.cmp(&other.0).then(other.1.cmp(&one.1)) {
            std::cmp::Ordering::Less => other,
            _ => one,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Maximum::{AtMost, Exact, SinceStart};

    #[test]
    fn a_maximum_that_rose_is_the_windows_own_and_another_only_bounds_it() {
        let mut values = Histogram::default();
        values.add(100);
        assert_eq!(Maximum::since((900, Exact), 800, Some(&values), 1), (900, Exact));
        assert_eq!(Maximum::since((900, Exact), 900, Some(&values), 1), (127, AtMost));
        assert_eq!(Maximum::since((110, Exact), 110, Some(&values), 1), (110, AtMost), "never more than all");
        assert_eq!(
            Maximum::since((900, Exact), 900, Some(&values), 2),
            (900, SinceStart),
            "one is not in it"
        );
        assert_eq!(Maximum::since((900, Exact), 900, None, 1), (900, SinceStart));
        assert_eq!(Maximum::since((0, Exact), 0, None, 1), (0, Exact), "nothing is below nothing");
    }

    #[test]
    fn the_greater_decides_what_both_say() {
        assert_eq!(Maximum::greater((5, Exact), (9, SinceStart)), (9, SinceStart));
        assert_eq!(Maximum::greater((9, SinceStart), (9, Exact)), (9, Exact));
        assert_eq!(Maximum::greater((9, AtMost), (9, SinceStart)), (9, AtMost));
        assert_eq!(Maximum::greater((9, Exact), (5, AtMost)), (9, Exact));
    }
}
