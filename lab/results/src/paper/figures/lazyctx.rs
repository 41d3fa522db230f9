// SPDX-License-Identifier: GPL-2.0-only
//! The evaluation of lazy contexts: C. Dougan, P. Mackerras, V. Yodaiken, "Optimizing the Idle Task and Other MMU
//! Tricks" (OSDI 1999), its section about the cost of flushing TLB and hash table.

use super::{Axis, Claim, Counted, Evaluation, Figure, Point, Quantity, Work, CLAIM, COST, MICRO};

/// Its place is one page without a number in the edition that we have.
const SECTION: &str = "Reducing TLB and Hash Table Flush Costs";

/// The 604 has its own TLBs, and the machine no others.
const AT: Point = Point { at: 0, tlb: None, set: &[] };
const ONE: Work = Work { vcpus: &[1], points: &[AT], boot_s: 4.0, repeat_s: 4.0, ..MICRO };
const CALLS: Work = Work { points: &[AT], boot_s: 4.0, repeat_s: 3.0, ..COST };

/// Times, which instructions stand beside and are not judged by.
const TIME: Claim = Claim { quantity: Quantity::Instructions, section: "Table 2", is_aside: true, ..CLAIM };

pub const EVALUATION: Evaluation = Evaluation {
    id: "lazyctx",
    title: "Lazy contexts on a hash table, again",
    paper: "C. Dougan, P. Mackerras, V. Yodaiken, \u{201c}Optimizing the Idle Task and Other MMU Tricks\u{201d} (OSDI 1999)",
    kernels: "lazyctx:search,ppc,lazyctx:off,lazyctx:lazy,lazyctx:lazy-idle",
    out: "out/paper-lazyctx",
    controls: Work { workloads: &["zero"], repeat_s: 0.5, ..ONE },
    differs: &[
        "The paper has microseconds of a 604 at 185 MHz. Here a 604 is emulated: instructions, searches of the hash table and the entries \
         they read are counted, and nothing is timed. An instruction is not a microsecond: sync and tlbie count as one each.",
        "Here it is Linux 6.12, and the code is ours. search flushes as the paper's kernel did before: each address of a range is \
         searched in the hash table. Everything is held against it.",
        "ppc is today's kernel, unchanged. It knows by a bit in each PTE whether the hash table was given an entry, and searches for no other. \
         The paper's kernel did not know. off is the same with our series, switched off.",
        "lazy never looks for old entries in the hash table; lazy-idle takes them out when the CPU is idle, as the paper in the end.",
        "The 603 is left out. Linux 6.12 uses no hash table there.",
    ],
    figures: FIGURES,
};

const fn counted(counted: &'static Counted) -> Quantity {
    Quantity::Counted(counted)
}

/// All entries of the hash table.
const TABLE: &[&str] =
    &["lazyctx.entries_live", "lazyctx.entries_kernel", "lazyctx.entries_zombie", "lazyctx.entries_empty"];

const EVICTS: Quantity = counted(&Counted {
    words: "evicts, % of reloads",
    of: &["lazyctx.evicts"],
    per: &["lazyctx.reloads"],
    cost: false,
});
const USE: Quantity = counted(&Counted {
    words: "hash table in use, %",
    of: &["lazyctx.entries_live", "lazyctx.entries_kernel"],
    per: TABLE,
    cost: false,
});
const ZOMBIES: Quantity =
    counted(&Counted { words: "zombies in it, %", of: &["lazyctx.entries_zombie"], per: TABLE, cost: false });
const HITS: Quantity = counted(&Counted {
    words: "TLB misses found in the hash table, %",
    of: &["lazyctx.searches_found"],
    per: &["lazyctx.searches"],
    cost: false,
});
const MISSES: Quantity =
    counted(&Counted { words: "TLB misses", of: &["lazyctx.tlb_misses"], per: &[], cost: false });
const RELOADS: Quantity =
    counted(&Counted { words: "reloads", of: &["lazyctx.reloads"], per: &[], cost: false });
const REFERENCES: Quantity =
    counted(&Counted { words: "PTEs read", of: &["lazyctx.references"], per: &[], cost: false });

/// So that the kernel counts what is added to the hash table, and asks the machine for its own counts.
const ASK: &str = "lazyctx_count=1";

const UNTOUCHED: &[Point] = &[
    Point { at: 1, set: &[("pages", "1"), ("touch", "none")], ..AT },
    Point { at: 4, set: &[("pages", "4"), ("touch", "none")], ..AT },
    Point { at: 16, set: &[("pages", "16"), ("touch", "none")], ..AT },
    Point { at: 64, set: &[("pages", "64"), ("touch", "none")], ..AT },
    Point { at: 256, set: &[("pages", "256"), ("touch", "none")], ..AT },
    Point { at: 1024, set: &[("pages", "1024"), ("touch", "none")], ..AT },
];
const TOUCHED: &[Point] = &[
    Point { at: 1, set: &[("pages", "1"), ("touch", "all")], ..AT },
    Point { at: 4, set: &[("pages", "4"), ("touch", "all")], ..AT },
    Point { at: 16, set: &[("pages", "16"), ("touch", "all")], ..AT },
    Point { at: 64, set: &[("pages", "64"), ("touch", "all")], ..AT },
    Point { at: 256, set: &[("pages", "256"), ("touch", "all")], ..AT },
    Point { at: 1024, set: &[("pages", "1024"), ("touch", "all")], ..AT },
];

