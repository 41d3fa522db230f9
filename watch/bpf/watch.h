/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the probes and the observer agree on. watch/core/src/wire.rs is its mirror; a test compares the sizes.
 *
 * shootdown  one initiator asks other CPUs to flush; lives in a slot of the initiator's CPU until all have answered
 * answer     what one target did about it; lives in a row of its own until the initiator adds it up
 */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;

#define BUCKETS 32		/* log2; bucket n holds values of n significant bits */
#define SLOTS 4			/* shootdowns of one CPU that may still be unread */
#define MASK_WORDS 16		/* target CPUs named in an event: 1,024 */
#define COMM_BYTES 16
#define USER_FUNCTIONS_MAX 2
#define FUNCTIONS_MAX 8
#define KERNEL_FRAMES 32
#define USER_FRAMES 48
#define NO_SYSCALL 0xffff
#define NO_STACK (-1)
#define NO_THREAD 0xffffffffu	/* who ran when it was interrupted was not seen */
/* Flushes and other calls of a CPU follow each other apart: an interrupt may send the one amid the other. */
#define LANES 2
#define LANE_FLUSHES 0
#define LANE_CALLS 1

enum class {
	CLASS_USER,		/* settings.user_functions: flush_tlb_func, and one that flushes single CPUs */
	CLASS_KERNEL,		/* do_flush_tlb_all, do_kernel_range_flush, __cpa_flush_* */
	CLASS_OWN,		/* sent by the observer itself */
	CLASS_CALL,		/* any other function that one CPU has another run */
	CLASSES
};

enum kind {
	KIND_RANGED,
	KIND_NESTED,		/* full: another thread was unmapping the same address space */
	KIND_BATCHED,		/* full: pages of several address spaces at once */
	KIND_WHOLE,		/* full: range over the ceiling, or all of it was asked for */
	KIND_UNKNOWN		/* what was asked could not be read */
};

enum lost {
	LOST_SLOT,		/* its slot was still being read */
	LOST_EVENT,		/* the ring buffer was full */
	LOST_STACK,		/* no stack, or no room for it */
	LOST_ROW,		/* no room for a sender, site, victim or pair */
	LOST_ANSWER,		/* a target whose shootdown is not known, or that was not seen to answer */
	LOST_KINDS
};

struct tally {
	u64 shootdowns;
	u64 targets;
	u64 pages;		/* of ranged ones */
	u64 entries;		/* the same in strides */
	u64 wait_ns;
	u64 wait_ns_max;
};

struct histogram {
	u64 buckets[BUCKETS];
};

struct site_key {
	s32 kernel_stack;
	u32 function;		/* of a call; the rest of its address is all ones */
	u16 syscall;
	u8 argument;		/* madvise's advice */
	u8 class_;
	u8 kind;
	u8 freed_tables;
	u16 pad;
};

struct site {
	struct tally tally;
	u64 calls;		/* system calls that came from here, where those are timed */
	u64 call_ns;		/* the whole of them */
	u64 delivery_ns;
	u64 handler_ns;
	struct histogram pages, targets, delivery, handler, wait;
};

struct sender_key {
	u32 tgid;
	u32 tid;
	s32 user_stack;
	u32 cpu;
	u64 user_top;		/* top word of the user stack; with no user stack 0 */
	struct site_key site;
};

struct sender {
	struct tally tally;
	u64 cgroup;
	char comm[COMM_BYTES];
};

struct victim_key {
	u32 cpu;
	u32 tid;
	u32 class_;
	u32 pad;
};

struct victim {
	u64 interruptions;
	u64 delivery_ns;
	u64 stolen_ns;
	u64 stolen_ns_max;
	u64 cgroup;
	u32 tgid;
	u32 pad;
	char comm[COMM_BYTES];
	struct histogram stolen;
};

struct pair_key {
	u32 sender_tid;
	u32 victim_tid;
	u32 sender_cpu;
	u32 victim_cpu;
	u32 class_;
	u32 pad;
};

struct pair {
	u64 interruptions;
	u64 stolen_ns;
	u64 stolen_ns_max;
};

struct targets_key {
	u32 class_;
	u32 targets_log2;
};

struct total {
	u64 requests;		/* asked for, whoever was left to ask */
	u64 shootdowns;		/* at least one target */
	u64 queued;
	u64 handled;
	u64 filtered;		/* targets the filters left out */
};

/* Of one CPU. */
struct interrupts {
	u64 told;		/* something ran in it that was told of */
	u64 silent;
	u64 is_open;		/* nothing has run in the last one so far */
};

#define MOMENTS 256		/* kept by each CPU: the last 2.56 s */
#define MOMENT_NS 10000000ull

/* What shootdowns of one CPU did in 10 ms. */
struct moment {
	u32 number;		/* of 10 ms, CLOCK_MONOTONIC */
	u32 received;
	u64 stolen_ns;
};

struct moments {
	struct moment of[MOMENTS];
};

struct event {
	u64 start_ns;		/* first target queued, CLOCK_MONOTONIC */
	u64 wait_ns;		/* until the last target was done */
	u64 delivery_ns_max;
	u64 handler_ns_max;
	u64 delivery_ns;	/* sums over the targets */
	u64 handler_ns;
	u64 address;
	u64 pages;
	u64 cgroup;
	u64 user_top;
	u64 mask[MASK_WORDS];
	u32 targets;
	u32 answered;
	u32 cpu;
	u32 tgid;
	u32 tid;
	s32 kernel_stack;
	s32 user_stack;
	u32 stride_shift;
	u32 slowest_tid;
	u32 slowest_cpu;
	u16 syscall;
	u8 argument;
	u8 class_;
	u8 kind;
	u8 freed_tables;
	u8 pad[2];
	char comm[COMM_BYTES];
	char slowest_comm[COMM_BYTES];
};

#define UNCLOSED_NS_MAX 50000000ull	/* then no local run comes any more */

/* What the sweep is called with. */
struct sweep_context {
	u64 unanswered_ns_max;	/* shootdowns that are older lack an answer for good */
};

/* Fixed before the probes are loaded. */
struct settings {
	u64 user_functions[USER_FUNCTIONS_MAX];	/* addresses; 0 matches nothing */
	u64 kernel_functions[FUNCTIONS_MAX];
	u64 wakeup_function;	/* runs once for all threads that are to be woken: who asked is not known there */
	u64 wait_ns_min;	/* shorter ones are counted, not described */
	u64 event_handler_ns_min;
	/* Filters on the sender; 0 or -1 is none. */
	u64 only_comm[COMM_BYTES / 8];
	u64 only_cgroup;
	u32 only_tgid;
	u32 only_tid;
	s32 only_cpu;
	u32 own_tgid;
	u32 cpus;
	u8 has_csd;		/* else: tlb_flush alone */
	u8 want_kernel_stacks;
	u8 want_user_stacks;
	u8 want_latency;	/* the receiving side: delivery, handler, wait, victims */
	u8 want_senders;
	u8 want_histograms;
	u8 want_pairs;
	u8 want_events;
	u32 only_cgroup_level;	/* below the root of the hierarchy: those below it belong to it */
	u32 want_requests;	/* of processes with threads, whoever else is asked */
	u32 want_calls;		/* other functions than flushes */
	u32 want_whole_calls;	/* how long system calls took that sent */
	u32 pad;
};
