/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ABIS in a gather: PTEs that nobody holds do not ask for a flush. Included by
 * asm-generic/tlb.h, whose struct mmu_gather this is about.
 */
#ifndef _LINUX_ABIS_GATHER_H
#define _LINUX_ABIS_GATHER_H

#include <linux/abis.h>

#ifdef CONFIG_ABIS

/*
 * Need the @nr PTEs from @ptep on be flushed? For @pte and what must hold see
 * abis_elide(). If nobody holds them they leave no mark in the flags that ask
 * for a flush; what remains is that the gather is not empty.
 */
static inline bool tlb_abis_elide(struct mmu_gather *tlb, pte_t *ptep, pte_t pte,
				  unsigned int nr, unsigned long address,
				  enum abis_site site)
{
	bool blocked = false;

	if (!abis_eliding() || tlb->fullmm)
		return false;
	tlb->abis_asked = 1;
	tlb->abis_site = site;
	if (!abis_elide(tlb->mm, address, ptep, pte, nr, site, &blocked)) {
		tlb->abis_blocked |= blocked;
		return false;
	}
	tlb->abis_elided = 1;
	if (!tlb->end)
		__tlb_adjust_range(tlb, address, PAGE_SIZE * nr);
	return true;
}

/* Nothing in the gather needs a flush. */
static inline void tlb_abis_elided(struct mmu_gather *tlb)
{
	if (!abis_eliding() || !tlb->abis_elided)
		return;
	abis_count_request(tlb->abis_site, true);
	__tlb_reset_range(tlb);
}

/* Something does; if all it lacked was a round, it may become one. */
static inline void tlb_abis_flush(struct mmu_gather *tlb)
{
	if (!abis_eliding() || !tlb->abis_asked)
		return;
	abis_count_request(tlb->abis_site, false);
	if (abis_force_round(tlb->mm, tlb->abis_blocked)) {
		tlb->start = 0;
		tlb->end = TLB_FLUSH_ALL;
	}
}

#else /* !CONFIG_ABIS */

static inline bool tlb_abis_elide(struct mmu_gather *tlb, pte_t *ptep, pte_t pte,
				  unsigned int nr, unsigned long address,
				  enum abis_site site)
{
	return false;
}

static inline void tlb_abis_elided(struct mmu_gather *tlb) { }
static inline void tlb_abis_flush(struct mmu_gather *tlb) { }

#endif /* CONFIG_ABIS */
#endif /* _LINUX_ABIS_GATHER_H */
