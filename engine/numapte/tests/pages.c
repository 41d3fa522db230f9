// SPDX-License-Identifier: GPL-2.0-only
/* What the kernel does to an entry in all copies of its table, and what must hold when nobody does. */
#include "model.h"

bool is_used(const struct state *state, unsigned int page)
{
	return state->used >> (page - PAGE_OF(0, 0)) & 1;
}

void set_used(struct state *state, unsigned int page, bool used)
{
	const unsigned int bit = 1u << (page - PAGE_OF(0, 0));

	state->used = used ? state->used | bit : state->used & ~bit;
}

/* The node's page of a table; 0: none. */
unsigned int page_of(const struct state *state, unsigned int table, unsigned int node)
{
	switch (state->place[table][node]) {
	case NUMAPTE_OWN:
		return PAGE_OF(table, 1 + node);
	case NUMAPTE_CANONICAL:
		return PAGE_OF(table, 0);
	default:
		return 0;
	}
}

/* The table of a slot, or -1. */
int table_at(const struct state *state, unsigned int slot)
{
	const u64 value = get(state->pmd[0][slot]);

	return numapte_is_table(NUMAPTE_PMD, value) ? (int)((frame_of(value) - PAGE_OF(0, 0)) / COPIES) : -1;
}

/* Faults under way find something else than what they saw. */
void disturb(struct state *to, const struct actor *self)
{
	for (unsigned int node = 0; node < NODES; node++) {
		if (&to->actor[node] != self && to->actor[node].pc)
			to->actor[node].excused = 1;
	}
}

static bool is_present(u64 value)
{
	return value & (NUMAPTE_PRESENT | PROTNONE);
}

static u64 stored(enum numapte_level level, u64 value)
{
	if (mutant == PRESENT_STORED && is_present(value) && level == NUMAPTE_PTE)
		return value;
	return numapte_replica(level, value);
}

static u64 fold(u64 value, u64 replica)
{
	switch (mutant) {
	case FOLD_ALL:
		return value | replica;
	case FOLD_SHADOW:
		return numapte_walkable(value) ? value | (replica & NUMAPTE_DIRTY) : value;
	case FOLD_SOFT:
		return numapte_fold(value, replica) | (numapte_found(value, replica) ? SOFT_DIRTY : 0);
	case CLEAR_UNFOLDED:
		return value;
	default:
		return numapte_fold(value, replica);
	}
}

u64 folded(const struct state *state, unsigned int table)
{
	u64 value = get(state->pte[table][0]);

	for (unsigned int node = 0; node < NODES; node++) {
		if (state->place[table][node] == NUMAPTE_OWN)
			value = numapte_fold(value, get(state->pte[table][1 + node]));
	}
	return value;
}

static bool is_reached(const struct state *state, enum op op, enum numapte_level level, unsigned int which,
		       unsigned int k)
{
	if (!k)
		return true;
	if (level == NUMAPTE_PTE) {
		if ((mutant == STORE_ALONE && op == STORE) || (mutant == CLEAR_ALONE && op == CLEAR))
			return false;
		return state->place[which][k - 1] == NUMAPTE_OWN;
	}
	return !(mutant == TABLE_CLEAR_ALONE && op == CLEAR);
}

static void apply_to(struct state *to, struct actor *self, enum op op, enum numapte_level level, unsigned int which)
{
	const bool is_first = !self->k;
	entry *canonical = level == NUMAPTE_PTE ? &to->pte[which][0] : &to->pmd[0][which];
	entry *place = level == NUMAPTE_PTE ? &to->pte[which][self->k] : &to->pmd[self->k][which];
	const u64 now = get(*place), value = get(self->value);

	switch (op) {
	case STORE:
		if (is_first) {
			self->old = *place;
			put(place, value);
		} else if (numapte_must_store(level, get(self->old), value) || mutant == PRESENT_STORED) {
			if (numapte_loses(value, now))
				fault_found = "a store loses what a processor has set";
			put(place, stored(level, value));
		}
		break;
	case CLEAR:
		put(place, 0);
		if (is_first)
			self->value = 0;
		put(&self->value, is_first ? now : fold(value, now));
		if (mutant == EXIT_UNFOLDED && to->is_exiting && !is_first)
			put(&self->value, value);
		break;
	case WRPROTECT:
		if (is_first) {
			put(place, without_write(now));
		} else {
			put(place, mutant == WRPROTECT_LEFT ? now & ~NUMAPTE_RW : numapte_wrprotect(now));
			if (mutant != WRPROTECT_UNFOLDED)
				put(canonical, fold(get(*canonical), now));
		}
		break;
	case YOUNG:
		self->found |= !!(now & NUMAPTE_ACCESSED);
		put(place, now & ~NUMAPTE_ACCESSED);
		break;
	}
}

