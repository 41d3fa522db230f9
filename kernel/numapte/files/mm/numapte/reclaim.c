// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replicas of PTE tables are given back under memory pressure: the table stays, and a node
 * that needs it again has a fault.
 *
 * Unlink, flush, fold, free. Between unlinking and the end the setters still reach the
 * replica; a fault of the node may link it again, and it is left alone then. Lazy CPUs are
 * interrupted, too: the page is about to be something else.
 */

#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/sched/mm.h>
#include <linux/shrinker.h>
#include <linux/spinlock.h>

#include <asm/pgalloc.h>
#include <asm/tlbflush.h>

#include "numapte.h"

#define BATCH	32	/* tables a flush */
#define LOOKS_PER_REPLICA 16	/* entries that lead to tables, looked at for each that is wanted */

static LIST_HEAD(spaces);
static DEFINE_SPINLOCK(spaces_lock);
static unsigned int spaces_count;

/*
 * One at a time: an empty link says that this scan has cleared it, and that no CPU has walked
 * the replica since the flush. With a second scan the link could be filled after the first
 * one's flush, and emptied by the other, whose flush is still to come.
 */
static DEFINE_MUTEX(scan_lock);

void numapte_reclaim_add(struct numapte_mm *nm)
{
	spin_lock(&spaces_lock);
	list_add_tail(&nm->list, &spaces);
	spaces_count++;
	spin_unlock(&spaces_lock);
}

void numapte_reclaim_del(struct numapte_mm *nm)
{
	spin_lock(&spaces_lock);
	list_del(&nm->list);
	spaces_count--;
	spin_unlock(&spaces_lock);
}

/* A canonical PMD entry that leads to a table, with its lock and the table's held. */
struct locked {
	spinlock_t *pml, *ptl;
	struct page *page;
	struct numapte_table *table;	/* NULL: it has no replica for the node */
	unsigned long *link;		/* the node's entry */
};

static bool lock_table(struct locked *locked, struct mm_struct *mm, pmd_t *pmd, int node)
{
	struct numapte_table *upper;
	unsigned long entry;

	locked->pml = pmd_lock(mm, pmd);
	entry = pmd_val(READ_ONCE(*pmd));
	upper = numapte_of(pmd);
	if (!numapte_is_table(NUMAPTE_PMD, entry) || !upper || !upper->page[node])
		goto unlock;
	locked->page = pfn_to_page((entry & PTE_PFN_MASK) >> PAGE_SHIFT);
	locked->table = numapte_table_of(page_ptdesc(locked->page));
	locked->link = upper->page[node] + entry_index(&pmd->pmd);
	if (!locked->table || !(locked->table->own & BIT_ULL(node)))
		goto unlock;
	locked->ptl = pte_lockptr(mm, pmd);
	if (locked->ptl != locked->pml)
		spin_lock_nested(locked->ptl, SINGLE_DEPTH_NESTING);
	return true;
unlock:
	spin_unlock(locked->pml);
	return false;
}

static void unlock_table(struct locked *locked)
{
	if (locked->ptl != locked->pml)
		spin_unlock(locked->ptl);
	spin_unlock(locked->pml);
}

/* Has a CPU of @node got an entry without a walk since the replica was unlinked? */
static bool is_held(const struct numapte_table *table, int node)
{
#ifdef CONFIG_ABIS_FULL
	return table->inserted & BIT_ULL(node);
#else
	return false;
#endif
}

/* The flush is over. Return: whether the replica was given back. */
static bool take_replica(struct mm_struct *mm, unsigned long addr, pmd_t *pmd, int node)
{
	unsigned long *canonical, *replica;
	struct locked locked;
	unsigned int i;

	if (!lock_table(&locked, mm, pmd, node))
		return false;
	if (numapte_walkable(READ_ONCE(*locked.link)) || is_held(locked.table, node)) {
		unlock_table(&locked);
		return false;
	}
	numapte_audit_replica(mm, addr, node);
	canonical = page_address(locked.page);
	replica = locked.table->page[node];
	for (i = 0; i < ENTRIES; i++)
		numapte_found_in(canonical + i, numapte_found(READ_ONCE(canonical[i]), replica[i]));
	locked.table->own &= ~BIT_ULL(node);
	locked.table->links &= ~BIT_ULL(node);
	locked.table->page[node] = NULL;
	unlock_table(&locked);
	numapte_page_free(replica, NUMAPTE_PTE);
	numapte_count(reclaimed, 1);
	return true;
}

static pmd_t *find_pmd(struct mm_struct *mm, unsigned long addr, unsigned long *size)
{
	pgd_t *pgd = pgd_offset(mm, addr);
	p4d_t *p4d;
	pud_t *pud;

	*size = PGDIR_SIZE;
	if (pgd_none(*pgd))
		return NULL;
	p4d = p4d_offset(pgd, addr);
	*size = P4D_SIZE;
	if (!p4d_present(*p4d))
		return NULL;
	pud = pud_offset(p4d, addr);
	*size = PUD_SIZE;
	if (!numapte_is_table(NUMAPTE_PUD, pud_val(*pud)))
		return NULL;
	*size = PMD_SIZE;
	return pmd_offset(pud, addr);
}

