/* SPDX-License-Identifier: GPL-2.0-only */
/* Asking the emulated machine which CPUs hold an entry. */
#ifndef MM_CEASEFIRE_ORACLE_H
#define MM_CEASEFIRE_ORACLE_H

#include <linux/smp.h>

#include "machine.h"

#define ORACLE_HOLDERS_MAX	256
#define ORACLE_ROOTS_MAX	64
#define ORACLE_RETRIES		10000	/* for CPUs in the kernel, which may be about to flush */

struct mm_struct;

struct oracle {
	struct machine_request request;
	struct machine_holder holders[ORACLE_HOLDERS_MAX];
	u64 roots[ORACLE_ROOTS_MAX];
};

extern struct oracle *oracles;	/* one for each CPU */
extern u32 oracle_msr;		/* 0: this machine cannot be asked */

/* Interrupts off, to the end of its use. */
static inline struct oracle *oracle_here(void)
{
	return oracles + smp_processor_id();
}

/*
 * Who holds entries of @mm for @pages (512 at most) from @addr on? MACHINE_FLAG_TLB or
 * _STRUCTURES; one CPU's @apic_id, or MACHINE_ALL_CPUS. Return: how many of
 * @oracle->holders are valid; @oracle->request.holders has a bit for each APIC ID.
 */
unsigned int oracle_ask(struct oracle *oracle, struct mm_struct *mm, unsigned long addr,
			unsigned int pages, u32 flags, u32 apic_id);

/*
 * The physical addresses of @mm's roots beside mm->pgd. Whoever gives an address space some
 * defines it. Return: how many of @roots, ORACLE_ROOTS_MAX at most, are set.
 */
unsigned int oracle_more_roots(struct mm_struct *mm, u64 *roots);

/* Return: the CPU's number, or -1. */
int oracle_cpu(u32 apic_id);

#endif
