// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every order of the steps of batched write-back, for one page of a file that is mapped
 * once or twice, two CPUs that write it, and up to two that write it back while somebody
 * changes its rights or unmaps it. The decisions are those that the kernel compiles.
 *
 * The page in memory and on disk is a version, which a write raises. Looked at:
 *   - who syncs returns only when the disk has what memory had when it was called;
 *   - when nobody is at work, a page newer in memory than on disk is known to be dirty.
 *
 * CPUs fill their TLBs when they like, write through what they hold without a look at
 * the page table, and only set the dirty bit where the entry was filled without it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

#define CPUS		2
#define MAPPINGS	2
#define SYNCS		2
#define VERSION_MAX	2

/* Deliberate mistakes; the names are those of the debug kernel where it has them. */
static const char *const mutants[] = {
	"none", "unflushed", "pending-ignored", "clean-early", "write-left", "mapping-forgotten",
	"writable-ignored", "announced-late", "clean-stays-clean",
};
enum mutant {
	NONE, UNFLUSHED, PENDING_IGNORED, CLEAN_EARLY, WRITE_LEFT, MAPPING_FORGOTTEN,
	WRITABLE_IGNORED, ANNOUNCED_LATE, CLEAN_STAYS_CLEAN, MUTANTS
};
static enum mutant mutant;

/* What is tried; a bit each. */
enum { SECOND_SYNC = 1, SECOND_MAPPING = 2, CHANGER = 4, ZAPPER = 8, LIBERTY = 16 };
static unsigned int scenario;

struct pte { unsigned char present : 1, writable : 1, dirty : 1, locked : 1; };
struct entry { unsigned char held : 1, writable : 1, dirty : 1; };

/* Where an actor is; k: the mapping, cpu: the next to be flushed. */
struct actor {
	unsigned char pc, k : 2, cpu : 2, found : 1, promised : 2;
	struct pte taken;
};

struct state {
	struct pte pte[MAPPINGS];
	struct entry tlb[CPUS][MAPPINGS];
	unsigned char mapped[MAPPINGS];		/* in the reverse mapping */
	unsigned char memory, disk;
	unsigned char is_dirty : 1, is_locked : 1, in_writeback : 1, is_read_only : 1;
	unsigned char pending;
	unsigned char fault[CPUS];		/* 0: none; 1 + mapping: the page is locked */
	struct actor sync[SYNCS], changer, zapper;
};

/* --- the states that were seen, and those still to be gone on from --- */

#define SEEN_MAX (1u << 24)
static struct state *seen;
static uint32_t *index_of;	/* 1 + place in seen */
static uint32_t count;

static uint64_t hash(const struct state *state)
{
	const unsigned char *byte = (const unsigned char *)state;
	uint64_t sum = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < sizeof(*state); i++)
		sum = (sum ^ byte[i]) * 0x100000001b3ull;
	return sum ^ sum >> 29;
}

static void reach(const struct state *state)
{
	uint32_t slot = hash(state) & (2 * SEEN_MAX - 1);

	while (index_of[slot]) {
		if (!memcmp(&seen[index_of[slot] - 1], state, sizeof(*state)))
			return;
		slot = (slot + 1) & (2 * SEEN_MAX - 1);
	}
	if (count == SEEN_MAX) {
		fprintf(stderr, "model: more than %u states: make the scenario smaller\n", SEEN_MAX);
		exit(1);
	}
	seen[count++] = *state;
	index_of[slot] = count;
}

static const char *fault_found;

/* --- the processors --- */

static bool is_mapped(unsigned int k)
{
	return k == 0 || scenario & SECOND_MAPPING;
}

static void flush(struct state *state, unsigned int cpu, unsigned int k)
{
	state->tlb[cpu][k] = (struct entry){ 0 };
}

static void processor(const struct state *from, unsigned int cpu, unsigned int k)
{
	const struct pte *pte = &from->pte[k];
	const struct entry *entry = &from->tlb[cpu][k];
	struct state to;

	/* A walk, at any time. */
	if (pte->present) {
		to = *from;
		to.tlb[cpu][k] = (struct entry){ 1, pte->writable, pte->dirty };
		reach(&to);
	}
	/* A write. */
	if (from->memory == VERSION_MAX)
		return;
	to = *from;
	to.memory++;
	if (entry->held && entry->writable && entry->dirty) {
		reach(&to);
	} else if (pte->present && pte->writable) {
		to.pte[k].dirty = 1;
		to.tlb[cpu][k] = (struct entry){ 1, 1, 1 };
		reach(&to);
	} else if (scenario & LIBERTY && entry->held && entry->writable && pte->present) {
		/* It sets the bit, and does not look at the right again. */
		to.pte[k].dirty = 1;
		to.tlb[cpu][k].dirty = 1;
		reach(&to);
	}
}

