// SPDX-License-Identifier: GPL-2.0-only
/* What the processors may do between any two steps of the kernel. */
#include "model.h"

/* The entry that maps a slot, by way of a page of PTEs, or in the node's upper table if there is no page. */
static entry *leaf_at(struct state *state, unsigned int node, unsigned int slot, unsigned int page)
{
	if (!page)
		return &state->pmd[1 + node][slot];
	if (!is_used(state, page))
		fault_found = "a processor walks a page that was freed";
	page -= PAGE_OF(0, 0);
	return &state->pte[page / COPIES][page % COPIES];
}

/* A set A or D is seen by who compares the canonical entry. */
static void set_bits(struct state *to, entry *place, u64 bits)
{
	const u64 value = get(*place);

	if ((value | bits) == value)
		return;
	put(place, value | bits);
	for (unsigned int k = 0; k < TABLES; k++) {
		if (place == &to->pte[k][0])
			disturb(to, NULL);
	}
}

static void hold(struct state *to, unsigned int node, unsigned int slot, unsigned int page, u64 value)
{
	put(&to->tlb[node][slot], value & ~(NUMAPTE_ACCESSED | NUMAPTE_SAVED_DIRTY));
	to->tlb_from[node][slot] = page;
	to->upper[node][slot] = page;
}

/* From the top, or from the page that is held; page 0: a huge page. */
static void walk(const struct state *from, unsigned int node, unsigned int slot, unsigned int page, bool top)
{
	struct state to = *from;
	entry *place;
	u64 value;

	if (page && top && from->upper[node][slot] != page) {
		to.upper[node][slot] = page;
		reach(&to);
	}
	place = leaf_at(&to, node, slot, page);
	value = get(*place);
	if (!numapte_walkable(value))
		return;
	if (scenario & AGING) {
		set_bits(&to, place, NUMAPTE_ACCESSED);
		if (top) {
			set_bits(&to, &to.pmd[1 + node][slot], NUMAPTE_ACCESSED);
			to.used_by |= 1 << node;
		}
	}
	hold(&to, node, slot, page, value);
	reach(&to);
	/* What is walked for on a guess sets no dirty bit. */
	if (!(value & NUMAPTE_RW) || from->away[node])
		return;
	set_bits(&to, place, NUMAPTE_DIRTY);
	hold(&to, node, slot, page, value | NUMAPTE_DIRTY);
	to.is_written = 1;
	reach(&to);
}

/* Through what is held. */
static void write(const struct state *from, unsigned int node, unsigned int slot)
{
	const u64 value = get(from->tlb[node][slot]);
	struct state to = *from;
	entry *place;

	if (!(value & NUMAPTE_RW) || from->away[node])
		return;
	if (!(value & NUMAPTE_DIRTY)) {
		/* One with the right goes on from a walk; this one looks at the right no more. */
		if (!(scenario & LIBERTY))
			return;
		place = leaf_at(&to, node, slot, from->tlb_from[node][slot]);
		if (!numapte_walkable(get(*place)) || frame_of(get(*place)) != frame_of(value))
			return;
		set_bits(&to, place, NUMAPTE_DIRTY);
		hold(&to, node, slot, from->tlb_from[node][slot], value | NUMAPTE_DIRTY);
	}
	to.is_written = 1;
	reach(&to);
}

/* It runs nothing, or something else, and comes back: then it flushes everything if it lags behind. */
static void come_and_go(const struct state *from, unsigned int node)
{
	struct state to = *from;

	if (!(scenario & ABSENCE))
		return;
	if (from->away[node]) {
		to.away[node] = HERE;
		if (to.lag[node] && mutant != RETURN_LAGGING)
			flush_all(&to, node);
		to.lag[node] = 0;
		reach(&to);
		return;
	}
	to.away[node] = LAZY;
	reach(&to);
	to.away[node] = ELSEWHERE;
	reach(&to);
}

void processors(const struct state *from)
{
	if (from->is_exiting)
		return;
	for (unsigned int node = 0; node < NODES; node++) {
		come_and_go(from, node);
		if (from->away[node] == ELSEWHERE)
			continue;
		for (unsigned int slot = 0; slot < SLOTS; slot++) {
			const u64 top = get(from->pmd[1 + node][slot]);

			if (numapte_is_table(NUMAPTE_PMD, top))
				walk(from, node, slot, frame_of(top), true);
			else if (numapte_walkable(top))
				walk(from, node, slot, 0, true);
			if (from->upper[node][slot])
				walk(from, node, slot, from->upper[node][slot], false);
			write(from, node, slot);
		}
	}
}
