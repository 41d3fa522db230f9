/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A kernel with lazy contexts, one CPU, its TLB and its hash table: the state, and what all
 * parts use. What is decided and in which order is engine.h and flow.h, as the kernel compiles
 * them.
 *
 * Every order of the steps is tried where the sizes are small, and orders drawn by chance where
 * they are not.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stddef.h>

#include "engine.h"

#ifndef PAGES
#define SPACES	2
#define PAGES	1
#define FRAMES	2
#define SLOTS	2
#define TLBS	1
#define IDS	4
#endif

#define NO_FRAME	FRAMES

struct pte {
	uint8_t frame;
	uint8_t present : 1, write : 1, hashed : 1;
	uint8_t pending : 1;	/* changed; the flush is still to come */
	uint8_t gone : 1;	/* unmapped for good: frame is freed after the flush */
};

/* What is under way in a space, between steps in which others run. */
enum doing { NOTHING_DONE, PROTECT, FORK, EXIT, GONE };

struct space {
	uint8_t id, owes, alive;
	uint8_t doing, at;	/* enum doing; the next page */
	struct pte pte[PAGES];
};

struct entry {
	uint8_t valid, id, page, frame, write;
};

/* Two words as in memory: the engine reads the first one. */
struct slot {
	u32 word, frame;
};

struct state {
	struct space space[SPACES];
	struct slot table[SLOTS];
	struct entry tlb[TLBS];
	uint8_t used_frames;		/* a bit each */
	uint8_t segments;		/* the id that they are loaded with */
	uint8_t active;			/* the space that they are of */
	uint8_t user;			/* 0: a kernel thread has borrowed it */
	uint8_t renews;
	uint8_t owing;
	uint8_t used, live, leaving, zombies, leavers, pass, cursor;
};

extern struct state now;
extern const char *fault;

/* One of @n: tried one after the other, or drawn. */
u32 choose(u32 n);
void fail(const char *what);

void step(void);
void check(void);
/* How often what happened. */
void tell(void);
void start(u32 cutoff);

#endif
