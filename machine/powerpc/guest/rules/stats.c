// SPDX-License-Identifier: GPL-2.0-only
/* Statistics and time: each counter moves by the right amount. */
#include "rules.h"

#define DOC "machine-powerpc.md STATS"

static struct page one, two;

static void nothing(void)
{
}

static struct tlb_stats measure(void (*what)(void))
{
	struct tlb_stats before = oracle_stats();

	what();
	return oracle_since(&before);
}

RULE(901, "asking moves no counter", DOC, ORACLE, "stats-move-alone")
{
	struct tlb_stats stats = measure(nothing);

	EXPECT_STILL(stats);
}

static void load_one(void)
{
	EXPECT_OLD(one);
}

RULE(902, "a miss for data moves dtlb_misses, searches, found_primary, references, referenced_updates, fills", DOC,
     ORACLE, "stats-forgets-referenced")
{
	struct tlb_stats stats;

	one = page_make(3, 0x123, PP_WRITE);
	stats = measure(load_one);
	EXPECT_MOVED(stats, A_MISS, [REFERENCED_UPDATES] = 1, [FILLS] = 1);
}

static void load_one_by_both(void)
{
	uint32_t value;

	EXPECT_OLD(one);
	/* QEMU has another TLB of its own for user mode: this one comes to the model. */
	EXPECT_OK(load_try(USER, one.address, &value));
}

RULE(903, "a hit moves no counter", DOC, ORACLE, "hit-reads-memory")
{
	struct tlb_stats stats;

	one = page_make(3, 0x123, PP_WRITE);
	EXPECT_OLD(one);
	stats = measure(load_one_by_both);
	EXPECT_STILL(stats);
}

static void fetch_one(void)
{
	EXPECT_CODE(one, OLD);
}

RULE(904, "a miss for code moves itlb_misses, searches, found_primary, references, fills", DOC, ORACLE,
     "stats-code-is-data")
{
	struct tlb_stats stats;

	one = page_make(3, 0x123, BITS);
	stats = measure(fetch_one);
	EXPECT_MOVED(stats, [CODE_MISSES] = 1, A_SEARCH, [FILLS] = 1);
	stats = measure(fetch_one);
	EXPECT_STILL(stats);
}

static void store_one(void)
{
	EXPECT_OK(store_try(SUPERVISOR, one.address, OLD));
}

RULE(905, "a store that searches for C alone moves changed_searches, no miss and no fill", DOC, ORACLE,
     "stats-changed-misses")
{
	struct tlb_stats stats;

	one = page_make(3, 0x123, PTE_R | PP_WRITE);
	EXPECT_OLD(one);
	stats = measure(store_one);
	EXPECT_MOVED(stats, [CHANGED_SEARCHES] = 1, A_SEARCH, [CHANGED_UPDATES] = 1);
}

RULE(906, "a store that misses counts one search, which sets both bits", DOC, ORACLE, "stats-changed-at-misses")
{
	struct tlb_stats stats;

	one = page_make(3, 0x123, PP_WRITE);
	stats = measure(store_one);
	EXPECT_MOVED(stats, A_MISS, [REFERENCED_UPDATES] = 1, [CHANGED_UPDATES] = 1, [FILLS] = 1);
}

static void denied_one(void)
{
	EXPECT_DSI(IS_DENIED, load_try(USER, one.address, &one.vsid));
}

RULE(907, "a search that finds a PTE which denies moves denied, and no fill", DOC, ORACLE, "stats-denied-fills")
{
	struct tlb_stats stats;

	one = page_make(3, 0x123, PP_NONE);
	stats = measure(denied_one);
	EXPECT_MOVED(stats, A_MISS, [DENIED] = 1);
}

static void load_other(void)
{
	EXPECT_OLD(two);
}

RULE(908, "evictions counts valid entries that were replaced, nothing else", DOC, ORACLE, "stats-evicts-empty")
{
	struct tlb_stats stats;

	one = page_make(3, 0x23, BITS);
	two = page_make(3, 0x63, BITS);
	EXPECT_OLD(one);
	stats = measure(load_other);
	EXPECT_MOVED(stats, A_MISS, [FILLS] = 1);
	two = page_make(3, 0xa3, BITS);
	stats = measure(load_other);
	EXPECT_MOVED(stats, A_MISS, [FILLS] = 1, [EVICTIONS] = 1);
}

static void drop_one(void)
{
	tlbie(one.address);
}

RULE(909, "a tlbie is counted, and the valid entries that it dropped", DOC, ORACLE, "stats-drops-empty")
{
	struct tlb_stats stats;

	one = page_make(3, 0x23, BITS);
	two = page_make(3, 0x63, BITS);
	EXPECT_OLD(one);
	EXPECT_OLD(two);
	EXPECT_CODE(one, OLD);
	stats = measure(drop_one);
	EXPECT_MOVED(stats, [TLBIE] = 1, [TLBIE_DROPPED] = 3);
	stats = measure(drop_one);
	EXPECT_MOVED(stats, [TLBIE] = 1);
}

static void segments_write(void)
{
	segment_write(5, vsid(5) | SR_KP);
	segment_write(6, vsid(6) | SR_KP);
	segment_write(6, vsid(6) | SR_KS);
	asm volatile("mtsr 7, %0; isync" : : "r"(vsid(8)));
}

RULE(910, "writes of segment registers are counted, and those that changed one", DOC, ORACLE, "stats-writes-change")
{
	struct tlb_stats stats = measure(segments_write);

	EXPECT_MOVED(stats, [SEGMENT_WRITES] = 4, [SEGMENT_CHANGES] = 2);
}

RULE(912, "a tick of the timebase is an instruction", "machine-powerpc.md Time", ICOUNT, "tb-frequency=16600000")
{
	for (uint32_t turns = 1000; turns <= 1000000; turns *= 10) {
		uint32_t begin, end, count = turns;

		asm volatile("mtctr %2; mftb %0; 1: bdnz 1b; mftb %1" : "=&r"(begin), "=r"(end) : "r"(count) : "ctr");
		/* The loop, and one mftb */
		CHECK(end - begin == turns + 1, "%u turns took %u ticks", turns, end - begin);
	}
}
