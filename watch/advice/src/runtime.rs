// SPDX-License-Identifier: GPL-2.0-only
//! Memory of runtimes: the Java heap, Go's scavenger, stacks of threads that end. (`deter` has tried these as remedies.)

use crate::facts::{Caller, CauseFacts, Facts};
use crate::rules::new;
use crate::Advice;
use ceasefire_base::exec::quote;
use ceasefire_watch_model::{java, Cause, Sender};
use ceasefire_watch_record::Process;
use ceasefire_watch_views::numbers::count;
use std::collections::BTreeMap;
use std::ffi::OsStr;

/// What a thread sends when it ends: its stack goes, and its share of the allocator's.
const SENT_BY_END_MAX: u64 = 4;
/// A record keeps no more of a string.
const VALUE_BYTES_MAX: usize = 512;
const TUNABLES: &str = "GLIBC_TUNABLES";
const STACK_CACHE: &str = "glibc.pthread.stack_cache_size";
/// Threads that were seen to end.
const ENDED_MIN: usize = 20;

/// None where it is none of theirs; an empty list where nothing is left to be set.
pub fn advice(cause: &CauseFacts<'_>, facts: &Facts<'_>, evidence: &[String]) -> Option<Vec<Advice>> {
    // Where user stacks do not tell who called, what else a JVM has is as likely, but for these two.
    let is_of_a_heap = match cause.cause {
        Cause::Mmap | Cause::Cow => true,
        Cause::MadviseDontneed | Cause::MadviseFree | Cause::Munmap => cause.caller != Caller::Unknown,
        _ => false,
    };
    let is_java = is_of_a_heap && cause.linked_library("libjvm").is_some() && is_by(cause, "libjvm");
    let of_java = cause.process.filter(|_| is_java);
    match of_java {
        Some(process) => Some(java_heap(cause, process, evidence).into_iter().collect()),
        None if is_scavenger(cause) => Some(vec![scavenger(cause, evidence)]),
        None => ends_of_threads(cause, facts, evidence),
    }
}

/// Where user stacks do not tell, the program's own runtime is taken for it.
fn is_by(cause: &CauseFacts<'_>, library: &str) -> bool {
    match &cause.caller {
        Caller::Library(object) => object.contains(library),
        Caller::Code(frame) => frame.contains(library),
        Caller::Unknown => true,
    }
}

/// One size from the start, so that nothing is given back; and where it has that, huge pages for its own tables.
pub fn java_heap(cause: &CauseFacts<'_>, process: &Process, evidence: &[String]) -> Option<Advice> {
    const HUGE: &str = "-XX:+UseTransparentHugePages";
    const NO_HUGE: &str = "-XX:-UseTransparentHugePages";
    let arguments = process.command.get(1..).unwrap_or_default();
    let options = java::options(|name| process.variable(name), arguments);
    let last = |starts: &[&str]| {
        options.iter().rev().find(|option| starts.iter().any(|start| option.starts_with(start)))
    };
    let heap = java::heap(&options);
    let size = heap.unwrap_or("SIZE");
    let first = format!("-Xms{size}");
    let is_fixed = last(&["-Xms", "-XX:InitialHeapSize="]).is_some_and(|option| *option == first);
    let has_huge = last(&[HUGE, NO_HUGE]).is_some_and(|option| option == HUGE);
    let sizes = [first, format!("-Xmx{size}")];
    let (wanted, change) = match (is_fixed, has_huge) {
        (true, true) => return None,
        (false, true) => (sizes.to_vec(), "let the Java heap keep one size"),
        (true, false) => {
            (vec![HUGE.to_string()], "let the Java heap and the tables beside it have huge pages")
        }
        (false, false) => (
            sizes.into_iter().chain([HUGE.to_string()]).collect(),
            "let the Java heap keep one size, and have huge pages",
        ),
    };
    // The command counts more than the first of the variables, and less than the last.
    let is_overridden = last(&["-Xms", "-XX:InitialHeapSize=", NO_HUGE]).is_some();
    let variable = if is_overridden { java::VARIABLES[2] } else { java::VARIABLES[0] };
    let before = process.variable(variable).unwrap_or_default();
    let mut evidence = evidence.to_vec();
    evidence.push(match heap {
        Some(heap) => format!("it was started with -Xmx{heap}"),
        None => "it was started without -Xmx: choose the SIZE".into(),
    });
    Some(new(
        cause,
        change,
        &evidence,
        assign(variable, before, " ", &wanted.join(" ")),
        "the process keeps its largest size. What a collector marks and copies stays in small pages without huge pages, and \
         these need transparent_hugepage/enabled=madvise or always",
    ))
}