/* A write that is denied: page_mkwrite() locks the page and marks it, then the PTE is stored. */
static void fault(const struct state *from, unsigned int cpu, unsigned int k)
{
	struct state to = *from;

	if (!from->fault[cpu]) {
		if (from->is_locked || (k == 0 && from->is_read_only) ||
		    (from->pte[k].present && from->pte[k].writable))
			return;
		to.is_locked = 1;
		to.is_dirty = 1;
		to.fault[cpu] = 1 + k;
		reach(&to);
	} else if (from->fault[cpu] == 1 + k && !from->pte[k].locked) {
		/* An mprotect() since then: the fault looks at the PTE, and leaves. */
		if (!(k == 0 && from->is_read_only)) {
			if (!from->pte[k].present)
				to.mapped[k]++;
			to.pte[k] = (struct pte){ 1, 1, 1, 0 };
		}
		to.is_locked = 0;
		to.fault[cpu] = 0;
		reach(&to);
	}
}

/* A read where nothing is mapped. */
static void read_fault(const struct state *from, unsigned int k)
{
	struct state to = *from;

	if (from->pte[k].present || from->pte[k].locked || from->is_locked)
		return;
	to.pte[k] = (struct pte){ 1, 0, 0, 0 };
	to.mapped[k]++;
	reach(&to);
}

/* --- who writes back --- */

enum {
	IDLE, ANNOUNCE, PROTECT, ANNOUNCE_LATE, FLUSH, FLUSHED, LOCK, CLEAN, CLEAN_FLUSH, CLEAN_PUT, CLEARED, SUBMIT,
	WRITE, END, WAIT, RETURN, DONE
};

static struct pte after_protect(struct pte pte)
{
	struct batch_pte now = batch_protect((struct batch_pte){ pte.writable, pte.dirty });

	if (mutant == CLEAN_EARLY || (mutant == CLEAN_STAYS_CLEAN && !pte.dirty))
		now.dirty = false;
	pte.writable = now.writable;
	pte.dirty = now.dirty;
	return pte;
}

static bool must_flush(const struct state *state, struct pte pte)
{
	bool writable = pte.writable, pending = state->pending;

	if (mutant == PENDING_IGNORED)
		pending = false;
	if (mutant == WRITABLE_IGNORED)
		writable = false;
	return batch_must_flush((struct batch_pte){ writable, pte.dirty }, pending);
}

/* folio_mkclean() comes to mapping k. */
static void clean(struct state *to, struct actor *self)
{
	struct pte *pte = &to->pte[self->k];

	if (pte->present && to->mapped[self->k] && (pte->writable || pte->dirty) &&
	    !(mutant == MAPPING_FORGOTTEN && self->k)) {
		self->found = 1;
		if (must_flush(to, *pte)) {
			self->taken = *pte;
			*pte = (struct pte){ 0, 0, 0, 1 };
			self->cpu = 0;
			self->pc = CLEAN_FLUSH;
			return;
		}
		pte->dirty = 0;
		pte->writable = mutant == WRITE_LEFT;
	}
	self->k++;
	if (self->k == MAPPINGS || !is_mapped(self->k))
		self->pc = CLEARED;
}

