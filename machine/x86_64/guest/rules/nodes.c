// SPDX-License-Identifier: GPL-2.0-only
/* Nodes: whose they are, and on which of them walks read. A page's tables are put on chosen nodes. */
#include "nodes.h"
#include "oracle.h"
#include "rules.h"

#define PAGE_FLAGS (W | U | A | D)
#define TABLE_FLAGS (P | W | U | A)
#define DOC "machine-oracle.md Nodes"

/* Free memory of each node; node 0 has the pool. */
#define PLACE_1 0x60000000ul
#define PLACE_1_HIGH 0x110000000ul
#define PLACE_2 0x150000000ul

static uint64_t table_at(uint64_t frame)
{
	map_above_hole();
	frame_fill(frame, 0);
	return frame;
}

/* Tables by their level, the root at 4. */
struct way {
	uint64_t at[5];
};

/* All on node 0. */
static struct way way_near(void)
{
	return (struct way){ { 0, page_alloc(), page_alloc(), page_alloc(), space() } };
}

/* Leads from the root to `last`, an entry at the level. */
static volatile uint64_t *way_make(const struct way *way, uint64_t address, unsigned int level, uint64_t last)
{
	volatile uint64_t *slot;

	for (unsigned int i = 4; ; i--) {
		slot = (uint64_t *)way->at[i] + (address >> (3 + 9 * i) & 511);
		if (i == level)
			break;
		*slot = way->at[i - 1] | TABLE_FLAGS;
	}
	*slot = last;
	return slot;
}

static uint64_t address;

static void read_it(void)
{
	invlpg(address);
	load(address);
}

/* How often the level N was read is digit N of each number, from the right and from 1. */
static void expect_loads(const struct tlb_stats *stats, unsigned int local, unsigned int remote, int line)
{
	for (unsigned int level = 1; level <= 5; level++) {
		uint64_t is_local = stats->at[LOADS_LOCAL + level - 1], is_remote = stats->at[LOADS_REMOTE + level - 1];

		CHECK(is_local == local % 10 && is_remote == remote % 10,
		      "line %d: level %u: %lu local and %lu remote reads instead of %u and %u", line, level, is_local,
		      is_remote, local % 10, remote % 10);
		local /= 10;
		remote /= 10;
	}
	for (unsigned int i = SPECULATIVE_LOCAL; i < LOWER_LOCAL; i++)
		CHECK(!stats->at[i], "line %d: counter %u moved by %lu", line, i, stats->at[i]);
	for (unsigned int i = 0; i < 2; i++) {
		uint64_t all = stats->at[LOADS_LOCAL + 5 * i], wanted = address >> 63 ? 0 : all;

		CHECK(stats->at[LOWER_LOCAL + i] == wanted, "line %d: %lu of %lu PTEs are of the lower half", line,
		      stats->at[LOWER_LOCAL + i], all);
	}
}

/* Reads the page at `to` through tables there, on this CPU. */
static void expect_way_to(uint64_t to, const struct way *way, unsigned int local, unsigned int remote, int line)
{
	struct tlb_stats stats;

	address = to;
	way_make(way, address, 1, frame_alloc(OLD) | P | PAGE_FLAGS);
	cr3_write(way->at[4]);
	stats = oracle_measure(read_it);
	cr3_write((uint64_t)boot_pml4);
	expect_loads(&stats, local, remote, line);
}
#define EXPECT_WAY_TO(to, way, local, remote) expect_way_to(to, &(way), local, remote, __LINE__)

static void expect_way(const struct way *way, unsigned int local, unsigned int remote, int line)
{
	expect_way_to(window(PAGE_1G * 3 + PAGE_2M * 5 + PAGE_BYTES * 7), way, local, remote, line);
}
#define EXPECT_WAY(way, local, remote) expect_way(&(way), local, remote, __LINE__)

