// SPDX-License-Identifier: GPL-2.0-only
//! A window of some causes only. Sites and senders know their cause. What knows none is kept as far as its sender
//! tells: never less than there was, and what may be too much is said.

use crate::maximum::{Greatest, Maximum};
use crate::{Cause, Class, Counts, Histogram, Pair, Site, Snapshot, Victim};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A thread on a CPU; what it sent there for any cause looks the same to its victims.
type Source = (Class, u32, u32);

impl Snapshot {
    /// Drops rows of other causes; the coverage stays that of everything.
    pub fn retain_cause(&mut self, keep: impl Fn(&Cause) -> bool) {
        let mut wanted: BTreeSet<Source> = BTreeSet::new();
        let mut others: Counts<Source> = Counts::default();
        for sender in &self.senders {
            let source = (sender.class, sender.task.tid, sender.cpu);
            match keep(&sender.cause) {
                true => drop(wanted.insert(source)),
                false => others.add(source, sender.tally.targets),
            }
        }
        let foreign = wanted.iter().map(|source| others.get(source)).fold(0, u64::saturating_add);
        let is_partial = others.iter().next().is_some() || self.sites.iter().any(|site| !keep(&site.cause));
        self.senders.retain(|sender| keep(&sender.cause));
        self.by_targets = by_targets(self, &keep);
        self.sites.retain(|site| keep(&site.cause));
        if self.pairs.is_empty() {
            if is_partial && !self.victims.is_empty() {
                self.victims.clear();
                self.coverage.blind.push("victims by cause need the pairs, which were not watched".into());
            }
            return;
        }
        let source = |pair: &Pair| (pair.class, pair.sender_tid, pair.sender_cpu);
        let (kept, dropped): (Vec<Pair>, Vec<Pair>) =
            std::mem::take(&mut self.pairs).into_iter().partition(|pair| wanted.contains(&source(pair)));
        self.victims = victims(&self.victims, &kept, &dropped);
        self.pairs = kept;
        if foreign > 0 {
            self.coverage.blind.push(format!(
                "victims and pairs hold up to {foreign} interruptions by threads that also sent for other causes"
            ));
        }
    }
}

/// What the kept pairs tell of each victim. Where some were dropped, its delivery and distribution are not known.
fn victims(all: &[Victim], kept: &[Pair], dropped: &[Pair]) -> Vec<Victim> {
    let place = |pair: &Pair| (pair.class, pair.victim_cpu, pair.victim_tid);
    let is_mixed: BTreeSet<_> = dropped.iter().map(place).collect();
    let mut sums: HashMap<_, (u64, u64, Greatest)> = HashMap::new();
    for pair in kept {
        let sum = sums.entry(place(pair)).or_default();
        sum.0 = sum.0.saturating_add(pair.interruptions);
        sum.1 = sum.1.saturating_add(pair.stolen_ns);
        sum.2 = Maximum::greater(sum.2, pair.greatest());
    }
    let left = all.iter().filter_map(|victim| {
        let place = (victim.class, victim.cpu, victim.task.tid);
        let (interruptions, stolen_ns, (stolen_ns_max, stolen_ns_max_is)) = *sums.get(&place)?;
        if !is_mixed.contains(&place) {
            return Some(victim.clone());
        }
        let (delivery_ns, stolen) = (0, Histogram::default());
        Some(Victim {
            interruptions,
            stolen_ns,
            stolen_ns_max,
            stolen_ns_max_is,
            delivery_ns,
            stolen,
            ..victim.clone()
        })
    });
    left.collect()
}

/// A place whose shootdowns all had about as many targets tells its row; where one had more kinds, it does not.
fn by_targets(window: &mut Snapshot, keep: &impl Fn(&Cause) -> bool) -> Vec<crate::ByTargets> {
    let is_whole = |class: Class| !window.sites.iter().any(|site| site.class == class && !keep(&site.cause));
    let (mut rows, rest): (Vec<_>, Vec<_>) =
        window.by_targets.iter().cloned().partition(|row| is_whole(row.class));
    let mut unknown = 0u64;
    let mut sums: BTreeMap<(Class, usize), Histogram> = BTreeMap::new();
    let partial = window.sites.iter().filter(|site| keep(&site.cause) && !is_whole(site.class));
    for site in partial.filter(|_| !rest.is_empty()) {
        match only_bucket(site) {
            Some(bucket) => sums.entry((site.class, bucket)).or_default().merge(&site.wait),
            None => unknown = unknown.saturating_add(site.wait.count()),
        }
    }
    rows.extend(sums.into_iter().map(|((class, bucket), wait)| {
        let (targets_min, targets_max) = Histogram::bounds(bucket);
        crate::ByTargets { class, targets_min, targets_max, wait }
    }));
    rows.sort_by_key(|row| (row.class, row.targets_min));
    if unknown > 0 {
        window.coverage.blind.push(format!(
            "the wait by targets leaves out {unknown} shootdowns whose stacks had several numbers of targets"
        ));
    }
    rows
}

