// SPDX-License-Identifier: GPL-2.0-only
/* The oracle: what it answers, and what it refuses. */
#include "rules.h"

#define DOC "machine-powerpc.md"

static struct tlb_element elements[1100] __attribute__((aligned(8)));
static uint32_t vsids[1025];

RULE(801, "SPR 1014 tells that the oracle is there", DOC, ORACLE, "oracle-nameless")
{
	uint32_t name = oracle_name(0);

	CHECK(name == ORACLE_NAME, "%x", name);
}

RULE(802, "without the oracle, reading SPR 1014 changes nothing", DOC, NO_ORACLE, "oracle-always")
{
	uint32_t name = oracle_name(0x12345678);

	CHECK(name == 0x12345678, "%x", name);
}

RULE(803, "SPR 1014 is privileged", DOC, ORACLE, "oracle-for-users")
{
	uint32_t vector = stub_try(stub_oracle, MSR_PR, 0, 0);

	CHECK(vector == VECTOR_PROGRAM && journey.srr1 & 0x40000, "exception %x, SRR1 %x", vector, journey.srr1);
}

RULE(804, "QUERY finds an entry for code, one for data, and a PTE, each where it is", DOC, ORACLE, "oracle-blind-code")
{
	struct page page = page_make(3, 0x123, BITS);

	for (uint32_t what = 0; what < 8; what++) {
		for (uint32_t where = 1; where < 8; where++) {
			tlbie(page.address);
			page.pte->v |= PTE_V;
			if (what & IN_CODE_TLB)
				EXPECT_CODE(page, OLD);
			if (what & IN_DATA_TLB)
				EXPECT_OLD(page);
			if (!(what & IN_HASH_TABLE))
				page.pte->v &= ~PTE_V;
			CHECK(oracle_where(page.vsid, page.index, where) == (what & where), "%x of %x: %x", where, what,
			      oracle_where(page.vsid, page.index, where));
		}
	}
}

static void element_is(const struct tlb_element *element, uint32_t where, const struct page *page, uint32_t slot,
		       uint32_t second, uint32_t secondary)
{
	CHECK(element->where == where && element->vsid == page->vsid && element->page == page->index,
	      "where %x, VSID %x, page %x", element->where, element->vsid, element->page);
	CHECK(element->physical == (second & PTE_FRAME) && element->bits == (second & ~PTE_FRAME), "frame %x, bits %x",
	      element->physical, element->bits);
	CHECK(element->slot == slot && element->secondary == secondary && !element->reserved,
	      "where %x: slot %x instead of %x, secondary %x", where, element->slot, slot, element->secondary);
}

RULE(805, "QUERY's elements say what the entries are", DOC, ORACLE, "oracle-hides-bits")
{
	for (uint32_t hash = 0; hash < 2; hash++) {
		struct page page = page_make(3, 0xfe5a, 0x38 | PP_WRITE);
		struct pte *group = group_of(page.vsid, page.index, hash);
		uint32_t set = page.index % 64;

		page.pte->v = 0;
		tlbie(page.address);
		page.pte = pte_at(&group[5], page.vsid, page.index, hash, page.old | page.bits);
		EXPECT_CODE(page, OLD);
		EXPECT_OK(store_try(SUPERVISOR, page.address, OLD));
		CHECK(oracle_look(page.vsid, page.index, IN_ALL, elements, 3) == 3, "not three");
		element_is(&elements[0], IN_CODE_TLB, &page, elements[0].slot & 1 ? set * 2 + 1 : set * 2,
			   page.old | 0x138 | PP_WRITE, hash);
		element_is(&elements[1], IN_DATA_TLB, &page, elements[1].slot & 1 ? set * 2 + 1 : set * 2,
			   page.old | 0x1b8 | PP_WRITE, hash);
		element_is(&elements[2], IN_HASH_TABLE, &page, (uint32_t)(page.pte - (struct pte *)HASH_TABLE),
			   page.old | 0x1b8 | PP_WRITE, hash);
		page.pte->v = 0;
	}
}

