/* SPDX-License-Identifier: GPL-2.0-only */
/* The nodes of a guest with the word `nodes`: as cli/tests/machine/guest.rs gives them to the machine. */
#ifndef GUEST_NODES_H
#define GUEST_NODES_H

#include "guest.h"

#define NODE_COUNT 3
#define NODE_0_BYTES (1 * PAGE_1G)
#define NODE_1_BYTES (3 * PAGE_1G)
#define NODE_2_BYTES (2 * PAGE_1G)
/* The hole for devices ends at 4 GiB; it splits node 1. */
#define HOLE_BEGIN (3 * PAGE_1G)
#define HOLE_END (4 * PAGE_1G)
#define RAM_END (7 * PAGE_1G)

/* From now on memory above the hole is mapped one to one, too. */
static inline void map_above_hole(void)
{
	for (uint64_t at = HOLE_END; at < RAM_END; at += PAGE_1G)
		identity_pdpt[at / PAGE_1G] = at | P | W | A | D | PS;
}

static inline unsigned int node_of_cpu(unsigned int id)
{
	return id % NODE_COUNT;
}

#endif
