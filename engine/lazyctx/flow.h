/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Lazy contexts: what is done in which order. Included by one C file of each host, which
 * supplies, before:
 *
 *   struct lazyctx_space		an address space (a macro may stand for the struct's name)
 *   lazyctx_id(space), lazyctx_owes(space)	its id; LAZYCTX_OWES or 0: to be assigned to, too
 *   lazyctx_table()			the hash table: entries of two words
 *   lazyctx_flush_tlb()		drops every entry of the TLBs
 *   lazyctx_load_segments(space)	the segment registers, if lazyctx_must_load()
 *   lazyctx_flush_pages(space, start, end)	takes hashed pages out of hash table and TLBs; clears their HASHPTE
 *   lazyctx_forget_pages(space, start, end)	clears their HASHPTE, and that is all
 *   lazyctx_first_hashed(space, start, end)	the first page with HASHPTE, or @end
 *
 * and what the debug kernel looks at:
 *   lazyctx_check_id(id)		it was free: it has no entry
 *   lazyctx_check_space(space)		all of it was flushed: no entry, and segment registers as they must be
 *   lazyctx_check_marks(space, start, end)	no page has HASHPTE
 *   lazyctx_check_page(space, page)	it has no entry
 *
 *   LAZYCTX_NO_PAGE			more than any page, by more than a gap
 *
 * Pages are numbers here. One CPU, and nobody else comes in between while one of these
 * functions runs: interrupts are off, or their handlers change none of it.
 */
#ifndef LAZYCTX_FLOW_H
#define LAZYCTX_FLOW_H

/* Why an id was renewed: the last one is none. */
enum lazyctx_why { LAZYCTX_ZAP, LAZYCTX_RANGE, LAZYCTX_ALL, LAZYCTX_EXIT, LAZYCTX_DEBT, LAZYCTX_WHYS };

struct lazyctx_stat {
	u64 renewals[LAZYCTX_WHYS];
	u64 taken, reuses;	/* ids; of these, those that had been retired before */
	u64 passes, reclaimed;	/* whole passes; entries that they took out */
	u64 sweeps;		/* ids ran out */
	u64 purges;		/* and none was retired */
	u64 flushed;		/* pages, one by one, where a new id was thought of */
};

/* What was unmapped in one hold of a page-table lock: pages that follow each other, nearly. */
#define LAZYCTX_GAP_MAX	4u

struct lazyctx_run {
	bool is_open;
	bool is_exit;		/* of a space that nobody uses any more */
	bool has_pages;
	u32 start, end;		/* of the last stretch */
	u32 gaps;		/* pages without HASHPTE in it */
	u32 before;		/* pages with HASHPTE before it: flushed, or will be by a new id */
	struct lazyctx_space *space;
};

struct lazyctx {
	struct lazyctx_ids ids;
	struct lazyctx_policy policy;
	struct lazyctx_run run;
	struct lazyctx_stat stat;
	u32 slots;		/* of the hash table */
	u32 cursor;		/* the slot where the pass goes on */
	u32 owing;		/* spaces that owe a new id */
};

/* Look at @slots more. Return: whether the pass has ended. */
static bool lazyctx_pass_step(struct lazyctx *lc, u32 slots)
{
	u32 end = lc->slots - lc->cursor < slots ? lc->slots : lc->cursor + slots;
	u32 *entry = lazyctx_table() + 2 * lc->cursor;
	const u32 *live = lc->ids.live;
	u32 known = lc->ids.words * 32;
	u32 cleared = 0, left;

	for (left = end - lc->cursor; left; left--, entry += 2) {
		u32 word = *entry, id;

		if (!(word & LAZYCTX_VALID))
			continue;
		/* Half of them are not valid: the compiler is not to compute their ids ahead. */
		__asm__ volatile("" : "+r" (word));
		id = lazyctx_entry_id(word);
		/* One that is not Linux's is nobody's to reclaim. */
		if (id >= known || lazyctx_bit(live, id))
			continue;
		if (lazyctx_broken(LAZYCTX_PASS_SHORT) && end == lc->slots && left == 1)
			break;
		*entry = 0;
		cleared++;
	}
	lc->stat.reclaimed += cleared;
	lc->cursor = end;
	if (end < lc->slots)
		return false;
	lazyctx_scanned(&lc->ids);
	if (!lazyctx_broken(LAZYCTX_TLB_KEPT))
		lazyctx_flush_tlb();
	lazyctx_end_pass(&lc->ids);
	lc->stat.passes++;
	lc->cursor = 0;
	return true;
}

/* Return: whether there was anything to do. */
static bool lazyctx_reclaim(struct lazyctx *lc, u32 slots)
{
	if (lc->ids.pass == LAZYCTX_NO_PASS) {
		if (!lazyctx_begin_pass(&lc->ids))
			return false;
		lc->cursor = 0;
	}
	lazyctx_pass_step(lc, slots);
	return true;
}

/* Takes out everything that is retired. */
static void lazyctx_sweep(struct lazyctx *lc)
{
	/* The pass that is under way leaves what was retired since it began. */
	while (lazyctx_reclaim(lc, lc->slots))
		;
}

/* Return: a free id, live now, or LAZYCTX_NONE. */
static u32 lazyctx_find_id(struct lazyctx *lc)
{
	u32 id = lazyctx_take(&lc->ids);

	if (id == LAZYCTX_NONE) {
		lc->stat.sweeps++;
		lazyctx_sweep(lc);
		id = lazyctx_take(&lc->ids);
	}
	if (id != LAZYCTX_NONE) {
		lc->stat.taken++;
		lc->stat.reuses += lazyctx_bit(lc->ids.worn, id);
		lazyctx_check_id(id);
	}
	return id;
}

/* No id is left, all are live: take the entries of this one out, wherever they are. */
static void lazyctx_purge(struct lazyctx *lc, struct lazyctx_space *space)
{
	u32 *entry = lazyctx_table();
	u32 i;

	for (i = 0; i < lc->slots; i++, entry += 2) {
		if (*entry & LAZYCTX_VALID && lazyctx_entry_id(*entry) == lazyctx_id(space))
			*entry = 0;
	}
	lazyctx_flush_tlb();
	lc->stat.purges++;
}

/* Flush the whole of @space. Its pages' HASHPTE may stay set: that costs a search in vain each. */
static void lazyctx_renew(struct lazyctx *lc, struct lazyctx_space *space, enum lazyctx_why why)
{
	u32 old = lazyctx_id(space), id = lazyctx_find_id(lc);

	if (id == LAZYCTX_NONE) {
		lazyctx_purge(lc, space);
	} else {
		lazyctx_id(space) = id;
		lazyctx_load_segments(space);
		lazyctx_retire(&lc->ids, old);
	}
	if (lazyctx_owes(space)) {
		lazyctx_owes(space) = 0;
		lc->owing--;
	}
	lc->stat.renewals[why]++;
	lazyctx_check_space(space);
}

/*
 * Entries of @space are left that no HASHPTE tells of: it owes a new id, at its next flush
 * of whatever kind, and before any of its pages is freed.
 */
static void lazyctx_owe(struct lazyctx *lc, struct lazyctx_space *space)
{
	if (!lazyctx_owes(space))
		lc->owing++;
	lazyctx_owes(space) = LAZYCTX_OWES;
}

/* Unmapping begins: a page-table lock was taken. */
static inline void lazyctx_open_run(struct lazyctx *lc)
{
	lc->run.is_open = true;
}

/* Is a new id worth it, for all that was unmapped so far? An exiting space gets one whatever it had. */
static bool lazyctx_run_pays(const struct lazyctx *lc)
{
	const struct lazyctx_run *run = &lc->run;

	if (lazyctx_owes(run->space))
		return true;
	return run->is_exit ? lc->policy.renews : lazyctx_pays(&lc->policy, run->before);
}

/* What the run holds so far is flushed now, or by the new id that it has come to be worth. */
static bool lazyctx_end_stretch(struct lazyctx *lc)
{
	struct lazyctx_run *run = &lc->run;
	struct lazyctx_space *space = run->space;
	u32 hashed = run->end - run->start - run->gaps;
	bool pays;

	/* What was flushed page by page still counts: more of the same is to be expected. */
	run->before += hashed;
	pays = lazyctx_run_pays(lc);
	if (!pays) {
		lazyctx_flush_pages(space, run->start, run->end);
		lc->stat.flushed += hashed;
	} else if (!run->is_exit && !lazyctx_broken(LAZYCTX_HASHPTE_LEFT)) {
		/* An exiting space's page tables are freed with their bits. */
		lazyctx_forget_pages(space, run->start, run->end);
	}
	if (!run->is_exit)
		lazyctx_check_marks(space, run->start, run->end);
	return pays;
}

/* One page has changed; it may have HASHPTE. */
static void lazyctx_flush_one(struct lazyctx *lc, struct lazyctx_space *space, u32 page)
{
	if (lazyctx_owes(space) && !lazyctx_broken(LAZYCTX_DEBT_FORGOTTEN))
		lazyctx_renew(lc, space, LAZYCTX_DEBT);
	if (lazyctx_first_hashed(space, page, page + 1) == page) {
		lazyctx_flush_pages(space, page, page + 1);
		lc->stat.flushed++;
	}
	lazyctx_check_page(space, page);
}

/* @page was unmapped and has HASHPTE; lazyctx_note_next() was false. The lock is held. */
static void lazyctx_note_page(struct lazyctx *lc, struct lazyctx_space *space, u32 page, bool is_exit)
{
	struct lazyctx_run *run = &lc->run;

	if (!run->is_open) {
		lazyctx_flush_one(lc, space, page);
		return;
	}
	if (!run->has_pages)
		run->before = 0;
	else if (lazyctx_end_stretch(lc))
		lazyctx_owe(lc, space);
	run->has_pages = true;
	run->is_exit = is_exit;
	run->space = space;
	run->start = page;
	run->end = page + 1;
	run->gaps = 0;
}

/* ... and the next page, or one soon after it. The fast way. Return: whether that was it. */
static inline bool lazyctx_note_next(struct lazyctx_run *run, u32 page)
{
	u32 gap = page - run->end;

	if (gap >= LAZYCTX_GAP_MAX)
		return false;
	run->gaps += gap;
	run->end = page + 1;
	return true;
}

/* The page-table lock is about to be dropped. */
static void lazyctx_close_run(struct lazyctx *lc)
{
	struct lazyctx_run *run = &lc->run;
	struct lazyctx_space *space = run->space;

	if (run->has_pages) {
		if (lazyctx_end_stretch(lc))
			lazyctx_owe(lc, space);
		/* Nobody uses an exiting space: one new id when all of it is unmapped. */
		if (lazyctx_owes(space) && !run->is_exit)
			lazyctx_renew(lc, space, LAZYCTX_ZAP);
	}
	run->is_open = false;
	run->has_pages = false;
	run->end = LAZYCTX_NO_PAGE;
}

/* Pages of a range have changed, and may have been used by others since. */
static void lazyctx_flush_range(struct lazyctx *lc, struct lazyctx_space *space, u32 start, u32 end)
{
	if (lazyctx_owes(space)) {
		lazyctx_forget_pages(space, start, end);
		lazyctx_renew(lc, space, LAZYCTX_DEBT);
		return;
	}
	start = lazyctx_first_hashed(space, start, end);
	if (start == end)
		return;
	if (!lazyctx_pays(&lc->policy, end - start)) {
		lazyctx_flush_pages(space, start, end);
		lc->stat.flushed += end - start;
		return;
	}
	if (!lazyctx_broken(LAZYCTX_HASHPTE_LEFT))
		lazyctx_forget_pages(space, start, end);
	lazyctx_renew(lc, space, LAZYCTX_RANGE);
	lazyctx_check_marks(space, start, end);
}

/* The access bit of @page, which has HASHPTE, was cleared: nobody waits for this flush. */
static inline void lazyctx_flush_young(struct lazyctx *lc, struct lazyctx_space *space, u32 page)
{
	if (lazyctx_broken(LAZYCTX_YOUNG_RENEWS))
		lazyctx_renew(lc, space, LAZYCTX_RANGE);
	else
		lazyctx_flush_pages(space, page, page + 1);
}

/*
 * All of it has changed: it was copied (@is_exit: or unmapped for good). Return: whether that
 * was it. Else its pages are to be flushed one by one.
 */
static bool lazyctx_flush_space(struct lazyctx *lc, struct lazyctx_space *space, bool is_exit)
{
	if (!lazyctx_owes(space) && !lc->policy.renews)
		return false;
	if (is_exit && lazyctx_broken(LAZYCTX_EXIT_UNFLUSHED))
		return true;
	/* What was hashed of an exiting space was flushed, or made it owe. */
	if (lazyctx_owes(space) || !is_exit)
		lazyctx_renew(lc, space, is_exit ? LAZYCTX_EXIT : LAZYCTX_ALL);
	return true;
}

/*
 * Everything is to be flushed: @space exits; or it @is_used, and was copied, or another gather of
 * it was under way (tlb_finish_mmu()), so that nobody knows what has changed. Return: as
 * lazyctx_flush_space().
 */
static bool lazyctx_flush_all(struct lazyctx *lc, struct lazyctx_space *space, bool is_used)
{
	bool is_exit = !is_used || (lazyctx_broken(LAZYCTX_NESTED_EXITS) && !lazyctx_owes(space));

	if (!lazyctx_flush_space(lc, space, is_exit))
		return false;
	if (is_used)
		lazyctx_check_space(space);
	return true;
}

#endif
