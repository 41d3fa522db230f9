/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of mm/abis/ share. */
#ifndef _MM_ABIS_H
#define _MM_ABIS_H

#include <linux/abis.h>
#include <linux/abis_debug.h>
#include <linux/percpu.h>

#include "engine/engine.h"

struct dentry;

/* Why a page was not inserted. Names: abis_refusal_names. */
enum abis_refusal {
	ABIS_REFUSED_MM,	/* it refused, has notifiers, or is not loaded here */
	ABIS_REFUSED_PAGE,	/* no plain RAM, or not for the user at large */
	ABIS_REFUSED_CPU,	/* of too high a number, or with breakpoints */
	ABIS_REFUSED_MANY,	/* more at once than a TLB should lose */
	ABIS_REFUSED_HELD,	/* others may hold the slot's entry */
	ABIS_REFUSED_MEMORY,	/* no memory for an SPTE */
	ABIS_REFUSED_FAULT,	/* the read failed */
	ABIS_REFUSALS,
};

struct abis_stat {
	u64 pages[ABIS_SITES][ABIS_REASONS];
	u64 requests[ABIS_SITES][ABIS_ALL + 1];
	u64 rounds;
	u64 rounds_forced;
	u64 spte_failed;
	u64 nested_proven;
	u64 nested_flushed;
	u64 narrowed;
	u64 narrow_local;
	u64 narrow_ipis;
	u64 narrow_ranged;
	u64 narrow_deferred;
	u64 narrow_paid;
	u64 insert_requests;
	u64 inserted;
	u64 insert_switches;
	u64 hidden;
	u64 hidden_faults;
	u64 hidden_again;
	u64 hidden_written;
	u64 hidden_taken;
	u64 hidden_kept;
	u64 hidden_reads;
	u64 hidden_revealed;
	u64 reused;
	u64 insert_refused[ABIS_REFUSALS];
	u64 adapt_saved;
	u64 adapt_trials;
};

DECLARE_PER_CPU(struct abis_stat, abis_stat);

static inline void abis_count_request(enum abis_site site, int targets)
{
	this_cpu_inc(abis_stat.requests[site][targets]);
}

extern unsigned long tlb_single_page_flush_ceiling;	/* arch/x86/mm/tlb.c */
extern atomic_long_t abis_tables;
extern u32 abis_round_every;
extern unsigned long abis_epoch;
extern const char * const abis_site_names[ABIS_SITES];
extern const char * const abis_reason_names[ABIS_REASONS];
extern const char * const abis_refusal_names[ABIS_REFUSALS];

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
	ABIS_MUTANT_NESTED_UNPROVEN,	/* another gather's unproven PTEs are nobody's concern */
	ABIS_MUTANT_NESTED_UNACCOUNTED,	/* nor is whoever is not counted */
	ABIS_MUTANT_NESTED_EARLY,	/* a gather is proven before its flush */
	ABIS_MUTANT_PRIVATE_SURVIVES,	/* the accessed bit does not end that one CPU alone holds */
	ABIS_MUTANT_OWED_ON_SWITCH,	/* what is owed is not paid when the CPU comes back */
	ABIS_MUTANT_OWED_ON_LAZY,	/* nor when it ceases to be lazy */
	ABIS_MUTANT_OWED_ONE_LOOK,	/* whoever owes is not looked at again */
	ABIS_MUTANT_OWED_DROPPED,	/* the interrupt finds something else loaded, and forgets */
	ABIS_MUTANT_OWED_BY_RANGE,	/* the flush of some pages pays for all that is owed */
	ABIS_MUTANT_NARROW_SHORT,	/* ... and flushes one page too few */
	ABIS_MUTANT_NARROW_DROPS,	/* of several CPUs only the last is flushed */
	ABIS_MUTANT_NARROW_ROUND,	/* the flush of one CPU counts as a round */
	ABIS_MUTANT_BATCH_UNPAID,	/* a batch does not interrupt those that owe */
	ABIS_MUTANT_BATCH_UNRAISED,	/* nor raises tlb_gen for a page that goes with the rest */
	ABIS_MUTANT_BATCH_UNCACHED,	/* its slots count as flushed before it does */
	ABIS_MUTANT_INSERT_OVER_SHARED,	/* a page is inserted whoever holds the slot's entry */
	ABIS_MUTANT_INSERT_OVER_NEVER,	/* ... and where nothing is known of the slot */
	ABIS_MUTANT_INSERT_IN_BATCH,	/* ... and where a batch has not flushed it yet */
	ABIS_MUTANT_INSERT_PRIMARY_FIRST, /* the page is mapped before it is inserted */
	ABIS_MUTANT_INSERT_NO_BEFORE,	/* the first INVLPG is left out */
	ABIS_MUTANT_INSERT_NO_AFTER,	/* the second one is */
	ABIS_MUTANT_INSERT_LEFT,	/* ... and the secondary PTE stays, too */
	ABIS_MUTANT_HIDDEN_UNCACHED,	/* what is hidden is held by nobody */
	ABIS_MUTANT_HIDDEN_OVER,	/* what is hidden is inserted again whoever holds it */
	ABIS_MUTANT_HIDDEN_PRIVATE,	/* whoever has it revealed is its only holder */
	ABIS_MUTANT_HIDDEN_TAKEN,	/* of a window taken over one page alone is flushed */
	ABIS_MUTANT_INSERT_INTERRUPTED,	/* interrupts are on in the window of the secondary */
	ABIS_MUTANT_BORN_ACCESSED,	/* what is inserted is mapped as used by anyone */
	ABIS_MUTANT_NOTIFIERS_IGNORED,	/* devices that walk the page tables do not count */
	ABIS_MUTANT_FREED_ELIDED,	/* page tables are freed with no flush */
	ABIS_MUTANT_MOVED_ELIDED,	/* ... or moved */
	ABIS_MUTANT_REQUEST_SPANS,	/* the machine is asked for what lies between, too */
	ABIS_MUTANT_REQUEST_HIDES,	/* what is hidden loses the accessed bit */
	ABIS_MUTANTS,
};

