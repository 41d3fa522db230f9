// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writing back what is mapped, with one TLB flush for many pages.
 *
 * Before a folio is written, folio_mkclean() write-protects and cleans its PTEs, so that
 * the next write is noticed, and flushes each of them: ptep_clear_flush().
 *
 * Here the PTEs of the next folios (a window) are write-protected before, and stay dirty:
 * one flush for each mapping. folio_mkclean() then meets read-only PTEs and cleans them
 * without a flush, if none is pending in the address space.
 *
 * Why that is enough. A flush is there to stop writes through stale TLB entries. Whoever
 * makes a PTE read-only does so under the page-table lock, and either flushes before it
 * lets the lock go, or has raised mm->tlb_flush_pending before and lowers it after the
 * flush. A batch of unmapping does neither, and is flushed first. So, under the lock, a
 * read-only PTE with no flush pending is writable in no TLB, whoever made it read-only.
 *
 * Why the PTE must stay dirty, and becomes so if it was not: until it is flushed, nobody
 * may take it for one that no CPU can write. folio_mkclean() of somebody else passes over
 * what is read-only and clean; zap_pte_range() and reclaim flush before the folio goes
 * only if it was dirty. The folio is dirty in any case: the fault that made the PTE
 * writable has marked it, or is about to, and nobody has cleaned it since.
 *
 * Nothing depends on the window. A folio that is not in it, a PTE that a fault makes
 * writable again, a mapping that comes later: folio_mkclean() flushes them as always.
 */

#include <linux/dax.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/pagemap.h>
#include <linux/rmap.h>
#include <linux/sched/coredump.h>
#include <linux/xarray.h>

#include <asm/tlb.h>

#include "../internal.h"
#include "batch.h"
#include "engine/engine.h"

/*
 * The most that is protected ahead of the writing: more spares hardly any more flushes,
 * and whoever goes on writing meets more pages that it may not write. Writeback takes
 * PAGEVEC_SIZE folios at a time, and asks before it does.
 */
#define WINDOW_FOLIOS	(8 * PAGEVEC_SIZE)
/* The most that is looked at and left out. */
#define SKIPPED_MAX	4096
/*
 * Pages so far apart that their flush is one of everything: fewer than these are not
 * worth what the CPUs must load into their TLBs anew.
 */
#define SPARSE_PAGES	8
#define SPARSE_SPAN	33	/* see tlb_single_page_flush_ceiling */

struct run {
	pgoff_t first, last;
};

struct window {
	unsigned long pages;
	unsigned int folios, runs;
	struct run run[];
};

static_assert(struct_size_t(struct window, run, WINDOW_FOLIOS) <= PAGE_SIZE);

/*
 * Note the next folios with @tag, from @index to @last, that @wbc will write.
 * Return: the index behind the last one that was looked at; ULONG_MAX at most.
 */
static pgoff_t collect(struct window *window, struct address_space *mapping,
		       const struct writeback_control *wbc, pgoff_t index, pgoff_t last,
		       xa_mark_t tag)
{
	XA_STATE(xas, &mapping->i_pages, index);
	unsigned int most = WINDOW_FOLIOS, skipped = 0;
	struct run *run = NULL;
	pgoff_t end = last;
	void *entry;

	if (wbc->sync_mode == WB_SYNC_NONE)
		most = clamp(wbc->nr_to_write, 1L, (long)WINDOW_FOLIOS);
	window->pages = 0;
	window->folios = 0;
	window->runs = 0;
	rcu_read_lock();
	xas_for_each_marked(&xas, entry, last, tag) {
		unsigned long pages;
		pgoff_t first;

		if (xas_retry(&xas, entry))
			continue;
		/* Being written: then it is not written again. */
		if (wbc->sync_mode == WB_SYNC_NONE && xas_get_mark(&xas, PAGECACHE_TAG_WRITEBACK)) {
			if (++skipped < SKIPPED_MAX)
				continue;
			end = xas.xa_index;
			break;
		}
		pages = 1UL << xas_get_order(&xas);
		first = round_down(xas.xa_index, pages);
		if (!run || run->last + 1 != first) {
			run = &window->run[window->runs++];
			run->first = first;
		}
		run->last = first + pages - 1;
		window->pages += pages;
		if (++window->folios == most) {
			end = run->last;
			break;
		}
	}
	rcu_read_unlock();
	return end == ULONG_MAX ? end : end + 1;
}

