// SPDX-License-Identifier: GPL-2.0-only
//! Advice for made-up windows.

use crate::{advise, Advice};
use ceasefire_watch_model::{
    testing, Batching, Cause, Class, Kind, Range, Sender, Shootdown, Site, Snapshot, Tally, Task,
};
use ceasefire_watch_record::Environment;

fn tally(n: u64) -> Tally {
    Tally { shootdowns: n, targets: n, ..Tally::default() }
}

/// Process 7 sends from one place for each.
fn window(rows: &[(Class, Cause, u64)]) -> Snapshot {
    let site = |(class, cause, n): &(Class, Cause, u64)| Site {
        class: *class,
        tally: tally(*n),
        ..testing::site(cause.clone(), &[])
    };
    let sender = |(class, cause, n): &(Class, Cause, u64)| Sender {
        class: *class,
        task: task(),
        ..testing::sender(7, cause.clone(), *n)
    };
    Snapshot {
        sites: rows.iter().map(site).collect(),
        senders: rows.iter().map(sender).collect(),
        ..Snapshot::default()
    }
}

fn task() -> Task {
    Task { tgid: 7, tid: 7, comm: "app".into(), cgroup: 1 }
}

fn about<'a>(all: &'a [Advice], subject: &str) -> Vec<&'a Advice> {
    all.iter().filter(|advice| advice.subject == subject).collect()
}

/// Pages `from` to `to`, one after the other, within a moment.
fn piece_by_piece(class: Class, from: u64, to: u64) -> impl Iterator<Item = Shootdown> {
    (from..to).map(move |page| Shootdown {
        start_ns: page,
        class,
        cause: Cause::SetMemory,
        cpu: 0,
        task: task(),
        kernel_stack: None,
        user_stack: None,
        address: Some(page << 12),
        pages: Some(1),
        entries: Some(1),
        kind: Kind::Ranged,
        why_full: None,
        freed_tables: false,
        targets: 1,
        target_cpus: vec![1],
        latencies: None,
        slowest: None,
    })
}

#[test]
fn few_forks_are_forks_all_the_same() {
    let cow = (Class::User, Cause::Cow, 10_000);
    let cow_advice = |window: &Snapshot| {
        let all = advise(window, &Environment::default(), &[], None);
        about(&all, "cow")[0].evidence.join("; ")
    };
    let evidence = cow_advice(&window(&[cow.clone(), (Class::User, Cause::Fork, 20)]));
    assert!(evidence.contains("the same process forks: 20 shootdowns"), "{evidence}");
    let evidence = cow_advice(&window(std::slice::from_ref(&cow)));
    assert!(evidence.contains("no shootdown by a fork of that process"), "{evidence}");
    let unwatched = Snapshot { senders: Vec::new(), ..window(&[cow]) };
    let evidence = cow_advice(&unwatched);
    assert!(evidence.contains("is not known"), "{evidence}");
}

#[test]
fn a_cause_of_two_classes_is_advised_on_by_class() {
    let rows = [(Class::User, Cause::SetMemory, 150), (Class::KernelRange, Cause::SetMemory, 250)];
    let mut touching = Batching::new(Range::Touching, 1_000);
    piece_by_piece(Class::User, 0, 150).for_each(|event| touching.take(&event));
    piece_by_piece(Class::KernelRange, 500, 750).for_each(|event| touching.take(&event));
    touching.end();
    let all = advise(&window(&rows), &Environment::default(), &[], Some(&[touching]));
    let mut pieces = about(&all, "set-memory piece by piece");
    pieces.sort_by_key(|advice| advice.class);
    let evidence: Vec<&str> = pieces.iter().map(|advice| advice.evidence[0].as_str()).collect();
    assert!(evidence[0].starts_with("149 of 150 shootdowns"), "{evidence:?}");
    assert!(evidence[1].starts_with("249 of 250 shootdowns"), "{evidence:?}");
}
