// SPDX-License-Identifier: GPL-2.0-only
/* The referenced and the changed bit. */
#include "rules.h"

#define SOURCE "OEA, page history"

RULE(501, "a load sets R, and not C", SOURCE, MODEL, "load-sets-changed")
{
	struct page page = page_make(3, 0x123, PP_WRITE);

	EXPECT_OLD(page);
	EXPECT_BITS(page, PTE_R);
}

RULE(502, "a fetch sets R, and not C", SOURCE, MODEL, "fetch-spares-referenced")
{
	struct page page = page_make(3, 0x123, PP_WRITE);

	EXPECT_CODE(page, OLD);
	EXPECT_BITS(page, PTE_R);
}

RULE(503, "a store sets R and C", SOURCE, MODEL, "store-spares-changed")
{
	struct page page = page_make(3, 0x123, PP_WRITE);

	EXPECT_OK(store_try(SUPERVISOR, page.address, NEW));
	EXPECT_BITS(page, PTE_R | PTE_C);
	EXPECT_NEW(page);
}

RULE(504, "a hit sets nothing", SOURCE, MODEL, "hit-sets")
{
	struct page page = page_make(3, 0x123, PP_WRITE);

	EXPECT_OK(store_try(SUPERVISOR, page.address, OLD));
	page.pte->r &= ~(PTE_R | PTE_C);
	EXPECT_OLD(page);
	EXPECT_OK(store_try(SUPERVISOR, page.address, NEW));
	EXPECT_OK(store_try(USER, page.address, NEW));
	EXPECT_BITS(page, 0);
}

RULE(505, "a store through an entry without C searches, and sets C", "750, changed bit", MODEL,
     "store-trusts-entry")
{
	struct page page = page_make(3, 0x123, PP_WRITE);

	EXPECT_OLD(page);
	EXPECT_OK(store_try(SUPERVISOR, page.address, NEW));
	EXPECT_BITS(page, PTE_R | PTE_C);
	EXPECT_NEW(page);
}

RULE(506, "the first store through an entry without C searches, and later ones of either mode do not",
     "750, changed bit", ORACLE, "changed-forgotten")
{
	struct page page = page_make(3, 0x123, PP_WRITE);
	struct tlb_stats before = oracle_stats(), stats;

	EXPECT_OLD(page);
	for (unsigned int i = 0; i < 3; i++) {
		EXPECT_OK(store_try(SUPERVISOR, page.address, NEW));
		EXPECT_OK(store_try(USER, page.address, NEW));
		EXPECT_NEW(page);
	}
	stats = oracle_since(&before);
	EXPECT_MOVED(stats, [DATA_MISSES] = 1, [CHANGED_SEARCHES] = 1, [SEARCHES] = 2, [FOUND_PRIMARY] = 2, [REFERENCES] = 2,
		     [REFERENCED_UPDATES] = 1, [CHANGED_UPDATES] = 1, [FILLS] = 1);
}

RULE(507, "a store whose search for C finds nothing raises a DSI, and the entry stays", "ours", MODEL,
     "failed-search-drops")
{
	struct page page = page_make(3, 0x123, PTE_R | PP_WRITE);

	EXPECT_OLD(page);
	page.pte->v = 0;
	EXPECT_DSI(NO_PTE | IS_STORE, store_try(SUPERVISOR, page.address, NEW));
	EXPECT_OLD(page);
}

RULE(508, "a store whose search for C finds a PTE that denies it raises a DSI, and nothing is set", "ours", MODEL,
     "denied-sets")
{
	struct page page = page_make(3, 0x123, PTE_R | PP_WRITE);

	EXPECT_OLD(page);
	page.bits = PP_READ_ONLY;
	page_repoint(&page);
	EXPECT_DSI(IS_DENIED | IS_STORE, store_try(SUPERVISOR, page.address, NEW));
	EXPECT_BITS(page, 0);
	EXPECT_OLD(page);
}

RULE(509, "a search for C loads the entry again from what it has found", "750, changed bit", MODEL,
     "changed-keeps-frame")
{
	struct page page = page_make(3, 0x123, PTE_R | PP_WRITE);
	uint32_t value;

	EXPECT_OLD(page);
	EXPECT_OK(load_try(USER, page.address, &value));
	page_repoint(&page);
	EXPECT_OK(store_try(SUPERVISOR, page.address, OTHER));
	CHECK(*(uint32_t *)page.new == OTHER, "the store went to %s", *(uint32_t *)page.old == OTHER ? "the old frame" :
	      "nowhere");
	EXPECT(page, OTHER);
	EXPECT_OK(load_try(USER, page.address + 4, &value));
	CHECK(value == NEW, "user mode read %s", canary_name(value));
}

