/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The pages of one mapping, divided among the team. Each thread's slice starts
 * on its own fault-around window, so no thread's fault maps another's pages.
 */
#ifndef CEASEFIRE_SLICES_H
#define CEASEFIRE_SLICES_H

#include "workload.h"

#define FAULT_AROUND_PAGES 16UL	/* mm/memory.c: fault_around_pages, 64 KiB */

struct slices {
	uint64_t pages;		/* in use, all threads together */
	uint64_t stride_pages;	/* from one slice's start to the next */
	unsigned int threads;
};

static inline struct slices slices_divide(uint64_t pages, unsigned int threads)
{
	const uint64_t most = (pages + threads - 1) / threads;
	const uint64_t windows = (most + FAULT_AROUND_PAGES - 1) / FAULT_AROUND_PAGES;

	return (struct slices){
		.pages = pages,
		.stride_pages = windows * FAULT_AROUND_PAGES,
		.threads = threads,
	};
}

/* Length of the mapping, gaps between slices included. */
static inline uint64_t slices_span_pages(const struct slices *slices)
{
	return slices->stride_pages * slices->threads;
}

static inline uint64_t slice_first(const struct slices *slices, unsigned int index)
{
	return slices->stride_pages * index;
}

static inline uint64_t slice_pages(const struct slices *slices, unsigned int index)
{
	return slices->pages / slices->threads + (index < slices->pages % slices->threads);
}

/* The threads' sums, each kept apart from its neighbour's cache line. */
struct slice_sum {
	_Alignas(64) uint64_t sum;
};

static inline uint64_t slices_checksum(const struct slice_sum *sums, unsigned int threads)
{
	uint64_t sum = CHECKSUM_SEED;

	for (unsigned int i = 0; i < threads; i++)
		sum = checksum_add(sum, sums[i].sum);
	return sum;
}

#endif
