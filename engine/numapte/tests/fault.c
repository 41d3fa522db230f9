// SPDX-License-Identifier: GPL-2.0-only
/* A fault of a node: the table is linked, the entry made or found to be good, and copied. */
#include "model.h"

enum { IDLE, TABLE, LINK, PUBLISH, LEAD, READ, LOCK, MAKE, COPY, LATE, HUGE_COPY };

/* Would a walk from the top allow it? */
static bool is_granted(const struct state *state, unsigned int node, unsigned int slot, bool write)
{
	u64 value = get(state->pmd[1 + node][slot]);

	if (numapte_is_table(NUMAPTE_PMD, value)) {
		const unsigned int page = frame_of(value) - PAGE_OF(0, 0);

		value = get(state->pte[page / COPIES][page % COPIES]);
	}
	return numapte_walkable(value) && (value & NUMAPTE_RW || !write);
}

static void end(struct state *to, unsigned int node, bool is_bad)
{
	if (is_bad && !to->actor[node].excused)
		fault_found = "a fault ends, and would come again for ever";
	to->readers--;
	to->actor[node] = (struct actor){ 0 };
	reach(to);
}

static void start(const struct state *from, unsigned int node, unsigned int slot, bool write, bool neighbour)
{
	struct state to = *from;

	if (from->away[node] || from->mmap_lock || from->is_exiting || from->unmapped >> slot & 1 || (write && from->is_read_only) ||
	    (from->is_off_limits && !neighbour))
		return;
	if (neighbour ? table_at(from, slot) < 0 : is_granted(from, node, slot, write))
		return;
	to.readers++;
	to.actor[node] = (struct actor){ .pc = TABLE, .slot = slot, .write = write, .found = neighbour };
	reach(&to);
}

/* The canonical table is there, or is made. */
static void table_step(struct state *to, struct actor *self, unsigned int node)
{
	const int table = table_at(to, self->slot);
	unsigned int k;

	if (table >= 0) {
		self->table = table;
		self->pc = scenario & INSERTION ? READ : LINK;
	} else if (numapte_walkable(get(to->pmd[0][self->slot]))) {
		self->pc = HUGE_COPY;
	} else {
		if (to->upper_lock)
			return;
		for (k = 0; k < TABLES && (is_used(to, PAGE_OF(k, 0)) || to->deposited == 1 + k); k++)
			;
		if (k == TABLES) {
			end(to, node, false);
			return;
		}
		set_used(to, PAGE_OF(k, 0), true);
		put(&to->pmd[0][self->slot], FRAME(PAGE_OF(k, 0)) | NUMAPTE_PRESENT | NUMAPTE_RW);
		disturb(to, self);
		self->table = k;
		self->pc = scenario & INSERTION ? READ : LINK;
	}
	reach(to);
}

/* Where the node's tree is to lead; under the locks of the upper table and of the table until it does. */
static void link_step(struct state *to, struct actor *self, unsigned int node)
{
	const bool home = scenario & ONE_HOME && !node;

	if (numapte_walkable(get(to->pmd[1 + node][self->slot]))) {
		self->pc = READ;
		reach(to);
		return;
	}
	if (to->upper_lock || to->table_lock[self->table])
		return;
	if (table_at(to, self->slot) != self->table) {
		end(to, node, true);
		return;
	}
	to->upper_lock = 1 + node;
	to->table_lock[self->table] = 1 + node;
	self->pc = mutant == LINK_EARLY ? LEAD : PUBLISH;
	self->k = to->place[self->table][node];
	for (unsigned int own = 0; own < 2; own++) {
		struct state next = *to;
		struct actor *me = &next.actor[node];

		if (!own && !(scenario & NO_MEMORY))
			continue;
		if (me->k == NUMAPTE_NOWHERE) {
			me->k = numapte_place(NUMAPTE_PTE, home, own, false);
			if (me->k == NUMAPTE_OWN)
				set_used(&next, PAGE_OF(me->table, 1 + node), true);
		}
		reach(&next);
	}
}

/* Everybody who changes the table must reach the page before the node can walk it. */
static void publish_step(struct state *to, struct actor *self, unsigned int node)
{
	to->place[self->table][node] = self->k;
	to->links[self->table] |= 1 << node;
	self->pc = LEAD;
	if (mutant == LINK_EARLY) {
		to->upper_lock = 0;
		to->table_lock[self->table] = 0;
		self->k = 0;
		self->pc = READ;
	}
	reach(to);
}

static void lead_step(struct state *to, struct actor *self, unsigned int node)
{
	const unsigned int page = PAGE_OF(self->table, self->k == NUMAPTE_OWN ? 1 + node : 0);

	put(&to->pmd[1 + node][self->slot], numapte_link(get(to->pmd[0][self->slot]), FRAME(page)));
	if (mutant == LINK_EARLY) {
		self->pc = PUBLISH;
	} else {
		to->upper_lock = 0;
		to->table_lock[self->table] = 0;
		self->k = 0;
		self->pc = READ;
	}
	reach(to);
}

static void unlock(struct state *to, struct actor *self, unsigned int node, bool is_bad)
{
	to->table_lock[self->table] = 0;
	end(to, node, is_bad);
}

