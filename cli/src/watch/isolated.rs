// SPDX-License-Identifier: GPL-2.0-only
//! `stat --isolated`: the CPUs that this machine keeps for one purpose.

use ceasefire_base::{Error, Result};
use ceasefire_watch_model::{interrupts, ranges, Snapshot};
use ceasefire_watch_views::isolated;
use ceasefire_watch_views::numbers::count;
use std::collections::BTreeSet;
use std::fs;

/// Where the kernel names them.
const FILES: [&str; 2] = ["/sys/devices/system/cpu/isolated", "/sys/devices/system/cpu/nohz_full"];

pub struct Isolated {
    pub cpus: Vec<u32>,
    seen: u64,
    lost: u64,
    /// Their part of the kernel's own row when the watching began.
    row: Option<u64>,
    /// How far it has risen since, to the last window's end.
    rise: u64,
    /// Victims were seen at all.
    is_known: bool,
}

impl Isolated {
    /// Errors: this machine has none.
    pub fn find() -> Result<Isolated> {
        let lists = FILES.iter().filter_map(|path| fs::read_to_string(path).ok());
        let cpus: BTreeSet<u32> = lists.flat_map(|list| ranges::parse(&list)).collect();
        if cpus.is_empty() {
            return Err(Error::skip("no CPU is isolated here, nor in nohz_full")
                .remedy("boot with isolcpus= or nohz_full=, or leave out --isolated"));
        }
        let cpus: Vec<u32> = cpus.into_iter().collect();
        Ok(Isolated { cpus, seen: 0, lost: 0, row: None, rise: 0, is_known: true })
    }

    /// The probes are in place: who interrupted before is not asked about.
    pub fn begin(&mut self) {
        self.row = row(&self.cpus);
    }

    pub fn take(&mut self, window: &Snapshot) {
        self.seen = self.seen.saturating_add(isolated::interruptions(window, &self.cpus));
        self.is_known &= window.has_latencies;
        self.rise = self.row.zip(row(&self.cpus)).map_or(0, |(before, now)| now.saturating_sub(before));
        let lost = &window.coverage.lost;
        self.lost = [lost.rows, lost.slots, lost.answers].into_iter().fold(self.lost, u64::saturating_add);
    }

    /// Errors: they were interrupted, or nobody can say that they were not.
    pub fn verdict(&self) -> Result<()> {
        let cpus = ranges::show(&self.cpus);
        if !self.is_known {
            return Err(Error::skip("who is interrupted is not seen on this kernel")
                .remedy("`ceasefire watch check` says what is missing"));
        }
        if self.seen > 0 {
            return Err(Error::failed(format!(
                "shootdowns interrupted the isolated CPUs {cpus} {} times",
                count(self.seen)
            ))
            .remedy("keep threads that change their mappings out of the processes that run there"));
        }
        if self.rise > 0 {
            return Err(Error::failed(format!(
                "the kernel counts {} shootdowns on the isolated CPUs {cpus} whose senders were not seen",
                count(self.rise)
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

fn row(cpus: &[u32]) -> Option<u64> {
    interrupts::row_of(&fs::read_to_string("/proc/interrupts").ok()?, "TLB", cpus)
}
