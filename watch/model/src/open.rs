// SPDX-License-Identifier: GPL-2.0-only
//! A window that is not over yet.

use crate::{Snapshot, Stacks, Sum};
use std::collections::HashSet;

/// Rows of threads that have ended; beyond these, less is told apart.
const ROWS_MAX: usize = 8192;

/// Threads whose rows have left the tables, with their last values: no later snapshot has them.
#[derive(Debug, Clone, Default)]
pub struct Ended {
    pub threads: HashSet<u32>,
    /// Their senders, victims and pairs, and the stacks of these.
    pub rows: Snapshot,
}

/// From a snapshot to one that is still to come; what ended threads did in between is added up by their names.
#[derive(Debug, Clone, Default)]
pub struct Open {
    since: Snapshot,
    ended: Sum,
    stacks: Stacks,
}

impl Open {
    pub fn new(since: Snapshot) -> Open {
        Open { since, ..Open::default() }
    }

    /// To be told before the next snapshot. A new thread may have the number of one that ended: it begins at nothing.
    pub fn end(&mut self, ended: &Ended) {
        let is_one = |tid: u32| ended.threads.contains(&tid);
        let news = ended.rows.since(&self.since);
        self.since.senders.retain(|row| !is_one(row.task.tid));
        self.since.victims.retain(|row| !is_one(row.task.tid));
        self.since.pairs.retain(|row| !is_one(row.sender_tid) && !is_one(row.victim_tid));
        let mut all = std::mem::take(&mut self.ended).snapshot(Stacks::default());
        all.senders.extend(news.senders);
        all.victims.extend(news.victims);
        all.pairs.extend(news.pairs);
        // Also pairs whose other side has ended earlier.
        all.by_name(is_one);
        self.ended.add(all);
        self.ended.shrink(ROWS_MAX);
        self.stacks.extend(news.stacks);
    }

    /// From its beginning to `now`.
    pub fn until(&self, now: &Snapshot) -> Snapshot {
        let mut window = now.since(&self.since);
        let Snapshot { senders, victims, pairs, .. } = self.ended.snapshot(Stacks::default());
        window.stacks.extend(self.stacks.used_by(&[], &senders));
        window.senders.extend(senders);
        window.victims.extend(victims);
        window.pairs.extend(pairs);
        window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{pair, sender, victim};
    use crate::{Cause, Task};

    fn at(counts: &[(u32, u64)]) -> Snapshot {
        let row = |(tid, count): &(u32, u64)| {
            let mut row = sender(*tid, Cause::Munmap, *count);
            row.task.comm = "app".into();
            row.tally.shootdowns = *count;
            row
        };
        Snapshot {
            senders: counts.iter().map(row).collect(),
            pairs: counts.iter().map(|(tid, count)| pair(*tid, 90, *count)).collect(),
            victims: vec![victim(90, counts.iter().map(|(_, count)| count).sum())],
            ..Snapshot::default()
        }
    }

    fn of(threads: &[u32], rows: Snapshot) -> Ended {
        let is_one = |tid: u32| threads.contains(&tid);
        let senders = rows.senders.into_iter().filter(|row| is_one(row.task.tid)).collect();
        let pairs = rows.pairs.into_iter().filter(|row| is_one(row.sender_tid)).collect();
        Ended {
            threads: threads.iter().copied().collect(),
            rows: Snapshot { senders, pairs, ..Snapshot::default() },
        }
    }

    fn sent(window: &Snapshot) -> Vec<(u32, u64)> {
        let mut sent: Vec<_> = window.senders.iter().map(|s| (s.task.tid, s.tally.targets)).collect();
        sent.sort_unstable();
        let mut interrupted: Vec<_> = window.pairs.iter().map(|p| (p.sender_tid, p.interruptions)).collect();
        interrupted.sort_unstable();
        assert_eq!(sent, interrupted, "pairs are of the same threads");
        sent
    }

    #[test]
    fn what_ended_threads_did_in_the_window_stays_in_it() {
        let others = Task::others("app").tid;
        let mut open = Open::new(at(&[(1, 5), (2, 5), (3, 5)]));
        open.end(&of(&[1, 2], at(&[(1, 7), (2, 5)])));
        assert_eq!(sent(&open.until(&at(&[(3, 6)]))), [(3, 1), (others, 2)]);
        // Number 1 is given to another thread, which ends, too.
        assert_eq!(sent(&open.until(&at(&[(1, 3), (3, 6)]))), [(1, 3), (3, 1), (others, 2)]);
        open.end(&of(&[1, 3], at(&[(1, 4), (3, 9)])));
        assert_eq!(sent(&open.until(&at(&[]))), [(others, 2 + 4 + 4)]);
    }

    #[test]
    fn a_pair_follows_either_of_its_threads() {
        let mut open = Open::new(at(&[]));
        open.end(&of(&[1], at(&[(1, 7)])));
        open.end(&Ended {
            threads: [90].into(),
            rows: Snapshot { victims: vec![victim(90, 7)], ..Snapshot::default() },
        });
        let window = open.until(&Snapshot::default());
        let [pair] = window.pairs.as_slice() else { panic!("{:?}", window.pairs) };
        let victim = Task::others("victim-90").tid;
        assert_eq!((pair.sender_tid, pair.victim_tid), (Task::others("app").tid, victim));
        assert_eq!(window.victims[0].task.tid, victim);
    }

    #[test]
    fn rows_of_threads_without_end_do_not_grow_without_end() {
        let mut open = Open::new(Snapshot::default());
        let mut all = 0;
        for batch in 0..12u32 {
            let tids: Vec<u32> = (batch * 1000 + 1..=batch * 1000 + 1000).collect();
            let mut rows = at(&tids.iter().map(|tid| (*tid, 1)).collect::<Vec<_>>());
            rows.victims.clear();
            for row in &mut rows.senders {
                // A name of its own for each.
                row.task.comm = format!("job-{}", row.task.tid);
                row.user_stack = Some(row.task.tid);
            }
            all += 1000;
            open.end(&of(&tids, rows));
            let window = open.until(&Snapshot::default());
            assert!(window.senders.len() <= ROWS_MAX, "{}", window.senders.len());
            assert_eq!(sent(&window).iter().map(|(_, n)| n).sum::<u64>(), all);
        }
    }
}
