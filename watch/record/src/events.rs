// SPDX-License-Identifier: GPL-2.0-only
//! Shootdowns in few bytes: rows of numbers, with tasks and causes named once a frame.

use crate::limits::CPUS_MAX;
use ceasefire_watch_model::{Cause, Class, Kind, Latencies, Shootdown, Task, WhyFull};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Events of one frame.
pub const CHUNK: usize = 1_024;

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Block {
    tasks: Vec<Task>,
    causes: Vec<Cause>,
    rows: Vec<Row>,
}

/// An array in the file; its fields may change with the version only.
#[derive(Debug, Serialize, Deserialize)]
struct Row(
    /// Start.
    u64,
    /// Class, kind: their places in `ALL`.
    u8,
    u8,
    /// Cause, task: their places in this block.
    u32,
    u32,
    /// CPU.
    u32,
    /// Kernel stack, user stack.
    Option<u32>,
    Option<u32>,
    /// Address, pages, entries.
    Option<[u64; 3]>,
    /// Freed tables.
    u8,
    /// Targets, those named.
    u32,
    Vec<u16>,
    /// Delivery, handler, wait.
    Option<[u64; 3]>,
    /// Slowest: CPU and task.
    Option<[u32; 2]>,
);

struct Places<'a, T> {
    all: Vec<T>,
    known: HashMap<&'a T, u32>,
}

impl<'a, T: Clone + std::hash::Hash + Eq> Places<'a, T> {
    fn of(&mut self, value: &'a T) -> u32 {
        let all = &mut self.all;
        *self.known.entry(value).or_insert_with(|| {
            all.push(value.clone());
            all.len() as u32 - 1
        })
    }
}

impl Block {
    pub fn pack(shootdowns: &[Shootdown]) -> Block {
        let mut tasks = Places { all: Vec::new(), known: HashMap::new() };
        let mut causes = Places { all: Vec::new(), known: HashMap::new() };
        let rows = shootdowns.iter().map(|one| {
            let range = one.address.zip(one.pages).zip(one.entries);
            let cpus = one.target_cpus.iter().filter_map(|cpu| u16::try_from(*cpu).ok()).take(CPUS_MAX);
            Row(
                one.start_ns,
                Class::ALL.iter().position(|class| *class == one.class).unwrap_or(0) as u8,
                Kind::ALL.iter().position(|kind| *kind == one.kind).unwrap_or(0) as u8,
                causes.of(&one.cause),
                tasks.of(&one.task),
                one.cpu,
                one.kernel_stack,
                one.user_stack,
                range.map(|((address, pages), entries)| [address, pages, entries]),
                one.freed_tables.into(),
                one.targets,
                cpus.collect(),
                one.latencies.map(|times| [times.delivery_ns_max, times.handler_ns_max, times.wait_ns]),
                one.slowest.as_ref().map(|(cpu, task)| [*cpu, tasks.of(task)]),
            )
        });
        let rows = rows.collect();
        Block { tasks: tasks.all, causes: causes.all, rows }
    }

    /// None where a row names what is not there.
    pub fn unpack(self) -> Option<Vec<Shootdown>> {
        let Block { tasks, causes, rows } = self;
        if rows.len() > CHUNK {
            return None;
        }
        let one = |row: Row| {
            let Row(
                start_ns,
                class,
                kind,
                cause,
                task,
                cpu,
                kernel_stack,
                user_stack,
                range,
                freed,
                targets,
                cpus,
                times,
                slowest,
            ) = row;
            let class = *Class::ALL.get(class as usize)?;
            let kind = *Kind::ALL.get(kind as usize)?;
            let cause = causes.get(cause as usize)?.clone();
            if cpus.len() > CPUS_MAX {
                return None;
            }
            let slowest = match slowest {
                None => None,
                Some([cpu, task]) => Some((cpu, tasks.get(task as usize)?.clone())),
            };
            Some(Shootdown {
                start_ns,
                class,
                why_full: WhyFull::of(class, kind, &cause),
                cause,
                cpu,
                task: tasks.get(task as usize)?.clone(),
                kernel_stack,
                user_stack,
                address: range.map(|[address, _, _]| address),
                pages: range.map(|[_, pages, _]| pages),
                entries: range.map(|[_, _, entries]| entries),
                kind,
                freed_tables: freed != 0,
                targets,
                target_cpus: cpus.into_iter().map(u32::from).collect(),
                latencies: times.map(|[delivery_ns_max, handler_ns_max, wait_ns]| Latencies {
                    delivery_ns_max,
                    handler_ns_max,
                    wait_ns,
                }),
                slowest,
            })
        };
        rows.into_iter().map(one).collect()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn sample(start_ns: u64) -> Shootdown {
        let task = |tid: u32| Task { tgid: 9, tid, comm: format!("thread {tid}"), cgroup: 3 };
        Shootdown {
            start_ns,
            class: Class::User,
            cause: Cause::Unknown("brand_new".into()),
            cpu: 1,
            task: task(10),
            kernel_stack: Some(5),
            user_stack: None,
            address: Some(0x7000),
            pages: Some(8),
            entries: Some(8),
            kind: Kind::Ranged,
            why_full: None,
            freed_tables: true,
            targets: 2,
            target_cpus: vec![0, 3],
            latencies: Some(Latencies { delivery_ns_max: 1, handler_ns_max: 2, wait_ns: 3 }),
            slowest: Some((3, task(11))),
        }
    }

    #[test]
    fn what_is_packed_comes_out_again() {
        let mut full = sample(2);
        (full.kind, full.cause) = (Kind::Nested, Cause::Munmap);
        full.why_full = Some(WhyFull::Nested);
        (full.address, full.pages, full.entries, full.latencies, full.slowest) = Default::default();
        let all = vec![sample(1), full, sample(3)];
        let text = serde_json::to_string(&Block::pack(&all)).expect("JSON");
        let block: Block = serde_json::from_str(&text).expect("JSON");
        assert_eq!(block.tasks.len(), 2);
        assert_eq!(block.unpack(), Some(all));
    }

    #[test]
    fn a_row_that_names_nothing_is_refused() {
        let mut block = Block::pack(&[sample(1)]);
        block.tasks.clear();
        assert_eq!(block.unpack(), None);
    }
}
