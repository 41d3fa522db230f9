// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The steps of the kernel, of hardware and of the programs. */

#include <stdio.h>
#include <string.h>

#include "model.h"

#include "host.h"
#include "flow.h"

static struct lazyctx lc;
static u32 used, live, leaving;
static u32 worn;	/* counted alone: no part of the state */

/* The engine's part of the state, in and out. */
static void load(void)
{
	used = now.used;
	live = now.live;
	leaving = now.leaving;
	lc.ids = (struct lazyctx_ids) {
		.used = &used, .live = &live, .leaving = &leaving, .worn = &worn, .words = 1,
		/* The lowest free id, always: what was retired comes back as soon as it can. */
		.end = IDS, .next = 1, .zombies = now.zombies, .leavers = now.leavers,
		.pass = (enum lazyctx_pass)now.pass,
	};
	lc.policy.renews = now.renews;
	lc.cursor = now.cursor;
	lc.run = (struct lazyctx_run) { .end = LAZYCTX_NO_PAGE };
	lc.owing = now.owing;
}

static void store(void)
{
	now.used = (uint8_t)used;
	now.live = (uint8_t)live;
	now.leaving = (uint8_t)leaving;
	now.zombies = (uint8_t)lc.ids.zombies;
	now.leavers = (uint8_t)lc.ids.leavers;
	now.pass = (uint8_t)lc.ids.pass;
	now.cursor = (uint8_t)lc.cursor;
	now.owing = (uint8_t)lc.owing;
}

static void free_frame(u32 frame)
{
	now.used_frames &= (uint8_t)~(1u << frame);
}

static u32 new_frame(void)
{
	u32 i;

	for (i = 0; i < FRAMES; i++) {
		if (!(now.used_frames >> i & 1)) {
			now.used_frames |= (uint8_t)(1u << i);
			return i;
		}
	}
	return NO_FRAME;
}

/* create_hpte(): @searches if the PTE had HASHPTE. */
static void create_entry(u32 id, u32 page, const struct pte *pte, bool searches)
{
	struct slot *slot = NULL;
	u32 i;

	if (searches) {
		drop_tlb(page);
		slot = find_slot(id, page);
	}
	for (i = 0; i < SLOTS && !slot; i++) {
		if (!(now.table[i].word & LAZYCTX_VALID))
			slot = &now.table[i];
	}
	if (!slot)
		slot = &now.table[choose(SLOTS)];
	slot->word = word_of(id, page);
	slot->frame = pte->frame | (u32)pte->write << 8;
}

/* The fault handler: what hash_page() cannot do. A program's access alone comes here. */
static void page_fault(struct space *space, u32 page, bool write)
{
	struct pte *pte = &space->pte[page];
	u32 frame;

	/* Whoever changes or copies the space keeps others out. */
	if (space->doing != NOTHING_DONE || (pte->present && !write))
		return;
	frame = new_frame();
	if (frame == NO_FRAME)
		return;
	if (pte->present) {
		/* It was copied, or is read-only: a copy, and nobody has the old one. ptep_clear_flush(). */
		u32 old = pte->frame;

		pte->present = 0;
		lazyctx_flush_one(&lc, space, page);
		free_frame(old);
	}
	pte->present = 1;
	pte->frame = (uint8_t)frame;
	pte->write = 1;
	if (!pte->hashed) {
		pte->hashed = 1;
		create_entry(space->id, page, pte, false);
	}
}

static void use(const struct entry *entry, bool write)
{
	const struct pte *pte = &now.space[now.active].pte[entry->page];

	if (!(now.used_frames >> entry->frame & 1))
		fail("a page is used that was freed");
	if (pte->gone && pte->frame == entry->frame)
		return;
	if (!pte->present || pte->frame != entry->frame)
		fail("another page is used than the page table says");
	if (write && !pte->write && !pte->pending)
		fail("a page is written that is read-only");
}

/* An access of a program; or of the kernel on behalf of nobody, which gives up at a fault. */
static void access_page(void)
{
	struct space *space = &now.space[now.active];
	u32 page = choose(PAGES), i;
	bool write = now.user && choose(2), had;
	struct pte *pte = &space->pte[page];
	struct slot *slot;

	for (i = 0; i < TLBS; i++) {
		struct entry *entry = &now.tlb[i];

		if (!entry->valid || entry->id != now.segments || entry->page != page)
			continue;
		if (!write || entry->write) {
			use(entry, write);
			return;
		}
		goto hash_page;
	}
	slot = find_slot(now.segments, page);
	if (slot && (!write || slot->frame >> 8)) {
		struct entry *entry = &now.tlb[choose(TLBS)];

		*entry = (struct entry) { 1, now.segments, (uint8_t)page, slot->frame & 0xff, slot->frame >> 8 };
		use(entry, write);
		return;
	}
hash_page:
	if (pte->present && (!write || pte->write)) {
		had = pte->hashed;
		pte->hashed = 1;
		create_entry(now.segments, page, pte, had);
	} else if (now.user) {
		page_fault(space, page, write);
	}
}

