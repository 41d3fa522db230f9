/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The few kernel types the probes read, by hand: CO-RE moves each field to where the running kernel has it.
 * Without BTF (NO_BTF) nothing of the kernel's is read; ranges then come from the tracepoint's page count alone.
 */
#pragma once

#ifndef NO_BTF
#define RELOCATED __attribute__((preserve_access_index))

typedef struct {
	int counter;
} atomic_t;

struct mm_struct {
	atomic_t tlb_flush_pending;
} RELOCATED;

struct signal_struct {
	int nr_threads;
} RELOCATED;

struct task_struct {
	unsigned int flags;
	struct mm_struct *mm;
	struct signal_struct *signal;
} RELOCATED;

/* No kernel's is longer: 40 bytes in 6.12. */
#define FLUSH_TLB_INFO_BYTES 64
#define BPF_FIELD_BYTE_OFFSET 0	/* what __builtin_preserve_field_info() is asked for */

struct flush_tlb_info {
	struct mm_struct *mm;
	unsigned long start;
	unsigned long end;
	unsigned char stride_shift;
	_Bool freed_tables;
} RELOCATED;

struct __call_single_node {
	unsigned int u_flags;
} RELOCATED;

struct __call_single_data {
	struct __call_single_node node;
	void *info;
} RELOCATED;

/* x86 and others differ: only ever reached through bpf_task_pt_regs(). */
struct pt_regs {
	unsigned long dx, r10, orig_ax, sp;
} RELOCATED;
#else
/* Only the pointer is passed on. */
struct task_struct;
struct pt_regs;
#endif
