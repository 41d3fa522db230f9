/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of mm/abis/ share. */
#ifndef _MM_ABIS_H
#define _MM_ABIS_H

#include <linux/abis.h>
#include <linux/abis_debug.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/percpu.h>
#include <linux/sched/coredump.h>

#include "engine/engine.h"
#include "engine/ring.h"
#include "trees.h"

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
	u64 replays[ABIS_LAGS];
	u64 replayed;
	u64 insert_requests;
	u64 inserted;
	u64 insert_switches;
	u64 hidden;
	u64 hidden_faults;
	u64 hidden_again;
	u64 hidden_taken;
	u64 hidden_kept;
	u64 hidden_revealed;
	u64 reused;
	u64 protect_kept;
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

/* Deliberate breaks of the debug kernel. */
#define MUTANT(id, ...)	ABIS_MUTANT_##id
enum abis_mutant {
#include "debug/mutants.h"
	ABIS_MUTANTS,
};
#undef MUTANT

#ifdef CONFIG_ABIS_DEBUG

/* Fewer CPUs than an SPTE can name (abis_cpus=), to try what becomes of the others. */
extern unsigned int abis_cpus;

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
	u16 replays;	/* how many ranges it had flushed there to catch up */
	u8 cpu;		/* plus one */
	u8 asid;
};
#define ABIS_RECORDS_SIZE	(PTRS_PER_PTE * sizeof(struct abis_record))

void abis_debug_record(pte_t *ptep);
void abis_debug_replayed(struct mm_struct *mm, const u64 *ranges, unsigned int count);
void abis_debug_narrowed(struct mm_struct *mm, const struct abis_hold *hold);
void abis_debug_inserted(struct mm_struct *mm, unsigned long addr, pte_t *ptep);
void abis_debug_secondary(struct mm_struct *mm, unsigned long addr,
			  const unsigned long *tables, unsigned int nr);
void abis_debug_class(struct mm_struct *mm, unsigned long addr, pte_t *ptep,
		      enum abis_site site, struct abis_verdict verdict, unsigned int nr);
void abis_debug_check(struct mm_struct *mm, unsigned long addr, pte_t pte,
		      spte_t spte, enum abis_site site,
		      struct abis_verdict verdict);
void abis_debug_violation(const char *what, unsigned long addr, pte_t pte);
void abis_debug_init(struct dentry *dir);
void abis_debug_show(struct seq_file *file);

static inline void abis_debug_hold_add(struct abis_hold *hold, unsigned long addr,
				       pte_t *ptep)
{
#ifdef CONFIG_ABIS_FULL
	if (hold->pages >= ARRAY_SIZE(hold->checked))
		return;
	hold->checked[hold->pages].addr = addr;
	hold->checked[hold->pages].ptep = ptep;
#endif
}

#else

#define abis_cpus	SPTE_CPUS
static inline bool abis_mutant(enum abis_mutant mutant) { return false; }
static inline bool abis_mutant_lingering(enum abis_mutant mutant) { return false; }
#define ABIS_RECORDS_SIZE	0
static inline void abis_debug_record(pte_t *ptep) { }
static inline void abis_debug_replayed(struct mm_struct *mm, const u64 *ranges,
				       unsigned int count) { }
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

/* @range: of pages, as a ring has it. */
static inline bool abis_range_has(u64 range, unsigned long addr)
{
	return addr - (range & PAGE_MASK) < (range & RING_PAGES) << PAGE_SHIFT;
}

static inline u64 abis_version(struct mm_struct *mm)
{
	return atomic64_read(&mm->context.abis.version);
}

/*
 * The version to stamp with, read after the atomic operation that cleared the
 * bit, and in this order: a round that ends in between is counted in the version.
 */
static inline u64 abis_version_to_stamp(struct mm_struct *mm)
{
	bool in_flight = atomic_read_acquire(&mm->context.abis.in_flight);

	if (abis_mutant(ABIS_MUTANT_IN_FLIGHT_IGNORED))
		in_flight = false;
	return abis_stamp_version(abis_version(mm), in_flight);
}

/*
 * May flushes of this address space be left out at all? A device that walks
 * these page tables (SVA) registers a notifier before its first walk, and the
 * PTE in question is gone already: it cannot be filled there any more.
 */
static inline bool abis_mm_is_eligible(struct mm_struct *mm)
{
	if (mm_has_notifiers(mm) && !abis_mutant(ABIS_MUTANT_NOTIFIERS_IGNORED))
		return false;
	return !test_bit(MMF_ABIS_REFUSED, &mm->flags);
}

static inline unsigned int abis_slot_of(pte_t *ptep)
{
	return offset_in_page(ptep) / sizeof(*ptep);
}

/*
 * virt_to_ptdesc(), but for the page tables in the kernel's image: those are init_mm's,
 * which nobody asks about.
 */
static inline struct ptdesc *abis_ptdesc_of(pte_t *ptep)
{
	if (IS_ENABLED(CONFIG_ABIS_DEBUG))
		WARN_ON_ONCE(!virt_addr_valid(ptep));
	return page_ptdesc(pfn_to_page(((unsigned long)ptep - PAGE_OFFSET) >> PAGE_SHIFT));
}

