// SPDX-License-Identifier: GPL-2.0-only
/* What tlbie drops. */
#include "rules.h"

#define SOURCE "604 table 2-46"

RULE(201, "tlbie drops the entry for data", SOURCE, MODEL, "tlbie-keeps-data")
{
	struct page page = page_stale(3, 0x123, BITS);

	tlbie(page.address);
	EXPECT_NEW(page);
}

RULE(202, "tlbie drops the entry for code", SOURCE, MODEL, "tlbie-keeps-code")
{
	struct page page = page_stale_code(3, 0x123, BITS);

	tlbie(page.address);
	EXPECT_CODE(page, NEW);
}

RULE(203, "tlbie drops both ways of a set", SOURCE, MODEL, "tlbie-keeps-older")
{
	struct page one = page_stale(3, 0x123, BITS), two = page_stale(3, 0x163, BITS);
	struct page code_one = page_stale_code(3, 0x1a3, BITS), code_two = page_stale_code(3, 0x1e3, BITS);

	tlbie(two.address);
	EXPECT_NEW(one);
	EXPECT_NEW(two);
	EXPECT_CODE(code_one, NEW);
	EXPECT_CODE(code_two, NEW);
}

RULE(204, "tlbie drops the way of a set that was used last", SOURCE, MODEL, "tlbie-keeps-newer")
{
	struct page one = page_stale(3, 0x123, BITS), two = page_stale(3, 0x163, BITS);

	tlbie(one.address);
	EXPECT_NEW(one);
	EXPECT_NEW(two);
}

RULE(205, "tlbie drops entries of VSIDs that no segment register has", SOURCE, MODEL, "tlbie-needs-vsid")
{
	struct page page = page_stale(3, 0x123, BITS), code = page_stale_code(3, 0x124, BITS);

	segment_write(3, (vsid(3) + 1) | SR_KP);
	tlbie(page.address);
	tlbie(code.address);
	segment_write(3, vsid(3) | SR_KP);
	EXPECT_NEW(page);
	EXPECT_CODE(code, NEW);
}

RULE(206, "tlbie looks at EA[14-19] alone", SOURCE, MODEL, "tlbie-needs-page")
{
	for (unsigned int bit = 18; bit < 32; bit++) {
		struct page page = page_stale(3, 0x123, BITS);

		tlbie(page.address ^ 1u << bit);
		EXPECT_NEW(page);
		page.pte->v = 0;
		tlbie(page.address);
	}
}

RULE(207, "tlbie leaves the other sets", SOURCE, MODEL, "tlbie-drops-all")
{
	struct page before = page_stale(3, 0x122, BITS), after = page_stale(3, 0x124, BITS);
	struct page code = page_stale_code(3, 0x125, BITS);

	tlbie(address_of(3, 0x123));
	EXPECT_OLD(before);
	EXPECT_OLD(after);
	EXPECT_CODE(code, OLD);
}

RULE(208, "64 tlbie, one for each set, empty both TLBs", SOURCE, ORACLE, "tlbie-keeps-last")
{
	for (unsigned int set = 0; set < 64; set++) {
		struct page one = page_make(3, set, BITS), two = page_make(3, 0x1000 + set, BITS);

		EXPECT_OLD(one);
		EXPECT_OLD(two);
		EXPECT_CODE(one, OLD);
		EXPECT_CODE(two, OLD);
	}
	for (unsigned int empty = 0; empty < 2; empty++) {
		CHECK(oracle_count() == (empty ? 0 : 256), "%u entries", oracle_count());
		tlbs_empty();
	}
}

RULE(209, "what tlbie drops is gone in every segment with the VSID", SOURCE, MODEL, "tlbie-keeps-fast")
{
	struct page page = page_make(3, 0x123, BITS);

	segment_write(5, vsid(3) | SR_KP);
	segment_write(9, vsid(3) | SR_KP);
	for (unsigned int segment = 3; segment <= 9; segment += 2)
		if (segment != 7)
			expect(address_of(segment, 0x123), OLD, __LINE__);
	page_repoint(&page);
	tlbie(address_of(12, 0x123));
	/* Loaded again in one of them, so that the model has it. */
	expect(address_of(5, 0x123), NEW, __LINE__);
	expect(address_of(3, 0x123), NEW, __LINE__);
	expect(address_of(9, 0x123), NEW, __LINE__);
}

RULE(210, "what tlbie drops is gone for user mode, too", SOURCE, MODEL, "tlbie-keeps-fast")
{
	struct page page = page_make(3, 0x123, BITS);
	uint32_t value;

	EXPECT_OK(load_try(USER, page.address, &value));
	EXPECT_OLD(page);
	page_repoint(&page);
	tlbie(page.address);
	EXPECT_OK(load_try(USER, page.address, &value));
	CHECK(value == NEW, "read %s", canary_name(value));
	EXPECT_NEW(page);
}

RULE(211, "tlbie is privileged", "OEA, tlbie", MODEL, "tlbie-for-users")
{
	struct page page = page_stale(3, 0x123, BITS);
	uint32_t vector = stub_try(stub_tlbie, MSR_PR, page.address, 0);

	CHECK(vector == VECTOR_PROGRAM, "exception %x", vector);
	EXPECT_OLD(page);
}

RULE(212, "there is no tlbia", "750; 604 table 2-46 has none", MODEL, "tlbia-exists")
{
	struct page page = page_stale(3, 0x123, BITS);
	uint32_t vector = stub_try(stub_tlbia, 0, 0, 0);

	CHECK(vector == VECTOR_PROGRAM, "exception %x", vector);
	EXPECT_OLD(page);
}
