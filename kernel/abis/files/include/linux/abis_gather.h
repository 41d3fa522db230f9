/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ABIS in a gather: PTEs that nobody holds do not ask for a flush. Included by
 * asm-generic/tlb.h, whose struct mmu_gather this is about.
 */
#ifndef _LINUX_ABIS_GATHER_H
#define _LINUX_ABIS_GATHER_H

#include <linux/abis.h>

#ifdef CONFIG_ABIS

/* mm->context.abis.gathers: see mm/abis/gather.c. */
#define ABIS_GATHERS_OPEN	((1ull << 24) - 1)	/* more than there can be tasks */
#define ABIS_GATHERS_BEGUN	(1ull << 24)

pte_t __tlb_abis_get_and_clear_ptes(struct mmu_gather *tlb, unsigned long address,
				    pte_t *ptep, unsigned int nr);
void __tlb_abis_change_pte(struct mmu_gather *tlb, struct vm_area_struct *vma,
			   unsigned long address, pte_t *ptep, pte_t old, pte_t pte);
void __tlb_abis_insert_pte(struct mmu_gather *tlb, struct vm_area_struct *vma,
			   unsigned long address, pte_t *ptep, pte_t old, pte_t pte);
void __tlb_abis_lock(struct mmu_gather *tlb, pte_t *ptep);
void __tlb_abis_elided(struct mmu_gather *tlb);
void __tlb_abis_flush_mmu_tlbonly(struct mmu_gather *tlb);
void __tlb_abis_unproven(struct mmu_gather *tlb);
void __tlb_abis_drop_unproven(struct mmu_gather *tlb);
void __tlb_abis_unlock(struct mmu_gather *tlb);
bool __tlb_abis_nested(struct mmu_gather *tlb);

/* A gather is initialised ... */
static __always_inline void tlb_abis_init(struct mmu_gather *tlb)
{
	tlb->abis_proven = 0;
	tlb->abis_unproven = 0;
	tlb->abis_unproven_to_end = 0;
	tlb->abis_unstamped = 0;
#ifdef CONFIG_ABIS_FULL
	tlb->abis_interrupts = 0;
	tlb->abis_kept = 0;
#endif
}

/* ... begins, counted in mm->tlb_flush_pending already ... */
static __always_inline void tlb_abis_begin(struct mmu_gather *tlb)
{
	if (!abis_eliding() || tlb->fullmm)
		return;
	tlb->abis_proven = 1;
	/* After mm->tlb_flush_pending: atomic, as all changes of both. */
	atomic64_add(ABIS_GATHERS_BEGUN + 1, &tlb->mm->context.abis.gathers);
}

/* ... and ends, flushed, and counted there still. */
static __always_inline void tlb_abis_end(struct mmu_gather *tlb)
{
	if (!static_branch_unlikely(&abis_used_key))
		return;
	if (tlb->abis_unproven)
		__tlb_abis_drop_unproven(tlb);
	if (tlb->abis_proven)
		atomic64_dec(&tlb->mm->context.abis.gathers);
}

/*
 * A PTE that the gather is to flush was cleared; its lock has been held since.
 * Without the key there is no accountable gather, whatever the bit says.
 */
static __always_inline void tlb_abis_unproven(struct mmu_gather *tlb)
{
	if (static_branch_unlikely(&abis_used_key) && tlb->abis_proven)
		__tlb_abis_unproven(tlb);
}

/*
 * The gather comes to entries of another size, which others look at without the
 * lock: before they are cleared, and until it ends.
 */
static __always_inline void tlb_abis_page_size(struct mmu_gather *tlb,
					       unsigned int page_size)
{
	if (page_size == PAGE_SIZE)
		return;
	tlb_abis_unproven(tlb);
	tlb->abis_unproven_to_end = 1;
}

/* There are other gathers: must this one flush what they have cleared? */
static __always_inline bool tlb_abis_nested(struct mmu_gather *tlb)
{
	return !abis_eliding() || __tlb_abis_nested(tlb);
}

