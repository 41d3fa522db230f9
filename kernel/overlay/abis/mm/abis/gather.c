// SPDX-License-Identifier: GPL-2.0-only
/* ABIS in a gather: see include/linux/abis_gather.h. */

#include <linux/mm.h>

#include <asm/tlb.h>
#include <linux/abis_gather.h>

#include "abis.h"

bool __tlb_abis_elide(struct mmu_gather *tlb, pte_t *ptep, pte_t pte,
		      unsigned int nr, unsigned long address, enum abis_site site)
{
	bool blocked = false;

	if (tlb->fullmm)
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

void __tlb_abis_elided(struct mmu_gather *tlb)
{
	if (!tlb->abis_elided)
		return;
	abis_count_request(tlb->abis_site, true);
	__tlb_reset_range(tlb);
}

/* If all that it lacked was a round, it may become one. */
void __tlb_abis_flush(struct mmu_gather *tlb)
{
	if (!tlb->abis_asked)
		return;
	abis_count_request(tlb->abis_site, false);
	if (abis_force_round(tlb->mm, tlb->abis_blocked)) {
		tlb->start = 0;
		tlb->end = TLB_FLUSH_ALL;
	}
}
