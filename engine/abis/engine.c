// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* See engine.h. Pure functions: no state, no allocation, no loop. */
#include "engine.h"

/*
 * The version after a round that was begun at @version_begun, read before the
 * flush was announced to any CPU. Of two rounds at the same time one counts:
 * else both could be credited for what happened before a stamp between them.
 */
u64 abis_round_done(u64 version, u64 version_begun)
{
	return version > version_begun ? version : version_begun + 1;
}

/*
 * Fewer flushes mean fewer rounds, and pages wait for rounds: of @every flushes
 * that were sent for want of a round alone one becomes a round. 0: never.
 * @blocked is the address space's own count.
 */
bool abis_round_force(u32 *blocked, u32 every)
{
	if (!every || ++*blocked < every)
		return false;
	*blocked = 0;
	return true;
}

static void range_set(struct abis_range *range, u32 cpu)
{
	range->set[cpu / 64] |= 1ull << cpu % 64;
}

/* Add one PTE's targets to its range's. */
void abis_range_add(struct abis_range *range, struct abis_verdict verdict)
{
	if (verdict.targets == ABIS_NONE || range->targets == ABIS_ALL)
		return;
	if (verdict.targets != ABIS_CPU || verdict.cpu >= SPTE_CPUS) {
		range->targets = ABIS_ALL;
	} else if (range->targets == ABIS_NONE) {
		range->targets = ABIS_CPU;
		range->cpu = verdict.cpu;
	} else if (range->targets == ABIS_SET) {
		range_set(range, verdict.cpu);
	} else if (range->cpu != verdict.cpu) {
		range->set[0] = range->set[1] = range->set[2] = range->set[3] = 0;
		range_set(range, range->cpu);
		range_set(range, verdict.cpu);
		range->targets = ABIS_SET;
	}
}

/* Is @cpu in @set, of a bit for each CPU below SPTE_CPUS? Any other CPU is in none. */
bool abis_set_has(const u64 *set, u32 cpu)
{
	return cpu < SPTE_CPUS && set[cpu / 64] >> cpu % 64 & 1;
}
