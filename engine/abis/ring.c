// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* See ring.h. Without a lock: writers of one slot exclude each other, and readers look twice. */
#include "ring.h"

/*
 * Generation @gen flushes @pages pages (1 to RING_PAGES) from @start on, and nothing
 * else. The generations of a slot only grow, so who finds the same one before and after
 * it has read the range has read that one's.
 */
void ring_publish(struct ring *ring, u64 gen, u64 start, u64 pages)
{
	struct ring_slot *slot = &ring->slot[gen % RING_SLOTS];
	u64 old = ring_load(&slot->gen);

	/* A later one is there, or somebody is writing: this one stays unknown. */
	if (old >= gen || !ring_exchange(&slot->gen, old, gen | RING_BUSY))
		return;
	ring_store(&slot->range, start | pages);
	ring_store(&slot->gen, gen);
}

/*
 * What a CPU has to flush that has caught up with @from and wants to catch up with @to.
 * Return: how many of the RING_SLOTS @ranges are valid. 0: one is unknown, or they are
 * more than @pages_max pages: everything.
 */
u32 ring_collect(const struct ring *ring, u64 from, u64 to, u32 pages_max, u64 *ranges)
{
	u64 pages = 0, gen;
	u32 count = 0;

	if (to - from > RING_SLOTS)
		return 0;
	for (gen = from + 1; gen <= to; gen++) {
		const struct ring_slot *slot = &ring->slot[gen % RING_SLOTS];

		if (ring_load(&slot->gen) != gen)
			return 0;
		ranges[count] = ring_load(&slot->range);
		if (ring_load(&slot->gen) != gen)
			return 0;
		pages += ranges[count++] & RING_PAGES;
	}
	return pages <= pages_max ? count : 0;
}