RULE(806, "a TLB entry is shown as it is, not as memory is", DOC, ORACLE, "oracle-adds-changed")
{
	struct page page = page_stale(3, 0x123, PTE_R | PP_WRITE);

	page.pte->r |= PTE_C;
	CHECK(oracle_look(page.vsid, page.index, IN_ALL, elements, 2) == 2, "not two");
	CHECK(elements[0].physical == page.old && !(elements[0].bits & PTE_C), "frame %x, bits %x", elements[0].physical,
	      elements[0].bits);
	CHECK(elements[1].physical == page.new && elements[1].bits & PTE_C, "frame %x, bits %x", elements[1].physical,
	      elements[1].bits);
}

RULE(807, "QUERY asks for a range of pages", DOC, ORACLE, "oracle-ignores-page")
{
	uint32_t pages[] = { 0, 1, 0x3ff, 0x400, 0x7fff, 0x8000, 0xfffe, 0xffff };
	struct tlb_request *request;

	for (unsigned int i = 0; i < 8; i++) {
		struct page page = page_make(3, pages[i], BITS);

		EXPECT_OLD(page);
	}
	for (unsigned int first = 0; first < 8; first++) {
		for (unsigned int last = first; last < 8; last++) {
			uint32_t wanted = last - first + 1;

			request = oracle_request(ORACLE_QUERY);
			request->vsid = vsid(3);
			request->where = IN_HASH_TABLE;
			request->page = pages[first];
			request->pages = pages[last] - pages[first] + 1;
			oracle_ask(request);
			CHECK(request->count == wanted, "%x to %x: %u instead of %u", pages[first], pages[last],
			      request->count, wanted);
		}
	}
}

RULE(808, "QUERY asks for one VSID, for an array of them, or for all", DOC, ORACLE, "oracle-ignores-vsid")
{
	struct tlb_request *request;

	for (unsigned int segment = 0; segment < 16; segment++) {
		struct page page = page_make(segment, 0x123, BITS);

		vsids[segment] = page.vsid;
	}
	for (unsigned int nvsids = 0; nvsids <= 16; nvsids++) {
		request = oracle_request(ORACLE_QUERY);
		request->vsid = vsid(7);
		request->page = 0x123;
		request->vsids = (uint32_t)vsids;
		request->nvsids = nvsids;
		oracle_ask(request);
		CHECK(request->count == (nvsids ?: 1), "%u VSIDs: %u", nvsids, request->count);
	}
	vsids[2] = vsids[3] = 0xffffff;
	for (unsigned int i = 16; i < 1024; i++)
		vsids[i] = vsids[i % 16];
	request = oracle_request(ORACLE_QUERY);
	request->page = 0x123;
	request->vsids = (uint32_t)vsids;
	request->nvsids = 1024;
	oracle_ask(request);
	CHECK(request->count == 14, "1,024 VSIDs: %u", request->count);
	request = oracle_request(ORACLE_QUERY);
	request->pages = 0x10000;
	request->nvsids = VSIDS_ALL;
	oracle_ask(request);
	CHECK(request->count == 16, "all VSIDs: %u", request->count);
}

RULE(809, "a PTE's page is told from where it lies, in primary and secondary groups, in tables of any size", DOC,
     ORACLE, "oracle-ignores-h")
{
	for (uint32_t bytes = 0x10000; bytes <= 0x20000; bytes *= 2) {
		hash_table_size(bytes);
		for (uint32_t index = 3; index < 0x10000; index = index * 5 / 2 + 1) {
			for (uint32_t hash = 0; hash < 2; hash++) {
				struct pte *pte = pte_at(group_of(vsid(11), index, hash), vsid(11), index, hash, FRAMES);

				CHECK(oracle_look(vsid(11), index, IN_ALL, elements, 1) == 1 &&
				      elements[0].page == index && elements[0].secondary == hash,
				      "page %x, H %u: page %x", index, hash, elements[0].page);
				pte->v = 0;
			}
		}
	}
}

RULE(810, "QUERY finds every PTE of a page, and those that no search finds", DOC, ORACLE, "oracle-first-only")
{
	uint32_t v = vsid(3);

	for (unsigned int slot = 0; slot < 8; slot++) {
		pte_at(group_of(v, 0x123, false) + slot, v, 0x123, false, FRAMES);
		pte_at(group_of(v, 0x123, true) + slot, v, 0x123, true, FRAMES);
	}
	CHECK(oracle_look(v, 0x123, IN_ALL, elements, 16) == 16, "not 16");
}

