/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A finished shootdown is added to the maps. It happens in the initiator's next local run, while that waits for its
 * targets anyway, or in the sweep; whoever turns OPEN into FREE or SWEEPING does it, and nobody else.
 */
#pragma once
#include "state.bpf.h"

/* Global functions are verified once, not at each call. */
__noinline u32 log2_bucket(u64 value)
{
	u32 bits = 0;

	if (value >> 32)
		return BUCKETS - 1;
	if (value >> 16) {
		bits += 16;
		value >>= 16;
	}
	if (value >> 8) {
		bits += 8;
		value >>= 8;
	}
	if (value >> 4) {
		bits += 4;
		value >>= 4;
	}
	if (value >> 2) {
		bits += 2;
		value >>= 2;
	}
	if (value >> 1) {
		bits += 1;
		value >>= 1;
	}
	bits += value;
	return bits < BUCKETS ? bits : BUCKETS - 1;
}

static __always_inline void histogram_add(struct histogram *histogram, u64 value)
{
	u32 bucket = log2_bucket(value);

	if (bucket < BUCKETS)
		__sync_fetch_and_add(&histogram->buckets[bucket], 1);
}

/* Two CPUs may raise one maximum at once: two tries, then the other's value stands. */
static __always_inline void raise(u64 *maximum, u64 value)
{
	u64 seen = *(volatile u64 *)maximum;

	if (seen >= value || __sync_val_compare_and_swap(maximum, seen, value) == seen)
		return;
	seen = *(volatile u64 *)maximum;
	if (seen < value)
		__sync_val_compare_and_swap(maximum, seen, value);
}

static __always_inline void tally_add(struct tally *tally, const struct slot *slot, u64 wait_ns)
{
	__sync_fetch_and_add(&tally->shootdowns, 1);
	__sync_fetch_and_add(&tally->targets, slot->targets);
	if (slot->site.kind == KIND_RANGED) {
		__sync_fetch_and_add(&tally->pages, slot->pages);
		__sync_fetch_and_add(&tally->entries, (slot->pages << 12) >> (slot->stride_shift & 63));
	}
	if (settings.want_latency) {
		__sync_fetch_and_add(&tally->wait_ns, wait_ns);
		raise(&tally->wait_ns_max, wait_ns);
	}
}

static struct site site_zero;
static struct victim victim_zero;
static struct histogram histogram_zero;

static __always_inline struct site *site_of(struct site_key *key)
{
	struct site *site = bpf_map_lookup_elem(&sites, key);

	if (!site) {
		bpf_map_update_elem(&sites, key, &site_zero, BPF_NOEXIST);
		site = bpf_map_lookup_elem(&sites, key);
		if (!site)
			lose(LOST_ROW);
	}
	return site;
}

static __always_inline void sender_add(struct slot *slot, u64 wait_ns)
{
	struct sender_key key = {
		.tgid = slot->tgid,
		.tid = slot->tid,
		.user_stack = slot->user_stack,
		.cpu = slot->cpu,
		.user_top = slot->user_top,
		.site = slot->site,
	};
	struct sender *sender = bpf_map_lookup_elem(&senders, &key);

	if (!sender) {
		struct sender fresh = { .cgroup = slot->cgroup };

		__builtin_memcpy(fresh.comm, slot->comm, COMM_BYTES);
		bpf_map_update_elem(&senders, &key, &fresh, BPF_NOEXIST);
		sender = bpf_map_lookup_elem(&senders, &key);
		if (!sender) {
			lose(LOST_ROW);
			return;
		}
	}
	tally_add(&sender->tally, slot, wait_ns);
}

static __always_inline void victim_add(u32 class_, const struct answer *answer, u32 cpu, u64 delivery_ns, u64 handler_ns)
{
	struct victim_key key = { .cpu = cpu, .tid = answer->tid, .class_ = class_ };
	struct victim *victim = bpf_map_lookup_elem(&victims, &key);

	if (!victim) {
		bpf_map_update_elem(&victims, &key, &victim_zero, BPF_NOEXIST);
		victim = bpf_map_lookup_elem(&victims, &key);
		if (!victim) {
			lose(LOST_ROW);
			return;
		}
		victim->tgid = answer->tgid;
		victim->cgroup = answer->cgroup;
		__builtin_memcpy(victim->comm, answer->comm, COMM_BYTES);
	}
	__sync_fetch_and_add(&victim->interruptions, 1);
	__sync_fetch_and_add(&victim->delivery_ns, delivery_ns);
	__sync_fetch_and_add(&victim->stolen_ns, handler_ns);
	raise(&victim->stolen_ns_max, handler_ns);
	if (settings.want_histograms)
		histogram_add(&victim->stolen, handler_ns);
}

