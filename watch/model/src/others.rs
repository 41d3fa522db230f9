// SPDX-License-Identifier: GPL-2.0-only
//! Threads that are no longer told apart: added up by name.

use crate::{Counts, Snapshot, Task};
use std::collections::{HashMap, HashSet};

/// Linux's ids end at 2^22.
const OTHERS: u32 = 1 << 31;

impl Task {
    /// All threads of that name that are not told apart. Its ids are nobody's, and the same for the same name.
    pub fn others(comm: &str) -> Task {
        let fnv = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        let id = OTHERS | comm.bytes().fold(0x811c_9dc5, fnv);
        Task { tgid: id, tid: id, comm: comm.to_string(), cgroup: 0 }
    }

    pub fn is_others(&self) -> bool {
        is_others(self.tid)
    }

    /// None for the idle task, and for several.
    pub fn process(&self) -> Option<u32> {
        (self.tgid != 0 && !is_others(self.tgid)).then_some(self.tgid)
    }
}

fn is_others(tid: u32) -> bool {
    tid & OTHERS != 0
}

impl Snapshot {
    /// Rows of these threads become rows of their names; several may then have one key, until [`crate::Sum`] adds them up.
    pub fn by_name(&mut self, is_one: impl Fn(u32) -> bool) {
        let tasks = self.senders.iter().map(|row| &row.task).chain(self.victims.iter().map(|row| &row.task));
        let names = tasks.filter(|task| is_one(task.tid));
        let names: HashMap<u32, Task> = names.map(|task| (task.tid, Task::others(&task.comm))).collect();
        self.rename(|tid| match names.get(&tid) {
            Some(task) => Some(task.clone()),
            None => is_one(tid).then(|| Task::others("")),
        });
    }

    /// All but the `most` that sent and were interrupted most.
    pub(crate) fn by_name_but(&mut self, most: usize) {
        let left = self.greatest(most, |tid| tid != 0 && !is_others(tid));
        self.by_name(|tid| tid != 0 && !is_others(tid) && !left.contains(&tid));
    }

    /// Of the names but the `most` that sent and were interrupted most, one sum.
    pub(crate) fn without_names_but(&mut self, most: usize) {
        let left = self.greatest(most, is_others);
        self.rename(|tid| (is_others(tid) && !left.contains(&tid)).then(|| Task::others("")));
    }

    fn greatest(&self, most: usize, is_one: impl Fn(u32) -> bool) -> HashSet<u32> {
        let sent = self.senders.iter().map(|row| (row.task.tid, row.tally.targets));
        let lost = self.victims.iter().map(|row| (row.task.tid, row.interruptions));
        let sums: Counts<u32> = sent.chain(lost).filter(|(tid, _)| is_one(*tid)).collect();
        sums.largest(most).into_iter().map(|(tid, _)| tid).collect()
    }

    fn rename(&mut self, name: impl Fn(u32) -> Option<Task>) {
        let tasks = self.senders.iter_mut().map(|row| &mut row.task);
        for task in tasks.chain(self.victims.iter_mut().map(|row| &mut row.task)) {
            if let Some(others) = name(task.tid) {
                *task = others;
            }
        }
        for pair in &mut self.pairs {
            for tid in [&mut pair.sender_tid, &mut pair.victim_tid] {
                if let Some(others) = name(*tid) {
                    *tid = others.tid;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{pair, sender, victim};
    use crate::{Cause, Stacks, Sum};

    #[test]
    fn threads_of_a_name_become_one_and_their_pairs_with_them() {
        let named = |tid, comm: &str| {
            let mut row = sender(tid, Cause::Munmap, 5);
            row.task.comm = comm.into();
            row
        };
        let mut rows = Snapshot {
            senders: vec![named(1, "cc1"), named(2, "cc1"), named(3, "java")],
            victims: vec![victim(7, 4)],
            pairs: vec![pair(1, 7, 3), pair(2, 7, 1), pair(3, 7, 2), pair(1, 8, 1)],
            ..Snapshot::default()
        };
        rows.by_name(|tid| [1, 2, 8].contains(&tid));
        let mut sum = Sum::default();
        sum.add(rows);
        let rows = sum.snapshot(Stacks::default());
        let (cc1, nameless) = (Task::others("cc1"), Task::others(""));
        let senders: Vec<_> = rows.senders.iter().map(|s| (s.task.clone(), s.tally.targets)).collect();
        assert_eq!(senders, [(named(3, "java").task, 5), (cc1.clone(), 10)]);
        assert!(cc1.is_others() && cc1.process().is_none() && cc1 != nameless);
        let mut pairs: Vec<_> =
            rows.pairs.iter().map(|p| (p.sender_tid, p.victim_tid, p.interruptions)).collect();
        pairs.sort_unstable();
        let mut expected = [(3, 7, 2), (cc1.tid, 7, 4), (cc1.tid, nameless.tid, 1)];
        expected.sort_unstable();
        assert_eq!(pairs, expected);
    }
}
