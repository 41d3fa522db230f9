// SPDX-License-Identifier: GPL-2.0-only
//! One rule for each cause. Figures come from the window, settings from the record; a rule without either is silent,
//! or says how to find out.

use crate::facts::{CauseFacts, Facts};
use crate::{heap, runtime, Advice};
use ceasefire_base::exec::quote;
use ceasefire_watch_model::Cause;
use ceasefire_watch_views::numbers::count;
use std::ffi::OsStr;

const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const THP_DEFRAG: &str = "/sys/kernel/mm/transparent_hugepage/defrag";
const KHUGEPAGED: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs";
/// The longest sleep there is: 49 days.
const NEVER_MS: &str = "4294967295";
const NUMA: &str = "/proc/sys/kernel/numa_balancing";
const KSM: &str = "/sys/kernel/mm/ksm/run";
const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
const PROACTIVE: &str = "/proc/sys/vm/compaction_proactiveness";
const WRITEBACK: &str = "/proc/sys/vm/dirty_writeback_centisecs";

/// Forks that make a habit.
const FORKS_MIN: u64 = 10;

pub fn new(cause: &CauseFacts<'_>, change: &str, more: &[String], command: String, caution: &str) -> Advice {
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
            heap::memory_given_back(cause, facts)
        }
        Cause::Mprotect => runtime::advice(cause, facts, &[]).unwrap_or_else(|| vec![mprotect(cause, facts)]),
        // Of a runtime's memory, or the program's own.
        Cause::Cow => runtime::advice(cause, facts, &[]).unwrap_or_else(|| vec![cow(cause, facts)]),
        Cause::Mmap => runtime::advice(cause, facts, &[]).unwrap_or_else(|| vec![on_request(cause, facts)]),
        Cause::Fork => vec![fork(cause)],
        Cause::NumaScan | Cause::NumaMigrate => numa(cause, facts).into_iter().collect(),
        Cause::ThpCollapse | Cause::ThpSplit | Cause::MadviseCollapse => {
            thp(cause, facts).into_iter().collect()
        }
        Cause::Ksm => ksm(cause, facts).into_iter().collect(),
        Cause::Compaction | Cause::CompactionRequest => compaction(cause, facts).into_iter().collect(),
        Cause::Reclaim => vec![reclaim(cause, facts)],
        Cause::Msync | Cause::WriteBack | Cause::Truncate => vec![files(cause, facts)],
        Cause::MadvisePageout | Cause::MadviseCold | Cause::Madvise | Cause::GuardInstall => {
            vec![on_request(cause, facts)]
        }
        Cause::ProcessMadvise => heap::memory_given_back(cause, facts),
        Cause::IoUringMadvise => vec![on_request(cause, facts)],
        Cause::Migration | Cause::Userfaultfd | Cause::SoftDirty | Cause::Damon => {
            vec![on_request(cause, facts)]
        }
        Cause::Vmalloc | Cause::SetMemory | Cause::BpfMemory | Cause::ModuleMemory => vec![who_asks(cause)],
        Cause::HugetlbUnshare | Cause::Unknown(_) => vec![who_asks(cause)],
        Cause::Membarrier | Cause::TextPatching | Cause::TableSync => vec![call_asked(cause, facts)],
        // Nothing can be changed, or nothing is known, or it is not for memory's sake.
        Cause::Exit | Cause::OomReaper | Cause::NoStack | Cause::Wakeup | Cause::Call(_) => Vec::new(),
    }
}

