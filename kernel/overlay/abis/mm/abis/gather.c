// SPDX-License-Identifier: GPL-2.0-only
/* ABIS in a gather: see include/linux/abis_gather.h. */

#include <linux/mm.h>

#include <asm/tlb.h>
#include <linux/abis_gather.h>

#include "abis.h"

static noinline bool elide(struct mmu_gather *tlb, pte_t *ptep, pte_t pte,
			   unsigned int nr, unsigned long address, enum abis_site site)
{
	bool blocked = false;

	if (tlb->fullmm)
		return false;
	tlb->abis_asked = 1;
	tlb->abis_site = site;
	if (!__abis_elide(tlb->mm, address, ptep, pte, nr, site, &blocked)) {
		tlb->abis_blocked |= blocked;
		return false;
	}
	tlb->abis_elided = 1;
	if (!tlb->end)
		__tlb_adjust_range(tlb, address, PAGE_SIZE * nr);
	return true;
}

bool __tlb_abis_elide(struct mmu_gather *tlb, pte_t *ptep, pte_t pte,
		      unsigned int nr, unsigned long address, enum abis_site site)
{
	/* By far the most frequent answer; the debug kernel looks at those, too. */
	if (!IS_ENABLED(CONFIG_ABIS_DEBUG) && (pte_flags(pte) & _PAGE_ACCESSED)) {
		tlb->abis_site = site;
		tlb->abis_accessed += nr;
		return false;
	}
	return elide(tlb, ptep, pte, nr, address, site);
}

void __tlb_abis_elided(struct mmu_gather *tlb)
{
	if (!tlb->abis_elided)
		return;
	__abis_count_request(tlb->abis_site, true);
	__tlb_reset_range(tlb);
}

/* If all that it lacked was a round, it may become one. */
void __tlb_abis_flush(struct mmu_gather *tlb)
{
	if (!(tlb->abis_asked || tlb->abis_accessed))
		return;
	/* At exit nobody is left to interrupt. A nested gather only ends like that. */
	if (tlb->fullmm && !atomic_read(&tlb->mm->mm_users))
		return;
	this_cpu_add(abis_accessed[tlb->abis_site], tlb->abis_accessed);
	tlb->abis_accessed = 0;
	__abis_count_request(tlb->abis_site, false);
	if (abis_force_round(tlb->mm, tlb->abis_blocked)) {
		tlb->start = 0;
		tlb->end = TLB_FLUSH_ALL;
	}
}