static __always_inline void pair_add(const struct slot *slot, const struct answer *answer, u32 cpu, u64 handler_ns)
{
	struct pair_key key = {
		.sender_tid = slot->tid,
		.victim_tid = answer->tid,
		.sender_cpu = slot->cpu,
		.victim_cpu = cpu,
		.class_ = slot->site.class_,
	};
	struct pair *pair = bpf_map_lookup_elem(&pairs, &key);

	if (!pair) {
		struct pair fresh = {};

		bpf_map_update_elem(&pairs, &key, &fresh, BPF_NOEXIST);
		pair = bpf_map_lookup_elem(&pairs, &key);
		if (!pair) {
			lose(LOST_ROW);
			return;
		}
	}
	__sync_fetch_and_add(&pair->interruptions, 1);
	__sync_fetch_and_add(&pair->stolen_ns, handler_ns);
	raise(&pair->stolen_ns_max, handler_ns);
}

struct walk {
	struct slot *slot;
	struct site *site;
	u32 row;		/* first answer of the slot */
	u32 next;		/* target plus one */
	u64 delivery_ns, delivery_ns_max;
	u64 handler_ns, handler_ns_max;
	u32 slowest;		/* target plus one */
};

/* One target of a finished shootdown. */
static long answer_add(u64 round, struct walk *walk)
{
	u32 cpu = walk->next - 1;
	u32 row = walk->row + cpu;
	struct answer *answer;
	u64 delivery_ns, handler_ns;

	if (!walk->next || cpu >= settings.cpus)
		return 1;
	answer = bpf_map_lookup_elem(&answers, &row);
	if (!answer)
		return 1;
	walk->next = answer->next;
	if (!answer->is_done)
		return 0;
	delivery_ns = answer->entry_ns > answer->queued_ns ? answer->entry_ns - answer->queued_ns : 0;
	handler_ns = answer->exit_ns - answer->entry_ns;
	walk->delivery_ns += delivery_ns;
	walk->handler_ns += handler_ns;
	if (delivery_ns > walk->delivery_ns_max)
		walk->delivery_ns_max = delivery_ns;
	if (handler_ns >= walk->handler_ns_max) {
		walk->handler_ns_max = handler_ns;
		walk->slowest = cpu + 1;
	}
	if (walk->site && answer->tid != NO_THREAD) {
		__sync_fetch_and_add(&walk->site->delivery_ns, delivery_ns);
		__sync_fetch_and_add(&walk->site->handler_ns, handler_ns);
		if (settings.want_histograms) {
			histogram_add(&walk->site->delivery, delivery_ns);
			histogram_add(&walk->site->handler, handler_ns);
		}
	}
	victim_add(walk->slot->site.class_, answer, cpu, delivery_ns, handler_ns);
	if (settings.want_pairs)
		pair_add(walk->slot, answer, cpu, handler_ns);
	return 0;
}

static __always_inline void moment_add(const struct slot *slot, u64 handler_ns)
{
	u32 zero = 0, number = (u32)(slot->start_ns / MOMENT_NS);
	struct moments *mine = bpf_map_lookup_elem(&moments, &zero);
	struct moment *moment;

	if (!mine)
		return;
	moment = &mine->of[number & (MOMENTS - 1)];
	/* What is added up so late that a newer one has its place is in the sums alone. */
	if (moment->number > number)
		return;
	if (moment->number != number) {
		moment->number = number;
		moment->received = 0;
		moment->stolen_ns = 0;
	}
	__sync_fetch_and_add(&moment->received, slot->targets);
	__sync_fetch_and_add(&moment->stolen_ns, handler_ns);
}

struct mark {
	struct event *event;
	u32 row;
	u32 next;
};

static long target_mark(u64 round, struct mark *mark)
{
	u32 cpu = mark->next - 1;
	u32 row = mark->row + cpu;
	struct answer *answer;

	if (!mark->next || cpu >= settings.cpus)
		return 1;
	answer = bpf_map_lookup_elem(&answers, &row);
	if (!answer)
		return 1;
	mark->next = answer->next;
	if (cpu < MASK_WORDS * 64)
		mark->event->mask[(cpu >> 6) & (MASK_WORDS - 1)] |= 1ull << (cpu & 63);
	return 0;
}

/* Too large for the stack of a program; one for each CPU. */
MAP(scratch, BPF_MAP_TYPE_PERCPU_ARRAY, u32, struct event, 1);