pub fn program_asks(cause: &CauseFacts<'_>, facts: &Facts<'_>, evidence: &[String]) -> Advice {
    let (change, caution) = match cause.cause {
        Cause::MadviseDontneed => (
            "keep the memory and use it again, or give back fewer, larger ranges",
            "MADV_FREE sends as many; what another process asks for by process_madvise is that process's to change",
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
        "only taking permissions away interrupts others. Where it tracks writes: userfaultfd (UFFD_FEATURE_WP_ASYNC) with \
         PAGEMAP_SCAN needs no fault for each page. Where a page is toggled only to make other threads pass a barrier: \
         membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) does that without a flush",
    )
}

fn cow(cause: &CauseFacts<'_>, facts: &Facts<'_>) -> Advice {
    let sender = cause.sender.as_ref().map(|(task, _)| task.tgid);
    let forks = sender.map(|tgid| facts.sent_by(tgid, cause.class, &Cause::Fork));
    match forks {
        Some(forks @ FORKS_MIN..) => new(
            cause,
            "do not fork with this much memory: posix_spawn or vfork, or keep the parent small",
            &[format!("the same process forks: {} shootdowns of cause fork", count(forks))],
            "in code: posix_spawn(), or madvise(…, MADV_DONTFORK) for what the child never needs".into(),
            "a child that needs the parent's memory (a snapshot) must not be given MADV_DONTFORK",
        ),
        _ if resets(cause, facts) => new(
            cause,
            "write the image back into memory that stays, instead of dropping its copies",
            &["the same process drops the copies again (madvise, or mmap over them): each reset makes them anew".into()],
            "in code: memcpy() or pread() of what was written, found by userfaultfd (UFFD_FEATURE_WP_ASYNC) and \
             PAGEMAP_SCAN"
                .into(),
            "prefaulting does not help: a reset takes the copies away",
        ),
        none => new(
            cause,
            "write each page once before the threads run (prefault), and lock it",
            &[match none {
                Some(forks @ 1..) => format!(
                    "the same process forks: {} shootdowns of cause fork; if these writes follow a fork, they copy what the \
                     child shares, and posix_spawn or vfork spares them",
                    count(forks)
                ),
                Some(_) => "no shootdown by a fork of that process in this window: the pages are first writes to what was only read before, or to private mappings of files".into(),
                None => "whether that process forks is not known: who sent was not watched".into(),
            }],
            "in code: MAP_POPULATE, or madvise(…, MADV_POPULATE_WRITE), then mlockall(MCL_CURRENT | MCL_FUTURE); ulimit -l unlimited".into(),
            "if it forked before the window, see posix_spawn; locked memory cannot be reclaimed",
        ),
    }
}

/// An image is mapped privately, written to, and dropped, again and again.
fn resets(cause: &CauseFacts<'_>, facts: &Facts<'_>) -> bool {
    let Some(tgid) = cause.sender.as_ref().and_then(|(task, _)| task.process()) else { return false };
    let drops = [Cause::MadviseDontneed, Cause::Mmap, Cause::Munmap]
        .map(|drop| facts.sent_by(tgid, cause.class, &drop))
        .into_iter()
        .max();
    // One drop takes many copies away.
    drops.is_some_and(|drops| drops >= 10 && drops * 512 >= cause.tally.shootdowns)
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
    let evidence = [format!(
        "transparent_hugepage/enabled was {}, khugepaged/scan_sleep_millisecs {}",
        chosen.unwrap_or("unknown"),
        facts.setting(KHUGEPAGED).unwrap_or("unknown")
    )];
    match cause.cause {
        // It asks for itself: no setting of the machine's keeps it from that.
        Cause::MadviseCollapse => Some(new(
            cause,
            "collapse before the threads run, or not at all",
            &evidence,
            format!("{}; or, before exec: prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)", show(cause, facts)),
            "the program asks for it (MADV_COLLAPSE), whatever transparent_hugepage/enabled says; without huge pages TLB \
             misses may rise",
        )),
        _ if chosen == Some("never") => None,
        Cause::ThpCollapse if facts.setting(KHUGEPAGED) == Some(NEVER_MS) => None,
        Cause::ThpCollapse => Some(new(
            cause,
            "keep khugepaged from collapsing pages while it matters",
            &evidence,
            format!("echo {NEVER_MS} > {KHUGEPAGED}"),
            "huge pages then come at first touch only; TLB misses may rise. khugepaged/defrag=0 does not keep it from that",
        )),
        _ => Some(new(
            cause,
            "free and protect whole huge pages (2 MiB, aligned), or have none in that process",
            &evidence,
            "in code: prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) before exec, or madvise(…, MADV_NOHUGEPAGE)"
                .into(),
            "without huge pages TLB misses may rise; measure both",
        )),
    }
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
    if cause.cause == Cause::CompactionRequest {
        return Some(new(
            cause,
            "do not compact memory by hand while the threads run",
            &evidence,
            "grep -r compact_memory /etc/cron* /etc/sysctl* /usr/lib/sysctl.d".into(),
            "somebody writes to vm.compact_memory, or to a node's file compact: the sender's name says who",
        ));
    }
    match (is_daemon, proactive, defrag) {
        (true, Some("0"), _) => None,
        (true, _, _) => Some(new(
            cause,
            "let kcompactd work only when it must",
            &evidence,
            "sysctl -w vm.compaction_proactiveness=0".into(),
            "large allocations may wait for compaction later",
        )),
        // Faults do not compact there; it is something else.
        (false, _, Some("never" | "defer")) => None,
        (false, _, _) => Some(new(
            cause,
            "do not compact memory in page faults",
            &evidence,
            format!("echo defer > {THP_DEFRAG}"),
            "only if those were faults for huge pages: look at the stacks first. defer+madvise would leave them to who \
             asked for huge pages by madvise",
        )),
    }
}

/// Of a machine that lacks memory; or of one group whose limit is reached, by a process in it. kswapd is in none.
fn reclaim(cause: &CauseFacts<'_>, facts: &Facts<'_>) -> Advice {
    if let Some(limit) = cause.process.and_then(|process| process.memory_limit.as_ref()) {
        return new(
            cause,
            "raise the limit of its memory cgroup, or read files with pread() instead of through a mapping",
            &[format!(
                "{} is {} MiB, and was reached {} times",
                limit.path,
                limit.bytes >> 20,
                count(limit.reached)
            )],
            format!("echo {} > {}", limit.bytes.saturating_mul(2), quote(OsStr::new(&limit.path))),
            "all that it maps must fit, or it reclaims as before; systemctl set-property makes it last",
        );
    }
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
            "write with pwrite(), and read with pread(), instead of through a shared mapping, or sync larger parts less often",
            "what is synced less often is lost in a crash",
        ),
        _ => (
            "write with pwrite() instead of through a shared mapping, keep such files on tmpfs, or write back less often",
            "write-back protects one page at a time; fewer rounds mean more to lose in a crash",
        ),
    };
    let mut evidence = Vec::new();
    let command = match (&cause.cause, facts.setting(WRITEBACK)) {
        (Cause::WriteBack, Some(now)) if now.parse().map_or(true, |now: u64| now < 6000) => {
            evidence.push(format!("vm.dirty_writeback_centisecs was {now}"));
            "sysctl -w vm.dirty_writeback_centisecs=6000 vm.dirty_expire_centisecs=12000".into()
        }
        _ => show(cause, facts),
    };
    new(cause, change, &evidence, command, caution)
}