#ifdef CONFIG_ABIS_DEBUG

extern enum abis_mutant abis_mutant_chosen;

static inline bool abis_mutant(enum abis_mutant mutant)
{
	return unlikely(READ_ONCE(abis_mutant_chosen) == mutant);
}

/* A break that needs others to come in between: PAUSE lets an emulator run them. */
static inline bool abis_mutant_lingering(enum abis_mutant mutant)
{
	int i;

	for (i = 0; abis_mutant(mutant) && i < 16; i++)
		cpu_relax();
	return abis_mutant(mutant);
}

/* What is remembered of an insertion, behind the SPTEs of its page table. */
struct abis_record {
	u32 losses;	/* how often that CPU had lost its ASID then */
	u8 cpu;		/* plus one */
	u8 asid;
};
#define ABIS_RECORDS_SIZE	(PTRS_PER_PTE * sizeof(struct abis_record))

void abis_debug_record(pte_t *ptep);
void abis_debug_class(struct mm_struct *mm, unsigned long addr, pte_t *ptep,
		      enum abis_site site, struct abis_verdict verdict, unsigned int nr);
void abis_debug_check(struct mm_struct *mm, unsigned long addr, pte_t pte,
		      spte_t spte, enum abis_site site,
		      struct abis_verdict verdict);
void abis_debug_narrowed(struct mm_struct *mm, const struct abis_hold *hold);
void abis_debug_inserted(struct mm_struct *mm, unsigned long addr, pte_t *ptep);
void abis_debug_secondary(struct mm_struct *mm, unsigned long addr,
			  const unsigned long *tables, unsigned int nr);
void abis_debug_violation(const char *what, unsigned long addr, pte_t pte);
void abis_debug_init(struct dentry *dir);
void abis_debug_show(struct seq_file *file);

static inline void abis_debug_hold_add(struct abis_hold *hold, unsigned long addr,
				       pte_t *ptep)
{
	if (hold->pages >= ARRAY_SIZE(hold->checked))
		return;
	hold->checked[hold->pages].addr = addr;
	hold->checked[hold->pages].ptep = ptep;
}

#else

static inline bool abis_mutant(enum abis_mutant mutant) { return false; }
static inline bool abis_mutant_lingering(enum abis_mutant mutant) { return false; }
#define ABIS_RECORDS_SIZE	0
static inline void abis_debug_record(pte_t *ptep) { }
static inline void abis_debug_class(struct mm_struct *mm, unsigned long addr,
				    pte_t *ptep, enum abis_site site,
				    struct abis_verdict verdict, unsigned int nr) { }
static inline void abis_debug_check(struct mm_struct *mm, unsigned long addr,
				    pte_t pte, spte_t spte, enum abis_site site,
				    struct abis_verdict verdict) { }
static inline void abis_debug_narrowed(struct mm_struct *mm,
				       const struct abis_hold *hold) { }
static inline void abis_debug_inserted(struct mm_struct *mm, unsigned long addr,
				       pte_t *ptep) { }
static inline void abis_debug_secondary(struct mm_struct *mm, unsigned long addr,
					const unsigned long *tables,
					unsigned int nr) { }
static inline void abis_debug_violation(const char *what, unsigned long addr,
					pte_t pte) { }
static inline void abis_debug_hold_add(struct abis_hold *hold, unsigned long addr,
				       pte_t *ptep) { }
static inline void abis_debug_init(struct dentry *dir) { }
static inline void abis_debug_show(struct seq_file *file) { }

#endif /* CONFIG_ABIS_DEBUG */

u64 abis_version_to_stamp(struct mm_struct *mm);
bool abis_table_is_own(pte_t *ptep);
spte_t abis_spte_read(pte_t *ptep);
spte_t *abis_spte_write(pte_t *ptep);
bool abis_mm_is_eligible(struct mm_struct *mm);
bool abis_spares_others(struct mm_struct *mm, unsigned int cpu);
void abis_hold_add(struct abis_hold *hold, unsigned int cpu, unsigned long addr,
		   pte_t *ptep);
void abis_batch_pay(struct arch_tlbflush_unmap_batch *batch);
void abis_pay_all(void);
const char *abis_insert_prepare(bool by_request);
void abis_insert_choose(bool by_request);
long abis_insert_bytes(void);
bool abis_may_hide(struct vm_area_struct *vma, pte_t pte);
void abis_hidden_written(struct mm_struct *mm);
void abis_hidden_kept(struct mm_struct *mm);
void abis_count_request_hold(enum abis_site site, bool elided, unsigned int pages);

static inline bool abis_is_adaptive(void)
{
	return READ_ONCE(abis_points_floor) == 0;
}

void abis_adapt_inserted(struct mm_struct *mm, unsigned int pages, bool by_request);
void abis_adapt_refault(struct mm_struct *mm);
void abis_adapt_saved(struct mm_struct *mm, int interrupted, bool batched);
void __abis_adapt_missed(struct mm_struct *mm, bool batched);

/* A flush goes to everyone. */
static inline void abis_adapt_missed(struct mm_struct *mm, bool batched)
{
	if (abis_inserting() && atomic_read(&mm->mm_users) > 1)
		__abis_adapt_missed(mm, batched);
}

int abis_cache_init(void);
int abis_stat_init(void);

#endif /* _MM_ABIS_H */
