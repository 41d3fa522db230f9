/* SPDX-License-Identifier: GPL-2.0-only */
/* What ABIS keeps in structures of x86. Empty where it is not built. */
#ifndef _ASM_X86_ABIS_TYPES_H
#define _ASM_X86_ABIS_TYPES_H

#include <linux/atomic.h>
#include <linux/types.h>

struct mm_struct;

/* Of an address space. A copy has no promises: init_new_context() clears them. */
struct abis_context {
#ifdef CONFIG_ABIS
	atomic64_t version;	/* completed rounds, plus 1 */
	atomic_t in_flight;	/* rounds begun and not ended */
	u32 blocked;		/* flushes that a round would have spared; a hint */
	atomic_t unproven;	/* accountable gathers with PTEs to flush */
#ifdef CONFIG_ABIS_FULL
	int earned;		/* by flushes of others, towards points */
#endif
	atomic64_t gathers;	/* accountable gathers: low bits open, above begun */
#ifdef CONFIG_ABIS_FULL
	unsigned long owed[4];	/* CPUs below 254 that owe a flush of everything */
#endif
#ifdef CONFIG_ABIS_HIDE
	int hiding;		/* mm/abis/hide.c: what hiding brings and costs; a hint */
#endif
#ifdef CONFIG_ABIS_FULL
	int points;		/* mm/abis/adapt.c: what insertion has left to spend */
	u64 ring[32];		/* what the last generations flush: mm/abis/engine/ring.h */
#ifdef CONFIG_ABIS_DEBUG
	atomic_t publishing;	/* tlb_gen is raised, and its range not published yet */
#endif
#endif
#endif
};

/* Of a batch of unmapped pages. */
struct abis_batch {
#ifdef CONFIG_ABIS
	/* The batch is a round of this address space, begun at this version. */
	struct mm_struct *round_mm;
	u64 round;
#ifdef CONFIG_ABIS_FULL
	/* CPUs to interrupt that owe a flush of what they alone may hold. */
	unsigned long owing[4];
	bool is_owed;
#endif
#endif
};

#endif /* _ASM_X86_ABIS_TYPES_H */
