// SPDX-License-Identifier: GPL-2.0-only
//! One rule for each cause. Figures come from the window, settings from the record; a rule without either is silent,
//! or says how to find out.

use crate::facts::{Caller, CauseFacts, Facts};
use crate::Advice;
use ceasefire_watch_model::Cause;
use ceasefire_watch_views::numbers::count;

const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const THP_DEFRAG: &str = "/sys/kernel/mm/transparent_hugepage/defrag";
const KHUGEPAGED: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag";
const NUMA: &str = "/proc/sys/kernel/numa_balancing";
const KSM: &str = "/sys/kernel/mm/ksm/run";
const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
const PROACTIVE: &str = "/proc/sys/vm/compaction_proactiveness";
const WRITEBACK: &str = "/proc/sys/vm/dirty_writeback_centisecs";

/// All three: without top_pad the heaps of threads are still unmapped. (`deter` has the same as a remedy.)
const KEEP: &str =
    "GLIBC_TUNABLES=glibc.malloc.trim_threshold=1073741824:glibc.malloc.mmap_max=0:glibc.malloc.top_pad=67108864";

fn new(cause: &CauseFacts<'_>, change: &str, more: &[String], command: String, caution: &str) -> Advice {
    let mut evidence = cause.figures();
    evidence.extend_from_slice(more);
    Advice {
        class: cause.class,
        subject: cause.cause.to_string(),
        change: change.into(),
        evidence,
        command,
        caution: caution.into(),
    }
}

pub fn about(cause: &CauseFacts<'_>, facts: &Facts<'_>) -> Vec<Advice> {
    match &cause.cause {
        Cause::MadviseDontneed | Cause::MadviseFree | Cause::Munmap | Cause::Brk | Cause::Mremap => {
            vec![memory_given_back(cause, facts)]
        }
        Cause::Mprotect => vec![mprotect(cause, facts)],
        Cause::Cow => vec![cow(cause, facts)],
        Cause::Fork => vec![fork(cause)],
        Cause::NumaScan | Cause::NumaMigrate => numa(cause, facts).into_iter().collect(),
        Cause::ThpCollapse | Cause::ThpSplit => thp(cause, facts).into_iter().collect(),
        Cause::Ksm => ksm(cause, facts).into_iter().collect(),
        Cause::Compaction => compaction(cause, facts).into_iter().collect(),
        Cause::Reclaim => vec![reclaim(cause, facts)],
        Cause::Msync | Cause::WriteBack | Cause::Truncate => vec![files(cause, facts)],
        Cause::MadvisePageout | Cause::MadviseCold | Cause::Madvise => vec![on_request(cause, facts)],
        Cause::Migration | Cause::Userfaultfd | Cause::SoftDirty | Cause::Damon | Cause::Mmap => {
            vec![on_request(cause, facts)]
        }
        Cause::Vmalloc | Cause::SetMemory | Cause::Unknown(_) => vec![who_asks(cause)],
        // Nothing can be changed, or nothing is known.
        Cause::Exit | Cause::OomReaper | Cause::NoStack => Vec::new(),
    }
}

