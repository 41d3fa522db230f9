// SPDX-License-Identifier: GPL-2.0-only
/* The search of the hash table. */
#include "rules.h"

#define SOURCE "OEA, hashed page tables"

/* Puts the page's PTE into this place instead. */
static void page_move(struct page *page, unsigned int slot, bool is_secondary)
{
	page->pte->v = 0;
	page->pte = pte_at(group_of(page->vsid, page->index, is_secondary) + slot, page->vsid, page->index,
			   is_secondary, page->old | page->bits);
	tlbie(page->address);
}

RULE(601, "a PTE is found in every place of its primary group", SOURCE, MODEL, "search-stops-early")
{
	struct page page = page_make(3, 0x123, BITS);

	for (unsigned int slot = 0; slot < 8; slot++) {
		page_move(&page, slot, false);
		EXPECT_OLD(page);
	}
}

RULE(602, "a PTE is found in every place of its secondary group", SOURCE, MODEL, "secondary-ignored")
{
	struct page page = page_make(3, 0x123, BITS);

	for (unsigned int slot = 0; slot < 8; slot++) {
		page_move(&page, slot, true);
		EXPECT_OLD(page);
		EXPECT_CODE(page, OLD);
	}
}

RULE(603, "a PTE with H is none of its primary group, and one without none of its secondary one", SOURCE, MODEL,
     "h-ignored")
{
	struct page page = page_make(3, 0x123, BITS);
	uint32_t value;

	page.pte->v |= PTE_H;
	EXPECT_DSI(NO_PTE, load_try(SUPERVISOR, page.address, &value));
	page_move(&page, 0, true);
	page.pte->v &= ~PTE_H;
	EXPECT_DSI(NO_PTE, load_try(SUPERVISOR, page.address, &value));
}

RULE(604, "V has to be set, and VSID and API have to match", SOURCE, MODEL, "api-ignored")
{
	struct page page = page_make(3, 0x123, BITS);
	uint32_t value, v = page.pte->v;

	for (unsigned int bit = 0; bit < 32; bit++) {
		page.pte->v = v ^ 1u << bit;
		EXPECT_DSI(NO_PTE, load_try(SUPERVISOR, page.address, &value));
	}
	page.pte->v = v;
	EXPECT_OLD(page);
}

RULE(605, "the primary group comes first, and its first match", SOURCE, MODEL, "secondary-first")
{
	struct page page = page_make(3, 0x123, BITS);

	page_move(&page, 3, false);
	pte_at(group_of(page.vsid, page.index, true), page.vsid, page.index, true, page.new | BITS);
	EXPECT_OLD(page);
	tlbie(page.address);
	pte_at(group_of(page.vsid, page.index, false) + 5, page.vsid, page.index, false, page.new | BITS);
	EXPECT_OLD(page);
}

RULE(606, "the mask of SDR1 says how many bits of the hash count", SOURCE, MODEL, "hash-short")
{
	bool is_above = false;

	hash_table_size(0x20000);
	for (unsigned int i = 0; i < 4; i++) {
		struct page page = page_of_vsid(vsid(3) ^ i << 9, 3, 0x123, BITS);

		is_above |= (uint32_t)page.pte >= HASH_TABLE + 0x10000;
		segment_write(3, page.vsid | SR_KP);
		EXPECT_OLD(page);
		page_move(&page, 0, true);
		EXPECT_OLD(page);
	}
	CHECK(is_above, "no group lay in the upper half");
}

RULE(607, "a search reads as many PTEs as lie before the match, and all 16 if there is none", SOURCE, ORACLE,
     "references-by-group")
{
	struct page page = page_make(3, 0x123, BITS);
	struct tlb_stats before, stats;
	uint32_t value;

	for (unsigned int slot = 0; slot < 16; slot++) {
		page_move(&page, slot % 8, slot >= 8);
		before = oracle_stats();
		EXPECT_OLD(page);
		stats = oracle_since(&before);
		EXPECT_MOVED(stats, [DATA_MISSES] = 1, [SEARCHES] = 1, [FOUND_PRIMARY] = slot < 8,
			     [FOUND_SECONDARY] = slot >= 8, [REFERENCES] = slot + 1, [FILLS] = 1);
	}
	before = oracle_stats();
	EXPECT_DSI(NO_PTE, load_try(SUPERVISOR, address_of(3, 0x999), &value));
	stats = oracle_since(&before);
	EXPECT_MOVED(stats, [DATA_MISSES] = 1, [SEARCHES] = 1, [NOT_FOUND] = 1, [REFERENCES] = 16);
}