static struct batch_pte rights(pte_t pte)
{
	return (struct batch_pte){ .writable = pte_write(pte), .dirty = pte_dirty(pte) };
}

/* As the engine wants it. */
static pte_t protected_pte(pte_t pte)
{
	struct batch_pte now = batch_protect(rights(pte));

	if (now.dirty && !pte_dirty(pte))
		pte = pte_mkdirty(pte);
	if (!now.writable)
		pte = pte_wrprotect(pte);
	return batch_mutant(MUTANT_CLEAN_EARLY) ? pte_mkclean(pte) : pte;
}

/* Of one page table. Return: how many PTEs were writable. */
static unsigned int protect_ptes(struct mmu_gather *tlb, struct vm_area_struct *vma,
				 unsigned long addr, unsigned long end)
{
	struct mm_struct *mm = vma->vm_mm;
	pmd_t *pmd = mm_find_pmd(mm, addr);
	unsigned int protected = 0;
	spinlock_t *ptl;
	pte_t *pte;

	/* None, or a huge page, which folio_mkclean() flushes. */
	pte = pmd ? pte_offset_map_lock(mm, pmd, addr, &ptl) : NULL;
	if (!pte)
		return 0;
	arch_enter_lazy_mmu_mode();
	do {
		pte_t old = ptep_get(pte);

		if (!pte_present(old) || !pte_write(old))
			continue;
		old = ptep_modify_prot_start(vma, addr, pte);
		/* While the slot is empty: the gather asks which CPUs hold what was in it. */
		if (!batch_mutant(MUTANT_UNFLUSHED))
			tlb_flush_pte_range(tlb, addr, PAGE_SIZE);
		ptep_modify_prot_commit(vma, addr, pte, old, protected_pte(old));
		protected++;
	} while (pte++, addr += PAGE_SIZE, addr != end);
	arch_leave_lazy_mmu_mode();
	pte_unmap_unlock(pte - 1, ptl);
	return protected;
}

static bool is_eligible(struct vm_area_struct *vma)
{
	unsigned long flags = READ_ONCE(vma->vm_flags);

	/* One that may not be written has nothing to protect, or is just being changed. */
	if ((flags & (VM_SHARED | VM_WRITE)) != (VM_SHARED | VM_WRITE) ||
	    flags & (VM_HUGETLB | VM_PFNMAP | VM_MIXEDMAP))
		return false;
	if (test_bit(MMF_BATCH_REFUSED, &vma->vm_mm->flags)) {
		batch_count(refused, 1);
		return false;
	}
	/*
	 * They would drop all that lies between the first page and the last. Nobody
	 * registers now: see mm_take_all_locks().
	 */
	if (mm_has_notifiers(vma->vm_mm)) {
		batch_count(notified, 1);
		return false;
	}
	return true;
}

/* The first address from @addr to @end whose PTE is writable, or @end. Without the lock: a hint. */
static unsigned long find_writable(struct mm_struct *mm, unsigned long addr, unsigned long end)
{
	pmd_t *pmd = mm_find_pmd(mm, addr);
	pte_t *pte = pmd ? pte_offset_map(pmd, addr) : NULL;
	pte_t *first = pte;

	if (!pte)
		return end;
	for (; addr != end; pte++, addr += PAGE_SIZE) {
		pte_t entry = ptep_get_lockless(pte);

		if (pte_present(entry) && pte_write(entry))
			break;
	}
	pte_unmap(first);
	return addr;
}

/*
 * The part of a window that @vma maps. The mapping's lock is held, which keeps its page
 * tables. A gather begins where something is to be protected, since one that meets
 * another flushes everything, however little it has gathered.
 */
