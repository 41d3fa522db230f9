// SPDX-License-Identifier: GPL-2.0-only
//! The evaluation of ABIS: N. Amit, "Optimizing the TLB Shootdown Algorithm with Page Access Tracking" (USENIX ATC
//! 2017). Its figures are quoted, its words are not.

use super::{
    Axis, Claim, Evaluation, Figure, Point, Quantity, Work, APP, CLAIM, COST, MEAN, MICRO, SUM, TLB,
};

/// The paper's request.
const DEFAULT_PAGE: &[Point] = &[Point { at: 0, tlb: TLB, set: &[("bytes", "10701"), ("compress", "0")] }];

/// Without them nothing shows that a count is right.
const CONTROLS: Work = Work { workloads: &["zero", "exactly-n"], repeat_s: 1.0, ..MICRO };

pub const EVALUATION: Evaluation = Evaluation {
    id: "abis",
    title: "The ABIS paper's evaluation, again",
    paper: "N. Amit, \u{201c}Optimizing the TLB Shootdown Algorithm with Page Access Tracking\u{201d} (USENIX ATC 2017)",
    kernels: "vanilla,abis:off,abis:full",
    out: "out/paper",
    controls: CONTROLS,
    differs: &[
        "The paper measures two sockets of 24 cores in all (Haswell, 48 hardware threads). Here 1 to 16 processors are emulated \
         on a few real cores, so nothing is timed: shootdowns are counted, and costs are instructions and modelled cycles.",
        "The paper changes Linux 4.5. Here it is 6.12, which uses PCIDs, leaves idle CPUs alone altogether and batches more, so the \
         unchanged kernel sends less to begin with.",
        "The baseline is the unchanged kernel: the same source and config without the series. The mode off shows what the \
         change costs where it is not used.",
        "The paper gives averages of 5 runs. Here it is the median, with the smallest and the largest.",
    ],
    figures: FIGURES,
};