/// 200 pages of each of 8 processes, and 64 fresh ones a turn; and the CPU idle between turns.
const IDLE: &[Point] = &[Point { set: &[("sleep_us", "2000")], ..AT }];
const TURNS: Work = Work { workloads: &["turns"], kernel_args: ASK, ..ONE };

const FIGURES: &[Figure] = &[
    Figure {
        id: "table-2",
        title: "Table 2: lmbench",
        section: SECTION,
        shows: "Instructions per unit: a file of 4 MiB mapped and unmapped, a token handed on among 8 processes, a word there and back through \
                pipes, 64 KiB through a pipe, 64 KiB of a file read again.",
        unanswered: "Times. The paper's mmap takes 2,733 µs on a 604 before, and 33 µs after.",
        differs: &["Table 2 is of the tunable cut-off alone: lazy contexts are there before, too. Bandwidths are shown as what 64 KiB take."],
        claims: &[
            Claim { workload: "mmap of 4 MiB", percent: -98.8, words: "2,733 to 33 µs, an 80 times improvement", is_aside: false, ..TIME },
            Claim { workload: "context-switch", percent: 0.0, words: "4 µs before and after", ..TIME },
            Claim { workload: "pipe-latency", percent: -4.5, words: "22 to 21 µs", ..TIME },
            Claim { workload: "pipe", percent: -4.3, words: "90 to 94 MB/s", ..TIME },
            Claim { workload: "file-reread", percent: -7.3, words: "38 to 41 MB/s", ..TIME },
        ],
        works: &[
            Work {
                name: Some("mmap of 4 MiB"),
                workloads: &["mmap-latency"],
                points: &[Point { set: &[("pages", "1024"), ("touch", "none")], ..AT }],
                ..CALLS
            },
            Work { workloads: &["context-switch", "pipe-latency", "pipe", "file-reread"], ..CALLS },
        ],
        axis: Axis::Workloads,
        plots: &[Quantity::Instructions],
    },
    Figure {
        id: "ranges",
        title: "By the length of the range",
        section: SECTION,
        shows: "Instructions of mmap and munmap of a file, of 1 to 1,024 pages that nobody touches, or that are all read once.",
        unanswered: "The paper has one length.",
        differs: &[],
        claims: &[],
        works: &[
            Work { name: Some("untouched"), workloads: &["mmap-latency"], points: UNTOUCHED, ..CALLS },
            Work { name: Some("touched"), workloads: &["mmap-latency"], points: TOUCHED, ..CALLS },
        ],
        axis: Axis::Points("pages"),
        plots: &[Quantity::Instructions],
    },
    Figure {
        id: "hash-table",
        title: "The hash table, with and without idle time",
        section: SECTION,
        shows: "8 processes by turns. Each maps, writes and unmaps 64 pages, and reads 200 of its own; in the first row it then sleeps, and the \
                CPU idles. The paper: evicts are over 90 % of reloads without reclaim in the idle task, and 30 % with it; use of the table rises \
                from 5 to 15 %, and what is found there at a TLB miss from 85 to 98 %.",
        unanswered: "The mix of programs that the paper counted is not known.",
        differs: &["Use and zombies are those at the end of the run."],
        claims: &[],
        works: &[
            Work { name: Some("idle"), points: IDLE, ..TURNS },
            Work { name: Some("busy"), ..TURNS },
        ],
        axis: Axis::Workloads,
        plots: &[EVICTS, USE, ZOMBIES, HITS, RELOADS, REFERENCES],
    },
    Figure {
        id: "cut-off",
        title: "The cut-off",
        section: SECTION,
        shows: "TLB misses and reloads per turn, with ranges of more than 0, 20 (the paper's) and 1,000 pages flushed by a new id: the last is never. The paper: \
                no more and no fewer TLB misses.",
        unanswered: "Which programs the paper counted.",
        differs: &[],
        claims: &[],
        works: &[
            Work { name: Some("turns, cut-off 0"), workloads: &["turns"], points: IDLE, kernel_args: "lazyctx_count=1 lazyctx_cutoff=0", ..ONE },
            Work { name: Some("turns, cut-off 20"), workloads: &["turns"], points: IDLE, kernel_args: "lazyctx_count=1 lazyctx_cutoff=20", ..ONE },
            Work { name: Some("turns, cut-off 1,000"), workloads: &["turns"], points: IDLE, kernel_args: "lazyctx_count=1 lazyctx_cutoff=1000", ..ONE },
        ],
        axis: Axis::Workloads,
        plots: &[MISSES, RELOADS],
    },
];
