/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Writing back what is mapped: one TLB flush for many pages. See mm/batch/protect.c.
 */
#ifndef _LINUX_BATCH_WRITEBACK_H
#define _LINUX_BATCH_WRITEBACK_H

#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/writeback.h>

#ifdef CONFIG_WRITEBACK_BATCH

DECLARE_STATIC_KEY_FALSE(writeback_batch_key);

void __writeback_batch_protect(struct address_space *mapping, struct writeback_control *wbc,
			       pgoff_t index, pgoff_t last, xa_mark_t tag);
bool __writeback_batch_clean(struct vm_area_struct *vma, unsigned long addr, pte_t *ptep,
			     pte_t pte);
bool writeback_batch_debug_forgets(struct vm_area_struct *vma, unsigned long addr);

/*
 * Whoever writes back @mapping is about to take folios with @tag, from @index to @last:
 * write-protect the next of them where they are mapped. A hint: what is left out is
 * flushed page by page. May sleep. The caller holds no page-table lock, and not
 * i_mmap_rwsem of @mapping.
 */
static inline void writeback_batch_protect(struct address_space *mapping,
					   struct writeback_control *wbc,
					   pgoff_t index, pgoff_t last, xa_mark_t tag)
{
	if (static_branch_unlikely(&writeback_batch_key) && index < last &&
	    (index < wbc->batch_first || index >= wbc->batch_end))
		__writeback_batch_protect(mapping, wbc, index, last, tag);
}

/* Another file, or another look at one: nothing of it is protected. */
static inline void writeback_batch_begin(struct writeback_control *wbc)
{
	wbc->batch_first = 0;
	wbc->batch_end = 0;
}

/*
 * Clean the PTE at @ptep without a flush, if nobody can write through a TLB. It is @pte,
 * dirty or writable; the page-table lock is held. Return: whether it was done.
 */
static inline bool writeback_batch_clean(struct vm_area_struct *vma, unsigned long addr,
					 pte_t *ptep, pte_t pte)
{
	if (!static_branch_unlikely(&writeback_batch_key))
		return false;
#ifdef CONFIG_WRITEBACK_BATCH_DEBUG
	if (writeback_batch_debug_forgets(vma, addr))
		return true;
#endif
	return __writeback_batch_clean(vma, addr, ptep, pte);
}

#else

static inline void writeback_batch_protect(struct address_space *mapping,
					   struct writeback_control *wbc,
					   pgoff_t index, pgoff_t last, xa_mark_t tag) { }
static inline void writeback_batch_begin(struct writeback_control *wbc) { }

static inline bool writeback_batch_clean(struct vm_area_struct *vma, unsigned long addr,
					 pte_t *ptep, pte_t pte)
{
	return false;
}

#endif
#endif
