// SPDX-License-Identifier: GPL-2.0-only
/*
 * mprotect() of pages that stay private. The store of the new PTE alone would leave the
 * page to be walked to by its next use, which sets the accessed bit: the page counts as
 * used by anyone, and the next mprotect() of it interrupts everyone. So the store is
 * held back, as for pages that a fault-around brings, and the new PTE is inserted.
 *
 * Under one hold of the page-table lock, in this order:
 *
 *  1. The old PTE is taken away by an exchange: the slot is none.
 *  2. What may hold it is flushed: one CPU by tlb_abis_unlock(), everyone by the gather's
 *     flush, which does not wait for the gather's end then. Now nobody holds what was
 *     filled from the slot, this CPU included.
 *  3. The new PTE is inserted, and stored: see insert.c.
 *
 * Where Linux would not flush, because nothing changes or the page was PROT_NONE, nobody
 * has asked who holds it: there the new PTE is stored as ever.
 *
 * Some programs take a right from a page that they alone use, to interrupt all CPUs that
 * run them. They get what they want only because their own store marked the page. So
 * this is for processes that do not: they have used membarrier(2), which is for that, or
 * have said PR_SET_ABIS, 2. To register for membarrier(2) says nothing: C libraries do it
 * for every program with threads.
 *
 * Only anonymous memory: what looks for a page of a file without the lock is not to find
 * the slot none for as long as a flush of everyone takes. Only for few pages, as a TLB
 * should lose no more than that; and only what was used, or it would not be used next.
 */

#include <linux/abis_fault.h>

#include <asm/tlb.h>

#include "insert.h"

/*
 * One flush, as ever: the whole range is of one page table, the gather holds nothing
 * yet that would need another flush, and has not had this before, for another VMA. The
 * mmap lock is held for writing.
 */
bool __abis_inserts_protected(const struct mmu_gather *tlb,
			      const struct vm_area_struct *vma, unsigned long start,
			      unsigned long end, unsigned long cp_flags)
{
	return !vma->vm_file && !(cp_flags & (MM_CP_PROT_NUMA | MM_CP_UFFD_WP_ALL)) &&
	       end - start <= SLOTS_MAX * PAGE_SIZE && !((start ^ (end - 1)) & PMD_MASK) &&
	       !tlb->end && !tlb->abis_kept;
}

/* A store through a clean entry would walk, to set the dirty bit, and mark the page. */
static bool is_ready(pte_t pte)
{
	return pte_young(pte) && (pte_dirty(pte) || !pte_write(pte));
}

/*
 * @old was taken from @ptep, and has been asked about, and @pte is to take its place. PTE
 * lock held. Return: the store of @pte is left to abis_unlock_protected(), which must
 * follow within this hold.
 */
bool abis_keep_protected(struct vm_area_struct *vma, unsigned long addr, pte_t *ptep,
			 pte_t old, pte_t pte)
{
	struct secondary *secondary = this_cpu_read(abis_secondaries);
	struct slot slot = { .addr = addr, .ptep = ptep, .pte = pte };

	if (!pte_needs_flush(old, pte) || !is_ready(pte) || !abis_is_insertable(vma, pte))
		return false;
	slot.spte = abis_spte_write(ptep);
	if (!slot.spte)
		return false;
	secondary->slots[secondary->nr++] = slot;
	this_cpu_write(abis_keeping, true);
	this_cpu_inc(abis_stat.insert_requests);
	this_cpu_inc(abis_stat.protect_kept);
	return true;
}

/* What the SPTEs say of these slots meanwhile nobody reads: the lock is held. */
void __abis_unlock_protected(struct mmu_gather *tlb, struct vm_area_struct *vma)
{
	tlb_abis_unlock(tlb);
	if (!this_cpu_read(abis_keeping))
		return;
	tlb->abis_kept = 1;
	if (!abis_mutant(ABIS_MUTANT_PROTECT_UNFLUSHED))
		tlb_flush_mmu_tlbonly(tlb);
	__abis_insert_end(vma);
}
