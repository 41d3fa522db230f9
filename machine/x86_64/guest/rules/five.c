// SPDX-License-Identifier: GPL-2.0-only
/* Five-level paging: the same rules, 57 bits. */
#include "rules.h"

#define PAGE_FLAGS (W | U | A | D)
#define ABOVE (5ul << 48)

/* A five-level address space whose first part is a four-level one. */
static uint64_t space5(void)
{
	uint64_t root = page_alloc();

	*(uint64_t *)root = space() | P | W | U | A;
	return root;
}

static void enter(uint64_t root5)
{
	uint64_t pcide = cr4_read() & CR4_PCIDE;

	cr4_write(CR4_BASE);
	CHECK(legacy_trip(CR4_BASE | CR4_LA57, (uint32_t)root5) == 0, "five-level paging cannot be entered");
	if (pcide)
		pcid_on();
}

static struct page page5_make(uint64_t root5, uint64_t address)
{
	struct page page = { .address = address, .pte = entry5(root5, address, 1), .flags = PAGE_FLAGS | P,
			     .old = frame_alloc(OLD), .new = frame_alloc(NEW) };

	*page.pte = page.old | page.flags;
	return page;
}

static struct page page5_stale(uint64_t root5, uint64_t address)
{
	struct page page = page5_make(root5, address);

	EXPECT_OLD(page);
	page_repoint(&page);
	return page;
}

RULE(1101, "five levels: PCIDs above 48 bits are kept and dropped as below", "SDM 3A 4.5, 4.10.4.1", PCID | LA57,
     "noflush-flushes")
{
	uint64_t root = space5();
	struct page page;

	enter(root);
	load_flush(root, 2);
	load_flush(root, 1);
	page = page5_stale(root, ABOVE);
	load_keep(root, 2);
	EXPECT_NEW(page);
	load_keep(root, 1);
	EXPECT_OLD(page);
	load_flush(root, 1);
	EXPECT_NEW(page);
}

RULE(1102, "five levels: addresses that differ in bits 48 to 56 alone are different pages", "SDM 3A 4.5", LA57,
     "tag-48-bits")
{
	uint64_t root = space5();

	enter(root);
	for (unsigned int bit = 48; bit < 56; bit++) {
		struct page low = page5_make(root, window(0)), high = page5_make(root, window(0) | 1ul << bit);

		page_repoint(&high);
		invlpg(low.address);
		EXPECT_OLD(low);
		EXPECT_NEW(high);
		EXPECT_OLD(low);
	}
}

RULE(1103, "five levels: INVLPG and INVPCID type 0 take addresses of 57 bits", "SDM 2A INVPCID, 3A 4.5",
     PCID | INVPCID | LA57, "invpcid-accepts-noncanonical")
{
	uint64_t root = space5();
	struct page page;

	enter(root);
	load_flush(root, 1);
	page = page5_stale(root, ABOVE);
	invlpg(ABOVE);
	EXPECT_NEW(page);
	page = page5_stale(root, ABOVE + PAGE_BYTES);
	EXPECT_OK(invpcid_try(INVPCID_ADDRESS, &(struct invpcid_descriptor){ 1, ABOVE + PAGE_BYTES }));
	EXPECT_NEW(page);
	for (unsigned int bit = 56; bit < 64; bit++)
		EXPECT_FAULT(VECTOR_GP, invpcid_try(INVPCID_ADDRESS, &(struct invpcid_descriptor){ 1, 1ul << bit }));
}

RULE(1104, "five levels: cached PML5Es are used, and dropped by INVLPG", "SDM 3A 4.10.3", LA57 | STRUCTURES | QUIET,
     "invlpg-keeps-structures")
{
	uint64_t root = space5(), other = space5();
	uint64_t first = ABOVE, second = ABOVE + (1ul << 39);
	struct page a, b;

	a = page5_make(root, first);
	b = page5_make(root, second);
	*entry5(other, second, 1) = b.new | b.flags;
	enter(root);
	EXPECT_OLD(a);
	*entry5(root, first, 5) = *entry5(other, first, 5);
	EXPECT_OLD(b);
	invlpg(second);
	EXPECT_NEW(b);
}

RULE(1105, "five levels: user and kernel mode share what was filled", "SDM 3A 4.10.2.2", LA57, "hit-splits-privilege")
{
	uint64_t root = space5(), value;

	enter(root);
	page5_stale(root, ABOVE);
	EXPECT_FAULT(VECTOR_USER, user_read(ABOVE, &value));
	CHECK(value == OLD, "user mode read another frame");
}

RULE(1106, "changing the number of levels drops everything", "SDM 3A 4.10.4.1", LA57, "levels-keep")
{
	uint64_t root = space5(), root4 = *(uint64_t *)root & FRAME_MASK;
	struct page page = page_make(root4, window(0), PAGE_FLAGS | G);

	cr3_write(root4);
	EXPECT_OLD(page);
	page_repoint(&page);
	enter(root);
	EXPECT_NEW(page);
	page_restore(&page);
	cr4_write(CR4_BASE | CR4_LA57);
	legacy_trip(CR4_BASE, (uint32_t)root4);
	EXPECT_OLD(page);
}
