// SPDX-License-Identifier: GPL-2.0-only
/*
 * Up to 64 roots, and who uses another than its node's. Of two roots, `mine` is that of the vCPU's node, and `other` is
 * no node's, unless a rule says so.
 */
#include "nodes.h"
#include "oracle.h"
#include "roots.h"

#define PAGE_FLAGS (W | U | A | D)
#define DOC "machine-oracle.md"
#define LOOK_ALL (LOOK_TLB | LOOK_STRUCTURES | LOOK_CR3)

/* The roots of the nodes; one for each CPU that asks. */
static uint64_t lists[CPUS_MAX][ROOTS_MAX];
static struct tlb_holder found[64];

static uint64_t *list(void)
{
	return lists[this_cpu()->id];
}

static struct two_roots it;

static void roots_make(void)
{
	it = two_roots();
	for (unsigned int i = 0; i < ROOTS_MAX; i++)
		list()[i] = 0;
}

/* ROOTS about one page, of the list's first `count` elements. */
static struct tlb_request *roots_request(uint32_t count, uint32_t flags, uint64_t address)
{
	struct tlb_request *request = oracle_request(ORACLE_ROOTS);

	request->roots = (uint64_t)list();
	request->nroots = count;
	request->flags = flags;
	request->linear = address;
	request->pages = 1;
	request->buffer = (uint64_t)found;
	request->capacity = sizeof(found) / sizeof(found[0]);
	return request;
}

/* Return: how many elements for this CPU. All nodes have `mine`; `other` is a root, too. */
static uint32_t foreign(uint32_t flags, uint64_t address)
{
	struct tlb_request *request = roots_request(ROOTS_MAX, flags, address);

	for (unsigned int i = 0; i < ROOTS_MAX; i++)
		list()[i] = it.mine;
	request->root[1] = it.other;
	request->apic_id = this_cpu()->id;
	oracle_ask(request);
	CHECK(!request->holders[1] && !request->holders[2] && !request->holders[3], "a holder of more than 64");
	return request->count;
}

#define EXPECT_FOREIGN(expected, flags, address) do { \
	uint32_t count_ = foreign(flags, address); \
	CHECK(count_ == (expected), "line %d: %u elements instead of %u", __LINE__, count_, (unsigned int)(expected)); \
} while (0)

RULE(1801, "QUERY takes 64 roots: each of them counts, and no other", DOC " QUERY", ORACLE | QUIET, "oracle-four-roots")
{
	struct tlb_request *request = oracle_request(ORACLE_QUERY);

	roots_make();
	cr3_write(it.mine);
	load(it.page);
	for (unsigned int i = 0; i < ROOTS_MAX; i++) {
		for (unsigned int j = 0; j < ROOTS_MAX; j++)
			list()[j] = j == i ? it.mine : it.other + j * PAGE_BYTES;
		for (uint32_t count = 1; count <= ROOTS_MAX; count++) {
			request = oracle_request(ORACLE_QUERY);
			request->linear = it.page;
			request->roots = (uint64_t)list();
			request->nroots = count;
			oracle_ask(request);
			CHECK(request->holders[0] == (count > i), "root %u of %u: holders %lx", i, count,
			      request->holders[0]);
		}
	}
}

RULE(1802, "QUERY: the four roots and the array count together; all 0: any root", DOC " QUERY", ORACLE | QUIET,
     "oracle-four-roots")
{
	static const struct {
		bool root, array, is_held;
	} cases[] = { { true, false, true }, { false, true, true }, { true, true, true }, { false, false, false } };
	struct tlb_request *request;

	roots_make();
	cr3_write(it.mine);
	load(it.page);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		request = oracle_request(ORACLE_QUERY);
		request->linear = it.page;
		request->root[3] = cases[i].root ? it.mine : 0;
		list()[1] = cases[i].array ? it.mine | 0xfff : it.other;
		request->roots = (uint64_t)list();
		request->nroots = 2;
		oracle_ask(request);
		CHECK(request->holders[0] == cases[i].is_held, "case %lu: holders %lx", i, request->holders[0]);
	}
	request->nroots = 1;
	oracle_ask(request);
	CHECK(request->holders[0] == 1, "no root: holders %lx", request->holders[0]);
}

