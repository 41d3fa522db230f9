// SPDX-License-Identifier: GPL-2.0-only
//! Memory that is not given back can become too much. Whoever started the program looks at that from outside, and stops
//! the library through one byte that both have mapped.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

const PAGE_BYTES: usize = 4096;

/// A file that [`crate::STOP_VARIABLE`] names. It must stay, and keep its length, as long as the program runs.
pub struct Stop {
    file: File,
}

impl Stop {
    /// Creates the file; one that is there already is an error.
    pub fn create(path: &Path) -> io::Result<Stop> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
        file.write_all_at(&[0; PAGE_BYTES], 0)?;
        Ok(Stop { file })
    }

    /// From now on all calls go to the kernel, in all processes that were started with this file.
    pub fn stop(&self) -> io::Result<()> {
        self.file.write_all_at(&[1], 0)
    }
}

/// How often a cgroup has run short of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strain {
    /// Events at a limit, from memory.events.
    pub events: u64,
    /// Time in which some task waited for memory, from memory.pressure or /proc/pressure/memory.
    pub waited_us: u64,
}

/// Less waiting than this in between is noise.
const WAITED_US_NOISE: u64 = 10_000;

impl Strain {
    /// From the text of memory.events and of memory.pressure; either may be empty.
    pub fn parse(events: &str, pressure: &str) -> Strain {
        let events = events
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter(|(name, _)| ["high", "max", "oom", "oom_kill"].contains(name))
            .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
            .fold(0, u64::saturating_add);
        let waited_us = pressure
            .lines()
            .find(|line| line.starts_with("some "))
            .and_then(|line| line.split("total=").nth(1))
            .and_then(|total| total.trim().parse().ok())
            .unwrap_or(0);
        Strain { events, waited_us }
    }

    /// Whether it is time to stop.
    pub fn rose_since(self, before: Strain) -> bool {
        self.events > before.events || self.waited_us > before.waited_us.saturating_add(WAITED_US_NOISE)
    }
}
