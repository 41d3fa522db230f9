// SPDX-License-Identifier: GPL-2.0-only
/*
 * A mapped file is written, synced and unmapped; only the unmapping is measured.
 *
 * Theory. Writing back cleans each page's entry and flushes it everywhere
 * (page_vma_mkclean_one()); afterwards no CPU holds it, until somebody uses the
 * page again. An unpatched kernel flushes everywhere once more at munmap:
 * received = threads - 1 per munmap. A kernel that remembers needs none.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/mapped_file.h"
#include "support/regions.h"

static struct regions regions;

static size_t region_bytes(void)
{
	return regions.pages * PAGE_BYTES;
}

static int setup(struct run *run)
{
	int error = regions_reserve(run, &regions, run->units, option_u64("pages", 1));
	int fd;

	if (error)
		return error;
	fd = mapped_file_on_disk(run, run->units * regions.pages);
	if (fd < 0)
		return fd;
	for (uint64_t i = 0; i < run->units && !error; i++)
		error = region_map(run, &regions, i, fd);
	close(fd);
	if (error)
		return error;
	error = spinners_start(run);
	for (uint64_t i = 0; i < run->units && !error; i++) {
		volatile uint64_t *words = (uint64_t *)region_at(&regions, i);

		for (uint64_t page = 0; page < regions.pages; page++) {
			words[page * PAGE_WORDS] ^= run->seed + i;
			run->checksum = checksum_add(run->checksum, words[page * PAGE_WORDS]);
		}
		if (msync((void *)words, region_bytes(), MS_SYNC))
			error = workload_fail(run, "msync of %llu pages: %s", (unsigned long long)regions.pages,
					      strerror(errno));
	}
	return error;
}

static int measure(struct run *run)
{
	for (uint64_t i = 0; i < run->units; i++) {
		if (munmap(region_at(&regions, i), region_bytes()))
			return workload_fail(run, "munmap of %llu pages was refused: %s", (unsigned long long)regions.pages,
					     strerror(errno));
		let_others_run();
	}
	return 0;
}

static void teardown(struct run *run)
{
	spinners_stop(run);
	regions_release(&regions);
}

WORKLOAD(msync_munmap) = {
	.name = "msync-munmap",
	.group = "idle",
	.unit = "munmap",
	.about = "Unmaps regions of --set pages=N pages (1) of a shared file mapping that were written and synced: only the "
		 "munmap is measured.",
	.needs = "ext2",
	.units = 16,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