fn memory_given_back(cause: &CauseFacts<'_>, facts: &Facts<'_>) -> Advice {
    let mut evidence = Vec::new();
    if let Some(process) = cause.process {
        let libraries = process.libraries.join(", ");
        evidence.push(format!("process {} maps {libraries}; {} threads", process.tgid, process.threads));
        if !process.variables.is_empty() {
            evidence.push(format!("it was started with {}", process.variables.join(" ")));
        }
    }
    let object = match &cause.caller {
        Caller::Library(object) => {
            evidence.push(format!("user stacks: most calls come from within {object}, not from the program"));
            Some(object.as_str())
        }
        Caller::Code(frame) => {
            evidence.push(format!("user stacks: most calls come from {frame}"));
            return program_asks(cause, facts, &evidence);
        }
        Caller::Unknown => None,
    };
    let allocator = ["jemalloc", "tcmalloc", "mimalloc"]
        .into_iter()
        .find(|name| object.map_or(cause.linked_library(name).is_some(), |object| object.contains(name)));
    let is_sure = object.is_some();
    match (allocator, is_sure) {
        (Some("jemalloc"), _) => new(
            cause,
            "let jemalloc keep memory longer before it gives it back",
            &evidence,
            "MALLOC_CONF=dirty_decay_ms:60000,muzzy_decay_ms:-1,background_thread:true COMMAND".into(),
            "the process stays larger; large blocks of calloc are still zeroed by giving them back, unless thp:always",
        ),
        (Some("tcmalloc"), _) => new(
            cause,
            "let tcmalloc keep memory instead of giving it back",
            &evidence,
            "TCMALLOC_RELEASE_RATE=0 COMMAND".into(),
            "that is gperftools' variable; the process stays larger",
        ),
        (Some(_), _) => new(
            cause,
            "let mimalloc wait longer before it gives memory back",
            &evidence,
            "MIMALLOC_PURGE_DELAY=10000 COMMAND".into(),
            "the process stays larger; before 2.1 mimalloc ignores this variable and does not say so",
        ),
        (None, true) => glibc(cause, &evidence),
        // Only allocators call brk.
        (None, false) if cause.cause == Cause::Brk => glibc(cause, &evidence),
        (None, false) => new(
            cause,
            "find out who gives the memory back: the allocator or the program",
            &evidence,
            match facts.environment.has_user_stacks {
                true => format!(
                    "perf record -g --call-graph dwarf -p {} -e syscalls:sys_enter_{}",
                    cause.pid(),
                    call(&cause.cause)
                ),
                false => "ceasefire watch record --user-stacks, then this view again".into(),
            },
            "without knowing that, a setting of the allocator is a guess",
        ),
    }
}

fn call(cause: &Cause) -> &'static str {
    match cause {
        Cause::Munmap => "munmap",
        Cause::Brk => "brk",
        Cause::Mremap => "mremap",
        _ => "madvise",
    }
}

fn glibc(cause: &CauseFacts<'_>, evidence: &[String]) -> Advice {
    let arenas = cause.process.map_or(0, |process| process.threads) > 8;
    let is_arena = matches!(cause.cause, Cause::MadviseDontneed) && arenas;
    new(
        cause,
        "let glibc keep what is freed: no trimming, and no mapping of its own for each large block",
        evidence,
        match is_arena {
            true => format!("{KEEP}:glibc.malloc.arena_max=4 COMMAND"),
            false => format!("{KEEP} COMMAND"),
        },
        "the process keeps its largest size; in code: mallopt(M_TRIM_THRESHOLD, …), M_MMAP_MAX, M_TOP_PAD; `ceasefire deter try` tells whether it helps",
    )
}

fn program_asks(cause: &CauseFacts<'_>, facts: &Facts<'_>, evidence: &[String]) -> Advice {
    let (change, caution) = match cause.cause {
        Cause::MadviseDontneed => (
            "keep the memory and use it again, or give back fewer, larger ranges",
            "MADV_FREE is no way around it: it sends shootdowns, too",
        ),
        Cause::Munmap => (
            "keep mappings and use them again (a pool), or unmap fewer, larger ranges",
            "memory stays with the process",
        ),
        Cause::Mremap => (
            "reserve the room at once instead of growing by mremap",
            "addresses only: untouched pages cost nothing",
        ),
        _ => ("call it less often, for larger ranges", "memory stays with the process for longer"),
    };
    new(cause, change, evidence, show(cause, facts), caution)
}

/// The command that shows the code to change.
fn show(cause: &CauseFacts<'_>, facts: &Facts<'_>) -> String {
    match facts.environment.has_user_stacks {
        true => format!("ceasefire watch report FILE --view stacks --folded --cause {}", cause.cause.name()),
        false => format!("ceasefire watch stacks --folded --user-stacks -p {} --for 10s", cause.pid()),
    }
}

fn mprotect(cause: &CauseFacts<'_>, facts: &Facts<'_>) -> Advice {
    new(
        cause,
        "change fewer, larger ranges at once; keep code and guard pages instead of toggling them",
        &[],
        show(cause, facts),
        "only taking permissions away interrupts others; giving them does not",
    )
}

