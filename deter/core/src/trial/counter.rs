// SPDX-License-Identifier: GPL-2.0-only
//! What counts shootdowns between two moments.

use ceasefire_base::{Error, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// Requests to flush that can reach others, whether anybody was there to be interrupted or not; None where they
    /// cannot be counted.
    pub flushes: Option<u64>,
    pub received: Option<u64>,
    /// Requests by cause.
    pub causes_flushes: BTreeMap<String, u64>,
    /// Targets by cause.
    pub causes: BTreeMap<String, u64>,
}

/// One trial is between `begin` and `end`.
pub trait Counter {
    /// Written to the results; another one makes other figures.
    fn name(&self) -> &'static str;
    fn begin(&mut self) -> Result<()>;
    fn end(&mut self) -> Result<Counts>;
    /// What cannot be seen, in sentences.
    fn lost(&self) -> Vec<String>;
}

/// The kernel's own counter: received, of the whole machine.
pub struct ProcCounter {
    interrupts: PathBuf,
    before: u64,
}

impl ProcCounter {
    pub fn new(root: &Path) -> Result<ProcCounter> {
        let mut counter = ProcCounter { interrupts: root.join("proc/interrupts"), before: 0 };
        counter.begin()?;
        Ok(counter)
    }

    fn read(&self) -> Result<u64> {
        let text = fs::read_to_string(&self.interrupts).unwrap_or_default();
        tlb_row(&text).ok_or_else(|| {
            Error::skip(format!("{} has no row TLB", self.interrupts.display()))
                .remedy("run it on x86 Linux, outside of a container that hides the row")
        })
    }
}

impl Counter for ProcCounter {
    fn name(&self) -> &'static str {
        "proc"
    }

    fn begin(&mut self) -> Result<()> {
        self.before = self.read()?;
        Ok(())
    }

    fn end(&mut self) -> Result<Counts> {
        let received = self.read()?.saturating_sub(self.before);
        Ok(Counts { received: Some(received), ..Counts::default() })
    }

    fn lost(&self) -> Vec<String> {
        [
            "only the TLB row of /proc/interrupts is counted: shootdowns of all programs of this machine, so keep it quiet",
            "flushes are not counted: what is received depends on the scheduler, so ranges are wide",
            "causes are not known",
        ]
        .map(String::from)
        .to_vec()
    }
}

/// Sum over the CPUs.
fn tlb_row(text: &str) -> Option<u64> {
    let row = text.lines().find_map(|line| line.trim_start().strip_prefix("TLB:"))?;
    Some(row.split_whitespace().map_while(|word| word.parse::<u64>().ok()).fold(0, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_is_added_up() {
        assert_eq!(tlb_row("  0: 1 2\nTLB:  12  30  TLB shootdowns\n"), Some(42));
        assert_eq!(tlb_row("RES: 1\n"), None);
    }

    #[test]
    fn a_window_is_a_difference() {
        let scratch = tempfile::tempdir().expect("a directory");
        fs::create_dir(scratch.path().join("proc")).expect("made");
        let write = |row: &str| fs::write(scratch.path().join("proc/interrupts"), row).expect("written");
        write("TLB: 1 2 TLB shootdowns\n");
        let mut counter = ProcCounter::new(scratch.path()).expect("a row");
        write("TLB: 5 9 TLB shootdowns\n");
        assert_eq!(counter.end().expect("counted").received, Some(11));
        write("RES: 1\n");
        assert!(counter.begin().is_err());
    }
}
