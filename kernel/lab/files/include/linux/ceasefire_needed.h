/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which CPUs a flush request has to interrupt: those that hold an entry which it is to
 * flush. See mm/ceasefire/needed.c. Nothing of it is there without CONFIG_CEASEFIRE_NEEDED.
 */
#ifndef _LINUX_CEASEFIRE_NEEDED_H
#define _LINUX_CEASEFIRE_NEEDED_H

#include <linux/cpumask_types.h>
#include <linux/types.h>

struct mm_struct;
struct mmu_gather;

#ifdef CONFIG_CEASEFIRE_NEEDED

/* Of one flush request: a gather's, a batch's, or that of a few PTEs. */
struct needed {
	struct cpumask cpus;	/* they hold something of it */
	bool is_unasked;	/* there is more in it that nobody was asked about */
	struct mm_struct *mm;	/* gathers alone: */
	struct list_head open;
};

/* What @bytes from @addr on were mapped by was taken, and not flushed yet. Lock held. */
void needed_ask(struct needed *needed, struct mm_struct *mm, unsigned long addr,
		unsigned long bytes);
/* A page table for 1 << @shift bytes around @addr was taken out. */
void needed_ask_table(struct needed *needed, struct mm_struct *mm, unsigned long addr,
		      unsigned int shift);
/* What this task flushes from here on, to needed_end(), is this request. */
void needed_begin(struct needed *needed);
void needed_end(void);
/* A gather begins, flushes for all that are open, ends. */
void needed_open(struct mmu_gather *tlb);
void needed_nested(struct mmu_gather *tlb);
void needed_close(struct mmu_gather *tlb);

#else

struct needed { };

static inline void needed_ask(struct needed *needed, struct mm_struct *mm,
			      unsigned long addr, unsigned long bytes) { }
static inline void needed_ask_table(struct needed *needed, struct mm_struct *mm,
				    unsigned long addr, unsigned int shift) { }
static inline void needed_begin(struct needed *needed) { }
static inline void needed_end(void) { }
static inline void needed_open(struct mmu_gather *tlb) { }
static inline void needed_nested(struct mmu_gather *tlb) { }
static inline void needed_close(struct mmu_gather *tlb) { }

#endif
#endif
