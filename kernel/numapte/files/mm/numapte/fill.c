// SPDX-License-Identifier: GPL-2.0-only
/*
 * A node's tree is filled when one of its CPUs faults: the canonical tree has the entry by
 * then, and what leads to it is linked level by level.
 *
 * Above the PTE level each tree has tables of its own, empty at first: a canonical table
 * there leads to canonical tables alone. A PTE table is used by the node that it lies on as
 * it is, and copied for the others, as a whole.
 *
 * Locks: the caller keeps the VMA, so that no table above the PTE level can go. Such a table
 * is linked under page_table_lock, a PTE table under the lock of its PMD entry and its own,
 * as retract_page_tables() takes them.
 */

#include <linux/delay.h>
#include <linux/memory.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include <asm/pgalloc.h>

#include "numapte.h"

/* Where a walk of the canonical tree, and of a node's tree beside it, has come to. */
struct walk {
	struct mm_struct *mm;
	unsigned long addr;
	int node;
	unsigned int order;	/* 2^order entries are copied at once */
	gfp_t gfp;		/* of what the fill cannot do without */
	enum numapte_level level;
	unsigned int shift;
	unsigned long *entry;	/* in the canonical tree */
	unsigned long *mine;	/* in the node's */
};

static unsigned long *entry_at(void *table, unsigned long addr, unsigned int shift)
{
	return (unsigned long *)table + ((addr >> shift) & (ENTRIES - 1));
}

static struct page *table_of(unsigned long entry)
{
	return pfn_to_page((entry & PTE_PFN_MASK) >> PAGE_SHIFT);
}

/* Does the node's entry lead to @page? */
static bool leads_to(unsigned long mine, const unsigned long *page)
{
	return numapte_walkable(mine) && (mine & PTE_PFN_MASK) == __pa(page);
}

static unsigned long link_to(unsigned long entry, unsigned long *page)
{
	return numapte_link(entry & ~sme_me_mask, __sme_pa(page));
}

/* A huge page, with the lock of its entry held. */
static void copy_leaf(struct walk *walk, spinlock_t *ptl)
{
	unsigned long entry;

	spin_lock(ptl);
	entry = READ_ONCE(*walk->entry);
	if (numapte_must_copy(walk->level, entry, READ_ONCE(*walk->mine))) {
		WRITE_ONCE(*walk->mine, numapte_copy(walk->level, entry, true));
		numapte_count(copy_faults, 1);
		numapte_count(copied, 1);
	}
	spin_unlock(ptl);
}

/* Step down a level, to another that is not PTE. Return: 1: done, nothing is below; -ENOMEM. */
static int step(struct walk *walk)
{
	unsigned long entry = READ_ONCE(*walk->entry);
	struct mm_struct *mm = walk->mm;
	struct numapte_table *table;
	enum numapte_level level;
	unsigned long *page;

	if (!numapte_walkable(entry))
		return 1;
	if (!numapte_is_table(walk->level, entry)) {
		copy_leaf(walk, &mm->page_table_lock);
		return 1;
	}
	level = walk->level - 1;
	if (walk->level == NUMAPTE_PGD && !pgtable_l5_enabled())
		level = NUMAPTE_PUD;
	table = numapte_table_upper(mm, table_of(entry), level, walk->gfp);
	if (!table)
		return -ENOMEM;
	page = READ_ONCE(table->page[walk->node]);
	if (!page) {
		unsigned long *spare = numapte_page_alloc(walk->node, level, walk->gfp);

		if (!spare)
			return -ENOMEM;
		spin_lock(&mm->page_table_lock);
		page = table->page[walk->node];
		if (!page) {
			page = spare;
			spare = NULL;
			numapte_own(table, walk->node, page);
		}
		spin_unlock(&mm->page_table_lock);
		numapte_page_free(spare, level);
	}
	if (!leads_to(READ_ONCE(*walk->mine), page)) {
		spin_lock(&mm->page_table_lock);
		if (!((READ_ONCE(*walk->entry) ^ entry) & (NUMAPTE_FRAME | NUMAPTE_PRESENT)))
			WRITE_ONCE(*walk->mine, link_to(entry, page));
		spin_unlock(&mm->page_table_lock);
	}
	walk->level = level;
	walk->shift -= 9;
	walk->entry = entry_at(page_address(table_of(entry)), walk->addr, walk->shift);
	walk->mine = entry_at(page, walk->addr, walk->shift);
	return 0;
}

/*
 * Copy what the canonical table has and the replica lacks, around the entry of the fault.
 * With the table's lock held: what is copied is what is there.
 */
