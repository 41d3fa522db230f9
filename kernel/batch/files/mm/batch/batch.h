/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of mm/batch share. */
#ifndef MM_BATCH_H
#define MM_BATCH_H

#include <linux/batch_writeback.h>
#include <linux/percpu.h>

struct dentry;

/* Summed over CPUs in /sys/kernel/debug/batch/counters. */
struct batch_stat {
	u64 windows;		/* of pages to be written back */
	u64 mappings;		/* mappings of a window in which something was protected */
	u64 protected;		/* PTEs */
	u64 cleaned;		/* PTEs, without a flush of their own */
	u64 pending;		/* PTEs that were read-only, but another flush was under way */
	u64 sparse;		/* windows left alone: few pages far apart */
	u64 refused;		/* mappings left alone: by prctl */
	u64 notified;		/* mappings left alone: somebody else follows the page tables */
	u64 memory;		/* windows left alone for want of a page of memory */
	u64 checked;
	u64 violations;
};

DECLARE_PER_CPU(struct batch_stat, batch_stat);

#define batch_count(field, nr)	this_cpu_add(batch_stat.field, nr)

/* Deliberate breaks of the debug kernel: batch_mutant=NAME. */
enum batch_mutant {
	MUTANT_NONE,
	MUTANT_UNFLUSHED,
	MUTANT_PENDING_IGNORED,
	MUTANT_CLEAN_EARLY,
	MUTANT_WRITE_LEFT,
	MUTANT_MAPPING_FORGOTTEN,
	MUTANTS
};

#ifdef CONFIG_WRITEBACK_BATCH_DEBUG

extern enum batch_mutant batch_mutant_chosen;

void batch_debug_linger(void);
void batch_debug_cleaned(struct mm_struct *mm, unsigned long addr, pte_t pte);
void batch_debug_init(struct dentry *dir);

static inline bool batch_mutant(enum batch_mutant mutant)
{
	return unlikely(READ_ONCE(batch_mutant_chosen) == mutant);
}

#else

static inline void batch_debug_linger(void) { }
static inline void batch_debug_cleaned(struct mm_struct *mm, unsigned long addr, pte_t pte) { }
static inline void batch_debug_init(struct dentry *dir) { }
static inline bool batch_mutant(enum batch_mutant mutant) { return false; }

#endif
#endif
