// SPDX-License-Identifier: GPL-2.0-only
/* What system calls and khugepaged do, once. Each begins with the lock that keeps faults out, or does not take it. */
#include "model.h"

enum {
	IDLE, ENTRY, TAKE, FLUSH_LOCKED, STORE_ENTRY, FLUSH, AGAIN, TAKE_AGAIN, STORE_AGAIN, TOP, CLEAR_TOP,
	STORE_TOP, DEPOSIT, SPLIT, SPLIT_FLUSH, SPLIT_ENTRY, SPLIT_TOP, DONE = UINT8_MAX
};

#define ME	(1 + MUTATOR)

static bool lock_mmap(struct state *to)
{
	if (to->mmap_lock || to->readers)
		return false;
	to->mmap_lock = ME;
	return true;
}

static bool lock_table(struct state *to, struct actor *self, unsigned int slot)
{
	const int table = table_at(to, slot);

	if (to->table_lock[table])
		return false;
	to->table_lock[table] = ME;
	self->table = table;
	if (mutant != NODES_EARLY)
		note_nodes(to, self, table);
	return true;
}

/* The mistake: before the lock is taken. */
static void note_early(struct state *to, struct actor *self)
{
	if (mutant == NODES_EARLY && table_at(to, 0) >= 0)
		note_nodes(to, self, table_at(to, 0));
}

static void unlock_table(struct state *to, struct actor *self)
{
	to->table_lock[self->table] = 0;
}

static void done(struct state *to)
{
	if (to->mmap_lock == ME)
		to->mmap_lock = 0;
	if (to->rmap_lock == ME)
		to->rmap_lock = 0;
	if (to->upper_lock == ME)
		to->upper_lock = 0;
	to->actor[MUTATOR] = (struct actor){ .pc = DONE };
}

static u64 entry_of(const struct state *state, unsigned int slot)
{
	const int table = table_at(state, slot);

	return table < 0 ? 0 : get(state->pte[table][0]);
}

/* mprotect() to less, and back. */
static void change_step(const struct state *from, bool none)
{
	struct state to = *from;
	struct actor *self = &to.actor[MUTATOR];
	u64 value = get(self->value);

	switch (self->pc) {
	case IDLE:
		if (!lock_mmap(&to))
			return;
		to.is_read_only = 1;
		to.is_off_limits = none;
		to.pending[0]++;
		note_early(&to, self);
		self->pc = ENTRY;
		break;
	case ENTRY:
		if (table_at(from, 0) < 0) {
			self->pc = FLUSH;
			break;
		}
		if (!lock_table(&to, self, 0))
			return;
		value = entry_of(from, 0);
		self->pc = TAKE;
		if (!numapte_walkable(value) || (!none && !(value & NUMAPTE_RW))) {
			unlock_table(&to, self);
			self->pc = FLUSH;
		}
		break;
	case TAKE:
		if (apply(&to, self, CLEAR, NUMAPTE_PTE, self->table)) {
			value = without_write(get(self->value));
			put(&self->value, none ? (value & ~NUMAPTE_PRESENT) | PROTNONE : value);
			self->pc = STORE_ENTRY;
		}
		break;
	case STORE_ENTRY:
		if (apply(&to, self, STORE, NUMAPTE_PTE, self->table)) {
			unlock_table(&to, self);
			self->value = 0;
			self->pc = FLUSH;
		}
		break;
	case FLUSH:
		if (flush(&to, self, 0, SOME)) {
			to.pending[0]--;
			to.mmap_lock = 0;
			self->pc = AGAIN;
		}
		break;
	case AGAIN:
		if (to.mmap_lock != ME) {
			if (!lock_mmap(&to))
				return;
			to.is_read_only = 0;
			to.is_off_limits = 0;
			break;
		}
		if (!entry_of(from, 0)) {
			done(&to);
			break;
		}
		if (!lock_table(&to, self, 0))
			return;
		self->nodes = 0;
		self->pc = TAKE_AGAIN;
		break;
	case TAKE_AGAIN:
		if (!apply(&to, self, CLEAR, NUMAPTE_PTE, self->table))
			break;
		value = get(self->value);
		if (value & PROTNONE)
			value = (value & ~PROTNONE) | NUMAPTE_PRESENT;
		if (is_dirty(value) && value)
			value = (value & ~NUMAPTE_SAVED_DIRTY) | NUMAPTE_DIRTY | NUMAPTE_RW;
		put(&self->value, value);
		self->pc = STORE_AGAIN;
		break;
	case STORE_AGAIN:
		if (apply(&to, self, STORE, NUMAPTE_PTE, self->table)) {
			unlock_table(&to, self);
			done(&to);
		}
		break;
	default:
		return;
	}
	reach(&to);
}

