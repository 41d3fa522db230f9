/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of the workload "stale" share. */
#ifndef CEASEFIRE_STALE_H
#define CEASEFIRE_STALE_H

#include "support/mapped_file.h"
#include "support/page_idle.h"
#include "support/regions.h"
#include "support/system_files.h"

#define BLOCKS 32U
#define BLOCK_PAGES 16UL
#define BLOCK_BYTES (BLOCK_PAGES * PAGE_BYTES)
#define LAST_WORD (PAGE_WORDS - 1)
#define NEIGHBOURS 8U
#define POISON 0xdeadbeefdeadbeefULL

enum phase { OPEN, CLOSING, CLOSED, FILLING, UPDATING };
enum kind { ANON, MEMFD, DISK, KINDS };
enum taking { UNMAP, REPLACE, PROTECT, REMAP, DONTNEED, MIGRATE, PAGEOUT, COW, TAKINGS };

struct block {
	_Alignas(64) _Atomic uint64_t sequence;	/* generation << 3 | phase */
	_Atomic bool is_quiet;
};

struct reader {
	_Alignas(64) _Atomic uint64_t looks, passes;
	uint64_t random, reads, faults;
	uint64_t closed_seen[BLOCKS];	/* the sequence with which a read faulted */
};

extern struct stale {
	struct regions area, spare;
	char *poison;
	struct block blocks[BLOCKS];
	struct reader readers[THREADS_MAX];
	_Atomic unsigned int focus;	/* the block that was changed last */
	_Atomic bool stop;
	struct page_idle idle;
	bool has_idle, has_swap;
	int files[KINDS];
	unsigned int node_count, nodes[NODES_MAX];
	int neighbours[NEIGHBOURS];
	uint64_t random, maps, batches, taken[TAKINGS];
	const char *plant;		/* the wrong that is still to be done, or NULL */
	void *pages[BLOCK_PAGES];
	int to[BLOCK_PAGES], status[BLOCK_PAGES];
} stale;

static inline uint64_t stale_generation(uint64_t sequence)
{
	return sequence >> 3;
}

static inline enum phase stale_phase(uint64_t sequence)
{
	return (enum phase)(sequence & 7);
}

static inline uint64_t stale_word(uint64_t page, uint64_t generation)
{
	return 0xc5ULL << 56 | generation << 16 | page;
}

static inline volatile uint64_t *stale_page(unsigned int block, uint64_t page)
{
	return (volatile uint64_t *)(region_at(&stale.area, block) + page * PAGE_BYTES);
}

/* stale_readers.c: read all blocks until the writer says stop, or one is wrong. */
void stale_read(struct run *run, unsigned int index);
void stale_nap(long ns);

#endif
