// SPDX-License-Identifier: GPL-2.0-only
//! `stat --isolated`: the CPUs that this machine keeps for one purpose.

use ceasefire_base::{Error, Result};
use ceasefire_watch_model::{ranges, Snapshot};
use ceasefire_watch_views::isolated;
use ceasefire_watch_views::numbers::count;
use std::collections::BTreeSet;
use std::fs;

/// Where the kernel names them.
const FILES: [&str; 2] = ["/sys/devices/system/cpu/isolated", "/sys/devices/system/cpu/nohz_full"];

pub struct Isolated {
    pub cpus: Vec<u32>,
    interruptions: u64,
    lost_rows: u64,
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
        Ok(Isolated { cpus: cpus.into_iter().collect(), interruptions: 0, lost_rows: 0, is_known: true })
    }

    pub fn take(&mut self, window: &Snapshot) {
        let more = isolated::interruptions(window, &self.cpus);
        self.interruptions = self.interruptions.saturating_add(more);
        self.is_known &= window.has_latencies;
        self.lost_rows = self.lost_rows.saturating_add(window.coverage.lost.rows);
    }

    /// Errors: they were interrupted, or nobody can say that they were not.
    pub fn verdict(&self) -> Result<()> {
        let cpus = ranges::show(&self.cpus);
        if !self.is_known {
            return Err(Error::skip("who is interrupted is not seen on this kernel")
                .remedy("`ceasefire watch check` says what is missing"));
        }
        if self.interruptions > 0 {
            return Err(Error::failed(format!(
                "shootdowns interrupted the isolated CPUs {cpus} {} times",
                count(self.interruptions)
            ))
            .remedy("keep threads that change their mappings out of the processes that run there"));
        }
        match self.lost_rows {
            0 => Ok(()),
            lost => Err(Error::failed(format!(
                "{} rows were lost: whether the isolated CPUs {cpus} were interrupted is not known",
                count(lost)
            ))
            .remedy("watch for a shorter time, or with fewer threads")),
        }
    }
}
