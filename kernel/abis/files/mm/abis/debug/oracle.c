// SPDX-License-Identifier: GPL-2.0-only
/*
 * Asking the emulated machine's TLB oracle which CPUs hold an entry.
 *
 * A CPU may hold the entry if it must flush fully before it uses the address
 * space again: its context lags behind tlb_gen, or it owes a flush (owed.c), and
 * it is not running in it. A CPU that is about to load CR3 in the kernel looks as
 * if it did not have to: wait for it. One that runs user code with the entry at
 * hand does not.
 */

#include <linux/init.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include <asm/apic.h>
#include <asm/cpufeature.h>
#include <asm/msr.h>
#include <asm/tlbflush.h>

#include "debug.h"

struct oracle *abis_oracles;
u32 abis_oracle_msr;

/* Interrupts off: one question at a time on a CPU. Return: number of entries held. */
unsigned int abis_oracle_ask(struct oracle *oracle, struct mm_struct *mm,
			     unsigned long addr, u32 flags, u32 apic_id,
			     unsigned int pages)
{
	oracle->request = (struct machine_request) {
		.op = MACHINE_OP_QUERY,
		.flags = flags,
		.apic_id = apic_id,
		.linear = addr & PAGE_MASK,
		.pages = pages,
		.root = { __pa(mm->pgd) },
		.buffer = virt_to_phys(oracle->holders),
		.capacity = HOLDERS_MAX,
	};
	wrmsrl(abis_oracle_msr, virt_to_phys(&oracle->request));
	/* The WRMSR has written to memory that the compiler does not know of. */
	barrier();
	WARN_ONCE(oracle->request.status, "the oracle refused: %u\n",
		  oracle->request.status);
	WARN_ONCE(oracle->request.count > HOLDERS_MAX, "%u entries, %u looked at\n",
		  oracle->request.count, HOLDERS_MAX);
	return min_t(u32, oracle->request.count, HOLDERS_MAX);
}

int abis_oracle_cpu(u32 apic_id)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		if (per_cpu(x86_cpu_to_apicid, cpu) == apic_id)
			return cpu;
	}
	return -1;
}

/* Must this CPU flush fully before it uses @mm again? It may be about to do so. */
bool abis_oracle_must_flush(const struct machine_holder *holder, struct mm_struct *mm)
{
	int cpu = abis_oracle_cpu(holder->apic_id);
	const struct tlb_state *state;
	const struct tlb_context *context;
	unsigned int asid = holder->pcid ? holder->pcid - 1 : 0;

	if (cpu < 0 || asid >= TLB_NR_DYN_ASIDS)
		return false;
	state = &per_cpu(cpu_tlbstate, cpu);
	context = &state->ctxs[asid];
	if (READ_ONCE(context->ctx_id) != mm->context.ctx_id)
		return true;
	if (READ_ONCE(context->tlb_gen) >= atomic64_read(&mm->context.tlb_gen) &&
	    !abis_owes(mm, cpu))
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

		if (but >= 0 && abis_oracle_cpu(holder->apic_id) == but)
			continue;
		if (small_only && holder->size > PAGE_SHIFT)
			continue;
		if (!abis_oracle_must_flush(holder, mm))
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

/* Without the machine nothing is asked. */
bool __init abis_oracle_init(void)
{
	/* Physically contiguous and aligned as the requests in it must be. */
	abis_oracles = kcalloc(nr_cpu_ids, roundup_pow_of_two(sizeof(*abis_oracles)), GFP_KERNEL);
	if (abis_oracles)
		abis_oracle_msr = machine_find(NULL);
	return abis_oracle_msr;
}
