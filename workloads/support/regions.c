// SPDX-License-Identifier: GPL-2.0-only
/* See regions.h. */
#include "support/regions.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define TABLE_PAGES 512UL	/* what one page table maps */
#define TABLE_BYTES (TABLE_PAGES * PAGE_BYTES)

int regions_reserve(struct run *run, struct regions *regions, uint64_t count, uint64_t pages)
{
	const bool is_large = pages > TABLE_PAGES / 2;
	char *raw;

	if (!pages || pages > REGION_PAGES_MAX)
		return workload_fail(run, "pages is %llu, and must be 1 to %lu", (unsigned long long)pages,
				     REGION_PAGES_MAX);
	*regions = (struct regions){
		.count = count,
		.pages = pages,
		/* A small region is followed by one page of its neighbour: there is one in every page table. */
		.stride_pages = is_large ? 2 * TABLE_PAGES : pages + 1,
		.offset_pages = is_large ? TABLE_PAGES - pages / 2 : 1,
	};
	regions->bytes = (count * regions->stride_pages + TABLE_PAGES) / TABLE_PAGES * TABLE_BYTES + TABLE_BYTES;
	raw = mmap(NULL, regions->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (raw == MAP_FAILED)
		return workload_fail(run, "no address space for %llu regions of %llu pages", (unsigned long long)count,
				     (unsigned long long)pages);
	/* Fails where the kernel has no huge pages, which is as good. */
	(void)madvise(raw, regions->bytes, MADV_NOHUGEPAGE);
	regions->start = (char *)(((uintptr_t)raw + TABLE_BYTES - 1) / TABLE_BYTES * TABLE_BYTES);
	if (regions->start > raw)
		munmap(raw, (size_t)(regions->start - raw));
	regions->bytes -= (uint64_t)(regions->start - raw);
	return 0;
}

void regions_release(struct regions *regions)
{
	if (regions->start)
		munmap(regions->start, regions->bytes);
	regions->start = NULL;
}

int region_map(struct run *run, const struct regions *regions, uint64_t index, int fd)
{
	const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	const size_t bytes = regions->pages * PAGE_BYTES;
	char *at = mmap(region_at(regions, index), bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd,
			fd < 0 ? 0 : (off_t)(index * bytes));

	if (at == MAP_FAILED)
		return workload_fail(run, "mmap of %llu pages was refused: %s", (unsigned long long)regions->pages,
				     strerror(errno));
	if (fd < 0)
		(void)madvise(at, bytes, MADV_NOHUGEPAGE);
	return 0;
}
