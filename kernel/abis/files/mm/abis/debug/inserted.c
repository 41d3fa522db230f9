// SPDX-License-Identifier: GPL-2.0-only
/* What the debug kernel asks in mode full: after an insertion, and after a flush of few CPUs. */

#include <linux/mm.h>

#include <asm/apic.h>

#include "debug.h"

/* All CPUs that may have held these pages have flushed, or must. PTE lock held. */
void abis_debug_narrowed(struct mm_struct *mm, const struct abis_hold *hold)
{
	unsigned int i, count = min_t(unsigned int, hold->pages, ARRAY_SIZE(hold->checked));
	const struct machine_holder *holder;
	struct oracle *oracle;
	unsigned long flags;

	if (!oracle_msr)
		return;
	local_irq_save(flags);
	oracle = oracle_here();
	for (i = 0; i < count; i++) {
		holder = abis_oracle_find(oracle, mm, hold->checked[i].addr, -1, true);
		/* mprotect() has stored the new one: filled meanwhile, it is marked. */
		if (holder && !(pte_flags(abis_ptep_get(hold->checked[i].ptep)) & _PAGE_ACCESSED))
			abis_debug_held("flushed on one CPU or a few", holder, mm);
		this_cpu_inc(abis_checks.narrowed);
	}
	local_irq_restore(flags);
}

/* Nobody else may hold it, unless the accessed bit says so. PTE lock held. */
void abis_debug_inserted(struct mm_struct *mm, unsigned long addr, pte_t *ptep)
{
	const struct machine_holder *holder;
	struct oracle *oracle;
	unsigned long flags;
	unsigned int count;

	if (smp_processor_id() >= abis_cpus)
		abis_debug_violation("inserted by a CPU that no SPTE can name", addr,
				     ptep_get(ptep));
	if (!oracle_msr)
		return;
	local_irq_save(flags);
	oracle = oracle_here();
	count = oracle_ask(oracle, mm, addr, 1, MACHINE_FLAG_TLB,
			   per_cpu(x86_cpu_to_apicid, smp_processor_id()));
	if (count)
		this_cpu_inc(abis_checks.inserted_held);
	holder = abis_oracle_find(oracle, mm, addr, smp_processor_id(), true);
	if (holder && !(pte_flags(abis_ptep_get(ptep)) & _PAGE_ACCESSED))
		abis_debug_held("inserted", holder, mm);
	this_cpu_inc(abis_checks.inserted);
	local_irq_restore(flags);
}

/* After an insertion no walk of this CPU may begin in the secondary. Interrupts off. */
void abis_debug_secondary(struct mm_struct *mm, unsigned long addr,
			  const unsigned long *tables, unsigned int nr)
{
	struct oracle *oracle;
	unsigned int i, j, count;

	if (!oracle_msr)
		return;
	oracle = oracle_here();
	count = oracle_ask(oracle, mm, addr, 1, MACHINE_FLAG_STRUCTURES,
			   per_cpu(x86_cpu_to_apicid, smp_processor_id()));
	for (i = 0; i < count; i++) {
		for (j = 0; j < nr; j++) {
			if (oracle->holders[i].physical == __pa(tables[j]))
				abis_debug_violation("leads into the secondary page tables",
						     addr, __pte(0));
		}
	}
	this_cpu_inc(abis_checks.secondaries);
}
