/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which nodes a flush is for, where page tables are replicated: those whose trees use the
 * tables that it is about. See mm/numapte/filter.c.
 */
#ifndef _LINUX_NUMAPTE_FLUSH_H
#define _LINUX_NUMAPTE_FLUSH_H

#include <linux/mm.h>

#include <asm/tlbflush.h>

#define NUMAPTE_ALL	(~0ull)

/* Who asks (debug). */
enum numapte_site {
	NUMAPTE_ZAP,		/* zap_pte_range() */
	NUMAPTE_ADVISE,		/* madvise(): cold, pageout, free */
	NUMAPTE_PROTECT,	/* change_pte_range() */
	NUMAPTE_CLEAR,		/* ptep_clear_flush() */
	NUMAPTE_MOVE,		/* move_ptes() */
	NUMAPTE_BATCH,		/* unmapped in a batch: reclaim, migration */
	NUMAPTE_TABLES,		/* page tables that are freed */
	NUMAPTE_SITES
};

struct numapte_gather {
#ifdef CONFIG_NUMAPTE
	bool filters;		/* the address space had trees when the gather began */
	u8 site;
	u64 nodes;		/* those whose CPUs may hold what is to be flushed */
	u64 held;		/* ... of the page table that was locked last */
	u64 freed;		/* ... of the page table that is freed next */
#endif
};

struct arch_tlbflush_unmap_batch;

#ifdef CONFIG_NUMAPTE

/* arch/x86/mm/tlb.c */
void flush_tlb_mm_nodes(struct mm_struct *mm, unsigned long start, unsigned long end,
			unsigned int stride_shift, bool freed_tables, u64 nodes);

void __numapte_flush_range(struct vm_area_struct *vma, pte_t *ptep, unsigned long start,
			   unsigned long end, bool freed_tables, enum numapte_site site);
void __numapte_add_pending(struct arch_tlbflush_unmap_batch *batch, struct mm_struct *mm,
			   pte_t *ptep, unsigned long addr);
u64 numapte_gen_of(struct mm_struct *mm, int node);
u64 *numapte_ring_of(struct mm_struct *mm, int node);

bool __numapte_nested_filtered(void);
bool __numapte_round_filtered(void);

/* Is a flush for @nodes one that everyone executes? (T22: the debug kernel can be broken.) */
static inline bool numapte_is_for_all(u64 nodes)
{
	return nodes == NUMAPTE_ALL ||
	       (IS_ENABLED(CONFIG_NUMAPTE_DEBUG) && __numapte_round_filtered());
}

/*
 * flush_tlb_page() and flush_tlb_range(), where all that is to be flushed was taken out of the
 * page table of @ptep in this hold of its lock.
 */
static inline void numapte_flush_page(struct vm_area_struct *vma, pte_t *ptep, unsigned long addr)
{
	if (numapte_on() && !(vma->vm_flags & VM_HUGETLB))
		__numapte_flush_range(vma, ptep, addr, addr + PAGE_SIZE, false, NUMAPTE_CLEAR);
	else
		flush_tlb_page(vma, addr);
}

static inline void numapte_flush_moved(struct vm_area_struct *vma, pte_t *ptep,
				       unsigned long start, unsigned long end)
{
	if (numapte_on())
		__numapte_flush_range(vma, ptep, start, end, true, NUMAPTE_MOVE);
	else
		flush_tlb_mm_range(vma->vm_mm, start, end, PAGE_SHIFT, true);
}

/*
 * arch_tlbbatch_add_pending() of what was taken out of @ptep, whose lock is held. NULL: for all
 * nodes.
 */
static inline void numapte_add_pending(struct arch_tlbflush_unmap_batch *batch,
				       struct mm_struct *mm, pte_t *ptep, unsigned long addr)
{
	if (numapte_on()) {
		__numapte_add_pending(batch, mm, ptep, addr);
		return;
	}
	arch_tlbbatch_add_pending(batch, mm, addr);
	/* The first trees came meanwhile: what counts as a round is to be one. */
	if (IS_ENABLED(CONFIG_ABIS) && numapte_on())
		__numapte_add_pending(batch, mm, NULL, addr);
}

#else

static inline bool numapte_is_for_all(u64 nodes) { return true; }
#define numapte_flush_page(vma, ptep, addr)		\
	((void)(ptep), flush_tlb_page(vma, addr))
#define numapte_flush_moved(vma, ptep, start, end)	\
	do { (void)(ptep); flush_tlb_range(vma, start, end); } while (0)
#define numapte_add_pending(batch, mm, ptep, addr)	\
	((void)(ptep), arch_tlbbatch_add_pending(batch, mm, addr))

#endif
#endif
