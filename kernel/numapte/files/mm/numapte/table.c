// SPDX-License-Identifier: GPL-2.0-only
/*
 * Descriptors of canonical tables, and the pages of replicas: made, found, given back.
 */

#include <linux/gfp.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include <asm/pgalloc.h>
#include <asm/tlbflush.h>

#include "numapte.h"

/*
 * The descriptor of the table that @entry is in, or NULL. An entry may be none of a table:
 * __split_huge_pmd_locked() fills a PMD on its stack, and the first tables of the kernel lie
 * in its image. A page of the direct map that has not the type of a table has none either;
 * kernel tables that have it have no descriptor.
 */
struct numapte_table *numapte_of(const void *entry)
{
	unsigned long addr = (unsigned long)entry;
	struct page *page;

	if (addr < PAGE_OFFSET || addr >= (unsigned long)high_memory)
		return NULL;
	page = virt_to_page(entry);
	if (!PageTable(page))
		return NULL;
	return numapte_table_of(page_ptdesc(page));
}

struct numapte_table *numapte_table_alloc(enum numapte_level level, gfp_t gfp)
{
	struct numapte_table *table;

	if (numapte_denied(gfp))
		return NULL;
	table = kzalloc(struct_size(table, page, nr_node_ids), gfp | __GFP_NOWARN);
	if (table)
		table->level = level;
	return table;
}

/*
 * The descriptor of @page, a table above the PTE level that cannot go: its VMA is locked.
 * Return: NULL if there is no memory. May sleep; takes page_table_lock.
 */
struct numapte_table *numapte_table_upper(struct mm_struct *mm, struct page *page,
					  enum numapte_level level, gfp_t gfp)
{
	struct ptdesc *ptdesc = page_ptdesc(page);
	struct numapte_table *table = numapte_table_of(ptdesc), *spare;

	if (table)
		return table;
	spare = numapte_table_alloc(level, gfp);
	if (!spare)
		return NULL;
	spin_lock(&mm->page_table_lock);
	table = numapte_table_of(ptdesc);
	if (!table) {
		table = spare;
		spare = NULL;
		/* Tables of the P4D level have no constructor, and no type. */
		if (level == NUMAPTE_P4D)
			__folio_set_pgtable(page_folio(page));
		numapte_table_set(ptdesc, table);
	}
	spin_unlock(&mm->page_table_lock);
	kfree(spare);
	return table;
}

/*
 * A page on @node for a replica, empty. The policy of the task is for its memory, not for
 * this. A PTE table can be shared instead, so nothing waits for memory: on a full node reclaim
 * would give back the replicas that are in use. Of the other levels a page from elsewhere, had
 * with @gfp, is better than none. Return: NULL: no memory.
 */
unsigned long *numapte_page_alloc(int node, enum numapte_level level, gfp_t gfp)
{
	struct page *page = NULL;

	if (node_online(node) && !numapte_denied(0))
		page = alloc_pages_node(node, (GFP_PGTABLE_USER & ~__GFP_RECLAIM) | __GFP_THISNODE |
					__GFP_NOMEMALLOC | __GFP_NOWARN, 0);
	if (!page)
		numapte_count(fallbacks, 1);
	if (!page && level != NUMAPTE_PTE && !numapte_denied(gfp))
		page = alloc_pages_node(node, gfp | __GFP_ZERO | __GFP_NOWARN, 0);
	if (!page)
		return NULL;
	__folio_set_pgtable(page_folio(page));
	lruvec_stat_add_folio(page_folio(page), NR_PAGETABLE);
	atomic_long_inc(&numapte_pages[level][page_to_nid(page)]);
	return page_address(page);
}

static struct page *page_dtor(unsigned long *entries, enum numapte_level level)
{
	struct page *page = virt_to_page(entries);

	lruvec_stat_sub_folio(page_folio(page), NR_PAGETABLE);
	__folio_clear_pgtable(page_folio(page));
	atomic_long_dec(&numapte_pages[level][page_to_nid(page)]);
	return page;
}

/* Nothing leads to it, and no CPU holds what it led to. */
void numapte_page_free(unsigned long *entries, enum numapte_level level)
{
	if (entries)
		__free_page(page_dtor(entries, level));
}

/* Before anything leads to @page: a store from now on reaches it. The table's lock is held. */
void numapte_own(struct numapte_table *table, int node, unsigned long *page)
{
	WRITE_ONCE(table->page[node], page);
	smp_wmb();	/* pairs with the dependency in for_each_replica() */
	WRITE_ONCE(table->links, table->links | BIT_ULL(node));
	WRITE_ONCE(table->own, table->own | BIT_ULL(node));
}

struct page *__numapte_table_pop(struct page *page)
{
	struct numapte_table *table = numapte_table_of(page_ptdesc(page));
	int node;

	if (!table)
		return NULL;
	while (table->own) {
		node = __ffs64(table->own);
		table->own &= ~BIT_ULL(node);
		if (!numapte_mutant(MUTANT_FREE_EARLY))
			return page_dtor(table->page[node], table->level);
		numapte_page_free(table->page[node], table->level);
	}
	numapte_table_unset(page_ptdesc(page));
	if (table->level == NUMAPTE_P4D)
		__folio_clear_pgtable(page_folio(page));
	/* struct numapte_table says who may still read it. */
	kfree_rcu(table, rcu);
	return NULL;
}

/*
 * The flush that the caller has waited for spares lazy CPUs, and these may still walk the
 * replicas, speculatively. The canonical page stays a table, or waits for a grace period.
 */
void __numapte_table_drop(struct mm_struct *mm, struct page *page)
{
	struct numapte_table *table = numapte_table_of(page_ptdesc(page));
	struct page *replica;

	if (!table || numapte_mutant(MUTANT_DEPOSIT_KEPT))
		return;
	if (table->own)
		flush_tlb_mm_range(mm, 0, TLB_FLUSH_ALL, PAGE_SHIFT, true);
	while ((replica = __numapte_table_pop(page)))
		__free_page(replica);
	numapte_count(dropped, 1);
}
