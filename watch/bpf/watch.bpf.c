// SPDX-License-Identifier: GPL-2.0-only
/*
 * The probes. On the initiator's CPU, in order and with preemption off:
 *   tlb_flush, reason 4      a shootdown is announced (kernel ranges are not)
 *   csd_queue_cpu            once for each target, in ascending order
 *   csd_function_entry       with no csd: the initiator's local run, while the targets are being interrupted
 * and on each target's, in its interrupt: csd_function_entry and _exit with the csd that was queued. The initiator
 * waits for every _exit, so its slot does not change under them.
 *
 * Whoever asks for a flush of a user's pages first or last flushes itself: tlb_flush, reason 2 or 3, once for each
 * request, whether anybody else is asked or not.
 */
#include <stdbool.h>
#include <stddef.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "watch.h"
#include "kernel.h"
#include "state.bpf.h"
#include "sum.bpf.h"
#include "sender.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* enum tlb_flush_reason */
#define LOCAL 2
#define LOCAL_MM 3
#define REMOTE_SEND 4
#define PAGE_SHIFT 12
#define FLUSH_ALL (~0ull)
/* settings.user_functions[] */
#define OWED_FUNCTION 1		/* flushes single CPUs; its sender makes no local run */
/* settings.kernel_functions[] */
#define RANGE_FUNCTION 0	/* has a range */
#define PAGES_FUNCTION 2	/* flushes pages one by one, or everything: it does not tell */

struct arguments {
	u64 values[4];
};

static __always_inline u32 class_of(u64 function)
{
	for (int i = 0; i < USER_FUNCTIONS_MAX; i++)
		if (settings.user_functions[i] && function == settings.user_functions[i])
			return CLASS_USER;
	for (int i = 0; i < FUNCTIONS_MAX; i++)
		if (settings.kernel_functions[i] && function == settings.kernel_functions[i])
			return CLASS_KERNEL;
	return settings.want_calls ? CLASS_CALL : CLASSES;
}

static __always_inline struct turn *turn_of(u32 cpu, u32 lane)
{
	u32 index = cpu * LANES + lane;

	return bpf_map_lookup_elem(&turns, &index);
}

static __always_inline struct slot *slot_at(u32 cpu, u32 lane, u32 sequence, u32 *index)
{
	*index = (cpu * LANES + lane) * SLOTS + (sequence & (SLOTS - 1));
	return bpf_map_lookup_elem(&slots, index);
}

/* Where only the announcement tells what is flushed: not which pages, and not why all. */
static __always_inline void range_announced(struct slot *slot, u64 pages)
{
	slot->address = 0;
	slot->pages = pages;
	slot->stride_shift = PAGE_SHIFT;
	slot->site.kind = pages == FLUSH_ALL ? KIND_UNKNOWN : KIND_RANGED;
}

/* What the flush asks for. */
static __always_inline void range_read(struct slot *slot, u64 function, void *csd, bool *is_current)
{
	*is_current = slot->site.class_ != CLASS_USER;
	slot->address = 0;
	slot->pages = FLUSH_ALL;
	slot->stride_shift = PAGE_SHIFT;
	slot->site.kind = KIND_UNKNOWN;
#ifndef NO_BTF
	void *asked = NULL;
	/* One read for all of its fields. */
	u64 copy[FLUSH_TLB_INFO_BYTES / 8];
	struct flush_tlb_info *info = (struct flush_tlb_info *)copy;

	if (slot->site.class_ == CLASS_KERNEL && function != settings.kernel_functions[RANGE_FUNCTION]) {
		if (function != settings.kernel_functions[PAGES_FUNCTION])
			slot->site.kind = KIND_WHOLE;
		return;
	}
	bpf_probe_read_kernel(&asked, sizeof(asked), &((struct __call_single_data *)csd)->info);
	/* The last field of it that is read. Its place is known when the probes are loaded. */
	if (__builtin_preserve_field_info(info->freed_tables, BPF_FIELD_BYTE_OFFSET) >= sizeof(copy))
		return;
	if (!asked || bpf_probe_read_kernel(copy, sizeof(copy), asked))
		return;
	if (slot->site.class_ == CLASS_KERNEL) {
		slot->site.kind = KIND_RANGED;
		slot->address = info->start;
		slot->pages = (info->end - info->start) >> PAGE_SHIFT;
		return;
	}
	*is_current = info->mm && info->mm == bpf_get_current_task_btf()->mm;
	slot->site.freed_tables = info->freed_tables;
	if (info->end != FLUSH_ALL) {
		slot->stride_shift = info->stride_shift;
		slot->site.kind = KIND_RANGED;
		slot->address = info->start;
		slot->pages = (info->end - info->start) >> PAGE_SHIFT;
	} else if (!info->mm) {
		slot->site.kind = KIND_BATCHED;
	} else {
		int pending = 0;

		bpf_probe_read_kernel(&pending, sizeof(pending), &info->mm->tlb_flush_pending.counter);
		slot->site.kind = pending > 1 ? KIND_NESTED : KIND_WHOLE;
	}
#endif
}

