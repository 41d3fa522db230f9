// SPDX-License-Identifier: GPL-2.0-only
/* Loads of CR3: what they keep, what they drop. */
#include "rules.h"

#define PAGE_FLAGS (W | U | A | D)

RULE(201, "a load with bit 63 keeps its PCID's translations", "SDM 3A 4.10.4.1", PCID, "noflush-flushes")
{
	uint64_t root = space();
	struct page page;

	load_flush(root, 1);
	page = page_stale(root, window(0), PAGE_FLAGS);
	load_keep(root, 1);
	EXPECT_OLD(page);
}

RULE(202, "a load without bit 63 drops its PCID's translations", "SDM 3A 4.10.4.1", PCID, "flush-does-nothing")
{
	uint64_t root = space();
	struct page page;

	load_flush(root, 1);
	page = page_stale(root, window(0), PAGE_FLAGS);
	load_flush(root, 1);
	EXPECT_NEW(page);
}

RULE(203, "a load without bit 63 keeps the translations of other PCIDs", "SDM 3A 4.10.4.1", PCID,
     "flush-drops-others")
{
	uint64_t root = space();
	struct page page;

	load_flush(root, 1);
	page = page_stale(root, window(0), PAGE_FLAGS);
	load_flush(root, 2);
	load_keep(root, 1);
	EXPECT_OLD(page);
}

RULE(204, "a load without bit 63 keeps global translations", "SDM 3A 4.10.2.4, 4.10.4.1", PCID, "flush-drops-global")
{
	uint64_t root = space();
	struct page page;

	load_flush(root, 1);
	page = page_stale(root, window(0), PAGE_FLAGS | G);
	load_flush(root, 1);
	EXPECT_OLD(page);
	load_flush(root, 2);
	EXPECT_OLD(page);
}

RULE(205, "a translation of one PCID is not used under another", "SDM 3A 4.10.1", PCID, "pcid-ignored")
{
	uint64_t root = space();
	struct page page;

	load_flush(root, 2);
	load_flush(root, 1);
	page = page_stale(root, window(0), PAGE_FLAGS);
	load_keep(root, 2);
	EXPECT_NEW(page);
	load_keep(root, 1);
	EXPECT_OLD(page);
}

RULE(206, "the PCID, not the root, tags a translation: another root under it, without a flush, uses it",
     "SDM 3A 4.10.1", PCID, "noflush-flushes")
{
	uint64_t root = space(), other = space();
	struct page page = page_make(root, window(0), PAGE_FLAGS);

	*entry(other, window(0), 1) = page.new | page.flags;
	load_flush(root, 1);
	EXPECT_OLD(page);
	load_keep(other, 1);
	EXPECT_OLD(page);
	load_flush(other, 1);
	EXPECT_NEW(page);
}

static void keep_pcids(unsigned int count)
{
	uint64_t root = space();
	struct page pages[16];

	for (unsigned int i = 0; i < count; i++) {
		load_flush(root, 1 + i);
		pages[i] = page_stale(root, window(i * PAGE_BYTES), PAGE_FLAGS);
	}
	for (unsigned int i = 0; i < count; i++) {
		uint64_t value;

		load_keep(root, 1 + i);
		value = load(pages[i].address);
		CHECK(value == OLD, "of %u PCIDs number %u was dropped", count, i);
	}
}

RULE(207, "the translations of 8 PCIDs are kept", "machine.md", PCID | LARGE, "contexts-four")
{
	keep_pcids(8);
}

RULE(208, "of more PCIDs than are kept, the least recently used go first", "machine.md", PCID | LARGE,
     "contexts-four")
{
	enum { COUNT = 200 };
	uint64_t root = space();
	static struct page pages[COUNT];
	unsigned int kept = 0;
	bool is_gone = false;

	for (unsigned int i = 0; i < COUNT; i++)
		pages[i] = page_make(root, window(i * PAGE_BYTES), PAGE_FLAGS);
	for (unsigned int i = 0; i < COUNT; i++) {
		load_flush(root, 1 + i);
		EXPECT_OLD(pages[i]);
	}
	for (unsigned int i = 0; i < COUNT; i++)
		page_repoint(&pages[i]);
	/* From the most recent one backwards: looking at one never drops a more recent one. */
	for (unsigned int i = COUNT; i-- > 0;) {
		load_keep(root, 1 + i);
		if (load(pages[i].address) == OLD) {
			CHECK(!is_gone, "PCID %u was kept, a later one was not", i);
			kept++;
		} else {
			is_gone = true;
		}
	}
	CHECK(kept >= 8, "only %u were kept", kept);
	text("%u kept", kept);
}

