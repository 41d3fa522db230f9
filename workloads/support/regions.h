/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Equal regions of address space whose page tables outlive them: each page
 * table they lie in also serves a neighbour that stays mapped, so that
 * unmapping a region frees none and the flush is for its pages alone. A region
 * of more than 256 pages lies astride two page tables.
 */
#ifndef CEASEFIRE_REGIONS_H
#define CEASEFIRE_REGIONS_H

#include "workload.h"

#define REGION_PAGES_MAX 512UL

struct regions {
	char *start;
	uint64_t bytes;
	uint64_t count, pages;		/* regions, and pages of each */
	uint64_t stride_pages, offset_pages;
};

/* Nothing is mapped in them yet but unreadable neighbours. Return: 0, or what workload_fail() gave. */
int regions_reserve(struct run *run, struct regions *regions, uint64_t count, uint64_t pages);
/* Does nothing if they were never reserved. */
void regions_release(struct regions *regions);

static inline char *region_at(const struct regions *regions, uint64_t index)
{
	return regions->start + (index * regions->stride_pages + regions->offset_pages) * PAGE_BYTES;
}

/*
 * Map fresh pages there: anonymous ones if fd is negative, else a shared mapping
 * of the file's page `index * pages` and following.
 */
int region_map(struct run *run, const struct regions *regions, uint64_t index, int fd);

#endif
