// SPDX-License-Identifier: GPL-2.0-only
//! What of the machine decides whether shootdowns are sent at all.

use crate::version;
use ceasefire_watch_model::ranges;
use std::fs;
use std::path::Path;

/// First Linux that broadcasts with INVLPGB.
const INVLPGB_LINUX: &str = "6.15";
/// Linux broadcasts for processes that run on at least so many CPUs.
const INVLPGB_CPUS: u32 = 3;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Machine {
    pub cpus: u32,
    pub kernel: String,
    pub has_invlpgb: bool,
}

impl Machine {
    pub fn here(root: &Path) -> Machine {
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let cpuinfo = read("proc/cpuinfo");
        let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
        Machine {
            cpus: (ranges::parse(&read("sys/devices/system/cpu/online")).len() as u32).max(1),
            kernel: read("proc/sys/kernel/osrelease").trim().to_string(),
            has_invlpgb: flags.split_whitespace().any(|flag| flag == "invlpgb"),
        }
    }

    /// The kernel uses the instruction for all processes that run on enough CPUs.
    pub fn broadcasts(&self) -> bool {
        self.has_invlpgb && version::is_at_least(&self.kernel, INVLPGB_LINUX) && self.cpus >= INVLPGB_CPUS
    }

    /// Why there is little to deter, of this machine alone.
    pub fn says(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.cpus == 1 {
            all.push("this machine has one CPU online: there is nobody to interrupt".to_string());
        }
        if self.broadcasts() {
            all.push(format!(
                "this processor has INVLPGB and Linux {} uses it: processes on {INVLPGB_CPUS} or more CPUs \
                 flush without interrupts",
                self.kernel
            ));
        } else if self.has_invlpgb && !version::is_at_least(&self.kernel, INVLPGB_LINUX) {
            all.push(format!(
                "this processor has INVLPGB, which Linux {INVLPGB_LINUX} uses instead of interrupts; this is {}: \
                 a newer kernel may do more than any remedy here",
                self.kernel
            ));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cpus: u32, kernel: &str, has_invlpgb: bool) -> Machine {
        Machine { cpus, kernel: kernel.into(), has_invlpgb }
    }

    #[test]
    fn this_machine_is_read() {
        let here = Machine::here(Path::new("/"));
        assert!(here.cpus > 0 && !here.kernel.is_empty());
    }

    #[test]
    fn what_removes_the_problem_is_said() {
        assert!(machine(8, "6.12.1", false).says().is_empty());
        assert!(machine(1, "6.12.1", false).says()[0].contains("one CPU"));
        assert!(machine(8, "6.18.44-x", true).says()[0].contains("without interrupts"));
        assert!(machine(8, "6.14", true).says()[0].contains("newer kernel"));
        assert!(!machine(2, "6.18", true).broadcasts());
    }
}
