/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Page tables replicated per NUMA node: what the rest of Linux calls. See mm/numapte.
 *
 * Two keys. numapte_offered(): a mode was on, so address spaces are watched for a second
 * node. numapte_on(): one has got trees, so changes of page tables may have to reach others.
 * Each call is a nop until then.
 */
#ifndef _LINUX_NUMAPTE_H
#define _LINUX_NUMAPTE_H

#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/topology.h>

struct numapte_table;
struct task_struct;

#ifdef CONFIG_NUMAPTE

void __numapte_mm_free(struct mm_struct *mm);
pgd_t *__numapte_pgd(struct mm_struct *mm);
pgd_t *__numapte_loaded_pgd(struct mm_struct *mm);
void __numapte_switched(struct mm_struct *mm, struct task_struct *task);
void __numapte_resume(void);
void __numapte_fault(struct vm_area_struct *vma, unsigned long addr);
struct page *__numapte_table_pop(struct page *page);
void __numapte_table_drop(struct mm_struct *mm, struct page *page);
pte_t __numapte_batch_get(pte_t *ptep, int nr, pte_t pte);
pte_t __numapte_copied_pte(pte_t *ptep, int nr, pte_t pte);
void __numapte_unmapped_area(struct vm_unmapped_area_info *info);
struct numapte_table *__numapte_replicated(void *entry);
void numapte_store_in(struct numapte_table *table, unsigned long *entry, unsigned long value);
unsigned long numapte_exchange_in(struct numapte_table *table, unsigned long *entry,
				  unsigned long value);
void numapte_mm_init(struct mm_struct *mm);
bool __numapte_inserted(struct mm_struct *mm, pte_t *ptep);

/* arch/x86/mm */
void numapte_root_ctor(struct mm_struct *mm, pgd_t *pgd);
void numapte_root_dtor(pgd_t *pgd);
void numapte_reload(void *mm);

DECLARE_STATIC_KEY_FALSE(numapte_offered_key);

static __always_inline bool numapte_offered(void)
{
	return static_branch_unlikely(&numapte_offered_key);
}

/* @mm has trees, or this is a CPU of another node than the one that runs it. */
static inline bool numapte_is_concerned(struct mm_struct *mm)
{
	struct numapte_context *context = &mm->context.numapte;

	return READ_ONCE(context->mm) ||
	       (context->eligible && READ_ONCE(context->home) != numa_node_id());
}

/* The last reference to @mm is gone: no CPU has one of its trees loaded, lazily neither. */
static inline void numapte_mm_free(struct mm_struct *mm)
{
	if (numapte_on())
		__numapte_mm_free(mm);
}

/* What this CPU is to load for @mm. Interrupts are off. */
static inline pgd_t *numapte_pgd(struct mm_struct *mm)
{
	return numapte_on() ? __numapte_pgd(mm) : mm->pgd;
}

/* What this CPU has loaded if that is a tree of @mm, else mm->pgd. Interrupts are off. */
static inline pgd_t *numapte_loaded_pgd(struct mm_struct *mm)
{
	return numapte_on() ? __numapte_loaded_pgd(mm) : mm->pgd;
}

/* This CPU runs @mm, and is to run @task, or nobody yet; or @task faults. */
static inline void numapte_switched(struct mm_struct *mm, struct task_struct *task)
{
	if (numapte_offered() && numapte_is_concerned(mm))
		__numapte_switched(mm, task);
}

/* The current task goes back to user mode. No spinlock is held. */
static inline void numapte_resume(void)
{
	if (numapte_offered())
		__numapte_resume();
}

/*
 * A fault of @vma has been handled, with @ret: let this node's tree have the entry. The
 * lock of @mm or of @vma is held unless @ret says otherwise, and then @vma may be gone.
 */
static inline void numapte_fault(struct vm_area_struct *vma, unsigned long addr, vm_fault_t ret)
{
	if (numapte_offered() &&
	    !(ret & (VM_FAULT_ERROR | VM_FAULT_RETRY | VM_FAULT_COMPLETED)) &&
	    numapte_is_concerned(vma->vm_mm))
		__numapte_fault(vma, addr);
}

/* One after the other the replicas of @page, a table that nothing leads to; NULL: no more. */
static inline struct page *numapte_table_pop(struct page *page)
{
	return numapte_on() ? __numapte_table_pop(page) : NULL;
}

/*
 * @page is an empty PTE table that nothing leads to any more; the flush that every CPU but
 * the lazy ones has seen is over. Give its replicas back. Does not sleep.
 */
static inline void numapte_table_drop(struct mm_struct *mm, struct page *page)
{
	if (numapte_on())
		__numapte_table_drop(mm, page);
}

/*
 * Reads for which it matters whether a CPU of any node has used or written the page: the
 * canonical entry with what hardware has set in the replicas. The lock is held.
 */
