// SPDX-License-Identifier: GPL-2.0-only
//! Windows, or parts of one, added up again: the other direction of [`Snapshot::since`].

use crate::snapshot::{PairKey, SenderKey, SiteKey, VictimKey};
use crate::{
    ByTargets, Class, ClassCoverage, Coverage, Maximum, Pair, Sender, Site, Snapshot, Stacks, Victim,
};
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
        let Snapshot { sites, senders, victims, pairs, by_targets, stacks: _, .. } = window;
        let head = Snapshot {
            sites: Vec::new(),
            senders: Vec::new(),
            victims: Vec::new(),
            pairs: Vec::new(),
            by_targets: Vec::new(),
            stacks: Stacks::default(),
            ..window
        };
        match &mut self.head {
            None => self.head = Some(head),
            Some(mine) => add_head(mine, head),
        }
        self.add_rows(Snapshot { sites, senders, victims, pairs, by_targets, ..Snapshot::default() });
    }

    fn add_rows(&mut self, rows: Snapshot) {
        add_rows(&mut self.sites, rows.sites, Site::key, add_site);
        add_rows(&mut self.senders, rows.senders, Sender::key, |mine, more| mine.tally.add(&more.tally));
        add_rows(&mut self.victims, rows.victims, Victim::key, add_victim);
        add_rows(&mut self.pairs, rows.pairs, Pair::key, add_pair);
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

fn add_head(mine: &mut Snapshot, later: Snapshot) {
    mine.window_ns = mine.window_ns.saturating_add(later.window_ns);
    mine.taken_ns = mine.taken_ns.max(later.taken_ns);
    mine.wall_s = mine.wall_s.max(later.wall_s);
    mine.cpus = mine.cpus.max(later.cpus);
    mine.has_latencies |= later.has_latencies;
    mine.coverage.add(&later.coverage);
}

fn add_site(mine: &mut Site, more: &Site) {
    mine.tally.add(&more.tally);
    mine.delivery_ns = mine.delivery_ns.saturating_add(more.delivery_ns);
    mine.handler_ns = mine.handler_ns.saturating_add(more.handler_ns);
    mine.pages.merge(&more.pages);
    mine.targets.merge(&more.targets);
    mine.wait.merge(&more.wait);
    mine.delivery.merge(&more.delivery);
    mine.handler.merge(&more.handler);
}

fn add_victim(mine: &mut Victim, more: &Victim) {
    mine.interruptions = mine.interruptions.saturating_add(more.interruptions);
    mine.delivery_ns = mine.delivery_ns.saturating_add(more.delivery_ns);
    mine.stolen_ns = mine.stolen_ns.saturating_add(more.stolen_ns);
    (mine.stolen_ns_max, mine.stolen_ns_max_is) = Maximum::greater(mine.greatest(), more.greatest());
    mine.stolen.merge(&more.stolen);
}

fn add_pair(mine: &mut Pair, more: &Pair) {
    mine.interruptions = mine.interruptions.saturating_add(more.interruptions);
    mine.stolen_ns = mine.stolen_ns.saturating_add(more.stolen_ns);
    (mine.stolen_ns_max, mine.stolen_ns_max_is) = Maximum::greater(mine.greatest(), more.greatest());
}

impl Coverage {
    /// That of a later window.
    pub fn add(&mut self, later: &Coverage) {
        for more in &later.classes {
            match self.classes.iter_mut().find(|mine| mine.class == more.class) {
                Some(mine) => add_class(mine, more),
                None => self.classes.push(more.clone()),
            }
        }
        let lost = &mut self.lost;
        for (mine, more) in [
            (&mut lost.slots, later.lost.slots),
            (&mut lost.events, later.lost.events),
            (&mut lost.stacks, later.lost.stacks),
            (&mut lost.rows, later.lost.rows),
            (&mut lost.answers, later.lost.answers),
            (&mut self.overhead.timed_ns, later.overhead.timed_ns),
            (&mut self.overhead.own_cpu_ns, later.overhead.own_cpu_ns),
        ] {
            *mine = mine.saturating_add(more);
        }
        self.overhead.own_rss_kib_max = self.overhead.own_rss_kib_max.max(later.overhead.own_rss_kib_max);
        for more in &later.overhead.programs {
            match self.overhead.programs.iter_mut().find(|mine| mine.name == more.name) {
                Some(mine) => {
                    mine.runs = mine.runs.saturating_add(more.runs);
                    mine.run_ns = mine.run_ns.saturating_add(more.run_ns);
                }
                None => self.overhead.programs.push(more.clone()),
            }
        }
        for sentence in &later.blind {
            if !self.blind.contains(sentence) {
                self.blind.push(sentence.clone());
            }
        }
    }
}

fn add_class(mine: &mut ClassCoverage, more: &ClassCoverage) {
    let both = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
    mine.requests = both(mine.requests, more.requests);
    mine.shootdowns = mine.shootdowns.saturating_add(more.shootdowns);
    mine.queued = mine.queued.saturating_add(more.queued);
    mine.handled = both(mine.handled, more.handled);
    mine.filtered = mine.filtered.saturating_add(more.filtered);
    mine.kernel = both(mine.kernel, more.kernel);
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