static struct tlb_request *valid_request(void)
{
	list()[0] = it.mine;
	return roots_request(ROOTS_MAX, LOOK_ALL, it.page);
}

RULE(1803, "status 2 and 3: what ROOTS and QUERY refuse", DOC " The request", ORACLE, "oracle-accepts-requests")
{
	roots_make();
#define EXPECT(expected, change) EXPECT_STATUS_OF(expected, valid_request(), change)
	EXPECT(ANSWERED, );
	EXPECT(OUT_OF_RANGE, request->flags = 0);
	EXPECT(OUT_OF_RANGE, request->flags = LOOK_PCID);
	EXPECT(OUT_OF_RANGE, request->flags |= 16);
	EXPECT(OUT_OF_RANGE, request->pcid = 1);
	EXPECT(ANSWERED, request->flags |= LOOK_PCID; request->pcid = 0xfff);
	EXPECT(OUT_OF_RANGE, request->flags |= LOOK_PCID; request->pcid = 0x1000);
	EXPECT(OUT_OF_RANGE, request->nroots = 0);
	EXPECT(OUT_OF_RANGE, request->roots = 0);
	EXPECT(OUT_OF_RANGE, request->nroots = ROOTS_MAX + 1);
	EXPECT(OUT_OF_RANGE, request->nroots = ~0u);
	/* No root at all: nothing could be found. */
	EXPECT(OUT_OF_RANGE, list()[0] = 0);
	EXPECT(ANSWERED, list()[0] = 0; request->root[3] = it.mine);
	EXPECT(ANSWERED, list()[0] = 0; request->flags |= LOOK_PCID);
	EXPECT(OUT_OF_RANGE, request->pages = 0);
	EXPECT(ANSWERED, request->pages = 0; request->linear = 0);
	EXPECT(OUT_OF_RANGE, request->pages = 513);
	EXPECT(OUT_OF_RANGE, request->linear = 1ul << 63);
	EXPECT(BAD_BUFFER, request->roots += 4);
	EXPECT(BAD_BUFFER, request->roots = 1ul << 50);
	EXPECT(BAD_BUFFER, request->roots = ~7ul);
	EXPECT(BAD_BUFFER, request->roots = 0xfee00000);
	EXPECT(BAD_BUFFER, request->buffer += 4);
	EXPECT(NO_SUCH_CPU, request->apic_id = CPUS_MAX + 1);
	/* QUERY has neither. */
	EXPECT(ANSWERED, request->op = ORACLE_QUERY; request->flags = LOOK_TLB);
	EXPECT(OUT_OF_RANGE, request->op = ORACLE_QUERY);
	EXPECT(OUT_OF_RANGE, request->op = ORACLE_QUERY; request->flags = LOOK_TLB | LOOK_PCID);
	EXPECT(OUT_OF_RANGE, request->op = ORACLE_QUERY; request->flags = LOOK_TLB; request->pages = 0; request->linear = 0);
	EXPECT(OUT_OF_RANGE, request->op = ORACLE_QUERY; request->flags = LOOK_TLB; request->nroots = 0);
	EXPECT(BAD_BUFFER, request->op = ORACLE_QUERY; request->flags = LOOK_TLB; request->roots += 4);
#undef EXPECT
}

RULE(1806, "ROOTS finds nothing of what came through the root of the vCPU's node", DOC " ROOTS", ORACLE | QUIET,
     "roots-accuse-own")
{
	roots_make();
	cr3_write(it.mine);
	load(it.page);
	EXPECT_FOREIGN(0, LOOK_ALL, it.page);
}