void protect_step(const struct state *from)
{
	change_step(from, false);
}

void off_limits_step(const struct state *from)
{
	change_step(from, true);
}

/* fork() of memory that is copied at a write: the child's entry is made of what is read before the right is taken. */
void fork_step(const struct state *from)
{
	struct state to = *from;
	struct actor *self = &to.actor[MUTATOR];

	switch (self->pc) {
	case IDLE:
		if (!lock_mmap(&to))
			return;
		to.pending[0]++;
		self->owed = to.is_written && !to.is_known;
		self->pc = ENTRY;
		break;
	case ENTRY:
		if (!entry_of(from, 0)) {
			self->found = 1;
			self->pc = FLUSH;
			break;
		}
		if (!lock_table(&to, self, 0))
			return;
		self->found = is_dirty(mutant == FORK_PLAIN ? entry_of(from, 0) : folded(from, self->table));
		self->pc = TAKE;
		if (!(entry_of(from, 0) & NUMAPTE_RW)) {
			unlock_table(&to, self);
			self->pc = FLUSH;
		}
		break;
	case TAKE:
		if (apply(&to, self, WRPROTECT, NUMAPTE_PTE, self->table)) {
			unlock_table(&to, self);
			self->pc = FLUSH;
		}
		break;
	case FLUSH:
		if (flush(&to, self, 0, TABLES_FREED)) {
			if (self->owed && !self->found && !to.is_known)
				fault_found = "the page was written, and the child's entry looks clean";
			to.pending[0]--;
			done(&to);
		}
		break;
	default:
		return;
	}
	reach(&to);
}

/* The entry is taken out. One that was dirty is flushed with the lock held. Return: it is done. */
static bool take(const struct state *from, struct state *to, struct actor *self)
{
	switch (self->pc) {
	case ENTRY:
		if (!entry_of(from, 0))
			return true;
		if (!lock_table(to, self, 0)) {
			self->pc = IDLE;
			return false;
		}
		self->pc = TAKE;
		return false;
	case TAKE:
		if (!apply(to, self, CLEAR, NUMAPTE_PTE, self->table))
			return false;
		if (is_dirty(get(self->value))) {
			to->is_known = 1;
			self->value = 0;
			self->pc = FLUSH_LOCKED;
			return false;
		}
		break;
	default:
		if (!flush(to, self, 0, SOME))
			return false;
	}
	self->value = 0;
	unlock_table(to, self);
	return true;
}

/* MADV_DONTNEED, and the end of the process. */
static void zap(const struct state *from, bool exiting)
{
	struct state to = *from;
	struct actor *self = &to.actor[MUTATOR];

	switch (self->pc) {
	case IDLE:
		if (exiting ? !lock_mmap(&to) : to.mmap_lock)
			return;
		to.is_exiting = exiting;
		to.readers += !exiting;
		to.pending[0]++;
		note_early(&to, self);
		self->pc = ENTRY;
		break;
	case ENTRY:
	case TAKE:
	case FLUSH_LOCKED:
		if (take(from, &to, self))
			self->pc = FLUSH;
		else if (!self->pc)
			return;
		break;
	case FLUSH:
		if (flush(&to, self, 0, exiting ? TABLES_FREED : SOME)) {
			to.pending[0]--;
			to.readers -= !exiting;
			done(&to);
		}
		break;
	default:
		return;
	}
	reach(&to);
}

