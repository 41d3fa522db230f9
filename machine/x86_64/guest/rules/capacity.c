// SPDX-License-Identifier: GPL-2.0-only
/* A TLB that ends: what is displaced is gone. Bounded: 64 entries in sets of 8. */
#include "rules.h"

#define PAGE_FLAGS (W | U | A | D)
#define ENTRIES 64
#define WAYS 8
#define MANY 1024

/* `count` pages in a row, all of the same frame. */
static void many_map(uint64_t root, uint64_t first, unsigned int count, uint64_t frame)
{
	for (unsigned int i = 0; i < count; i++)
		*entry(root, first + i * PAGE_BYTES, 1) = frame | P | PAGE_FLAGS;
}

static void many_touch(uint64_t first, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		load(first + i * PAGE_BYTES);
}

/* From the last one backwards: what this fills displaces nothing that is still to be looked at. */
static unsigned int many_old(uint64_t first, unsigned int count)
{
	unsigned int old = 0;

	for (unsigned int i = count; i-- > 0;)
		old += load(first + i * PAGE_BYTES) == OLD;
	return old;
}

static unsigned int kept_of(unsigned int count)
{
	uint64_t root = space(), old = frame_alloc(OLD), new = frame_alloc(NEW);

	cr3_write(root);
	many_map(root, window(0), count, old);
	many_touch(window(0), count);
	many_map(root, window(0), count, new);
	return many_old(window(0), count);
}

RULE(1001, "of many pages no more are kept than there are entries", "machine.md", BOUNDED, "capacity-ignored")
{
	unsigned int kept = kept_of(MANY);

	CHECK(kept <= ENTRIES, "%u of %u were kept", kept, MANY);
	CHECK(kept >= ENTRIES / 4, "only %u were kept", kept);
	text("%u kept", kept);
}

/* The set of a page, from the page number's low bits, three at a time; what is above nine of them does not count. */
static unsigned int set_of(uint64_t page)
{
	return (page ^ page >> 3 ^ page >> 6) & (ENTRIES / WAYS - 1);
}

RULE(1002, "what was displaced is really gone: no faster way to it is left", "machine.md", BOUNDED,
     "eviction-keeps-fast")
{
	uint64_t root = space();
	unsigned int others = 0;
	struct page page;

	cr3_write(root);
	/* Few, and of numbers that nothing else here has, so that nothing but the set's end drops the page. */
	page = page_stale(root, window(0x2b * PAGE_BYTES), PAGE_FLAGS);
	for (unsigned int i = 0x30; others < WAYS + 2; i++)
		if (set_of(i) == set_of(0x2b) && i % 64 != 0x2b) {
			page_make(root, window(i * PAGE_BYTES), PAGE_FLAGS);
			load(window(i * PAGE_BYTES));
			others++;
		}
	EXPECT_NEW(page);
}

RULE(1003, "half as many pages in a row as there are entries are all kept", "machine.md", BOUNDED | QUIET,
     "tlb-entries=16")
{
	unsigned int kept = kept_of(ENTRIES / 2);

	CHECK(kept == ENTRIES / 2, "%u of %u were kept", kept, ENTRIES / 2);
}

RULE(1004, "a set holds as many pages as it has ways, and the one filled longest ago makes room", "machine.md",
     BOUNDED | QUIET, "capacity-ignored")
{
	uint64_t root = space();
	struct page pages[WAYS + 1];

	/* 2 MiB apart: in one set, and in none that the kernel uses. */
	for (unsigned int i = 0; i <= WAYS; i++)
		pages[i] = page_make(root, window(i * PAGE_2M + 5 * PAGE_BYTES), PAGE_FLAGS);
	cr3_write(root);
	for (unsigned int i = 0; i < WAYS; i++)
		EXPECT_OLD(pages[i]);
	/* A hit does not make it younger. */
	EXPECT_OLD(pages[0]);
	EXPECT_OLD(pages[WAYS]);
	for (unsigned int i = 0; i <= WAYS; i++)
		page_repoint(&pages[i]);
	for (unsigned int i = 1; i <= WAYS; i++)
		EXPECT_OLD(pages[i]);
	EXPECT_NEW(pages[0]);
}

RULE(1005, "code whose translation was displaced is fetched anew", "machine.md", BOUNDED, "eviction-keeps-fast")
{
	uint64_t root = space(), value;
	struct page page = page_make(root, window(0), PAGE_FLAGS);

	store(page.old, 0xb8ul | 11ul << 8 | 0xc3ul << 40);
	store(page.new, 0xb8ul | 22ul << 8 | 0xc3ul << 40);
	cr3_write(root);
	for (unsigned int i = 0; i < 3; i++) {
		EXPECT_OK(exec_try(page.address, &value));
		CHECK(value == 11, "other code was executed");
	}
	page_repoint(&page);
	many_map(root, window(PAGE_2M), MANY, page.old);
	many_touch(window(PAGE_2M), MANY);
	EXPECT_OK(exec_try(page.address, &value));
	CHECK(value == 22, "the old code was executed");
}

RULE(1006, "translations of other PCIDs are displaced, too", "machine.md", PCID | BOUNDED, "capacity-ignored")
{
	uint64_t root = space();
	struct page page;

	load_flush(root, 1);
	page = page_stale(root, window(0), PAGE_FLAGS);
	load_flush(root, 2);
	many_map(root, window(PAGE_2M), MANY, page.old);
	many_touch(window(PAGE_2M), MANY);
	load_keep(root, 1);
	EXPECT_NEW(page);
}

RULE(1007, "global and large translations are displaced, too", "machine.md", BOUNDED, "capacity-ignored")
{
	uint64_t root = space();
	uint64_t old = frame_alloc_2m(OLD), new = frame_alloc_2m(NEW);
	volatile uint64_t *pde = entry(root, window(PAGE_1G), 2);
	struct page page;

	cr3_write(root);
	page = page_stale(root, window(0), PAGE_FLAGS | G);
	*pde = old | P | PS | PAGE_FLAGS;
	expect(window(PAGE_1G), OLD, __LINE__);
	*pde = new | P | PS | PAGE_FLAGS;
	many_map(root, window(PAGE_2M), MANY, page.old);
	many_touch(window(PAGE_2M), MANY);
	EXPECT_NEW(page);
	expect(window(PAGE_1G), NEW, __LINE__);
}

RULE(1008, "a large TLB keeps thousands of pages", "machine.md", LARGE | QUIET, "tlb-entries=64")
{
	unsigned int kept = kept_of(4096);

	CHECK(kept == 4096, "%u of 4096 were kept", kept);
}
