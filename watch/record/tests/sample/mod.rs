// SPDX-License-Identifier: GPL-2.0-only
//! A record that holds something of everything.

use ceasefire_watch_model::{
    Bursts, ByTargets, Cause, Class, ClassCoverage, Coverage, Histogram, Kind, Latencies, Maximum, Overhead,
    Pair, ProgramCost, Sender, Shootdown, Site, Snapshot, Stacks, Tally, Task, Victim, SCHEMA,
};
use ceasefire_watch_record::{End, Environment, Process, Writer};

fn histogram(value: u64, times: u64) -> Histogram {
    let mut histogram = Histogram::default();
    (0..times).for_each(|_| histogram.add(value));
    histogram
}

fn task(tid: u32) -> Task {
    Task { tgid: 100, tid, comm: format!("app{tid}"), cgroup: 7 }
}

const CAUSES: [Cause; 8] = [
    Cause::MadviseDontneed,
    Cause::Munmap,
    Cause::Brk,
    Cause::Cow,
    Cause::NumaScan,
    Cause::ThpCollapse,
    Cause::Mprotect,
    Cause::WriteBack,
];

pub fn window(number: u64) -> Snapshot {
    let tally = Tally {
        shootdowns: 200,
        targets: 400,
        pages: 1600,
        entries: 1600,
        wait_ns: 90_000,
        wait_ns_max: 9_000,
        wait_ns_max_is: Maximum::Exact,
    };
    let site = |(id, cause): (u32, Cause)| Site {
        class: if id == 7 { Class::KernelRange } else { Class::User },
        cause,
        kind: if id % 3 == 2 { Kind::Nested } else { Kind::Ranged },
        why_full: None,
        freed_tables: false,
        kernel_stack: Some(id),
        function: None,
        syscall: Some(28),
        argument: 4,
        tally,
        delivery_ns: 40_000,
        handler_ns: 20_000,
        calls: 0,
        call_ns: 0,
        pages: histogram(8, 200),
        targets: histogram(2, 200),
        wait: histogram(450, 200),
        delivery: histogram(200, 400),
        handler: histogram(50, 400),
    };
    let sites: Vec<Site> = (0..).zip(CAUSES).map(site).collect();
    let sender = |site: &Site| Sender {
        task: task(101),
        cpu: 0,
        class: site.class,
        cause: site.cause.clone(),
        kind: site.kind,
        freed_tables: false,
        kernel_stack: site.kernel_stack,
        function: site.function.clone(),
        user_stack: Some(3),
        syscall: site.syscall,
        argument: site.argument,
        tally,
    };
    let class = |class: Class| ClassCoverage {
        class,
        requests: Some(1700),
        shootdowns: 1600,
        queued: 3200,
        handled: Some(3200),
        filtered: 0,
        kernel: (class == Class::User).then_some(3200),
        source: "TLB row of /proc/interrupts".into(),
    };
    Snapshot {
        schema: SCHEMA.into(),
        taken_ns: number * 1_000_000_000,
        window_ns: 1_000_000_000,
        wall_s: 1_800_000_000 + number,
        kernel: "6.18.0".into(),
        cpus: 4,
        has_latencies: true,
        senders: sites.iter().map(sender).collect(),
        sites,
        victims: vec![Victim {
            cpu: 1,
            task: Task { tgid: 200, tid: 201, comm: "victim".into(), cgroup: 8 },
            class: Class::User,
            interruptions: 3200,
            delivery_ns: 9,
            stolen_ns: 160_000,
            stolen_ns_max: 900,
            stolen_ns_max_is: Maximum::Exact,
            stolen: histogram(50, 3200),
        }],
        pairs: vec![Pair {
            class: Class::User,
            sender_tid: 101,
            sender_cpu: 0,
            victim_tid: 201,
            victim_cpu: 1,
            interruptions: 3200,
            stolen_ns: 160_000,
            stolen_ns_max: 900,
            stolen_ns_max_is: Maximum::Exact,
        }],
        bursts: Bursts::default(),
        by_targets: vec![ByTargets {
            class: Class::User,
            targets_min: 2,
            targets_max: 3,
            wait: histogram(450, 1600),
        }],
        stacks: stacks(),
        coverage: Coverage {
            classes: Class::ALL.map(class).to_vec(),
            overhead: Overhead {
                programs: vec![ProgramCost { name: "queued".into(), runs: 10, run_ns: 1000 }],
                timed_ns: 10_000,
                own_cpu_ns: 5_000,
                own_rss_kib_max: 20_000,
            },
            ..Coverage::default()
        },
    }
}

pub fn stacks() -> Stacks {
    let frames = |text: &str| text.split(' ').map(str::to_string).collect::<Vec<String>>();
    Stacks {
        kernel: (0..8).map(|id| (id, frames("flush_tlb_mm_range tlb_finish_mmu do_madvise entry"))).collect(),
        user: [(3, frames("libc.so.6+0x10 libc.so.6+0x20 app+0x30"))].into(),
    }
}

pub fn event(number: u64) -> Shootdown {
    Shootdown {
        start_ns: number * 1000,
        class: Class::User,
        cause: Cause::Munmap,
        cpu: 0,
        task: task(101),
        kernel_stack: Some(1),
        user_stack: Some(3),
        address: Some(0x7000_0000 + number * 4096),
        pages: Some(1),
        entries: Some(1),
        kind: Kind::Ranged,
        why_full: None,
        freed_tables: false,
        targets: 2,
        target_cpus: vec![1, 2],
        latencies: Some(Latencies { delivery_ns_max: 100, handler_ns_max: 50, wait_ns: 450 }),
        slowest: Some((1, task(201))),
    }
}

pub fn environment() -> Environment {
    let settings = [
        ("/proc/sys/kernel/numa_balancing", "1"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never"),
    ];
    Environment {
        ceasefire: "0.1.0".into(),
        kernel: "6.18.0".into(),
        cpus: 4,
        nodes: 2,
        has_events: true,
        has_user_stacks: true,
        command: vec!["app".into()],
        settings: settings.map(|(path, content)| (path.to_string(), content.to_string())).into(),
        ..Environment::default()
    }
}

pub fn process() -> Process {
    Process {
        tgid: 100,
        comm: "app".into(),
        threads: 9,
        cpus_allowed: "0-3".into(),
        libraries: vec!["libc.so.6".into()],
        ..Process::default()
    }
}

pub fn record() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &environment()).expect("memory");
    for number in 1..4 {
        writer.window(&window(number)).expect("memory");
        let events: Vec<Shootdown> = (number * 50..number * 50 + 50).map(event).collect();
        writer.events(&events).expect("memory");
    }
    writer.process(&process()).expect("memory");
    writer.end(&End { reason: "the time was over".into(), events: 150, ..End::default() }).expect("memory");
    bytes
}
