/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ABIS where an address space has a tree of page tables for each node (mm/numapte). What
 * ABIS says of a slot it says of the slot and of its replicas together: the accessed bit is
 * set if it is set in one of them. Where there are no such trees, this is what it always was.
 */
#ifndef _MM_ABIS_TREES_H
#define _MM_ABIS_TREES_H

#include <linux/mm.h>

#include <asm/tlbflush.h>

#ifdef CONFIG_NUMAPTE

#include <linux/numapte.h>
#include <linux/numapte_flush.h>

#define abis_sptes_of(ptdesc)	abis_sptes(ptdesc)

/* @pte is what is there, but for what hardware sets. Return: the bit was set, on any node. */
static inline bool abis_clear_accessed(pte_t *ptep, pte_t pte)
{
	if (numapte_on())
		return __numapte_clear_young(&ptep->pte);
	return pte_flags(pte) & _PAGE_ACCESSED &&
	       test_and_clear_bit(_PAGE_BIT_ACCESSED, (unsigned long *)&ptep->pte);
}

#define abis_ptep_get(ptep)	numapte_ptep_get(ptep)

/* This CPU holds what is in the slot without a walk. Return: false: nobody can be told. */
static inline bool abis_tell_inserted(struct mm_struct *mm, pte_t *ptep)
{
	return !numapte_on() || __numapte_inserted(mm, ptep);
}

static inline bool abis_has_trees(struct mm_struct *mm)
{
	return numapte_on() && READ_ONCE(mm->context.numapte.mm);
}

/* The generation that @cpu has to catch up with. */
static inline u64 abis_gen_of(struct mm_struct *mm, int cpu)
{
	return numapte_on() ? numapte_gen_of(mm, cpu_to_node(cpu)) : atomic64_read(&mm->context.tlb_gen);
}

#ifdef CONFIG_ABIS_FULL
/* What the last generations flush that @cpu has to catch up with: mm/abis/engine/ring.h. */
static inline u64 *abis_ring_of(struct mm_struct *mm, int cpu)
{
	u64 *ring = numapte_on() ? numapte_ring_of(mm, cpu_to_node(cpu)) : NULL;

	return ring ?: mm->context.abis.ring;
}
#endif

#define abis_flush_page(vma, ptep, addr)	numapte_flush_page(vma, ptep, addr)
#define abis_add_pending(batch, mm, addr)	numapte_add_pending(batch, mm, NULL, addr)
#define abis_gather_everyone(tlb)		((void)((tlb)->numapte.nodes = NUMAPTE_ALL))

#else

/* Nobody sets it but under the lock: the compiler may look once for several. */
static inline u16 *abis_sptes_of(const struct ptdesc *ptdesc)
{
	return ptdesc->pt_spte;
}

static inline bool abis_clear_accessed(pte_t *ptep, pte_t pte)
{
	return pte_flags(pte) & _PAGE_ACCESSED &&
	       test_and_clear_bit(_PAGE_BIT_ACCESSED, (unsigned long *)&ptep->pte);
}

#define abis_ptep_get(ptep)	ptep_get(ptep)

static inline bool abis_tell_inserted(struct mm_struct *mm, pte_t *ptep) { return true; }
static inline bool abis_has_trees(struct mm_struct *mm) { return false; }

static inline u64 abis_gen_of(struct mm_struct *mm, int cpu)
{
	return atomic64_read(&mm->context.tlb_gen);
}

#ifdef CONFIG_ABIS_FULL
static inline u64 *abis_ring_of(struct mm_struct *mm, int cpu)
{
	return mm->context.abis.ring;
}
#endif

#define abis_flush_page(vma, ptep, addr)	((void)(ptep), flush_tlb_page(vma, addr))
#define abis_add_pending(batch, mm, addr)	arch_tlbbatch_add_pending(batch, mm, addr)
#define abis_gather_everyone(tlb)		((void)(tlb))

#endif
#endif
