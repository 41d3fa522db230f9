// SPDX-License-Identifier: GPL-2.0-only
//! Which threads have ended, so that their rows make room: tables are of fixed size, threads come without end.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// Between two looks. A shootdown of a thread that has ended is added up within 50 ms (STALE_NS of the probes).
const LOOK: Duration = Duration::from_secs(2);
/// Where there are no more rows, all are kept.
pub const ROWS_KEPT: usize = 1024;

pub struct Watcher {
    looked: Instant,
    /// Threads that did not live at the last look, and what their rows counted.
    suspects: HashMap<u32, u64>,
    /// Fewer rows than these are left as they are.
    rows_kept: usize,
    /// False where thread ids are not those of the probes.
    can_tell: bool,
}

impl Watcher {
    pub fn new() -> Watcher {
        Watcher {
            looked: Instant::now(),
            suspects: HashMap::new(),
            rows_kept: ROWS_KEPT,
            can_tell: is_initial_pid_namespace(),
        }
    }

    pub fn is_due(&self) -> bool {
        self.can_tell && self.looked.elapsed() >= LOOK
    }

    pub fn has_room(&self, rows: usize) -> bool {
        rows <= self.rows_kept
    }

    /// Of these threads, those that had ended at the last look, too, and for which nothing was counted since. `counts`:
    /// thread, and a count of one of its rows; `rows_max`: what a table holds.
    pub fn look(&mut self, counts: &[(u32, u64)], rows: usize, rows_max: usize) -> HashSet<u32> {
        let mut sums: HashMap<u32, u64> = HashMap::new();
        for (tid, count) in counts.iter().filter(|(tid, _)| *tid != 0) {
            let sum = sums.entry(*tid).or_default();
            *sum = sum.wrapping_add(*count);
        }
        sums.retain(|tid, _| !is_alive(*tid));
        // Looking at thousands of living threads again and again finds nothing.
        let living = counts.iter().filter(|(tid, _)| !sums.contains_key(tid)).count();
        self.rows_kept = (2 * rows * living / counts.len().max(1)).clamp(ROWS_KEPT, rows_max / 4 * 3);
        let (ended, suspects): (HashMap<u32, u64>, _) =
            sums.into_iter().partition(|(tid, sum)| self.suspects.get(tid) == Some(sum));
        self.suspects = suspects;
        self.looked = Instant::now();
        ended.into_keys().collect()
    }
}

/// A zombie's id is still its own.
fn is_alive(tid: u32) -> bool {
    let Ok(tid) = i32::try_from(tid) else { return true };
    // SAFETY: kill() takes numbers; signal 0 is never sent.
    let code = unsafe { libc::kill(tid, 0) };
    code == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Its inode is a constant of the kernel (PROC_PID_INIT_INO).
fn is_initial_pid_namespace() -> bool {
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == "pid:[4026531836]")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Above the largest id that Linux gives out (PID_MAX_LIMIT).
    const NOBODY: u32 = 1 << 23;

    #[test]
    fn a_thread_has_ended_if_two_looks_agree_and_nothing_was_counted_between() {
        let me = std::process::id();
        let mut watcher = Watcher::new();
        let rows = |late: u64| vec![(me, 5), (NOBODY, 7), (NOBODY, 1), (NOBODY + 1, late), (0, 9)];
        assert!(watcher.look(&rows(3), 5, 16_384).is_empty(), "seen once");
        assert_eq!(watcher.look(&rows(4), 5, 16_384), [NOBODY].into(), "the other was late");
        assert_eq!(watcher.look(&[(me, 5), (NOBODY + 1, 4)], 2, 16_384), [NOBODY + 1].into());
    }

    #[test]
    fn living_threads_are_not_looked_at_in_vain() {
        let me = std::process::id();
        let mut watcher = Watcher::new();
        assert!(watcher.has_room(ROWS_KEPT) && !watcher.has_room(ROWS_KEPT + 1));
        // Three thousand rows of each table, half of them of somebody who has ended.
        let half = [vec![(me, 1); 3000], vec![(NOBODY, 1); 3000]].concat();
        watcher.look(&half, 3000, 16_384);
        assert!(watcher.has_room(3000) && !watcher.has_room(3001));
        watcher.look(&vec![(me, 1); 16_000], 16_000, 16_384);
        assert!(!watcher.has_room(12_289), "before the table is full");
    }
}
