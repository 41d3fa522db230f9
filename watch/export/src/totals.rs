// SPDX-License-Identifier: GPL-2.0-only
//! Windows added up into counters that never fall, whoever comes and goes.

use ceasefire_watch_model::{Cause, Class, Coverage, Moment, Snapshot, Task};
use ceasefire_watch_views::verdict::Verdict;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Where what has no series of its own is counted.
pub const OTHER: &str = "other";
/// Causes that are told apart. The known ones are fewer; unknown frames and functions could be any number.
const CAUSES_MAX: usize = 64;
/// Gauges are the worst of this time, so that no scrape in it misses one.
const WORST_NS: u64 = 60_000_000_000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    pub shootdowns: u64,
    pub targets: u64,
    pub handler_ns: u64,
    pub wait_ns: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OfUnit {
    pub shootdowns: u64,
    pub targets: u64,
    pub interruptions: u64,
    pub stolen_ns: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OfCpu {
    pub interruptions: u64,
    pub stolen_ns: u64,
}

/// What cgroups are called.
pub trait Naming {
    fn name(&mut self, cgroup: u64) -> String;
    fn is_gone(&mut self, name: &str) -> bool;
}

/// Of one window.
#[derive(Debug, Clone, Copy, Default)]
struct Worst {
    taken_ns: u64,
    hundredth: Moment,
    flushes_share: f64,
    calls_share: f64,
}

#[derive(Debug)]
pub struct Totals {
    pub causes: BTreeMap<(Class, String), Sent>,
    pub units: BTreeMap<(Class, String), OfUnit>,
    pub cpus: BTreeMap<(Class, u32), OfCpu>,
    pub coverage: Coverage,
    pub kernel: String,
    pub windows: u64,
    units_max: usize,
    known: BTreeSet<String>,
    worst: VecDeque<Worst>,
}

impl Totals {
    pub fn new(units_max: usize) -> Totals {
        Totals {
            causes: BTreeMap::new(),
            units: BTreeMap::new(),
            cpus: BTreeMap::new(),
            coverage: Coverage::default(),
            kernel: String::new(),
            windows: 0,
            units_max,
            known: BTreeSet::new(),
            worst: VecDeque::new(),
        }
    }

    /// Counts of a unit that is gone move to [`OTHER`] once its place is needed.
    pub fn take(&mut self, window: &Snapshot, naming: &mut dyn Naming) {
        self.windows += 1;
        self.kernel.clone_from(&window.kernel);
        self.coverage.add(&window.coverage);
        for site in window.sites.iter().filter(|site| site.class != Class::Own) {
            let key = (site.class, self.cause(site.class, &site.cause));
            let row = self.causes.entry(key).or_default();
            row.shootdowns = row.shootdowns.saturating_add(site.tally.shootdowns);
            row.targets = row.targets.saturating_add(site.tally.targets);
            row.handler_ns = row.handler_ns.saturating_add(site.handler_ns);
            row.wait_ns = row.wait_ns.saturating_add(site.tally.wait_ns);
        }
        for sender in window.senders.iter().filter(|sender| sender.class != Class::Own) {
            let name = self.unit(of(&sender.task, naming), naming);
            let row = self.units.entry((sender.class, name)).or_default();
            row.shootdowns = row.shootdowns.saturating_add(sender.tally.shootdowns);
            row.targets = row.targets.saturating_add(sender.tally.targets);
        }
        for victim in window.victims.iter().filter(|victim| victim.class != Class::Own) {
            let name = self.unit(of(&victim.task, naming), naming);
            let row = self.units.entry((victim.class, name)).or_default();
            row.interruptions = row.interruptions.saturating_add(victim.interruptions);
            row.stolen_ns = row.stolen_ns.saturating_add(victim.stolen_ns);
            let cpu = self.cpus.entry((victim.class, victim.cpu)).or_default();
            cpu.interruptions = cpu.interruptions.saturating_add(victim.interruptions);
            cpu.stolen_ns = cpu.stolen_ns.saturating_add(victim.stolen_ns);
        }
        let verdict = Verdict::of(window);
        self.worst.push_back(Worst {
            taken_ns: window.taken_ns,
            hundredth: window.bursts.hundredth.unwrap_or_default(),
            flushes_share: verdict.share,
            calls_share: verdict.calls_share,
        });
        while self.worst.front().is_some_and(|worst| worst.taken_ns + WORST_NS < window.taken_ns) {
            self.worst.pop_front();
        }
    }

    /// Of all 10 ms of the last minute, those in which handlers took most.
    pub fn worst_hundredth(&self) -> Moment {
        let moments = self.worst.iter().map(|worst| worst.hundredth);
        moments.max_by_key(|moment| (moment.stolen_ns, moment.received)).unwrap_or_default()
    }

    /// The largest share of a window that one thread lost to flushes, or waited for its own; and to other cross calls.
    pub fn worst_shares(&self) -> (f64, f64) {
        let most = |share: fn(&Worst) -> f64| self.worst.iter().map(share).fold(0.0, f64::max);
        (most(|worst| worst.flushes_share), most(|worst| worst.calls_share))
    }

    fn cause(&self, class: Class, cause: &Cause) -> String {
        let name = cause.to_string();
        let is_known = self.causes.contains_key(&(class, name.clone()));
        match is_known || self.causes.len() < CAUSES_MAX {
            true => name,
            false => OTHER.to_string(),
        }
    }

    fn unit(&mut self, name: String, naming: &mut dyn Naming) -> String {
        if self.known.contains(&name) {
            return name;
        }
        if self.known.len() >= self.units_max {
            self.retire(naming);
        }
        if self.known.len() >= self.units_max {
            return OTHER.to_string();
        }
        self.known.insert(name.clone());
        name
    }

    /// Sums stay: what a unit did moves, and is not lost.
    fn retire(&mut self, naming: &mut dyn Naming) {
        let gone: Vec<String> = self.known.iter().filter(|name| naming.is_gone(name)).cloned().collect();
        for name in gone {
            self.known.remove(&name);
            for class in Class::ALL {
                let Some(row) = self.units.remove(&(class, name.clone())) else { continue };
                let sum = self.units.entry((class, OTHER.to_string())).or_default();
                sum.shootdowns = sum.shootdowns.saturating_add(row.shootdowns);
                sum.targets = sum.targets.saturating_add(row.targets);
                sum.interruptions = sum.interruptions.saturating_add(row.interruptions);
                sum.stolen_ns = sum.stolen_ns.saturating_add(row.stolen_ns);
            }
        }
    }
}

fn of(task: &Task, naming: &mut dyn Naming) -> String {
    match (task.tid, task.cgroup) {
        (0, _) => "idle".to_string(),
        // Threads that ended are known by their names alone.
        (_, 0) => OTHER.to_string(),
        (_, cgroup) => naming.name(cgroup),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ceasefire_watch_model::testing::{sender, victim};
    use ceasefire_watch_model::{Bursts, Sender, Victim};

    fn of_cgroup(cgroup: u64) -> Sender {
        let sender = sender(7, Cause::Munmap, 5);
        Sender { task: Task { cgroup, ..sender.task }, ..sender }
    }

    fn window(cgroups: &[u64]) -> Snapshot {
        Snapshot { senders: cgroups.iter().copied().map(of_cgroup).collect(), ..Snapshot::default() }
    }

    /// Who is gone.
    struct Named(&'static str);

    impl Naming for Named {
        fn name(&mut self, cgroup: u64) -> String {
            format!("u{cgroup}")
        }

        fn is_gone(&mut self, name: &str) -> bool {
            name == self.0
        }
    }

    fn take(totals: &mut Totals, cgroups: &[u64], gone: &'static str) {
        totals.take(&window(cgroups), &mut Named(gone));
    }

    fn sum(totals: &Totals) -> u64 {
        totals.units.values().map(|row| row.targets).sum()
    }

    #[test]
    fn units_are_bounded_and_no_count_is_lost() {
        let mut totals = Totals::new(2);
        take(&mut totals, &[1, 2, 3], "");
        let names: Vec<&str> = totals.units.keys().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["other", "u1", "u2"]);
        // u1 is gone, so u4 gets its place; the sum stays.
        take(&mut totals, &[4, 3], "u1");
        let names: Vec<&str> = totals.units.keys().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["other", "u2", "u4"]);
        assert_eq!(sum(&totals), 25);
        assert_eq!(totals.units[&(Class::User, "other".into())].targets, 15);
    }

    #[test]
    fn functions_without_end_share_a_series() {
        let mut totals = Totals::new(2);
        for number in 0..100 {
            let name = totals.cause(Class::CrossCall, &Cause::Call(format!("function_{number}")));
            totals.causes.entry((Class::CrossCall, name)).or_default().targets += 1;
        }
        assert_eq!(totals.causes.len(), CAUSES_MAX + 1);
        assert_eq!(totals.causes.values().map(|row| row.targets).sum::<u64>(), 100);
    }

    #[test]
    fn the_worst_of_a_minute_stays_for_a_minute() {
        let mut totals = Totals::new(2);
        let at = |second: u64, stolen_ns: u64| Snapshot {
            taken_ns: second * 1_000_000_000,
            bursts: Bursts {
                hundredth: Some(Moment { start_ns: 0, received: 1, stolen_ns }),
                ..Bursts::default()
            },
            ..Snapshot::default()
        };
        for (second, stolen_ns, worst) in [(0, 5, 5), (30, 9, 9), (60, 1, 9), (90, 1, 9), (91, 2, 2)] {
            totals.take(&at(second, stolen_ns), &mut Named(""));
            assert_eq!(totals.worst_hundredth().stolen_ns, worst, "after {second} s");
        }
    }

    #[test]
    fn who_was_idle_or_has_ended_is_not_looked_up() {
        let mut totals = Totals::new(4);
        let victim = |tid: u32, cgroup: u64| {
            let victim = victim(tid, 1);
            Victim { task: Task { cgroup, ..victim.task }, ..victim }
        };
        let window =
            Snapshot { victims: vec![victim(0, 1), victim(5, 0), victim(5, 9)], ..Snapshot::default() };
        totals.take(&window, &mut Named(""));
        let names: Vec<&str> = totals.units.keys().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["idle", "other", "u9"]);
        assert_eq!(totals.cpus[&(Class::User, 1)], OfCpu { interruptions: 3, stolen_ns: 3000 });
    }
}
