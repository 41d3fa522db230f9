// SPDX-License-Identifier: GPL-2.0-only
//! Rows for tests.

use ceasefire_watch_model::{
    Cause, Class, Histogram, Kind, Maximum, Pair, Sender, Site, Snapshot, Tally, Task, Victim,
};

pub fn task(name: &str, tid: u32) -> Task {
    Task { tgid: tid, tid, comm: name.to_string(), cgroup: 1 }
}

fn tally(targets: u64) -> Tally {
    Tally { shootdowns: targets, targets, ..Tally::default() }
}

/// A place without stacks; one target each.
pub fn site(class: Class, cause: Cause, targets: u64) -> Site {
    Site {
        class,
        cause,
        kind: Kind::Ranged,
        why_full: None,
        freed_tables: false,
        kernel_stack: None,
        function: None,
        syscall: None,
        argument: 0,
        tally: tally(targets),
        delivery_ns: 0,
        handler_ns: 0,
        calls: 0,
        call_ns: 0,
        pages: Histogram::default(),
        targets: Histogram::default(),
        wait: Histogram::default(),
        delivery: Histogram::default(),
        handler: Histogram::default(),
    }
}

/// A thread on CPU 0; one target each.
pub fn sender(class: Class, tid: u32, cause: Cause, targets: u64) -> Sender {
    Sender {
        task: task("sender", tid),
        cpu: 0,
        class,
        cause,
        kind: Kind::Ranged,
        freed_tables: false,
        kernel_stack: None,
        user_stack: None,
        function: None,
        syscall: None,
        argument: 0,
        tally: tally(targets),
    }
}

pub fn victim(class: Class, cpu: u32, tid: u32, interruptions: u64) -> Victim {
    Victim {
        cpu,
        task: task("victim", tid),
        class,
        interruptions,
        delivery_ns: 0,
        stolen_ns: 0,
        stolen_ns_max: 0,
        stolen_ns_max_is: Maximum::Exact,
        stolen: Histogram::default(),
    }
}

/// From CPU 0 to CPU 1.
pub fn pair(class: Class, sender_tid: u32, victim_tid: u32, interruptions: u64) -> Pair {
    Pair {
        class,
        sender_tid,
        sender_cpu: 0,
        victim_tid,
        victim_cpu: 1,
        interruptions,
        stolen_ns: 0,
        stolen_ns_max: 0,
        stolen_ns_max_is: Maximum::Exact,
    }
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