bool apply(struct state *to, struct actor *self, enum op op, enum numapte_level level, unsigned int which)
{
	if (level == NUMAPTE_PTE && !is_used(to, PAGE_OF(which, self->k)))
		fault_found = "the kernel stores into a page that was freed";
	apply_to(to, self, op, level, which);
	disturb(to, self);
	for (self->k++; self->k < COPIES; self->k++) {
		if (is_reached(to, op, level, which, self->k))
			return false;
	}
	self->k = 0;
	self->old = 0;
	return true;
}

/* An entry of this table is taken out in this hold of its lock: who may hold it? */
void note_nodes(struct state *to, struct actor *self, unsigned int table)
{
	if (mutant == NODES_PLACE)
		self->nodes |= scenario & ONE_HOME ? 1 : 0;
	else
		self->nodes |= numapte_flushed(to->links[table], ALL_NODES, true) & ALL_NODES;
}

static void flush_slot(struct state *to, unsigned int node, unsigned int slot)
{
	to->tlb[node][slot] = 0;
	to->tlb_from[node][slot] = 0;
	to->upper[node][slot] = 0;
}

void flush_all(struct state *to, unsigned int node)
{
	for (unsigned int slot = 0; slot < SLOTS; slot++)
		flush_slot(to, node, slot);
	to->lag[node] = 0;
}

static void raise(struct state *to, unsigned int nodes, unsigned int how)
{
	if (!(scenario & ABSENCE) || (mutant == RAISE_NONE && how & SOME))
		return;
	for (unsigned int node = 0; node < NODES; node++)
		to->lag[node] += nodes >> node & 1 && to->lag[node] < 3;
}

/* An interrupt: who has more than this to catch up with flushes everything, who has done so already nothing. */
static void interrupt(struct state *to, unsigned int node, unsigned int slot, unsigned int how)
{
	if (to->away[node] == ELSEWHERE || (to->away[node] == LAZY && !(how & TABLES_FREED)))
		return;
	if (!(scenario & ABSENCE) || to->lag[node] == 1) {
		flush_slot(to, node, slot);
		to->lag[node] = 0;
	} else if (to->lag[node]) {
		flush_all(to, node);
	}
}

/* The generations, then one processor after the other. */
bool flush(struct state *to, struct actor *self, unsigned int slot, unsigned int how)
{
	const unsigned int nodes = how & SOME ? self->nodes : ALL_NODES;

	if (!self->k && mutant != RAISE_LATE)
		raise(to, nodes, how);
	for (; self->k < NODES; self->k++) {
		if (!(nodes >> self->k & 1))
			continue;
		interrupt(to, self->k++, slot, how);
		if (nodes >> self->k || mutant == RAISE_LATE)
			return false;
		break;
	}
	if (mutant == RAISE_LATE)
		raise(to, nodes, how);
	self->k = 0;
	self->nodes = 0;
	return true;
}

void free_page(struct state *to, unsigned int page, enum numapte_leaving leaving, bool stays)
{
	if (!numapte_may_free(leaving, stays) && mutant == NONE)
		fault_found = "the engine does not allow it to be freed";
	set_used(to, page, false);
}

/* A replica is freed; its content goes with it. */
void forget(struct state *to, unsigned int table, unsigned int node)
{
	to->pte[table][1 + node] = 0;
	to->place[table][node] = NUMAPTE_NOWHERE;
}

/* --- at any time --- */

static void audit_pages(const struct state *state)
{
	for (unsigned int node = 0; node < NODES; node++) {
		for (unsigned int slot = 0; slot < SLOTS; slot++) {
			const bool is_doomed = state->away[node] == ELSEWHERE && state->lag[node];
			const unsigned int held = is_doomed ? 0 : state->upper[node][slot];
			const unsigned int from = is_doomed ? 0 : state->tlb_from[node][slot];
			const u64 top = get(state->pmd[1 + node][slot]);
			const unsigned int next = numapte_is_table(NUMAPTE_PMD, top) ? frame_of(top) : 0;

			if ((held && !is_used(state, held)) || (next && !is_used(state, next)))
				fault_found = "a processor may walk a page that was freed";
			if ((held && !(state->links[(held - PAGE_OF(0, 0)) / COPIES] >> node & 1)) ||
			    (from && !(state->links[(from - PAGE_OF(0, 0)) / COPIES] >> node & 1)))
				fault_found = "a processor holds what its node is not known to share";
		}
	}
}