RULE(1807, "ROOTS finds a translation that came through another root, until it is invalidated", DOC " ROOTS",
     ORACLE | PCID | QUIET, "roots-forget-root")
{
	roots_make();
	load_flush(it.other, 1);
	load(it.page);
	load_keep(it.mine, 1);
	EXPECT_FOREIGN(1, LOOK_TLB, it.page);
	CHECK(found[0].apic_id == this_cpu()->id && found[0].pcid == 1 && !found[0].kind && found[0].size == 12 &&
	      found[0].linear == it.page && found[0].root == it.other && found[0].through == it.other,
	      "kind %u, size %u, linear %lx, through %lx", found[0].kind, found[0].size, found[0].linear,
	      found[0].through);
	invlpg(it.page);
	EXPECT_FOREIGN(0, LOOK_TLB, it.page);
	load(it.page);
	EXPECT_FOREIGN(0, LOOK_TLB, it.page);
}

RULE(1808, "ROOTS finds paging-structure entries, and what was filled from them", DOC " ROOTS",
     ORACLE | PCID | STRUCTURES | QUIET, "oracle-no-structures")
{
	roots_make();
	load_flush(it.other, 1);
	load(it.page);
	load_keep(it.mine, 1);
	EXPECT_FOREIGN(3, LOOK_STRUCTURES, it.page);
	EXPECT_FOREIGN(0, LOOK_TLB, it.beside);
	load(it.beside);
	EXPECT_FOREIGN(1, LOOK_TLB, it.beside);
	EXPECT_FOREIGN(4, LOOK_TLB | LOOK_STRUCTURES, it.beside);
	/* All paging-structure entries, and one translation. */
	invlpg(it.beside);
	EXPECT_FOREIGN(0, LOOK_TLB | LOOK_STRUCTURES, it.beside);
	EXPECT_FOREIGN(1, LOOK_TLB | LOOK_STRUCTURES, it.page);
}

RULE(1809, "ROOTS finds CR3, wherever the pages are", DOC " ROOTS", ORACLE | PCID | QUIET, "roots-ignore-cr3")
{
	roots_make();
	load_flush(it.mine, 1);
	EXPECT_FOREIGN(0, LOOK_CR3, it.page);
	load_flush(it.other, 0x123);
	EXPECT_FOREIGN(1, LOOK_CR3, it.page);
	CHECK(found[0].apic_id == this_cpu()->id && found[0].pcid == 0x123 && found[0].kind == KIND_CR3 &&
	      found[0].size == 48 && !found[0].rights && !found[0].state && !found[0].linear &&
	      found[0].physical == it.other && found[0].root == it.other && found[0].through == it.other,
	      "kind %u, size %u, PCID %x, physical %lx", found[0].kind, found[0].size, found[0].pcid, found[0].physical);
	load_keep(it.mine, 0x123);
	EXPECT_FOREIGN(0, LOOK_CR3, it.page);
	load_keep(it.other, 0x123);
	EXPECT_FOREIGN(1, LOOK_CR3, it.page);
	load_flush((uint64_t)boot_pml4, 2);
	EXPECT_FOREIGN(0, LOOK_CR3, it.page);
}

RULE(1810, "ROOTS finds what other PCIDs keep that are not loaded", DOC " ROOTS", ORACLE | PCID | QUIET,
     "roots-current-pcid")
{
	roots_make();
	load_flush(it.other, 1);
	load(it.page);
	load_flush(it.mine, 2);
	EXPECT_FOREIGN(1, LOOK_TLB, it.page);
	CHECK(found[0].pcid == 1, "PCID %x", found[0].pcid);
	load_flush(it.mine, 1);
	EXPECT_FOREIGN(0, LOOK_TLB, it.page);
}