/* By far the most frequent answer; the debug kernel looks at those, too. */
static __always_inline bool tlb_abis_is_accessed(struct mmu_gather *tlb, pte_t pte,
						 unsigned int nr, enum abis_site site)
{
	if (IS_ENABLED(CONFIG_ABIS_DEBUG) || unlikely(!(pte_flags(pte) & _PAGE_ACCESSED)))
		return false;
	if (likely(!tlb->fullmm)) {
		tlb->abis_asked = 1;
		if (site == ABIS_PROTECT)
			tlb->abis_protects = 1;
		this_cpu_add(abis_accessed[site], nr);
	}
	return true;
}

/*
 * Need the @nr PTEs from @ptep on be flushed? @pte is what an atomic exchange
 * returned for the first of them, with the accessed bits of all or'd in; for
 * what must hold see abis_elide_request(). If nobody holds them they leave no
 * mark in the flags that ask for a flush; what remains is that the gather is
 * not empty.
 */
bool __tlb_abis_elide(struct mmu_gather *tlb, pte_t *ptep, pte_t pte,
		      unsigned int nr, unsigned long address, enum abis_site site);

/* Of PTEs without a struct page the zero page's alone is asked for. */
static __always_inline bool tlb_abis_elide_zero(struct mmu_gather *tlb, pte_t *ptep, pte_t pte,
						unsigned long address)
{
	return abis_eliding() && is_zero_pfn(pte_pfn(pte)) &&
	       __tlb_abis_elide(tlb, ptep, pte, 1, address, ABIS_ZAP);
}

/*
 * mprotect() has taken @old from @ptep, and @pte is to take its place. Who holds @old is
 * asked before @pte can be cached, so Linux's order will not do. Return: all is done.
 */
static __always_inline bool tlb_abis_change_pte(struct mmu_gather *tlb, struct vm_area_struct *vma,
						unsigned long address, pte_t *ptep, pte_t old,
						pte_t pte, unsigned long cp_flags)
{
	if (!abis_eliding())
		return false;
	/* No call with more than six arguments: gcc would realign the caller's stack. */
#ifdef CONFIG_ABIS_FULL
	if (cp_flags & MM_CP_INSERT) {
		__tlb_abis_insert_pte(tlb, vma, address, ptep, old, pte);
		return true;
	}
#endif
	__tlb_abis_change_pte(tlb, vma, address, ptep, old, pte);
	return true;
}

/*
 * The lock of the page table of @ptep was taken. Where nothing is promised, there is
 * nothing to take back when its PTEs are, within this hold: whoever begins a table does
 * so under the lock. One look spares one for each PTE. Where nothing is to be inserted any
 * more, the promise of a new page table ends here.
 */
static __always_inline void tlb_abis_lock(struct mmu_gather *tlb, pte_t *ptep)
{
	if (abis_tracking())
		__tlb_abis_lock(tlb, ptep);
}

/*
 * get_and_clear_full_ptes() for tlb_abis_elide_zap(), which must follow within this hold of
 * the lock, and tell the hardware's accessed bit from the software's: pte_mkyoung() makes
 * one of the other. Several PTEs are stamped here, and out of line: one alone pays nothing.
 */
static __always_inline pte_t tlb_abis_get_and_clear_ptes(struct mmu_gather *tlb,
							 unsigned long address, pte_t *ptep,
							 unsigned int nr)
{
	if (!__builtin_constant_p(nr) || nr != 1)
		return __tlb_abis_get_and_clear_ptes(tlb, address, ptep, nr);
	if (tlb->fullmm)
		return ptep_get_and_clear_full(tlb->mm, address, ptep, true);
	return ptep_get_and_clear_unstamped(tlb->mm, ptep);
}

/* The same for anonymous pages, where nobody else needs the exact bits of @pte, the first. */
static __always_inline pte_t tlb_abis_clear_ptes(struct mmu_gather *tlb, unsigned long address,
						 pte_t *ptep, pte_t pte, unsigned int nr)
{
	return tlb_abis_get_and_clear_ptes(tlb, address, ptep, nr);
}

