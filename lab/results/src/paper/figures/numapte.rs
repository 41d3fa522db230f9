// SPDX-License-Identifier: GPL-2.0-only
//! The evaluation of numaPTE: B. Gao and others, "numaPTE: Managing Page-Tables and TLBs on NUMA Systems"
//! (arXiv:2401.15558). Of its text we know the abstract alone, which gives times. What counting can hold against it follows
//! from the scheme that the abstract names: an operation interrupts the nodes that use the page table, and no other.

use super::{Axis, Claim, Evaluation, Figure, Point, Quantity, Work, APP, CLAIM, COST, MICRO, TLB};

/// 16 CPUs on four nodes.
const FOUR: Work =
    Work { vcpus: &[16], nodes: Some(4), skips_off: true, boot_s: 6.0, repeat_s: 2.0, ..MICRO };

const REGIONS: Work = Work { workloads: &["numa-regions"], ..FOUR };
const SERVERS: Work =
    Work { vcpus: &[16], nodes: Some(4), skips_off: true, boot_s: 8.0, repeat_s: 10.0, ..APP };

const AT: Point = Point { at: 0, tlb: TLB, set: &[] };

/// What the paper has beside a figure of ours that its abstract does not speak of.
const UNKNOWN: &str = "What the paper has for this we do not know.";

/// What all of its claims have.
const DERIVED: Claim = Claim { section: "abstract; derived", ..CLAIM };

/// One region of each thread, used on its own node.
const MUNMAP: &[Point] = &[Point { set: &[("op", "munmap")], ..AT }];
const MPROTECT: &[Point] = &[Point { set: &[("op", "mprotect")], ..AT }];
const SPREAD: &[Point] = &[Point { set: &[("cpus", "spread")], ..AT }];

pub const EVALUATION: Evaluation = Evaluation {
    id: "numapte",
    title: "The numaPTE paper's evaluation, again",
    paper: "B. Gao and others, \u{201c}numaPTE: Managing Page-Tables and TLBs on NUMA Systems\u{201d} (arXiv:2401.15558)",
    kernels: "vanilla,numapte:off,numapte:eager,numapte:on,abis-numapte:full+on",
    out: "out/paper-numapte",
    controls: Work { workloads: &["zero", "exactly-n"], ..FOUR },
    differs: &[
        "The paper measures run times, on machines of 4 and 8 sockets. Here 16 processors on 4 or 8 nodes are emulated on a few real \
         cores, so nothing is timed: shootdowns and the reads of page walks are counted.",
        "We know the paper's abstract, and not its figures. What is held against it is derived from its scheme: an operation on a page \
         table interrupts the processors of the nodes that use it, and no others.",
        "Here it is Linux 6.12, and the code is ours. eager is full replication, which the paper compares itself with: every change goes \
         to every node, and every node is interrupted.",
        "full+on is ABIS and numaPTE in one kernel, which no paper has.",
        "The baseline is the unchanged kernel: the same source without the series.",
    ],
    figures: FIGURES,
};