RULE(1811, "ROOTS with a PCID: that one alone, and all of it, whichever root it came through", DOC " ROOTS",
     ORACLE | PCID | QUIET, "roots-ignore-pcid")
{
	uint64_t third = space();
	struct tlb_request *request;

	roots_make();
	page_make(third, it.page, PAGE_FLAGS);
	load_flush(third, 7);
	load(it.page);
	load_flush(it.other, 8);
	load(it.page);
	load_flush(it.mine, 9);
	load(it.page);
	for (uint32_t pcid = 6; pcid < 10; pcid++) {
		request = roots_request(ROOTS_MAX, LOOK_TLB | LOOK_CR3 | LOOK_PCID, it.page);
		request->pcid = pcid;
		for (unsigned int i = 0; i < ROOTS_MAX; i++)
			list()[i] = it.mine;
		oracle_ask(request);
		CHECK(request->count == (pcid == 7 || pcid == 8), "PCID %u: %u elements", pcid, request->count);
	}
	load_keep(third, 9);
	request->pcid = 9;
	oracle_ask(request);
	CHECK(request->count == 1 && found[0].kind == KIND_CR3, "CR3 with the PCID: %u elements", request->count);
	request->pcid = 8;
	oracle_ask(request);
	CHECK(request->count == 1 && found[0].kind == 0, "CR3 with another PCID: %u elements", request->count);
}

RULE(1812, "a PCID that was loaded with one of the roots belongs to the address space, whatever is loaded later",
     DOC " ROOTS", ORACLE | PCID | QUIET, "roots-forget-owner")
{
	uint64_t stranger = space();

	roots_make();
	page_make(stranger, it.page, PAGE_FLAGS);
	load_flush(it.mine, 1);
	load_keep(stranger, 1);
	load(it.page);
	EXPECT_FOREIGN(1, LOOK_TLB, it.page);
	CHECK(found[0].through == stranger, "through %lx", found[0].through);
	load_flush(stranger, 1);
	load(it.page);
	EXPECT_FOREIGN(0, LOOK_ALL, it.page);
}

RULE(1813, "ROOTS accuses no other address space", DOC " ROOTS", ORACLE | PCID | QUIET, "roots-accuse-others")
{
	uint64_t stranger = space();

	roots_make();
	page_make(stranger, it.page, PAGE_FLAGS);
	load_flush(stranger, 1);
	load(it.page);
	load_flush(it.mine, 2);
	load(it.page);
	EXPECT_FOREIGN(0, LOOK_ALL, it.page);
}

RULE(1814, "ROOTS leaves global translations out", DOC " ROOTS", ORACLE | PCID | QUIET, "roots-accuse-global")
{
	roots_make();
	*entry(it.other, it.page, 1) |= G;
	load_flush(it.other, 1);
	load(it.page);
	load_flush(it.mine, 2);
	CHECK(oracle_holders(it.mine, it.page, 1, LOOK_TLB) == 1, "there is none");
	EXPECT_FOREIGN(0, LOOK_TLB, it.page);
}

static void use(void *argument)
{
	cr3_write((uint64_t)argument);
	load(it.page);
}

static uint64_t accused(uint32_t count)
{
	struct tlb_request *request = roots_request(count, LOOK_TLB | LOOK_CR3, it.page);

	oracle_ask(request);
	return request->holders[0];
}

RULE(1815, "the root of the vCPU's own node is the one that counts", DOC " ROOTS", ORACLE | NODES | CPUS2 | QUIET,
     "roots-node-zero")
{
	uint64_t holders;

	roots_make();
	list()[node_of_cpu(0)] = it.mine;
	list()[node_of_cpu(1)] = it.other;
	use((void *)it.mine);
	on_cpu(1, use, (void *)it.other);
	holders = accused(NODE_COUNT);
	CHECK(!holders, "each with its own: holders %lx", holders);
	use((void *)it.other);
	holders = accused(NODE_COUNT);
	CHECK(holders == 1, "one with the other's: holders %lx", holders);
	on_cpu(1, use, (void *)it.mine);
	holders = accused(NODE_COUNT);
	CHECK(holders == 3, "both with the other's: holders %lx", holders);
	use((void *)it.mine);
	holders = accused(NODE_COUNT);
	CHECK(holders == 2, "vCPU 1 with the other's: holders %lx", holders);
	/* Both nodes may have one root. */
	list()[node_of_cpu(1)] = it.mine;
	holders = accused(NODE_COUNT);
	CHECK(!holders, "with one root for both: holders %lx", holders);
	on_cpu(1, settle_job, NULL);
}