/* One call of the shrinker. */
struct scan {
	struct mm_struct *mm;
	struct numapte_mm *nm;
	int node;
	unsigned long want, freed;
	unsigned long looks;	/* that are left */
	unsigned int count;
	struct {
		unsigned long addr;
		pmd_t *pmd;
	} tables[BATCH];	/* unlinked, and still to be flushed */
};

static void give_back(struct scan *scan)
{
	unsigned int i;

	if (!scan->count)
		return;
	if (!numapte_mutant(MUTANT_FOLD_EARLY))
		flush_tlb_mm_range(scan->mm, 0, TLB_FLUSH_ALL, PAGE_SHIFT, true);
	for (i = 0; i < scan->count; i++)
		scan->freed += take_replica(scan->mm, scan->tables[i].addr, scan->tables[i].pmd,
					    scan->node);
	scan->count = 0;
}

/* Return: whether it came to @to. */
static bool scan_range(struct scan *scan, unsigned long from, unsigned long to)
{
	VMA_ITERATOR(vmi, scan->mm, from);
	struct vm_area_struct *vma;

	for_each_vma_range(vmi, vma, to) {
		unsigned long addr = max(vma->vm_start, from), end = min(vma->vm_end, to), size;

		for (; addr < end; addr = (addr & ~(size - 1)) + size) {
			pmd_t *pmd = find_pmd(scan->mm, addr, &size);
			struct locked locked;

			if (!scan->looks || scan->freed + scan->count >= scan->want) {
				scan->nm->scan_from[scan->node] = addr;
				return false;
			}
			scan->looks--;
			/* Several VMAs may lie in one table. */
			if (scan->count && scan->tables[scan->count - 1].pmd == pmd)
				continue;
			if (!pmd || !lock_table(&locked, scan->mm, pmd, scan->node))
				continue;
			WRITE_ONCE(*locked.link, 0);
#ifdef CONFIG_ABIS_FULL
			locked.table->inserted &= ~BIT_ULL(scan->node);
#endif
			unlock_table(&locked);
			scan->tables[scan->count].addr = addr;
			scan->tables[scan->count++].pmd = pmd;
			if (scan->count == BATCH) {
				give_back(scan);
				cond_resched();
			}
		}
		cond_resched();
	}
	return true;
}

/*
 * From where the last scan of @mm for this node ended, once round. mmap_lock is held for
 * reading: no table above the PTE level goes.
 */
static void scan_mm(struct scan *scan)
{
	unsigned long from = scan->nm->scan_from[scan->node];

	if (scan_range(scan, from, TASK_SIZE_MAX) && from)
		scan_range(scan, 0, from);
	give_back(scan);
}

static unsigned long replicas_count(struct shrinker *shrinker, struct shrink_control *sc)
{
	return atomic_long_read(&numapte_pages[NUMAPTE_PTE][sc->nid]) ?: SHRINK_EMPTY;
}

static unsigned long replicas_scan(struct shrinker *shrinker, struct shrink_control *sc)
{
	struct scan scan = {
		.node = sc->nid,
		.want = sc->nr_to_scan,
		.looks = LOOKS_PER_REPLICA * sc->nr_to_scan,
	};
	unsigned int left = READ_ONCE(spaces_count);

	if (!numapte_mutant(MUTANT_TWO_GIVERS) && !mutex_trylock(&scan_lock))
		return SHRINK_STOP;
	for (; left && scan.looks && scan.freed < scan.want; left--) {
		spin_lock(&spaces_lock);
		scan.nm = list_first_entry_or_null(&spaces, struct numapte_mm, list);
		if (!scan.nm) {
			spin_unlock(&spaces_lock);
			break;
		}
		list_move_tail(&scan.nm->list, &spaces);
		scan.mm = mmget_not_zero(scan.nm->mm) ? scan.nm->mm : NULL;
		spin_unlock(&spaces_lock);
		if (!scan.mm)
			continue;
		/* Whoever allocates may hold it. */
		if (mmap_read_trylock(scan.mm)) {
			scan_mm(&scan);
			mmap_read_unlock(scan.mm);
		}
		mmput_async(scan.mm);
	}
	if (!numapte_mutant(MUTANT_TWO_GIVERS))
		mutex_unlock(&scan_lock);
	/* Without looks left, the next call goes on where this one ended. */
	return scan.freed || !scan.looks ? scan.freed : SHRINK_STOP;
}

void __init numapte_reclaim_init(void)
{
	struct shrinker *shrinker = shrinker_alloc(SHRINKER_NUMA_AWARE, "numapte");

	if (!shrinker)
		return;
	shrinker->count_objects = replicas_count;
	shrinker->scan_objects = replicas_scan;
	shrinker_register(shrinker);
}