static inline pte_t numapte_ptep_get(pte_t *ptep)
{
	return numapte_on() ? __pte(__numapte_read(&ptep->pte)) : ptep_get(ptep);
}

static inline pmd_t numapte_pmdp_get(pmd_t *pmdp)
{
	return numapte_on() ? __pmd(__numapte_read(&pmdp->pmd)) : pmdp_get(pmdp);
}

/* A mapping is about to get an address: one that shares no page table, if that is wanted. */
static inline void numapte_unmapped_area(struct vm_unmapped_area_info *info)
{
	if (numapte_offered())
		__numapte_unmapped_area(info);
}

/* A shared PMD table has replicas of one address space, and is in another's trees. */
static inline bool numapte_may_share_pmd(void)
{
	return !numapte_offered();
}

/* @pte, of a batch of @nr entries: young, dirty, if a CPU of any node has used or written one. */
static inline pte_t numapte_batch_get(pte_t *ptep, int nr, pte_t pte)
{
	return numapte_on() ? __numapte_batch_get(ptep, nr, pte) : pte;
}

/* @pte, not writable any more, is to be copied from @nr entries: dirty if one of these is. */
static inline pte_t numapte_copied_pte(pte_t *ptep, int nr, pte_t pte)
{
	return numapte_on() ? __numapte_copied_pte(ptep, nr, pte) : pte;
}

static inline pmd_t numapte_copied_pmd(pmd_t *pmdp, pmd_t pmd)
{
	pte_t pte = __pte(pmd_val(pmd));

	return numapte_on() ? __pmd(pte_val(__numapte_copied_pte((pte_t *)pmdp, 1, pte))) : pmd;
}

/*
 * The table of @ptep if it has replicas, else NULL. The table's lock is held, without which it
 * gets no first replica and loses no last one.
 */
static inline struct numapte_table *numapte_replicated(pte_t *ptep)
{
	return numapte_on() ? __numapte_replicated(ptep) : NULL;
}

/* ptep_modify_prot_start() and _commit() where the table has been looked up. */
static __always_inline pte_t numapte_modify_prot_start(struct vm_area_struct *vma,
						       unsigned long addr, pte_t *ptep,
						       struct numapte_table *table)
{
	if (IS_ENABLED(CONFIG_PAGE_TABLE_CHECK))
		return ptep_modify_prot_start(vma, addr, ptep);
	return table ? __pte(numapte_exchange_in(table, &ptep->pte, 0)) :
		       native_ptep_get_and_clear(ptep);
}

static __always_inline void numapte_modify_prot_commit(struct vm_area_struct *vma,
						       unsigned long addr, pte_t *ptep,
						       pte_t old, pte_t pte,
						       struct numapte_table *table)
{
	if (IS_ENABLED(CONFIG_PAGE_TABLE_CHECK))
		ptep_modify_prot_commit(vma, addr, ptep, old, pte);
	else if (table)
		numapte_store_in(table, &ptep->pte, pte_val(pte));
	else
		native_set_pte(ptep, pte);
}

#else

static inline struct numapte_table *numapte_replicated(pte_t *ptep) { return NULL; }
#define numapte_modify_prot_start(vma, addr, ptep, table)	\
	((void)(table), ptep_modify_prot_start(vma, addr, ptep))
#define numapte_modify_prot_commit(vma, addr, ptep, old, pte, table)	\
	((void)(table), ptep_modify_prot_commit(vma, addr, ptep, old, pte))
static inline bool numapte_may_share_pmd(void) { return true; }
static inline void numapte_unmapped_area(struct vm_unmapped_area_info *info) { }
static inline void numapte_mm_init(struct mm_struct *mm) { }
static inline void numapte_mm_free(struct mm_struct *mm) { }
static inline pgd_t *numapte_pgd(struct mm_struct *mm) { return mm->pgd; }
static inline pgd_t *numapte_loaded_pgd(struct mm_struct *mm) { return mm->pgd; }
static inline void numapte_switched(struct mm_struct *mm, struct task_struct *task) { }
static inline void numapte_resume(void) { }

static inline void numapte_fault(struct vm_area_struct *vma, unsigned long addr, vm_fault_t ret) { }
static inline struct page *numapte_table_pop(struct page *page) { return NULL; }
static inline void numapte_table_drop(struct mm_struct *mm, struct page *page) { }
#define numapte_ptep_get(ptep)			ptep_get(ptep)
#define numapte_pmdp_get(pmdp)			pmdp_get(pmdp)
static inline pte_t numapte_batch_get(pte_t *ptep, int nr, pte_t pte) { return pte; }
static inline pte_t numapte_copied_pte(pte_t *ptep, int nr, pte_t pte) { return pte; }
static inline pmd_t numapte_copied_pmd(pmd_t *pmdp, pmd_t pmd) { return pmd; }

#endif
#endif
