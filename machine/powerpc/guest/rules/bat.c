// SPDX-License-Identifier: GPL-2.0-only
/* What bypasses the TLBs: block address translation, real mode, direct-store segments. */
#include "rules.h"

#define SOURCE "OEA, block address translation"

/* 128 KiB, for both modes; all may be done. */
#define BAT_VALID 3
#define BAT_ALL 2
#define BAT_BYTES 0x20000u
/* Where the frames that rules get lie. */
#define BLOCK (FRAMES & ~(BAT_BYTES - 1))

static uint32_t block_address(const struct page *page, uint32_t frame)
{
	return (page->address & ~(BAT_BYTES - 1)) + frame - BLOCK;
}

RULE(701, "what a BAT translates bypasses the TLBs, and nothing is counted", SOURCE, ORACLE, "bat-fills")
{
	struct page page = page_make(3, 0x120, BITS);
	struct tlb_stats before, stats;

	bat_write(true, (page.address & ~(BAT_BYTES - 1)) | BAT_VALID, BLOCK | BAT_ALL);
	bat_write(false, (page.address & ~(BAT_BYTES - 1)) | BAT_VALID, BLOCK | BAT_ALL);
	before = oracle_stats();
	expect(block_address(&page, page.new), NEW, __LINE__);
	expect_code(block_address(&page, page.new), NEW, __LINE__);
	stats = oracle_since(&before);
	EXPECT_STILL(stats);
	CHECK(oracle_where(page.vsid, (block_address(&page, page.new) >> 12) & 0xffff, IN_TLBS) == 0,
	      "there is an entry");
}

RULE(702, "a BAT comes before a TLB entry, and drops none", SOURCE, MODEL, "bat-after-entry")
{
	struct page page = page_make(3, 0x120, BITS);

	page.address = block_address(&page, page.new);
	page.index = (page.address >> 12) & 0xffff;
	pte_make(page.vsid, page.index, page.old | BITS);
	EXPECT_OLD(page);
	EXPECT_CODE(page, OLD);
	bat_write(true, (page.address & ~(BAT_BYTES - 1)) | BAT_VALID, BLOCK | BAT_ALL);
	EXPECT_NEW(page);
	EXPECT_CODE(page, OLD);
	bat_write(false, (page.address & ~(BAT_BYTES - 1)) | BAT_VALID, BLOCK | BAT_ALL);
	EXPECT_CODE(page, NEW);
	hash_table_size(0x10000);
	bats_clear();
	EXPECT_OLD(page);
	EXPECT_CODE(page, OLD);
}

RULE(703, "a change of a BAT's lower half is seen", SOURCE, MODEL, "bat-keeps-fast")
{
	struct page page = page_make(3, 0x120, BITS);
	uint32_t address = block_address(&page, page.old), value;

	for (unsigned int round = 0; round < 2; round++) {
		bat_write(true, (address & ~(BAT_BYTES - 1)) | BAT_VALID, BLOCK | BAT_ALL);
		bat_write(false, (address & ~(BAT_BYTES - 1)) | BAT_VALID, BLOCK | BAT_ALL);
		expect(address, OLD, __LINE__);
		expect_code(address, OLD, __LINE__);
		bat_write(true, (address & ~(BAT_BYTES - 1)) | BAT_VALID, BLOCK);
		bat_write(false, (address & ~(BAT_BYTES - 1)) | BAT_VALID, BLOCK);
		EXPECT_DSI(IS_DENIED, load_try(SUPERVISOR, address, &value));
		EXPECT_ISI(IS_DENIED, execute_try(SUPERVISOR, address, &value));
	}
}

RULE(704, "a BAT that was made smaller does not translate what it has left", SOURCE, MODEL, "bat-keeps-fast")
{
	uint32_t address = address_of(5, 0x120), value;

	/* 256 KiB, and then the lower half of it */
	bat_write(true, (address - BAT_BYTES) | 1 << 2 | BAT_VALID, (BLOCK & ~(2 * BAT_BYTES - 1)) | BAT_ALL);
	EXPECT_OK(load_try(SUPERVISOR, address, &value));
	bat_write(true, (address - BAT_BYTES) | BAT_VALID, (BLOCK & ~(2 * BAT_BYTES - 1)) | BAT_ALL);
	EXPECT_DSI(NO_PTE, load_try(SUPERVISOR, address, &value));
}

RULE(705, "a BAT for data serves no code", SOURCE, MODEL, "fast-serves-both")
{
	struct page page = page_make(3, 0x120, BITS);
	uint32_t address = block_address(&page, page.new), value;

	bat_write(true, (address & ~(BAT_BYTES - 1)) | BAT_VALID, BLOCK | BAT_ALL);
	expect(address, NEW, __LINE__);
	EXPECT_ISI(NO_PTE, execute_try(SUPERVISOR, address, &value));
	expect(address, NEW, __LINE__);
}

RULE(706, "an access in real mode bypasses the TLBs, and nothing is counted", "OEA, MSR[IR] and MSR[DR]", ORACLE,
     "real-mode-counts")
{
	struct tlb_stats before = oracle_stats(), stats;

	EXPECT_OK(stub_try(stub_load, 0, FRAMES, 0));
	stats = oracle_since(&before);
	EXPECT_STILL(stats);
}

RULE(707, "what a direct-store segment (T) translates bypasses the TLBs, and no code is executed there",
     "OEA, direct-store segments", ORACLE, "direct-store-searches")
{
	/* QEMU takes its addresses for physical ones, so that segment 0 has RAM. */
	uint32_t frame = frame_alloc(OTHER), index = frame / PAGE_BYTES, value;
	struct tlb_stats before, stats;

	pte_make(vsid(0), index, frame_alloc(NEW) | BITS);
	segment_write(0, SR_T | SR_KS | SR_KP | vsid(0));
	before = oracle_stats();
	expect(frame, OTHER, __LINE__);
	EXPECT_ISI(NO_EXECUTE, execute_try(SUPERVISOR, frame, &value));
	stats = oracle_since(&before);
	EXPECT_STILL(stats);
	CHECK(!oracle_where(vsid(0), index, IN_TLBS), "there is an entry");
	segment_write(0, vsid(0) | SR_KP);
	expect(frame, NEW, __LINE__);
}