fn on_request(cause: &CauseFacts<'_>, facts: &Facts<'_>) -> Advice {
    let change = match cause.cause {
        Cause::GuardInstall => "install guards once, and keep them, instead of with each use",
        Cause::Migration => "move pages once, before the work (numactl), not while it runs",
        Cause::Userfaultfd => "protect or move larger ranges at once",
        Cause::SoftDirty => "clear soft-dirty bits less often, or track writes by userfaultfd (PAGEMAP_SCAN)",
        Cause::Damon => "lengthen DAMON's intervals, or stop its schemes while latency matters",
        Cause::Mmap => "use the mapping again: read into it (pread), or clear it, instead of mapping over it",
        _ => "advise larger ranges less often",
    };
    new(cause, change, &[], show(cause, facts), "somebody asks for it: ask whether they need it")
}

/// Other cross calls: no flush, so nothing that spares flushes helps.
fn call_asked(cause: &CauseFacts<'_>, facts: &Facts<'_>) -> Advice {
    let (change, caution) = match cause.cause {
        Cause::Membarrier => (
            "call membarrier less often: once for many objects that wait for it",
            "it interrupts the CPUs that run threads of the process, or of every process if it is asked for all",
        ),
        Cause::TextPatching => (
            "start what changes the kernel's code before the work, and let it run: perf, tracing, BPF programs, sysctls",
            "each start and each end interrupts every CPU, isolated ones, too",
        ),
        _ => (
            "collapse huge pages, and let go of shared huge page tables, before the threads run",
            "it interrupts every CPU, whatever runs there",
        ),
    };
    let command = match facts.environment.has_user_stacks {
        true => format!(
            "ceasefire watch report FILE --view stacks --folded --cross-calls --cause {}",
            cause.cause.name()
        ),
        false => format!(
            "ceasefire watch stacks --folded --user-stacks --cross-calls --cause {} --for 10s",
            cause.cause.name()
        ),
    };
    new(cause, change, &[], command, caution)
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
