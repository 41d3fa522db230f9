// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two MADV_DONTNEED of the same page, at once. Who finds the entry gone relies on a flush that the other has still to
 * make; so who ends while another is at it flushes everything, on all nodes (tlb_finish_mmu()).
 */
#include "model.h"

enum { IDLE, ENTRY, TAKE, END, FLUSH, DONE = UINT8_MAX };

static bool is_mapped(const struct state *state)
{
	const int table = table_at(state, 0);

	return table >= 0 && get(state->pte[table][0]);
}

/* The entry is taken out, and not flushed yet. */
static bool has_taken(const struct actor *other)
{
	return other->pc == END || other->pc == FLUSH;
}

/* It has found that the other had taken the entry out: its caller relies on that nobody uses the page. */
static void check(const struct state *state, const struct actor *self)
{
	if (!self->write || is_mapped(state))
		return;
	for (unsigned int node = 0; node < NODES; node++) {
		if (numapte_walkable(get(state->tlb[node][0])))
			fault_found = "MADV_DONTNEED is over, and a processor still uses the page";
	}
}

static void gather_step(const struct state *from, unsigned int me)
{
	struct state to = *from;
	struct actor *self = &to.actor[me];

	switch (self->pc) {
	case IDLE:
		if (to.mmap_lock)
			return;
		to.readers++;
		to.pending[0]++;
		self->pc = ENTRY;
		break;
	case ENTRY:
		self->pc = END;
		if (table_at(from, 0) < 0)
			break;
		self->table = table_at(from, 0);
		if (to.table_lock[self->table])
			return;
		if (!is_mapped(from)) {
			self->write = has_taken(&from->actor[me == RMAP ? MUTATOR : RMAP]);
			break;
		}
		to.table_lock[self->table] = 1 + me;
		self->pc = TAKE;
		break;
	case TAKE:
		if (!apply(&to, self, CLEAR, NUMAPTE_PTE, self->table))
			break;
		to.is_known |= is_dirty(get(self->value));
		self->value = 0;
		note_nodes(&to, self, self->table);
		to.table_lock[self->table] = 0;
		self->pc = END;
		break;
	case END:
		self->found = to.pending[0] > 1 && mutant != NESTED_FILTERED;
		self->pc = FLUSH;
		break;
	case FLUSH:
		if (!flush(&to, self, 0, self->found ? 0 : SOME))
			break;
		check(&to, self);
		to.pending[0]--;
		to.readers--;
		*self = (struct actor){ .pc = DONE };
		break;
	default:
		return;
	}
	reach(&to);
}

void dontneed_step(const struct state *from)
{
	gather_step(from, MUTATOR);
}

void dontneed_again_step(const struct state *from)
{
	gather_step(from, RMAP);
}
