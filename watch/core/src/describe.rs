// SPDX-License-Identifier: GPL-2.0-only
//! The probes' rows and events as the model's: numbers become classes, causes and names.

use crate::maps;
use crate::stacks::Namer;
use crate::wire;
use ceasefire_base::Result;
use ceasefire_watch_model::{
    ByTargets, Cause, Class, Histogram, Kind, Latencies, Maximum, Pair, Sender, Shootdown, Site, Tally, Task,
    Victim, WhyFull,
};
use libbpf_rs::MapHandle;
use std::collections::hash_map::{Entry, HashMap};

/// What needs names. Naming a place compares many frames; there are few places.
pub struct Describer {
    pub namer: Namer,
    places: HashMap<Vec<u8>, Place>,
}

impl Describer {
    pub fn new(namer: Namer) -> Describer {
        Describer { namer, places: HashMap::new() }
    }

    fn place(&mut self, key: &wire::SiteKey) -> Result<Place> {
        let bytes = wire::bytes_of(key);
        if let Some(place) = self.places.get(&bytes) {
            return Ok(place.clone());
        }
        let class = class(key.class);
        let kind = kind(key.kind);
        let syscall = (key.syscall != wire::NO_SYSCALL).then_some(key.syscall);
        let kernel_stack = u32::try_from(key.kernel_stack).ok();
        let frames: &[String] = match kernel_stack {
            Some(id) => self.namer.kernel(id)?,
            None => &[],
        };
        let cause = Cause::classify(class, frames, syscall, key.argument);
        let function = (key.function != 0).then(|| self.namer.function(key.function));
        let cause = function.as_deref().map_or(cause, Cause::of_call);
        let why_full = WhyFull::of(class, kind, &cause);
        let place = Place { class, kind, syscall, kernel_stack, function, cause, why_full };
        self.places.insert(bytes, place.clone());
        Ok(place)
    }

    pub fn cause(&mut self, key: &wire::SiteKey) -> Result<Cause> {
        Ok(self.place(key)?.cause)
    }

    pub fn sites(&mut self, table: &MapHandle) -> Result<Vec<Site>> {
        let rows = maps::rows::<wire::SiteKey, wire::Site>(table)?;
        let site = |(key, site): &(wire::SiteKey, wire::Site)| {
            let place = self.place(key)?;
            Ok(Site {
                class: place.class,
                cause: place.cause,
                kind: place.kind,
                why_full: place.why_full,
                freed_tables: key.freed_tables != 0,
                kernel_stack: place.kernel_stack,
                function: place.function,
                syscall: place.syscall,
                argument: key.argument,
                tally: tally(&site.tally),
                delivery_ns: site.delivery_ns,
                handler_ns: site.handler_ns,
                calls: site.calls,
                call_ns: site.call_ns,
                pages: Histogram::new(&site.pages),
                targets: Histogram::new(&site.targets),
                wait: Histogram::new(&site.wait),
                delivery: Histogram::new(&site.delivery),
                handler: Histogram::new(&site.handler),
            })
        };
        rows.iter().map(site).collect()
    }

    pub fn sender(&mut self, key: &wire::SenderKey, sender: &wire::Sender) -> Result<Sender> {
        let place = self.place(&key.site)?;
        let user_stack = self.namer.user(key.user_stack, key.user_top, key.tgid)?;
        Ok(Sender {
            task: task(key.tgid, key.tid, &sender.comm, sender.cgroup),
            cpu: key.cpu,
            class: place.class,
            cause: place.cause,
            kind: place.kind,
            freed_tables: key.site.freed_tables != 0,
            kernel_stack: place.kernel_stack,
            function: place.function,
            user_stack,
            syscall: place.syscall,
            argument: key.site.argument,
            tally: tally(&sender.tally),
        })
    }

    pub fn shootdown(&mut self, event: &wire::Event) -> Result<Shootdown> {
        let key = wire::SiteKey {
            kernel_stack: event.kernel_stack,
            function: 0,
            syscall: event.syscall,
            argument: event.argument,
            class: event.class,
            kind: event.kind,
            freed_tables: event.freed_tables,
            pad: 0,
        };
        let place = self.place(&key)?;
        let user_stack = self.namer.user(event.user_stack, event.user_top, event.tgid)?;
        let is_ranged = place.kind == Kind::Ranged;
        let slowest = task(0, event.slowest_tid, &event.slowest_comm, 0);
        Ok(Shootdown {
            start_ns: event.start_ns,
            class: place.class,
            cause: place.cause,
            cpu: event.cpu,
            task: task(event.tgid, event.tid, &event.comm, event.cgroup),
            kernel_stack: place.kernel_stack,
            user_stack,
            // Where only the number of pages is known.
            address: (is_ranged && event.address != 0).then_some(event.address),
            pages: is_ranged.then_some(event.pages),
            entries: is_ranged.then(|| event.pages.saturating_mul(4096) >> event.stride_shift.min(63)),
            kind: place.kind,
            why_full: place.why_full,
            freed_tables: event.freed_tables != 0,
            targets: event.targets,
            target_cpus: (0..wire::MASK_WORDS as u32 * 64)
                .filter(|cpu| event.mask[*cpu as usize / 64] >> (cpu % 64) & 1 == 1)
                .collect(),
            latencies: (event.answered > 0).then_some(Latencies {
                delivery_ns_max: event.delivery_ns_max,
                handler_ns_max: event.handler_ns_max,
                wait_ns: event.wait_ns,
            }),
            slowest: (event.answered > 0).then_some((event.slowest_cpu, slowest)),
        })
    }
}

