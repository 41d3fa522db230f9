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
 *  - Unknown are those of a larger stride than 4 KiB: of an entry that a processor has
 *    split it promises to drop all parts only while the page tables have it whole.
 *  - What a CPU owes (owed.c) has no range. It is asked first, and means everything.
 *  - tlb_gen is read after the CPU is in mm_cpumask, or not lazy, as before: what is
 *    raised later comes with an interrupt.
 */

#include <linux/mm.h>

#include <asm/mmu_context.h>
#include <asm/text-patching.h>
#include <asm/tlbflush.h>

#include "abis.h"

/* See __abis_ceiling(). */
#define CEILING_FACTOR	4

struct replay {
	u64 ranges[RING_SLOTS];
	unsigned int count;
};

/* Interrupts off from the collection to the flush. */
static DEFINE_PER_CPU(struct replay, replay);

static struct ring *ring_of(struct mm_struct *mm, int cpu)
{
	BUILD_BUG_ON(sizeof(mm->context.abis.ring) != sizeof(struct ring));
	return (struct ring *)abis_ring_of(mm, cpu);
}

/* Generations are counted by node where there are trees: each has a ring of its own. */
static void publish(const struct flush_tlb_info *info, unsigned long start, unsigned long pages)
{
#ifdef CONFIG_NUMAPTE
	u64 nodes = info->numapte.gens ? info->numapte.nodes : 0;

	for (; nodes; nodes &= nodes - 1) {
		int node = __ffs64(nodes);

		ring_publish((struct ring *)numapte_ring_of(info->mm, node),
			     info->numapte.gens[node], start, pages);
	}
	if (info->numapte.gens)
		return;
#endif
	ring_publish((struct ring *)info->mm->context.abis.ring, info->new_tlb_gen, start, pages);
}

/* Text that is patched is compared through an address space of its own: a break would end there. */
static bool breaks(struct mm_struct *mm, enum abis_mutant mutant)
{
	return abis_mutant(mutant) && mm != poking_mm;
}

/* This task has raised tlb_gen for this flush. Preemption off. */
void __abis_publish(const struct flush_tlb_info *info)
{
	unsigned long pages, start = info->start & PAGE_MASK;

	if (!abis_mm_is_eligible(info->mm))
		return;
	if (info->end == TLB_FLUSH_ALL || info->stride_shift != PAGE_SHIFT ||
	    (info->freed_tables && !abis_mutant(ABIS_MUTANT_REPLAY_TABLES)))
		return;
	pages = DIV_ROUND_UP(info->end - start, PAGE_SIZE);
	if (pages && pages <= RING_PAGES)
		publish(info, start, pages);
}

/*
 * How many pages are flushed one by one, rather than everything? Linux weighs INVLPG
 * against the walks for what a full flush takes along. Where pages are inserted such a walk
 * costs more: it sets the accessed bit, so that the page is flushed on all CPUs in the end.
 * (An INVLPG is some 230 cycles, an interrupt thousands.) A hint: either is right.
 */
unsigned long __abis_ceiling(struct mm_struct *mm, unsigned long ceiling)
{
	return abis_mm_is_eligible(mm) ? ceiling * CEILING_FACTOR : ceiling;
}

/* Interrupts off. Return: what there is to flush is known, and little enough. */
bool __abis_collect(struct mm_struct *mm, u16 asid, u64 to, enum abis_lag lag)
{
	const struct tlb_context *context = this_cpu_ptr(&cpu_tlbstate.ctxs[asid]);
	struct replay *this = this_cpu_ptr(&replay);
	bool known;

	/*
	 * INVLPG of a user address has to reach the PCID of user mode as well, which is not
	 * loaded yet; and without PCIDs CR3 must not say that it keeps anything. Mode full is
	 * refused on either: say it here as well, where it would be fatal.
	 */
	if (static_cpu_has(X86_FEATURE_PTI) || !static_cpu_has(X86_FEATURE_PCID))
		return false;
	/* It was another address space's. */
	if (context->ctx_id != mm->context.ctx_id)
		return false;
	this->count = ring_collect(ring_of(mm, smp_processor_id()), context->tlb_gen, to,
				   abis_ceiling(mm, tlb_single_page_flush_ceiling),
				   this->ranges);
	abis_debug_replayed(mm, this->ranges, this->count);
	known = this->count || breaks(mm, ABIS_MUTANT_REPLAY_UNKNOWN);
	if (this->count && breaks(mm, ABIS_MUTANT_REPLAY_SHORT))
		this->count--;
	if (known)
		this_cpu_inc(abis_stat.replays[lag]);
	return known;
}

#ifdef CONFIG_ABIS_DEBUG
/*
 * Does catching up flush the page at @addr, as far as is known now? What is about to be
 * published does not count as known to flush everything: who asks comes again.
 */
bool abis_replay_flushes(struct mm_struct *mm, int cpu, u64 from, u64 to, unsigned long addr)
{
	/* Before the ring is read: what is not published by then is seen here. */
	bool is_publishing = atomic_read_acquire(&mm->context.abis.publishing);
	u64 ranges[RING_SLOTS];
	u32 i, count = ring_collect(ring_of(mm, cpu), from, to,
				    abis_ceiling(mm, tlb_single_page_flush_ceiling), ranges);

	for (i = 0; i < count; i++) {
		if (abis_range_has(ranges[i], addr))
			return true;
	}
	return !count && !is_publishing;
}
#endif

/* CR3 is that of the address space. Interrupts off. Return: pages flushed. */
unsigned long abis_replay(void)
{
	const struct replay *this = this_cpu_ptr(&replay);
	unsigned long addr, end, pages = 0;
	unsigned int i;

	for (i = 0; i < this->count; i++) {
		addr = this->ranges[i] & PAGE_MASK;
		end = addr + ((this->ranges[i] & RING_PAGES) << PAGE_SHIFT);
		for (; addr < end; addr += PAGE_SIZE)
			flush_tlb_one_user(addr);
		pages += this->ranges[i] & RING_PAGES;
	}
	this_cpu_add(abis_stat.replayed, pages);
	return pages;
}
