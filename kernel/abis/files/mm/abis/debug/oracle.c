// SPDX-License-Identifier: GPL-2.0-only
/*
 * Asking the emulated machine's TLB oracle which CPUs hold an entry.
 *
 * A CPU may hold the entry if it must flush it before it uses the address space
 * again: its context lags behind tlb_gen, and what it missed covers the page or is not
 * known (replay.c), or it owes a flush (owed.c); and it is not running in it. A CPU
 * that is about to load CR3 in the kernel looks as if it did not have to: wait for it.
 * One that runs user code with the entry at hand does not.
 */

#include <linux/mm.h>

#include <asm/tlbflush.h>

#include "debug.h"

/*
 * Must this CPU flush the page at @addr before it uses @mm again? It may be about to do
 * so. ABIS_EVERYTHING: must it flush everything?
 */
bool abis_oracle_must_flush(const struct machine_holder *holder, struct mm_struct *mm,
			    unsigned long addr)
{
	int cpu = oracle_cpu(holder->apic_id);
	const struct tlb_state *state;
	const struct tlb_context *context;
	unsigned int asid = holder->pcid ? holder->pcid - 1 : 0;
	u64 gen, mm_gen;

	if (cpu < 0 || asid >= TLB_NR_DYN_ASIDS)
		return false;
	state = &per_cpu(cpu_tlbstate, cpu);
	context = &state->ctxs[asid];
	if (READ_ONCE(context->ctx_id) != mm->context.ctx_id)
		return true;
	gen = READ_ONCE(context->tlb_gen);
	mm_gen = abis_gen_of(mm, cpu);
	if (!abis_owes(mm, cpu) &&
	    (gen >= mm_gen || !abis_replay_flushes(mm, cpu, gen, mm_gen, addr)))
		return false;
	return READ_ONCE(state->loaded_mm) != mm ||
	       READ_ONCE(per_cpu(cpu_tlbstate_shared, cpu).is_lazy);
}

/*
 * Return: a holder other than @but (-1: any) that may use the entry, or NULL. Where
 * one CPU alone may hold what was filled from a slot, a larger entry is not meant:
 * it is from before there was a page table, and whoever took it away, and not yet
 * flushed it, answers for it.
 */
static const struct machine_holder *find_holder(struct oracle *oracle,
						struct mm_struct *mm, unsigned long addr,
						int but, bool small_only)
{
	unsigned int i, count = abis_oracle_holders(oracle, mm, addr);

	for (i = 0; i < count; i++) {
		const struct machine_holder *holder = &oracle->holders[i];

		if (but >= 0 && oracle_cpu(holder->apic_id) == but)
			continue;
		if (small_only && holder->size > PAGE_SHIFT)
			continue;
		if (!abis_oracle_must_flush(holder, mm, addr))
			return holder;
	}
	return NULL;
}

/* As above, but wait for those in the kernel: they may be about to flush. */
const struct machine_holder *abis_oracle_find(struct oracle *oracle, struct mm_struct *mm,
					      unsigned long addr, int but, bool small_only)
{
	const struct machine_holder *holder;
	int i;

	for (i = 0; i < ORACLE_RETRIES; i++) {
		holder = find_holder(oracle, mm, addr, but, small_only);
		if (!holder || holder->state & MACHINE_HOLDER_USER)
			return holder;
		cpu_relax();
	}
	return holder;
}

/* A flush is between raising tlb_gen and publishing what it flushes, or is so no longer. */
void abis_debug_publishing(struct mm_struct *mm, int change)
{
#ifdef CONFIG_ABIS_FULL
	atomic_add(change, &mm->context.abis.publishing);
#endif
}

/* Would Linux have interrupted anybody? See should_flush_tlb(). */
bool abis_oracle_remote_target(struct mm_struct *mm)
{
	int cpu, this = raw_smp_processor_id();

	for_each_cpu(cpu, mm_cpumask(mm)) {
		if (cpu != this && !per_cpu(cpu_tlbstate_shared, cpu).is_lazy &&
		    per_cpu(cpu_tlbstate, cpu).loaded_mm == mm)
			return true;
	}
	return false;
}
