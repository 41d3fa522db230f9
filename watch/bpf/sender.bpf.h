/* SPDX-License-Identifier: GPL-2.0-only */
/* Who sends a shootdown, by which system call, and from where in the kernel and in the program. */
#pragma once
#include "kernel.h"
#include "state.bpf.h"

#define KERNEL_THREAD 0x00200000	/* PF_KTHREAD */
/* System calls of which the advice is read. */
#define MADVISE 28
#define PROCESS_MADVISE 440
#define COLLISION (-17)		/* EEXIST: another stack has the place in the table */
#define CALL_BYTES 6		/* at most, but for rare forms */

/* Which call the initiator is in: madvise's advices share their frames. */
static __always_inline void syscall_read(struct site_key *site)
{
	site->syscall = NO_SYSCALL;
	site->argument = 0;
#ifndef NO_BTF
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs;
	u64 number = 0, argument = 0;

	if (task->flags & KERNEL_THREAD)
		return;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	if (!regs)
		return;
	bpf_probe_read_kernel(&number, sizeof(number), &regs->orig_ax);
	if (number >= NO_SYSCALL)
		return;
	site->syscall = number;
	if (number == MADVISE)
		bpf_probe_read_kernel(&argument, sizeof(argument), &regs->dx);
	else if (number == PROCESS_MADVISE)
		bpf_probe_read_kernel(&argument, sizeof(argument), &regs->r10);
	site->argument = argument;
#endif
}

/*
 * A C library's thin call makes no frame: who called it is no frame of the stack, but its return address is on top of it.
 * Whether a call is thin the observer tells by its code. Here only what stands behind a call instruction is taken, so that
 * passing values do not each make a row.
 */
static __always_inline u64 user_top_read(const struct site_key *site)
{
	u64 top = 0;
#ifndef NO_BTF
	struct pt_regs *regs;
	u8 call[CALL_BYTES] = {};
	u64 sp = 0;

	if (site->syscall == NO_SYSCALL)
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	if (!regs)
		return 0;
	bpf_probe_read_kernel(&sp, sizeof(sp), &regs->sp);
	if (!sp || bpf_probe_read_user(&top, sizeof(top), (void *)sp) ||
	    bpf_probe_read_user(call, sizeof(call), (void *)(top - CALL_BYTES)))
		return 0;
	/* call rel32; call *disp32(reg or %rip); call *disp8(reg); call *(reg) or *reg */
	if (call[1] != 0xe8 &&
	    (call[0] != 0xff || (call[1] & 0x38) != 0x10) &&
	    (call[3] != 0xff || (call[4] & 0x38) != 0x10) &&
	    (call[4] != 0xff || ((call[5] & 0xf8) != 0x10 && (call[5] & 0xf8) != 0xd0)))
		return 0;
#endif
	return top;
}

/* Who sends, and from where. */
static __always_inline void sender_read(struct slot *slot, void *context)
{
	bpf_get_current_comm(slot->comm, sizeof(slot->comm));
	slot->cgroup = bpf_get_current_cgroup_id();
	if (settings.want_kernel_stacks) {
		slot->site.kernel_stack = bpf_get_stackid(context, &kernel_stacks, 0);
		syscall_read(&slot->site);
		if (slot->site.kernel_stack < 0) {
			slot->site.kernel_stack = NO_STACK;
			lose(LOST_STACK);
		}
	}
	if (settings.want_user_stacks) {
		slot->user_stack = bpf_get_stackid(context, &user_stacks, BPF_F_USER_STACK);
		/* Kernel threads have none: no loss. */
		if (slot->user_stack == COLLISION)
			lose(LOST_STACK);
		if (slot->user_stack < 0)
			slot->user_stack = NO_STACK;
		else
			slot->user_top = user_top_read(&slot->site);
	}
	if (settings.want_whole_calls) {
		struct begun *mine = bpf_map_lookup_elem(&begun, &slot->tid);

		if (mine) {
			mine->site = slot->site;
			mine->is_sender = 1;
		}
	}
}