static void sync_step(const struct state *from, unsigned int who)
{
	struct state to = *from;
	struct actor *self = &to.sync[who];
	struct pte *pte = &to.pte[self->k % MAPPINGS];

	switch (self->pc) {
	case IDLE:
		self->promised = to.memory;
		/* Without a window, too: what it leaves out must not matter. */
		self->pc = LOCK;
		reach(&to);
		self->pc = ANNOUNCE;
		break;
	/* One mapping after the other, each with a flush of its own. */
	case ANNOUNCE:
		if (mutant != ANNOUNCED_LATE)
			to.pending++;
		self->found = 0;
		self->pc = PROTECT;
		break;
	case PROTECT:
		if (pte->locked)
			return;
		if (pte->present && pte->writable) {
			*pte = after_protect(*pte);
			self->found = 1;
		}
		self->cpu = 0;
		self->pc = self->found && mutant != UNFLUSHED ? FLUSH : FLUSHED;
		if (mutant == ANNOUNCED_LATE)
			self->pc = ANNOUNCE_LATE;
		break;
	case ANNOUNCE_LATE:
		to.pending++;
		self->pc = FLUSH;
		break;
	case FLUSH:
		flush(&to, self->cpu, self->k);
		if (++self->cpu == CPUS)
			self->pc = FLUSHED;
		break;
	case FLUSHED:
		to.pending--;
		self->k++;
		self->pc = self->k == MAPPINGS || !is_mapped(self->k) ? LOCK : ANNOUNCE;
		break;
	case LOCK:
		if (to.is_locked)
			return;
		if (!to.is_dirty) {
			self->pc = WAIT;
			break;
		}
		to.is_locked = 1;
		self->k = 0;
		self->found = 0;
		self->pc = CLEAN;
		break;
	case CLEAN:
		if (to.in_writeback || pte->locked)
			return;
		clean(&to, self);
		break;
	case CLEAN_FLUSH:
		flush(&to, self->cpu, self->k);
		if (++self->cpu == CPUS)
			self->pc = CLEAN_PUT;
		break;
	case CLEAN_PUT:
		*pte = (struct pte){ 1, 0, 0, 0 };
		self->taken = (struct pte){ 0 };
		self->k++;
		self->pc = self->k == MAPPINGS || !is_mapped(self->k) ? CLEARED : CLEAN;
		break;
	case CLEARED:
		if (self->found)
			to.is_dirty = 1;
		/* Somebody unmapped it meanwhile: then it is dirty again, and is written. */
		self->pc = to.is_dirty ? SUBMIT : WAIT;
		if (!to.is_dirty)
			to.is_locked = 0;
		to.in_writeback = to.is_dirty;
		to.is_dirty = 0;
		break;
	case SUBMIT:
		to.is_locked = 0;
		self->pc = WRITE;
		break;
	case WRITE:
		to.disk = to.memory;
		self->pc = END;
		break;
	case END:
		to.in_writeback = 0;
		self->pc = RETURN;
		break;
	case WAIT:
		if (to.in_writeback)
			return;
		self->pc = RETURN;
		break;
	case RETURN:
		if (to.disk < self->promised)
			fault_found = "a sync has returned, and the disk has not what it promised";
		*self = (struct actor){ .pc = DONE };
		break;
	default:
		return;
	}
	reach(&to);
}

/* --- mprotect(PROT_READ) of mapping 0, and back --- */

static void changer_step(const struct state *from)
{
	struct state to = *from;
	struct actor *self = &to.changer;

	switch (self->pc) {
	case IDLE:
		to.is_read_only = 1;
		to.pending++;
		self->pc = PROTECT;
		break;
	case PROTECT:
		if (to.pte[0].locked)
			return;
		self->pc = to.pte[0].present && to.pte[0].writable ? FLUSH : FLUSHED;
		to.pte[0].writable = 0;
		break;
	case FLUSH:
		flush(&to, self->cpu, 0);
		if (++self->cpu == CPUS)
			self->pc = FLUSHED;
		break;
	case FLUSHED:
		to.pending--;
		self->cpu = 0;
		self->pc = CLEAN_PUT;
		break;
	case CLEAN_PUT:
		if (to.pte[0].locked)
			return;
		/* can_change_shared_pte_writable() */
		if (to.pte[0].present && to.pte[0].dirty)
			to.pte[0].writable = 1;
		to.is_read_only = 0;
		*self = (struct actor){ .pc = DONE };
		break;
	default:
		return;
	}
	reach(&to);
}

/* --- MADV_DONTNEED of the last mapping --- */

static void zapper_step(const struct state *from)
{
	const unsigned int k = is_mapped(1);
	struct state to = *from;
	struct actor *self = &to.zapper;

	switch (self->pc) {
	case IDLE:
		to.pending++;
		self->pc = PROTECT;
		break;
	case PROTECT:
		if (to.pte[k].locked)
			return;
		if (!to.pte[k].present) {
			self->pc = FLUSHED;
			break;
		}
		/* A dirty one is flushed under the lock, and in the reverse mapping until then. */
		self->found = to.pte[k].dirty;
		if (to.pte[k].dirty)
			to.is_dirty = 1;
		else
			to.mapped[k]--;
		to.pte[k] = (struct pte){ .locked = self->found };
		self->pc = FLUSH;
		break;
	case FLUSH:
		flush(&to, self->cpu, k);
		if (++self->cpu == CPUS)
			self->pc = FLUSHED;
		break;
	case FLUSHED:
		if (self->found) {
			to.mapped[k]--;
			to.pte[k].locked = 0;
		}
		to.pending--;
		*self = (struct actor){ .pc = DONE };
		break;
	default:
		return;
	}
	reach(&to);
}