/// A line for a shell: `more` joined to what the variable is. That is of a process which is anybody's; a record may have cut
/// it short.
pub fn assign(variable: &str, before: &str, between: &str, more: &str) -> String {
    if variable.len() + 1 + before.len() >= VALUE_BYTES_MAX {
        return format!("in its {variable}, which is too long for a record, also: {more}");
    }
    let between = if before.is_empty() { "" } else { between };
    format!("{variable}={} COMMAND", quote(OsStr::new(&format!("{before}{between}{more}"))))
}

fn is_scavenger(cause: &CauseFacts<'_>) -> bool {
    let is_go =
        cause.process.is_some_and(|process| process.built_with.iter().any(|built| built.name == "go"));
    let is_runtime = matches!(&cause.caller, Caller::Code(frame) if frame.starts_with("runtime."));
    is_go && is_runtime && cause.cause == Cause::MadviseDontneed
}

fn scavenger(cause: &CauseFacts<'_>, evidence: &[String]) -> Advice {
    new(
        cause,
        "let Go's scavenger keep what it gives back",
        evidence,
        "ceasefire deter run --with go-keep -- COMMAND".into(),
        "memory stays at its peak. No variable of Go's stops its scavenger; GOMEMLIMIT and GOGC decide how much garbage there \
         is",
    )
}

/// Many threads sent a little each, and ended.
fn ends_of_threads(cause: &CauseFacts<'_>, facts: &Facts<'_>, evidence: &[String]) -> Option<Vec<Advice>> {
    let process = cause.process?;
    let is_libc = |object: &str| object.starts_with("libc.so") || object.starts_with("libc-2");
    if !matches!(&cause.caller, Caller::Library(object) if is_libc(object)) {
        return None;
    }
    let gives_back = |sender: &&Sender| {
        sender.class == cause.class
            && sender.cause == Cause::MadviseDontneed
            && sender.task.tgid == process.tgid
    };
    let mut by_thread: BTreeMap<u32, u64> = BTreeMap::new();
    for sender in facts.window.senders.iter().filter(gives_back) {
        let sum = by_thread.entry(sender.task.tid).or_default();
        *sum = sum.saturating_add(sender.tally.shootdowns);
    }
    let all: u64 = by_thread.values().sum();
    let ended: Vec<u64> = by_thread.into_values().filter(|sent| *sent <= SENT_BY_END_MAX).collect();
    // Threads that live, and trim what they have of malloc's, send a few each, too; and a program that frees large blocks
    // sends more than its threads that end.
    let are_gone = ended.len() > 2 * process.threads as usize;
    let is_theirs = cause.tally.shootdowns <= 4 * ended.len() as u64;
    if ended.len() < ENDED_MIN || 2 * ended.iter().sum::<u64>() <= all || !are_gone || !is_theirs {
        return None;
    }
    let mut evidence = evidence.to_vec();
    evidence.push(format!(
        "{} threads, of which few are left, sent at most {SENT_BY_END_MAX} each: so do those that end",
        count(ended.len() as u64)
    ));
    let pool = "each end of a thread still sends: the C library gives back what the stack holds, whatever malloc is set to";
    Some(match cause.cause {
        Cause::MadviseDontneed => vec![new(
            cause,
            "keep threads and use them again (a pool)",
            &evidence,
            "in code: a pool of threads; without it: ceasefire deter try -- COMMAND".into(),
            pool,
        )],
        Cause::Munmap | Cause::Mprotect => {
            let before = process.variable(TUNABLES).unwrap_or_default();
            if before.contains(STACK_CACHE) {
                return Some(Vec::new());
            }
            vec![new(
                cause,
                "let the C library keep the stacks of threads that have ended",
                &evidence,
                assign(TUNABLES, before, ":", &format!("{STACK_CACHE}=1073741824")),
                "their addresses stay in use, their memory does not; glibc 2.34 and newer. Better still is a pool of threads",
            )]
        }
        _ => return None,
    })
}
