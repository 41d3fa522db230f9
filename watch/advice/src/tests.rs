// SPDX-License-Identifier: GPL-2.0-only
//! Advice for made-up windows.

use crate::{advise, Advice};
use ceasefire_watch_model::{
    testing, Batching, Cause, Class, Kind, Range, Sender, Shootdown, Site, Snapshot, Tally, Task,
};
use ceasefire_watch_record::{Environment, MemoryLimit, Process};

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

/// Process 7 runs Java, and was started like that; what is advised, if anything.
fn java_command(arguments: &str, variables: &[&str]) -> Option<String> {
    let process = Process {
        tgid: 7,
        command: format!("java {arguments} Main -Xmx9g").split(' ').map(str::to_string).collect(),
        libraries: vec!["libc.so.6".into(), "libjvm.so".into()],
        variables: variables.iter().map(|text| text.to_string()).collect(),
        ..Process::default()
    };
    let window = window(&[(Class::User, Cause::Mmap, 1000)]);
    let all = advise(&window, &Environment::default(), &[process], None);
    about(&all, "mmap").first().map(|advice| advice.command.clone())
}

#[test]
fn a_java_heap_is_advised_on_as_far_as_it_is_not_set_up() {
    let huge = "-XX:+UseTransparentHugePages";
    let quoted = |words: &str| match words.contains(' ') {
        true => format!("'{words}'"),
        false => words.to_string(),
    };
    let command = |words: &str| Some(format!("JAVA_TOOL_OPTIONS={} COMMAND", quoted(words)));
    assert_eq!(java_command("-Xmx2g", &[]), command(&format!("-Xms2g -Xmx2g {huge}")));
    let last = |words: &str| Some(format!("_JAVA_OPTIONS={} COMMAND", quoted(words)));
    assert_eq!(java_command("-Xms2g -Xmx2g", &[]), last(huge));
    assert_eq!(
        java_command("-Xms1g -Xmx2g", &[]),
        last(&format!("-Xms2g -Xmx2g {huge}")),
        "the command counts more"
    );
    assert_eq!(java_command("-Xms2g -Xmx2g -XX:+AlwaysPreTouch", &[]), last(huge));
    let evil = ["JAVA_TOOL_OPTIONS=-Da=$(reboot)"];
    let line = java_command("-Xmx2g", &evil).expect("advised on");
    assert!(line.starts_with("JAVA_TOOL_OPTIONS='-Da=$(reboot) "), "{line}");
    let long = format!("JAVA_TOOL_OPTIONS=-Da=ä   {}", "é ".repeat(250));
    let line = java_command("-Xmx2g", &[&long]).expect("advised on");
    assert!(line.ends_with("also: -Xms2g -Xmx2g -XX:+UseTransparentHugePages"), "{line}");
    assert_eq!(java_command(&format!("-Xmx2g {huge}"), &[]), command("-Xms2g -Xmx2g"));
    assert_eq!(java_command(&format!("-Xms2g -Xmx2g {huge}"), &[]), None);
    let line = java_command("-Xms1g -Xmx2g", &["_JAVA_OPTIONS=-Xmx1g"]);
    assert_eq!(line, last(&format!("-Xmx1g {huge}")), "it comes last");
    assert_eq!(
        java_command("-Da=b", &["JAVA_TOOL_OPTIONS=-Xss1m"]),
        command(&format!("-Xss1m -XmsSIZE -XmxSIZE {huge}"))
    );
}

#[test]
fn threads_that_end_are_not_told_to_set_up_malloc() {
    let ended = |tid: u32| Sender {
        task: Task { tid, ..task() },
        user_stack: Some(1),
        ..testing::sender(tid, Cause::MadviseDontneed, 2)
    };
    let main = Sender { task: task(), user_stack: Some(1), ..testing::sender(7, Cause::Munmap, 300) };
    let rows = [(Class::User, Cause::MadviseDontneed, 200), (Class::User, Cause::Munmap, 300)];
    let mut window = window(&rows);
    window.senders = (100..200).map(ended).chain([main]).collect();
    let frames = ["munmap (libc.so.6)", "libc.so.6+0x1"].map(String::from).to_vec();
    window.stacks.user = [(1, frames)].into();
    let process = |variable: &str| Process {
        tgid: 7,
        libraries: vec!["libc.so.6".into()],
        variables: vec![variable.into()],
        ..Process::default()
    };
    let command = |variable: &str, cause: &str| {
        let all = advise(&window, &Environment::default(), &[process(variable)], None);
        about(&all, cause).first().map(|advice| advice.command.clone())
    };
    let cache = "glibc.pthread.stack_cache_size=1073741824";
    assert_eq!(command("A=b", "munmap"), Some(format!("GLIBC_TUNABLES={cache} COMMAND")));
    let before = "GLIBC_TUNABLES=glibc.malloc.check=1";
    assert_eq!(command(before, "munmap"), Some(format!("{before}:{cache} COMMAND")));
    assert_eq!(command(&format!("GLIBC_TUNABLES={cache}"), "munmap"), None);
    assert!(command("A=b", "madvise-dontneed").is_some_and(|command| command.contains("a pool of threads")));
}

#[test]
fn a_reached_limit_is_to_be_raised_where_the_process_reclaims_for_itself() {
    let command = |memory_limit: Option<MemoryLimit>| {
        let window = window(&[(Class::User, Cause::Reclaim, 1000)]);
        let process = Process { tgid: 7, memory_limit, ..Process::default() };
        let all = advise(&window, &Environment::default(), &[process], None);
        about(&all, "reclaim").first().map(|advice| advice.command.clone()).expect("advised on")
    };
    let limit = MemoryLimit { path: "/c/a b/memory.max".into(), bytes: 4096, reached: 3 };
    assert_eq!(command(Some(limit)), "echo 8192 > '/c/a b/memory.max'");
    assert!(command(None).contains("MemoryLow"), "of the machine's memory");
}