static bool is_at_rest(const struct actor *actor)
{
	return actor->pc == IDLE || actor->pc == DONE;
}

static void look(const struct state *state)
{
	for (unsigned int i = 0; i < SYNCS; i++) {
		if (!is_at_rest(&state->sync[i]))
			return;
	}
	for (unsigned int cpu = 0; cpu < CPUS; cpu++) {
		if (state->fault[cpu])
			return;
	}
	if (!is_at_rest(&state->changer) || !is_at_rest(&state->zapper))
		return;
	if (state->memory > state->disk && !state->is_dirty)
		fault_found = "the page is newer in memory than on disk, and nobody knows";
}

static void step(const struct state *from)
{
	look(from);
	for (unsigned int k = 0; k < MAPPINGS && is_mapped(k); k++) {
		for (unsigned int cpu = 0; cpu < CPUS; cpu++) {
			processor(from, cpu, k);
			fault(from, cpu, k);
		}
		read_fault(from, k);
	}
	sync_step(from, 0);
	if (scenario & SECOND_SYNC)
		sync_step(from, 1);
	if (scenario & CHANGER)
		changer_step(from);
	if (scenario & ZAPPER)
		zapper_step(from);
}

/* Return: whether a fault was found. */
static bool explore(void)
{
	struct state first;

	memset(&first, 0, sizeof(first));
	memset(index_of, 0, 2 * SEEN_MAX * sizeof(*index_of));
	count = 0;
	fault_found = NULL;
	for (unsigned int k = 0; k < MAPPINGS && is_mapped(k); k++) {
		first.pte[k] = (struct pte){ 1, 0, 0, 0 };
		first.mapped[k] = 1;
	}
	/* As the child of a fork() finds it. */
	if (scenario & LIBERTY) {
		first.pte[0].writable = 1;
		first.is_dirty = 1;
	}
	reach(&first);
	for (uint32_t i = 0; i < count && !fault_found; i++) {
		const struct state from = seen[i];

		step(&from);
	}
	return fault_found;
}

int main(int argc, char **argv)
{
	static const struct { const char *name; unsigned int scenario; } all[] = {
		{ "one sync, two mappings", SECOND_MAPPING },
		{ "two syncs", SECOND_SYNC },
		{ "two syncs, careless processor", SECOND_SYNC | LIBERTY },
		{ "a sync and mprotect()", CHANGER },
		{ "a sync and MADV_DONTNEED", ZAPPER },
		{ "two syncs and mprotect()", SECOND_SYNC | CHANGER },
		{ "two syncs and MADV_DONTNEED", SECOND_SYNC | ZAPPER },
		{ "two mappings, one unmapped", SECOND_MAPPING | ZAPPER },
		{ "two syncs, two mappings", SECOND_SYNC | SECOND_MAPPING },
	};
	bool found = false;

	for (unsigned int i = 0; argc > 1 && i < MUTANTS; i++) {
		if (!strcmp(argv[1], mutants[i]))
			mutant = i;
	}
	if (argc > 1 && !mutant && strcmp(argv[1], "none")) {
		fprintf(stderr, "model: there is no mutant '%s'; there are:", argv[1]);
		for (unsigned int i = 0; i < MUTANTS; i++)
			fprintf(stderr, " %s", mutants[i]);
		fprintf(stderr, "\n");
		return 2;
	}
	seen = malloc(SEEN_MAX * sizeof(*seen));
	index_of = malloc(2 * SEEN_MAX * sizeof(*index_of));
	if (!seen || !index_of) {
		fprintf(stderr, "model: no memory for %u states\n", SEEN_MAX);
		return 1;
	}
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		scenario = all[i].scenario;
		if (explore()) {
			printf("%s: %s (state %" PRIu32 ")\n", all[i].name, fault_found, count);
			found = true;
			break;
		}
		printf("%s: %" PRIu32 " states, ok\n", all[i].name, count);
	}
	return found;
}