fn only_bucket(site: &Site) -> Option<usize> {
    let mut used = site.targets.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
    let (bucket, _) = used.next()?;
    used.next().is_none().then_some(bucket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{pair, sender, site, victim};
    use crate::ByTargets;

    fn is_munmap(cause: &Cause) -> bool {
        *cause == Cause::Munmap
    }

    #[test]
    fn victims_and_pairs_of_other_causes_senders_go() {
        let mut window = Snapshot {
            senders: vec![sender(1, Cause::Munmap, 5), sender(2, Cause::Cow, 7)],
            pairs: vec![pair(1, 8, 5), pair(2, 8, 3), pair(2, 9, 4)],
            victims: vec![victim(8, 8), victim(9, 4)],
            ..Snapshot::default()
        };
        window.retain_cause(is_munmap);
        assert_eq!(window.pairs, [pair(1, 8, 5)]);
        let [left] = window.victims.as_slice() else { panic!("{:?}", window.victims) };
        assert_eq!((left.task.tid, left.interruptions, left.stolen_ns), (8, 5, 5000));
        assert_eq!((left.delivery_ns, left.stolen.count()), (0, 0), "not known for part of a victim");
        assert!(window.coverage.blind.is_empty(), "{:?}", window.coverage.blind);
    }

    #[test]
    fn a_sender_for_two_causes_keeps_its_victims_and_it_is_said() {
        let mut window = Snapshot {
            senders: vec![sender(1, Cause::Munmap, 5), sender(1, Cause::Cow, 7)],
            pairs: vec![pair(1, 8, 12)],
            victims: vec![victim(8, 12)],
            ..Snapshot::default()
        };
        window.retain_cause(is_munmap);
        assert_eq!(window.victims, [victim(8, 12)]);
        assert!(window.coverage.blind[0].contains("up to 7 interruptions"), "{:?}", window.coverage.blind);
    }

    #[test]
    fn counts_that_no_kernel_has_do_not_overflow() {
        let most = u64::MAX;
        let mut window = Snapshot {
            senders: vec![
                sender(1, Cause::Munmap, 1),
                sender(1, Cause::Cow, most),
                sender(1, Cause::Fork, most),
                sender(2, Cause::Munmap, 1),
                sender(2, Cause::Cow, most),
            ],
            pairs: vec![pair(1, 8, 1)],
            ..Snapshot::default()
        };
        window.retain_cause(is_munmap);
        assert!(window.coverage.blind[0].contains(&format!("up to {most} ")), "{:?}", window.coverage.blind);

        let mut mixed = site(Cause::Munmap, &[(1, 1), (4, 1)]);
        mixed.wait.buckets = vec![most];
        let mut window = Snapshot {
            sites: vec![mixed.clone(), mixed, site(Cause::Cow, &[(1, 1)])],
            by_targets: vec![ByTargets {
                class: Class::User,
                targets_min: 1,
                targets_max: 1,
                wait: Histogram::default(),
            }],
            ..Snapshot::default()
        };
        window.retain_cause(is_munmap);
        assert!(
            window.coverage.blind[0].contains(&format!("leaves out {most} ")),
            "{:?}",
            window.coverage.blind
        );
    }

    #[test]
    fn waits_by_targets_come_from_places_of_one_kind() {
        let mut wait = Histogram::default();
        (0..20).for_each(|_| wait.add(1000));
        let rows = |wait: &Histogram| {
            vec![ByTargets { class: Class::User, targets_min: 1, targets_max: 1, wait: wait.clone() }]
        };
        let all = Snapshot {
            sites: vec![
                site(Cause::Munmap, &[(1, 6)]),
                site(Cause::Munmap, &[(1, 2), (4, 3)]),
                site(Cause::Cow, &[(1, 9)]),
            ],
            by_targets: rows(&wait),
            ..Snapshot::default()
        };
        let mut window = all.clone();
        window.retain_cause(is_munmap);
        assert_eq!(window.by_targets, rows(&window.sites[0].wait));
        assert!(window.coverage.blind[0].contains("leaves out 5 shootdowns"), "{:?}", window.coverage.blind);

        let mut window = all.clone();
        window.retain_cause(|_| true);
        assert_eq!(window, all, "nothing left out: nothing changes");
    }

    #[test]
    fn without_pairs_no_victim_is_shown_rather_than_all() {
        let mut window = Snapshot {
            senders: vec![sender(1, Cause::Munmap, 5), sender(2, Cause::Cow, 7)],
            victims: vec![victim(8, 12)],
            ..Snapshot::default()
        };
        window.retain_cause(is_munmap);
        assert!(window.victims.is_empty());
        assert_eq!(window.coverage.blind.len(), 1);
    }
}
