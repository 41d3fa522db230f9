// SPDX-License-Identifier: GPL-2.0-only
/*
 * Multithreaded msync: each thread writes a page of its slice of a shared file
 * mapping and syncs it, page by page.
 *
 * Theory. Writing the page back first write-protects it, so that the next
 * write is noticed: clear_page_dirty_for_io() -> page_mkclean() ->
 * page_vma_mkclean_one(), whose ptep_clear_flush() is one shootdown to every
 * CPU that runs this address space: sent = 1 and received = threads - 1 per
 * page. tmpfs has no write-back (mapping_can_writeback()) and flushes nothing.
 * Targets may be missing where a thread sleeps in the file system.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/mapped_file.h"
#include "support/slices.h"

struct msync_state {
	struct slices slices;
	uint64_t *words;
	_Atomic int error;
	struct slice_sum sums[];
};

static void write_and_sync(struct run *run, unsigned int index)
{
	struct msync_state *state = run->data;
	const uint64_t first = slice_first(&state->slices, index);
	const uint64_t pages = slice_pages(&state->slices, index);
	uint64_t sum = CHECKSUM_SEED;

	for (uint64_t i = first; i < first + pages; i++) {
		volatile uint64_t *page = state->words + i * PAGE_WORDS;

		page[0] ^= sum;
		if (msync((void *)page, PAGE_BYTES, MS_SYNC) != 0)
			state->error = errno;
		sum = checksum_add(sum, page[0] ^ page[PAGE_WORDS - 1]);
	}
	state->sums[index].sum = sum;
	/* An early finisher goes on spinning: asleep, it would be no target. */
	team_barrier(run);
}

static void teardown(struct run *run)
{
	struct msync_state *state = run->data;

	if (!state)
		return;
	if (state->words)
		munmap(state->words, slices_span_pages(&state->slices) * PAGE_BYTES);
	free(state);
	run->data = NULL;
}

static int setup(struct run *run)
{
	struct slices slices = slices_divide(run->units, run->threads);
	const uint64_t pages = slices_span_pages(&slices);
	struct msync_state *state = aligned_alloc(64, sizeof(*state) + run->threads * sizeof(state->sums[0]));
	void *words;
	int fd;

	run->data = state;
	if (!state)
		return workload_fail(run, "no memory for %u threads' sums", run->threads);
	*state = (struct msync_state){ .slices = slices };
	fd = mapped_file_on_disk(run, pages);
	if (fd < 0)
		return fd;
	words = mmap(NULL, pages * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (words == MAP_FAILED)
		return workload_fail(run, "%llu pages of a file cannot be mapped", (unsigned long long)pages);
	state->words = words;
	return 0;
}

static int measure(struct run *run)
{
	struct msync_state *state = run->data;

	team_run(run, write_and_sync);
	if (state->error)
		return workload_fail(run, "msync of one page: %s", strerror(state->error));
	run->checksum = slices_checksum(state->sums, run->threads);
	return 0;
}

WORKLOAD(msync_mt) = {
	.name = "msync-mt",
	.group = "micro",
	.unit = "page synced",
	.about = "Threads write and msync their own slices of a shared file mapping page by page: every page is one "
		 "shootdown to all.",
	.needs = "ext2",
	.units = 2000,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