const FIGURES: &[Figure] = &[
    Figure {
        id: "figure-5",
        title: "vm-scalability: six cases",
        section: "5.1, Figure 5",
        shows: "Shootdowns received, and for anon-r-seq, which causes none, what a page costs.",
        unanswered: "The paper also gives run times (migrate 44 % less, cow-mt 20 % and 15 % less, mmap-read and msync-mt unchanged). \
                     There is no time here to hold against them.",
        differs: &[
            "The six cases are written anew for the lab and are small: thousands of pages, not 32 GB. Each is in docs/reference/workloads.md.",
            "migrate and mmap-read unmap in batches, and a batch is one shootdown or none: look at the pages elided, too.",
            "anon-r-seq costs the paper 9 % of time on hardware; here it is modelled cycles on one processor, and the kernel stops \
             inserting where it does not pay. What it costs otherwise is in the figures of insertion.",
        ],
        claims: &[
            Claim { workload: "migrate", percent: -92.0, words: "92 % fewer", section: "5.1", ..CLAIM },
            Claim { workload: "cow-mt-seq", percent: -97.0, words: "over 97 % fewer", section: "5.1", ..CLAIM },
            Claim { workload: "cow-mt-rand", percent: -97.0, words: "over 97 % fewer", section: "5.1", ..CLAIM },
            Claim { workload: "mmap-read", percent: -98.0, words: "almost all (taken as 98 %)", section: "5.1", ..CLAIM },
            Claim { workload: "msync-mt", percent: -98.0, words: "98 % fewer", section: "5.1", ..CLAIM },
            Claim { workload: "anon-r-seq", quantity: Quantity::Cycles, percent: 9.0, words: "9 % longer (time)", section: "5.1", is_aside: true },
        ],
        works: &[
            Work { workloads: &["migrate", "cow-mt-seq", "cow-mt-rand", "msync-mt"], ..MICRO },
            Work { workloads: &["mmap-read"], units: Some(14336), ..MICRO },
            Work { workloads: &["anon-r-seq"], ..COST },
        ],
        axis: Axis::Workloads,
        plots: &[Quantity::Received, Quantity::Cycles],
    },
    Figure {
        id: "figure-6",
        title: "Apache over processors",
        section: "5.2, Figure 6",
        shows: "Shootdowns sent and received per request, from 1 to 16 vCPUs, and what a request costs.",
        unanswered: "The paper serves 12 % more requests a second with all cores, and between 8 % fewer and 42 % more with some of \
                     them. There is no time here to hold against that.",
        differs: &[
            "The request is for Debian's default page, 10,701 bytes, as it is; the paper does not give the size of its. Server and \
             load generator share the processors; the paper keeps them apart. Larger and compressed files: the next figures.",
            "One server process, so that all threads share one address space; the paper keeps the default number.",
            "Instructions and modelled cycles per request are counted on one vCPU, load generator included, where nothing is shot down: \
             they show what ABIS costs Apache, not what it saves. The requests are ab's there, since wrk ends when it next looks at its \
             clock, and that wait would be counted.",
        ],
        claims: &[
            Claim { workload: "apache", quantity: Quantity::Sent, percent: -90.0, words: "up to 90 % fewer", section: "5.2", ..CLAIM },
            Claim { workload: "apache", percent: -90.0, words: "up to 90 % fewer", section: "5.2", ..CLAIM },
        ],
        works: &[
            Work { workloads: &["apache"], vcpus: &[1, 2, 4, 8, 16], units: Some(400), points: DEFAULT_PAGE, repeat_s: 1.5, ..APP },
            Work { workloads: &["apache"], units: Some(400), points: DEFAULT_PAGE, repeat_s: 5.0, ..COST },
        ],
        axis: Axis::Vcpus,
        plots: &[Quantity::Received, Quantity::Sent, Quantity::Cycles, Quantity::Instructions],
    },
    Figure {
        id: "apache-large",
        title: "Apache over processors, larger files, compressed",
        section: "5.2 (no figure)",
        shows: "The same for files of 120 to 210 KB, compressed on the way out, as Debian configures it: most of the work is the server's own.",
        unanswered: "The paper serves no such files.",
        differs: &["Above 33 pages (132 KiB) the end of a mapping is a flush of everything, and each CPU asked for it loses what it alone held."],
        claims: &[],
        works: &[Work { workloads: &["apache"], vcpus: &[2, 4, 8, 16], units: Some(80), skips_off: true, repeat_s: 10.0, ..APP }],
        axis: Axis::Vcpus,
        plots: &[Quantity::Received, Quantity::Sent],
    },
    Figure {
        id: "apache-file",
        title: "Apache over the size of the file",
        section: "5.2 (no figure)",
        shows: "What is left of the unchanged kernel's shootdowns as the file that is mapped, read and unmapped grows.",
        unanswered: "The paper serves Apache's default page, whose size it does not give, and no other.",
        differs: &[
            "11 stands for Debian's default page of 10,701 bytes; smaller files are not mapped. Compressed on the way out, as Debian configures it.",
            "Above 33 pages (132 KiB) the end of a mapping is a flush of everything, and each CPU asked for it loses what it alone held.",
        ],
        claims: &[],
        works: &[Work {
            workloads: &["apache"],
            units: Some(40),
            skips_off: true,
            points: &[
                Point { at: 11, tlb: TLB, set: &[("bytes", "10701")] },
                Point { at: 32, tlb: TLB, set: &[("bytes", "32768")] },
                Point { at: 64, tlb: TLB, set: &[("bytes", "65536")] },
                Point { at: 128, tlb: TLB, set: &[("bytes", "131072")] },
                Point { at: 195, tlb: TLB, set: &[("bytes", "200000")] },
            ],
            ..APP
        }],
        axis: Axis::Points("KB of the file"),
        plots: &[Quantity::Received],
    },
    Figure {
        id: "figure-7",
        title: "PBZIP2 under memory pressure, over threads",
        section: "5.3, Figure 7",
        shows: "CPUs interrupted by one shootdown, and shootdowns received per MiB of input.",
        unanswered: "The paper compresses up to 12 % faster, the more the more cores. There is no time here to hold against that.",
        differs: &[
            "22 MiB of text in 40 MiB of memory with swap on zram, on up to 8 vCPUs; the paper compresses a kernel's source in 300 MB on \
             up to 48 hardware threads.",
            "The paper narrows 18 targets to 10 at 48 threads. With 8 threads there are 7 others at most, so only the share is comparable.",
            "The paper's shootdowns go on, to fewer targets. Here reclaim mostly finds pages whose access bit has been clear for two rounds \
             of full flushes, and sends none at all: the few that are left are for all. So see what is received, too.",
        ],
        claims: &[
            Claim { workload: "pbzip2", quantity: Quantity::Targets, percent: -44.0, words: "18 become 10, at 48 threads", section: "5.3", ..CLAIM },
            Claim { workload: "pbzip2", percent: -44.0, words: "as many are sent", section: "5.3", is_aside: true, ..CLAIM },
        ],
        works: &[Work { workloads: &["pbzip2"], threads: &[1, 2, 4, 8], repeat_s: 18.0, ..APP }],
        axis: Axis::Threads,
        plots: &[Quantity::Targets, Quantity::Received],
    },
    Figure {
        id: "figure-8",
        title: "A list of multi-threaded programs",
        section: "5.4, Figure 8",
        shows: "Shootdowns received per MiB of input, each program by itself, and the mean of the changes.",
        unanswered: "The paper's programs run between 3 % faster and 2.5 % slower. There is no time here to hold against that.",
        differs: &[
            "The paper runs PARSEC 3.0 with 32 threads. Here it is a list of multi-threaded Debian programs, fixed in \
             workloads/app/list.c before any mechanism was measured, on 8 vCPUs.",
            "Within the paper's mean lie results as far apart as 39 % (dedup) and 91 % (canneal).",
            "Most of these programs send next to nothing: a program with one shootdown a MiB weighs as much in the mean as one with \
             a thousand. The sum is of what is received per MiB, one MiB of each.",
        ],
        claims: &[
            Claim { workload: MEAN, percent: -96.0, words: "96 % fewer on average", section: "5.4", ..CLAIM },
            Claim { workload: SUM, percent: -96.0, words: "96 % fewer on average", section: "5.4", is_aside: true, ..CLAIM },
        ],
        works: &[Work {
            workloads: &["app-7zz", "app-lbzip2", "app-pigz", "app-plzip", "app-sort", "app-xz", "app-zstd"],
            ..APP
        }],
        axis: Axis::Workloads,
        plots: &[Quantity::Received],
    },
    Figure {
        id: "tlb-capacity",
        title: "Gain over TLB capacity",
        section: "5, limitations (no figure)",
        shows: "What is left of the unchanged kernel's shootdowns as the TLB shrinks: an entry that is evicted and used again is one \
                that others may hold.",
        unanswered: "The paper says that the gain needs a TLB that holds a mapping for its lifetime, and has no figure for it.",
        differs: &["Entries of the emulated second-level TLB, of 4 to 12 ways; there is no first level."],
        claims: &[],
        works: &[Work {
            workloads: &["cow-mt-seq", "cow-mt-rand", "msync-mt", "mmap-read"],
            skips_off: true,
            points: &[
                Point { at: 64, tlb: Some("hardware,entries=64,ways=4"), set: &[] },
                Point { at: 128, tlb: Some("hardware,entries=128,ways=4"), set: &[] },
                Point { at: 256, tlb: Some("hardware,entries=256,ways=8"), set: &[] },
                Point { at: 512, tlb: Some("hardware,entries=512,ways=8"), set: &[] },
                Point { at: 1024, tlb: Some("hardware,entries=1024,ways=8"), set: &[] },
                Point { at: 1536, tlb: TLB, set: &[] },
            ],
            ..MICRO
        }],
        axis: Axis::Points("TLB entries"),
        plots: &[Quantity::Received],
    },
    Figure {
        id: "migrations",
        title: "Gain over thread migrations",
        section: "5, limitations (no figure)",
        shows: "What is left of the unchanged kernel's shootdowns as threads change their CPU more often: pages follow their thread, and \
                become shared.",
        unanswered: "The paper names migration a limit and has no figure for it.",
        differs: &[
            "Per 1,000 reads and writes of a thread, not per second: the emulated machine has no seconds. Multiply by how many \
             pages a thread of yours touches in one.",
            "A thread moves at random moments to a random CPU of the 8, each of which has another thread of the process.",
        ],
        claims: &[],
        works: &[Work {
            workloads: &["cow-mt-seq", "cow-mt-rand"],
            skips_off: true,
            points: &[
                Point { at: 0, tlb: TLB, set: &[] },
                Point { at: 1, tlb: TLB, set: &[("moves", "1")] },
                Point { at: 2, tlb: TLB, set: &[("moves", "2")] },
                Point { at: 5, tlb: TLB, set: &[("moves", "5")] },
                Point { at: 20, tlb: TLB, set: &[("moves", "20")] },
            ],
            ..MICRO
        }],
        axis: Axis::Points("migrations per 1,000 page accesses"),
        plots: &[Quantity::Received],
    },
    Figure {
        id: "fault-around",
        title: "Gain over fault-around size",
        section: "4.1 and 5, limitations (no figure)",
        shows: "What is left of the unchanged kernel's shootdowns as one fault maps more of a file: pages that are mapped and not yet \
                used must be let into one TLB alone, or they are taken for shared.",
        unanswered: "The paper says that mapping several pages at once spreads the price of insertion, and has no figure for it.",
        differs: &["In windows above 64 KiB a fault at the edge of a thread's slice maps pages of its neighbour."],
        claims: &[],
        works: &[Work {
            workloads: &["cow-mt-seq", "cow-mt-rand", "mmap-read"],
            skips_off: true,
            points: &[
                Point { at: 4, tlb: TLB, set: &[("fault_around_kib", "4")] },
                Point { at: 16, tlb: TLB, set: &[("fault_around_kib", "16")] },
                Point { at: 64, tlb: TLB, set: &[] },
                Point { at: 256, tlb: TLB, set: &[("fault_around_kib", "256")] },
            ],
            ..MICRO
        }],
        axis: Axis::Points("KiB mapped around a fault"),
        plots: &[Quantity::Received],
    },
    Figure {
        id: "insertion",
        title: "What insertion costs, by the kernel and by hardware",
        section: "4.1 and 7 (no figure)",
        shows: "What is paid where nothing can be gained, one processor, if insertion never stops (abis_adaptive=0): through a second set of \
                page tables (full), and by an operation of the processor (full-hw).",
        unanswered: "The paper gives 550 cycles and more for an insertion, and expects hardware support to do away with most of it.",
        differs: &[
            "The operation exists in the emulated machine alone (docs/reference/machine-insert.md). It is charged as an INVLPG and a walk for each page; \
             what it would cost is not known.",
            "A unit of anon-r-seq is little more than a fault on the zero page here; what the paper's program does with a page it does not say.",
        ],
        claims: &[Claim { workload: "anon-r-seq", quantity: Quantity::Cycles, percent: 9.0, words: "9 % longer (time)", section: "5.1", ..CLAIM }],
        works: &[Work {
            workloads: COSTS,
            points: &[Point { at: 0, tlb: Some("hardware,insert=on"), set: &[] }],
            skips_off: true,
            also: Some("full-hw"),
            kernel_args: "abis_adaptive=0",
            ..COST
        }],
        axis: Axis::Workloads,
        plots: &[Quantity::Cycles, Quantity::Instructions],
    },
    Figure {
        id: "adaptation",
        title: "What insertion costs where it stops",
        section: "5, limitations (no figure)",
        shows: "The same rows as the kernel is by default: an address space in which insertion does not pay stops inserting.",
        unanswered: "The paper has no such mechanism.",
        differs: &["With one processor insertion never pays. What several lose and gain until that is found is in docs/measured/full.md."],
        claims: &[],
        works: &[Work { workloads: COSTS, ..COST }],
        axis: Axis::Workloads,
        plots: &[Quantity::Cycles, Quantity::Instructions],
    },
];

const COSTS: &[&str] = &["anon-r-seq", "munmap", "mprotect", "mmap-latency", "cow-mt-seq", "msync-mt"];
