/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the last generations of an address space flush: a few pages each. A CPU that
 * lags behind flushes these pages instead of everything (Amit, USENIX ATC 2017,
 * section 4.1: idle CPUs serve a few single flushes before a full one).
 *
 * Whoever raises the generation publishes what it flushes, if that is a range of
 * single pages and no page table was taken out. All else stays unknown: what flushes
 * everything, batches, what was not published in time, what was overwritten. Who finds
 * one generation unknown flushes everything. So a flush of everything is executed in
 * full by every CPU, and still proves what a round proves.
 *
 * What is published stays true for the life of the address space; a copy of one
 * begins with an empty ring.
 */
#ifndef RING_H
#define RING_H

#include "engine_deps.h"	/* types, ring_load(), ring_store(), ring_exchange() */

#define RING_SLOTS	16u
#define RING_BUSY	(1ull << 63)
#define RING_PAGES	0xfffull	/* low bits of a range: pages; the rest is the first address */

struct ring_slot {
	u64 gen;		/* RING_BUSY: @range is being written */
	u64 range;
};

struct ring {
	struct ring_slot slot[RING_SLOTS];
};

void ring_publish(struct ring *ring, u64 gen, u64 start, u64 pages);
u32 ring_collect(const struct ring *ring, u64 from, u64 to, u32 pages_max, u64 *ranges);

#endif
