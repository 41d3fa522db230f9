/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which nodes a gather's flush is for. Included by asm-generic/tlb.h, whose struct mmu_gather
 * this is about.
 */
#ifndef _LINUX_NUMAPTE_GATHER_H
#define _LINUX_NUMAPTE_GATHER_H

#include <linux/numapte_flush.h>

#ifdef CONFIG_NUMAPTE

void __numapte_gather_init(struct mmu_gather *tlb);
void __numapte_gather_flushed(struct mmu_gather *tlb);
u64 __numapte_nodes(const void *entry);
void __numapte_gather_lock(struct mmu_gather *tlb, pte_t *ptep, enum numapte_site site);
void __numapte_gather_ask(struct mmu_gather *tlb, unsigned long addr, unsigned long bytes,
			  unsigned int shift);

/* A gather is initialised. */
static inline void numapte_gather_init(struct mmu_gather *tlb)
{
	tlb->numapte.filters = false;
	if (numapte_on() && !tlb->fullmm)
		__numapte_gather_init(tlb);
}

/* It has flushed. */
static inline void numapte_gather_flushed(struct mmu_gather *tlb)
{
	if (numapte_on() && tlb->numapte.filters)
		__numapte_gather_flushed(tlb);
}

/*
 * The lock of the page table of @ptep was taken. Until it is released no other node gets to use
 * the table: what is taken out in this hold is known on these nodes alone.
 */
static inline void numapte_gather_lock(struct mmu_gather *tlb, pte_t *ptep, enum numapte_site site)
{
	if (numapte_on() && tlb->numapte.filters)
		__numapte_gather_lock(tlb, ptep, site);
}

/* PTEs of that page table are to be flushed. Without ABIS those that are not do not matter. */
static inline void numapte_gather_ptes(struct mmu_gather *tlb, unsigned long addr,
				       unsigned long bytes)
{
	if (!(IS_ENABLED(CONFIG_ABIS) || IS_ENABLED(CONFIG_NUMAPTE_DEBUG)) ||
	    !numapte_on() || !tlb->numapte.filters)
		return;
	if (IS_ENABLED(CONFIG_ABIS))
		tlb->numapte.nodes |= tlb->numapte.held;
	if (IS_ENABLED(CONFIG_NUMAPTE_DEBUG))
		__numapte_gather_ask(tlb, addr, bytes, 0);
}

/* @table, to which an entry of 2^@shift bytes led at @addr, is the next to be freed. */
static inline void numapte_gather_table(struct mmu_gather *tlb, const void *table,
					unsigned long addr, unsigned int shift)
{
	if (!numapte_on() || !tlb->numapte.filters)
		return;
	tlb->numapte.freed = __numapte_nodes(table);
	if (IS_ENABLED(CONFIG_NUMAPTE_DEBUG))
		__numapte_gather_ask(tlb, addr, PAGE_SIZE, shift);
}

/* Something above the PTE level is to be flushed: of the table just named, or anything. */
static inline void numapte_gather_upper(struct mmu_gather *tlb)
{
	if (!numapte_on() || !tlb->numapte.filters)
		return;
	tlb->numapte.nodes |= tlb->numapte.freed;
	tlb->numapte.freed = NUMAPTE_ALL;
}

/*
 * What was taken out of page tables above is flushed where it was said, other things everywhere.
 * So is what a gather flushes for others that are open (tlb_finish_mmu() says fullmm): what it
 * has found to be empty, they have taken out, and it does not know of what tables.
 */
static inline void numapte_gather_flush(struct mmu_gather *tlb, unsigned long start,
					unsigned long end, unsigned int stride_shift)
{
	bool is_for_others = tlb->fullmm;

	if (IS_ENABLED(CONFIG_NUMAPTE_DEBUG) && __numapte_nested_filtered())
		is_for_others = false;
	if (numapte_on() && tlb->numapte.filters && !is_for_others && !tlb->need_flush_all)
		flush_tlb_mm_nodes(tlb->mm, start, end, stride_shift, tlb->freed_tables,
				   tlb->numapte.nodes);
	else
		flush_tlb_mm_range(tlb->mm, start, end, stride_shift, tlb->freed_tables);
}

/* Tables of a gather that does not interrupt everyone wait for who walks them without a lock. */
static inline bool numapte_gather_defers(struct mmu_gather *tlb)
{
	return numapte_on() && tlb->numapte.filters;
}

#else

static inline void numapte_gather_init(struct mmu_gather *tlb) { }
static inline void numapte_gather_flushed(struct mmu_gather *tlb) { }
static inline void numapte_gather_lock(struct mmu_gather *tlb, pte_t *ptep,
				       enum numapte_site site) { }
static inline void numapte_gather_ptes(struct mmu_gather *tlb, unsigned long addr,
				       unsigned long bytes) { }
static inline void numapte_gather_table(struct mmu_gather *tlb, const void *table,
					unsigned long addr, unsigned int shift) { }
static inline void numapte_gather_upper(struct mmu_gather *tlb) { }
#define numapte_gather_flush(tlb, start, end, stride_shift)	\
	flush_tlb_mm_range((tlb)->mm, start, end, stride_shift, (tlb)->freed_tables)
static inline bool numapte_gather_defers(struct mmu_gather *tlb) { return false; }

#endif
#endif