RULE(510, "dcbz is a store", "OEA, dcbz", MODEL, "store-trusts-entry")
{
	struct page page = page_make(3, 0x123, PTE_R | PP_WRITE);
	struct page denied = page_make(3, 0x124, PTE_R | PP_READ_ONLY);

	EXPECT_OLD(page);
	EXPECT_OK(stub_try(stub_dcbz, MSR_DR, page.address, 0));
	EXPECT_BITS(page, PTE_R | PTE_C);
	EXPECT(page, 0);
	EXPECT_DSI(IS_DENIED | IS_STORE, stub_try(stub_dcbz, MSR_DR, denied.address, 0));
}

RULE(511, "stwcx. is a store, if the reservation holds", "OEA, stwcx.", MODEL, "store-trusts-entry")
{
	struct page page = page_make(3, 0x123, PTE_R | PP_WRITE);

	EXPECT_OK(stub_try(stub_stwcx, MSR_DR, page.address, NEW));
	CHECK(journey.cr >> 29 & 1, "the reservation was lost");
	EXPECT_BITS(page, PTE_R | PTE_C);
	EXPECT_NEW(page);
}

RULE(512, "a stwcx. that has lost its reservation sets nothing", "OEA allows to set C; ours", MODEL,
     "load-sets-changed")
{
	struct page page = page_make(3, 0x123, PTE_R | PP_WRITE);

	EXPECT_OK(stub_try(stub_stwcx_lost, MSR_DR, page.address, NEW));
	CHECK(!(journey.cr >> 29 & 1), "the reservation holds");
	EXPECT_BITS(page, PTE_R);
	EXPECT_OLD(page);
}

RULE(513, "a store across two pages sets C in both", SOURCE, MODEL, "store-trusts-entry")
{
	struct page one = page_make(3, 0x123, PTE_R | PP_WRITE), two = page_make(3, 0x124, PTE_R | PP_WRITE);

	EXPECT_OLD(one);
	EXPECT_OLD(two);
	EXPECT_OK(store_try(SUPERVISOR, two.address - 2, NEW));
	EXPECT_BITS(one, PTE_R | PTE_C);
	EXPECT_BITS(two, PTE_R | PTE_C);
}

RULE(514, "R is set again by a search, if it was cleared and the entry dropped", SOURCE, MODEL,
     "fetch-spares-referenced")
{
	struct page page = page_make(3, 0x123, BITS), code = page_make(3, 0x124, BITS);

	EXPECT_OLD(page);
	EXPECT_CODE(code, OLD);
	page.pte->r &= ~PTE_R;
	code.pte->r &= ~PTE_R;
	tlbie(page.address);
	tlbie(code.address);
	EXPECT_OLD(page);
	EXPECT_CODE(code, OLD);
	EXPECT_BITS(page, PTE_R | PTE_C);
	EXPECT_BITS(code, PTE_R | PTE_C);
}

RULE(515, "dcbi is a store: one search sets R and C, and a DSI says store", "OEA, dcbi", ORACLE, "stores-load-first")
{
	struct page page = page_make(3, 0x123, PP_WRITE), denied = page_make(3, 0x124, PP_READ_ONLY);
	struct tlb_stats before = oracle_stats(), stats;

	EXPECT_OK(stub_try(stub_dcbi, MSR_DR, page.address, 0));
	stats = oracle_since(&before);
	EXPECT_MOVED(stats, A_MISS, [REFERENCED_UPDATES] = 1, [CHANGED_UPDATES] = 1, [FILLS] = 1);
	EXPECT_BITS(page, PTE_R | PTE_C);
	EXPECT_OLD(page);
	EXPECT_DSI(IS_DENIED | IS_STORE, stub_try(stub_dcbi, MSR_DR, denied.address, 0));
	EXPECT_BITS(denied, 0);
	EXPECT_DSI(NO_PTE | IS_STORE, stub_try(stub_dcbi, MSR_DR, address_of(3, 0x125), 0));
}

RULE(516, "dcbf, dcbst and icbi are loads", "OEA, dcbf, dcbst, icbi", MODEL, "load-sets-changed")
{
	static void (*const loads[])(void) = { stub_dcbf, stub_dcbst, stub_icbi };

	for (unsigned int i = 0; i < 3; i++) {
		struct page page = page_make(3, 0x123 + i, PP_READ_ONLY);

		EXPECT_OK(stub_try(loads[i], MSR_DR, page.address, 0));
		EXPECT_BITS(page, PTE_R);
		page_repoint(&page);
		EXPECT_OLD(page);
		EXPECT_DSI(NO_PTE, stub_try(loads[i], MSR_DR, address_of(3, 0x223), 0));
	}
}

