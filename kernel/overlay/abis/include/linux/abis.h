/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ABIS: leave out the TLB flushes that hardware accessed bits prove useless.
 *
 * Beside a page table lie two bytes for each PTE, its software PTE (SPTE), under
 * the same lock. It says who may still hold what was filled from that slot, as
 * long as the accessed bit is clear; mm/abis/engine/ decides what follows from
 * it. Documentation: docs/why-it-is-safe.md of the series.
 *
 * Two static keys: tracking (SPTEs are kept) encloses eliding (flushes are left
 * out), so that no elision ever trusts an SPTE that somebody did not keep.
 */
#ifndef _LINUX_ABIS_H
#define _LINUX_ABIS_H

#include <linux/mm_types.h>
#include <linux/percpu-defs.h>
#include <linux/pgtable.h>

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

#ifdef CONFIG_ABIS

DECLARE_STATIC_KEY_FALSE(abis_eliding_key);
DECLARE_PER_CPU(u64[ABIS_SITES], abis_accessed);

void __abis_table_free(struct ptdesc *ptdesc);
pte_t __abis_mkuncached(struct mm_struct *mm, pte_t *ptep, pte_t pte);
bool __abis_elide(struct mm_struct *mm, unsigned long addr, pte_t *ptep,
		  pte_t pte, unsigned int nr, enum abis_site site,
		  bool *blocked);
void __abis_count_request(enum abis_site site, bool elided);
bool __abis_force_round(struct mm_struct *mm);
void abis_flush_round(struct mm_struct *mm);

static inline bool abis_eliding(void)
{
	return static_branch_unlikely(&abis_eliding_key);
}

/* A new page table has none. */
static inline void abis_table_init(struct ptdesc *ptdesc)
{
	ptdesc->pt_spte = NULL;
}

/* A page-table page goes away, or begins a new life. */
static inline void abis_table_free(struct ptdesc *ptdesc)
{
	if (unlikely(ptdesc->pt_spte))
		__abis_table_free(ptdesc);
}

/* The flush that whoever calls this has completed, PTE lock held since @pte was taken. */
static inline pte_t abis_mkuncached(struct mm_struct *mm, pte_t *ptep, pte_t pte)
{
	return abis_tracking() ? __abis_mkuncached(mm, ptep, pte) : pte;
}

/*
 * A flush request of its own: need the PTE be flushed? @pte is what an atomic
 * exchange returned for it. PTE lock held since then; nothing has been stored in
 * its place yet. @blocked is set if only a round was wanting; it is not cleared.
 */
static inline bool abis_elide_request(struct mm_struct *mm, unsigned long addr,
				      pte_t *ptep, pte_t pte,
				      enum abis_site site, bool *blocked)
{
	bool elided = false;

	if (!abis_eliding())
		return false;
	/* By far the most frequent answer; the debug kernel looks at it, too. */
	if (!IS_ENABLED(CONFIG_ABIS_DEBUG) && (pte_flags(pte) & _PAGE_ACCESSED))
		this_cpu_inc(abis_accessed[site]);
	else
		elided = __abis_elide(mm, addr, ptep, pte, 1, site, blocked);
	__abis_count_request(site, elided);
	return elided;
}

/* A flush is due for want of a round: make it one? */
static inline bool abis_force_round(struct mm_struct *mm, bool blocked)
{
	return abis_eliding() && blocked && __abis_force_round(mm);
}

#else /* !CONFIG_ABIS */

static inline void abis_table_init(struct ptdesc *ptdesc) { }
static inline void abis_table_free(struct ptdesc *ptdesc) { }
static inline pte_t abis_mkuncached(struct mm_struct *mm, pte_t *ptep, pte_t pte)
{
	return pte;
}

static inline bool abis_elide_request(struct mm_struct *mm, unsigned long addr,
				      pte_t *ptep, pte_t pte,
				      enum abis_site site, bool *blocked)
{
	return false;
}

static inline bool abis_force_round(struct mm_struct *mm, bool blocked)
{
	return false;
}

static inline void abis_flush_round(struct mm_struct *mm) { }
#endif /* CONFIG_ABIS */
#endif /* _LINUX_ABIS_H */
