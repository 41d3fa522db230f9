/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every other function that one CPU has another run. A call has slots and answers as a shootdown has, in a lane of its own.
 * Its sender is looked at before the first target is asked, because most senders make no local run.
 */
#pragma once

/* u_flags of a csd */
#define TYPE_MASK 0xf0
#define TYPE_SYNC 0x10
#define TYPE_IRQ_WORK 0x20

static __always_inline u32 type_of(u64 csd)
{
	u32 flags = 0;

#ifndef NO_BTF
	bpf_probe_read_kernel(&flags, sizeof(flags), &((struct __call_single_data *)csd)->node.u_flags);
#endif
	return flags & TYPE_MASK;
}

/* Wake-ups are many, and anybody's: their stacks say nothing. */
static __always_inline int wakeup_queued(u32 cpu, u64 now, struct total *total)
{
	u64 ids = bpf_get_current_pid_tgid();
	struct slot woken = {
		.targets = 1,
		.cpu = cpu,
		.tgid = ids >> 32,
		.tid = (u32)ids,
		.user_stack = NO_STACK,
		.site = {
			.kernel_stack = NO_STACK,
			.function = (u32)settings.wakeup_function,
			.syscall = NO_SYSCALL,
			.class_ = CLASS_CALL,
			.kind = KIND_UNKNOWN,
		},
	};
	struct site *site = NULL;

	if (is_filtered(woken.tgid, woken.tid, cpu)) {
		total->filtered++;
		return 0;
	}
	if (settings.want_histograms || settings.want_kernel_stacks)
		site = site_of(&woken.site);
	if (site)
		tally_add(&site->tally, &woken, 0);
	if (settings.want_senders) {
		bpf_get_current_comm(woken.comm, sizeof(woken.comm));
		woken.cgroup = bpf_get_current_cgroup_id();
		sender_add(&woken, 0);
	}
	return 0;
}

static __always_inline int call_queued(struct arguments *arguments, u32 cpu)
{
	u32 target = (u32)arguments->values[0];
	u64 callsite = arguments->values[1], function = arguments->values[2], csd = arguments->values[3];
	bool is_own = settings.own_tgid && (u32)(bpf_get_current_pid_tgid() >> 32) == settings.own_tgid;
	struct total *total = total_of(CLASS_CALL);
	struct turn *turn = turn_of(cpu, LANE_CALLS);
	u64 now = bpf_ktime_get_ns();
	struct answer *answer;
	struct slot *slot;
	u32 index, type;
	bool is_new;

	if (!turn || !total)
		return 0;
	total->queued += !is_own;
	if (function == settings.wakeup_function) {
		total->shootdowns += !is_own;
		return is_own ? 0 : wakeup_queued(cpu, now, total);
	}
	slot = slot_at(cpu, LANE_CALLS, turn->sequence, &index);
	if (!slot)
		return 0;
	type = type_of(csd);
	/* Of one call the targets are asked in ascending order, all before the first of them has answered. */
	is_new = slot->state != OPEN || slot->callsite != callsite || slot->site.function != (u32)function ||
		 slot->tid != (u32)bpf_get_current_pid_tgid() || target < slot->highest_target ||
		 slot->answered >= slot->targets;
	if (is_new) {
		total->shootdowns += !is_own;
		slot = slot_begin(turn, cpu, LANE_CALLS, is_own ? CLASS_OWN : CLASS_CALL, &index);
		if (!slot)
			return 0;
		slot->start_ns = now;
		slot->callsite = callsite;
		slot->is_async = type != TYPE_SYNC;
		slot->site.function = (u32)function;
		slot->site.kind = KIND_UNKNOWN;
		if (!slot->filtered)
			sender_read(slot, arguments);
	}
	if (slot->filtered && !is_own)
		total->filtered++;
	if (settings.want_latency) {
		struct called *called = bpf_map_lookup_elem(&callers, &csd);
		struct called fresh = { .slot = index, .sequence = slot->sequence };

		if (called)
			*called = fresh;
		else
			bpf_map_update_elem(&callers, &csd, &fresh, BPF_ANY);
		answer = answer_begin(slot, index, target, now);
		if (answer && type == TYPE_IRQ_WORK) {
			answer->tid = NO_THREAD;
			answer->tgid = 0;
			answer->cgroup = 0;
			answer->comm[0] = 0;
			answer->entry_ns = now;
			answer->exit_ns = now;
			answer->is_done = 1;
			__sync_fetch_and_add(&slot->answered, 1);
		}
	}
	if (type == TYPE_IRQ_WORK) {
		u64 *works = bpf_map_lookup_elem(&irq_works, &target);

		if (works)
			__sync_fetch_and_add(works, 1);
	}
	slot->highest_target = target + 1;
	slot->targets++;
	return 0;
}

static __always_inline struct slot *called_slot(u64 csd, u32 *index)
{
	struct called *called = bpf_map_lookup_elem(&callers, &csd);
	struct slot *slot;

	if (!called)
		return NULL;
	*index = called->slot;
	slot = bpf_map_lookup_elem(&slots, index);
	return slot && slot->sequence == called->sequence ? slot : NULL;
}

static __always_inline void interrupt_told(void)
{
	u32 zero = 0;
	struct interrupts *mine;

	if (!settings.want_calls)
		return;
	mine = bpf_map_lookup_elem(&interrupts, &zero);
	if (mine && mine->is_open) {
		mine->is_open = 0;
		mine->told++;
	}
}

/* The kernel counts each of these in its row CAL, whatever runs in it. */
static __always_inline int interrupt_begin(void)
{
	u32 zero = 0, cpu;
	struct interrupts *mine = bpf_map_lookup_elem(&interrupts, &zero);
	u64 *works;

	if (!mine)
		return 0;
	if (mine->is_open) {
		/* Nothing ran in the last one that was told of: work that had been queued, or nothing. */
		cpu = bpf_get_smp_processor_id();
		works = bpf_map_lookup_elem(&irq_works, &cpu);
		if (works && *works) {
			*works = 0;
			mine->told++;
		} else {
			mine->silent++;
		}
	}
	mine->is_open = 1;
	return 0;
}

/* How long the whole call takes in which somebody sends: system calls alone have a beginning and an end that are told of. */
SEC("raw_tp/sys_enter")
int call_begun(void *arguments)
{
	u32 tid = (u32)bpf_get_current_pid_tgid();
	struct begun *mine = bpf_map_lookup_elem(&begun, &tid);

	if (mine) {
		mine->ns = bpf_ktime_get_ns();
		mine->is_sender = 0;
	} else {
		struct begun fresh = { .ns = bpf_ktime_get_ns() };

		bpf_map_update_elem(&begun, &tid, &fresh, BPF_ANY);
	}
	return 0;
}

SEC("raw_tp/sys_exit")
int call_ended(void *arguments)
{
	u32 tid = (u32)bpf_get_current_pid_tgid();
	struct begun *mine = bpf_map_lookup_elem(&begun, &tid);
	struct site *site;

	if (!mine || !mine->is_sender)
		return 0;
	mine->is_sender = 0;
	site = site_of(&mine->site);
	if (site) {
		__sync_fetch_and_add(&site->calls, 1);
		__sync_fetch_and_add(&site->call_ns, bpf_ktime_get_ns() - mine->ns);
	}
	return 0;
}

SEC("raw_tp/call_function_entry")
int interrupted(void *arguments)
{
	return interrupt_begin();
}

SEC("raw_tp/call_function_single_entry")
int interrupted_alone(void *arguments)
{
	return interrupt_begin();
}