static void protect_vma(struct vm_area_struct *vma, const struct window *window)
{
	const pgoff_t vma_last = vma->vm_pgoff + vma_pages(vma) - 1;
	unsigned int i, protected = 0;
	bool is_gathering = false;
	struct mmu_gather tlb;

	for (i = 0; i < window->runs; i++) {
		const pgoff_t first = max(window->run[i].first, vma->vm_pgoff);
		const pgoff_t last = min(window->run[i].last, vma_last);
		unsigned long addr, end, next;

		if (first > last)
			continue;
		addr = vma->vm_start + ((first - vma->vm_pgoff) << PAGE_SHIFT);
		end = vma->vm_start + ((last + 1 - vma->vm_pgoff) << PAGE_SHIFT);
		for (; addr < end; addr = next) {
			next = pmd_addr_end(addr, end);
			if (!is_gathering) {
				addr = find_writable(vma->vm_mm, addr, next);
				if (addr == next)
					continue;
				tlb_gather_mmu(&tlb, vma->vm_mm);
				tlb_start_vma(&tlb, vma);
				is_gathering = true;
			}
			protected += protect_ptes(&tlb, vma, addr, next);
		}
	}
	if (!is_gathering)
		return;
	batch_debug_linger();
	tlb_end_vma(&tlb, vma);
	tlb_finish_mmu(&tlb);
	batch_count(protected, protected);
	if (protected)
		batch_count(mappings, 1);
}

static bool is_sparse(const struct window *window)
{
	return window->pages < SPARSE_PAGES &&
	       window->run[window->runs - 1].last - window->run[0].first >= SPARSE_SPAN;
}

void __writeback_batch_protect(struct address_space *mapping, struct writeback_control *wbc,
			       pgoff_t index, pgoff_t last, xa_mark_t tag)
{
	struct vm_area_struct *vma;
	struct window *window;

	/* Here so that who only calls write(2) pays for a look alone. */
	if (!mapping_writably_mapped(mapping) || dax_mapping(mapping))
		return;
	window = (void *)__get_free_page(GFP_NOWAIT | __GFP_NOMEMALLOC | __GFP_NOWARN);
	if (!window) {
		batch_count(memory, 1);
		return;
	}
	wbc->batch_end = collect(window, mapping, wbc, index, last, tag);
	wbc->batch_first = index;
	/* One page is one flush in any case. */
	if (window->pages < 2)
		goto out;
	if (is_sparse(window)) {
		batch_count(sparse, 1);
		goto out;
	}
	batch_count(windows, 1);
	i_mmap_lock_read(mapping);
	vma_interval_tree_foreach(vma, &mapping->i_mmap, window->run[0].first,
				  window->run[window->runs - 1].last) {
		if (is_eligible(vma))
			protect_vma(vma, window);
		cond_resched();
	}
	i_mmap_unlock_read(mapping);
out:
	free_page((unsigned long)window);
}
EXPORT_SYMBOL_GPL(__writeback_batch_protect);

bool __writeback_batch_clean(struct vm_area_struct *vma, unsigned long addr, pte_t *ptep,
			     pte_t pte)
{
	struct mm_struct *mm = vma->vm_mm;
	bool is_pending;

	if (test_bit(MMF_BATCH_REFUSED, &mm->flags))
		return false;
	flush_tlb_batched_pending(mm);
	is_pending = mm_tlb_flush_pending(mm) && !batch_mutant(MUTANT_PENDING_IGNORED);
	if (batch_must_flush(rights(pte), is_pending)) {
		if (!pte_write(pte))
			batch_count(pending, 1);
		return false;
	}
	/* Not ptep_modify_prot_start(): its commit may keep the dirty bit (Xen). */
	pte = pte_mkclean(ptep_get_and_clear(mm, addr, ptep));
	if (batch_mutant(MUTANT_WRITE_LEFT))
		pte = pte_mkwrite(pte, vma);
	batch_debug_cleaned(mm, addr, pte);
	set_pte_at(mm, addr, ptep, pte);
	batch_count(cleaned, 1);
	return true;
}