RULE(517, "dcbt and dcbtst do not come to the TLBs", "ours", ORACLE, "touches-load")
{
	static void (*const touches[])(void) = { stub_dcbt, stub_dcbtst };
	struct page page = page_make(3, 0x123, PP_WRITE);

	for (unsigned int i = 0; i < 2; i++) {
		struct tlb_stats before = oracle_stats(), stats;

		EXPECT_OK(stub_try(touches[i], MSR_DR, page.address, 0));
		EXPECT_OK(stub_try(touches[i], MSR_DR, address_of(3, 0x223), 0));
		stats = oracle_since(&before);
		EXPECT_STILL(stats);
		EXPECT_BITS(page, 0);
	}
}

RULE(518, "a load across two pages uses both; where the second is missing, the first stays loaded", SOURCE, MODEL,
     "fault-drops")
{
	struct page one = page_make(3, 0x123, PP_WRITE), two = page_make(3, 0x124, PP_WRITE);
	uint32_t value;

	EXPECT_OK(load_try(SUPERVISOR, two.address - 2, &value));
	CHECK(value == (OLD << 16 | OLD >> 16), "read %x", value);
	EXPECT_BITS(one, PTE_R);
	EXPECT_BITS(two, PTE_R);
	one.pte->r &= ~PTE_R;
	two.pte->v = 0;
	tlbie(one.address);
	tlbie(two.address);
	EXPECT_DSI(NO_PTE, load_try(SUPERVISOR, two.address - 2, &value));
	CHECK(journey.dar == two.address, "DAR %x", journey.dar);
	EXPECT_BITS(one, PTE_R);
	page_repoint(&one);
	EXPECT_OLD(one);
}

RULE(519, "lmw and stmw across two pages use both", SOURCE, MODEL, "store-trusts-entry")
{
	struct page one = page_make(3, 0x123, PP_WRITE), two = page_make(3, 0x124, PP_WRITE);

	EXPECT_OK(stub_try(stub_lmw, MSR_DR, two.address - 4, 0));
	CHECK(journey.value == OLD, "read %s", canary_name(journey.value));
	EXPECT_BITS(one, PTE_R);
	EXPECT_BITS(two, PTE_R);
	EXPECT_OK(stub_try(stub_stmw, MSR_DR, two.address - 4, NEW));
	EXPECT_BITS(one, PTE_R | PTE_C);
	EXPECT_BITS(two, PTE_R | PTE_C);
	EXPECT_NEW(two);
	two.pte->v = 0;
	tlbie(two.address);
	EXPECT_DSI(NO_PTE, stub_try(stub_lmw, MSR_DR, two.address - 4, 0));
	CHECK(journey.dar == two.address, "DAR %x", journey.dar);
	EXPECT_DSI(NO_PTE | IS_STORE, stub_try(stub_stmw, MSR_DR, two.address - 4, OLD));
	CHECK(journey.dar == two.address, "DAR %x", journey.dar);
}

RULE(520, "a stwcx. whose entry was dropped after lwarx searches once, as a store", "OEA, stwcx.", ORACLE,
     "stores-load-first")
{
	struct page page = page_make(3, 0x123, PP_WRITE), gone = page_make(3, 0x124, PTE_R | PP_WRITE);
	struct tlb_stats before = oracle_stats(), stats;

	EXPECT_OK(stub_try(stub_stwcx_dropped, MSR_DR, page.address, NEW));
	CHECK(journey.cr >> 29 & 1, "the reservation was lost");
	stats = oracle_since(&before);
	/* One for lwarx, and one for stwcx. */
	EXPECT_MOVED(stats, [DATA_MISSES] = 2, [SEARCHES] = 2, [FOUND_PRIMARY] = 2, [REFERENCES] = 2,
		     [REFERENCED_UPDATES] = 1, [CHANGED_UPDATES] = 1, [FILLS] = 2, [TLBIE] = 1, [TLBIE_DROPPED] = 1);
	EXPECT_BITS(page, PTE_R | PTE_C);
	EXPECT_NEW(page);
	EXPECT_DSI(NO_PTE | IS_STORE, stub_try(stub_stwcx_unmapped, MSR_DR, gone.address, (uint32_t)&gone.pte->v));
	EXPECT_BITS(gone, PTE_R);
}
