/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of the workload "held" share. */
#ifndef CEASEFIRE_HELD_H
#define CEASEFIRE_HELD_H

#include "support/page_idle.h"
#include "support/regions.h"
#include "support/system_files.h"

#define REGIONS 8UL
#define REGION_PAGES 16UL
#define REGION_BYTES (REGION_PAGES * PAGE_BYTES)
#define FLUSHERS 2U
/* More than are flushed singly. */
#define FLUSHER_PAGES 64UL
#define FLUSHER_BYTES (FLUSHER_PAGES * PAGE_BYTES)

enum backing { ANON, SHARED_FILE, PRIVATE_FILE };
enum order { REST, TOUCH, LEAVE };

struct change {
	const char *name, *site;
	enum backing backing;
	bool takes_all;		/* all pages, whatever else they are used for */
	bool moves;		/* to the spare region */
	bool needs_nodes;
	int (*one)(struct run *run, unsigned int region);
};

struct counts {
	uint64_t elided, flushed, as_meant;
};

struct toucher {
	_Alignas(64) _Atomic uint64_t passes;
	uint64_t random;
};

extern struct held {
	struct regions area, spare, range, flushed;
	struct page_idle idle;
	struct toucher touchers[THREADS_MAX];
	_Atomic enum order order;
	_Atomic unsigned int turn, region, races;
	unsigned int flushers;
	int file, memory;		/* the file on disk, /proc/self/mem */
	unsigned int node_count, nodes[NODES_MAX];
	bool is_counted, is_idle;	/* elisions, and that they happen: mode idle or full */
	const char *mode;
	uint64_t random;
	struct counts sum;		/* of one scenario */
	const char *scenario;
	int error;
	void *pages[REGION_PAGES];
	int to[REGION_PAGES], status[REGION_PAGES];
} held;

static inline volatile uint64_t *held_page(unsigned int region, uint64_t page)
{
	return (volatile uint64_t *)(region_at(&held.area, region) + page * PAGE_BYTES);
}

/* held_touch.c: the threads that hold the pages */
void held_touch_always(unsigned int index);
void held_pause(uint64_t times);
void held_wait(const struct run *run);
/* From here on every thread holds the region's pages. */
void held_all_touch(const struct run *run, unsigned int region);
void held_all_rest(const struct run *run);

/* held_changes.c */
#define HELD_CHANGES 6
extern const struct change held_changes[HELD_CHANGES];
int held_unmap(struct run *run, unsigned int region);
int held_protect(struct run *run, unsigned int region);
int held_refused(struct run *run, const char *what);

#endif
