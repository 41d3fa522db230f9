// SPDX-License-Identifier: GPL-2.0-only
//! `stat --isolated`: the CPUs that this machine keeps for one purpose.

use ceasefire_base::{Error, Result};
use ceasefire_watch::Observer;
use ceasefire_watch_model::{interrupts, ranges, Snapshot};
use ceasefire_watch_views::isolated;
use ceasefire_watch_views::numbers::count;
use std::collections::BTreeSet;
use std::fs;

/// Tests name CPUs here that are to be taken for isolated ones.
const PRETENDED: &str = "CEASEFIRE_WATCH_ISOLATED";
/// Where the kernel names them.
const FILES: [&str; 2] = ["/sys/devices/system/cpu/isolated", "/sys/devices/system/cpu/nohz_full"];

pub struct Isolated {
    pub cpus: Vec<u32>,
    seen: u64,
    /// Of those, the ones that were no flush.
    calls: u64,
    lost: u64,
    /// Their part of the kernel's own rows when the watching began.
    row: Option<u64>,
    calls_unseen_before: Option<u64>,
    /// How far it has risen since, to the last window's end.
    rise: u64,
    /// Call function interrupts whose senders were not seen.
    unseen: u64,
    /// Victims were seen at all.
    is_known: bool,
}

impl Isolated {
    /// Errors: this machine has none.
    pub fn find() -> Result<Isolated> {
        let lists = FILES.iter().filter_map(|path| fs::read_to_string(path).ok());
        let lists = lists.chain(std::env::var(PRETENDED).ok());
        let cpus: BTreeSet<u32> = lists.flat_map(|list| ranges::parse(&list)).collect();
        if cpus.is_empty() {
            return Err(Error::skip("no CPU is isolated here, nor in nohz_full")
                .remedy("boot with isolcpus= or nohz_full=, or leave out --isolated"));
        }
        let cpus: Vec<u32> = cpus.into_iter().collect();
        Ok(Isolated {
            cpus,
            seen: 0,
            calls: 0,
            lost: 0,
            row: None,
            calls_unseen_before: None,
            rise: 0,
            unseen: 0,
            is_known: true,
        })
    }

    /// The probes are in place: who interrupted before is not asked about.
    pub fn begin(&mut self, observer: &Observer) -> Result<()> {
        self.row = row("TLB", &self.cpus);
        self.calls_unseen_before = self.calls_unseen(observer)?;
        Ok(())
    }

    pub fn take(&mut self, window: &Snapshot, observer: &Observer) -> Result<()> {
        self.seen = self.seen.saturating_add(isolated::interruptions(window, &self.cpus));
        self.calls = self.calls.saturating_add(isolated::cross_calls(window, &self.cpus));
        self.is_known &= window.has_latencies;
        let rise =
            |before: Option<u64>, now| before.zip(now).map_or(0, |(b, n): (u64, u64)| n.saturating_sub(b));
        self.rise = rise(self.row, row("TLB", &self.cpus));
        self.unseen = rise(self.calls_unseen_before, self.calls_unseen(observer)?);
        let lost = &window.coverage.lost;
        self.lost = [lost.rows, lost.slots, lost.answers].into_iter().fold(self.lost, u64::saturating_add);
        Ok(())
    }

    /// Since the machine is up: only its rise says something. The row first: what comes between must not look unseen.
    fn calls_unseen(&self, observer: &Observer) -> Result<Option<u64>> {
        let row = row("CAL", &self.cpus);
        let seen = observer.interrupts_of(&self.cpus)?;
        Ok(row.zip(seen).map(|(row, seen)| row.saturating_sub(seen)))
    }

    /// Errors: they were interrupted, or nobody can say that they were not.
    pub fn verdict(&self) -> Result<()> {
        let cpus = ranges::show(&self.cpus);
        if !self.is_known {
            return Err(Error::skip("who is interrupted is not seen on this kernel")
                .remedy("`ceasefire watch check` says what is missing"));
        }
        if self.seen > 0 {
            let flushes = self.seen.saturating_sub(self.calls);
            let (what, remedy) = match (flushes, self.calls) {
                (flushes, 0) => (
                    format!("shootdowns interrupted the isolated CPUs {cpus} {} times", count(flushes)),
                    "keep threads that change their mappings out of the processes that run there",
                ),
                (0, calls) => (
                    format!("cross calls that are no flushes interrupted the isolated CPUs {cpus} {} times", count(calls)),
                    "`ceasefire watch stacks --cross-calls` shows who sends them",
                ),
                (flushes, calls) => (
                    format!(
                        "shootdowns interrupted the isolated CPUs {cpus} {} times, and other cross calls {} times",
                        count(flushes),
                        count(calls)
                    ),
                    "keep threads that change their mappings out of the processes that run there; \
                     `ceasefire watch stacks --cross-calls` shows who sends the rest",
                ),
            };
            return Err(Error::failed(what).remedy(remedy));
        }
        if self.rise > 0 {
            return Err(Error::failed(format!(
                "the kernel counts {} shootdowns on the isolated CPUs {cpus} whose senders were not seen",
                count(self.rise)
            ))
            .remedy("`ceasefire watch check` says what this kernel hides"));
        }
        if self.unseen > 0 {
            return Err(Error::failed(format!(
                "the kernel counts {} function call interrupts on the isolated CPUs {cpus} whose senders were not seen",
                count(self.unseen)
            ))
            .remedy("`ceasefire watch check` says what this kernel hides"));
        }
        match self.lost {
            0 => Ok(()),
            lost => Err(Error::failed(format!(
                "{} descriptions were lost: whether the isolated CPUs {cpus} were interrupted is not known",
                count(lost)
            ))
            .remedy("watch for a shorter time, or with fewer threads")),
        }
    }
}

fn row(name: &str, cpus: &[u32]) -> Option<u64> {
    interrupts::row_of(&fs::read_to_string("/proc/interrupts").ok()?, name, cpus)
}
