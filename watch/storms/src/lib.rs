// SPDX-License-Identifier: GPL-2.0-only
//! Storms whose every shootdown, or other cross call, is known beforehand: who sends it, whom it interrupts, why, and for how many pages.
//! One thread calls, another spins on the next CPU in the same address space.
mod advice;
mod calls;
mod files;
pub mod group;
mod kernel;
mod memory;
mod nodes;
mod stage;

use ceasefire_base::{Error, Result};
use serde::{Deserialize, Serialize};

/// What a storm did, as it knows it itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Truth {
    pub storm: String,
    pub sender_tid: u32,
    pub sender_cpu: u32,
    /// Not the storm sends, but kernel threads whose names begin like this, wherever they run.
    pub sender_comm: Option<String>,
    pub victim_tid: u32,
    pub victim_cpu: u32,
    /// Calls that each must send one shootdown of the expected cause.
    pub rounds: u64,
    /// What these calls sent besides, of the same cause: shootdowns of everything; or calls, where none is a flush.
    pub full_besides: u64,
    /// Median time of a call; only of storms of one madvise each.
    pub call_ns_p50: Option<u32>,
    /// The victim was on its CPU all the time: it made progress, and was never switched out.
    pub is_undisturbed: bool,
}

/// How many pages each shootdown of the expected cause asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    Exactly(u64),
    /// The whole.
    Full,
    /// It is no flush.
    None,
}

pub struct Storm {
    pub name: &'static str,
    /// The cause that every counted shootdown must get.
    pub cause: &'static str,
    pub class: &'static str,
    pub pages: Pages,
    /// Shootdowns of that cause for each round; 0: at least one in all.
    pub each: u64,
    /// Others that the same calls bring along.
    pub besides: &'static [&'static str],
    pub rounds: u64,
    /// Nothing in it takes the victim off its CPU, which it has for itself. Else the kernel's own threads, which the storm
    /// waits for, get their turns there.
    pub is_steady: bool,
    run: fn(&mut stage::Stage, u64) -> Result<()>,
}

const fn storm(
    name: &'static str,
    pages: Pages,
    each: u64,
    rounds: u64,
    run: fn(&mut stage::Stage, u64) -> Result<()>,
) -> Storm {
    Storm { name, cause: name, class: "user", pages, each, besides: &[], rounds, is_steady: true, run }
}

pub const PAGES: u64 = 8;
/// Of one call of `msync-range`.
pub const SYNCED_PAGES: u64 = 64;

