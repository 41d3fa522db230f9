// SPDX-License-Identifier: GPL-2.0-only
/* Statistics: each counter moves by the right amount. */
#include "oracle.h"
#include "rules.h"

#define PAGE_FLAGS (W | U | A | D)
#define DOC "machine-oracle.md STATS"

static struct {
	uint64_t root;
	struct page one, two;
} it;

static const char *const names[STATS_ALL] = {
	"walks", "walk_loads", "fills", "hits", "evictions", "structure_hits", "speculative_walks", "speculative_fills",
	"page_faults", "assists_accessed", "assists_dirty", "cr3_flush", "cr3_noflush", "invlpg", "invpcid_address",
	"invpcid_context", "invpcid_all_global", "invpcid_all", "flush_all", "contexts_dropped", "ipi_targets", "ipis_sent",
	"inserts", "insert_ops",
	[INVLPGB] = "invlpgb", "invlpgb_all", "tlbsync", "broadcast_targets", "broadcast_hits", "user_interrupts",
};

#define EXPECT_STAT(stats, index, value) \
	CHECK((stats).at[index] == (uint64_t)(value), "line %d: %s moved by %lu instead of %lu", __LINE__, names[index], \
	      (stats).at[index], (uint64_t)(value))

/* Nothing else than these may have moved. */
static void expect_only(const struct tlb_stats *stats, uint32_t mask, int line)
{
	for (unsigned int i = 0; i < STATS; i++)
		CHECK(mask >> i & 1 || !stats->at[i], "line %d: %s moved by %lu", line, names[i], stats->at[i]);
}
#define EXPECT_ONLY(stats, mask) expect_only(&(stats), mask, __LINE__)

static void it_make(void)
{
	it.root = space();
	it.one = page_make(it.root, window(PAGE_1G + PAGE_2M * 2), PAGE_FLAGS);
	it.two = page_make(it.root, window(PAGE_1G + PAGE_2M * 2 + PAGE_BYTES), PAGE_FLAGS);
	cr3_write(it.root);
}

static void nothing(void)
{
}

RULE(1401, "there are at least 52 counters, and asking moves none", DOC, ORACLE | QUIET, "stats-move-alone")
{
	struct tlb_stats stats = oracle_measure(nothing);

	EXPECT_ONLY(stats, 0);
	stats = oracle_stats(ALL_CPUS);
	CHECK(stats.at[WALKS], "nothing was ever walked");
}

static void read_one(void)
{
	invlpg(it.one.address);
	load(it.one.address);
}

static void read_both(void)
{
	invlpg(it.two.address);
	read_one();
	load(it.two.address);
}

RULE(1402, "walks, walk_loads, fills, structure_hits: a page whose way is not cached, then its neighbour", DOC,
     ORACLE | QUIET | LARGE, "stats-frozen")
{
	struct tlb_stats stats;
	bool has_structures = option("psc");

	it_make();
	stats = oracle_measure(read_one);
	EXPECT_STAT(stats, WALKS, 1);
	EXPECT_STAT(stats, WALK_LOADS, 4);
	EXPECT_STAT(stats, FILLS, 1);
	EXPECT_STAT(stats, STRUCTURE_HITS, 0);
	EXPECT_STAT(stats, INVLPG, 1);
	stats = oracle_measure(read_both);
	EXPECT_STAT(stats, WALKS, 2);
	EXPECT_STAT(stats, WALK_LOADS, has_structures ? 5 : 8);
	EXPECT_STAT(stats, FILLS, 2);
	EXPECT_STAT(stats, STRUCTURE_HITS, has_structures);
	EXPECT_ONLY(stats, 1 << WALKS | 1 << WALK_LOADS | 1 << FILLS | 1 << STRUCTURE_HITS | 1 << INVLPG | 1 << HITS);
}

static void read_large(void)
{
	invlpg(window(PAGE_2M * 8));
	load(window(PAGE_2M * 8));
	invlpg(window(PAGE_1G * 8));
	load(window(PAGE_1G * 8));
}

RULE(1403, "walk_loads: three for a page of 2 MiB, two for one of 1 GiB", DOC, ORACLE | QUIET | LARGE, "stats-frozen")
{
	struct tlb_stats stats;

	it_make();
	*entry(it.root, window(PAGE_2M * 8), 2) = frame_alloc_2m(OLD) | P | PS | PAGE_FLAGS;
	*entry(it.root, window(PAGE_1G * 8), 3) = PAGE_1G | P | PS | PAGE_FLAGS;
	stats = oracle_measure(read_large);
	EXPECT_STAT(stats, WALKS, 2);
	EXPECT_STAT(stats, WALK_LOADS, 5);
	EXPECT_STAT(stats, FILLS, 2);
}

static void read_twice(void)
{
	uint64_t value;

	read_one();
	user_read(it.one.address, &value);
}