static const char *const wrong[] = {
	[NUMAPTE_NOT_GRANTED] = "audit: a replica holds what is not granted",
	[NUMAPTE_LITTER] = "audit: a replica holds what hardware cannot use",
	[NUMAPTE_OTHER_TABLE] = "audit: an upper table leads to another table",
	[NUMAPTE_OTHER_FRAME] = "audit: a replica maps another frame",
	[NUMAPTE_OTHER_RIGHTS] = "audit: a replica has other rights",
	[NUMAPTE_OTHER_DIRTY] = "audit: a replica differs in a dirty bit that is a right",
};

static void audit_pair(enum numapte_level level, u64 value, u64 replica, unsigned int page)
{
	enum numapte_wrong found = numapte_audit(level, value, replica, FRAME(page));

	if (found == NUMAPTE_OTHER_DIRTY && scenario & LIBERTY)
		return;
	if (found)
		fault_found = wrong[found];
	if (!(scenario & LIBERTY) && value & NUMAPTE_DIRTY && !(value & NUMAPTE_RW) && level == NUMAPTE_PTE)
		fault_found = "a shadow stack appears";
	if (value & SOFT_DIRTY)
		fault_found = "soft-dirty, and nobody has set it";
}

/* With nothing pending, a processor holds no more than the canonical entry grants. */
static void audit_held(const struct state *state, unsigned int slot)
{
	const int table = table_at(state, slot);
	const u64 value = table < 0 ? get(state->pmd[0][slot]) : get(state->pte[table][0]);

	if (state->pending[slot] || state->upper_lock || (table >= 0 && state->table_lock[table]))
		return;
	for (unsigned int node = 0; node < NODES; node++) {
		const u64 held = get(state->tlb[node][slot]);

		/* It flushes everything before it uses anything. */
		if (state->away[node] && state->lag[node])
			continue;
		if (numapte_walkable(held) && (!numapte_walkable(value) || (held ^ value) & NUMAPTE_FRAME))
			fault_found = "an access goes where nothing leads any more";
		else if (held & NUMAPTE_RW && !(value & NUMAPTE_RW))
			fault_found = "a write goes where none is allowed any more";
	}
}

/* Nobody at work: a page that was written is known to be dirty, or looks dirty to who takes its entry out. */
static void audit_dirty(const struct state *state)
{
	u64 value = 0;

	if (!state->is_written || state->is_known)
		return;
	if ((state->actor[MUTATOR].pc && state->actor[MUTATOR].pc != UINT8_MAX) || state->actor[RMAP].pc)
		return;
	for (unsigned int k = 0; k < TABLES; k++) {
		if (state->table_lock[k])
			return;
		value |= folded(state, k);
	}
	for (unsigned int copy = 0; copy < COPIES; copy++) {
		for (unsigned int slot = 0; slot < SLOTS; slot++) {
			if (!numapte_is_table(NUMAPTE_PMD, get(state->pmd[copy][slot])))
				value |= get(state->pmd[copy][slot]);
		}
	}
	if (!is_dirty(value))
		fault_found = "the page was written, and nobody knows";
}

void audit(const struct state *state)
{
	audit_pages(state);
	for (unsigned int slot = 0; slot < SLOTS; slot++) {
		const int table = table_at(state, slot);

		for (unsigned int node = 0; node < NODES && !state->upper_lock; node++) {
			audit_pair(NUMAPTE_PMD, get(state->pmd[0][slot]), get(state->pmd[1 + node][slot]),
				   table < 0 ? 0 : page_of(state, table, node));
		}
		audit_held(state, slot);
	}
	for (unsigned int k = 0; k < TABLES; k++) {
		for (unsigned int node = 0; node < NODES && !state->table_lock[k]; node++) {
			if (state->place[k][node] == NUMAPTE_OWN)
				audit_pair(NUMAPTE_PTE, get(state->pte[k][0]), get(state->pte[k][1 + node]), 0);
		}
	}
	audit_dirty(state);
}
