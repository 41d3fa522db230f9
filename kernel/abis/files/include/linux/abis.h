/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ABIS: leave out the TLB flushes that hardware accessed bits prove useless.
 *
 * Beside a page table lie two bytes for each PTE, its software PTE (SPTE), under
 * the same lock. It says who may still hold what was filled from that slot, as
 * long as the accessed bit is clear; mm/abis/engine/ decides what follows from
 * it. Documentation: docs/proofs/idle.md of the series.
 *
 * Static keys: tracking (SPTEs are kept) encloses eliding (flushes are left
 * out), so that no elision ever trusts an SPTE that somebody did not keep. In mode
 * full, inserting (who maps a page becomes its only holder) lies within eliding.
 */
#ifndef _LINUX_ABIS_H
#define _LINUX_ABIS_H

#include <linux/ceasefire_needed.h>
#include <linux/mm_types.h>
#include <linux/percpu-defs.h>
#include <linux/pgtable.h>
#include <linux/sched/coredump.h>

/* Present, but hidden from hardware: see asm/abis_hidden.h. Nothing is where that is not. */
#ifndef pte_hidden
#define pte_hidden(pte)		((void)(pte), false)
#define pte_hide(pte)		(pte)
#define pte_reveal(pte)		(pte)
#endif

/* Where a flush can be left out. Names: abis_site_names. */
enum abis_site {
	ABIS_ZAP,		/* munmap, MADV_DONTNEED, truncation */
	ABIS_RECLAIM,		/* batched try_to_unmap() */
	ABIS_MIGRATE,		/* batched try_to_migrate() */
	ABIS_PROTECT,		/* mprotect(), NUMA hinting, userfaultfd write protection */
	ABIS_REMAP,		/* mremap() */
	ABIS_CLEAR_FLUSH,	/* ptep_clear_flush(): COW, write-back, KSM, unbatched unmap */
	ABIS_SITES,
};

/*
 * What has to be flushed before a page-table lock is released, because one CPU
 * alone may hold it: the CPUs and the pages. A zero in pages: nothing, and the
 * rest is not initialised.
 */
struct abis_hold {
	unsigned int pages;
	struct needed needed;	/* a gather's */
	/* The flush itself comes later, by a batch. */
	bool deferred;
	/* Others are flushed in the end: one CPU now only where that spares another. */
	bool sparing;
#ifdef CONFIG_ABIS_FULL
	unsigned long start;
	unsigned long end;
	unsigned long cpus[4];
#ifdef CONFIG_ABIS_DEBUG
	struct {
		unsigned long addr;
		pte_t *ptep;
	} checked[8];
#endif
#endif
};

struct arch_tlbflush_unmap_batch;
struct flush_tlb_info;

static inline void abis_hold_init(struct abis_hold *hold, bool deferred)
{
	hold->pages = 0;
	hold->deferred = deferred;
	hold->sparing = false;
}

pte_t __abis_clear_flush(struct vm_area_struct *vma, unsigned long addr, pte_t *ptep);

#ifdef CONFIG_ABIS

DECLARE_STATIC_KEY_FALSE(abis_eliding_key);
DECLARE_PER_CPU(u64[ABIS_SITES], abis_accessed);
DECLARE_PER_CPU(struct abis_hold, abis_gather_hold);

void __abis_table_free(struct ptdesc *ptdesc);
pte_t __abis_mkuncached(struct vm_area_struct *vma, pte_t *ptep, pte_t pte);
bool __abis_elide(struct mm_struct *mm, unsigned long addr, pte_t *ptep,
		  pte_t pte, unsigned int nr, enum abis_site site,
		  bool *blocked, struct abis_hold *hold);
void abis_end_request(struct mm_struct *mm, enum abis_site site, bool elided,
		      const struct abis_hold *hold, unsigned int pages);
bool __abis_force_round(struct mm_struct *mm);

static inline bool abis_eliding(void)
{
	return static_branch_unlikely(&abis_eliding_key);
}

/* ptep_clear_flush(): is __abis_clear_flush() to do it? */
static inline bool abis_clears_and_flushes(void)
{
	return abis_tracking();
}

/*
 * ptep_get_and_clear() for ptep_clear_flush() while nothing is tracked: no stamp. Nothing
 * is elided in this hold of the lock, and a new epoch voids the SPTE before anything is
 * elided again.
 */
static inline pte_t abis_get_and_clear_to_flush(struct mm_struct *mm, unsigned long addr,
						pte_t *ptep)
{
	return ptep_get_and_clear_unstamped(mm, ptep);
}

#ifdef CONFIG_ABIS_FULL