RULE(811, "QUERY does not find what was replaced or dropped", DOC, ORACLE, "oracle-reports-dropped")
{
	struct page one = page_make(3, 0x23, BITS), two = page_make(3, 0x63, BITS), three = page_make(3, 0xa3, BITS);

	EXPECT_OLD(one);
	EXPECT_OLD(two);
	EXPECT_OLD(three);
	CHECK(!(oracle_where(one.vsid, one.index, IN_DATA_TLB)), "the replaced one is found");
	CHECK(oracle_where(two.vsid, two.index, IN_DATA_TLB) == IN_DATA_TLB, "the second is not found");
	tlbie(two.address);
	CHECK(!(oracle_where(two.vsid, two.index, IN_DATA_TLB)), "the dropped one is found");
	CHECK(!(oracle_where(three.vsid, three.index, IN_DATA_TLB)), "the other dropped one is found");
}

RULE(812, "QUERY writes only what fits, and counts all", DOC, ORACLE, "oracle-counts-written")
{
	for (unsigned int i = 0; i < 10; i++)
		page_make(3, i, BITS);
	for (uint32_t capacity = 0; capacity <= 10; capacity += 5) {
		struct tlb_request *request = oracle_request(ORACLE_QUERY);

		elements[capacity].where = 77;
		request->vsid = vsid(3);
		request->pages = 10;
		request->buffer = (uint32_t)elements;
		request->capacity = capacity;
		oracle_ask(request);
		CHECK(request->count == 10 && request->found == IN_HASH_TABLE, "count %u", request->count);
		CHECK(elements[capacity].where == 77, "more than %u were written", capacity);
		CHECK(!capacity || elements[capacity - 1].where == IN_HASH_TABLE, "less than %u were written", capacity);
	}
}

RULE(813, "asking changes nothing, and does not use an entry", DOC, ORACLE, "oracle-uses")
{
	struct page one = page_stale(3, 0x23, BITS), two = page_stale(3, 0x63, BITS), fresh = page_make(3, 0x24, 0);
	struct tlb_stats before = oracle_stats(), stats;
	struct tlb_request *request;

	CHECK(oracle_where(one.vsid, one.index, IN_ALL) == (IN_DATA_TLB | IN_HASH_TABLE), "the entry is not found");
	request = oracle_request(ORACLE_QUERY);
	request->pages = 0x10000;
	request->nvsids = VSIDS_ALL;
	oracle_ask(request);
	stats = oracle_since(&before);
	EXPECT_STILL(stats);
	EXPECT_BITS(fresh, 0);
	page_stale(3, 0xa3, BITS);
	EXPECT_OLD(two);
	EXPECT_NEW(one);
}

#define EXPECT_STATUS(expected, op_, change) do { \
	struct tlb_request *request = oracle_request(op_); \
	uint32_t status; \
	change; \
	status = oracle_status(request); \
	CHECK(status == (expected), "line %d: status %u instead of %u", __LINE__, status, (uint32_t)(expected)); \
	CHECK(status == ANSWERED || (!request->count && !request->found), "line %d: count %u", __LINE__, \
	      request->count); \
} while (0)