static __always_inline bool is_filtered(u32 tgid, u32 tid, u32 cpu)
{
	if ((settings.only_tgid && tgid != settings.only_tgid) || (settings.only_tid && tid != settings.only_tid) ||
	    (settings.only_cpu >= 0 && cpu != settings.only_cpu))
		return true;
	if (settings.only_cgroup && bpf_get_current_ancestor_cgroup_id(settings.only_cgroup_level) != settings.only_cgroup)
		return true;
	if (settings.only_comm[0]) {
		u64 comm[COMM_BYTES / 8] = {};

		bpf_get_current_comm(comm, sizeof(comm));
		return comm[0] != settings.only_comm[0] || comm[1] != settings.only_comm[1];
	}
	return false;
}

/* Takes the initiator's next slot; what it held is added up first if nobody has. */
static __always_inline struct slot *slot_begin(struct turn *turn, u32 cpu, u32 lane, u32 class_, u32 *index)
{
	u64 ids = bpf_get_current_pid_tgid();
	struct slot *slot = slot_at(cpu, lane, turn->sequence + 1, index);
	u32 state;

	if (!slot)
		return NULL;
	state = __sync_val_compare_and_swap(&slot->state, OPEN, FREE);
	if (state == SWEEPING) {
		lose(LOST_SLOT);
		return NULL;
	}
	if (state == OPEN)
		shootdown_add(*index);
	turn->sequence++;
	slot->sequence = turn->sequence;
	slot->targets = 0;
	slot->answered = 0;
	slot->last_target = 0;
	slot->highest_target = 0;
	slot->is_closed = 0;
	slot->end_ns = 0;
	slot->cpu = cpu;
	slot->tgid = ids >> 32;
	slot->tid = (u32)ids;
	slot->user_stack = NO_STACK;
	slot->user_top = 0;
	slot->cgroup = 0;
	slot->comm[0] = 0;
	slot->pad = 0;
	slot->is_async = 0;
	slot->site.kernel_stack = NO_STACK;
	slot->site.function = 0;
	slot->site.syscall = NO_SYSCALL;
	slot->site.argument = 0;
	slot->site.class_ = class_;
	slot->site.freed_tables = 0;
	slot->site.pad = 0;
	slot->filtered = class_ == CLASS_OWN || is_filtered(slot->tgid, slot->tid, cpu);
	slot->state = OPEN;
	return slot;
}

static __always_inline bool has_threads(void)
{
#ifndef NO_BTF
	return bpf_get_current_task_btf()->signal->nr_threads > 1;
#else
	return true;
#endif
}

/* A request of a process whose other threads may have to be asked. */
static __always_inline void request_add(void *context)
{
	struct site_key site = { .kernel_stack = NO_STACK, .syscall = NO_SYSCALL, .class_ = CLASS_USER, .kind = KIND_UNKNOWN };
	u64 ids = bpf_get_current_pid_tgid(), one = 1;
	u64 *count;

	if (ids >> 32 == settings.own_tgid || is_filtered(ids >> 32, (u32)ids, bpf_get_smp_processor_id()) || !has_threads())
		return;
	if (settings.want_kernel_stacks) {
		site.kernel_stack = bpf_get_stackid(context, &kernel_stacks, 0);
		if (site.kernel_stack < 0) {
			site.kernel_stack = NO_STACK;
			lose(LOST_STACK);
		}
		syscall_read(&site);
	}
	count = bpf_map_lookup_elem(&requests, &site);
	if (count)
		__sync_fetch_and_add(count, 1);
	else if (bpf_map_update_elem(&requests, &site, &one, BPF_NOEXIST)) {
		/* Another CPU was first, or there is no room. */
		count = bpf_map_lookup_elem(&requests, &site);
		if (count)
			__sync_fetch_and_add(count, 1);
		else
			lose(LOST_ROW);
	}
}

SEC("raw_tp/tlb_flush")
int announced(struct arguments *arguments)
{
	u32 reason = (u32)arguments->values[0];
	struct total *total;
	struct turn *turn;
	u32 cpu, class_ = CLASS_USER;

	if (settings.want_requests && (reason == LOCAL || reason == LOCAL_MM))
		request_add(arguments);
	if (reason != REMOTE_SEND)
		return 0;
	cpu = bpf_get_smp_processor_id();
	turn = turn_of(cpu, LANE_FLUSHES);
	total = total_of(class_);
	if (!turn || !total)
		return 0;
	total->requests++;
	turn->is_armed = 1;
	turn->announced_pages = arguments->values[1];
	if (!settings.has_csd) {
		u32 index;
		struct slot *slot = slot_begin(turn, cpu, LANE_FLUSHES, class_, &index);

		if (!slot)
			return 0;
		total->shootdowns++;
		slot->start_ns = bpf_ktime_get_ns();
		range_announced(slot, turn->announced_pages);
		slot->is_closed = 1;
		if (!slot->filtered)
			sender_read(slot, arguments);
		if (__sync_val_compare_and_swap(&slot->state, OPEN, FREE) == OPEN)
			shootdown_add(index);
	}
	return 0;
}

