// SPDX-License-Identifier: GPL-2.0-only
/*
 * A CPU that lags behind in generations flushes what these flush, instead of
 * everything: what was inserted there lives on when others flush (engine/ring.h).
 *
 * A CPU lags if two flushes overlap (flush_tlb_func() finds tlb_gen two ahead), if it
 * was lazy, or if it ran something else. That it may flush pages alone rests on this:
 *
 *  - Each generation is known, with what it flushes, or unknown; and one unknown
 *    among them means everything. So tlb_gen's own invariant holds as before: whoever
 *    has caught up with a generation has done what all up to that one ask for.
 *  - Unknown are all that flush more than a range: those that are rounds, every page
 *    of a batch, nested gathers. So a round is still executed in full by everyone.
 *  - Unknown are those that took page tables out (flush_tlb_range() says so of each of
 *    its own). Whoever returns loads CR3 first, and flushes then: in between, what leads
 *    into a page table that is something else by now could fill the TLB with anything.
 *    Without that it holds, at worst, what it held while it was lazy: translations
 *    of pages that are gone, which nobody uses while loaded_mm is LOADED_MM_SWITCHING.
 *  - Unknown are those of huge pages, hugetlb's among them: of an entry that a processor
 *    has split it promises to drop all parts only while the page tables have it whole.
 *  - What a CPU owes (owed.c) has no range. It is asked first, and means everything.
 *  - tlb_gen is read after the CPU is in mm_cpumask, or not lazy, as before: what is
 *    raised later comes with an interrupt.
 */

#include <linux/mm.h>

#include <asm/mmu_context.h>
#include <asm/tlbflush.h>

#include "abis.h"

/* Not more pages than one flush may have. */
u32 abis_replay_pages __read_mostly = 33;

struct replay {
	u64 ranges[RING_SLOTS];
	unsigned int count;
};

/* Interrupts off from the collection to the flush. */
static DEFINE_PER_CPU(struct replay, replay);

static struct ring *ring_of(struct mm_struct *mm)
{
	BUILD_BUG_ON(sizeof(mm->context.abis.ring) != sizeof(struct ring));
	return (struct ring *)mm->context.abis.ring;
}

/* This task has raised tlb_gen to @gen, and flushes this. Preemption off. */
void __abis_publish(struct mm_struct *mm, u64 gen, unsigned long start, unsigned long end,
		    unsigned int stride_shift, bool freed_tables)
{
	unsigned long pages;

	if (end == TLB_FLUSH_ALL || stride_shift != PAGE_SHIFT ||
	    (freed_tables && !abis_mutant(ABIS_MUTANT_REPLAY_TABLES)))
		return;
	start &= PAGE_MASK;
	pages = DIV_ROUND_UP(end - start, PAGE_SIZE);
	if (pages && pages <= RING_PAGES)
		ring_publish(ring_of(mm), gen, start, pages);
}

unsigned int __abis_page_shift(const struct vm_area_struct *vma)
{
	return vma->vm_flags & VM_HUGETLB ? PMD_SHIFT : PAGE_SHIFT;
}

/*
 * What this CPU has to flush to catch up from generation @from of @mm with @to.
 * Interrupts off. Return: it is known, and little enough: abis_replay() does it.
 */
bool __abis_collect(struct mm_struct *mm, u64 from, u64 to)
{
	struct replay *this = this_cpu_ptr(&replay);

	/*
	 * INVLPG of a user address has to reach the PCID of user mode as well, which is not
	 * loaded yet; and without PCIDs CR3 must not say that it keeps anything. Mode full is
	 * refused on either: say it here as well, where it would be fatal.
	 */
	if (static_cpu_has(X86_FEATURE_PTI) || !static_cpu_has(X86_FEATURE_PCID))
		return false;
	this->count = ring_collect(ring_of(mm), from, to, READ_ONCE(abis_replay_pages),
				   this->ranges);
	return this->count || abis_mutant(ABIS_MUTANT_REPLAY_UNKNOWN);
}

/* Does catching up, as far as is known now, flush the page at @addr? For the debug kernel. */
bool abis_replay_flushes(struct mm_struct *mm, u64 from, u64 to, unsigned long addr)
{
	u64 ranges[RING_SLOTS];
	u32 i, count = ring_collect(ring_of(mm), from, to, READ_ONCE(abis_replay_pages), ranges);

	for (i = 0; i < count; i++) {
		if (addr - (ranges[i] & PAGE_MASK) < (ranges[i] & RING_PAGES) << PAGE_SHIFT)
			return true;
	}
	return !count;
}

/* CR3 is that of the address space. Interrupts off. Return: pages flushed. */
unsigned long abis_replay(void)
{
	const struct replay *this = this_cpu_ptr(&replay);
	unsigned long addr, end, pages = 0;
	unsigned int i;

	for (i = 0; i < this->count - abis_mutant(ABIS_MUTANT_REPLAY_SHORT); i++) {
		addr = this->ranges[i] & PAGE_MASK;
		end = addr + ((this->ranges[i] & RING_PAGES) << PAGE_SHIFT);
		for (; addr < end; addr += PAGE_SIZE)
			flush_tlb_one_user(addr);
		pages += this->ranges[i] & RING_PAGES;
	}
	this_cpu_inc(abis_stat.replays);
	this_cpu_add(abis_stat.replayed, pages);
	return pages;
}
