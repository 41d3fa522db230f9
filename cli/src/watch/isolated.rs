// SPDX-License-Identifier: GPL-2.0-only
//! `stat --isolated`: the CPUs that this machine keeps for one purpose.

use ceasefire_base::{Error, Result};
use ceasefire_watch_model::Snapshot;
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

/// `2-4,7`; what is no list of CPUs, such as the kernel's "(null)", names none.
fn cpus_of(list: &str) -> BTreeSet<u32> {
    let span = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
        (last < 1 << 16).then_some(first..=last)
    };
    list.trim().split(',').filter_map(span).flatten().collect()
}

impl Isolated {
    /// Errors: this machine has none.
    pub fn find() -> Result<Isolated> {
        let lists = FILES.iter().filter_map(|path| fs::read_to_string(path).ok());
        let cpus: BTreeSet<u32> = lists.flat_map(|list| cpus_of(&list)).collect();
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
        let cpus = isolated::list(&self.cpus);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        let read = |text| cpus_of(text).into_iter().collect::<Vec<u32>>();
        assert_eq!(read("2-4,7\n"), [2, 3, 4, 7]);
        assert_eq!(read("3"), [3]);
        for none in ["", "\n", "(null)\n", "5-2", "x", "0-99999999999", "0-4000000000"] {
            assert!(read(none).is_empty(), "{none}");
        }
    }
}