DECLARE_STATIC_KEY_FALSE(abis_inserting_key);
/* See mm/abis/adapt.c. */
extern int abis_points_floor;
DECLARE_PER_CPU(u64, abis_unpaid);

void __abis_table_fresh(struct ptdesc *ptdesc);
void __abis_adapt_thread(struct mm_struct *mm);
unsigned int __abis_hold_flush(struct mm_struct *mm, struct abis_hold *hold);
bool __abis_batch_owe(struct arch_tlbflush_unmap_batch *batch, struct mm_struct *mm,
		      struct abis_hold *hold);
bool abis_batch_pending(struct mm_struct *mm);
u64 abis_secondary_root(void);

static inline bool abis_inserting(void)
{
	return static_branch_unlikely(&abis_inserting_key);
}

/* Mode full: does insertion pay in @mm, as far as is known? See mm/abis/adapt.c. */
static inline bool abis_pays(struct mm_struct *mm)
{
	return READ_ONCE(mm->context.abis.points) > READ_ONCE(abis_points_floor);
}

/* Is what a fault has brought to be inserted? Counts if it is not. */
static inline bool abis_pays_for_fault(struct mm_struct *mm)
{
	if (abis_pays(mm))
		return true;
	this_cpu_inc(abis_unpaid);
	return false;
}

#else /* !CONFIG_ABIS_FULL */

static inline void __abis_table_fresh(struct ptdesc *ptdesc) { }
static inline unsigned int __abis_hold_flush(struct mm_struct *mm, struct abis_hold *hold)
{
	return 0;
}

static inline bool __abis_batch_owe(struct arch_tlbflush_unmap_batch *batch,
				    struct mm_struct *mm, struct abis_hold *hold)
{
	return false;
}

static inline bool abis_inserting(void) { return false; }
static inline bool abis_pays(struct mm_struct *mm) { return false; }

#endif /* CONFIG_ABIS_FULL */

#define ABIS_SPTE_ELSEWHERE	1ul

/*
 * The SPTEs of a page table. Their address is in the page table's own page, or with what its
 * replicas need, if it has any (mm/numapte). PTE lock held, or nothing leads to the table; one
 * look, since tables above the PTE level, which have none, may get the latter at any time.
 */
static inline u16 *abis_sptes(const struct ptdesc *ptdesc)
{
	unsigned long word = READ_ONCE(ptdesc->__page_mapping);

	if (IS_ENABLED(CONFIG_NUMAPTE) && word & ABIS_SPTE_ELSEWHERE)
		word = *(unsigned long *)(word - ABIS_SPTE_ELSEWHERE);
	return (u16 *)word;
}

static inline void abis_sptes_set(struct ptdesc *ptdesc, u16 *sptes)
{
	unsigned long word = READ_ONCE(ptdesc->__page_mapping);

	if (IS_ENABLED(CONFIG_NUMAPTE) && word & ABIS_SPTE_ELSEWHERE)
		*(u16 **)(word - ABIS_SPTE_ELSEWHERE) = sptes;
	else
		ptdesc->pt_spte = sptes;
}

/* A new page table has none, or that of a page table that nobody ever walked. */
static inline void abis_table_init(struct ptdesc *ptdesc)
{
	ptdesc->pt_spte = NULL;
	if (abis_inserting())
		__abis_table_fresh(ptdesc);
}

/* A page-table page goes away, or begins a new life. */
static inline void abis_table_free(struct ptdesc *ptdesc)
{
	if (unlikely(abis_sptes(ptdesc)))
		__abis_table_free(ptdesc);
}

/* The flush that whoever calls this has completed, PTE lock held since @pte was taken. */
static inline pte_t abis_mkuncached(struct vm_area_struct *vma, pte_t *ptep, pte_t pte)
{
	return abis_tracking() ? __abis_mkuncached(vma, ptep, pte) : pte;
}

/*
 * A flush request of its own: need the PTE be flushed? @pte is what an atomic
 * exchange returned for it. PTE lock held since then; nothing has been stored in
 * its place yet. @blocked is set if only a round was wanting; it is not cleared.
 * What is left to be flushed on single CPUs is added to @hold: abis_hold_flush()
 * must follow before the lock is released.
 */
static inline bool abis_elide_request(struct mm_struct *mm, unsigned long addr,
				      pte_t *ptep, pte_t pte,
				      enum abis_site site, bool *blocked,
				      struct abis_hold *hold)
{
	unsigned int pages = hold->pages;
	bool elided = false;

