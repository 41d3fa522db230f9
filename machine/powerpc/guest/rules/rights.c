// SPDX-License-Identifier: GPL-2.0-only
/* Who may do what with an entry, and what is raised if he may not. */
#include "rules.h"

RULE(401, "user and supervisor mode share an entry", MANUAL, MODEL, "mode-tags")
{
	struct page page = page_stale(3, 0x123, BITS);
	uint32_t value;

	EXPECT_OK(load_try(USER, page.address, &value));
	CHECK(value == OLD, "user mode read %s", canary_name(value));
	EXPECT_OLD(page);
}

RULE(402, "Ks and Kp decide as they are now, not as they were when the entry was loaded", "OEA, protection", MODEL,
     "rights-kept")
{
	struct page page = page_stale(3, 0x123, PTE_R | PTE_C | PP_NONE);
	uint32_t value;

	EXPECT_DSI(IS_DENIED, load_try(USER, page.address, &value));
	segment_write(3, vsid(3) | SR_KS);
	EXPECT_OK(load_try(USER, page.address, &value));
	CHECK(value == OLD, "user mode read %s", canary_name(value));
	EXPECT_DSI(IS_DENIED, load_try(SUPERVISOR, page.address, &value));
	segment_write(3, vsid(3));
	EXPECT_OLD(page);
}

/* Rows: PP; columns: key 0 and 1; what is allowed: 1 load, 2 store, 4 execute. */
static const uint8_t allowed[4][2] = { { 7, 0 }, { 7, 5 }, { 7, 7 }, { 5, 5 } };

static void rights_are_kept(bool is_entry)
{
	uint32_t value;

	for (unsigned int pp = 0; pp < 4; pp++) {
		for (unsigned int key = 0; key < 2; key++) {
			struct page page = page_make(3, 0x100 + pp * 2 + key, PTE_R | PTE_C | pp);
			uint32_t vector, rights = allowed[pp][key];

			if (is_entry) {
				segment_write(3, vsid(3));
				EXPECT_OLD(page);
				EXPECT_CODE(page, OLD);
			}
			segment_write(3, vsid(3) | (key ? SR_KP : SR_KS));
			vector = load_try(USER, page.address, &value);
			CHECK((vector == VECTOR_SC) == !!(rights & 1), "PP %u, key %u: a load gives %x", pp, key, vector);
			vector = store_try(USER, page.address, OLD);
			CHECK((vector == VECTOR_SC) == !!(rights & 2), "PP %u, key %u: a store gives %x", pp, key, vector);
			vector = execute_try(USER, page.address, &value);
			CHECK((vector == VECTOR_SC) == !!(rights & 4), "PP %u, key %u: a fetch gives %x", pp, key, vector);
			if (!is_entry)
				page.pte->v = 0;
		}
	}
}

RULE(403, "PP and the key decide: a search", "OEA, protection", MODEL, "fetch-ignores-key")
{
	rights_are_kept(false);
}

RULE(404, "PP and the key decide: an entry", "OEA, protection", MODEL, "hit-ignores-rights")
{
	rights_are_kept(true);
}

RULE(405, "an entry denies by its own PP, whatever memory says, and nothing is searched", MANUAL, ORACLE,
     "denied-searches")
{
	struct page page = page_make(3, 0x123, PTE_R | PTE_C | PP_READ_ONLY);
	struct tlb_stats before, stats;

	EXPECT_OLD(page);
	page.pte->r = page.old | PTE_R | PTE_C | PP_WRITE;
	before = oracle_stats();
	EXPECT_DSI(IS_DENIED | IS_STORE, store_try(SUPERVISOR, page.address, 1));
	stats = oracle_since(&before);
	EXPECT_STILL(stats);
	tlbie(page.address);
	EXPECT_OK(store_try(SUPERVISOR, page.address, 1));
}

RULE(406, "no code is executed in a segment with N, entry or not", "OEA, segment registers", MODEL, "fetch-ignores-n")
{
	struct page page = page_stale_code(3, 0x123, BITS);
	uint32_t value;

	segment_write(3, vsid(3) | SR_KP | SR_N);
	EXPECT_ISI(NO_EXECUTE, execute_try(SUPERVISOR, page.address, &value));
	segment_write(3, vsid(3) | SR_KP);
	EXPECT_CODE(page, OLD);
}

RULE(407, "a search whose PTE denies the access loads nothing and sets neither R nor C", "OEA allows to set R; ours",
     ORACLE, "denied-fills")
{
	struct page page = page_make(3, 0x123, PP_NONE);
	struct page code = page_make(3, 0x124, PP_NONE);
	uint32_t value;

	EXPECT_DSI(IS_DENIED, load_try(USER, page.address, &value));
	EXPECT_DSI(IS_DENIED | IS_STORE, store_try(USER, page.address, 1));
	EXPECT_ISI(IS_DENIED, execute_try(USER, code.address, &value));
	EXPECT_BITS(page, 0);
	EXPECT_BITS(code, 0);
	CHECK(oracle_where(page.vsid, page.index, IN_ALL) == IN_HASH_TABLE, "there is an entry");
	CHECK(oracle_where(code.vsid, code.index, IN_ALL) == IN_HASH_TABLE, "there is an entry for code");
}

RULE(408, "what is raised where there is no PTE", "OEA, DSI and ISI", MODEL, "missing-is-denied")
{
	uint32_t value, address = address_of(3, 0x123);

	EXPECT_DSI(NO_PTE, load_try(SUPERVISOR, address + 8, &value));
	CHECK(journey.dar == address + 8, "DAR %x", journey.dar);
	EXPECT_DSI(NO_PTE | IS_STORE, store_try(USER, address + 4, 1));
	CHECK(journey.dar == address + 4, "DAR %x", journey.dar);
	EXPECT_ISI(NO_PTE, execute_try(USER, address, &value));
	CHECK(journey.srr0 == address + CODE_OFFSET, "SRR0 %x", journey.srr0);
}

RULE(409, "an exception drops no entry", MANUAL, MODEL, "fault-drops")
{
	struct page page = page_stale(3, 0x123, PTE_R | PTE_C | PP_READ_ONLY);

	EXPECT_DSI(IS_DENIED | IS_STORE, store_try(SUPERVISOR, page.address, 1));
	EXPECT_OLD(page);
}

RULE(410, "a translation that data use serves no code in TCG's TLB, and the other way round", MANUAL, MODEL,
     "fast-serves-both")
{
	struct page page = page_make(3, 0x123, BITS);
	struct page other = page_make(3, 0x124, BITS);
	uint32_t value;

	/* What is executed could be read, if anybody might. */
	EXPECT_CODE(page, OLD);
	page.pte->v = 0;
	EXPECT_DSI(NO_PTE, load_try(SUPERVISOR, page.address, &value));
	EXPECT_OLD(other);
	other.pte->v = 0;
	EXPECT_ISI(NO_PTE, execute_try(SUPERVISOR, other.address, &value));
	EXPECT_OLD(other);
}
