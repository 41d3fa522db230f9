// SPDX-License-Identifier: GPL-2.0-only
//! Everything counted up to one moment. Cumulative: a window is the difference of two.

use crate::counts::{figures, Figure};
use crate::maximum::{Greatest, Maximum};
use crate::{Bursts, Cause, Class, Coverage, Histogram, Kind, Task, WhyFull};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    pub shootdowns: u64,
    pub targets: u64,
    /// 4 KiB pages, ranged flushes only.
    pub pages: u64,
    /// Entries invalidated one by one, ranged flushes only.
    pub entries: u64,
    pub wait_ns: u64,
    pub wait_ns_max: u64,
    /// What that says; not in JSON where it is exact.
    #[serde(default, skip_serializing_if = "Maximum::is_exact")]
    pub wait_ns_max_is: Maximum,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.plus(other);
        (self.wait_ns_max, self.wait_ns_max_is) = Maximum::greater(self.greatest(), other.greatest());
    }

    pub fn greatest(&self) -> Greatest {
        (self.wait_ns_max, self.wait_ns_max_is)
    }

    /// `waits`: the window's, where they were counted.
    fn since(&self, earlier: &Tally, waits: Option<&Histogram>) -> Tally {
        let mut left = *self;
        left.minus(earlier);
        (left.wait_ns_max, left.wait_ns_max_is) =
            Maximum::since(self.greatest(), earlier.wait_ns_max, waits, left.shootdowns);
        left
    }
}

figures!(Tally: shootdowns, targets, pages, entries, wait_ns);
figures!(Site: delivery_ns, handler_ns, calls, call_ns, pages, targets, wait, delivery, handler);
figures!(Victim: interruptions, delivery_ns, stolen_ns, stolen);
figures!(Pair: interruptions, stolen_ns);

/// Where shootdowns come from: one kernel stack, one way of asking.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Site {
    pub class: Class,
    pub cause: Cause,
    pub kind: Kind,
    pub why_full: Option<WhyFull>,
    pub freed_tables: bool,
    pub kernel_stack: Option<u32>,
    /// What the others run, where it is no flush.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Number of the call the initiator was in, and madvise's advice: they tell apart what shares its frames.
    pub syscall: Option<u16>,
    pub argument: u8,
    pub tally: Tally,
    /// Sums over the targets.
    pub delivery_ns: u64,
    pub handler_ns: u64,
    /// System calls that sent from here, and how long they took as a whole; nothing where those are not timed.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub calls: u64,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub call_ns: u64,
    /// Per shootdown, ranged only.
    pub pages: Histogram,
    /// Per shootdown.
    pub targets: Histogram,
    pub wait: Histogram,
    /// Per target.
    pub delivery: Histogram,
    pub handler: Histogram,
}

fn is_nothing(count: &u64) -> bool {
    *count == 0
}

/// One thread on one CPU, from one place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sender {
    pub task: Task,
    pub cpu: u32,
    pub class: Class,
    pub cause: Cause,
    pub kind: Kind,
    pub freed_tables: bool,
    pub kernel_stack: Option<u32>,
    /// What the others run, where it is no flush.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    pub user_stack: Option<u32>,
    pub syscall: Option<u16>,
    pub argument: u8,
    pub tally: Tally,
}

/// What one thread on one CPU lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Victim {
    pub cpu: u32,
    pub task: Task,
    pub class: Class,
    pub interruptions: u64,
    pub delivery_ns: u64,
    /// In the handler; the interrupt around it is not included.
    pub stolen_ns: u64,
    pub stolen_ns_max: u64,
    /// What that says; not in JSON where it is exact.
    #[serde(default, skip_serializing_if = "Maximum::is_exact")]
    pub stolen_ns_max_is: Maximum,
    pub stolen: Histogram,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    pub class: Class,
    pub sender_tid: u32,
    pub sender_cpu: u32,
    pub victim_tid: u32,
    pub victim_cpu: u32,
    pub interruptions: u64,
    pub stolen_ns: u64,
    pub stolen_ns_max: u64,
    /// What that says; not in JSON where it is exact.
    #[serde(default, skip_serializing_if = "Maximum::is_exact")]
    pub stolen_ns_max_is: Maximum,
}