	if (!abis_eliding())
		return false;
	/* By far the most frequent answer; the debug kernel looks at it, too. */
	if (!IS_ENABLED(CONFIG_ABIS_DEBUG) && (pte_flags(pte) & _PAGE_ACCESSED))
		this_cpu_inc(abis_accessed[site]);
	else
		elided = __abis_elide(mm, addr, ptep, pte, 1, site, blocked, hold);
	abis_end_request(mm, site, elided, hold, hold->pages - pages);
	return elided;
}

/*
 * Flush what the CPUs in @hold may hold, the page-table lock still held. Looks at
 * @hold alone: whatever is switched, what was promised is done.
 */
static inline void abis_hold_flush(struct mm_struct *mm, struct abis_hold *hold)
{
	if (unlikely(hold->pages))
		__abis_hold_flush(mm, hold);
}

/*
 * The same for a batch, which flushes later: what is in @hold (deferred) becomes
 * its own. Return: whether there is anything left to flush.
 */
static inline bool abis_batch_owe(struct arch_tlbflush_unmap_batch *batch,
				  struct mm_struct *mm, struct abis_hold *hold)
{
	return unlikely(hold->pages) && __abis_batch_owe(batch, mm, hold);
}

/* membarrier(2) is what @mm interrupts its threads by: see mm/abis/protect.c. */
static inline void abis_membarrier(struct mm_struct *mm)
{
	if (!test_bit(MMF_ABIS_NO_BARRIER, &mm->flags))
		set_bit(MMF_ABIS_NO_BARRIER, &mm->flags);
}

/* A flush is due for want of a round: make it one? */
static inline bool abis_force_round(struct mm_struct *mm, bool blocked)
{
	return abis_eliding() && blocked && __abis_force_round(mm);
}

#else /* !CONFIG_ABIS */

static inline bool abis_clears_and_flushes(void) { return false; }
static inline pte_t abis_get_and_clear_to_flush(struct mm_struct *mm, unsigned long addr,
						pte_t *ptep)
{
	return ptep_get_and_clear(mm, addr, ptep);
}

static inline void abis_table_init(struct ptdesc *ptdesc) { }
static inline void abis_table_free(struct ptdesc *ptdesc) { }
static inline pte_t abis_mkuncached(struct vm_area_struct *vma, pte_t *ptep, pte_t pte)
{
	return pte;
}

static inline bool abis_elide_request(struct mm_struct *mm, unsigned long addr,
				      pte_t *ptep, pte_t pte,
				      enum abis_site site, bool *blocked,
				      struct abis_hold *hold)
{
	return false;
}

static inline void abis_membarrier(struct mm_struct *mm) { }
static inline void abis_hold_flush(struct mm_struct *mm, struct abis_hold *hold) { }
static inline bool abis_batch_owe(struct arch_tlbflush_unmap_batch *batch,
				  struct mm_struct *mm, struct abis_hold *hold)
{
	return false;
}

#endif /* CONFIG_ABIS */

/* Another thread is about to run @mm. */
static inline void abis_adapt_thread(struct mm_struct *mm)
{
#ifdef CONFIG_ABIS_FULL
	if (abis_inserting())
		__abis_adapt_thread(mm);
#endif
}

#ifdef CONFIG_ABIS_FULL

void __abis_publish(const struct flush_tlb_info *info);
unsigned long __abis_ceiling(struct mm_struct *mm, unsigned long ceiling);

/* Of a flush of @mm: more pages than this are a flush of everything. See mm/abis/replay.c. */
static __always_inline unsigned long abis_ceiling(struct mm_struct *mm, unsigned long ceiling)
{
	if (static_branch_unlikely(&abis_owing_key) && abis_pays(mm))
		return __abis_ceiling(mm, ceiling);
	return ceiling;
}

/* tlb_gen of @mm is about to be raised; abis_publish() follows. The oracle waits for it. */
static __always_inline void abis_publish_begin(struct mm_struct *mm)
{
	abis_debug_publishing(mm, 1);
}

/*
 * tlb_gen was raised for this flush. Before anybody is interrupted. Where nothing is
 * inserted there is nothing to keep: then it stays unknown what was flushed.
 */
static __always_inline void abis_publish(struct mm_struct *mm, const struct flush_tlb_info *info)
{
	if (static_branch_unlikely(&abis_owing_key) && abis_pays(mm))
		__abis_publish(info);
	abis_debug_publishing(mm, -1);
}

#else

static inline void abis_publish_begin(struct mm_struct *mm) { }
static inline void abis_publish(struct mm_struct *mm, const struct flush_tlb_info *info) { }
static inline unsigned long abis_ceiling(struct mm_struct *mm, unsigned long ceiling)
{
	return ceiling;
}

#endif /* CONFIG_ABIS_FULL */

#endif /* _LINUX_ABIS_H */
