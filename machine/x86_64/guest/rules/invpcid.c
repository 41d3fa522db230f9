// SPDX-License-Identifier: GPL-2.0-only
/* INVPCID: four kinds of flushes, and its faults. */
#include "rules.h"

#define PAGE_FLAGS (W | U | A | D)
#define INVPCID_RULE "SDM 3A 4.10.4.1, 2A INVPCID"

/* A page cached under PCID 1, another one under PCID 2, and a global one. */
struct three {
	uint64_t root;
	struct page one, two, neighbour, global;
};

static void three_make(struct three *t)
{
	t->root = space();
	load_flush(t->root, 2);
	t->two = page_stale(t->root, window(0), PAGE_FLAGS);
	load_flush(t->root, 1);
	t->one = page_make(t->root, window(PAGE_2M), PAGE_FLAGS);
	/* `one` and `two` share the address, and so the entry: under PCID 2 it means OLD by now. */
	t->one.address = window(0);
	t->one.pte = t->two.pte;
	t->one.old = t->two.old;
	t->one.new = t->two.new;
	page_restore(&t->one);
	load_flush(t->root, 1);
	EXPECT_OLD(t->one);
	page_repoint(&t->one);
	t->neighbour = page_stale(t->root, window(PAGE_BYTES), PAGE_FLAGS);
	t->global = page_stale(t->root, window(2 * PAGE_BYTES), PAGE_FLAGS | G);
}

#define EXPECT_THREE(t, one_, two_, neighbour_, global_) do { \
	load_keep((t)->root, 1); \
	expect((t)->one.address, one_, __LINE__); \
	expect((t)->neighbour.address, neighbour_, __LINE__); \
	expect((t)->global.address, global_, __LINE__); \
	load_keep((t)->root, 2); \
	expect((t)->two.address, two_, __LINE__); \
} while (0)

RULE(401, "INVPCID type 0 drops one address of the current PCID", INVPCID_RULE, PCID | INVPCID,
     "invpcid-address-does-nothing")
{
	struct three t;

	three_make(&t);
	invpcid(INVPCID_ADDRESS, 1, window(0x123));
	EXPECT_THREE(&t, NEW, OLD, OLD, OLD);
}

RULE(402, "INVPCID type 0 drops one address of a PCID that is not the current one", INVPCID_RULE, PCID | INVPCID,
     "invpcid-address-wrong-pcid")
{
	struct three t;

	three_make(&t);
	invpcid(INVPCID_ADDRESS, 2, window(0));
	EXPECT_THREE(&t, OLD, NEW, OLD, OLD);
}

RULE(403, "INVPCID type 0 keeps a global page", INVPCID_RULE, PCID | INVPCID, "invpcid-address-drops-global")
{
	struct three t;

	three_make(&t);
	invpcid(INVPCID_ADDRESS, 1, window(2 * PAGE_BYTES));
	invpcid(INVPCID_ADDRESS, 2, window(2 * PAGE_BYTES));
	EXPECT_THREE(&t, OLD, OLD, OLD, OLD);
}

RULE(404, "INVPCID type 1 drops all of a PCID but global pages, whatever the address", INVPCID_RULE, PCID | INVPCID,
     "invpcid-context-does-nothing")
{
	struct three t;

	three_make(&t);
	invpcid(INVPCID_CONTEXT, 1, 1ul << 50);
	EXPECT_THREE(&t, NEW, OLD, NEW, OLD);
}

RULE(405, "INVPCID type 1 works on a PCID that is not the current one", INVPCID_RULE, PCID | INVPCID,
     "invpcid-context-does-nothing")
{
	struct three t;

	three_make(&t);
	invpcid(INVPCID_CONTEXT, 2, 0);
	EXPECT_THREE(&t, OLD, NEW, OLD, OLD);
}

RULE(406, "INVPCID type 1 keeps global pages", INVPCID_RULE, PCID | INVPCID, "invpcid-context-drops-global")
{
	struct three t;

	three_make(&t);
	invpcid(INVPCID_CONTEXT, 1, 0);
	invpcid(INVPCID_CONTEXT, 2, 0);
	invpcid(INVPCID_CONTEXT, 3, 0);
	EXPECT_THREE(&t, NEW, NEW, NEW, OLD);
}