void zap_step(const struct state *from)
{
	zap(from, false);
}

void exit_step(const struct state *from)
{
	zap(from, true);
}

static void free_table(struct state *to, unsigned int table, enum numapte_leaving leaving)
{
	for (unsigned int node = 0; node < NODES; node++) {
		if (to->place[table][node] == NUMAPTE_OWN)
			free_page(to, PAGE_OF(table, 1 + node), leaving, false);
		forget(to, table, node);
	}
	free_page(to, PAGE_OF(table, 0), leaving, false);
	to->pte[table][0] = 0;
	to->links[table] = 0;
}

/* munmap() with its table; what is mapped there next takes a table as at the beginning. */
void unmap_step(const struct state *from)
{
	struct state to = *from;
	struct actor *self = &to.actor[MUTATOR];

	switch (self->pc) {
	case IDLE:
		if (!lock_mmap(&to))
			return;
		to.pending[0]++;
		note_early(&to, self);
		self->pc = ENTRY;
		break;
	case ENTRY:
	case TAKE:
	case FLUSH_LOCKED:
		if (take(from, &to, self))
			self->pc = TOP;
		else if (!self->pc)
			return;
		break;
	case TOP:
		if (table_at(from, 0) < 0) {
			self->pc = FLUSH;
			break;
		}
		if (to.rmap_lock)
			return;
		to.rmap_lock = ME;
		to.upper_lock = ME;
		self->table = table_at(from, 0);
		self->pc = CLEAR_TOP;
		break;
	case CLEAR_TOP:
		if (!apply(&to, self, CLEAR, NUMAPTE_PMD, 0))
			break;
		self->value = 0;
		self->found = 1;
		to.upper_lock = 0;
		if (mutant != NODES_OF_PTES && mutant != NODES_EARLY)
			note_nodes(&to, self, self->table);
		self->pc = FLUSH;
		if (mutant == UNSHARED_EARLY)
			to.links[self->table] = 0;
		if (mutant == FREE_UNFLUSHED) {
			free_table(&to, self->table, NUMAPTE_UNLINKED);
			self->found = 0;
		}
		break;
	case FLUSH:
		if (!flush(&to, self, 0, SOME | TABLES_FREED))
			break;
		if (self->found)
			free_table(&to, self->table, NUMAPTE_FLUSHED);
		to.pending[0]--;
		done(&to);
		break;
	default:
		return;
	}
	reach(&to);
}

/* mremap() of all that a table maps: the table goes along, and what the nodes have of it is linked again by faults. */
void move_step(const struct state *from)
{
	struct state to = *from;
	struct actor *self = &to.actor[MUTATOR];

	switch (self->pc) {
	case IDLE:
		if (to.rmap_lock || table_at(from, 0) < 0 || !lock_mmap(&to))
			return;
		to.rmap_lock = ME;
		to.upper_lock = ME;
		to.pending[0]++;
		self->pc = CLEAR_TOP;
		break;
	case CLEAR_TOP:
		if (!apply(&to, self, CLEAR, NUMAPTE_PMD, 0) && mutant != MOVE_ALONE)
			break;
		self->k = 0;
		self->pc = STORE_TOP;
		break;
	case STORE_TOP:
		if (apply(&to, self, STORE, NUMAPTE_PMD, 1)) {
			self->value = 0;
			to.unmapped = 1;
			self->pc = FLUSH;
		}
		break;
	case FLUSH:
		if (flush(&to, self, 0, TABLES_FREED)) {
			to.pending[0]--;
			done(&to);
		}
		break;
	default:
		return;
	}
	reach(&to);
}