pub const STORMS: &[Storm] = &[
    storm("madvise-dontneed", Pages::Exactly(PAGES), 1, 5000, memory::dontneed),
    Storm {
        cause: "madvise-dontneed",
        besides: &["munmap", "mprotect"],
        ..storm("threads", Pages::Exactly(PAGES), 0, 2000, memory::threads)
    },
    storm("madvise-free", Pages::Exactly(PAGES), 1, 5000, memory::free),
    Storm { besides: &["madvise-cold"], ..storm("madvise-pageout", Pages::Full, 0, 200, files::pageout) },
    storm("process-madvise", Pages::Exactly(PAGES), 1, 5000, advice::process_madvise),
    storm("guard-install", Pages::Exactly(PAGES), 1, 5000, advice::guard_install),
    // Its worker runs where the kernel puts it: on the victim's CPU it interrupts the caller.
    Storm { is_steady: false, ..storm("io-uring-madvise", Pages::Exactly(PAGES), 0, 2000, advice::io_uring) },
    storm("munmap", Pages::Exactly(PAGES), 1, 5000, memory::munmap),
    storm("mmap", Pages::Exactly(PAGES), 1, 5000, memory::replace),
    storm("brk", Pages::Exactly(PAGES), 1, 5000, memory::brk),
    storm("mprotect", Pages::Exactly(PAGES), 2, 5000, memory::mprotect),
    storm("mremap", Pages::Exactly(PAGES), 1, 5000, memory::mremap),
    storm("cow", Pages::Exactly(1), 1, 5000, memory::cow),
    // Both sides copy what the child shares.
    Storm { besides: &["cow"], ..storm("fork", Pages::Full, 1, 100, memory::fork) },
    storm("userfaultfd", Pages::Exactly(PAGES), 2, 2000, memory::userfaultfd),
    Storm { besides: &["madvise-dontneed", "mmap"], ..storm("thp-split", Pages::Full, 1, 50, memory::split) },
    Storm {
        besides: &["madvise-dontneed"],
        is_steady: false,
        ..storm("madvise-collapse", Pages::Full, 0, 20, advice::collapse)
    },
    storm("msync", Pages::Exactly(1), 1, 100, files::msync),
    Storm { cause: "msync", ..storm("msync-range", Pages::Exactly(1), SYNCED_PAGES, 20, files::msync_range) },
    storm("truncate", Pages::Exactly(PAGES), 1, 2000, files::truncate),
    Storm {
        is_steady: false,
        besides: &["madvise-dontneed", "compaction"],
        ..storm("compaction-request", Pages::Full, 0, 2, advice::compaction)
    },
    Storm { is_steady: false, ..storm("reclaim", Pages::Full, 0, 20, files::reclaim) },
    Storm {
        is_steady: false,
        besides: &["numa-migrate"],
        ..storm("numa-balancing", Pages::Full, 0, 12, nodes::balance)
    },
    // It waits until every CPU has emptied its lists of pages, the victim's, too.
    Storm { is_steady: false, ..storm("migration", Pages::Full, 1, 200, nodes::migrate) },
    storm("soft-dirty", Pages::Full, 1, 1000, memory::soft_dirty),
    // What others have mergeable, guests for instance, is merged, too: ksmd splits their huge pages.
    Storm { is_steady: false, besides: &["thp-split"], ..storm("ksm", Pages::Exactly(1), 0, 5, kernel::ksm) },
    Storm {
        class: "kernel-range",
        besides: &["vmalloc"],
        ..storm("set-memory", Pages::Exactly(1), 1, 500, files::secret)
    },
    Storm {
        class: "kernel-range",
        is_steady: false,
        ..storm("vmalloc", Pages::Full, 0, 20_000, kernel::vmalloc)
    },
    Storm { class: "cross-call", ..storm("membarrier", Pages::None, 1, 5000, calls::membarrier) },
    Storm { class: "cross-call", ..storm("text-patching", Pages::None, 0, 50, calls::text_patching) },
    Storm {
        class: "cross-call",
        is_steady: false,
        ..storm("table-sync", Pages::None, 1, 20, advice::collapse)
    },
    Storm {
        cause: "table-sync",
        class: "cross-call",
        is_steady: false,
        ..storm("hugetlb-exit", Pages::None, 0, 100, advice::hugetlb_exit)
    },
];

pub fn find(name: &str) -> Result<&'static Storm> {
    STORMS.iter().find(|storm| storm.name == name).ok_or_else(|| {
        let names: Vec<&str> = STORMS.iter().map(|storm| storm.name).collect();
        Error::usage(format!("there is no storm named '{name}'"))
            .remedy(format!("choose from {}", names.join(", ")))
    })
}

/// Makes a storm in this process, on the sender's and the victim's CPU, and prints its [`Truth`]. No CPUs: the first two.
pub fn make(name: &str, rounds: u64, cpus: &[u32]) -> Result<()> {
    let storm = find(name)?;
    let rounds = if rounds == 0 { storm.rounds } else { rounds };
    let mut stage = stage::Stage::open(cpus, storm.is_steady)?;
    (storm.run)(&mut stage, rounds)?;
    let truth = stage.close(storm.name, rounds);
    let text = serde_json::to_string(&truth).map_err(|error| Error::failed(format!("no truth: {error}")))?;
    ceasefire_base::exec::print_line(&text);
    Ok(())
}