/* With the lock: what becomes of the canonical entry. */
static void lock_step(struct state *to, struct actor *self, unsigned int node)
{
	const u64 now = get(to->pte[self->table][0]);
	u64 value = now;

	/* A good entry is copied with no lock but that of the node's own page. */
	if (mutant == COPY_UNLOCKED && numapte_walkable(now) && (now & NUMAPTE_RW || !self->write)) {
		put(&self->value, now);
		self->pc = LATE;
		reach(to);
		return;
	}
	if (to->table_lock[self->table])
		return;
	if (table_at(to, self->slot) != self->table) {
		end(to, node, true);
		return;
	}
	if (!self->found && now != get(self->old)) {
		end(to, node, true);
		return;
	}
	/* Nobody makes a page writable while it is written back or taken out: the page's lock. */
	if (!self->found && to->rmap_lock == 1 + RMAP && (!numapte_walkable(now) || self->write))
		return;
	to->table_lock[self->table] = 1 + node;
	self->old = 0;
	self->pc = COPY;
	if (self->found) {
		reach(to);
		return;
	}
	if (value & PROTNONE && !numapte_walkable(value))
		value = (value & ~PROTNONE) | NUMAPTE_PRESENT;
	if (!numapte_walkable(value))
		value = FRAME(SMALL) | NUMAPTE_PRESENT | NUMAPTE_ACCESSED | (to->is_read_only ? 0 : NUMAPTE_RW);
	if (self->write)
		value = (value & ~NUMAPTE_SAVED_DIRTY) | NUMAPTE_RW | NUMAPTE_DIRTY | NUMAPTE_ACCESSED;
	if (value != now) {
		put(&self->value, value);
		self->pc = MAKE;
	}
	reach(to);
}

/* Its processor holds what was stored without a walk. Others may do so by a walk as soon as it was stored. */
static void insert_step(const struct state *from, const struct actor *self, unsigned int node, u64 value)
{
	struct state to = *from;

	put(&to.tlb[node][self->slot], value & ~(NUMAPTE_ACCESSED | NUMAPTE_SAVED_DIRTY));
	to.tlb_from[node][self->slot] = PAGE_OF(self->table, 0);
	if (mutant != INSERT_UNLINKED)
		to.links[self->table] |= 1 << node | INSERTED(node);
	reach(&to);
}

static void copy_step(struct state *to, struct actor *self, unsigned int node)
{
	const u64 canonical = get(to->pte[self->table][0]);
	entry *replica = &to->pte[self->table][1 + node];
	const bool is_own = to->place[self->table][node] == NUMAPTE_OWN;
	u64 copy = numapte_copy(NUMAPTE_PTE, canonical, !self->found);
	bool must = is_own && numapte_must_copy(NUMAPTE_PTE, canonical, get(*replica));

	/* Linux handles a fault first, and the node's tree is filled then. */
	if (scenario & INSERTION && !self->owed) {
		to->table_lock[self->table] = 0;
		self->owed = 1;
		self->pc = LINK;
		reach(to);
		return;
	}
	if (mutant == FILL_FORGOTTEN)
		must = false;
	if (mutant == COPY_OVER)
		must = is_own && copy;
	if (mutant == PRESENT_COPIED && is_own && canonical && !*replica) {
		copy = canonical;
		must = true;
	}
	if (mutant == COPY_LATE && must) {
		put(&self->value, canonical);
		to->table_lock[self->table] = 0;
		self->pc = LATE;
		reach(to);
		return;
	}
	if (must)
		put(replica, copy);
	unlock(to, self, node, !self->found && !is_granted(to, node, self->slot, self->write));
}

/* Of mutants alone: what was read before is stored when nobody is kept out. */
static void late_step(struct state *to, struct actor *self, unsigned int node)
{
	entry *replica = &to->pte[self->table][1 + node];
	const u64 value = get(self->value);

	if (to->place[self->table][node] == NUMAPTE_OWN && numapte_must_copy(NUMAPTE_PTE, value, get(*replica)))
		put(replica, numapte_copy(NUMAPTE_PTE, value, true));
	end(to, node, false);
}

static void huge_step(struct state *to, struct actor *self, unsigned int node)
{
	entry *replica = &to->pmd[1 + node][self->slot];
	const u64 canonical = get(to->pmd[0][self->slot]);

	if (to->upper_lock)
		return;
	if (numapte_must_copy(NUMAPTE_PMD, canonical, get(*replica)))
		put(replica, numapte_copy(NUMAPTE_PMD, canonical, !self->found));
	end(to, node, !self->found && !is_granted(to, node, self->slot, self->write));
}

void fault_step(const struct state *from, unsigned int node)
{
	struct state to = *from;
	struct actor *self = &to.actor[node];
	u64 value;

	switch (self->pc) {
	case IDLE:
		for (unsigned int slot = 0; slot < SLOTS; slot++) {
			for (unsigned int write = 0; write < 2; write++)
				start(from, node, slot, write, false);
			if (scenario & PREFETCH)
				start(from, node, slot, false, true);
		}
		break;
	case TABLE:
		table_step(&to, self, node);
		break;
	case LINK:
		link_step(&to, self, node);
		break;
	case PUBLISH:
		publish_step(&to, self, node);
		break;
	case LEAD:
		lead_step(&to, self, node);
		break;
	case READ:
		put(&self->old, mutant == SAME_FOLDED ? folded(from, self->table) : get(from->pte[self->table][0]));
		self->pc = LOCK;
		reach(&to);
		break;
	case LOCK:
		lock_step(&to, self, node);
		break;
	case MAKE:
		if (apply(&to, self, STORE, NUMAPTE_PTE, self->table)) {
			value = get(self->value);
			self->value = 0;
			self->pc = COPY;
			if (scenario & INSERTION)
				insert_step(&to, self, node, value);
		}
		reach(&to);
		break;
	case COPY:
		copy_step(&to, self, node);
		break;
	case LATE:
		late_step(&to, self, node);
		break;
	case HUGE_COPY:
		huge_step(&to, self, node);
		break;
	}
}
