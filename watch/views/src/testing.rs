// SPDX-License-Identifier: GPL-2.0-only
//! Rows for tests.

use ceasefire_watch_model::{
    testing, Cause, Class, Histogram, Pair, Sender, Site, Snapshot, Tally, Task, Victim,
};

pub fn task(name: &str, tid: u32) -> Task {
    Task { tgid: tid, tid, comm: name.to_string(), cgroup: 1 }
}

fn tally(targets: u64) -> Tally {
    Tally { shootdowns: targets, targets, ..Tally::default() }
}

/// A place without stacks; one target each.
pub fn site(class: Class, cause: Cause, targets: u64) -> Site {
    Site { class, tally: tally(targets), ..testing::site(cause, &[]) }
}

/// A thread on CPU 0; one target each.
pub fn sender(class: Class, tid: u32, cause: Cause, targets: u64) -> Sender {
    Sender { class, task: task("sender", tid), ..testing::sender(tid, cause, targets) }
}

/// That lost no time.
pub fn victim(class: Class, cpu: u32, tid: u32, interruptions: u64) -> Victim {
    Victim {
        class,
        cpu,
        task: task("victim", tid),
        delivery_ns: 0,
        stolen_ns: 0,
        stolen_ns_max: 0,
        stolen: Histogram::default(),
        ..testing::victim(tid, interruptions)
    }
}

/// From CPU 0 to CPU 1.
pub fn pair(class: Class, sender_tid: u32, victim_tid: u32, interruptions: u64) -> Pair {
    Pair { class, stolen_ns: 0, stolen_ns_max: 0, ..testing::pair(sender_tid, victim_tid, interruptions) }
}

/// Thread 1 interrupts thread 2 three times by munmap, and five times for kernel addresses.
pub fn pair_of_classes() -> Snapshot {
    let both = [(Class::User, Cause::Munmap, 3), (Class::KernelRange, Cause::Vmalloc, 5)];
    let rows = || both.iter().cloned();
    Snapshot {
        has_latencies: true,
        sites: rows().map(|(class, cause, n)| site(class, cause, n)).collect(),
        senders: rows().map(|(class, cause, n)| sender(class, 1, cause, n)).collect(),
        victims: rows().map(|(class, _, n)| victim(class, 1, 2, n)).collect(),
        pairs: rows().map(|(class, _, n)| pair(class, 1, 2, n)).collect(),
        ..Snapshot::default()
    }
}