/* What this target does about it is still to come. */
static __always_inline struct answer *answer_begin(struct slot *slot, u32 index, u32 target, u64 now)
{
	u32 row = index * settings.cpus + target;
	struct answer *answer = bpf_map_lookup_elem(&answers, &row);

	if (answer) {
		answer->queued_ns = now;
		answer->is_done = 0;
		answer->next = slot->last_target;
		slot->last_target = target + 1;
	}
	return answer;
}

#include "calls.bpf.h"

SEC("raw_tp/csd_queue_cpu")
int queued(struct arguments *arguments)
{
	u32 target = (u32)arguments->values[0];
	u64 function = arguments->values[2];
	u64 csd = arguments->values[3];
	u32 class_ = class_of(function);
	u32 cpu = bpf_get_smp_processor_id();
	struct turn *turn;
	struct slot *slot;
	struct total *total;
	u32 index;
	bool is_new, is_counted = true;
	u64 now;

	if (class_ == CLASSES || target >= settings.cpus)
		return 0;
	if (class_ == CLASS_CALL)
		return call_queued(arguments, cpu);
	now = bpf_ktime_get_ns();
	turn = turn_of(cpu, LANE_FLUSHES);
	if (!turn)
		return 0;
	slot = slot_at(cpu, LANE_FLUSHES, turn->sequence, &index);
	if (!slot)
		return 0;
	is_new = turn->is_armed || slot->state != OPEN || slot->is_closed || target < slot->highest_target;
	turn->is_armed = 0;
	if (settings.own_tgid && (u32)(bpf_get_current_pid_tgid() >> 32) == settings.own_tgid) {
		/* The kernel's row has our own as well, but not of kernel ranges. */
		is_counted = class_ == CLASS_USER;
		class_ = CLASS_OWN;
	}
	total = total_of(class_);
	if (!total)
		return 0;
	total->queued += is_counted;
	if (is_new) {
		bool is_current = true;

		total->shootdowns += is_counted;
		slot = slot_begin(turn, cpu, LANE_FLUSHES, class_, &index);
		if (!slot)
			return 0;
		slot->start_ns = now;
		if (!slot->filtered) {
			if (function == settings.user_functions[OWED_FUNCTION]) {
				range_announced(slot, turn->announced_pages);
				is_current = false;
			} else {
				range_read(slot, function, (void *)csd, &is_current);
			}
			/* No local run is certain to come where another address space is flushed. */
			if (!is_current)
				sender_read(slot, arguments);
			slot->pad = is_current;
		}
	}
	if (slot->filtered)
		total->filtered++;
	if (settings.want_latency) {
		u32 *initiator = bpf_map_lookup_elem(&initiators, &csd);

		/* A csd belongs to one initiator and one target for as long as the machine is up. */
		if (!initiator || *initiator != cpu)
			bpf_map_update_elem(&initiators, &csd, &cpu, BPF_ANY);
		answer_begin(slot, index, target, now);
	}
	slot->highest_target = target + 1;
	slot->targets++;
	return 0;
}

/* The initiator flushes its own TLB while the targets are on their way: time that it would wait anyway. */
static __always_inline void local_run(struct arguments *arguments, u32 cpu)
{
	struct turn *turn = turn_of(cpu, LANE_FLUSHES);
	struct slot *slot;
	u32 index;

	if (!turn)
		return;
	slot = slot_at(cpu, LANE_FLUSHES, turn->sequence, &index);
	if (!slot || slot->state != OPEN || slot->is_closed)
		return;
	slot->is_closed = 1;
	if (!slot->filtered && slot->pad) {
		slot->pad = 0;
		sender_read(slot, arguments);
	}
	slot = slot_at(cpu, LANE_FLUSHES, turn->sequence - 1, &index);
	if (slot && __sync_val_compare_and_swap(&slot->state, OPEN, FREE) == OPEN)
		shootdown_add(index);
}

SEC("raw_tp/csd_function_entry")
int entered(struct arguments *arguments)
{
	u32 class_ = class_of(arguments->values[0]);
	u32 zero = 0;
	u64 *entry;

	if (class_ == CLASSES)
		return 0;
	if (!arguments->values[1]) {
		if (class_ != CLASS_CALL)
			local_run(arguments, bpf_get_smp_processor_id());
		return 0;
	}
	interrupt_told();
	if (settings.want_latency) {
		entry = bpf_map_lookup_elem(&entries, &zero);
		if (entry)
			*entry = bpf_ktime_get_ns();
	}
	return 0;
}