RULE(407, "INVPCID type 2 drops all PCIDs and global pages", INVPCID_RULE, PCID | INVPCID, "invpcid-all-keeps-global")
{
	struct three t;

	three_make(&t);
	invpcid(INVPCID_ALL_GLOBAL, 0, 0);
	EXPECT_THREE(&t, NEW, NEW, NEW, NEW);
}

RULE(408, "INVPCID type 3 drops all PCIDs and keeps global pages", INVPCID_RULE, PCID | INVPCID,
     "invpcid-all-drops-global")
{
	struct three t;

	three_make(&t);
	invpcid(INVPCID_ALL, 0, 0);
	EXPECT_THREE(&t, NEW, NEW, NEW, OLD);
}

RULE(409, "INVPCID of a type above 3: #GP; all 64 bits of the register count", "SDM 2A INVPCID", INVPCID,
     "invpcid-accepts-type")
{
	static const struct invpcid_descriptor descriptor;

	EXPECT_FAULT(VECTOR_GP, invpcid_try(4, &descriptor));
	EXPECT_FAULT(VECTOR_GP, invpcid_try(~0ul, &descriptor));
	for (unsigned int bit = 2; bit < 64; bit++)
		EXPECT_FAULT(VECTOR_GP, invpcid_try(1ul << bit | INVPCID_ALL, &descriptor));
	EXPECT_OK(invpcid_try(INVPCID_ALL, &descriptor));
}

RULE(410, "INVPCID with bits 63:12 of its descriptor set: #GP, for every type", "SDM 2A INVPCID", PCID | INVPCID,
     "invpcid-accepts-reserved")
{
	for (uint64_t type = 0; type < 4; type++)
		for (unsigned int bit = 12; bit < 64; bit++) {
			struct invpcid_descriptor descriptor = { 1ul << bit, 0 };

			EXPECT_FAULT(VECTOR_GP, invpcid_try(type, &descriptor));
		}
}

RULE(411, "INVPCID type 0 with an address that is not canonical: #GP; other types do not look at it",
     "SDM 2A INVPCID",
     PCID | INVPCID, "invpcid-accepts-noncanonical")
{
	for (unsigned int bit = 47; bit < 64; bit++) {
		struct invpcid_descriptor descriptor = { 0, 1ul << bit };

		EXPECT_FAULT(VECTOR_GP, invpcid_try(INVPCID_ADDRESS, &descriptor));
		for (uint64_t type = 1; type < 4; type++)
			EXPECT_OK(invpcid_try(type, &descriptor));
	}
	EXPECT_OK(invpcid_try(INVPCID_ADDRESS, &(struct invpcid_descriptor){ 0, ~0ul << 47 }));
}

RULE(412, "INVPCID types 0 and 1 with a PCID while CR4.PCIDE is 0: #GP; types 2 and 3 do not look at it",
     "SDM 2A INVPCID", PCID | INVPCID, "invpcid-accepts-pcid")
{
	cpu_settle();
	for (unsigned int bit = 0; bit < 12; bit++) {
		struct invpcid_descriptor descriptor = { 1ul << bit, 0 };

		EXPECT_FAULT(VECTOR_GP, invpcid_try(INVPCID_ADDRESS, &descriptor));
		EXPECT_FAULT(VECTOR_GP, invpcid_try(INVPCID_CONTEXT, &descriptor));
		EXPECT_OK(invpcid_try(INVPCID_ALL_GLOBAL, &descriptor));
		EXPECT_OK(invpcid_try(INVPCID_ALL, &descriptor));
	}
}

RULE(413, "INVPCID in user mode: #GP, and nothing is dropped", "SDM 2A INVPCID", PCID | INVPCID,
     "invpcid-accepts-user")
{
	struct three t;

	three_make(&t);
	load_keep(t.root, 1);
	/* The stack of user mode is readable there and zero: a valid descriptor. */
	for (uint64_t type = 0; type < 5; type++)
		EXPECT_FAULT(VECTOR_GP, user_invpcid(type, (void *)USER_STACK));
	EXPECT_THREE(&t, OLD, OLD, OLD, OLD);
}

