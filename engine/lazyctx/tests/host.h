/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What flow.h asks its host for: hash table, TLB, segment registers and page tables of the model. */
#ifndef HOST_H
#define HOST_H

#include <string.h>

#include "model.h"

#define lazyctx_space	space
#define LAZYCTX_OWES	1
#define LAZYCTX_NO_PAGE	(1u << 31)
#define lazyctx_id(space)	((space)->id)
#define lazyctx_owes(space)	((space)->owes)

static u32 *lazyctx_table(void)
{
	return &now.table[0].word;
}

static void lazyctx_flush_tlb(void)
{
	memset(now.tlb, 0, sizeof(now.tlb));
}

static void lazyctx_load_segments(struct space *space)
{
	bool is_active = space == &now.space[now.active];

	if (lazyctx_must_load(is_active, !now.user))
		now.segments = space->id;
}

static void drop_tlb(u32 page)
{
	u32 i;

	for (i = 0; i < TLBS; i++) {
		/* A set, whatever the id. */
		if (now.tlb[i].valid && now.tlb[i].page == page)
			memset(&now.tlb[i], 0, sizeof(now.tlb[i]));
	}
}

static u32 word_of(u32 id, u32 page)
{
	return LAZYCTX_VALID | lazyctx_vsid(id, 0) << LAZYCTX_VSID_SHIFT | page;
}

static struct slot *find_slot(u32 id, u32 page)
{
	u32 i;

	for (i = 0; i < SLOTS; i++) {
		if (now.table[i].word == word_of(id, page))
			return &now.table[i];
	}
	return NULL;
}

static void lazyctx_flush_pages(struct space *space, u32 start, u32 end)
{
	for (; start < end; start++) {
		struct slot *slot = find_slot(space->id, start);

		if (!space->pte[start].hashed)
			continue;
		space->pte[start].hashed = 0;
		if (slot)
			memset(slot, 0, sizeof(*slot));
		drop_tlb(start);
	}
}

static void lazyctx_forget_pages(struct space *space, u32 start, u32 end)
{
	for (; start < end; start++)
		space->pte[start].hashed = 0;
}

static u32 lazyctx_first_hashed(struct space *space, u32 start, u32 end)
{
	while (start < end && !space->pte[start].hashed)
		start++;
	return start;
}

static bool is_held(u32 id)
{
	u32 i;

	for (i = 0; i < TLBS; i++) {
		if (now.tlb[i].valid && now.tlb[i].id == id)
			return true;
	}
	for (i = 0; i < SLOTS; i++) {
		if (now.table[i].word & LAZYCTX_VALID && lazyctx_entry_id(now.table[i].word) == id)
			return true;
	}
	return false;
}

static void lazyctx_check_id(u32 id)
{
	if (is_held(id))
		fail("an id is used again, and has an entry");
}

static void lazyctx_check_space(struct space *space)
{
	if (is_held(space->id))
		fail("a space was flushed, and its id has an entry");
}

static void check_gone(struct space *space)
{
	if (is_held(space->id))
		fail("a space is gone, and its id has an entry");
}

static void lazyctx_check_marks(struct space *space, u32 start, u32 end)
{
	if (lazyctx_first_hashed(space, start, end) != end)
		fail("a page was flushed, and has HASHPTE");
}

static void lazyctx_check_page(struct space *space, u32 page)
{
	u32 i;

	for (i = 0; i < TLBS; i++) {
		if (now.tlb[i].valid && now.tlb[i].id == space->id && now.tlb[i].page == page)
			fail("a page was flushed, and has an entry");
	}
	if (find_slot(space->id, page))
		fail("a page was flushed, and has an entry");
}

#endif
