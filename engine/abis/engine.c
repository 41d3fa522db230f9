// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* See engine.h. Pure functions: no state, no allocation, no loop. */
#include "engine.h"

static u8 version_byte(u64 version)
{
	return (u8)(version % SPTE_VERSIONS + 1);
}

/* Rounds from the stamp to @version, modulo SPTE_VERSIONS: never more than there were. */
static u32 spte_age(spte_t spte, u64 version)
{
	u32 stamped = (spte & 0xffu) - 1;

	return ((u32)(version % SPTE_VERSIONS) + SPTE_VERSIONS - stamped) % SPTE_VERSIONS;
}

/*
 * The version to stamp with. A round that has begun by the time of the clear may
 * be over for CPUs that fill again until then: hence the gap of two. With none
 * in flight the next round to end began later, and one round less will do.
 * @in_flight: is a round begun and not yet credited? Read after hwA was cleared.
 * @version: read after that, at least 1.
 */
u64 abis_stamp_version(u64 version, bool in_flight)
{
	return in_flight ? version : version - 1;
}

/* Any CPU may hold what was filled until now. @version: abis_stamp_version(). */
spte_t spte_shared(u64 version)
{
	return version_byte(version);
}

/*
 * CPU @cpu alone holds the entry (section 4.1: direct TLB insertion), hwA is clear.
 * Only over SPTE_UNCACHED, over the same CPU's, or where the slot was flushed.
 */
spte_t spte_private(u32 cpu, u64 version)
{
	if (cpu >= SPTE_CPUS)
		return spte_shared(version);
	return (spte_t)((cpu + 1) << 8 | version_byte(version));
}

/*
 * The SPTE after hwA was cleared, or found clear, by one atomic operation that
 * returned @accessed. A promise that holds is kept: a new stamp would start its
 * rounds again, and whoever asks often would never see an end.
 * @version: abis_stamp_version(), both of its arguments read after that operation.
 */
spte_t spte_cleared(spte_t spte, bool accessed, u64 version)
{
	if (accessed || spte == SPTE_NEVER)
		return spte_shared(version);
	return spte;
}

/*
 * Who must flush the entry that an atomic exchange just took out of the table?
 * @accessed: hwA of the very value that the exchange returned.
 * @version: read under the same hold of the lock, and not before an SPTE was
 * stored in that hold. A version older than the stamp would look like a wrap
 * of it, 254 rounds old. For the same reason a version must never go back.
 */
struct abis_verdict abis_decide(spte_t spte, bool accessed, u64 version)
{
	struct abis_verdict verdict = { .targets = ABIS_ALL, .reason = ABIS_NEVER };

	if (accessed) {
		verdict.reason = ABIS_ACCESSED;
	} else if (spte == SPTE_UNCACHED) {
		verdict.targets = ABIS_NONE;
		verdict.reason = ABIS_UNCACHED;
	} else if (!(spte & 0xffu)) {
		/* SPTE_NEVER, and no other value exists: anyone may hold it. */
		verdict.reason = ABIS_NEVER;
	} else if (spte_age(spte, version) >= ABIS_GAP) {
		verdict.targets = ABIS_NONE;
		verdict.reason = ABIS_IDLE;
	} else if (spte >> 8) {
		verdict.targets = ABIS_CPU;
		verdict.reason = ABIS_PRIVATE;
		verdict.cpu = (u16)((spte >> 8) - 1);
	} else {
		verdict.reason = ABIS_RECENT;
	}
	return verdict;
}

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
