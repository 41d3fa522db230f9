// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flushing the few CPUs that alone may hold a PTE.
 *
 * tlb_gen is not raised: that would make every CPU flush. So nothing that looks
 * at generations notices this flush. A CPU that runs the address space is
 * interrupted and flushes the pages. Any other *owes* it: one bit for each CPU in
 * the address space, everything of that address space to be flushed when the CPU
 * takes it up again.
 *
 *	whoever flushes, lock held		CPU c, interrupts off
 *
 *	PTE cleared				loaded_mm = SWITCHING, or not lazy
 *	c's loaded_mm, then is_lazy read	full barrier
 *	this one (or switching), not lazy?	bit of c tested and cleared; was it set?
 *	then interrupt c and wait; else:	then flush, with the load of CR3
 *	bit of c set				loaded_mm = this one
 *	full barrier				interrupts on
 *	both read again; as above
 *
 * Who is interrupted needs no bit: the handler flushes the pages if its CPU runs
 * the address space, and else sets the bit itself, on its own CPU, before that
 * can take the address space up. The interrupt waits until a switch is over. Who
 * is not interrupted has a bit that was set before the last look: either c sees the
 * bit, or it is seen to run the address space (or to switch). So once the left side
 * is done, c has flushed after the PTE was cleared, or must before it uses the
 * address space again: the same that a flush by generation leaves behind, and what
 * SPTE_UNCACHED means. A lazy CPU uses no user address; whoever makes it do so
 * (kthread_use_mm(), the return to a user task) passes switch_mm_irqs_off().
 *
 * The handler clears the bit, and flushes everything if it was set: the bit may
 * stand for other pages, of a batch, whose own interrupt finds it clear then. It is
 * cleared before the flush, so a debt that is added in between is paid twice, never
 * lost. Whoever finds the bit of a running CPU clear still interrupts it, and waits:
 * the one who cleared it may not have flushed yet, but has when it takes the next
 * interrupt.
 *
 * A CPU that is off line runs nothing, and has an empty TLB and no address space
 * when it returns. An address space that dies takes its debts along: a ctx_id is
 * never used again. The debt is of a CPU, not of an ASID: one that has lost its
 * ASID meanwhile flushes for nothing.
 *
 * All of this happens while the page-table lock is held in which the PTE was
 * cleared. So nothing is left to be done by a gather's end, which may come when
 * everything is switched off, flushes with the stride of a page table that it
 * frees, or is preceded by another gather that finds the slot empty; and the slot
 * may be called UNCACHED. Batched reclaim is the exception: it sets the bit under
 * the lock, whatever the CPU runs, interrupts later, and leaves the SPTE alone;
 * whoever finds such a slot empty meanwhile is told by mm->tlb_flush_batched, as
 * ever.
 *
 * None of this is a round, and none of it is credited as one.
 */

#include <linux/hardirq.h>
#include <linux/mm.h>
#include <linux/smp.h>
#include <linux/vmstat.h>

#include <asm/mmu_context.h>
#include <asm/tlbflush.h>

#include "abis.h"

DEFINE_STATIC_KEY_FALSE(abis_owing_key);

static DEFINE_PER_CPU(struct cpumask, targets);

/* The CPU's debt to @mm, which it must pay at once if this returns true. */
static bool settle(struct mm_struct *mm)
{
	unsigned int cpu = smp_processor_id();

	if (cpu >= SPTE_CPUS || !test_bit(cpu, mm->context.abis.owed))
		return false;
	/* A full barrier: the flush comes after it. */
	return test_and_clear_bit(cpu, mm->context.abis.owed);
}

bool __abis_settle(struct mm_struct *mm, bool was_lazy)
{
	if (abis_mutant(was_lazy ? ABIS_MUTANT_OWED_ON_LAZY : ABIS_MUTANT_OWED_ON_SWITCH))
		return false;
	if (!settle(mm))
		return false;
	this_cpu_inc(abis_stat.narrow_paid);
	return true;
}

/* What a CPU is asked for: these pages of @mm; without @mm, what it owes. */
struct request {
	struct mm_struct *mm;
	unsigned long start;
	unsigned long end;
};

/* Interrupts off, and @request->mm is loaded. Return: pages, as trace_tlb_flush() has them. */
static unsigned long flush_pages(const struct request *request)
{
	unsigned long addr, end = request->end;
	unsigned long pages = (end - request->start) >> PAGE_SHIFT;

	if (pages > abis_ceiling(request->mm, tlb_single_page_flush_ceiling)) {
		abis_debug_lost(this_cpu_read(cpu_tlbstate.loaded_mm_asid), ABIS_LOST_ASKED);
		flush_tlb_local();
		return TLB_FLUSH_ALL;
	}
	if (abis_mutant(ABIS_MUTANT_NARROW_SHORT))
		end -= PAGE_SIZE;
	for (addr = request->start; addr < end; addr += PAGE_SIZE)
		flush_tlb_one_user(addr);
	return pages;
}