/// The initiator's wait over the number of targets (log2 buckets).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ByTargets {
    pub class: Class,
    pub targets_min: u64,
    pub targets_max: u64,
    pub wait: Histogram,
}

/// Class, kind, kernel stack, function, call, its argument, freed tables.
pub type SiteKey = (Class, Kind, Option<u32>, Option<String>, Option<u16>, u8, bool);

impl Site {
    pub fn key(&self) -> SiteKey {
        let function = self.function.clone();
        (self.class, self.kind, self.kernel_stack, function, self.syscall, self.argument, self.freed_tables)
    }
}

/// Process, thread, CPU, user stack, site.
pub type SenderKey = (u32, u32, u32, Option<u32>, SiteKey);

impl Sender {
    pub fn key(&self) -> SenderKey {
        (self.task.tgid, self.task.tid, self.cpu, self.user_stack, self.site_key())
    }

    /// Of the [`Site`] it sent from.
    pub fn site_key(&self) -> SiteKey {
        let function = self.function.clone();
        (self.class, self.kind, self.kernel_stack, function, self.syscall, self.argument, self.freed_tables)
    }
}

/// Class, CPU, thread.
pub type VictimKey = (Class, u32, u32);

impl Victim {
    pub fn greatest(&self) -> Greatest {
        (self.stolen_ns_max, self.stolen_ns_max_is)
    }

    pub fn key(&self) -> VictimKey {
        (self.class, self.cpu, self.task.tid)
    }
}

/// Class, sender and its CPU, victim and its CPU.
pub type PairKey = (Class, u32, u32, u32, u32);

impl Pair {
    pub fn greatest(&self) -> Greatest {
        (self.stolen_ns_max, self.stolen_ns_max_is)
    }

    pub fn key(&self) -> PairKey {
        (self.class, self.sender_tid, self.sender_cpu, self.victim_tid, self.victim_cpu)
    }
}

impl ByTargets {
    pub fn key(&self) -> (Class, u64) {
        (self.class, self.targets_min)
    }
}

/// Frames by name, innermost first; a frame without a name is its address.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stacks {
    pub kernel: BTreeMap<u32, Vec<String>>,
    pub user: BTreeMap<u32, Vec<String>>,
}

impl Stacks {
    pub fn extend(&mut self, more: Stacks) {
        self.kernel.extend(more.kernel);
        self.user.extend(more.user);
    }