RULE(1404, "hits: user mode finds what the kernel filled", DOC, ORACLE | QUIET | LARGE, "stats-frozen")
{
	struct tlb_stats stats;

	it_make();
	stats = oracle_measure(read_twice);
	EXPECT_STAT(stats, WALKS, 1);
	CHECK(stats.at[HITS] >= 1, "hits moved by %lu", stats.at[HITS]);
}

static void read_set(void)
{
	for (unsigned int i = 0; i < 9; i++)
		load(window(i * PAGE_2M + 5 * PAGE_BYTES));
}

RULE(1405, "evictions: nine pages in a set of eight, in turn", DOC, ORACLE | QUIET | BOUNDED, "stats-frozen")
{
	struct tlb_stats stats;

	it_make();
	for (unsigned int i = 0; i < 9; i++)
		page_make(it.root, window(i * PAGE_2M + 5 * PAGE_BYTES), PAGE_FLAGS);
	stats = oracle_measure(read_set);
	EXPECT_STAT(stats, FILLS, 9);
	EXPECT_STAT(stats, EVICTIONS, 9);
}

RULE(1406, "speculative_walks and speculative_fills move by themselves, and are among walks and fills", DOC,
     ORACLE | SPECULATION, "stats-frozen")
{
	struct tlb_stats before, after;
	uint64_t begin = now_us();

	it_make();
	before = oracle_stats(this_cpu()->id);
	do {
		uint64_t root = cr3_read();

		cr3_write(root);
		after = oracle_stats(this_cpu()->id);
		CHECK(now_us() - begin < 20000000, "they do not move");
	} while (after.at[SPECULATIVE_WALKS] - before.at[SPECULATIVE_WALKS] < 20 ||
		 after.at[SPECULATIVE_FILLS] == before.at[SPECULATIVE_FILLS]);
	CHECK(after.at[WALKS] - before.at[WALKS] >= after.at[SPECULATIVE_WALKS] - before.at[SPECULATIVE_WALKS],
	      "more than walks");
	CHECK(after.at[FILLS] - before.at[FILLS] >= after.at[SPECULATIVE_FILLS] - before.at[SPECULATIVE_FILLS],
	      "more than fills");
}

static void fault_thrice(void)
{
	uint64_t value;

	load_try(window(PAGE_1G * 20), &value);
	store_try(it.one.address, 1);
	user_read(window(PAGE_1G * 20), &value);
	/* No page fault. */
	load_try(1ul << 60, &value);
}

RULE(1407, "page_faults: one for each, whatever kind it is; walks that fault are walks and fill nothing", DOC,
     ORACLE | QUIET | LARGE, "stats-frozen")
{
	struct tlb_stats stats;

	it_make();
	*it.one.pte = it.one.old | P | U | A | D;
	stats = oracle_measure(fault_thrice);
	EXPECT_STAT(stats, PAGE_FAULTS, 3);
	EXPECT_STAT(stats, WALKS, 3);
	EXPECT_STAT(stats, FILLS, 0);
}

static void read_then_write(void)
{
	page_restore(&it.one);
	page_restore(&it.two);
	invlpg(it.one.address);
	invlpg(it.two.address);
	load(it.one.address);
	load(it.one.address);
	store(it.one.address, 1);
	store(it.one.address, 2);
	store(it.two.address, 1);
}

RULE(1408, "assists_accessed and assists_dirty: one for each bit that was set in an entry that maps a page", DOC,
     ORACLE | QUIET | LARGE, "stats-frozen")
{
	struct tlb_stats stats;

	it_make();
	it.one.flags = it.two.flags = P | W | U;
	stats = oracle_measure(read_then_write);
	EXPECT_STAT(stats, ASSISTS_ACCESSED, 2);
	EXPECT_STAT(stats, ASSISTS_DIRTY, 2);
	EXPECT_STAT(stats, WALKS, 3);
}

static void load_roots(void)
{
	load_flush(it.root, 1);
	load_flush(it.root, 2);
	load_keep(it.root, 1);
	load_keep(it.root, 2);
	load_keep(it.root, 0);
}

RULE(1409, "cr3_flush and cr3_noflush", DOC, ORACLE | PCID | QUIET, "stats-frozen")
{
	struct tlb_stats stats;

	it_make();
	stats = oracle_measure(load_roots);
	EXPECT_STAT(stats, CR3_FLUSH, 2);
	EXPECT_STAT(stats, CR3_NOFLUSH, 3);
}

static void invalidate(void)
{
	for (unsigned int i = 0; i < 7; i++)
		invlpg(window(PAGE_1G * 30));
	for (unsigned int type = 0; type < 4; type++)
		for (unsigned int i = 0; i < 2 + type; i++)
			invpcid(type, 5, window(0));
	/* Faults do not count. */
	invpcid_try(4, &(struct invpcid_descriptor){ 0, 0 });
	invpcid_try(INVPCID_ALL, &(struct invpcid_descriptor){ ~0ul, 0 });
}

