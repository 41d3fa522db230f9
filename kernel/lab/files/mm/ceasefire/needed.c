// SPDX-License-Identifier: GPL-2.0-only
/*
 * The CPUs that shootdowns had to interrupt: the least that any kernel could have done.
 *
 * Where a PTE is taken, the emulated machine is asked which CPUs hold its entry: after
 * the exchange, for nobody can fill it any more, and before the lock is released.
 * Where a page table is taken out, it is asked who may start a walk there. A request
 * needs the union of these; of the CPUs that it then interrupts, counters.c counts
 * those that are in the union. What is in no request, or was not asked for, counts as
 * needed, and as unasked beside it: flushes at fork, of soft-dirty bits, of page tables
 * that move, of huge pages outside of a gather, and of what another task's batch has
 * taken.
 *
 * A gather that ends while others of the address space are open may rely on what they
 * have not flushed yet: it needs what they need.
 *
 * A CPU whose entries are doomed, because it lags behind in generations, holds them
 * still. Entries that page-table isolation's second root has filled are not seen.
 */

#include <linux/init.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/spinlock.h>

#include <asm/tlb.h>

#include "counters.h"
#include "oracle.h"

static LIST_HEAD(open_gathers);
static DEFINE_SPINLOCK(open_lock);

/* Nobody is interrupted for an address space that nobody uses. */
static bool is_asked(const struct mm_struct *mm)
{
	return oracle_msr && ceasefire_is_counting() && atomic_read(&mm->mm_users);
}

static void add(struct needed *needed, int cpu)
{
	if (cpu >= 0)
		__cpumask_set_cpu(cpu, &needed->cpus);
}

void needed_ask(struct needed *needed, struct mm_struct *mm, unsigned long addr,
		unsigned long bytes)
{
	struct oracle *oracle;
	unsigned long flags;
	unsigned int i;

	if (!is_asked(mm))
		return;
	if (bytes > PTRS_PER_PTE * PAGE_SIZE) {
		needed->is_unasked = true;
		return;
	}
	local_irq_save(flags);
	oracle = oracle_here();
	oracle_ask(oracle, mm, addr, DIV_ROUND_UP(bytes, PAGE_SIZE), MACHINE_FLAG_TLB,
		   MACHINE_ALL_CPUS);
	for (i = 0; i < 64 * ARRAY_SIZE(oracle->request.holders); i++) {
		if (oracle->request.holders[i / 64] & BIT_ULL(i % 64))
			add(needed, oracle_cpu(i));
	}
	local_irq_restore(flags);
}

void needed_ask_table(struct needed *needed, struct mm_struct *mm, unsigned long addr,
		      unsigned int shift)
{
	struct oracle *oracle;
	unsigned long flags;
	unsigned int i, count;

	if (!is_asked(mm))
		return;
	local_irq_save(flags);
	oracle = oracle_here();
	count = oracle_ask(oracle, mm, addr, 1, MACHINE_FLAG_STRUCTURES, MACHINE_ALL_CPUS);
	for (i = 0; i < count; i++) {
		if (oracle->holders[i].size == shift)
			add(needed, oracle_cpu(oracle->holders[i].apic_id));
	}
	local_irq_restore(flags);
}

void needed_begin(struct needed *needed)
{
	current->tlb_ubc.flushing = needed;
}

void needed_end(void)
{
	struct needed *needed = current->tlb_ubc.flushing;

	cpumask_clear(&needed->cpus);
	needed->is_unasked = false;
	current->tlb_ubc.flushing = NULL;
}

void needed_open(struct mmu_gather *tlb)
{
	tlb->needed = (struct needed) { .mm = tlb->mm };
	spin_lock(&open_lock);
	list_add(&tlb->needed.open, &open_gathers);
	spin_unlock(&open_lock);
}

void needed_close(struct mmu_gather *tlb)
{
	spin_lock(&open_lock);
	list_del(&tlb->needed.open);
	spin_unlock(&open_lock);
}

void needed_nested(struct mmu_gather *tlb)
{
	struct needed *other;
	int open = 0;

	spin_lock(&open_lock);
	list_for_each_entry(other, &open_gathers, open) {
		if (other->mm != tlb->mm)
			continue;
		open++;
		cpumask_or(&tlb->needed.cpus, &tlb->needed.cpus, &other->cpus);
		tlb->needed.is_unasked |= other->is_unasked;
	}
	spin_unlock(&open_lock);
	/* Others than gathers are open. */
	if (atomic_read(&tlb->mm->tlb_flush_pending) > open)
		tlb->needed.is_unasked = true;
}

bool needed_is_known(void)
{
	return oracle_msr;
}

enum need needed_of(unsigned int cpu)
{
	const struct needed *needed = current->tlb_ubc.flushing;

	if (!needed || needed->is_unasked)
		return UNASKED_CPU;
	return cpumask_test_cpu(cpu, &needed->cpus) ? NEEDED_CPU : NEEDLESS_CPU;
}
