/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Every order of the steps of a kernel whose page tables are replicated on two nodes, and of
 * the processors that walk them: the state, and what all parts use. The decisions are those
 * that the kernel compiles.
 *
 * One or two addresses, each with a table of one entry; a processor a node. A processor walks
 * its own tree when it likes, from the top or from what it holds of the upper levels.
 */
#ifndef MODEL_H
#define MODEL_H

#include <string.h>

#include "engine.h"

#define NODES		2u
#define ALL_NODES	((1u << NODES) - 1)
#define COPIES		(1u + NODES)	/* of a table: the canonical one, and each node's */
#define TABLES		2u
#define SLOTS		2u
#define SOFT_DIRTY	(1ull << 11)
#define PROTNONE	(1ull << 8)

/* Frames: two of data, then the pages of the tables. */
#define SMALL		1u
#define HUGE		2u
#define PAGE_OF(k, copy)	(3u + COPIES * (k) + (copy))
#define FRAME(number)	((u64)(number) << 12)

/* Deliberate mistakes; what they are: mutants.txt. */
#define MUTANTS(X) \
	X(NONE, "none") \
	X(EXIT_UNFOLDED, "exit-unfolded") \
	X(CLEAR_UNFOLDED, "clear-unfolded") \
	X(WRPROTECT_UNFOLDED, "wrprotect-unfolded") \
	X(WRPROTECT_LEFT, "wrprotect-left") \
	X(FOLD_ALL, "fold-all") \
	X(FOLD_SHADOW, "fold-shadow") \
	X(FOLD_SOFT, "fold-soft") \
	X(COPY_LATE, "copy-late") \
	X(COPY_UNLOCKED, "copy-unlocked") \
	X(COPY_OVER, "copy-over") \
	X(PRESENT_STORED, "present-stored") \
	X(PRESENT_COPIED, "present-copied") \
	X(LINK_EARLY, "link-early") \
	X(FOLD_EARLY, "fold-early") \
	X(FREE_EARLY, "free-early") \
	X(FREE_UNFLUSHED, "free-unflushed") \
	X(UNSHARED_EARLY, "unshared-early") \
	X(TABLE_CLEAR_ALONE, "table-clear-alone") \
	X(STORE_ALONE, "store-alone") \
	X(CLEAR_ALONE, "clear-alone") \
	X(DEPOSIT_REMEMBERED, "deposit-remembered") \
	X(MOVE_ALONE, "move-alone") \
	X(COLLAPSE_ALONE, "collapse-alone") \
	X(FILL_FORGOTTEN, "fill-forgotten") \
	X(SAME_FOLDED, "same-folded") \
	X(AGE_CANONICAL, "age-canonical") \
	X(AGE_SKIPS, "age-skips") \
	X(FORK_PLAIN, "fork-plain") \
	X(CLEAN_PLAIN, "clean-plain") \
	X(TWO_GIVERS, "two-givers") \
	X(NODES_EARLY, "nodes-early") \
	X(NODES_PLACE, "nodes-place") \
	X(NODES_OF_PTES, "nodes-of-ptes") \
	X(RAISE_NONE, "raise-none") \
	X(RAISE_LATE, "raise-late") \
	X(RETURN_LAGGING, "return-lagging") \
	X(NESTED_FILTERED, "nested-filtered") \
	X(INSERT_UNLINKED, "insert-unlinked") \
	X(TAKE_INSERTED, "take-inserted")
#define MUTANT_ENUM(id, name) id,
enum mutant { MUTANTS(MUTANT_ENUM) MUTANT_COUNT };
extern enum mutant mutant;

/* What is tried; a bit each. */
enum {
	ONE_HOME = 1,		/* the canonical pages lie on node 0; else on neither */
	NO_MEMORY = 2,		/* there may be none for a replica */
	LIBERTY = 4,		/* a processor sets D without a look at the right that was taken away */
	AGING = 8,		/* A is looked at */
	PREFETCH = 16,		/* the entry is copied for a neighbour's fault */
	ABSENCE = 32,		/* processors run something else in between, or nothing */
	INSERTION = 64,		/* who makes an entry may hold it at once, without a walk */
};
extern unsigned int scenario;

/* Of the 64 bits those that are used here: eight, and four of the frame. */
typedef uint16_t entry;

static inline u64 get(entry e)
{
	return (e & 3u) | (u64)(e & 0x1c) << 3 | (u64)(e & 0x20) << 3 | (u64)(e & 0x40) << 5 |
		(u64)(e & 0x80) << 51 | (u64)(e & 0xf00) << 4;
}