/* __tlb_abis_elide() of what one of the two has taken; one PTE alone is stamped first. */
static __always_inline bool tlb_abis_elide_zap(struct mmu_gather *tlb, pte_t *ptep, pte_t pte,
					       unsigned int nr, unsigned long address)
{
	/* Off until there is tracking for the first time: one test for all. */
	if (!static_branch_unlikely(&abis_used_key))
		return false;
	/* Who has not been stamped is one, whatever the compiler knows of @nr. */
	if (nr == 1 && !tlb->fullmm && !tlb->abis_unstamped)
		abis_pte_taken(tlb->mm, ptep, pte);
	/* The most frequent answer inline. */
	return abis_eliding() && !tlb_abis_is_accessed(tlb, pte, nr, ABIS_ZAP) &&
	       __tlb_abis_elide(tlb, ptep, pte, nr, address, ABIS_ZAP);
}

/*
 * The page-table lock is about to be released under which __tlb_abis_elide() was
 * called: flush what single CPUs hold. Whatever was switched off meanwhile.
 */
static __always_inline void tlb_abis_unlock(struct mmu_gather *tlb)
{
#ifdef CONFIG_ABIS_FULL
	if (static_branch_unlikely(&abis_used_key) && raw_cpu_read(abis_gather_hold.pages))
		__tlb_abis_unlock(tlb);
#endif
}

/* Nothing in the gather asks for a flush. */
static __always_inline void tlb_abis_elided(struct mmu_gather *tlb)
{
	if (abis_eliding())
		__tlb_abis_elided(tlb);
}

/* Something does. Return: it is done, with all that belongs to it. */
static __always_inline bool tlb_abis_flush(struct mmu_gather *tlb)
{
	if (!static_branch_unlikely(&abis_used_key))
		return false;
	__tlb_abis_flush_mmu_tlbonly(tlb);
	return true;
}

#else /* !CONFIG_ABIS */

static inline bool tlb_abis_elide_zero(struct mmu_gather *tlb, pte_t *ptep, pte_t pte,
				       unsigned long address)
{
	return false;
}

static inline bool tlb_abis_elide_zap(struct mmu_gather *tlb, pte_t *ptep, pte_t pte,
				      unsigned int nr, unsigned long address)
{
	return false;
}

static inline bool tlb_abis_change_pte(struct mmu_gather *tlb, struct vm_area_struct *vma,
				       unsigned long address, pte_t *ptep, pte_t old, pte_t pte,
				       unsigned long cp_flags)
{
	return false;
}

static inline pte_t tlb_abis_get_and_clear_ptes(struct mmu_gather *tlb,
						unsigned long address, pte_t *ptep,
						unsigned int nr)
{
	return get_and_clear_full_ptes(tlb->mm, address, ptep, nr, tlb->fullmm);
}

static inline pte_t tlb_abis_clear_ptes(struct mmu_gather *tlb, unsigned long address,
					pte_t *ptep, pte_t pte, unsigned int nr)
{
	clear_full_ptes(tlb->mm, address, ptep, nr, tlb->fullmm);
	return pte;
}

static inline void tlb_abis_lock(struct mmu_gather *tlb, pte_t *ptep) { }
static inline void tlb_abis_unlock(struct mmu_gather *tlb) { }
static inline void tlb_abis_elided(struct mmu_gather *tlb) { }
static inline bool tlb_abis_flush(struct mmu_gather *tlb) { return false; }
static inline void tlb_abis_init(struct mmu_gather *tlb) { }
static inline void tlb_abis_begin(struct mmu_gather *tlb) { }
static inline void tlb_abis_end(struct mmu_gather *tlb) { }
static inline void tlb_abis_unproven(struct mmu_gather *tlb) { }
static inline void tlb_abis_page_size(struct mmu_gather *tlb, unsigned int page_size) { }
static inline bool tlb_abis_nested(struct mmu_gather *tlb) { return true; }

#endif /* CONFIG_ABIS */
#endif /* _LINUX_ABIS_GATHER_H */
