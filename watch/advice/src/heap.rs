// SPDX-License-Identifier: GPL-2.0-only
//! Memory that is given back: whose doing it is, the allocator's or the program's, and which setting keeps it.

use crate::facts::{Caller, CauseFacts, Facts};
use crate::rules::{new, program_asks};
use crate::{runtime, Advice};
use ceasefire_watch_model::Cause;
use ceasefire_watch_record::Process;

/// All three: without top_pad the heaps of threads are still unmapped. (`deter` has the same as a remedy.)
const KEEP: [(&str, &str); 3] = [
    ("glibc.malloc.trim_threshold", "1073741824"),
    ("glibc.malloc.mmap_max", "0"),
    ("glibc.malloc.top_pad", "67108864"),
];

/// Functions by which a program itself has its allocator give memory back, whatever that is set to.
const RELEASES: [&str; 5] = [
    "malloc_trim",
    "MallocExtension_ReleaseFreeMemory",
    "mi_collect",
    "runtime/debug.FreeOSMemory",
    "je_mallctl",
];

/// How an allocator is told apart, and what keeps it from giving memory back.
struct Allocator {
    name: &'static str,
    change: &'static str,
    /// Variables it may be set up by, the first of which is advised; and its setting there.
    variables: &'static [&'static str],
    setting: &'static str,
    caution: &'static str,
}

const ALLOCATORS: [Allocator; 3] = [
    Allocator {
        name: "jemalloc",
        change: "let jemalloc keep what is freed",
        variables: &["MALLOC_CONF", "_RJEM_MALLOC_CONF", "JE_MALLOC_CONF"],
        setting: "dirty_decay_ms:-1",
        caution: "the process keeps its largest size; measure its resident size, too",
    },
    Allocator {
        name: "tcmalloc",
        change: "let tcmalloc keep memory instead of giving it back",
        variables: &["TCMALLOC_RELEASE_RATE"],
        setting: "0",
        caution: "that is gperftools' variable; the process stays larger",
    },
    Allocator {
        name: "mimalloc",
        change: "let mimalloc keep memory instead of giving it back",
        variables: &["MIMALLOC_PURGE_DELAY"],
        setting: "-1",
        caution: "the process stays larger",
    },
];

pub fn memory_given_back(cause: &CauseFacts<'_>, facts: &Facts<'_>) -> Vec<Advice> {
    let mut evidence = Vec::new();
    if let Some(process) = cause.process {
        let runs_on = match process.runs_on() {
            runtimes if runtimes.is_empty() => String::new(),
            runtimes => format!(" runs on {runtimes};"),
        };
        let threads = format!("process {}{runs_on} has {} threads", process.tgid, process.threads);
        evidence.push(match process.libraries.is_empty() {
            true => threads,
            false => format!("{threads}, and maps {}", process.libraries.join(", ")),
        });
        if !process.variables.is_empty() {
            evidence.push(format!("it was started with {}", process.variables.join(" ")));
        }
    }
    if let Some(function) = releases(cause, facts) {
        evidence.push(format!("user stacks: the program itself calls {function}"));
        return vec![new(
            cause,
            "leave out that call, or make it when the threads rest",
            &evidence,
            format!("in code: without {function}()"),
            "no setting of the allocator changes what it is told to give back",
        )];
    }
    if let Some(advice) = runtime::advice(cause, facts, &evidence) {
        return advice;
    }
    let object = match &cause.caller {
        Caller::Library(object) => {
            evidence.push(format!("user stacks: most calls come from within {object}, not from the program"));
            Some(object.as_str())
        }
        Caller::Code(frame) => {
            evidence.push(format!("user stacks: most calls come from {frame}"));
            if !is_built_in(cause, frame) {
                return vec![program_asks(cause, facts, &evidence)];
            }
            None
        }
        Caller::Unknown => None,
    };
    // One that is part of the program has no object of its own; a C library's frame above it says nothing then.
    let built = |name: &str| cause.process?.built_with.iter().find(|built| built.name == name);
    let is_its = |allocator: &&Allocator| {
        let is_mapped = || cause.linked_library(allocator.name).is_some();
        let is_called = object.map_or_else(is_mapped, |object| object.contains(allocator.name));
        is_called || built(allocator.name).is_some()
    };
    match ALLOCATORS.iter().find(is_its) {
        Some(allocator) => {
            let its = built(allocator.name).and_then(|built| built.variable.as_deref());
            if built(allocator.name).is_some() {
                evidence.push(format!("the program was built with {}", allocator.name));
            }
            set_up(cause, allocator, its, &evidence).into_iter().collect()
        }
        // Only allocators call brk.
        None if object.is_some() || cause.cause == Cause::Brk => {
            glibc(cause, &evidence).into_iter().collect()
        }
        None => vec![find_out(cause, facts, &evidence)],
    }
}