fn cow(cause: &CauseFacts<'_>, facts: &Facts<'_>) -> Advice {
    let sender = cause.sender.as_ref().map(|(task, _)| task.tgid);
    let forks = sender.map(|tgid| facts.sent_by(tgid, cause.class, &Cause::Fork));
    match forks {
        Some(forks @ 1..) => new(
            cause,
            "do not fork with this much memory: posix_spawn or vfork, or keep the parent small",
            &[format!("the same process forks: {} shootdowns of cause fork", count(forks))],
            "in code: posix_spawn(), or madvise(…, MADV_DONTFORK) for what the child never needs".into(),
            "a child that needs the parent's memory (a snapshot) must not be given MADV_DONTFORK",
        ),
        none => new(
            cause,
            "write each page once before the threads run (prefault), and lock it",
            &[match none {
                Some(_) => "no shootdown by a fork of that process in this window: the pages are first writes to what was only read before, or to private mappings of files".into(),
                None => "whether that process forks is not known: who sent was not watched".into(),
            }],
            "in code: MAP_POPULATE, or madvise(…, MADV_POPULATE_WRITE), then mlockall(MCL_CURRENT | MCL_FUTURE); ulimit -l unlimited".into(),
            "if it forked before the window, see posix_spawn; locked memory cannot be reclaimed",
        ),
    }
}

fn fork(cause: &CauseFacts<'_>) -> Advice {
    new(
        cause,
        "start children without copying the address space: posix_spawn or vfork",
        &[],
        "in code: posix_spawn(); for a snapshot by fork, do it from a process with fewer threads".into(),
        "each page the parent writes afterwards is a copy on write, which interrupts again",
    )
}

fn numa(cause: &CauseFacts<'_>, facts: &Facts<'_>) -> Option<Advice> {
    let setting = facts.setting(NUMA);
    if setting == Some("0") {
        return None;
    }
    let setting = setting.map_or("unknown".to_string(), str::to_string);
    let evidence = [format!("kernel.numa_balancing was {setting} on {} nodes", facts.environment.nodes)];
    let process = cause.process.map_or(String::new(), |process| {
        format!("; for one: numactl --cpunodebind=0 --membind=0 COMMAND (now {})", process.comm)
    });
    Some(new(
        cause,
        "turn NUMA balancing off, and place memory yourself",
        &evidence,
        format!("sysctl -w kernel.numa_balancing=0{process}"),
        "for the whole machine; what relied on it may run on far memory: compare its speed",
    ))
}

fn thp(cause: &CauseFacts<'_>, facts: &Facts<'_>) -> Option<Advice> {
    let chosen = facts.chosen(THP);
    if chosen == Some("never") {
        return None;
    }
    let evidence = [format!(
        "transparent_hugepage/enabled was {}, khugepaged/defrag {}",
        chosen.unwrap_or("unknown"),
        facts.setting(KHUGEPAGED).unwrap_or("unknown")
    )];
    let is_daemon = cause.sender.as_ref().is_some_and(|(task, _)| task.comm.starts_with("khugepaged"));
    Some(match (&cause.cause, is_daemon) {
        (Cause::ThpCollapse, true) => new(
            cause,
            "keep khugepaged from collapsing pages while it matters",
            &evidence,
            format!("echo 0 > {KHUGEPAGED}"),
            "huge pages then come at first touch only; TLB misses may rise",
        ),
        (Cause::ThpCollapse, false) => new(
            cause,
            "collapse before the threads run, or not at all",
            &evidence,
            format!("echo madvise > {THP}"),
            "the program itself asks for it (MADV_COLLAPSE) or faults do; TLB misses may rise",
        ),
        _ => new(
            cause,
            "free and protect whole huge pages (2 MiB, aligned), or have none in that process",
            &evidence,
            "in code: prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) before exec, or madvise(…, MADV_NOHUGEPAGE)"
                .into(),
            "without huge pages TLB misses may rise; measure both",
        ),
    })
}

fn ksm(cause: &CauseFacts<'_>, facts: &Facts<'_>) -> Option<Advice> {
    if facts.setting(KSM) == Some("0") {
        return None;
    }
    let evidence = [format!("ksm/run was {}", facts.setting(KSM).unwrap_or("unknown"))];
    Some(new(
        cause,
        "stop same-page merging, or leave this memory out of it",
        &evidence,
        format!("echo 0 > {KSM}"),
        "pages already merged stay so; each write to one is a copy on write. In code: MADV_UNMERGEABLE",
    ))
}

