// SPDX-License-Identifier: GPL-2.0-only
/* INVLPG: one page of the current PCID, and global pages. */
#include "rules.h"

#define PAGE_FLAGS (W | U | A | D)

RULE(301, "INVLPG drops its page in the current PCID", "SDM 3A 4.10.4.1", 0, "invlpg-does-nothing")
{
	uint64_t root = space();
	struct page page;

	cr3_write(root);
	page = page_stale(root, window(0), PAGE_FLAGS);
	/* Any address in the page will do. */
	invlpg(window(0xabc));
	EXPECT_NEW(page);
}

RULE(302, "INVLPG keeps the other pages", "SDM 3A 4.10.4.1", 0, "invlpg-drops-all")
{
	uint64_t root = space();
	struct page before, after;

	cr3_write(root);
	before = page_stale(root, window(0), PAGE_FLAGS);
	after = page_stale(root, window(2 * PAGE_BYTES), PAGE_FLAGS);
	invlpg(window(PAGE_BYTES));
	EXPECT_OLD(before);
	EXPECT_OLD(after);
}

RULE(303, "INVLPG keeps the same page of other PCIDs", "SDM 3A 4.10.4.1", PCID, "invlpg-drops-others")
{
	uint64_t root = space();
	struct page page;

	load_flush(root, 2);
	page = page_stale(root, window(0), PAGE_FLAGS);
	load_flush(root, 1);
	invlpg(window(0));
	EXPECT_NEW(page);
	load_keep(root, 2);
	EXPECT_OLD(page);
}

RULE(304, "INVLPG drops a global page, whichever PCID filled it", "SDM 3A 4.10.4.1", PCID, "invlpg-keeps-global")
{
	uint64_t root = space();
	struct page page;

	load_flush(root, 2);
	page = page_stale(root, window(0), PAGE_FLAGS | G);
	load_flush(root, 1);
	EXPECT_OLD(page);
	invlpg(window(0));
	EXPECT_NEW(page);
	load_keep(root, 2);
	EXPECT_NEW(page);
}

static void large(uint64_t old, uint64_t new, uint64_t size, unsigned int level, uint64_t flags)
{
	static const uint64_t parts[] = { 0, PAGE_BYTES, 0x7f, PAGE_2M - PAGE_BYTES };
	uint64_t root = space();
	volatile uint64_t *slot = entry(root, window(0), level);

	cr3_write(root);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		*slot = old | P | PS | flags;
		invlpg(window(0));
		/* Several parts are in use. */
		expect(window(0), OLD, __LINE__);
		expect(window(PAGE_2M - PAGE_BYTES), OLD, __LINE__);
		*slot = new | P | PS | flags;
		expect(window(0), OLD, __LINE__);
		invlpg(window(parts[i]));
		expect(window(PAGE_2M - PAGE_BYTES), NEW, __LINE__);
		expect(window(0), NEW, __LINE__);
	}
	if (size == PAGE_2M)
		return;
	*slot = old | P | PS | flags;
	invlpg(window(size - 1));
	expect(window(0), OLD, __LINE__);
	expect(window(PAGE_2M - PAGE_BYTES), OLD, __LINE__);
}

RULE(305, "INVLPG of any address in a 2 MiB page drops all of it", "SDM 3A 4.10.4.1", 0, "invlpg-ignores-size")
{
	uint64_t old = frame_alloc_2m(OLD), new = frame_alloc_2m(NEW);

	large(old, new, PAGE_2M, 2, PAGE_FLAGS);
	large(old, new, PAGE_2M, 2, PAGE_FLAGS | G);
}

/* Two frames of 1 GiB: the one that the image lies in, and the one above. */
static void large_frames_1g(uint64_t *old, uint64_t *new)
{
	*old = 0;
	*new = PAGE_1G;
	/* Nothing of ours lies there, and the BIOS has done its work. */
	store(0, OLD);
	store(PAGE_2M - PAGE_BYTES, OLD);
	store(PAGE_1G, NEW);
	store(PAGE_1G + PAGE_2M - PAGE_BYTES, NEW);
}

RULE(306, "INVLPG of any address in a 1 GiB page drops all of it", "SDM 3A 4.10.4.1", 0, "invlpg-ignores-size")
{
	uint64_t old, new;

	large_frames_1g(&old, &new);
	large(old, new, PAGE_1G, 3, PAGE_FLAGS);
	large(old, new, PAGE_1G, 3, PAGE_FLAGS | G);
}

RULE(307, "INVLPG of an address that is not canonical does nothing and does not fault", "SDM 2A INVLPG", 0,
     "invlpg-truncates")
{
	uint64_t root = space();
	struct page page;

	cr3_write(root);
	page = page_stale(root, window(0), PAGE_FLAGS);
	EXPECT_OK(TRY("invlpg (%0)", : : "r"(window(0) | 1ul << 60) : "memory"));
	EXPECT_OLD(page);
}

RULE(308, "INVLPG in user mode: #GP, and nothing is dropped", "SDM 2A INVLPG", 0, "invlpg-accepts-user")
{
	uint64_t root = space();
	struct page page;

	cr3_write(root);
	page = page_stale(root, window(0), PAGE_FLAGS);
	EXPECT_FAULT(VECTOR_GP, user_invlpg(window(0)));
	EXPECT_OLD(page);
}

RULE(309, "an entry is used although it is no longer present, until INVLPG", "SDM 3A 4.10.2.3, 4.10.4.1", 0,
     "invlpg-does-nothing")
{
	uint64_t root = space(), value;
	struct page page = page_make(root, window(0), PAGE_FLAGS);

	cr3_write(root);
	EXPECT_OLD(page);
	*page.pte = 0;
	EXPECT_OLD(page);
	invlpg(window(0));
	EXPECT_PF(0, load_try(window(0), &value));
	CHECK(cr2_read() == window(0), "CR2 is %lx", cr2_read());
}

RULE(310, "an entry that is not present is not cached: no flush is needed to make it present", "SDM 3A 4.10.4.3", 0,
     "caches-not-present")
{
	uint64_t root = space(), value;
	struct page page = page_make(root, window(0), PAGE_FLAGS);

	*page.pte = 0;
	cr3_write(root);
	EXPECT_PF(0, load_try(window(0), &value));
	page_restore(&page);
	EXPECT_OLD(page);
}
