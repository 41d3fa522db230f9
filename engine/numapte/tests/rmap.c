// SPDX-License-Identifier: GPL-2.0-only
/* Who comes by the reverse mapping, again and again: write-back, reclaim, and aging. */
#include "model.h"

enum { IDLE, ENTRY, TAKE, FLUSH, STORE_CLEAN, WRITE, END, AGE, AGE_TOP };

#define ME	(1 + RMAP)

static bool lock_table(struct state *to, struct actor *self, int table)
{
	if (to->table_lock[table])
		return false;
	to->table_lock[table] = ME;
	self->table = table;
	note_nodes(to, self, table);
	return true;
}

static void done(struct state *to)
{
	to->rmap_lock = 0;
	to->actor[RMAP] = (struct actor){ 0 };
}

/* The table of the page, at whatever address. */
static int find(const struct state *state)
{
	const int table = table_at(state, 0);

	return table < 0 ? table_at(state, 1) : table;
}

static unsigned int slot_of(const struct state *state, unsigned int table)
{
	return table_at(state, 0) != (int)table;
}

/* folio_mkclean(), and the page is written. */
void clean_step(const struct state *from)
{
	struct state to = *from;
	struct actor *self = &to.actor[RMAP];
	const int table = find(from);
	u64 value;

	switch (self->pc) {
	case IDLE:
		if (to.rmap_lock)
			return;
		to.rmap_lock = ME;
		self->owed = to.is_written;
		self->pc = ENTRY;
		break;
	case ENTRY:
		if (table < 0) {
			self->pc = WRITE;
			break;
		}
		if (!lock_table(&to, self, table))
			return;
		value = mutant == CLEAN_PLAIN ? get(to.pte[table][0]) : folded(&to, table);
		self->pc = TAKE;
		if (!numapte_walkable(value) || (!is_dirty(value) && !(value & NUMAPTE_RW))) {
			to.table_lock[table] = 0;
			self->nodes = 0;
			self->pc = WRITE;
		}
		break;
	case TAKE:
		if (apply(&to, self, CLEAR, NUMAPTE_PTE, self->table))
			self->pc = FLUSH;
		break;
	case FLUSH:
		if (flush(&to, self, slot_of(from, self->table), SOME)) {
			value = get(self->value) & ~(NUMAPTE_RW | NUMAPTE_DIRTY | NUMAPTE_SAVED_DIRTY);
			put(&self->value, value);
			self->pc = STORE_CLEAN;
		}
		break;
	case STORE_CLEAN:
		if (apply(&to, self, STORE, NUMAPTE_PTE, self->table)) {
			to.table_lock[self->table] = 0;
			self->value = 0;
			to.is_known = 1;
			self->pc = WRITE;
		}
		break;
	case WRITE:
		self->pc = END;
		if (to.is_known) {
			to.is_known = 0;
			to.is_written = 0;
			self->owed = 0;
			to.actor[MUTATOR].owed = 0;
		}
		break;
	case END:
		if (self->owed)
			fault_found = "a sync has returned, and the page was not written";
		done(&to);
		break;
	default:
		return;
	}
	reach(&to);
}

/* Reclaim takes the page out, and drops it if nobody has said that it is dirty. */
void reclaim_step(const struct state *from)
{
	struct state to = *from;
	struct actor *self = &to.actor[RMAP];
	const int table = find(from);

	switch (self->pc) {
	case IDLE:
		if (to.rmap_lock || table < 0 || !get(to.pte[table][0]))
			return;
		to.rmap_lock = ME;
		self->pc = ENTRY;
		break;
	case ENTRY:
		if (table < 0 || !numapte_walkable(get(to.pte[table][0]))) {
			done(&to);
			break;
		}
		if (!lock_table(&to, self, table))
			return;
		self->slot = slot_of(from, table);
		to.pending[self->slot]++;
		self->pc = TAKE;
		break;
	case TAKE:
		if (!apply(&to, self, CLEAR, NUMAPTE_PTE, self->table))
			break;
		to.is_known |= is_dirty(get(self->value));
		to.table_lock[self->table] = 0;
		self->value = 0;
		self->pc = FLUSH;
		break;
	case FLUSH:
		if (flush(&to, self, self->slot, SOME)) {
			to.pending[self->slot]--;
			self->pc = WRITE;
		}
		break;
	case WRITE:
		if (table >= 0 && to.table_lock[table])
			return;
		if (table < 0 || !get(to.pte[table][0])) {
			if (!to.is_known && to.is_written)
				fault_found = "a page is dropped, and it was written";
			to.is_known = 0;
			to.is_written = 0;
		}
		done(&to);
		break;
	default:
		return;
	}
	reach(&to);
}

/* MGLRU's walk: what is young becomes old; a table that nobody has used is passed over. */
void age_step(const struct state *from)
{
	struct state to = *from;
	struct actor *self = &to.actor[RMAP];
	const int table = find(from);
	const unsigned int copy = self->k;
	u64 young = 0;

	switch (self->pc) {
	case IDLE:
		if (to.rmap_lock || table < 0)
			return;
		to.rmap_lock = ME;
		self->owed = !!to.used_by;
		self->table = table;
		self->pc = ENTRY;
		break;
	case ENTRY:
		for (unsigned int k = 0; k < COPIES && !(mutant == AGE_SKIPS && k); k++)
			young |= get(to.pmd[k][0]);
		self->pc = young & NUMAPTE_ACCESSED ? AGE : END;
		if (self->pc == AGE && !lock_table(&to, self, self->table))
			return;
		break;
	case AGE:
		for (unsigned int node = 0; node < NODES; node++) {
			if (page_of(from, self->table, node) == PAGE_OF(self->table, copy))
				to.used_by &= ~(1 << node);
		}
		if (apply(&to, self, YOUNG, NUMAPTE_PTE, self->table) || mutant == AGE_CANONICAL) {
			self->k = 0;
			self->write = self->found;
			to.table_lock[self->table] = 0;
			self->pc = AGE_TOP;
		}
		break;
	case AGE_TOP:
		if (copy)
			to.used_by &= ~copy;
		if (apply(&to, self, YOUNG, NUMAPTE_PMD, 0)) {
			self->found = 0;
			self->pc = END;
		}
		break;
	case END:
		if (self->owed && !self->write)
			fault_found = "a page that was used looks old";
		done(&to);
		break;
	default:
		return;
	}
	reach(&to);
}