static inline void put(entry *e, u64 value)
{
	if (!(scenario & AGING))
		value &= ~NUMAPTE_ACCESSED;
	*e = (value & 3) | (value >> 3 & 0x1c) | (value >> 3 & 0x20) | (value >> 5 & 0x40) |
		(value >> 51 & 0x80) | (value >> 4 & 0xf00);
}

static inline unsigned int frame_of(u64 value)
{
	return (value & NUMAPTE_FRAME) >> 12;
}

/* Lazy: it is interrupted only when tables are freed, and walks, but no instruction of the process runs. */
/* In links: a processor of the node holds an entry without a walk, since the replica was last unlinked. */
#define INSERTED(node)	(16u << (node))

enum away { HERE, LAZY, ELSEWHERE };

/* Somebody at work. The faults of the nodes come first. */
enum { MUTATOR = NODES, RMAP, ACTORS };
struct actor {
	unsigned char pc;
	unsigned char nodes;			/* that the flush is for */
	unsigned char nothing;			/* no padding: states are compared as bytes */
	unsigned char k : 2, slot : 1, table : 1, write : 1, excused : 1, found : 1, owed : 1;
	entry value, old;
};

struct state {
	entry pte[TABLES][COPIES];
	entry pmd[COPIES][SLOTS];		/* 0: the canonical one, which nobody walks */
	unsigned char place[TABLES][NODES];	/* enum numapte_place: the node's page of this table */
	unsigned char links[TABLES];		/* nodes that may hold something of it; and those of INSERTED() */
	unsigned char used;			/* pages of tables */
	unsigned char deposited;		/* 1 + table */
	entry tlb[NODES][SLOTS];
	unsigned char tlb_from[NODES][SLOTS];	/* the page it was read in */
	unsigned char upper[NODES][SLOTS];	/* the page that the upper levels lead to, as held */
	unsigned char table_lock[TABLES], upper_lock, mmap_lock, readers, rmap_lock;	/* 1 + actor */
	unsigned char unmapped;			/* slots */
	unsigned char pending[SLOTS];
	unsigned char is_read_only : 1, is_off_limits : 1, is_exiting : 1, is_known : 1, is_written : 1;
	unsigned char used_by;			/* nodes that used the page since it was last seen to be old */
	unsigned char away[NODES];		/* enum away: what the processor does instead */
	unsigned char lag[NODES];		/* generations that it has not caught up with */
	unsigned char giver;			/* 1 + actor: of replicas, one at a time */
	struct actor actor[ACTORS];
};

_Static_assert(sizeof(struct state) == 96 && sizeof(struct actor) == 8, "hashed by words, without padding");

extern const char *fault_found;

void reach(const struct state *state);

void processors(const struct state *from);

/* pages.c: one page of all at a time; true after the last. */
enum op { STORE, CLEAR, WRPROTECT, YOUNG };
bool apply(struct state *to, struct actor *self, enum op op, enum numapte_level level, unsigned int which);
/* Of all nodes, or of those that use the table whose lock was held when the entry was taken out. */
enum { SOME = 1, TABLES_FREED = 2 };
bool flush(struct state *to, struct actor *self, unsigned int slot, unsigned int how);
void note_nodes(struct state *to, struct actor *self, unsigned int table);
void flush_all(struct state *to, unsigned int node);
u64 folded(const struct state *state, unsigned int table);
bool is_used(const struct state *state, unsigned int page);
void set_used(struct state *state, unsigned int page, bool used);
unsigned int page_of(const struct state *state, unsigned int table, unsigned int node);
int table_at(const struct state *state, unsigned int slot);
void free_page(struct state *to, unsigned int page, enum numapte_leaving leaving, bool stays);
void forget(struct state *to, unsigned int table, unsigned int node);
void disturb(struct state *to, const struct actor *self);
void audit(const struct state *state);

void fault_step(const struct state *from, unsigned int node);

/* What the mutator and who comes by the reverse mapping do; the first is nothing. */
typedef void operation(const struct state *from);
operation protect_step, off_limits_step, fork_step, zap_step, exit_step, unmap_step, move_step, collapse_step,
	drop_step, drop_again_step, dontneed_step, dontneed_again_step, clean_step, reclaim_step, age_step;

static inline bool is_dirty(u64 value)
{
	return value & (NUMAPTE_DIRTY | NUMAPTE_SAVED_DIRTY);
}

static inline u64 without_write(u64 value)
{
	if (value & NUMAPTE_DIRTY)
		value |= NUMAPTE_SAVED_DIRTY;
	return value & ~(NUMAPTE_RW | NUMAPTE_DIRTY);
}

#endif
