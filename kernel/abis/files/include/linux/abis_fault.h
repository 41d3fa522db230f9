/* SPDX-License-Identifier: GPL-2.0-only */
/* ABIS in a page fault: whoever maps a page becomes its only holder. See mm/abis/insert.c. */
#ifndef _LINUX_ABIS_FAULT_H
#define _LINUX_ABIS_FAULT_H

#include <linux/abis.h>
#include <linux/mm.h>

#ifdef CONFIG_ABIS_FULL

void __abis_set_ptes(struct vm_fault *vmf, pte_t pte, unsigned int nr);
void __abis_set_flushed_pte(struct vm_fault *vmf, pte_t pte);
void __abis_insert_end(struct vm_area_struct *vma);
bool __abis_reuse_pte(struct vm_fault *vmf, pte_t pte);
bool __abis_inserts_protected(const struct mmu_gather *tlb,
			      const struct vm_area_struct *vma, unsigned long start,
			      unsigned long end, unsigned long cp_flags);
void __abis_unlock_protected(struct mmu_gather *tlb, struct vm_area_struct *vma);

DECLARE_PER_CPU(bool, abis_keeping);

/*
 * set_ptes() of pages that were just faulted in: @vmf->pte is none, @addr its
 * address. If possible this CPU alone will hold them.
 */
static inline void abis_set_ptes(struct vm_fault *vmf, unsigned long addr, pte_t pte,
				 unsigned int nr)
{
	if (abis_inserting() && abis_pays_for_fault(vmf->vma->vm_mm))
		__abis_set_ptes(vmf, pte, nr);
	else
		set_ptes(vmf->vma->vm_mm, addr, vmf->pte, pte, nr);
}

/* The same for one PTE where another was taken away and flushed within this hold. */
static inline void abis_set_flushed_pte(struct vm_fault *vmf, pte_t pte)
{
	if (abis_inserting() && abis_pays_for_fault(vmf->vma->vm_mm))
		__abis_set_flushed_pte(vmf, pte);
	else
		set_pte_at(vmf->vma->vm_mm, vmf->address, vmf->pte, pte);
}

/*
 * vmf->orig_pte is about to become writable in place, as @pte. If this CPU alone can
 * hold it, it goes on to. Return: it has been set.
 */
static inline bool abis_reuse_pte(struct vm_fault *vmf, pte_t pte)
{
	return abis_inserting() && __abis_reuse_pte(vmf, pte);
}

/*
 * Until abis_insert_end(), which must follow before the lock is released, PTEs set
 * by abis_set_ptes() may be kept back. Inserting may be switched off meanwhile.
 */
static inline void abis_insert_begin(struct mm_struct *mm)
{
	if (abis_inserting() && abis_pays(mm))
		this_cpu_write(abis_keeping, true);
}

static inline void abis_insert_end(struct vm_area_struct *vma)
{
	if (static_branch_unlikely(&abis_used_key) && this_cpu_read(abis_keeping))
		__abis_insert_end(vma);
}

/* mprotect() of this range, with these MM_CP_...: may it insert what it changes? */
static inline bool abis_inserts_protected(const struct mmu_gather *tlb,
					  const struct vm_area_struct *vma,
					  unsigned long start, unsigned long end,
					  unsigned long cp_flags)
{
	return abis_inserting() && test_bit(MMF_ABIS_NO_BARRIER, &vma->vm_mm->flags) &&
	       abis_pays(vma->vm_mm) && __abis_inserts_protected(tlb, vma, start, end, cp_flags);
}

/* tlb_abis_unlock(), and what was held back is inserted. Whatever was switched off meanwhile. */
static inline void abis_unlock_protected(struct mmu_gather *tlb, struct vm_area_struct *vma)
{
	if (static_branch_unlikely(&abis_used_key) &&
	    (raw_cpu_read(abis_gather_hold.pages) || raw_cpu_read(abis_keeping)))
		__abis_unlock_protected(tlb, vma);
}

#else /* !CONFIG_ABIS_FULL */

static inline void abis_set_ptes(struct vm_fault *vmf, unsigned long addr, pte_t pte,
				 unsigned int nr)
{
	set_ptes(vmf->vma->vm_mm, addr, vmf->pte, pte, nr);
}

static inline void abis_set_flushed_pte(struct vm_fault *vmf, pte_t pte)
{
	set_pte_at(vmf->vma->vm_mm, vmf->address, vmf->pte, pte);
}

static inline bool abis_reuse_pte(struct vm_fault *vmf, pte_t pte) { return false; }

static inline bool abis_inserts_protected(const struct mmu_gather *tlb,
					  const struct vm_area_struct *vma,
					  unsigned long start, unsigned long end,
					  unsigned long cp_flags)
{
	return false;
}

/* A macro: struct mmu_gather is of asm/tlb.h. */
#define abis_unlock_protected(tlb, vma)	((void)(vma), tlb_abis_unlock(tlb))

static inline void abis_insert_begin(struct mm_struct *mm) { }
static inline void abis_insert_end(struct vm_area_struct *vma) { }

#endif /* CONFIG_ABIS_FULL */

#ifdef CONFIG_ABIS_HIDE

bool __abis_hidden_fault(struct vm_fault *vmf);
void __abis_reveal(pte_t *ptep, unsigned int nr);
bool __abis_reveal_nofault(struct mm_struct *mm, unsigned long addr);

/*
 * A fault of a PTE, vmf->orig_pte, that may be hidden from hardware, and that nothing
 * else is to be done about. PTE lock held. Return: it was, and has been dealt with.
 */
static inline bool abis_hidden_fault(struct vm_fault *vmf)
{
	return unlikely(pte_hidden(vmf->orig_pte)) && __abis_hidden_fault(vmf);
}

/*
 * For who must not be made to fault: mlock() and MADV_POPULATE_READ, which may find that
 * some of the @nr PTEs that they are to map are hidden. PTE lock held. Such may be left when
 * the mode has changed; the key stays on.
 */
static inline void abis_reveal(pte_t *ptep, unsigned int nr)
{
	if (static_branch_unlikely(&abis_used_key))
		__abis_reveal(ptep, nr);
}

static inline bool abis_reveal_nofault(struct mm_struct *mm, unsigned long addr)
{
	return static_branch_unlikely(&abis_used_key) && __abis_reveal_nofault(mm, addr);
}

#else /* !CONFIG_ABIS_HIDE */

static inline bool abis_hidden_fault(struct vm_fault *vmf) { return false; }
static inline void abis_reveal(pte_t *ptep, unsigned int nr) { }
static inline bool abis_reveal_nofault(struct mm_struct *mm, unsigned long addr) { return false; }

#endif /* CONFIG_ABIS_HIDE */
#endif /* _LINUX_ABIS_FAULT_H */