RULE(1701, "NODES lists the vCPUs and the RAM of each node as the machine was given them", DOC, ORACLE | NODES,
     "nodes-zero")
{
	static const struct tlb_node ram[] = {
		{ NODE_OF_RAM, 0, 0, NODE_0_BYTES, 0 },
		{ NODE_OF_RAM, 1, NODE_0_BYTES, HOLE_BEGIN - NODE_0_BYTES, 0 },
		{ NODE_OF_RAM, 1, HOLE_END, NODE_0_BYTES + NODE_1_BYTES - HOLE_BEGIN, 0 },
		{ NODE_OF_RAM, 2, RAM_END - NODE_2_BYTES, NODE_2_BYTES, 0 },
	};
	static struct tlb_node nodes[CPUS_MAX + 4];
	struct tlb_request *request = oracle_request(ORACLE_NODES);

	request->buffer = (uint64_t)nodes;
	request->capacity = CPUS_MAX + 4;
	oracle_ask(request);
	CHECK(request->count == cpu_count + 4, "%u elements", request->count);
	for (unsigned int i = 0; i < request->count; i++) {
		struct tlb_node cpu = { NODE_OF_CPU, node_of_cpu(i), i, 1, 0 };
		const struct tlb_node *node = i < cpu_count ? &cpu : &ram[i - cpu_count];

		CHECK(nodes[i].kind == node->kind && nodes[i].node == node->node && nodes[i].first == node->first &&
		      nodes[i].count == node->count && !nodes[i].reserved, "element %u: kind %u, node %u, %lx and %lx", i,
		      nodes[i].kind, nodes[i].node, nodes[i].first, nodes[i].count);
	}
}

RULE(1702, "with one node NODES is empty, the counters by node are 0, and no feature tells of them", DOC, ORACLE | ONE_NODE,
     "nodes-always")
{
	struct tlb_request *request = oracle_request(ORACLE_NODES);
	struct tlb_stats stats;

	oracle_ask(request);
	CHECK(!request->count, "%u elements", request->count);
	request = oracle_request(ORACLE_STATS);
	oracle_ask(request);
	CHECK(request->count == STATS_ALL, "%u counters", request->count);
	stats = oracle_stats(ALL_CPUS);
	for (unsigned int i = STATS; i < STATS_NODES; i++)
		CHECK(!stats.at[i], "counter %u is %lu", i, stats.at[i]);
	CHECK(!(cpuid(0x40000101, 0).c >> 6 & 1), "the feature is announced");
}

RULE(1703, "a table on the vCPU's node is read locally, one on another remotely, each at its level", DOC,
     ORACLE | NODES | QUIET | LARGE, "loads-one-level")
{
	for (unsigned int level = 1, digit = 1; level <= 4; level++, digit *= 10) {
		struct way way = way_near();

		way.at[level] = table_at(PLACE_1 + level * PAGE_BYTES);
		if (level == 4)
			memory_copy((void *)way.at[4], (void *)space(), PAGE_BYTES);
		EXPECT_WAY(way, 1111 - digit, digit);
	}
}

RULE(1704, "a walk may read all or nothing from another node", DOC, ORACLE | NODES | QUIET | LARGE, "loads-all-local")
{
	struct way near = way_near(), far;

	for (unsigned int level = 1; level <= 4; level++)
		far.at[level] = table_at(PLACE_2 + level * PAGE_BYTES);
	memory_copy((void *)far.at[4], (void *)space(), PAGE_BYTES);
	EXPECT_WAY(near, 1111, 0);
	EXPECT_WAY(far, 0, 1111);
}

static void read_elsewhere(void *argument)
{
	struct way *way = argument;

	EXPECT_WAY(*way, 1, 1110);
}

RULE(1705, "the node of the vCPU that reads decides: local for one, remote for another", DOC,
     ORACLE | NODES | CPUS2 | QUIET | LARGE, "loads-node-zero")
{
	struct way way = way_near();

	way.at[1] = table_at(PLACE_1);
	EXPECT_WAY(way, 1110, 1);
	on_cpu(1, read_elsewhere, &way);
}