RULE(814, "a question with a mistake is refused", DOC, ORACLE, "oracle-accepts-all")
{
	page_make(0, 0, BITS);
	EXPECT_STATUS(ANSWERED, ORACLE_QUERY, request->vsid = 0xffffff);
	EXPECT_STATUS(NO_SUCH_OP, 0, request->pages = 1);
	EXPECT_STATUS(NO_SUCH_OP, 3, request->where = 1);
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_QUERY, request->where = 0);
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_QUERY, request->where = 9);
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_QUERY, request->vsid = 0x1000000);
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_QUERY, request->page = 0x10000);
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_QUERY, request->pages = 0);
	EXPECT_STATUS(ANSWERED, ORACLE_QUERY, request->pages = 0x10000);
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_QUERY, (request->page = 1, request->pages = 0x10000));
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_QUERY, request->nvsids = 1025);
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_QUERY, request->reserved[0] = 1);
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_STATS, request->reserved[19] = 1);
	vsids[0] = 0x1000000;
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_QUERY, (request->nvsids = 1, request->vsids = (uint32_t)vsids));
	EXPECT_STATUS(BAD_ARRAY, ORACLE_QUERY, (request->nvsids = 1, request->vsids = (uint32_t)vsids + 2));
	EXPECT_STATUS(BAD_ARRAY, ORACLE_QUERY, (request->nvsids = 1, request->vsids = 0xf8000000));
	EXPECT_STATUS(BAD_ARRAY, ORACLE_QUERY, (request->buffer = (uint32_t)elements + 4, request->capacity = 1));
	EXPECT_STATUS(BAD_ARRAY, ORACLE_QUERY, (request->buffer = 0x03fffff8, request->capacity = 2));
	EXPECT_STATUS(BAD_ARRAY, ORACLE_STATS, (request->buffer = MACIO, request->capacity = 1));
	EXPECT_STATUS(BAD_ARRAY, ORACLE_STATS, (request->buffer = 0xfff00000, request->capacity = 1));
	EXPECT_STATUS(BAD_ARRAY, ORACLE_STATS, (request->buffer = 0xfffffff8, request->capacity = 0xffffffff));
	/* As good as before. */
	CHECK(oracle_where(vsid(0), 0, IN_ALL) == IN_HASH_TABLE, "a page is not found");
}

RULE(815, "what is no request is not answered", DOC, ORACLE, "oracle-answers-all")
{
	static struct tlb_request two[2];

	two[1] = (struct tlb_request){ .op = ORACLE_STATS, .status = NOT_ANSWERED };
	asm volatile("mtspr 1014, %0" : : "r"((uint32_t)&two[1] - 64) : "memory");
	asm volatile("mtspr 1014, %0" : : "r"((uint32_t)&two[1] + 4) : "memory");
	asm volatile("mtspr 1014, %0" : : "r"(0xf8000000) : "memory");
	CHECK(two[1].status == NOT_ANSWERED, "status %u", two[1].status);
	CHECK(oracle_status(&two[1]) == ANSWERED, "status %u", two[1].status);
}

RULE(816, "STATS has 17 counters, and writes those that fit", DOC, ORACLE, "oracle-counts-written")
{
	static uint64_t counters[STATS + 1] __attribute__((aligned(8)));

	for (uint32_t capacity = 0; capacity <= STATS; capacity++) {
		struct tlb_request *request = oracle_request(ORACLE_STATS);

		counters[capacity] = 77;
		request->buffer = (uint32_t)counters;
		request->capacity = capacity;
		oracle_ask(request);
		CHECK(request->count == STATS && !request->found, "count %u", request->count);
		CHECK((uint32_t)counters[capacity] == 77, "more than %u were written", capacity);
	}
}

RULE(817, "a hash table that cannot be read is refused, and the TLBs can be asked all the same", DOC, ORACLE,
     "oracle-hides-failure")
{
	/* Where no RAM is, and where it ends in the middle of the table. */
	static const uint32_t places[] = { 0xf8000000, 0x03ff0000 | 1 };
	struct page page = page_make(3, 0x123, BITS);

	EXPECT_OLD(page);
	for (unsigned int i = 0; i < 2; i++) {
		sdr1_write(places[i]);
		EXPECT_STATUS(NO_TABLE, ORACLE_QUERY, (request->vsid = page.vsid, request->page = page.index));
		EXPECT_STATUS(NO_TABLE, ORACLE_QUERY, (request->nvsids = VSIDS_ALL, request->where = IN_HASH_TABLE));
		EXPECT_STATUS(BAD_ARRAY, ORACLE_QUERY, (request->buffer = 4, request->capacity = 1));
		EXPECT_STATUS(ANSWERED, ORACLE_STATS, request->capacity = 1);
		CHECK(oracle_where(page.vsid, page.index, IN_TLBS) == IN_DATA_TLB, "the entry is not found");
	}
	sdr1_write(HASH_TABLE);
	CHECK(oracle_where(page.vsid, page.index, IN_ALL) == (IN_DATA_TLB | IN_HASH_TABLE), "the PTE is not found");
}
