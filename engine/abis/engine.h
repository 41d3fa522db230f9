/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which CPUs must flush when a page-table entry changes: the coherence decisions
 * of ABIS (Amit, USENIX ATC 2017, sections 3 and 4), without any Linux in them.
 *
 * SPTE     two bytes beside each PTE, guarded by the same lock.
 * version  of an address space: how many rounds it has completed.
 * round    a flush of the whole address space that every CPU has executed, or
 *          must execute before it uses the address space again.
 * hwA      the PTE's accessed bit. Hardware sets it before it caches the entry.
 *
 * What an SPTE promises, as long as hwA is clear (a PTE that is not present
 * counts as clear). It speaks of what was filled from this very slot:
 *
 *   NEVER       nothing
 *   UNCACHED    no CPU holds an entry
 *   ALL, v      whoever holds an entry filled it before the round began that makes version v + 2
 *   CPU c, v    the same, and nobody but CPU c holds one
 *
 * While hwA is set it promises nothing. So whoever clears hwA, or takes a PTE
 * with hwA set away, must store a new SPTE under the same hold of the lock.
 */
#ifndef ENGINE_H
#define ENGINE_H

#include "engine_deps.h"	/* u8, u16, u32, u64, bool; supplied by each host */

typedef u16 spte_t;

/* Bits that name a holder, at most 8. The tests take fewer, to have CPUs that none names. */
#ifndef SPTE_CPU_BITS
#define SPTE_CPU_BITS	8u
#endif

/*
 * High byte: holder + 1, 0 for any CPU, all of its bits for UNCACHED alone. Low byte:
 * SPTE_STAMPED, and the version modulo SPTE_VERSIONS; without that bit, UNCACHED or NEVER.
 */
#define SPTE_NEVER	((spte_t)0x0000)
#define SPTE_UNCACHED	((spte_t)(((1u << SPTE_CPU_BITS) - 1) << 8))
#define SPTE_STAMPED	0x80u
#define SPTE_VERSIONS	128u
/* A CPU of a higher number is recorded as "any CPU", which is always right. */
#define SPTE_CPUS	((1u << SPTE_CPU_BITS) - 2)

/* Rounds between stamp and proof where one was in flight: it may have begun before the stamp. */
#define ABIS_GAP	2u

enum abis_targets {
	ABIS_NONE,		/* nobody holds the entry */
	ABIS_CPU,		/* at most one CPU does */
	ABIS_SET,		/* only a ranges' accumulator: at most these do */
	ABIS_ALL,		/* anyone may */
};

/* Why. The first three let targets off. */
enum abis_reason {
	ABIS_IDLE,		/* hwA clear since the stamp, and enough rounds since */
	ABIS_UNCACHED,		/* flushed everywhere since hwA was cleared, not used again */
	ABIS_PRIVATE,		/* one CPU alone can hold it */
	ABIS_RECENT,		/* as ABIS_IDLE, but the rounds are still to come */
	ABIS_ACCESSED,		/* hwA set */
	ABIS_NEVER,		/* nothing is known */
	ABIS_REASONS,
};

struct abis_verdict {
	u8 targets;		/* enum abis_targets, never ABIS_SET */
	u8 reason;		/* enum abis_reason */
	u16 cpu;		/* ABIS_CPU alone */
};

/* The targets of a range of PTEs together. All zero: none. */
struct abis_range {
	u8 targets;		/* enum abis_targets */
	u16 cpu;		/* ABIS_CPU alone */
	u64 set[4];		/* ABIS_SET alone: bit of each CPU below SPTE_CPUS */
};

/*
 * The version to stamp with. A round that has begun by the time of the clear may
 * be over for CPUs that fill again until then: hence the gap of two. With none
 * in flight the next round to end began later, and one round less will do.
 * @in_flight: is a round begun and not yet credited? Read after hwA was cleared.
 * @version: read after that, at least 1.
 */
static inline u64 abis_stamp_version(u64 version, bool in_flight)
{
	return in_flight ? version : version - 1;
}

/* Any CPU may hold what was filled until now. @version: abis_stamp_version(). */
static inline spte_t spte_shared(u64 version)
{
	return (spte_t)(SPTE_STAMPED | version % SPTE_VERSIONS);
}

/*
 * CPU @cpu alone holds the entry (section 4.1: direct TLB insertion), hwA is clear.
 * Only over SPTE_UNCACHED, over the same CPU's, or where the slot was flushed.
 */
static inline spte_t spte_private(u32 cpu, u64 version)
{
	if (cpu >= SPTE_CPUS)
		return spte_shared(version);
	return (spte_t)((cpu + 1) << 8 | spte_shared(version));
}

/*
 * The SPTE after hwA was cleared, or found clear, by one atomic operation that
 * returned @accessed. A promise that holds is kept: a new stamp would start its
 * rounds again, and whoever asks often would never see an end.
 * @version: abis_stamp_version(), both of its arguments read after that operation.
 */
static inline spte_t spte_cleared(spte_t spte, bool accessed, u64 version)
{
	if (accessed || spte == SPTE_NEVER)
		return spte_shared(version);
	return spte;
}

/* Rounds from the stamp to @version, modulo SPTE_VERSIONS: never more than there were. */
static inline u32 spte_age(spte_t spte, u64 version)
{
	return (u32)(version - spte) % SPTE_VERSIONS;
}

/*
 * Who must flush the entry that an atomic exchange just took out of the table?
 * @accessed: hwA of the very value that the exchange returned.
 * @version: read under the same hold of the lock, and not before an SPTE was
 * stored in that hold. A version older than the stamp would look like a wrap
 * of it, 127 rounds old. For the same reason a version must never go back.
 */
static inline struct abis_verdict abis_decide(spte_t spte, bool accessed, u64 version)
{
	struct abis_verdict verdict = { .targets = ABIS_ALL, .reason = ABIS_NEVER };

	if (accessed) {
		verdict.reason = ABIS_ACCESSED;
	} else if (spte == SPTE_UNCACHED) {
		verdict.targets = ABIS_NONE;
		verdict.reason = ABIS_UNCACHED;
	} else if (!(spte & SPTE_STAMPED)) {
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

u64 abis_round_done(u64 version, u64 version_begun);
bool abis_round_force(u32 *blocked, u32 every);
void abis_range_add(struct abis_range *range, struct abis_verdict verdict);
bool abis_set_has(const u64 *set, u32 cpu);

#endif