/// The probes' rows of one sender, apart by what lay on top of the stack, as one where that is no part of it.
pub fn merged(senders: Vec<Sender>) -> Vec<Sender> {
    let mut places: HashMap<_, usize> = HashMap::new();
    let mut all: Vec<Sender> = Vec::with_capacity(senders.len());
    for sender in senders {
        match places.entry(sender.key()) {
            Entry::Occupied(place) => all[*place.get()].tally.add(&sender.tally),
            Entry::Vacant(place) => {
                place.insert(all.len());
                all.push(sender);
            }
        }
    }
    all
}

#[derive(Clone)]
struct Place {
    class: Class,
    kind: Kind,
    syscall: Option<u16>,
    kernel_stack: Option<u32>,
    function: Option<String>,
    cause: Cause,
    why_full: Option<WhyFull>,
}

fn class(number: u8) -> Class {
    Class::ALL.get(number as usize).copied().unwrap_or(Class::Own)
}

fn kind(number: u8) -> Kind {
    Kind::ALL.get(number as usize).copied().unwrap_or(Kind::Unknown)
}

/// Its name goes up to the first zero byte; what is no UTF-8 is replaced.
fn task(tgid: u32, tid: u32, comm: &[u8; wire::COMM_BYTES], cgroup: u64) -> Task {
    let end = comm.iter().position(|byte| *byte == 0).unwrap_or(comm.len());
    Task { tgid, tid, comm: String::from_utf8_lossy(&comm[..end]).into_owned(), cgroup }
}

pub fn victim(key: &wire::VictimKey, victim: &wire::Victim) -> Victim {
    Victim {
        cpu: key.cpu,
        task: match key.tid {
            wire::NO_THREAD => Task::others(""),
            tid => task(victim.tgid, tid, &victim.comm, victim.cgroup),
        },
        class: class(key.class as u8),
        interruptions: victim.interruptions,
        delivery_ns: victim.delivery_ns,
        stolen_ns: victim.stolen_ns,
        stolen_ns_max: victim.stolen_ns_max,
        stolen_ns_max_is: Maximum::Exact,
        stolen: Histogram::new(&victim.stolen),
    }
}

pub fn pair(key: &wire::PairKey, pair: &wire::Pair) -> Pair {
    Pair {
        class: class(key.class as u8),
        sender_tid: key.sender_tid,
        sender_cpu: key.sender_cpu,
        victim_tid: match key.victim_tid {
            wire::NO_THREAD => Task::others("").tid,
            tid => tid,
        },
        victim_cpu: key.victim_cpu,
        interruptions: pair.interruptions,
        stolen_ns: pair.stolen_ns,
        stolen_ns_max: pair.stolen_ns_max,
        stolen_ns_max_is: Maximum::Exact,
    }
}

fn tally(tally: &wire::Tally) -> Tally {
    Tally {
        shootdowns: tally.shootdowns,
        targets: tally.targets,
        pages: tally.pages,
        entries: tally.entries,
        wait_ns: tally.wait_ns,
        wait_ns_max: tally.wait_ns_max,
        wait_ns_max_is: Maximum::Exact,
    }
}

/// The initiator's wait by the number of targets.
pub fn by_targets(table: &MapHandle) -> Result<Vec<ByTargets>> {
    let rows = maps::rows::<wire::TargetsKey, wire::Buckets>(table)?;
    let mut rows: Vec<ByTargets> = rows
        .iter()
        .map(|(key, histogram)| {
            let (targets_min, targets_max) = Histogram::bounds(key.targets_log2 as usize);
            let wait = Histogram::new(&histogram.buckets);
            ByTargets { class: class(key.class as u8), targets_min, targets_max, wait }
        })
        .collect();
    rows.sort_by_key(|row| (row.class, row.targets_min));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ceasefire_watch_model::testing;

    #[test]
    fn what_differs_in_nothing_that_is_shown_is_one_row() {
        let of = |user_stack: Option<u32>, targets: u64| Sender {
            user_stack,
            ..testing::sender(7, Cause::Munmap, targets)
        };
        let all = merged(vec![of(Some(1), 5), of(None, 2), of(Some(1), 4)]);
        let tallies: Vec<_> = all.iter().map(|sender| (sender.user_stack, sender.tally.targets)).collect();
        assert_eq!(tallies, [(Some(1), 9), (None, 2)]);
    }
}