/* The slot for which this csd was queued; NULL where that is not known, or past. */
static __always_inline struct slot *slot_of(u64 csd, u32 class_, u32 *index)
{
	u32 *initiator;
	struct turn *turn;

	if (class_ == CLASS_CALL)
		return called_slot(csd, index);
	initiator = bpf_map_lookup_elem(&initiators, &csd);
	if (!initiator)
		return NULL;
	turn = turn_of(*initiator, LANE_FLUSHES);
	return turn ? slot_at(*initiator, LANE_FLUSHES, turn->sequence, index) : NULL;
}

static __always_inline void victim_read(struct answer *answer, u64 entry_ns, u64 exit_ns)
{
	u64 ids = bpf_get_current_pid_tgid();

	answer->entry_ns = entry_ns;
	answer->exit_ns = exit_ns;
	answer->tid = (u32)ids;
	answer->tgid = ids >> 32;
	answer->cgroup = bpf_get_current_cgroup_id();
	bpf_get_current_comm(answer->comm, sizeof(answer->comm));
}

/* Who lost time, where nothing is known any more of the sender. */
static __always_inline void victim_add_alone(u32 cpu, u64 entry_ns, u64 now)
{
	struct answer answer = {};

	if (!entry_ns)
		return;
	victim_read(&answer, entry_ns, now);
	victim_add(CLASS_CALL, &answer, cpu, 0, now - entry_ns);
}

SEC("raw_tp/csd_function_exit")
int left(struct arguments *arguments)
{
	u64 function = arguments->values[0], csd = arguments->values[1];
	u32 class_ = class_of(function);
	u32 zero = 0, index = 0, row, cpu;
	struct answer *answer;
	struct total *total;
	struct slot *slot;
	u64 *entry, now;

	if (class_ == CLASSES || !csd)
		return 0;
	now = bpf_ktime_get_ns();
	total = total_of(class_);
	if (total)
		total->handled++;
	cpu = bpf_get_smp_processor_id();
	entry = bpf_map_lookup_elem(&entries, &zero);
	if (!entry)
		return 0;
	if (class_ == CLASS_CALL && function == settings.wakeup_function) {
		/* One that finds its CPU idle interrupts nobody. */
		if ((u32)bpf_get_current_pid_tgid())
			victim_add_alone(cpu, *entry, now);
		*entry = 0;
		return 0;
	}
	slot = slot_of(csd, class_, &index);
	if (!slot && class_ == CLASS_CALL) {
		/* Its sender has gone on, and asked for so much since that this has no slot any more. */
		victim_add_alone(cpu, *entry, now);
		*entry = 0;
		return 0;
	}
	row = index * settings.cpus + cpu;
	answer = bpf_map_lookup_elem(&answers, &row);
	if (!slot || !answer || slot->state != OPEN || answer->is_done || !*entry) {
		lose(LOST_ANSWER);
		return 0;
	}
	if (!slot->filtered) {
		victim_read(answer, *entry, now);
		/* Of two at once either may stand: they are within nanoseconds. */
		slot->end_ns = now;
	}
	*entry = 0;
	answer->is_done = 1;
	__sync_fetch_and_add(&slot->answered, 1);
	return 0;
}

struct patience {
	u64 now_ns;
	u64 unanswered_ns_max;
};

static long sweep_one(u64 round, struct patience *patience)
{
	u32 index = (u32)round;
	struct slot *slot = bpf_map_lookup_elem(&slots, &index);
	u64 age_ns;

	if (!slot)
		return 1;
	if (slot->state != OPEN)
		return 0;
	age_ns = patience->now_ns > slot->start_ns ? patience->now_ns - slot->start_ns : 0;
	if (!slot->is_closed && age_ns < UNCLOSED_NS_MAX)
		return 0;
	if (settings.want_latency && slot->answered < slot->targets && age_ns < patience->unanswered_ns_max)
		return 0;
	if (__sync_val_compare_and_swap(&slot->state, OPEN, SWEEPING) != OPEN)
		return 0;
	shootdown_add(index);
	slot->state = FREE;
	return 0;
}

/* Run by the observer before it reads: finished shootdowns that no later one of their CPU has added up. */
SEC("syscall")
int sweep(struct sweep_context *context)
{
	struct patience patience = {
		.now_ns = bpf_ktime_get_ns(),
		.unanswered_ns_max = context->unanswered_ns_max,
	};

	bpf_loop(settings.cpus * LANES * SLOTS, sweep_one, &patience, 0);
	return 0;
}
