// SPDX-License-Identifier: GPL-2.0-only
/* What an entry is tagged by, and what does not drop it. */
#include "rules.h"

RULE(101, "an entry for data is used until it is dropped, whatever memory says", MANUAL, MODEL, "hit-reads-memory")
{
	struct page page = page_stale(3, 0x123, BITS);

	EXPECT_OLD(page);
	page.pte->v = 0;
	EXPECT_OLD(page);
	tlbie(page.address);
	EXPECT_DSI(NO_PTE, load_try(SUPERVISOR, page.address, &page.old));
}

RULE(102, "an entry for code is used until it is dropped, whatever memory says", MANUAL, MODEL,
     "hit-reads-memory")
{
	struct page page = page_stale_code(3, 0x123, BITS);

	EXPECT_CODE(page, OLD);
	page.pte->v = 0;
	EXPECT_CODE(page, OLD);
	tlbie(page.address);
	EXPECT_ISI(NO_PTE, execute_try(SUPERVISOR, page.address, &page.old));
}

RULE(103, "a change of a segment register drops nothing", MANUAL, MODEL, "segment-drops")
{
	struct page page = page_stale(3, 0x123, BITS), code = page_stale_code(3, 0x124, BITS);

	segment_write(3, (vsid(3) + 1) | SR_KP);
	EXPECT_DSI(NO_PTE, load_try(SUPERVISOR, page.address, &page.old));
	segment_write(3, vsid(3) | SR_KP);
	EXPECT_OLD(page);
	EXPECT_CODE(code, OLD);
}

RULE(104, "an entry of one VSID is not used under another", MANUAL, MODEL, "vsid-ignored")
{
	struct page page = page_make(3, 0x123, BITS);
	struct page other = page_of_vsid(vsid(3) + 1, 3, 0x123, BITS);

	other.pte->r = frame_alloc(OTHER) | BITS;
	EXPECT(page, OLD);
	segment_write(3, (vsid(3) + 1) | SR_KP);
	EXPECT(page, OTHER);
	EXPECT_CODE(page, OTHER);
	segment_write(3, vsid(3) | SR_KP);
	EXPECT(page, OLD);
	EXPECT_CODE(page, OLD);
}

RULE(105, "all 24 bits of a VSID are compared", MANUAL, MODEL, "vsid-short")
{
	for (unsigned int bit = 0; bit < 24; bit++) {
		uint32_t one = vsid(4), two = vsid(4) ^ 1u << bit;
		struct page page = page_of_vsid(one, 4, 0x40 + bit, BITS);
		struct pte *other = pte_make(two, 0x40 + bit, frame_alloc(OTHER) | BITS);

		segment_write(4, one | SR_KP);
		EXPECT(page, OLD);
		segment_write(4, two | SR_KP);
		EXPECT(page, OTHER);
		other->v = 0;
	}
}

RULE(106, "an entry is used in every segment that has its VSID", MANUAL, MODEL, "segment-tags")
{
	page_stale(3, 0x123, BITS);
	segment_write(9, vsid(3) | SR_KP);
	expect(address_of(9, 0x123), OLD, __LINE__);
	segment_write(3, vsid(12) | SR_KP);
	expect(address_of(9, 0x123), OLD, __LINE__);
}

RULE(107, "the upper ten bits of the page index are compared", MANUAL, MODEL, "page-short")
{
	for (unsigned int bit = 6; bit < 16; bit++) {
		struct page page = page_make(3, 0x23, BITS);
		struct page other = page_make(3, 0x23 ^ 1u << bit, BITS);

		other.pte->r = frame_alloc(OTHER) | BITS;
		EXPECT(page, OLD);
		EXPECT(other, OTHER);
		page.pte->v = other.pte->v = 0;
		tlbie(page.address);
	}
}

RULE(108, "after an isync, a segment register's new VSID is used", "OEA, mtsr", MODEL, "segment-late")
{
	struct page page = page_make(3, 0x123, BITS);
	struct page other = page_of_vsid(vsid(3) + 1, 3, 0x123, BITS);

	other.pte->r = frame_alloc(OTHER) | BITS;
	EXPECT_OK(stub_try(stub_load_twice, MSR_DR, page.address, (vsid(3) + 1) | SR_KP));
	CHECK(journey.value == OTHER, "read %s", canary_name(journey.value));
}

RULE(109, "after an rfi, a segment register's new VSID is used", "OEA, rfi", MODEL, "segment-late")
{
	struct page page = page_make(3, 0x123, BITS);
	struct page other = page_of_vsid(vsid(3) + 1, 3, 0x123, BITS);

	other.pte->r = frame_alloc(OTHER) | BITS;
	EXPECT(page, OLD);
	asm volatile("mtsrin %0, %1" : : "r"((vsid(3) + 1) | SR_KP), "r"(page.address));
	EXPECT(page, OTHER);
}

RULE(110, "a change of SDR1 drops nothing", MANUAL, MODEL, "sdr1-drops")
{
	struct page page = page_stale(3, 0x123, BITS), code = page_stale_code(3, 0x124, BITS);

	hash_table_size(0x20000);
	EXPECT_OLD(page);
	EXPECT_CODE(code, OLD);
}

RULE(111, "exceptions, sync, isync and tlbsync drop nothing", MANUAL, MODEL, "sync-drops")
{
	struct page page = page_stale(3, 0x123, BITS), code = page_stale_code(3, 0x124, BITS);

	/* A reason for what is late in stock QEMU */
	segment_write(7, vsid(15) | SR_KP);
	asm volatile("sync; isync; tlbsync; sync; isync" : : : "memory");
	EXPECT_ISI(NO_PTE, execute_try(SUPERVISOR, address_of(7, 0x125), &page.vsid));
	EXPECT_OLD(page);
	EXPECT_CODE(code, OLD);
}

RULE(112, "code and data have entries of their own", "604 table 5-1", MODEL, "one-tlb")
{
	struct page page = page_make(3, 0x123, BITS);

	EXPECT_OLD(page);
	page_repoint(&page);
	EXPECT_CODE(page, NEW);
	EXPECT_OLD(page);
	EXPECT_CODE(page, NEW);
}

RULE(113, "code that runs on into the next page uses that page's entry", MANUAL, MODEL, "hit-reads-memory")
{
	struct page one = page_make(3, 0x123, BITS), two = page_stale_code(3, 0x124, BITS);
	uint32_t value, vector;

	code_put(one.old, PAGE_BYTES - 4, CODE_NOP);
	code_put(two.old, 0, CODE_LI3(1));
	code_put(two.old, 4, CODE_SC);
	code_put(two.new, 0, CODE_LI3(2));
	code_put(two.new, 4, CODE_SC);
	EXPECT_OK(jump_try(SUPERVISOR, one.address + PAGE_BYTES - 4, &value));
	CHECK(value == 1, "the next page was that of %u", value);
	two.pte->v = 0;
	tlbie(two.address);
	vector = jump_try(SUPERVISOR, one.address + PAGE_BYTES - 4, &value);
	CHECK(vector == VECTOR_ISI && journey.srr0 == two.address, "exception %x at %x", vector, journey.srr0);
}