static void note(struct space *space, u32 page, bool is_exit)
{
	if (space->pte[page].hashed && !lazyctx_note_next(&lc.run, page))
		lazyctx_note_page(&lc, space, page, is_exit);
}

static void drop_run(struct space *space, u32 pages, bool is_exit)
{
	u32 i;

	if (lc.policy.renews)
		lazyctx_open_run(&lc);
	for (i = 0; i < PAGES; i++) {
		if (pages >> i & 1 && space->pte[i].present) {
			space->pte[i].present = 0;
			space->pte[i].gone = 1;
			note(space, i, is_exit);
		}
	}
	lazyctx_close_run(&lc);
}

/* They were flushed. */
static void free_gone(struct space *space)
{
	u32 i;

	for (i = 0; i < PAGES; i++) {
		if (space->pte[i].gone)
			free_frame(space->pte[i].frame);
		space->pte[i].gone = 0;
		if (!space->pte[i].present)
			space->pte[i].frame = space->pte[i].write = 0;
	}
}

static u32 choose_pages(void)
{
	return 1 + choose((1u << PAGES) - 1);
}

/* flush_tlb_mm(), as unchanged Linux does it. */
static void flush_by_page(struct space *space)
{
	lazyctx_flush_range(&lc, space, 0, PAGES);
}

/* tlb_flush(): the range that has changed; or everything, since another gather was under way. */
static void end_gather(struct space *space, u32 pages)
{
	u32 first = PAGES, last = 0, i;

	for (i = 0; i < PAGES; i++) {
		if (pages >> i & 1) {
			first = first < PAGES ? first : i;
			last = i;
		}
	}
	if (choose(2)) {
		if (!lazyctx_flush_all(&lc, space, space->doing != EXIT))
			flush_by_page(space);
	} else if (first < PAGES) {
		lazyctx_flush_range(&lc, space, first, last + 1);
	}
}

/*
 * munmap(), madvise(); while the space is changed or copied, truncation, which needs none of its
 * locks but the page table's; while it exits, the OOM reaper.
 */
static void zap(struct space *space)
{
	u32 pages = choose_pages(), had = 0, i;

	for (i = 0; i < PAGES; i++) {
		if (space->pte[i].present)
			had |= pages & 1u << i;
	}
	if (!had)
		return;
	drop_run(space, had, space->doing == EXIT);
	end_gather(space, had);
	for (i = 0; i < PAGES; i++) {
		if (had >> i & 1) {
			free_frame(space->pte[i].frame);
			space->pte[i].gone = space->pte[i].pending = 0;
			space->pte[i].frame = space->pte[i].write = 0;
		}
	}
}

/* try_to_unmap(): the page-table lock is enough. */
static void reverse_unmap(struct space *space)
{
	u32 page = choose(PAGES);
	struct pte *pte = &space->pte[page];

	if (!pte->present)
		return;
	pte->present = 0;
	lazyctx_flush_one(&lc, space, page);
	free_frame(pte->frame);
	pte->frame = pte->write = pte->pending = 0;
	if (pte->hashed)
		fail("a page was flushed, and has HASHPTE");
}

static void clear_young(struct space *space)
{
	u32 page = choose(PAGES), id = space->id;

	if (space->pte[page].hashed)
		lazyctx_flush_young(&lc, space, page);
	if (space->id != id)
		fail("clearing an access bit gave a new id");
}

static void protect(struct space *space)
{
	u32 pages = choose_pages(), i;

	for (i = 0; i < PAGES; i++) {
		if (pages >> i & 1 && space->pte[i].present && space->pte[i].write) {
			space->pte[i].write = 0;
			space->pte[i].pending = 1;
		}
	}
	space->doing = PROTECT;
}

static void protected(struct space *space)
{
	u32 pages = 0, i;

	for (i = 0; i < PAGES; i++)
		pages |= (u32)space->pte[i].pending << i;
	end_gather(space, pages);
	for (i = 0; i < PAGES; i++)
		space->pte[i].pending = 0;
	space->doing = NOTHING_DONE;
}

/* One page at a time: locks are dropped in between. */
static void fork_on(struct space *space)
{
	struct pte *pte = &space->pte[space->at];
	u32 i;

	if (space->at < PAGES) {
		if (pte->present && pte->write) {
			pte->write = 0;
			pte->pending = 1;
			if (space->owes)
				pte->hashed = 0;
		}
		space->at++;
		return;
	}
	if (!lazyctx_flush_all(&lc, space, true))
		flush_by_page(space);
	for (i = 0; i < PAGES; i++)
		space->pte[i].pending = 0;
	space->doing = NOTHING_DONE;
	space->at = 0;
}

static void exit_on(struct space *space)
{
	if (space->at < PAGES) {
		drop_run(space, 1u << space->at, true);
		space->at++;
		return;
	}
	if (!lazyctx_flush_all(&lc, space, false))
		flush_by_page(space);
	free_gone(space);
	space->doing = GONE;
	space->at = 0;
}