RULE(1706, "the first and the last page of each node's memory, on both sides of the hole", DOC,
     ORACLE | NODES | QUIET | LARGE, "nodes-ignore-hole")
{
	static const struct {
		uint64_t frame;
		bool remote;
	} edges[] = {
		{ NODE_0_BYTES - PAGE_BYTES, false }, { NODE_0_BYTES, true }, { HOLE_BEGIN - PAGE_BYTES, true },
		{ HOLE_END, true }, { RAM_END - NODE_2_BYTES - PAGE_BYTES, true }, { RAM_END - NODE_2_BYTES, true },
		{ RAM_END - PAGE_BYTES, true }, { PLACE_1_HIGH, true },
	};

	for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
		struct way way = way_near();

		way.at[1] = table_at(edges[i].frame);
		EXPECT_WAY(way, edges[i].remote ? 1110 : 1111, edges[i].remote);
	}
}

static void edge_job(void *argument)
{
	static const uint64_t edges[] = { NODE_0_BYTES, HOLE_BEGIN - PAGE_BYTES, HOLE_END,
					  RAM_END - NODE_2_BYTES - PAGE_BYTES };

	(void)argument;
	for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
		struct way way = way_near();

		way.at[1] = table_at(edges[i]);
		EXPECT_WAY(way, 1, 1110);
		way.at[1] = table_at(i < 2 ? NODE_0_BYTES - PAGE_BYTES : RAM_END - NODE_2_BYTES);
		EXPECT_WAY(way, 0, 1111);
	}
}

RULE(1707, "a node that the hole splits is one node", DOC, ORACLE | NODES | CPUS2 | QUIET | LARGE, "nodes-ignore-hole")
{
	on_cpu(1, edge_job, NULL);
}

static void read_both(void)
{
	invlpg(address + PAGE_BYTES);
	invlpg(address);
	load(address);
	load(address + PAGE_BYTES);
}

RULE(1708, "what a paging-structure entry spares is not counted", DOC, ORACLE | NODES | STRUCTURES | QUIET | LARGE,
     "loads-count-spared")
{
	struct way way = way_near();
	struct tlb_stats stats;

	address = window(PAGE_1G * 3 + PAGE_2M * 5);
	way.at[2] = table_at(PLACE_1);
	way_make(&way, address, 1, frame_alloc(OLD) | P | PAGE_FLAGS);
	way_make(&way, address + PAGE_BYTES, 1, frame_alloc(OLD) | P | PAGE_FLAGS);
	cr3_write(way.at[4]);
	stats = oracle_measure(read_both);
	expect_loads(&stats, 1102, 10, __LINE__);
}

RULE(1709, "an entry that maps a large page counts at its own level", DOC, ORACLE | NODES | QUIET | LARGE,
     "loads-one-level")
{
	struct way way = way_near();
	struct tlb_stats stats;

	way.at[2] = table_at(PLACE_1);
	way.at[3] = table_at(PLACE_2);
	address = window(PAGE_1G * 3 + PAGE_2M * 5);
	way_make(&way, address, 2, frame_alloc_2m(OLD) | P | PS | PAGE_FLAGS);
	cr3_write(way.at[4]);
	stats = oracle_measure(read_it);
	expect_loads(&stats, 1000, 110, __LINE__);
	address = window(PAGE_1G * 8);
	way_make(&way, address, 3, PAGE_1G | P | PS | PAGE_FLAGS);
	stats = oracle_measure(read_it);
	expect_loads(&stats, 1000, 100, __LINE__);
}

static uint64_t loads(const struct tlb_stats *stats, unsigned int first)
{
	uint64_t sum = 0;

	for (unsigned int i = first; i < first + 5; i++)
		sum += stats->at[i];
	return sum;
}

static volatile uint64_t *leaf;

static void walk_in_all_ways(void)
{
	uint64_t value;

	*leaf &= ~(A | D);
	/* Absent at three levels; a walk that only sets the dirty bit. */
	load_try(window(PAGE_1G * 100), &value);
	load_try(window(PAGE_1G * 3 + PAGE_2M * 100), &value);
	load_try(address + PAGE_BYTES * 2, &value);
	read_it();
	store(address, 1);
	user_read(address, &value);
}