extern const spte_t abis_fresh_table[PTRS_PER_PTE];

static inline bool abis_is_fresh(const struct ptdesc *ptdesc)
{
	return abis_sptes_of(ptdesc) == abis_fresh_table;
}

static inline bool abis_table_is_valid(const struct ptdesc *ptdesc)
{
	if (!abis_sptes_of(ptdesc))
		return false;
	return ptdesc->pt_spte_epoch == READ_ONCE(abis_epoch) ||
	       abis_mutant(ABIS_MUTANT_EPOCH_IGNORED);
}

bool abis_table_is_own(pte_t *ptep);
const spte_t *abis_table_read(pte_t *ptep);
spte_t *abis_table_begin(struct ptdesc *ptdesc);

/*
 * The SPTEs of a page table to write to. NULL if there is no memory for them, which
 * is no error: a slot without an SPTE is one that was never stamped.
 */
static inline spte_t *abis_table_write(pte_t *ptep)
{
	struct ptdesc *ptdesc = abis_ptdesc_of(ptep);

	if (likely(abis_table_is_valid(ptdesc) && !abis_is_fresh(ptdesc)))
		return abis_sptes_of(ptdesc);
	return abis_table_begin(ptdesc);
}

/* The SPTE of a slot; SPTE_NEVER without a table. */
static inline spte_t abis_spte_read(pte_t *ptep)
{
	const spte_t *table = abis_table_read(ptep);

	return table ? table[abis_slot_of(ptep)] : SPTE_NEVER;
}

/* The SPTE of a slot to write to, or NULL. */
static inline spte_t *abis_spte_write(pte_t *ptep)
{
	spte_t *table = abis_table_write(ptep);

	return table ? table + abis_slot_of(ptep) : NULL;
}

void abis_count_request_hold(enum abis_site site, bool elided, unsigned int pages);

/* Mode full: what single CPUs flush (owed.c), insertion (insert.c, probe.c, adapt.c). */
#ifdef CONFIG_ABIS_FULL

bool abis_spares_others(struct mm_struct *mm, unsigned int cpu);
void abis_hold_add(struct abis_hold *hold, unsigned int cpu, unsigned long addr,
		   pte_t *ptep);
void abis_batch_pay(struct arch_tlbflush_unmap_batch *batch);
void abis_owing_begin(void);
void abis_owing_end(void);
bool abis_replay_flushes(struct mm_struct *mm, int cpu, u64 from, u64 to, unsigned long addr);
const char *abis_insert_prepare(bool by_request);
bool abis_keep_protected(struct vm_area_struct *vma, unsigned long addr, pte_t *ptep,
			 pte_t old, pte_t pte);
void abis_insert_choose(bool by_request);
void abis_inserting_begin(void);
void abis_inserting_end(void);
long abis_insert_bytes(void);

/* Is this CPU to flush what is in @hold? Preemption off. */
static inline bool abis_hold_is_here(const struct abis_hold *hold)
{
	return abis_set_has((const u64 *)hold->cpus, smp_processor_id());
}

static inline bool abis_owes(struct mm_struct *mm, unsigned int cpu)
{
	return cpu < SPTE_CPUS && test_bit(cpu, mm->context.abis.owed);
}

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

#else /* !CONFIG_ABIS_FULL */

static inline bool abis_spares_others(struct mm_struct *mm, unsigned int cpu) { return false; }
static inline void abis_hold_add(struct abis_hold *hold, unsigned int cpu,
				 unsigned long addr, pte_t *ptep) { }
static inline void abis_batch_pay(struct arch_tlbflush_unmap_batch *batch) { }
static inline void abis_owing_begin(void) { }
static inline void abis_owing_end(void) { }
static inline bool abis_replay_flushes(struct mm_struct *mm, int cpu, u64 from, u64 to,
				       unsigned long addr)
{
	return true;
}

static inline const char *abis_insert_prepare(bool by_request)
{
	return "this kernel is built without it (CONFIG_ABIS_FULL)";
}

static inline void abis_insert_choose(bool by_request) { }
static inline void abis_inserting_begin(void) { }
static inline void abis_inserting_end(void) { }
static inline long abis_insert_bytes(void) { return 0; }
static inline bool abis_hold_is_here(const struct abis_hold *hold) { return false; }
static inline bool abis_owes(struct mm_struct *mm, unsigned int cpu) { return false; }
static inline void abis_adapt_saved(struct mm_struct *mm, int interrupted, bool batched) { }
static inline void abis_adapt_missed(struct mm_struct *mm, bool batched) { }

#endif /* CONFIG_ABIS_FULL */

/* Entries that hardware does not see (hide.c). */
#ifdef CONFIG_ABIS_HIDE
void abis_hidden_kept(struct mm_struct *mm);
#else
static inline void abis_hidden_kept(struct mm_struct *mm) { }
#endif

/* A per-CPU variable, in whose name cpu_ stands for the CPU. */
#define SUM_OF(variable) ({					\
	u64 sum_ = 0;						\
	int cpu_;						\
								\
	for_each_possible_cpu(cpu_)				\
		sum_ += READ_ONCE(variable);			\
	sum_;							\
})

int abis_cache_init(void);
int abis_stat_init(void);

#endif /* _MM_ABIS_H */
