// SPDX-License-Identifier: GPL-2.0-only

#include <linux/init.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include <asm/apic.h>

#include "oracle.h"

struct oracle *oracles;
u32 oracle_msr;

unsigned int __weak oracle_more_roots(struct mm_struct *mm, u64 *roots)
{
	return 0;
}

unsigned int oracle_ask(struct oracle *oracle, struct mm_struct *mm, unsigned long addr,
			unsigned int pages, u32 flags, u32 apic_id)
{
	unsigned int roots = oracle_more_roots(mm, oracle->roots);

	oracle->request = (struct machine_request) {
		.op = MACHINE_OP_QUERY,
		.flags = flags,
		.apic_id = apic_id,
		.linear = addr & PAGE_MASK,
		.pages = pages,
		.root = { __pa(mm->pgd) },
		.buffer = virt_to_phys(oracle->holders),
		.capacity = ORACLE_HOLDERS_MAX,
		.reserved = { roots ? virt_to_phys(oracle->roots) : 0, roots },
	};
	WARN_ONCE(machine_ask(oracle_msr, virt_to_phys(&oracle->request)) ||
		  oracle->request.status, "the oracle refused: %u\n", oracle->request.status);
	return min_t(u32, oracle->request.count, ORACLE_HOLDERS_MAX);
}

int oracle_cpu(u32 apic_id)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		if (per_cpu(x86_cpu_to_apicid, cpu) == apic_id)
			return cpu;
	}
	return -1;
}

static int __init oracle_init(void)
{
	/* Physically contiguous and aligned as the requests in it must be. */
	oracles = kcalloc(nr_cpu_ids, roundup_pow_of_two(sizeof(*oracles)), GFP_KERNEL);
	if (oracles)
		oracle_msr = machine_find(NULL);
	return 0;
}
core_initcall(oracle_init);