RULE(1816, "a node whose root is 0 or missing has none: its vCPUs may hold nothing", DOC " ROOTS",
     ORACLE | NODES | CPUS2 | QUIET, "roots-zero-allows")
{
	uint64_t holders;

	roots_make();
	list()[node_of_cpu(0)] = it.mine;
	use((void *)it.mine);
	holders = accused(NODE_COUNT);
	CHECK(!holders, "nobody is there: holders %lx", holders);
	on_cpu(1, use, (void *)it.mine);
	holders = accused(NODE_COUNT);
	CHECK(holders == 2, "root 0: holders %lx", holders);
	holders = accused(1);
	CHECK(holders == 2, "no root: holders %lx", holders);
	on_cpu(1, settle_job, NULL);
}

RULE(1817, "without nodes all vCPUs are of node 0", DOC " ROOTS", ORACLE | ONE_NODE | CPUS2 | QUIET, "roots-accuse-own")
{
	uint64_t holders;

	roots_make();
	list()[0] = it.mine;
	list()[1] = it.other;
	use((void *)it.mine);
	on_cpu(1, use, (void *)it.mine);
	holders = accused(2);
	CHECK(!holders, "node 0's root: holders %lx", holders);
	on_cpu(1, use, (void *)it.other);
	holders = accused(2);
	CHECK(holders == 2, "node 1's root: holders %lx", holders);
	on_cpu(1, settle_job, NULL);
}

/* `pages` from `address` on, or everything. */
static uint32_t foreign_range(uint64_t address, uint64_t pages, uint32_t capacity)
{
	struct tlb_request *request = roots_request(1, LOOK_TLB | LOOK_STRUCTURES, address);

	list()[0] = it.mine;
	request->root[0] = it.other;
	request->pages = pages;
	request->capacity = capacity;
	request->apic_id = this_cpu()->id;
	oracle_ask(request);
	return request->count;
}

RULE(1818, "ROOTS looks at the pages it is given, or at everything", DOC " ROOTS",
     ORACLE | PCID | ONE_NODE | QUIET | LARGE, "roots-ignore-range")
{
	uint32_t tables = option("psc") ? 3 : 0, count, kept = 0;
	struct tlb_holder last;

	roots_make();
	*entry(it.other, window(PAGE_1G * 3), 3) = PAGE_1G | P | PS | PAGE_FLAGS;
	load_flush(it.other, 1);
	load(it.page);
	load(it.beside);
	load(it.below);
	load(window(PAGE_1G * 3));
	load_flush(it.mine, 2);
	count = foreign_range(it.page, 1, 64);
	CHECK(count == tables + 1, "one page: %u", count);
	count = foreign_range(it.page, 2, 64);
	CHECK(count == tables + 2, "two pages: %u", count);
	count = foreign_range(it.beside + PAGE_BYTES, 1, 64);
	CHECK(count == tables, "a page that nobody has used: %u", count);
	count = foreign_range(window(PAGE_1G * 3 + PAGE_2M * 9), 1, 64);
	CHECK(count >= 1 && found[0].size == 30, "part of 1 GiB: %u", count);
	/* The kernel's, too. */
	count = foreign_range(0, 0, 64);
	CHECK(count > 4 && count <= 64, "everything: %u", count);
	for (unsigned int i = 0; i < count; i++) {
		kept += found[i].linear >= window(0) && found[i].linear < window(1ul << 39) && !found[i].kind;
		CHECK(found[i].through == it.other && found[i].pcid == 1, "element %u: through %lx, PCID %x", i,
		      found[i].through, found[i].pcid);
	}
	CHECK(kept == 4, "everything: %u of the four translations", kept);
	last = found[1];
	found[1].linear = 99;
	CHECK(foreign_range(0, 0, 1) == count && found[1].linear == 99, "one element overruns its buffer");
	found[1] = last;
	load_flush(it.mine, 1);
	count = foreign_range(0, 0, 64);
	CHECK(!count, "everything after a flush: %u", count);
}