/* destroy_context(), and a new address space in its place. */
static void replace(struct space *space)
{
	u32 id;

	if (space->alive) {
		if (space->owes)
			fail("a space is gone and owes a new id");
		check_gone(space);
		lazyctx_retire(&lc.ids, space->id);
		memset(space, 0, sizeof(*space));
		return;
	}
	id = lazyctx_find_id(&lc);
	if (id == LAZYCTX_NONE)
		return;
	space->id = (uint8_t)id;
	space->alive = 1;
}

static void go_on(struct space *space, u32 index)
{
	switch (space->doing) {
	case PROTECT:
		protected(space);
		break;
	case FORK:
		fork_on(space);
		break;
	case EXIT:
		exit_on(space);
		break;
	case GONE:
		if (now.active != index)
			replace(space);
		break;
	default:
		switch (choose(3)) {
		case 0:
			protect(space);
			break;
		case 1:
			if (lc.policy.renews)
				lazyctx_owe(&lc, space);
			space->doing = FORK;
			break;
		default:
			/* Who exits has no user address space any more, and keeps it borrowed. */
			space->doing = EXIT;
			if (now.active == index)
				now.user = 0;
		}
	}
}

static void switch_to(u32 index)
{
	struct space *space = &now.space[index];

	if (choose(2)) {
		now.user = 0;
		return;
	}
	if (!space->alive || space->doing == EXIT || space->doing == GONE)
		return;
	now.user = 1;
	if (now.active != index)
		now.segments = space->id;
	now.active = (uint8_t)index;
}

void step(void)
{
	u32 what = choose(8), index;
	struct space *space;

	load();
	if (what == 0) {
		access_page();
	} else if (what == 1) {
		lazyctx_reclaim(&lc, 1);
	} else if (what == 2) {
		/* Off, and on again: by chance alone, there would be twice as many states. */
		now.renews = PAGES == 1 || !now.renews;
	} else {
		index = choose(SPACES);
		space = &now.space[index];
		if (what == 3)
			switch_to(index);
		else if (!space->alive)
			replace(space);
		else if (what == 4)
			go_on(space, index);
		else if (space->doing != GONE && what == 5)
			zap(space);
		else if (space->doing != GONE && what == 6)
			reverse_unmap(space);
		else if (space->doing != GONE)
			clear_young(space);
	}
	store();
}

void tell(void)
{
	u64 renewals = 0;
	u32 why;

	for (why = 0; why < LAZYCTX_WHYS; why++)
		renewals += lc.stat.renewals[why];
	printf("model: %llu renewals, %llu ids used again, %llu passes, %llu sweeps, %llu purges\n",
	       (unsigned long long)renewals, (unsigned long long)lc.stat.reuses, (unsigned long long)lc.stat.passes,
	       (unsigned long long)lc.stat.sweeps, (unsigned long long)lc.stat.purges);
}

static void check_entry(u32 id, u32 page)
{
	u32 i;

	if (lazyctx_is_free(&lc.ids, id))
		fail("a free id has an entry");
	for (i = 0; i < SPACES; i++) {
		const struct space *space = &now.space[i];

		if (space->alive && space->id == id && !space->owes && !space->pte[page].hashed)
			fail("an entry of a live id, and no HASHPTE tells of it");
	}
}

void check(void)
{
	const struct space *active = &now.space[now.active];
	u32 owing = 0, i, j;

	if (active->alive && now.segments != active->id)
		fail("the segment registers have another id than the address space");
	for (i = 0; i < TLBS; i++) {
		if (now.tlb[i].valid)
			check_entry(now.tlb[i].id, now.tlb[i].page);
	}
	for (i = 0; i < SLOTS; i++) {
		if (now.table[i].word & LAZYCTX_VALID)
			check_entry(lazyctx_entry_id(now.table[i].word), now.table[i].word & 0x3f);
	}
	for (i = 0; i < SPACES; i++)
		owing += now.space[i].owes != 0;
	if (owing != now.owing)
		fail("more or fewer address spaces owe a new id than are counted");
	for (i = 0; i < SPACES; i++) {
		for (j = 0; j < i; j++) {
			if (now.space[i].alive && now.space[j].alive && now.space[i].id == now.space[j].id)
				fail("two address spaces have one id");
		}
		if (now.space[i].alive && !lazyctx_is_live(&lc.ids, now.space[i].id))
			fail("an address space has an id that is not live");
	}
}

void start(u32 cutoff)
{
	memset(&now, 0, sizeof(now));
	now.used = now.live = 1;
	now.renews = 1;
	lc.slots = SLOTS;
	lc.policy = (struct lazyctx_policy) { .cutoff = cutoff };
	load();
	replace(&now.space[0]);
	store();
	now.segments = now.space[0].id;
	now.user = 1;
}