static void copy_entries(struct walk *walk, unsigned long *from, unsigned long *to)
{
	unsigned int index = (walk->addr >> PAGE_SHIFT) & (ENTRIES - 1);
	unsigned int first = index & ~((1U << walk->order) - 1);
	unsigned int i, copied = 0;

	for (i = first; i < first + (1U << walk->order); i++) {
		unsigned long entry = READ_ONCE(from[i]);

		if (numapte_mutant(MUTANT_GATE_PRESENT) && !to[i] && pte_present(__pte(entry)))
			WRITE_ONCE(to[i], entry);
		if (!numapte_must_copy(NUMAPTE_PTE, entry, READ_ONCE(to[i])) &&
		    !(numapte_mutant(MUTANT_COPY_OVER) && numapte_replica(NUMAPTE_PTE, entry)))
			continue;
		if (numapte_mutant(MUTANT_STALE_COPY))
			udelay(2);
		numapte_audit_kept(from + i, numapte_found(entry, READ_ONCE(to[i])) &
				   ~NUMAPTE_ACCESSED);
		WRITE_ONCE(to[i], numapte_copy(NUMAPTE_PTE, entry, i == index && !numapte_is_tracked()));
		copied++;
	}
	if (copied) {
		numapte_count(copy_faults, 1);
		numapte_count(copied, copied);
	}
}

/* The usual case: the table is linked, and a replica at most lacks entries. Return: was it? */
static bool fill_linked(struct walk *walk)
{
	pmd_t *pmd = (pmd_t *)walk->entry;
	struct numapte_table *table;
	bool is_linked = false;
	unsigned long *page;
	spinlock_t *ptl;
	pte_t *pte;

	pte = pte_offset_map_lock(walk->mm, pmd, walk->addr, &ptl);
	if (!pte)
		return false;
	table = numapte_table_of(page_ptdesc(virt_to_page(pte)));
	page = table ? table->page[walk->node] : NULL;
	if (page && leads_to(READ_ONCE(*walk->mine), page)) {
		is_linked = true;
		if (table->own & BIT_ULL(walk->node)) {
			unsigned int index = entry_index(&pte->pte);
			unsigned long *canonical = &pte->pte - index;

			if (numapte_mutant(MUTANT_STALE_COPY)) {
				pte_unmap_unlock(pte, ptl);
				copy_entries(walk, canonical, page);
				return true;
			}
			if (numapte_must_copy(NUMAPTE_PTE, pte_val(*pte), READ_ONCE(page[index])))
				copy_entries(walk, canonical, page);
			numapte_audit_entry(table, &pte->pte);
		}
	}
	pte_unmap_unlock(pte, ptl);
	return is_linked;
}

/*
 * Let the node's tree lead to the PTE table, the canonical one or a replica. It becomes
 * known to the setters before it can be walked. Return: -ENOMEM; 0 also if the table has
 * gone in the meantime: the access faults again.
 */
static int link_table(struct walk *walk, unsigned long entry)
{
	pmd_t *pmd = (pmd_t *)walk->entry;
	struct page *page = table_of(entry);
	bool home = page_to_nid(page) == walk->node;
	struct numapte_table *table, *spare;
	unsigned long *own = NULL, *used;
	spinlock_t *pml, *ptl;

	if (!home)
		own = numapte_page_alloc(walk->node, NUMAPTE_PTE, walk->gfp);
	spare = numapte_table_alloc(NUMAPTE_PTE, walk->gfp);
	if (!spare) {
		numapte_page_free(own, NUMAPTE_PTE);
		return -ENOMEM;
	}
	pml = pmd_lock(walk->mm, pmd);
	if (!numapte_is_table(NUMAPTE_PMD, READ_ONCE(*walk->entry)) ||
	    table_of(READ_ONCE(*walk->entry)) != page)
		goto unlock;
	ptl = pte_lockptr(walk->mm, pmd);
	if (ptl != pml)
		spin_lock_nested(ptl, SINGLE_DEPTH_NESTING);
	table = numapte_table_of(page_ptdesc(page));
	if (!table) {
		table = spare;
		spare = NULL;
		numapte_table_set(page_ptdesc(page), table);
	}
	used = table->page[walk->node];
	if (!used && numapte_place(NUMAPTE_PTE, home, own, false) == NUMAPTE_OWN) {
		used = own;
		own = NULL;
		numapte_own(table, walk->node, used);
		numapte_count(replicated, 1);
	} else if (!used) {
		used = page_address(page);
		WRITE_ONCE(table->page[walk->node], used);
		WRITE_ONCE(table->links, table->links | BIT_ULL(walk->node));
		numapte_count(linked, 1);
	}
	if (table->own & BIT_ULL(walk->node))
		copy_entries(walk, page_address(page), used);
	smp_wmb();	/* what is there, before it can be walked */
	WRITE_ONCE(*walk->mine, link_to(READ_ONCE(*walk->entry), used));
	if (ptl != pml)
		spin_unlock(ptl);
unlock:
	spin_unlock(pml);
	numapte_page_free(own, NUMAPTE_PTE);
	kfree(spare);
	return 0;
}

