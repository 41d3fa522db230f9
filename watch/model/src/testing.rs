// SPDX-License-Identifier: GPL-2.0-only
//! Rows for tests.

use crate::{Cause, Class, Histogram, Kind, Maximum, Pair, Sender, Site, Tally, Task, Victim};

/// `shootdowns` of so many targets each, one microsecond of waiting a target.
pub fn site(cause: Cause, shootdowns: &[(u64, u64)]) -> Site {
    let (mut targets, mut wait, mut tally) = (Histogram::default(), Histogram::default(), Tally::default());
    for (each, sent) in shootdowns {
        for _ in 0..*sent {
            targets.add(*each);
            wait.add(each * 1000);
        }
        tally.shootdowns += sent;
        tally.targets += each * sent;
        tally.wait_ns += each * sent * 1000;
    }
    Site {
        class: Class::User,
        cause,
        kind: Kind::Ranged,
        why_full: None,
        freed_tables: false,
        kernel_stack: None,
        function: None,
        syscall: None,
        argument: 0,
        tally,
        delivery_ns: 0,
        handler_ns: 0,
        calls: 0,
        call_ns: 0,
        pages: Histogram::default(),
        targets,
        wait,
        delivery: Histogram::default(),
        handler: Histogram::default(),
    }
}

/// A thread on CPU 0.
pub fn sender(tid: u32, cause: Cause, targets: u64) -> Sender {
    Sender {
        task: Task { tgid: tid, tid, comm: format!("sender-{tid}"), cgroup: 1 },
        cpu: 0,
        class: Class::User,
        cause,
        kind: Kind::Ranged,
        freed_tables: false,
        kernel_stack: None,
        user_stack: None,
        function: None,
        syscall: None,
        argument: 0,
        tally: Tally { shootdowns: targets, targets, ..Tally::default() },
    }
}

/// A thread on CPU 1 that lost a microsecond each time.
pub fn victim(tid: u32, interruptions: u64) -> Victim {
    let mut stolen = Histogram::default();
    (0..interruptions).for_each(|_| stolen.add(1000));
    Victim {
        cpu: 1,
        task: Task { tgid: tid, tid, comm: format!("victim-{tid}"), cgroup: 1 },
        class: Class::User,
        interruptions,
        delivery_ns: interruptions * 2000,
        stolen_ns: interruptions * 1000,
        stolen_ns_max: 1000,
        stolen_ns_max_is: Maximum::Exact,
        stolen,
    }
}

pub fn pair(sender_tid: u32, victim_tid: u32, interruptions: u64) -> Pair {
    Pair {
        class: Class::User,
        sender_tid,
        sender_cpu: 0,
        victim_tid,
        victim_cpu: 1,
        interruptions,
        stolen_ns: interruptions * 1000,
        stolen_ns_max: 1000,
        stolen_ns_max_is: Maximum::Exact,
    }
}
