/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ABIS in a gather: PTEs that nobody holds do not ask for a flush. Included by
 * asm-generic/tlb.h, whose struct mmu_gather this is about.
 */
#ifndef _LINUX_ABIS_GATHER_H
#define _LINUX_ABIS_GATHER_H

#include <linux/abis.h>

#ifdef CONFIG_ABIS

bool __tlb_abis_elide(struct mmu_gather *tlb, pte_t *ptep, pte_t pte,
		      unsigned int nr, unsigned long address, enum abis_site site);
void __tlb_abis_elided(struct mmu_gather *tlb);
void __tlb_abis_flush(struct mmu_gather *tlb);

/*
 * Need the @nr PTEs from @ptep on be flushed? @pte is what an atomic exchange
 * returned for the first of them, with the accessed bits of all or'd in; for
 * what must hold see abis_elide_request(). If nobody holds them they leave no
 * mark in the flags that ask for a flush; what remains is that the gather is
 * not empty. A macro, since an inline function makes gcc 12 spill registers in
 * mprotect's loop.
 */
#define tlb_abis_elide(tlb, ptep, pte, nr, address, site)	\
	(abis_eliding() && __tlb_abis_elide(tlb, ptep, pte, nr, address, site))

/* Nothing in the gather asks for a flush. */
static __always_inline void tlb_abis_elided(struct mmu_gather *tlb)
{
	if (abis_eliding())
		__tlb_abis_elided(tlb);
}

/* Something does. */
static __always_inline void tlb_abis_flush(struct mmu_gather *tlb)
{
	if (abis_eliding())
		__tlb_abis_flush(tlb);
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