RULE(1819, "ROOTS finds nothing after an invalidation, whichever it was", DOC " ROOTS", ORACLE | PCID | INVPCID | QUIET,
     "oracle-reports-stale")
{
	roots_make();
	for (unsigned int how = 0; how < 7; how++) {
		load_flush(it.other, 1);
		load(it.page);
		load_keep(it.mine, 1);
		CHECK(foreign(LOOK_TLB, it.page) == 1, "way %u: nothing before", how);
		switch (how) {
		case 0: invlpg(it.page); break;
		case 1: load_flush(it.mine, 1); break;
		case 2: invpcid(INVPCID_ADDRESS, 1, it.page); break;
		case 3: invpcid(INVPCID_CONTEXT, 1, 0); break;
		case 4: invpcid(INVPCID_ALL_GLOBAL, 0, 0); break;
		case 5: invpcid(INVPCID_ALL, 0, 0); break;
		case 6: pge_toggle(); break;
		}
		CHECK(!foreign(LOOK_TLB, it.page), "way %u: something after", how);
	}
}

RULE(1820, "ROOTS about one vCPU leaves the others out", DOC " ROOTS", ORACLE | CPUS2 | QUIET, "oracle-ignores-apic-id")
{
	struct tlb_request *request;

	roots_make();
	list()[63] = it.mine;
	use((void *)it.mine);
	on_cpu(1, use, (void *)it.mine);
	request = roots_request(ROOTS_MAX, LOOK_TLB | LOOK_CR3, it.page);
	request->apic_id = 1;
	oracle_ask(request);
	CHECK(request->count == 2 && request->holders[0] == 2, "%u elements, holders %lx", request->count,
	      request->holders[0]);
	request->apic_id = ALL_CPUS;
	oracle_ask(request);
	CHECK(request->count == 4 && request->holders[0] == 3, "%u elements, holders %lx", request->count,
	      request->holders[0]);
	on_cpu(1, settle_job, NULL);
}

RULE(1823, "five levels: CR3 has the size 57", DOC " ROOTS", ORACLE | LA57 | QUIET, "roots-ignore-cr3")
{
	uint64_t root5 = page_alloc();

	roots_make();
	*(uint64_t *)root5 = it.mine | P | W | U | A;
	CHECK(legacy_trip(CR4_BASE | CR4_LA57, (uint32_t)root5) == 0, "five-level paging cannot be entered");
	it.other = root5;
	EXPECT_FOREIGN(1, LOOK_CR3, it.page);
	CHECK(found[0].kind == KIND_CR3 && found[0].size == 57 && found[0].physical == root5, "kind %u, size %u",
	      found[0].kind, found[0].size);
}

static void trip_job(void *argument)
{
	legacy_trip(CR4_BASE, (uint32_t)(uint64_t)argument);
}

/* Return: how many elements for CPU 1, whose CR3 is no node's root; of the PCID 0, or of any. */
static uint32_t cr3_elements(bool by_pcid)
{
	struct tlb_request *request = roots_request(1, LOOK_CR3 | (by_pcid ? LOOK_PCID : 0), it.page);

	request->root[0] = it.other;
	request->apic_id = 1;
	oracle_ask(request);
	return request->count;
}

RULE(1828, "ROOTS leaves CR3 out while the vCPU is not in long mode", DOC " ROOTS", ORACLE | CPUS2 | QUIET,
     "roots-cr3-always")
{
	uint32_t before, during, by_pcid, after;
	uint64_t spins = 0;

	roots_make();
	on_cpu(1, use, (void *)it.other);
	before = cr3_elements(false);
	trip_hold = 1;
	on_cpu_begin(1, trip_job, (void *)it.other);
	while (!trip_held && spins++ < 100000000)
		pause();
	during = cr3_elements(false);
	by_pcid = cr3_elements(true);
	trip_hold = 0;
	on_cpu_end(1);
	after = cr3_elements(false);
	on_cpu(1, settle_job, NULL);
	CHECK(spins < 100000000, "CPU 1 does not leave long mode");
	CHECK(before == 1 && !during && !by_pcid && after == 1, "%u elements before, %u and %u meanwhile, %u after", before,
	      during, by_pcid, after);
}