/* The replicas of a table that nothing leads to, and that is empty. */
static void free_replicas(struct state *to, unsigned int table)
{
	for (unsigned int node = 0; node < NODES; node++) {
		if (to->place[table][node] == NUMAPTE_OWN) {
			free_page(to, PAGE_OF(table, 1 + node), NUMAPTE_FLUSHED, false);
			if (mutant == DEPOSIT_REMEMBERED)
				continue;
		}
		forget(to, table, node);
	}
	to->links[table] = 0;
}

/* khugepaged puts a huge page there and keeps the table; then it is split, and takes the table back. */
static void collapse_rest(struct state *to, struct actor *self)
{
	switch (self->pc) {
	case SPLIT:
		if (to->upper_lock && to->upper_lock != ME)
			return;
		if (!to->upper_lock) {
			to->upper_lock = ME;
			to->pending[0]++;
		}
		if (apply(to, self, CLEAR, NUMAPTE_PMD, 0))
			self->pc = SPLIT_FLUSH;
		break;
	case SPLIT_FLUSH:
		if (!flush(to, self, 0, TABLES_FREED))
			break;
		self->table = to->deposited - 1;
		to->deposited = 0;
		to->table_lock[self->table] = ME;
		put(&self->value, get(self->value) & ~NUMAPTE_PSE);
		self->pc = SPLIT_ENTRY;
		break;
	case SPLIT_ENTRY:
		if (!apply(to, self, STORE, NUMAPTE_PTE, self->table))
			break;
		unlock_table(to, self);
		put(&self->value, FRAME(PAGE_OF(self->table, 0)) | NUMAPTE_PRESENT | NUMAPTE_RW);
		self->pc = SPLIT_TOP;
		break;
	case SPLIT_TOP:
		if (apply(to, self, STORE, NUMAPTE_PMD, 0)) {
			to->pending[0]--;
			done(to);
		}
		break;
	default:
		return;
	}
	reach(to);
}

void collapse_step(const struct state *from)
{
	struct state to = *from;
	struct actor *self = &to.actor[MUTATOR];

	switch (self->pc) {
	case IDLE:
		if (to.rmap_lock || !entry_of(from, 0) || to.upper_lock || !lock_mmap(&to))
			return;
		to.rmap_lock = ME;
		to.upper_lock = ME;
		to.pending[0]++;
		self->table = table_at(from, 0);
		self->pc = CLEAR_TOP;
		break;
	case CLEAR_TOP:
		if (apply(&to, self, CLEAR, NUMAPTE_PMD, 0) || mutant == COLLAPSE_ALONE) {
			self->k = 0;
			self->pc = FLUSH;
		}
		break;
	case FLUSH:
		if (flush(&to, self, 0, TABLES_FREED)) {
			to.table_lock[self->table] = ME;
			self->pc = TAKE;
		}
		break;
	case TAKE:
		if (apply(&to, self, CLEAR, NUMAPTE_PTE, self->table))
			self->pc = DEPOSIT;
		break;
	case DEPOSIT:
		if (mutant != COLLAPSE_ALONE)
			free_replicas(&to, self->table);
		to.deposited = 1 + self->table;
		unlock_table(&to, self);
		put(&self->value, FRAME(HUGE) | NUMAPTE_PSE | NUMAPTE_PRESENT | NUMAPTE_RW | NUMAPTE_ACCESSED |
		    NUMAPTE_DIRTY);
		self->pc = STORE_TOP;
		break;
	case STORE_TOP:
		if (apply(&to, self, STORE, NUMAPTE_PMD, 0) || mutant == COLLAPSE_ALONE) {
			self->k = 0;
			self->value = 0;
			to.pending[0]--;
			to.mmap_lock = 0;
			to.rmap_lock = 0;
			to.upper_lock = 0;
			self->pc = SPLIT;
		}
		break;
	default:
		collapse_rest(&to, self);
		return;
	}
	reach(&to);
}
