// SPDX-License-Identifier: GPL-2.0-only
//! What of the machine decides whether shootdowns are sent at all.

use crate::version;
use ceasefire_watch_model::ranges;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

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

/// Busier than this, others have it.
const IDLE_SHARE_MIN: f64 = 0.8;

/// How many of the CPUs that this process may use are idle, looked at for so long; None where the kernel does not tell.
pub fn idle_cpus(time: Duration) -> Option<u32> {
    let read = || fs::read_to_string("/proc/stat").ok();
    let before = read()?;
    std::thread::sleep(time);
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let is_ours = |cpu: &u32| ranges::parse(allowed.trim()).contains(cpu);
    Some(idle_between(&before, &read()?).into_iter().filter(is_ours).count() as u32)
}

fn idle_between(before: &str, after: &str) -> Vec<u32> {
    // Per CPU: all ticks, and those with nothing to do.
    let ticks = |text: &str| -> BTreeMap<u32, (u64, u64)> {
        let row = |line: &str| {
            let (cpu, rest) = line.strip_prefix("cpu")?.split_once(' ')?;
            let ticks: Vec<u64> = rest.split_whitespace().map_while(|word| word.parse().ok()).collect();
            // guest and guest_nice are in user and nice already.
            let all = ticks.iter().take(8).fold(0u64, |sum, more| sum.saturating_add(*more));
            Some((cpu.parse().ok()?, (all, ticks.get(3)?.saturating_add(*ticks.get(4)?))))
        };
        text.lines().filter_map(row).collect()
    };
    let (before, after) = (ticks(before), ticks(after));
    let is_idle = |cpu: &u32| {
        let (Some(old), Some(new)) = (before.get(cpu), after.get(cpu)) else { return false };
        let (all, idle) = (new.0.saturating_sub(old.0), new.1.saturating_sub(old.1));
        all == 0 || idle as f64 >= all as f64 * IDLE_SHARE_MIN
    };
    after.keys().copied().filter(is_idle).collect()
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

    #[test]
    fn busy_cpus_are_told_from_idle_ones() {
        let before = "cpu  1 1 1 1 1\ncpu0 10 0 0 100 0 0 0 0 0 0\ncpu1 10 0 0 100 0 0 0 0 0 0\ncpu2 5 0 0 5 0\nintr 5\n";
        let after = "cpu  1 1 1 1 1\ncpu0 12 0 0 190 10 0 0 0 0 0\ncpu1 60 0 0 150 0 0 0 0 0 0\ncpu2 5 0 0 5 0\nintr 6\n";
        assert_eq!(idle_between(before, after), [0, 2]);
        assert!(idle_between("", after).is_empty());
    }
}