static __always_inline void event_send(struct slot *slot, const struct walk *walk, u64 wait_ns)
{
	u32 zero = 0;
	struct event *event = bpf_map_lookup_elem(&scratch, &zero);
	struct mark mark = { .row = walk->row, .next = slot->last_target };

	if (!event)
		return;
	__builtin_memset(event, 0, sizeof(*event));
	event->start_ns = slot->start_ns;
	event->wait_ns = wait_ns;
	event->delivery_ns = walk->delivery_ns;
	event->delivery_ns_max = walk->delivery_ns_max;
	event->handler_ns = walk->handler_ns;
	event->handler_ns_max = walk->handler_ns_max;
	event->address = slot->address;
	event->pages = slot->pages;
	event->cgroup = slot->cgroup;
	event->targets = slot->targets;
	event->answered = slot->answered;
	event->cpu = slot->cpu;
	event->tgid = slot->tgid;
	event->tid = slot->tid;
	event->kernel_stack = slot->site.kernel_stack;
	event->user_stack = slot->user_stack;
	event->user_top = slot->user_top;
	event->stride_shift = slot->stride_shift;
	event->syscall = slot->site.syscall;
	event->argument = slot->site.argument;
	event->class_ = slot->site.class_;
	event->kind = slot->site.kind;
	event->freed_tables = slot->site.freed_tables;
	__builtin_memcpy(event->comm, slot->comm, COMM_BYTES);
	mark.event = event;
	bpf_loop(slot->targets, target_mark, &mark, 0);
	if (walk->slowest) {
		u32 row = walk->row + walk->slowest - 1;
		struct answer *answer = bpf_map_lookup_elem(&answers, &row);

		event->slowest_cpu = walk->slowest - 1;
		if (answer) {
			event->slowest_tid = answer->tid;
			__builtin_memcpy(event->slowest_comm, answer->comm, COMM_BYTES);
		}
	}
	if (bpf_ringbuf_output(&events, event, sizeof(*event), 0))
		lose(LOST_EVENT);
}

/* Adds the shootdown of a slot that the caller has claimed. */
__noinline int shootdown_add(u32 slot_index)
{
	struct slot *slot = bpf_map_lookup_elem(&slots, &slot_index);
	struct site *site = NULL;
	u64 wait_ns;

	if (!slot || slot->filtered)
		return 0;
	/* The local run in which the sender is looked at never came. */
	if (slot->pad)
		lose(LOST_STACK);
	/* The initiator has gone on, so they have flushed: the probes did not run there (kernels may spare a task them). */
	if (settings.want_latency && slot->answered < slot->targets && !slot->is_async)
		lose_many(LOST_ANSWER, slot->targets - slot->answered);
	wait_ns = slot->end_ns > slot->start_ns && !slot->is_async ? slot->end_ns - slot->start_ns : 0;
	if (settings.want_latency && wait_ns < settings.wait_ns_min) {
		struct total *total = total_of(slot->site.class_);

		if (total)
			total->filtered += slot->targets;
		return 0;
	}
	if (settings.want_histograms || settings.want_kernel_stacks)
		site = site_of(&slot->site);
	if (site) {
		tally_add(&site->tally, slot, wait_ns);
		if (settings.want_histograms) {
			if (slot->site.kind == KIND_RANGED)
				histogram_add(&site->pages, slot->pages);
			histogram_add(&site->targets, slot->targets);
			if (settings.want_latency)
				histogram_add(&site->wait, wait_ns);
		}
	}
	if (settings.want_senders)
		sender_add(slot, wait_ns);
	if (settings.want_latency) {
		struct walk walk = {
			.slot = slot,
			.site = site,
			.row = slot_index * settings.cpus,
			.next = slot->last_target,
		};

		bpf_loop(slot->targets, answer_add, &walk, 0);
		if (slot->site.class_ != CLASS_CALL)
			moment_add(slot, walk.handler_ns);
		if (settings.want_histograms) {
			struct targets_key key = {
				.class_ = slot->site.class_,
				.targets_log2 = log2_bucket(slot->targets),
			};
			struct histogram *histogram = bpf_map_lookup_elem(&by_targets, &key);

			if (!histogram) {
				bpf_map_update_elem(&by_targets, &key, &histogram_zero, BPF_NOEXIST);
				histogram = bpf_map_lookup_elem(&by_targets, &key);
			}
			if (histogram)
				histogram_add(histogram, wait_ns);
		}
		if (settings.want_events && slot->site.class_ != CLASS_CALL &&
		    walk.handler_ns_max >= settings.event_handler_ns_min)
			event_send(slot, &walk, wait_ns);
	}
	return 0;
}