/* Interrupts off, on a CPU that was seen to run the address space. */
static void answer(const struct request *request, int why)
{
	struct mm_struct *mm = this_cpu_read(cpu_tlbstate.loaded_mm);
	bool is_lazy = this_cpu_read(cpu_tlbstate_shared.is_lazy);
	unsigned long pages = TLB_FLUSH_ALL;

	if (request->mm && (mm != request->mm || is_lazy)) {
		/* It has left since: it pays when it returns. */
		if (abis_mutant(ABIS_MUTANT_OWED_DROPPED))
			return;
		set_bit(smp_processor_id(), request->mm->context.abis.owed);
		this_cpu_inc(abis_stat.narrow_deferred);
		return;
	}
	if (mm == &init_mm || is_lazy)
		return;
	if (settle(mm) && !(request->mm && abis_mutant(ABIS_MUTANT_OWED_BY_RANGE))) {
		abis_debug_lost(this_cpu_read(cpu_tlbstate.loaded_mm_asid), ABIS_LOST_OWED);
		flush_tlb_local();
	} else if (request->mm) {
		pages = flush_pages(request);
		this_cpu_inc(abis_stat.narrow_ranged);
	} else {
		return;
	}
	trace_tlb_flush(why, pages);
}

/* The lab's counters know it by its name. */
static void abis_flush_owed(void *request)
{
	inc_irq_stat(irq_tlb_count);
	count_vm_tlb_event(NR_TLB_REMOTE_FLUSH_RECEIVED);
	answer(request, TLB_REMOTE_SHOOTDOWN);
}

/* Could @cpu use @mm without passing switch_mm_irqs_off()? */
static bool runs(unsigned int cpu, struct mm_struct *mm)
{
	struct mm_struct *loaded_mm = READ_ONCE(per_cpu(cpu_tlbstate.loaded_mm, cpu));

	/* is_lazy at least as new as loaded_mm, as in should_flush_tlb(). */
	smp_rmb();
	if (READ_ONCE(per_cpu(cpu_tlbstate_shared.is_lazy, cpu)))
		return false;
	return loaded_mm == mm || loaded_mm == LOADED_MM_SWITCHING;
}

/* Preemption off. Return: this CPU has flushed, being the one that runs @mm. */
static bool flush_here(const struct request *request)
{
	unsigned long flags, pages;

	local_irq_save(flags);
	if (this_cpu_read(cpu_tlbstate.loaded_mm) != request->mm ||
	    this_cpu_read(cpu_tlbstate_shared.is_lazy)) {
		local_irq_restore(flags);
		return false;
	}
	pages = flush_pages(request);
	local_irq_restore(flags);
	trace_tlb_flush(TLB_LOCAL_MM_SHOOTDOWN, pages);
	this_cpu_inc(abis_stat.narrow_local);
	return true;
}

/*
 * Find out which of the CPUs in @hold are to be interrupted: this CPU's targets.
 * The others owe by now, or have flushed. Preemption off. Return: there are any.
 */
static bool find_targets(const struct abis_hold *hold, const struct request *request)
{
	struct cpumask *mask = this_cpu_ptr(&targets);
	unsigned int cpu, here = smp_processor_id();
	struct mm_struct *mm = request->mm;

	cpumask_clear(mask);
	for_each_set_bit(cpu, hold->cpus, SPTE_CPUS) {
		if (cpu == here) {
			if (flush_here(request))
				continue;
		} else if (!hold->deferred && runs(cpu, mm)) {
			__cpumask_set_cpu(cpu, mask);
			continue;
		}
		abis_mutant_lingering(ABIS_MUTANT_OWED_ONE_LOOK);
		set_bit(cpu, mm->context.abis.owed);
		/* Against switch_mm_irqs_off(), see above. */
		smp_mb__after_atomic();
		if (cpu != here && runs(cpu, mm) &&
		    (hold->deferred || !abis_mutant(ABIS_MUTANT_OWED_ONE_LOOK)))
			__cpumask_set_cpu(cpu, mask);
		else
			this_cpu_inc(abis_stat.narrow_deferred);
	}
	return !cpumask_empty(mask);
}

/* Interrupt this CPU's targets, and wait. Return: how many. Preemption off. */
static unsigned int interrupt_targets(struct request *request)
{
	const struct cpumask *mask = this_cpu_ptr(&targets);
	unsigned int count = cpumask_weight(mask);
	unsigned long pages = TLB_FLUSH_ALL;

	if (request->mm)
		pages = (request->end - request->start) >> PAGE_SHIFT;
	count_vm_tlb_event(NR_TLB_REMOTE_FLUSH);
	trace_tlb_flush(TLB_REMOTE_SEND_IPI, pages);
	abis_mutant_lingering(ABIS_MUTANT_OWED_DROPPED);
	smp_call_function_many(mask, abis_flush_owed, request, true);
	this_cpu_add(abis_stat.narrow_ipis, count);
	return count;
}

/*
 * Would a flush of everyone interrupt any CPU but @cpu? Where only one other CPU runs
 * @mm, its interrupt for the pages of one page table costs what one for all of a gather
 * does. A hint: either flush is right. PTE lock held.
 */