/// The frame is one of an allocator that is part of the program.
fn is_built_in(cause: &CauseFacts<'_>, frame: &str) -> bool {
    let marks: [(&str, &[&str]); 3] = [
        (
            "jemalloc",
            &["je_", "_rjem_", "pages_purge", "pages_commit", "pages_decommit", "extent_", "arena_"],
        ),
        ("tcmalloc", &["TCMalloc_", "tcmalloc::"]),
        ("mimalloc", &["mi_", "_mi_"]),
    ];
    let is_there =
        |name: &str| cause.process.is_some_and(|p| p.built_with.iter().any(|built| built.name == name));
    marks.into_iter().any(|(name, stems)| is_there(name) && stems.iter().any(|stem| frame.starts_with(stem)))
}

/// The frame by which the program asks its allocator.
fn releases(cause: &CauseFacts<'_>, facts: &Facts<'_>) -> Option<&'static str> {
    let window = facts.window;
    let mine = window.senders.iter().filter(|s| s.class == cause.class && s.cause == cause.cause);
    let mut sums = [0u64; RELEASES.len()];
    let mut all = 0u64;
    for sender in mine {
        all = all.saturating_add(sender.tally.targets);
        let frames = sender.user_stack.and_then(|id| window.stacks.user.get(&id));
        for (sum, function) in sums.iter_mut().zip(RELEASES) {
            let is_it =
                |frame: &String| frame.split(" (").next().is_some_and(|name| name.ends_with(function));
            if frames.is_some_and(|frames| frames.iter().any(is_it)) {
                *sum = sum.saturating_add(sender.tally.targets);
            }
        }
    }
    RELEASES.into_iter().zip(sums).find(|(_, sum)| *sum > all / 2).map(|(function, _)| function)
}

/// The variable by which this process sets up its allocator, and what it says.
fn variable<'a>(process: Option<&'a Process>, names: &[&'static str]) -> Option<(&'static str, &'a str)> {
    names.iter().find_map(|name| Some((*name, process?.variable(name)?)))
}

/// None where it is set up like that already. `its`: the variable that this build listens to, where that is known.
fn set_up(
    cause: &CauseFacts<'_>,
    allocator: &Allocator,
    its: Option<&str>,
    evidence: &[String],
) -> Option<Advice> {
    let its = its.and_then(|its| allocator.variables.iter().find(|name| **name == its));
    let names = its.map_or(allocator.variables, std::slice::from_ref);
    let now = variable(cause.process, names);
    let is_list = allocator.setting.contains(':');
    if now.is_some_and(|(_, value)| value.split(',').any(|part| part == allocator.setting)) {
        return None;
    }
    let command = match now {
        Some((name, value)) if is_list && !value.is_empty() => {
            // What it says besides stays; of two values the last one counts.
            runtime::assign(name, value, ",", allocator.setting)
        }
        Some((name, _)) => format!("{name}={} COMMAND", allocator.setting),
        None => format!("{}={} COMMAND", names.first().unwrap_or(&""), allocator.setting),
    };
    let caution = match (now, names) {
        (None, [_, others @ ..]) if !others.is_empty() => format!(
            "{}; a copy of it that was built with a prefix listens to another variable ({})",
            allocator.caution,
            others.join(", ")
        ),
        _ => allocator.caution.to_string(),
    };
    Some(new(cause, allocator.change, evidence, command, &caution))
}

fn glibc(cause: &CauseFacts<'_>, evidence: &[String]) -> Option<Advice> {
    let (_, now) = variable(cause.process, &["GLIBC_TUNABLES"]).unwrap_or_default();
    let arenas = cause.process.map_or(0, |process| process.threads) > 8;
    let is_arena = matches!(cause.cause, Cause::MadviseDontneed) && arenas;
    let wanted = KEEP.into_iter().chain(is_arena.then_some(("glibc.malloc.arena_max", "4")));
    // A tunable that is set is the user's.
    let missing: Vec<String> = wanted
        .filter(|(name, _)| !now.split(':').any(|part| part.split('=').next() == Some(name)))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    if missing.is_empty() {
        return None;
    }
    Some(new(
        cause,
        "let glibc keep what is freed: no trimming, and no mapping of its own for each large block",
        evidence,
        runtime::assign("GLIBC_TUNABLES", now.trim_matches(':'), ":", &missing.join(":")),
        "the process keeps its largest size; in code: mallopt(M_TRIM_THRESHOLD, …), M_MMAP_MAX, M_TOP_PAD; \
         `ceasefire deter try` tells whether it helps",
    ))
}

fn find_out(cause: &CauseFacts<'_>, facts: &Facts<'_>, evidence: &[String]) -> Advice {
    new(
        cause,
        "find out who gives the memory back: the allocator or the program",
        evidence,
        match facts.environment.has_user_stacks {
            true => format!(
                "perf record -g --call-graph dwarf -p {} -e syscalls:sys_enter_{}",
                cause.pid(),
                call(&cause.cause)
            ),
            false => "ceasefire watch record --user-stacks, then this view again".into(),
        },
        "without knowing that, a setting of the allocator is a guess",
    )
}

fn call(cause: &Cause) -> &'static str {
    match cause {
        Cause::Munmap => "munmap",
        Cause::Brk => "brk",
        Cause::Mremap => "mremap",
        Cause::ProcessMadvise => "process_madvise",
        _ => "madvise",
    }
}
