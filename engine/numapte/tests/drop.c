// SPDX-License-Identifier: GPL-2.0-only
/*
 * Node 1's replica is given up while its table stays in use: by one giver once, and in some scenarios by another again
 * and again. Between the steps no lock of a table is held, and a fault may link the replica again: it is left then.
 */
#include "model.h"

enum { IDLE, FLUSH, TAKE, FREE, DONE = UINT8_MAX };

static void unlock(struct state *to, struct actor *self, unsigned int me)
{
	if (to->upper_lock == 1 + me) {
		to->upper_lock = 0;
		to->table_lock[self->table] = 0;
	}
}

static void done(struct state *to, struct actor *self, unsigned int me)
{
	unlock(to, self, me);
	to->readers--;
	if (to->giver == 1 + me)
		to->giver = 0;
	*self = (struct actor){ .pc = me == MUTATOR ? DONE : IDLE };
}

/* The table that is there now, with its lock and that of what leads to it. */
static bool lock(struct state *to, struct actor *self, unsigned int me)
{
	const int table = table_at(to, 0);

	if (to->upper_lock || to->table_lock[table])
		return false;
	to->upper_lock = 1 + me;
	to->table_lock[table] = 1 + me;
	self->table = table;
	return true;
}

static bool has_replica(const struct state *state)
{
	const int table = table_at(state, 0);

	return table >= 0 && state->place[table][1] == NUMAPTE_OWN;
}

static void fold(struct state *to, const struct actor *self)
{
	entry *canonical = &to->pte[self->table][0];

	put(canonical, numapte_fold(get(*canonical), get(to->pte[self->table][2])));
}

static void give_step(const struct state *from, unsigned int me)
{
	struct state to = *from;
	struct actor *self = &to.actor[me];
	const bool early = mutant == FOLD_EARLY || mutant == FREE_EARLY;

	switch (self->pc) {
	case IDLE:
		if (to.mmap_lock || !has_replica(from) || (to.giver && mutant != TWO_GIVERS) || !lock(&to, self, me))
			return;
		to.readers++;
		to.giver = 1 + me;
		to.pmd[2][0] = 0;
		to.links[self->table] &= ~INSERTED(1);
		disturb(&to, self);
		if (early)
			fold(&to, self);
		self->pc = FLUSH;
		if (mutant == FREE_EARLY)
			self->pc = FREE;
		else
			unlock(&to, self, me);
		break;
	case FLUSH:
		if (flush(&to, self, 0, TABLES_FREED))
			self->pc = TAKE;
		break;
	case TAKE:
		if (!has_replica(from)) {
			done(&to, self, me);
			break;
		}
		if (!lock(&to, self, me))
			return;
		if (numapte_walkable(get(to.pmd[2][0])) ||
		    (to.links[self->table] & INSERTED(1) && mutant != TAKE_INSERTED)) {
			done(&to, self, me);
			break;
		}
		if (!early)
			fold(&to, self);
		disturb(&to, self);
		self->pc = FREE;
		break;
	case FREE:
		free_page(&to, PAGE_OF(self->table, 2), early ? NUMAPTE_UNLINKED : NUMAPTE_FOLDED, true);
		forget(&to, self->table, 1);
		to.links[self->table] &= ~2;
		done(&to, self, me);
		break;
	default:
		return;
	}
	reach(&to);
}

void drop_step(const struct state *from)
{
	give_step(from, MUTATOR);
}

void drop_again_step(const struct state *from)
{
	give_step(from, RMAP);
}
