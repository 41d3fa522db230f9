// SPDX-License-Identifier: GPL-2.0-only
/* Which entry of a set is replaced. */
#include "rules.h"

#define SOURCE "604 table 5-1"

/* Pages of one set, repointed as soon as they are read. */
static struct page set_page(unsigned int n)
{
	return page_stale(3, 0x23 + n * 64, BITS);
}

RULE(301, "a set has two ways", SOURCE, MODEL, "one-way")
{
	struct page one = set_page(0), two = set_page(1);

	EXPECT_OLD(one);
	EXPECT_OLD(two);
}

RULE(302, "the third page of a set replaces the one that was used least recently", SOURCE, MODEL, "replaces-newest")
{
	struct page one = set_page(0), two = set_page(1), three = set_page(2);

	EXPECT_OLD(three);
	EXPECT_OLD(two);
	EXPECT_NEW(one);
}

RULE(303, "a set has no more than two ways", SOURCE, MODEL, "fast-keeps-older")
{
	struct page one = set_page(0), two = set_page(1), three = set_page(2);

	EXPECT_NEW(one);
	EXPECT_NEW(two);
	EXPECT_NEW(three);
}

RULE(304, "a use counts, not only a fill", SOURCE, MODEL, "replaces-oldest")
{
	struct page one = set_page(0), two = set_page(1), three;

	EXPECT_OLD(one);
	three = set_page(2);
	EXPECT_OLD(one);
	EXPECT_OLD(three);
	EXPECT_NEW(two);
}

RULE(305, "every use counts, also one that TCG's TLB could serve", SOURCE, MODEL, "fast-keeps-older")
{
	struct page one = set_page(0), two = set_page(1), three;

	/* By now QEMU would have both. */
	for (unsigned int i = 0; i < 5; i++) {
		EXPECT_OLD(one);
		EXPECT_OLD(two);
	}
	EXPECT_OLD(one);
	three = set_page(2);
	EXPECT_OLD(three);
	EXPECT_OLD(one);
	EXPECT_NEW(two);
}

RULE(306, "every fetch counts as a use", SOURCE, MODEL, "fast-keeps-older")
{
	struct page one = page_stale_code(3, 0x23, BITS), two = page_stale_code(3, 0x63, BITS), three;

	for (unsigned int i = 0; i < 5; i++) {
		EXPECT_CODE(one, OLD);
		EXPECT_CODE(two, OLD);
	}
	EXPECT_CODE(one, OLD);
	three = page_stale_code(3, 0xa3, BITS);
	EXPECT_CODE(three, OLD);
	EXPECT_CODE(one, OLD);
	EXPECT_CODE(two, NEW);
}

RULE(307, "pages of other sets replace nothing", SOURCE, MODEL, "one-set")
{
	struct page page = set_page(0);

	for (unsigned int i = 1; i < 64; i++)
		page_stale(3, 0x23 + i, BITS);
	EXPECT_OLD(page);
}

RULE(308, "a page of another VSID replaces an entry of the same set", MANUAL, MODEL, "vsid-hashes")
{
	struct page page = set_page(0);

	page_stale(4, 0x23, BITS);
	page_stale(5, 0x23, BITS);
	EXPECT_NEW(page);
}

RULE(309, "code replaces no data, and data no code", SOURCE, MODEL, "one-tlb")
{
	struct page one = set_page(0), two = set_page(1);
	struct page code_one = page_stale_code(3, 0x423, BITS), code_two = page_stale_code(3, 0x463, BITS);

	EXPECT_OLD(one);
	EXPECT_OLD(two);
	EXPECT_CODE(code_one, OLD);
	EXPECT_CODE(code_two, OLD);
}

RULE(310, "an access that the entry denies is a use", "ours", MODEL, "denied-is-no-use")
{
	struct page one = page_stale(3, 0x23, PTE_R | PTE_C | PP_NONE), two = set_page(1), three;
	uint32_t value;

	EXPECT_DSI(IS_DENIED, load_try(USER, one.address, &value));
	three = set_page(2);
	EXPECT_OLD(three);
	EXPECT_OLD(one);
	EXPECT_NEW(two);
}

RULE(311, "every branch between pages of a set counts as a use", SOURCE, MODEL, "fast-keeps-older")
{
	struct page one = page_make(3, 0x23, BITS), two = page_make(3, 0x63, BITS), three = page_make(3, 0xa3, BITS);
	uint32_t value;

	/* From one to two and back nine times, and from one to three: two was used least recently. */
	code_put(one.old, 0x100, CODE_LI5(10));
	code_put(one.old, 0x104, CODE_MTCTR5);
	code_put(one.old, 0x108, CODE_BDNZ_OVER);
	code_put(one.old, 0x10c, CODE_B(one.address + 0x10c, three.address));
	code_put(one.old, 0x110, CODE_B(one.address + 0x110, two.address));
	code_put(two.old, 0, CODE_B(two.address, one.address + 0x108));
	code_put(three.old, 0, CODE_LI3(77));
	code_put(three.old, 4, CODE_SC);
	EXPECT_OK(jump_try(SUPERVISOR, one.address + 0x100, &value));
	CHECK(value == 77, "r3 is %u", value);
	page_repoint(&one);
	page_repoint(&two);
	page_repoint(&three);
	EXPECT_CODE(three, OLD);
	EXPECT_CODE(one, OLD);
	EXPECT_CODE(two, NEW);
}
