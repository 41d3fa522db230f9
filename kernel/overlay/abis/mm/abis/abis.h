/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of mm/abis/ share. */
#ifndef _MM_ABIS_H
#define _MM_ABIS_H

#include <linux/abis.h>
#include <linux/percpu.h>

#include "engine/engine.h"

struct dentry;

struct abis_stat {
	u64 pages[ABIS_SITES][ABIS_REASONS];
	u64 requests[ABIS_SITES][ABIS_ALL + 1];
	u64 rounds;
	u64 rounds_forced;
	u64 spte_failed;
};

DECLARE_PER_CPU(struct abis_stat, abis_stat);

extern atomic_long_t abis_tables;
extern u32 abis_round_every;
extern unsigned long abis_epoch;
extern const char * const abis_site_names[ABIS_SITES];
extern const char * const abis_reason_names[ABIS_REASONS];

/* Deliberate breaks of the debug kernel, one for a trap each. */
enum abis_mutant {
	ABIS_MUTANT_NONE,
	ABIS_MUTANT_GAP_NONE,		/* one round less is enough */
	ABIS_MUTANT_IN_FLIGHT_IGNORED,	/* a flush that has begun already is enough */
	ABIS_MUTANT_NAIVE_CREDIT,	/* two rounds at the same time count twice */
	ABIS_MUTANT_EARLY_CREDIT,	/* a round is credited before anybody flushed */
	ABIS_MUTANT_PARTIAL_ROUND,	/* a ranged flush is a round */
	ABIS_MUTANT_NEVER_IS_ZERO,	/* a slot never stamped counts as stamped at version 0 */
	ABIS_MUTANT_EPOCH_IGNORED,	/* what was stamped before tracking stopped still counts */
	ABIS_MUTANT_ACCESSED_IGNORED,	/* the accessed bit is taken from before the exchange */
	ABIS_MUTANT_CLEAR_UNSTAMPED,	/* clearing the accessed bit keeps the old SPTE */
	ABIS_MUTANT_UNCACHED_UNFLUSHED,	/* UNCACHED where the bit was cleared, but nobody flushed */
	ABIS_MUTANT_SOFTWARE_BIT,	/* a set software accessed bit hides the hardware's */
	ABIS_MUTANTS,
};

#ifdef CONFIG_ABIS_DEBUG

extern enum abis_mutant abis_mutant_chosen;

static inline bool abis_mutant(enum abis_mutant mutant)
{
	return unlikely(READ_ONCE(abis_mutant_chosen) == mutant);
}

void abis_debug_check(struct mm_struct *mm, unsigned long addr, pte_t pte,
		      spte_t spte, enum abis_site site,
		      struct abis_verdict verdict);
void abis_debug_init(struct dentry *dir);
void abis_debug_show(struct seq_file *file);

#else

static inline bool abis_mutant(enum abis_mutant mutant) { return false; }
static inline void abis_debug_check(struct mm_struct *mm, unsigned long addr,
				    pte_t pte, spte_t spte, enum abis_site site,
				    struct abis_verdict verdict) { }
static inline void abis_debug_init(struct dentry *dir) { }
static inline void abis_debug_show(struct seq_file *file) { }

#endif /* CONFIG_ABIS_DEBUG */

int abis_cache_init(void);
int abis_stat_init(void);

#endif /* _MM_ABIS_H */
