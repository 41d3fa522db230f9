// SPDX-License-Identifier: GPL-2.0-only
/*
 * After the flush for page tables that were freed or moved nothing may lead into them.
 */

#include <linux/mm.h>

#include <asm/apic.h>

#include "../../internal.h"
#include "debug.h"

/* Page tables of one gather that are looked at, and where. */
#define TABLES_MAX		8
#define TABLES_SPAN		(64 * PMD_SIZE)

/* Nothing leads from the page tables into one for @addr. */
static bool is_taken_out(struct mm_struct *mm, unsigned long addr)
{
	pmd_t *pmd = mm_find_pmd(mm, addr);

	return !pmd || pmd_none(pmdp_get_lockless(pmd));
}

/* Return: a CPU that may start a walk for these 2 MiB in a page table, or NULL. */
static const struct machine_holder *find_leading(struct oracle *oracle,
						 struct mm_struct *mm, unsigned long addr)
{
	unsigned int i, count = oracle_ask(oracle, mm, addr, PTRS_PER_PTE, MACHINE_FLAG_STRUCTURES,
					   MACHINE_ALL_CPUS);

	for (i = 0; i < count; i++) {
		const struct machine_holder *holder = &oracle->holders[i];

		if (holder->kind == MACHINE_KIND_PDE &&
		    !abis_oracle_must_flush(holder, mm, ABIS_EVERYTHING))
			return holder;
	}
	return NULL;
}

/*
 * Page tables of this range were taken out, to be freed or moved, and all that may
 * lead into them was flushed, the CPUs that walk without a lock included: the
 * interrupt is what they wait for. The mmap lock, or those of the PMDs, keep others
 * from putting new ones there, but for VMAs beside the range.
 */
void abis_debug_tables(struct mm_struct *mm, unsigned long start, unsigned long end)
{
	const struct machine_holder *holder = NULL;
	struct oracle *oracle;
	unsigned int i, tables = 0;
	unsigned long flags, addr;

	if (!oracle_msr)
		return;
	local_irq_save(flags);
	oracle = oracle_here();
	end = min(end, start + TABLES_SPAN);
	for (addr = start & PMD_MASK; addr < end && tables < TABLES_MAX; addr += PMD_SIZE) {
		if (!is_taken_out(mm, addr))
			continue;
		tables++;
		this_cpu_inc(abis_checks.tables);
		for (i = 0; i < ORACLE_RETRIES; i++) {
			holder = find_leading(oracle, mm, addr);
			if (!holder || holder->state & MACHINE_HOLDER_USER)
				break;
			cpu_relax();
		}
		if (holder && is_taken_out(mm, addr))
			abis_debug_held("a page table was taken out", holder, mm);
	}
	local_irq_restore(flags);
}

bool abis_debug_spares_moved(void)
{
	return abis_mutant(ABIS_MUTANT_MOVED_ELIDED);
}