RULE(209, "a global translation serves every PCID", "SDM 3A 4.10.2.4", PCID, "global-by-pcid")
{
	uint64_t root = space();
	struct page page;

	load_flush(root, 2);
	load_flush(root, 1);
	page = page_stale(root, window(0), PAGE_FLAGS | G);
	load_keep(root, 2);
	EXPECT_OLD(page);
	load_flush(root, 3);
	EXPECT_OLD(page);
}

RULE(210, "while CR4.PGE is 0 no translation is global", "SDM 3A 4.10.2.4", PCID, "global-without-pge")
{
	uint64_t root = space();
	struct page page;

	cr4_write(cr4_read() & ~CR4_PGE);
	load_flush(root, 1);
	page = page_stale(root, window(0), PAGE_FLAGS | G);
	load_keep(root, 2);
	EXPECT_NEW(page);
	load_flush(root, 1);
	EXPECT_NEW(page);
}

RULE(211, "while CR4.PCIDE is 0 a load drops everything but global translations", "SDM 3A 4.10.4.1", 0,
     "flush-does-nothing")
{
	uint64_t root = space();
	struct page page, global;

	cr3_write(root);
	page = page_stale(root, window(0), PAGE_FLAGS);
	global = page_stale(root, window(PAGE_BYTES), PAGE_FLAGS | G);
	cr3_write(root);
	EXPECT_NEW(page);
	EXPECT_OLD(global);
}

RULE(212, "global is what the entry that maps the page says, not those above it", "SDM 3A 4.10.2.4", PCID,
     "global-by-directory")
{
	uint64_t root = space();
	struct page page;

	load_flush(root, 1);
	page = page_make(root, window(0), PAGE_FLAGS);
	*entry(root, window(0), 2) |= G;
	EXPECT_OLD(page);
	page_repoint(&page);
	load_keep(root, 2);
	EXPECT_NEW(page);
}

RULE(213, "a translation survives a switch to another PCID and back, many times", "SDM 3A 4.10.4.1", PCID | LARGE,
     "noflush-flushes")
{
	uint64_t root = space(), other = space();
	struct page page = page_make(root, window(0), PAGE_FLAGS);

	*entry(other, window(0), 1) = page.new | page.flags;
	load_flush(other, 2);
	EXPECT_NEW(page);
	load_flush(root, 1);
	EXPECT_OLD(page);
	/* Both stand for the other one's frame from now on. */
	page_repoint(&page);
	*entry(other, window(0), 1) = page.old | page.flags;
	for (unsigned int i = 0; i < 100; i++) {
		load_keep(other, 2);
		EXPECT_NEW(page);
		load_keep(root, 1);
		EXPECT_OLD(page);
	}
}

RULE(214, "large pages are kept and dropped by PCID as small ones are", "SDM 3A 4.10.1", PCID, "noflush-flushes")
{
	uint64_t root = space();
	uint64_t old = frame_alloc_2m(OLD), new = frame_alloc_2m(NEW);
	volatile uint64_t *pde = entry(root, window(0), 2);

	*pde = old | P | PS | PAGE_FLAGS;
	load_flush(root, 2);
	load_flush(root, 1);
	expect(window(0), OLD, __LINE__);
	*pde = new | P | PS | PAGE_FLAGS;
	load_keep(root, 1);
	/* Another part of the page: one translation covers it all. */
	expect(window(PAGE_2M - 8), OLD, __LINE__);
	load_flush(root, 2);
	expect(window(0), NEW, __LINE__);
	load_flush(root, 1);
	expect(window(PAGE_2M - 8), NEW, __LINE__);
}