    /// Only those that these rows name: a window must not carry every stack there ever was.
    pub fn used_by(&self, sites: &[Site], senders: &[Sender]) -> Stacks {
        let pick = |all: &BTreeMap<u32, Vec<String>>, ids: BTreeSet<u32>| {
            ids.into_iter().filter_map(|id| Some((id, all.get(&id)?.clone()))).collect()
        };
        let kernel = sites.iter().map(|site| site.kernel_stack);
        let kernel = kernel.chain(senders.iter().map(|sender| sender.kernel_stack)).flatten().collect();
        let user = senders.iter().filter_map(|sender| sender.user_stack).collect();
        Stacks { kernel: pick(&self.kernel, kernel), user: pick(&self.user, user) }
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Snapshot {
    pub schema: String,
    /// CLOCK_MONOTONIC.
    pub taken_ns: u64,
    /// Seconds of watching that the figures cover, in ns.
    pub window_ns: u64,
    /// Seconds since 1970, for a reader elsewhere.
    pub wall_s: u64,
    pub kernel: String,
    pub cpus: u32,
    /// False: columns of the receiving side are zero because nobody looked.
    pub has_latencies: bool,
    pub sites: Vec<Site>,
    pub senders: Vec<Sender>,
    pub victims: Vec<Victim>,
    pub pairs: Vec<Pair>,
    pub by_targets: Vec<ByTargets>,
    /// The worst of a window; none in what is cumulative.
    #[serde(default, skip_serializing_if = "Bursts::is_none")]
    pub bursts: Bursts,
    pub stacks: Stacks,
    pub coverage: Coverage,
}

impl Snapshot {
    /// What happened after `earlier`. Rows in which nothing happened are left out.
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        let sites = differ(&self.sites, &earlier.sites, Site::key, |now, then| {
            let mut left = now.clone();
            left.minus(then);
            left.tally = now.tally.since(&then.tally, Some(&left.wait));
            (left.tally.shootdowns > 0).then_some(left)
        });
        let senders = differ(&self.senders, &earlier.senders, Sender::key, |now, then| {
            let tally = now.tally.since(&then.tally, None);
            (tally.shootdowns > 0).then(|| Sender { tally, ..now.clone() })
        });
        let victims = differ(&self.victims, &earlier.victims, Victim::key, |now, then| {
            let mut left = now.clone();
            left.minus(then);
            (left.stolen_ns_max, left.stolen_ns_max_is) =
                Maximum::since(now.greatest(), then.stolen_ns_max, Some(&left.stolen), left.interruptions);
            (left.interruptions > 0).then_some(left)
        });
        let pairs = differ(&self.pairs, &earlier.pairs, Pair::key, |now, then| {
            let mut left = now.clone();
            left.minus(then);
            (left.stolen_ns_max, left.stolen_ns_max_is) =
                Maximum::since(now.greatest(), then.stolen_ns_max, None, left.interruptions);
            (left.interruptions > 0).then_some(left)
        });
        let by_targets = differ(&self.by_targets, &earlier.by_targets, ByTargets::key, |now, then| {
            let wait = now.wait.since(&then.wait);
            (wait.count() > 0).then(|| ByTargets { wait, ..now.clone() })
        });
        let stacks = self.stacks.used_by(&sites, &senders);
        let window_ns = self.taken_ns.saturating_sub(earlier.taken_ns);
        let coverage = self.coverage.since(&earlier.coverage);
        let bursts = self.bursts;
        Snapshot {
            window_ns,
            sites,
            senders,
            victims,
            pairs,
            by_targets,
            bursts,
            stacks,
            coverage,
            ..self.head()
        }
    }

    /// Without its rows and their stacks.
    pub fn head(&self) -> Snapshot {
        Snapshot {
            schema: self.schema.clone(),
            kernel: self.kernel.clone(),
            coverage: self.coverage.clone(),
            sites: Vec::new(),
            senders: Vec::new(),
            victims: Vec::new(),
            pairs: Vec::new(),
            by_targets: Vec::new(),
            stacks: Stacks::default(),
            ..*self
        }
    }

    /// Only rows of these classes; the coverage stays that of all.
    pub fn retain_class(&mut self, keep: impl Fn(Class) -> bool) {
        self.sites.retain(|row| keep(row.class));
        self.senders.retain(|row| keep(row.class));
        self.victims.retain(|row| keep(row.class));
        self.pairs.retain(|row| keep(row.class));
        self.by_targets.retain(|row| keep(row.class));
    }

    /// The tally of a class.
    pub fn tally(&self, class: Class) -> Tally {
        let mut sum = Tally::default();
        self.sites.iter().filter(|site| site.class == class).for_each(|site| sum.add(&site.tally));
        sum
    }
}

fn differ<T: Clone, K: Hash + Eq>(
    now: &[T],
    earlier: &[T],
    key: impl Fn(&T) -> K,
    less: impl Fn(&T, &T) -> Option<T>,
) -> Vec<T> {
    let before: HashMap<K, &T> = earlier.iter().map(|row| (key(row), row)).collect();
    now.iter()
        .filter_map(|row| match before.get(&key(row)) {
            Some(then) => less(row, then),
            None => Some(row.clone()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(tid: u32, interruptions: u64) -> Pair {
        Pair {
            class: Class::User,
            sender_tid: tid,
            sender_cpu: 0,
            victim_tid: 9,
            victim_cpu: 1,
            interruptions,
            stolen_ns: interruptions * 10,
            stolen_ns_max: 10,
            stolen_ns_max_is: Maximum::Exact,
        }
    }

    #[test]
    fn a_window_holds_what_happened_in_it_and_no_idle_rows() {
        let early = Snapshot { taken_ns: 100, pairs: vec![pair(1, 5), pair(2, 7)], ..Snapshot::default() };
        let late = Snapshot {
            taken_ns: 300,
            pairs: vec![pair(1, 5), pair(2, 9), pair(3, 1)],
            ..Snapshot::default()
        };
        let window = late.since(&early);
        assert_eq!(window.window_ns, 200);
        let left: Vec<(u32, u64)> = window.pairs.iter().map(|p| (p.sender_tid, p.interruptions)).collect();
        assert_eq!(left, [(2, 2), (3, 1)]);
    }

    #[test]
    fn a_windows_maxima_are_its_own_or_said_not_to_be() {
        let sites = |waits: &[u64]| {
            let mut site = crate::testing::site(Cause::Munmap, &[]);
            for wait_ns in waits {
                site.wait.add(*wait_ns);
                site.tally.shootdowns += 1;
                site.tally.wait_ns_max = site.tally.wait_ns_max.max(*wait_ns);
            }
            vec![site]
        };
        let at = |waits: &[u64], victims| {
            let n = waits.len() as u64;
            Snapshot { sites: sites(waits), pairs: vec![pair(1, n)], victims, ..Snapshot::default() }
        };
        let victim =
            |tid: u32, n: u64, stolen_ns_max: u64| Victim { stolen_ns_max, ..crate::testing::victim(tid, n) };
        let early = at(&[90_000], vec![victim(1, 1, 90_000), victim(2, 1, 1000)]);
        let late = at(&[90_000, 3000], vec![victim(1, 2, 90_000), victim(2, 2, 1001)]);
        let window = late.since(&early);
        assert_eq!(window.sites[0].tally.greatest(), (4095, Maximum::AtMost));
        assert_eq!(window.victims[0].greatest(), (1023, Maximum::AtMost));
        assert_eq!(window.victims[1].greatest(), (1001, Maximum::Exact));
        assert_eq!(window.pairs[0].greatest(), (10, Maximum::SinceStart));
        let json = serde_json::to_value(&window.victims).expect("JSON");
        assert_eq!(json[0]["stolen_ns_max_is"], "at-most");
        assert!(json[1].get("stolen_ns_max_is").is_none());
    }

    #[test]
    fn a_window_carries_the_stacks_of_its_own_rows_alone() {
        let names = |ids: &[u32]| ids.iter().map(|id| (*id, vec![format!("frame_{id}")])).collect();
        let all = Stacks { kernel: names(&[1, 2, 3]), user: names(&[7, 8]) };
        let site = |id: u32, sent: u64| {
            let mut site = crate::testing::site(Cause::Munmap, &[(1, sent)]);
            site.kernel_stack = Some(id);
            site
        };
        let early =
            Snapshot { sites: vec![site(1, 4), site(2, 4)], stacks: all.clone(), ..Snapshot::default() };
        let mut sender = crate::testing::sender(5, Cause::Munmap, 1);
        (sender.kernel_stack, sender.user_stack) = (Some(3), Some(8));
        let late = Snapshot {
            sites: vec![site(1, 4), site(2, 5)],
            senders: vec![sender],
            stacks: all,
            ..Snapshot::default()
        };
        let window = late.since(&early);
        assert_eq!(window.stacks, Stacks { kernel: names(&[2, 3]), user: names(&[8]) });
    }
}