RULE(414, "INVPCID whose descriptor cannot be read: #PF with its address, #GP if that is not canonical",
     "SDM 2A INVPCID", INVPCID, "stock")
{
	uint64_t root = space();
	struct page page = page_make(root, window(0), PAGE_FLAGS);

	frame_fill(page.old, 0);
	cr3_write(root);
	EXPECT_PF(0, invpcid_try(INVPCID_ALL, (void *)window(PAGE_2M)));
	CHECK(cr2_read() == window(PAGE_2M), "CR2 is %lx", cr2_read());
	EXPECT_FAULT(VECTOR_GP, invpcid_try(INVPCID_ALL, (void *)(1ul << 60)));
	EXPECT_OK(invpcid_try(INVPCID_ALL, (void *)window(PAGE_BYTES - 16)));
}

RULE(415, "INVPCID reads 16 bytes: a descriptor that crosses into a page that is not there: #PF", "SDM 2A INVPCID",
     INVPCID, "invpcid-reads-pcid-alone")
{
	uint64_t root = space();
	struct page page = page_make(root, window(0), PAGE_FLAGS);

	frame_fill(page.old, 0);
	cr3_write(root);
	for (uint64_t type = 0; type < 4; type++)
		EXPECT_PF(0, invpcid_try(type, (void *)window(PAGE_BYTES - 8)));
	CHECK(cr2_read() == window(PAGE_BYTES), "CR2 is %lx", cr2_read());
}

RULE(416, "INVPCID with a register instead of memory: #UD", "SDM 2A INVPCID", INVPCID, "invpcid-accepts-register")
{
	EXPECT_FAULT(VECTOR_UD, TRY(".byte 0x66, 0x0f, 0x38, 0x82, 0xc8", : : : "memory"));
}

RULE(417, "INVPCID works while CR4.PCIDE is 0, on PCID 0", "SDM 2A INVPCID", INVPCID, "invpcid-address-does-nothing")
{
	uint64_t root = space();
	struct page page, neighbour;

	cpu_settle();
	cr3_write(root);
	page = page_stale(root, window(0), PAGE_FLAGS);
	neighbour = page_stale(root, window(PAGE_BYTES), PAGE_FLAGS);
	invpcid(INVPCID_ADDRESS, 0, window(0));
	EXPECT_NEW(page);
	EXPECT_OLD(neighbour);
	invpcid(INVPCID_CONTEXT, 0, 0);
	EXPECT_NEW(neighbour);
}

RULE(418, "a fault of INVPCID drops nothing", "SDM 2A INVPCID", PCID | INVPCID, "stock")
{
	struct three t;

	three_make(&t);
	invpcid_try(4, &(struct invpcid_descriptor){ 0, 0 });
	invpcid_try(INVPCID_ALL_GLOBAL, &(struct invpcid_descriptor){ 1ul << 63, 0 });
	invpcid_try(INVPCID_ADDRESS, &(struct invpcid_descriptor){ 1, window(0) | 1ul << 60 });
	EXPECT_THREE(&t, OLD, OLD, OLD, OLD);
}

RULE(419, "INVPCID drops large pages by any address in them", INVPCID_RULE, PCID | INVPCID, "invpcid-ignores-size")
{
	uint64_t root = space();
	uint64_t old = frame_alloc_2m(OLD), new = frame_alloc_2m(NEW);
	volatile uint64_t *pde = entry(root, window(0), 2);

	for (uint64_t pcid = 1; pcid < 3; pcid++) {
		*pde = old | P | PS | PAGE_FLAGS;
		load_flush(root, 2);
		expect(window(0), OLD, __LINE__);
		expect(window(PAGE_2M - PAGE_BYTES), OLD, __LINE__);
		*pde = new | P | PS | PAGE_FLAGS;
		load_flush(root, 1);
		expect(window(0), NEW, __LINE__);
		invpcid(INVPCID_ADDRESS, pcid, window(PAGE_BYTES * 100));
		load_keep(root, 2);
		expect(window(0), pcid == 2 ? NEW : OLD, __LINE__);
		expect(window(PAGE_2M - PAGE_BYTES), pcid == 2 ? NEW : OLD, __LINE__);
	}
}
