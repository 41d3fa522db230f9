/* SPDX-License-Identifier: GPL-2.0-only */
/* What mm/numapte keeps in mm_context_t. */
#ifndef _ASM_X86_NUMAPTE_TYPES_H
#define _ASM_X86_NUMAPTE_TYPES_H

#include <linux/types.h>

struct numapte_mm;

struct numapte_context {
#ifdef CONFIG_NUMAPTE
	struct numapte_mm *mm;	/* its trees; NULL: mm->pgd is the only one */
	int home;		/* the node that runs it; NUMA_NO_NODE: none has yet */
	bool eligible;		/* it began while replication was on */
#endif
};

/* What mm/numapte adds to a flush request. */
struct numapte_flush {
#ifdef CONFIG_NUMAPTE
	u64 nodes;		/* those that it is for */
	const u64 *gens;	/* by node, the generation to catch up to; NULL: as without trees */
#endif
};

#endif
