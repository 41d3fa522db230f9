/* SPDX-License-Identifier: GPL-2.0-only */
/* Maps and settings. Settings are fixed before loading, so that the verifier drops the code of what is not wanted. */
#pragma once
#include "watch.h"

/* In a section of its own, so that the observer finds it. */
const volatile struct settings settings SEC(".rodata.settings");

enum state { FREE, OPEN, SWEEPING };

struct slot {
	u32 state;
	u32 sequence;		/* of its lane */
	u32 targets;		/* queued */
	u32 answered;		/* handled */
	u32 filtered;
	u32 last_target;	/* plus one: head of the list of answers */
	u32 highest_target;	/* plus one */
	u32 is_closed;		/* the local run came: no more targets */
	u64 start_ns;
	u64 end_ns;		/* the last answer so far */
	u64 address;
	u64 pages;
	u64 cgroup;
	u32 cpu;
	u32 tgid;
	u32 tid;
	s32 user_stack;
	u32 stride_shift;
	u32 pad;
	u64 user_top;
	u64 callsite;		/* of a call */
	u64 is_async;		/* its sender goes on at once */
	struct site_key site;
	char comm[COMM_BYTES];
};

struct answer {
	u64 queued_ns;
	u64 entry_ns;
	u64 exit_ns;
	u64 cgroup;
	u32 tid;
	u32 tgid;
	u32 next;		/* target plus one */
	u32 is_done;
	char comm[COMM_BYTES];
};

struct begun {
	u64 ns;
	struct site_key site;
	u64 is_sender;
};

/* Which call a csd was queued for. */
struct called {
	u32 slot;
	u32 sequence;
};

/* Which of its slots a lane of a CPU uses. */
struct turn {
	u32 sequence;
	u32 is_armed;		/* a request was announced, its targets are to come */
	u64 announced_pages;
};

#define MAP(name_, type_, key_, value_, max_)		\
	struct {					\
		__uint(type, type_);			\
		__uint(max_entries, max_);		\
		__type(key, key_);			\
		__type(value, value_);			\
	} name_ SEC(".maps")

/* Sized at load: lanes, lanes * SLOTS, lanes * SLOTS * cpus, cpus * cpus, a few thousand, cpus. */
MAP(turns, BPF_MAP_TYPE_ARRAY, u32, struct turn, 1);
MAP(slots, BPF_MAP_TYPE_ARRAY, u32, struct slot, 1);
MAP(answers, BPF_MAP_TYPE_ARRAY, u32, struct answer, 1);
MAP(initiators, BPF_MAP_TYPE_HASH, u64, u32, 1);
/* Those of calls come and go with requests and stacks. */
MAP(callers, BPF_MAP_TYPE_LRU_HASH, u64, struct called, 1);
/* Work queued for a CPU that no tracepoint tells of when it runs. */
MAP(irq_works, BPF_MAP_TYPE_ARRAY, u32, u64, 1);
MAP(interrupts, BPF_MAP_TYPE_PERCPU_ARRAY, u32, struct interrupts, 1);
/* When this CPU entered the flush that it runs now. */
MAP(entries, BPF_MAP_TYPE_PERCPU_ARRAY, u32, u64, 1);

/* System calls that have begun, by thread. */
MAP(begun, BPF_MAP_TYPE_LRU_HASH, u32, struct begun, 1);
MAP(moments, BPF_MAP_TYPE_PERCPU_ARRAY, u32, struct moments, 1);

MAP(totals, BPF_MAP_TYPE_PERCPU_ARRAY, u32, struct total, CLASSES);
MAP(losses, BPF_MAP_TYPE_PERCPU_ARRAY, u32, u64, LOST_KINDS);
MAP(senders, BPF_MAP_TYPE_HASH, struct sender_key, struct sender, 16384);
MAP(sites, BPF_MAP_TYPE_HASH, struct site_key, struct site, 2048);
MAP(requests, BPF_MAP_TYPE_HASH, struct site_key, u64, 2048);
MAP(victims, BPF_MAP_TYPE_HASH, struct victim_key, struct victim, 16384);
MAP(pairs, BPF_MAP_TYPE_HASH, struct pair_key, struct pair, 32768);
MAP(by_targets, BPF_MAP_TYPE_HASH, struct targets_key, struct histogram, 64);

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 8192);
	__uint(key_size, sizeof(u32));
	__uint(value_size, KERNEL_FRAMES * sizeof(u64));
} kernel_stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 16384);
	__uint(key_size, sizeof(u32));
	__uint(value_size, USER_FRAMES * sizeof(u64));
} user_stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 * 1024 * 1024);
} events SEC(".maps");

static __always_inline void lose_many(u32 kind, u64 many)
{
	u64 *count = bpf_map_lookup_elem(&losses, &kind);

	if (count)
		*count += many;
}

static __always_inline void lose(u32 kind)
{
	lose_many(kind, 1);
}

static __always_inline struct total *total_of(u32 class_)
{
	return bpf_map_lookup_elem(&totals, &class_);
}
