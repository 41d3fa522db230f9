// SPDX-License-Identifier: GPL-2.0-only
//! What the figures are worth: seen against the kernel's own counters, what was lost, what watching cost.

use crate::counts::{figures, Figure};
use crate::Class;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassCoverage {
    pub class: Class,
    /// Flush requests, including those that found every CPU lazy, or stopped by the host; null where the kernel announces none.
    pub requests: Option<u64>,
    pub shootdowns: u64,
    /// Targets seen when they were queued.
    pub queued: u64,
    /// Targets seen when they answered; null without the receiving side.
    pub handled: Option<u64>,
    /// Targets that the filters left out of every table.
    pub filtered: u64,
    /// What the kernel counted; null where it keeps no such counter.
    pub kernel: Option<u64>,
    /// Which counter that is, or which is missing.
    pub source: String,
}

impl ClassCoverage {
    /// Seen / counted by the kernel.
    pub fn share(&self) -> Option<f64> {
        match self.kernel {
            Some(0) | None => None,
            Some(all) => Some(self.queued as f64 / all as f64),
        }
    }
}

/// Interrupts in which a CPU runs what others have queued for it: flushes and all other calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InterruptCoverage {
    /// Those in which something ran whose sender was seen.
    pub seen: u64,
    /// The row CAL of /proc/interrupts.
    pub kernel: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Lost {
    /// Shootdowns counted but not described: their slot was being read.
    pub slots: u64,
    /// Events that the ring buffer had no room for.
    pub events: u64,
    /// Shootdowns without their stack.
    pub stacks: u64,
    /// Shootdowns or interruptions that no table had room for.
    pub rows: u64,
    /// Targets whose shootdown had begun before we watched.
    pub answers: u64,
}

figures!(ClassCoverage: requests, shootdowns, queued, handled, filtered, kernel);
figures!(InterruptCoverage: seen, kernel);
figures!(Lost: slots, events, stacks, rows, answers);
figures!(ProgramCost: runs, run_ns);
figures!(Overhead: timed_ns, own_cpu_ns);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramCost {
    pub name: String,
    /// Those that were timed.
    pub runs: u64,
    pub run_ns: u64,
}

/// The kernel times programs only while it is asked to, which itself costs: we ask for part of the time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Overhead {
    pub programs: Vec<ProgramCost>,
    /// How long the kernel timed them; the figures are for that long.
    pub timed_ns: u64,
    /// CPU time of the observer's own process.
    pub own_cpu_ns: u64,
    /// Memory of the observer's own process at its most.
    pub own_rss_kib_max: u64,
}

impl Overhead {
    /// Share of one CPU that the probes took while they were timed.
    pub fn probe_share(&self) -> Option<f64> {
        let spent: u64 = self.programs.iter().map(|program| program.run_ns).fold(0, u64::saturating_add);
        (self.timed_ns > 0).then(|| spent as f64 / self.timed_ns as f64)
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Coverage {
    pub classes: Vec<ClassCoverage>,
    /// Null where they are not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<InterruptCoverage>,
    pub lost: Lost,
    pub overhead: Overhead,
    /// What this kernel does not let us see, one sentence each.
    pub blind: Vec<String>,
}

impl Coverage {
    pub fn class(&self, class: Class) -> Option<&ClassCoverage> {
        self.classes.iter().find(|row| row.class == class)
    }

    /// Requests to flush user addresses that interrupted nobody: every target was lazy, or the host had stopped its CPU.
    /// None where requests are not announced, or where the kernel's own row has interrupts that were not seen: then it may
    /// have been those.
    pub fn interrupted_nobody(&self) -> Option<u64> {
        let user = self.class(Class::User)?;
        // The row has the observer's own as well.
        let (own, own_queued) = self.class(Class::Own).map_or((0, 0), |own| (own.shootdowns, own.queued));
        let unseen = user.kernel?.saturating_sub(user.queued + own_queued);
        // Interrupts of the moment at which it was read.
        (unseen <= user.queued / 1000).then_some(user.requests?.saturating_sub(user.shootdowns + own))
    }

    pub fn since(&self, earlier: &Coverage) -> Coverage {
        let mut left = self.clone();
        for now in &mut left.classes {
            earlier.class(now.class).into_iter().for_each(|then| now.minus(then));
        }
        if let (Some(now), Some(then)) = (&mut left.interrupts, &earlier.interrupts) {
            now.minus(then);
        }
        left.lost.minus(&earlier.lost);
        left.overhead.minus(&earlier.overhead);
        for now in &mut left.overhead.programs {
            let then = earlier.overhead.programs.iter().find(|then| then.name == now.name);
            then.into_iter().for_each(|then| now.minus(then));
        }
        left
    }

    /// That of a later window.
    pub fn add(&mut self, later: &Coverage) {
        for more in &later.classes {
            match self.classes.iter_mut().find(|mine| mine.class == more.class) {
                Some(mine) => mine.plus(more),
                None => self.classes.push(more.clone()),
            }
        }
        match (&mut self.interrupts, &later.interrupts) {
            (Some(mine), Some(more)) => mine.plus(more),
            (mine, more) => *mine = mine.or(*more),
        }
        self.lost.plus(&later.lost);
        let (mine, later_overhead) = (&mut self.overhead, &later.overhead);
        mine.plus(later_overhead);
        mine.own_rss_kib_max = mine.own_rss_kib_max.max(later_overhead.own_rss_kib_max);
        for more in &later_overhead.programs {
            match mine.programs.iter_mut().find(|mine| mine.name == more.name) {
                Some(mine) => mine.plus(more),
                None => mine.programs.push(more.clone()),
            }
        }
        for sentence in &later.blind {
            if !self.blind.contains(sentence) {
                self.blind.push(sentence.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(class: Class, requests: Option<u64>, sent: u64, kernel: Option<u64>) -> ClassCoverage {
        ClassCoverage {
            class,
            requests,
            shootdowns: sent,
            queued: sent,
            handled: Some(sent),
            filtered: 0,
            kernel,
            source: "test".into(),
        }
    }

    #[test]
    fn who_interrupted_nobody_is_only_known_where_every_interrupt_was_seen() {
        for (what, requests, sent, kernel, is) in [
            ("all sent", Some(5000), 4990, Some(5000), Some(0)),
            ("300 to nobody", Some(5000), 4690, Some(4700), Some(300)),
            ("interrupts between two reads", Some(5000), 4690, Some(4704), Some(300)),
            ("310 not seen", Some(5000), 4690, Some(5010), None),
            ("no announcements", None, 4690, Some(4700), None),
            ("no row", Some(5000), 4690, None, None),
            ("more sent than asked for", Some(10), 4690, Some(4700), Some(0)),
        ] {
            let classes = vec![class(Class::User, requests, sent, kernel), class(Class::Own, None, 10, None)];
            let coverage = Coverage { classes, ..Coverage::default() };
            assert_eq!(coverage.interrupted_nobody(), is, "{what}");
        }
        assert_eq!(Coverage::default().interrupted_nobody(), None);
    }
}