#ifdef CONFIG_ABIS_FULL
/*
 * This CPU has got the entry of @ptep without a walk, maybe before its tree leads there
 * (mm/abis/insert.c): from now on the node is one whose CPUs may hold what is in the table. The
 * table's lock is held since. Whoever gives a process its trees meanwhile has this CPU flush
 * everything, after that. Return: false: no memory to remember it.
 */
bool __numapte_inserted(struct mm_struct *mm, pte_t *ptep)
{
	struct ptdesc *ptdesc = page_ptdesc(virt_to_page(ptep));
	u64 node = BIT_ULL(numa_node_id());
	struct numapte_table *table;

	if (!numapte_trees(mm))
		return true;
	table = numapte_table_of(ptdesc);
	if (!table) {
		table = numapte_table_alloc(NUMAPTE_PTE, GFP_NOWAIT | __GFP_ACCOUNT);
		if (!table)
			return false;
		numapte_table_set(ptdesc, table);
	}
	WRITE_ONCE(table->links, table->links | node);
	table->inserted |= node;
	return true;
}
#endif

/*
 * Let the tree of @node have what the canonical tree has at @addr, whose VMA is locked.
 * @must: it cannot be done without. @skip: how far nothing else can be had, a power of two.
 * May sleep. Return: -ENOMEM: no memory for a level that cannot be shared; else 0, also if
 * there was nothing to have.
 */
int numapte_fill(struct mm_struct *mm, struct numapte_mm *nm, unsigned long addr, int node,
		 bool must, unsigned long *skip)
{
	struct walk walk = {
		.mm = mm, .addr = addr, .node = node, .level = NUMAPTE_PGD,
		.shift = PGDIR_SHIFT,
		/* Complete replicas are what eager means. */
		.order = nm->eager ? 9 : READ_ONCE(numapte_order),
		/* Nothing is killed for what can be done without. */
		.gfp = GFP_KERNEL_ACCOUNT | (must ? __GFP_NOFAIL : __GFP_NORETRY),
		.entry = (unsigned long *)pgd_offset(mm, addr),
	};
	unsigned long entry;
	int err;

	*skip = PMD_SIZE;
	if (!nm->top.page[node])
		return 0;
	walk.mine = nm->top.page[node] + pgd_index(addr);
	while (walk.level != NUMAPTE_PMD) {
		*skip = 1UL << walk.shift;
		err = step(&walk);
		if (err)
			return err < 0 ? err : 0;
	}
	*skip = PMD_SIZE;
	entry = READ_ONCE(*walk.entry);
	if (!numapte_walkable(entry))
		return 0;
	if (!numapte_is_table(NUMAPTE_PMD, entry)) {
		copy_leaf(&walk, pmd_lockptr(mm, (pmd_t *)walk.entry));
		return 0;
	}
	return fill_linked(&walk) ? 0 : link_table(&walk, entry);
}

/*
 * The fault has been handled, and a tree that lacks the entry would have it come again, or fail
 * what needs no tree (get_user_pages()). So this node's fill does not give up: one page a level
 * at most, and a descriptor. What is for other nodes they can get by faults of their own.
 */
void __numapte_fault(struct vm_area_struct *vma, unsigned long addr)
{
	struct mm_struct *mm = vma->vm_mm;
	int here = numa_node_id();
	struct numapte_mm *nm;
	unsigned long skip;
	u64 nodes;

	/* Another process' access to this memory goes through no tree of it. */
	if (mm != current->mm)
		return;
	numapte_switched(mm, current);
	nm = numapte_trees(mm);
	if (!nm)
		return;
	numapte_fill(mm, nm, addr, here, true, &skip);
	for (nodes = numapte_wanted(nm) & ~BIT_ULL(here); nodes; nodes &= nodes - 1)
		numapte_fill(mm, nm, addr, __ffs64(nodes), false, &skip);
}