RULE(1710, "all reads together are walk_loads, those of walks that fault among them", DOC,
     ORACLE | NODES | STRUCTURES | QUIET | LARGE, "loads-count-spared")
{
	struct way way = way_near();
	struct tlb_stats stats;

	address = window(PAGE_1G * 3 + PAGE_2M * 5);
	way.at[3] = table_at(PLACE_1);
	way.at[1] = table_at(PLACE_2);
	leaf = way_make(&way, address, 1, frame_alloc(OLD) | P | W | U);
	cr3_write(way.at[4]);
	stats = oracle_measure(walk_in_all_ways);
	CHECK(stats.at[WALK_LOADS] >= 8, "%lu reads", stats.at[WALK_LOADS]);
	CHECK(loads(&stats, LOADS_LOCAL) && loads(&stats, LOADS_REMOTE), "local or remote ones alone");
	CHECK(loads(&stats, LOADS_LOCAL) + loads(&stats, LOADS_REMOTE) == stats.at[WALK_LOADS],
	      "%lu local and %lu remote, of %lu", loads(&stats, LOADS_LOCAL), loads(&stats, LOADS_REMOTE),
	      stats.at[WALK_LOADS]);
}

RULE(1711, "reads of speculative walks have counters of their own, and all four together are walk_loads", DOC,
     ORACLE | NODES | SPECULATION, "loads-mix-speculative")
{
	struct way way = way_near();
	struct tlb_stats before, after;
	uint64_t begin = now_us();

	address = window(PAGE_1G * 3 + PAGE_2M * 5);
	way.at[2] = table_at(PLACE_1);
	for (unsigned int i = 0; i < 512; i++)
		way_make(&way, address + i * PAGE_BYTES, 1, frame_alloc(OLD) | P | PAGE_FLAGS);
	cr3_write(way.at[4]);
	before = oracle_stats(this_cpu()->id);
	do {
		uint64_t sum = 0;

		invlpg(address);
		load(address);
		after = oracle_stats(this_cpu()->id);
		for (unsigned int i = 0; i < STATS_NODES; i++)
			after.at[i] -= before.at[i];
		for (unsigned int i = LOADS_LOCAL; i < LOWER_LOCAL; i++)
			sum += after.at[i];
		CHECK(sum == after.at[WALK_LOADS], "%lu instead of %lu", sum, after.at[WALK_LOADS]);
		for (unsigned int i = 0; i < 2; i++)
			CHECK(after.at[LOWER_LOCAL + i] == after.at[LOADS_LOCAL + 5 * i] + after.at[SPECULATIVE_LOCAL + 5 * i],
			      "%lu PTEs of the lower half", after.at[LOWER_LOCAL + i]);
		CHECK(after.at[SPECULATIVE_WALKS] < 50000 && now_us() - begin < 20000000, "they do not move");
	} while (!loads(&after, SPECULATIVE_LOCAL) || !loads(&after, SPECULATIVE_REMOTE) || !loads(&after, LOADS_REMOTE));
}

RULE(1712, "five levels: the fifth counts, too", DOC, ORACLE | NODES | LA57 | QUIET | LARGE, "loads-one-level")
{
	uint64_t root5 = table_at(PLACE_1);
	struct tlb_stats stats;

	*(uint64_t *)root5 = space() | TABLE_FLAGS;
	address = (5ul << 48) + PAGE_1G + PAGE_2M * 2;
	*entry5(root5, address, 1) = frame_alloc(OLD) | P | PAGE_FLAGS;
	CHECK(legacy_trip(CR4_BASE | CR4_LA57, (uint32_t)root5) == 0, "five-level paging cannot be entered");
	stats = oracle_measure(read_it);
	expect_loads(&stats, 1111, 10000, __LINE__);
}

RULE(1713, "PTEs of addresses with bit 63 set are not among those of the lower half", DOC,
     ORACLE | NODES | QUIET | LARGE, "loads-lower-all")
{
	struct way near = way_near(), far = way_near();

	far.at[1] = table_at(PLACE_1);
	EXPECT_WAY_TO(0xffff800000000000ul + PAGE_2M * 5, near, 1111, 0);
	EXPECT_WAY_TO(0xffff800000000000ul + PAGE_2M * 5, far, 1110, 1);
	EXPECT_WAY(far, 1110, 1);
}
