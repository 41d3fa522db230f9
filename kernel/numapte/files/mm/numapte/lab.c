// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the lab has to know: by which function flushes for some nodes are requested, and which
 * roots an address space has.
 */

#include <linux/init.h>
#include <linux/mm.h>

#include "../ceasefire/counters.h"
#include "../ceasefire/oracle.h"
#include "numapte.h"

/* All roots but mm->pgd. */
unsigned int oracle_more_roots(struct mm_struct *mm, u64 *roots)
{
	struct numapte_mm *nm = numapte_trees(mm);
	int node;

	for (node = 0; nm && node < nr_node_ids; node++)
		roots[node] = nm->top.page[node] ? __pa(nm->top.page[node]) : 0;
	return nm ? nr_node_ids : 0;
}

static int __init numapte_lab_init(void)
{
	ceasefire_count_request("flush_tlb_mm_nodes");
	return 0;
}
device_initcall(numapte_lab_init);