RULE(1410, "invlpg, and INVPCID by type", DOC, ORACLE | PCID | INVPCID | QUIET, "stats-frozen")
{
	struct tlb_stats stats;

	it_make();
	stats = oracle_measure(invalidate);
	EXPECT_STAT(stats, INVLPG, 7);
	EXPECT_STAT(stats, INVPCID_0, 2);
	EXPECT_STAT(stats, INVPCID_1, 3);
	EXPECT_STAT(stats, INVPCID_2, 4);
	EXPECT_STAT(stats, INVPCID_3, 5);
	EXPECT_STAT(stats, FLUSH_ALL, 0);
}

static void flush_thrice(void)
{
	pge_toggle();
	cr4_write(cr4_read() & ~CR4_PCIDE);
	pcid_on();
	/* Nothing changes here. */
	cr4_write(cr4_read() ^ CR4_TSD);
	cr4_write(cr4_read() ^ CR4_TSD);
}

RULE(1411, "flush_all: what changes CR4.PGE, or clears CR4.PCIDE", DOC, ORACLE | PCID | QUIET, "stats-frozen")
{
	struct tlb_stats stats;

	cr3_write((uint64_t)boot_pml4);
	stats = oracle_measure(flush_thrice);
	EXPECT_STAT(stats, FLUSH_ALL, 3);
	EXPECT_STAT(stats, CR3_FLUSH, 0);
}

static void load_many(void)
{
	for (uint64_t pcid = 1; pcid <= 100; pcid++) {
		load_flush(it.root, pcid);
		load(it.one.address);
	}
}

RULE(1412, "contexts_dropped: one for each PCID that comes when no more can be kept", DOC, ORACLE | PCID | QUIET,
     "stats-frozen")
{
	struct tlb_stats stats;

	it_make();
	/* In turn: the least recently used one is always the one that comes next. */
	stats = oracle_measure(load_many);
	EXPECT_STAT(stats, CONTEXTS_DROPPED, 100);
	EXPECT_STAT(stats, CR3_FLUSH, 100);
}

static void send(void)
{
	/* To one, to all others, to one that is not there; an NMI is not a fixed interrupt. */
	cpu_kick(1, 0x4000 | VECTOR_WAKE);
	cpu_kick(0, 0xc4000 | VECTOR_WAKE);
	cpu_kick(200, 0x4000 | VECTOR_WAKE);
	cpu_kick(1, 0x4400);
}

RULE(1413, "ipis_sent and ipi_targets: fixed interrupts that have a target", DOC, ORACLE | CPUS2 | QUIET,
     "stats-frozen")
{
	struct tlb_stats stats = oracle_measure(send);

	EXPECT_STAT(stats, IPIS_SENT, 2);
	EXPECT_STAT(stats, IPI_TARGETS, 1 + (cpu_count - 1));
}

static void invlpg_job(void *argument)
{
	(void)argument;
	for (unsigned int i = 0; i < 5; i++)
		invlpg(window(0));
}

RULE(1414, "counters are a vCPU's own, and for all vCPUs their sum is given", DOC, ORACLE | CPUS2 | QUIET,
     "stats-frozen")
{
	struct tlb_stats mine = oracle_stats(0), other = oracle_stats(1), all;

	on_cpu(1, invlpg_job, NULL);
	CHECK(oracle_stats(0).at[INVLPG] == mine.at[INVLPG], "vCPU 0 counted vCPU 1's");
	CHECK(oracle_stats(1).at[INVLPG] == other.at[INVLPG] + 5, "vCPU 1 did not count its own");
	all = oracle_stats(ALL_CPUS);
	for (unsigned int id = 0; id < cpu_count; id++)
		all.at[INVLPG] -= oracle_stats(id).at[INVLPG];
	CHECK(!all.at[INVLPG], "the sum is another");
}

static void insert_both(void)
{
	page_restore(&it.one);
	page_restore(&it.two);
	invlpg(it.one.address);
	invlpg(it.two.address);
	wrmsr(MSR_INSERT, it.one.address | 1);
	load(it.one.address);
	load(it.two.address);
	/* There already; not present; a mistake. */
	wrmsr(MSR_INSERT, it.two.address);
	wrmsr(MSR_INSERT, window(PAGE_1G * 20));
	wrmsr_try(MSR_INSERT, 1ul << 60);
}

RULE(1415, "inserts and insert_ops: pages inserted, and the requests for it; their walks and fills are among all", DOC,
     ORACLE | INSERT | QUIET | LARGE, "stats-frozen")
{
	struct tlb_stats stats;

	it_make();
	it.one.flags = it.two.flags = P | W | U;
	stats = oracle_measure(insert_both);
	EXPECT_STAT(stats, INSERTS, 2);
	EXPECT_STAT(stats, INSERT_OPS, 3);
	EXPECT_STAT(stats, WALKS, 3);
	EXPECT_STAT(stats, FILLS, 2);
	EXPECT_STAT(stats, ASSISTS_ACCESSED, 0);
	EXPECT_STAT(stats, PAGE_FAULTS, 0);
}