bool abis_spares_others(struct mm_struct *mm, unsigned int cpu)
{
	return cpu == raw_smp_processor_id() || !cpumask_test_cpu(cpu, mm_cpumask(mm)) ||
	       cpumask_weight(mm_cpumask(mm)) > 2;
}

void abis_hold_add(struct abis_hold *hold, unsigned int cpu, unsigned long addr,
		   pte_t *ptep)
{
	if (!hold->pages) {
		bitmap_zero(hold->cpus, SPTE_CPUS);
		hold->start = addr;
		hold->end = addr;
	} else if (abis_mutant(ABIS_MUTANT_NARROW_DROPS)) {
		bitmap_zero(hold->cpus, SPTE_CPUS);
	}
	__set_bit(cpu, hold->cpus);
	hold->start = min(hold->start, addr);
	hold->end = max(hold->end, addr + PAGE_SIZE);
	abis_debug_hold_add(hold, addr, ptep);
	hold->pages++;
}

/* A flush request of its own for the lab's counters. Return: how many were interrupted. */
noinline unsigned int __abis_hold_flush(struct mm_struct *mm, struct abis_hold *hold)
{
	struct request request = { .mm = mm, .start = hold->start, .end = hold->end };
	unsigned int count = 0;

	preempt_disable();
	this_cpu_inc(abis_stat.narrowed);
	if (find_targets(hold, &request))
		count = interrupt_targets(&request);
	if (abis_mutant(ABIS_MUTANT_NARROW_ROUND))
		abis_round_end(mm, abis_round_begin(mm, true));
	abis_debug_narrowed(mm, hold);
	preempt_enable();
	hold->pages = 0;
	return count;
}

/*
 * Each interrupt of a batch is one that two rounds since the page was mapped would
 * have spared. Where pages stay long, as in reclaim, a round now and then costs less
 * than one CPU after the other; where they do not, it costs as much again as
 * was paid, at most.
 */
static bool is_round_due(struct mm_struct *mm)
{
	u32 every = READ_ONCE(abis_round_every);

	if (every)
		every = max(every, 2 * cpumask_weight(mm_cpumask(mm)));
	return abis_round_force(&mm->context.abis.blocked, every);
}

/*
 * Where the batch flushes everyone that uses @mm in any case, or is made to, this page
 * goes with the rest: a new generation, after the PTE was cleared.
 */
bool __abis_batch_owe(struct arch_tlbflush_unmap_batch *batch, struct mm_struct *mm,
		      struct abis_hold *hold)
{
	struct request request = { .mm = mm, .start = hold->start, .end = hold->end };
	bool any, is_round = batch->abis.round_mm == mm;
	unsigned int cpu;

	hold->pages = 0;
	if (is_round) {
		if (!abis_mutant(ABIS_MUTANT_BATCH_UNRAISED))
			abis_add_pending(batch, mm, hold->start);
		return true;
	}
	preempt_disable();
	any = find_targets(hold, &request);
	if (any) {
		for_each_cpu(cpu, this_cpu_ptr(&targets)) {
			if (!__test_and_set_bit(cpu, batch->abis.owing))
				is_round |= is_round_due(mm);
		}
		batch->abis.is_owed = true;
	}
	preempt_enable();
	if (is_round) {
		this_cpu_inc(abis_stat.rounds_forced);
		abis_add_pending(batch, mm, hold->start);
	}
	return any;
}

/* What a batch owes is of several address spaces: interrupt whoever is not lazy. */
noinline void abis_batch_pay(struct arch_tlbflush_unmap_batch *batch)
{
	struct request request = { .mm = NULL };
	struct cpumask *mask;
	unsigned int cpu;

	preempt_disable();
	this_cpu_inc(abis_stat.narrowed);
	mask = this_cpu_ptr(&targets);
	cpumask_clear(mask);
	for_each_set_bit(cpu, batch->abis.owing, SPTE_CPUS) {
		/* It was another CPU's batch when this one was noted. */
		if (cpu == smp_processor_id()) {
			local_irq_disable();
			answer(&request, TLB_LOCAL_SHOOTDOWN);
			local_irq_enable();
		} else if (!READ_ONCE(per_cpu(cpu_tlbstate_shared.is_lazy, cpu))) {
			__cpumask_set_cpu(cpu, mask);
		}
	}
	if (!cpumask_empty(mask) && !abis_mutant(ABIS_MUTANT_BATCH_UNPAID))
		interrupt_targets(&request);
	preempt_enable();
	bitmap_zero(batch->abis.owing, SPTE_CPUS);
	batch->abis.is_owed = false;
}

static void flush_everything(void *unused)
{
	__flush_tlb_all();
}

/* Before anybody owes. */
void abis_owing_begin(void)
{
	static_branch_enable(&abis_owing_key);
}

/*
 * Nobody adds debts any more: pay them all. The bits that stay set cost a flush at
 * most, if full is switched on again.
 */
void abis_owing_end(void)
{
	if (!static_key_enabled(&abis_owing_key))
		return;
	on_each_cpu(flush_everything, NULL, true);
	static_branch_disable(&abis_owing_key);
}