fn compaction(cause: &CauseFacts<'_>, facts: &Facts<'_>) -> Option<Advice> {
    let proactive = facts.setting(PROACTIVE);
    let defrag = facts.chosen(THP_DEFRAG);
    let is_daemon = cause.sender.as_ref().is_some_and(|(task, _)| task.comm.starts_with("kcompactd"));
    let evidence = [format!(
        "vm.compaction_proactiveness was {}, transparent_hugepage/defrag {}",
        proactive.unwrap_or("unknown"),
        defrag.unwrap_or("unknown")
    )];
    match (is_daemon, proactive, defrag) {
        (true, Some("0"), _) => None,
        (true, _, _) => Some(new(
            cause,
            "let kcompactd work only when it must",
            &evidence,
            "sysctl -w vm.compaction_proactiveness=0".into(),
            "large allocations may wait for compaction later",
        )),
        (false, _, Some("never")) => None,
        (false, _, _) => Some(new(
            cause,
            "do not compact memory in page faults",
            &evidence,
            format!("echo defer+madvise > {THP_DEFRAG}"),
            "only if those were faults for huge pages: look at the stacks first",
        )),
    }
}

fn reclaim(cause: &CauseFacts<'_>, facts: &Facts<'_>) -> Advice {
    let evidence = [format!(
        "{} MiB of memory, vm.swappiness {}",
        facts.environment.memory_kib >> 10,
        facts.setting(SWAPPINESS).unwrap_or("unknown")
    )];
    new(
        cause,
        "keep the victims' memory out of reclaim: lock it, or protect their cgroup, or add memory",
        &evidence,
        "systemctl set-property --runtime UNIT MemoryLow=4G; in code: mlockall(MCL_CURRENT | MCL_FUTURE)"
            .into(),
        "what is protected here is taken elsewhere; choose the size by the unit's use",
    )
}

fn files(cause: &CauseFacts<'_>, facts: &Facts<'_>) -> Advice {
    let (change, caution) = match cause.cause {
        Cause::Truncate => (
            "do not truncate or punch files that others have mapped: write a new file, then rename it",
            "readers keep the old file until they open it again",
        ),
        Cause::Msync => (
            "write with pwrite() instead of through a shared mapping, or sync larger parts less often",
            "what is synced less often is lost in a crash",
        ),
        _ => (
            "write with pwrite() instead of through a shared mapping, keep such files on tmpfs, or write back less often",
            "write-back protects one page at a time; fewer rounds mean more to lose in a crash",
        ),
    };
    let mut evidence = Vec::new();
    let command = match (&cause.cause, facts.setting(WRITEBACK)) {
        (Cause::WriteBack, Some(now)) => {
            evidence.push(format!("vm.dirty_writeback_centisecs was {now}"));
            "sysctl -w vm.dirty_writeback_centisecs=6000 vm.dirty_expire_centisecs=12000".into()
        }
        _ => show(cause, facts),
    };
    new(cause, change, &evidence, command, caution)
}

fn on_request(cause: &CauseFacts<'_>, facts: &Facts<'_>) -> Advice {
    let change = match cause.cause {
        Cause::Migration => "move pages once, before the work (numactl), not while it runs",
        Cause::Userfaultfd => "protect or move larger ranges at once",
        Cause::SoftDirty => "clear soft-dirty bits less often, or track writes by userfaultfd (PAGEMAP_SCAN)",
        Cause::Damon => "lengthen DAMON's intervals, or stop its schemes while latency matters",
        Cause::Mmap => "map fresh ranges instead of mapping over old ones",
        _ => "advise larger ranges less often",
    };
    new(cause, change, &[], show(cause, facts), "somebody asks for it: ask whether they need it")
}

fn who_asks(cause: &CauseFacts<'_>) -> Advice {
    new(
        cause,
        "find out which part of the kernel does it",
        &[],
        format!("ceasefire watch stacks --cause {} --for 10s", cause.cause.name()),
        "pinning threads does not help against flushes of kernel addresses",
    )
}
