// SPDX-License-Identifier: GPL-2.0-only
//! Windows, or parts of one, added up again: the other direction of [`Snapshot::since`].

use crate::counts::Figure;
use crate::snapshot::{PairKey, SenderKey, SiteKey, VictimKey};
use crate::{ByTargets, Class, Maximum, Pair, Sender, Site, Snapshot, Stacks, Victim};
use std::collections::BTreeMap;

/// Rows by what identifies them; their order is that of their keys, so equal windows give equal sums.
#[derive(Debug, Clone, Default)]
pub struct Sum {
    head: Option<Snapshot>,
    sites: BTreeMap<SiteKey, Site>,
    senders: BTreeMap<SenderKey, Sender>,
    victims: BTreeMap<VictimKey, Victim>,
    pairs: BTreeMap<PairKey, Pair>,
    by_targets: BTreeMap<(Class, u64), ByTargets>,
}

impl Sum {
    /// Names of stacks are not looked at: give them to [`Sum::snapshot`].
    pub fn add(&mut self, window: Snapshot) {
        match &mut self.head {
            None => self.head = Some(window.head()),
            Some(mine) => add_head(mine, &window),
        }
        self.add_rows(window);
    }

    fn add_rows(&mut self, rows: Snapshot) {
        add_rows(&mut self.sites, rows.sites, Site::key, |mine, more| {
            mine.tally.add(&more.tally);
            mine.plus(more);
        });
        add_rows(&mut self.senders, rows.senders, Sender::key, |mine, more| mine.tally.add(&more.tally));
        add_rows(&mut self.victims, rows.victims, Victim::key, |mine, more| {
            (mine.stolen_ns_max, mine.stolen_ns_max_is) = Maximum::greater(mine.greatest(), more.greatest());
            mine.plus(more);
        });
        add_rows(&mut self.pairs, rows.pairs, Pair::key, |mine, more| {
            (mine.stolen_ns_max, mine.stolen_ns_max_is) = Maximum::greater(mine.greatest(), more.greatest());
            mine.plus(more);
        });
        add_rows(&mut self.by_targets, rows.by_targets, ByTargets::key, |mine, more| {
            mine.wait.merge(&more.wait)
        });
    }

    /// Rows of its longest table but for pairs, which are smaller and more.
    pub fn rows(&self) -> usize {
        let long = [self.sites.len(), self.senders.len(), self.victims.len(), self.pairs.len() / 2];
        long.into_iter().max().unwrap_or(0)
    }

    /// Until it has so many rows, if it can: of threads that count least only their names stay, then of names only their
    /// sum, then user stacks go. False where that does not do.
    pub fn shrink(&mut self, most: usize) -> bool {
        let steps: [fn(&mut Snapshot, usize); 3] = [
            |rows, most| rows.by_name_but(most / 8),
            |rows, most| rows.without_names_but(most / 8),
            |rows, _| {
                rows.senders.iter_mut().for_each(|sender| sender.user_stack = None);
            },
        ];
        for step in steps {
            if self.rows() <= most {
                return true;
            }
            let mut rows = Snapshot {
                senders: std::mem::take(&mut self.senders).into_values().collect(),
                victims: std::mem::take(&mut self.victims).into_values().collect(),
                pairs: std::mem::take(&mut self.pairs).into_values().collect(),
                ..Snapshot::default()
            };
            step(&mut rows, most);
            self.add_rows(rows);
        }
        self.rows() <= most
    }

    pub fn sites(&self) -> usize {
        self.sites.len()
    }

    pub fn snapshot(&self, stacks: Stacks) -> Snapshot {
        Snapshot {
            sites: self.sites.values().cloned().collect(),
            senders: self.senders.values().cloned().collect(),
            victims: self.victims.values().cloned().collect(),
            pairs: self.pairs.values().cloned().collect(),
            by_targets: self.by_targets.values().cloned().collect(),
            stacks,
            ..self.head.clone().unwrap_or_default()
        }
    }
}

fn add_rows<K: Ord, T>(sums: &mut BTreeMap<K, T>, rows: Vec<T>, key: fn(&T) -> K, add: fn(&mut T, &T)) {
    for row in rows {
        match sums.entry(key(&row)) {
            std::collections::btree_map::Entry::Vacant(empty) => {
                empty.insert(row);
            }
            std::collections::btree_map::Entry::Occupied(mut mine) => add(mine.get_mut(), &row),
        }
    }
}

fn add_head(mine: &mut Snapshot, later: &Snapshot) {
    mine.window_ns = mine.window_ns.saturating_add(later.window_ns);
    mine.taken_ns = mine.taken_ns.max(later.taken_ns);
    mine.wall_s = mine.wall_s.max(later.wall_s);
    mine.cpus = mine.cpus.max(later.cpus);
    mine.has_latencies |= later.has_latencies;
    mine.bursts.add(&later.bursts);
    mine.coverage.add(&later.coverage);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(taken_ns: u64, counts: &[(u32, u64)]) -> Snapshot {
        let pair = |(tid, interruptions): &(u32, u64)| Pair {
            class: Class::User,
            sender_tid: *tid,
            sender_cpu: 0,
            victim_tid: 9,
            victim_cpu: 1,
            interruptions: *interruptions,
            stolen_ns: interruptions * 10,
            stolen_ns_max: 10,
            stolen_ns_max_is: Maximum::Exact,
        };
        Snapshot { taken_ns, pairs: counts.iter().map(pair).collect(), ..Snapshot::default() }
    }

    #[test]
    fn windows_one_after_the_other_make_the_whole() {
        let moments = [at(0, &[]), at(10, &[(1, 5)]), at(20, &[(1, 5), (2, 1)]), at(35, &[(1, 9), (2, 1)])];
        let mut sum = Sum::default();
        for two in moments.windows(2) {
            sum.add(two[1].since(&two[0]));
        }
        let whole = moments[3].since(&moments[0]);
        assert_eq!(sum.snapshot(Stacks::default()), whole);
        assert_eq!(sum.rows(), 1);
    }
}