const FIGURES: &[Figure] = &[
    Figure {
        id: "spinners",
        title: "munmap and mprotect, over spinners on other nodes",
        section: "abstract",
        shows: "One thread on node 0 changes 16 pages that nobody else uses. The others spin on the other three nodes: 0 to 4 on each.",
        unanswered: "The paper finds up to 40 times the cost for munmap and mprotect. There is no time here to hold against it: shootdowns \
                     received stand for it.",
        differs: &["munmap also maps and touches its pages; mprotect takes a right and gives it back, and flushes twice."],
        claims: &[
            Claim { workload: "mprotect", percent: -100.0, words: "no node but its own uses the page table", ..DERIVED },
            Claim { workload: "munmap", percent: -100.0, words: "no node but its own uses the page table", ..DERIVED },
        ],
        works: &[Work {
            workloads: &["mprotect", "munmap"],
            threads: &[1, 4, 7, 10, 13],
            points: &[Point { set: &[("pages", "16"), ("cpus", "apart")], ..AT }],
            ..FOUR
        }],
        axis: Axis::Threads,
        plots: &[Quantity::Received],
    },
    Figure {
        id: "private",
        title: "What one node uses, four nodes",
        section: "abstract",
        shows: "Each thread changes memory that its own node alone has used. In one row another node has mapped it. In another the thread has \
                moved to another node since it used it.",
        unanswered: UNKNOWN,
        differs: &[
            "numa-regions counts the change alone, munmap and mprotect the whole life of their pages.",
            "Where the thread has moved, all 4 CPUs of the node that it left are others: 4 of 15.",
            "Opted in: ABIS may keep mprotect's pages to the CPU alone. Without that it must not (docs/use/compatibility.md).",
        ],
        claims: &[
            Claim { workload: "region, munmap", percent: -80.0, words: "3 of 15 CPUs are on its node", ..DERIVED },
            Claim { workload: "region, mprotect", percent: -80.0, words: "3 of 15 CPUs are on its node", ..DERIVED },
            Claim { workload: "region, mapped by another node", percent: -80.0, words: "3 of 15 CPUs are on its node", ..DERIVED },
            Claim { workload: "region, its user has moved", percent: -73.0, words: "4 of 15 CPUs are on the node that it left", ..DERIVED },
            Claim { workload: "munmap", percent: -80.0, words: "3 of 15 CPUs are on its node", ..DERIVED },
            Claim { workload: "mprotect", percent: -80.0, words: "3 of 15 CPUs are on its node", ..DERIVED },
            Claim { workload: "mprotect, opted in", percent: -80.0, words: "3 of 15 CPUs are on its node", ..DERIVED },
            Claim { workload: "madvise-scaling", percent: -80.0, words: "3 of 15 CPUs are on its node", ..DERIVED },
        ],
        works: &[
            Work { name: Some("region, munmap"), points: MUNMAP, ..REGIONS },
            Work { name: Some("region, mprotect"), points: MPROTECT, ..REGIONS },
            Work {
                name: Some("region, mapped by another node"),
                points: &[Point { set: &[("op", "munmap"), ("mapper", "other")], ..AT }],
                ..REGIONS
            },
            Work {
                name: Some("region, its user has moved"),
                points: &[Point { set: &[("op", "munmap"), ("move", "1")], ..AT }],
                ..REGIONS
            },
            Work { workloads: &["munmap", "mprotect", "madvise-scaling"], points: SPREAD, ..FOUR },
            Work {
                name: Some("mprotect, opted in"),
                workloads: &["mprotect"],
                points: &[Point { set: &[("opt-in", "1"), ("cpus", "spread")], ..AT }],
                ..FOUR
            },
        ],
        axis: Axis::Workloads,
        plots: &[Quantity::Received],
    },
    Figure {
        id: "eight-nodes",
        title: "What one node uses, eight nodes; memcached there",
        section: "abstract",
        shows: "The same on eight nodes of two processors.",
        unanswered: UNKNOWN,
        differs: &["One of 15 others is on the same node."],
        claims: &[
            Claim { workload: "region, munmap", percent: -93.0, words: "1 of 15 CPUs is on its node", ..DERIVED },
            Claim { workload: "region, mprotect", percent: -93.0, words: "1 of 15 CPUs is on its node", ..DERIVED },
        ],
        works: &[
            Work { name: Some("region, munmap"), points: MUNMAP, nodes: Some(8), ..REGIONS },
            Work { name: Some("region, mprotect"), points: MPROTECT, nodes: Some(8), ..REGIONS },
            Work { workloads: &["memcached"], nodes: Some(8), ..SERVERS },
        ],
        axis: Axis::Workloads,
        plots: &[Quantity::Received],
    },
    Figure {
        id: "shared",
        title: "Over the nodes that have read it",
        section: "abstract",
        shows: "What is left of the unchanged kernel's shootdowns when 0 to 3 other nodes have read the region. With 3, nothing may be left out by \
                node: a gain there would be a bug of numaPTE. ABIS tells pages apart, and every page was read.",
        unanswered: UNKNOWN,
        differs: &["Where n nodes use a page table, 4 n - 1 of 15 are interrupted: 20, 47, 73 and 100 %."],
        claims: &[],
        works: &[
            Work {
                name: Some("region, munmap"),
                points: &[
                    Point { at: 0, set: &[("op", "munmap")], ..AT },
                    Point { at: 1, set: &[("op", "munmap"), ("readers", "1")], ..AT },
                    Point { at: 2, set: &[("op", "munmap"), ("readers", "2")], ..AT },
                    Point { at: 3, set: &[("op", "munmap"), ("readers", "3")], ..AT },
                ],
                ..REGIONS
            },
            Work {
                name: Some("region, mprotect"),
                points: &[
                    Point { at: 0, set: &[("op", "mprotect")], ..AT },
                    Point { at: 1, set: &[("op", "mprotect"), ("readers", "1")], ..AT },
                    Point { at: 2, set: &[("op", "mprotect"), ("readers", "2")], ..AT },
                    Point { at: 3, set: &[("op", "mprotect"), ("readers", "3")], ..AT },
                ],
                ..REGIONS
            },
        ],
        axis: Axis::Points("other nodes that have read it"),
        plots: &[Quantity::Received],
    },
    Figure {
        id: "false-sharing",
        title: "Pages of several nodes in one page table",
        section: "abstract",
        shows: "Regions of all threads lie side by side, so that nodes share the page tables of each 2 MiB. Then munmap of pages where the \
                kernel puts them: as Linux does, and with numapte_segregate=1.",
        unanswered: UNKNOWN,
        differs: &["Where the program chooses the addresses, as numa-regions does, no setting of the kernel can keep nodes apart."],
        claims: &[],
        works: &[
            Work {
                name: Some("region, side by side"),
                points: &[Point { set: &[("op", "mprotect"), ("layout", "packed")], ..AT }],
                ..REGIONS
            },
            Work { workloads: &["munmap"], points: SPREAD, ..FOUR },
            Work {
                name: Some("munmap, segregated"),
                workloads: &["munmap"],
                points: SPREAD,
                kernel_args: "numapte_segregate=1",
                ..FOUR
            },
        ],
        axis: Axis::Workloads,
        plots: &[Quantity::Received],
    },
    Figure {
        id: "unchanged",
        title: "What everyone uses, and fork",
        section: "abstract",
        shows: "Where every node has used the page, nothing can be left out. fork flushes the whole address space. Pages that are copied on write are \
                flushed on the nodes that use them.",
        unanswered: UNKNOWN,
        differs: &["A gain of munmap-shared would be a bug."],
        claims: &[],
        works: &[
            Work { workloads: &["munmap-shared", "fork", "cow-mt-seq"], points: SPREAD, ..FOUR },
            Work {
                name: Some("fork, the parent writes 64 pages"),
                workloads: &["fork"],
                points: &[Point { set: &[("pages", "64"), ("writer", "parent"), ("cpus", "spread")], ..AT }],
                ..FOUR
            },
        ],
        axis: Axis::Workloads,
        plots: &[Quantity::Received],
    },
    Figure {
        id: "servers",
        title: "Web servers and key-value stores, four nodes",
        section: "abstract",
        shows: "Shootdowns received per request or operation.",
        unanswered: "The paper improves the run time of its web server by 12 % and of memcached by 36 %. There is no time here to hold against that.",
        differs: &[
            "Apache serves files of 120 to 210 KB, compressed; and, uncompressed, Debian's default \
             page of 10,701 bytes. A server's threads go where the scheduler puts them.",
            "numapte_segregate=2 gives each mapping page tables of its own.",
            "nginx has one process and a pool of threads, and maps no file. redis, saving: one client asks for a save after each 200 of its \
             operations.",
        ],
        claims: &[],
        works: &[
            Work { workloads: &["apache"], units: Some(80), ..SERVERS },
            Work { name: Some("apache, segregated"), workloads: &["apache"], units: Some(80), kernel_args: "numapte_segregate=2", ..SERVERS },
            Work {
                name: Some("apache, 10,701 bytes"),
                workloads: &["apache"],
                units: Some(400),
                points: &[Point { set: &[("bytes", "10701"), ("compress", "0")], ..AT }],
                ..SERVERS
            },
            Work { workloads: &["nginx", "memcached", "redis"], ..SERVERS },
            Work {
                name: Some("redis, saving"),
                workloads: &["redis"],
                points: &[Point { set: &[("save", "200")], ..AT }],
                ..SERVERS
            },
        ],
        axis: Axis::Workloads,
        plots: &[Quantity::Received],
    },
    Figure {
        id: "walks",
        title: "What page walks read on other nodes",
        section: "abstract",
        shows: "All memory is mapped by the first thread, so that the unchanged kernel has its page tables on node 0, and all nodes use it.",
        unanswered: UNKNOWN,
        differs: &[
            "32 MiB of data: enough to exceed the modelled TLB, and far less than such programs have.",
            "Priced: a read on another node counts as 1.5 of one's own (1.29 to 1.71, the ends of the bars), the walk cycles of the programs of the \
             Mitosis artifact (ASPLOS 2020). Caches, which make both cheaper, are not modelled.",
        ],
        claims: &[
            Claim { workload: "gups", quantity: Quantity::RemoteReads, percent: -99.0, words: "full replication's benefit", ..DERIVED },
            Claim { workload: "btree", quantity: Quantity::RemoteReads, percent: -99.0, words: "full replication's benefit", ..DERIVED },
            Claim { workload: "hash-join", quantity: Quantity::RemoteReads, percent: -99.0, words: "full replication's benefit", ..DERIVED },
            Claim { workload: "xs-lookup", quantity: Quantity::RemoteReads, percent: -99.0, words: "full replication's benefit", ..DERIVED },
        ],
        works: &[Work {
            workloads: &["gups", "btree", "hash-join", "xs-lookup"],
            points: &[Point { set: &[("warm", "1"), ("mib", "32")], ..AT }],
            ..FOUR
        }],
        axis: Axis::Workloads,
        plots: &[Quantity::RemoteReads, Quantity::PricedReads],
    },
    Figure {
        id: "memory",
        title: "Memory for page tables",
        section: "abstract",
        shows: "Each thread reads 8 MiB of its own (private), or all nodes read all of it (shared).",
        unanswered: UNKNOWN,
        differs: &["Pages of page tables at the end of the run, replicas included."],
        claims: &[],
        works: &[
            Work {
                name: Some("region, private"),
                units: Some(16),
                points: &[Point { set: &[("pages", "2048"), ("op", "read")], ..AT }],
                ..REGIONS
            },
            Work {
                name: Some("region, shared"),
                units: Some(16),
                points: &[Point { set: &[("pages", "2048"), ("op", "read"), ("readers", "3")], ..AT }],
                ..REGIONS
            },
        ],
        axis: Axis::Workloads,
        plots: &[Quantity::TablePages],
    },
    Figure {
        id: "short-runs",
        title: "What a short search of a graph loses",
        section: "abstract",
        shows: "Instructions and modelled cycles of a breadth-first search of 4 MiB, on one processor, replicas included that it makes.",
        unanswered: UNKNOWN,
        differs: &["numapte_forced=3: two nodes get replicas, one of them without processors, so that the count repeats."],
        claims: &[],
        works: &[Work {
            workloads: &["bfs"],
            nodes: Some(4),
            points: &[Point { set: &[("mib", "4")], ..AT }],
            kernel_args: "numapte_forced=3",
            repeat_s: 4.0,
            ..COST
        }],
        axis: Axis::Workloads,
        plots: &[Quantity::Instructions, Quantity::Cycles],
    },
];
