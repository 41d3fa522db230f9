// SPDX-License-Identifier: GPL-2.0-only
/*
 * Multithreaded copy-on-write: each thread reads its slice of a private file
 * mapping, then writes it.
 *
 * Theory. The read maps the page cache's page write-protected, 16 at a time
 * (do_fault_around). Each write then ends in wp_page_copy(), whose
 * ptep_clear_flush() is one shootdown to every CPU that runs this address
 * space: sent = 1 and received = threads - 1 per page, faults = 1 + 1/16
 * (sequential). No other thread ever touched the page, so nobody but the
 * writer needs the flush.
 *
 * --set moves=N: per 1,000 of its reads and writes, a thread goes N times to
 * another CPU, drawn at random like the moment. The paper holds against its
 * method that a moved thread's pages become shared; here that has a rate.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/fault_around.h"
#include "support/mapped_file.h"
#include "support/slices.h"

#define MOVES_OF 1000

struct cow {
	struct slices slices;
	uint64_t *words;
	uint32_t *order;	/* a permutation of each slice's pages, at the slice's place */
	uint64_t moves_per_1000;
	_Atomic uint64_t moves;
	struct slice_sum sums[];
};

static uint64_t *page_at(struct cow *cow, unsigned int index, uint64_t i)
{
	const uint64_t first = slice_first(&cow->slices, index);

	return cow->words + (first + cow->order[first + i]) * PAGE_WORDS;
}

/* Now and then to any CPU but the one it is on, `at` by team index. */
static void perhaps_move(struct run *run, uint64_t *state, unsigned int *at)
{
	struct cow *cow = run->data;

	if (!cow->moves_per_1000 || random_next(state) % MOVES_OF >= cow->moves_per_1000)
		return;
	*at = (*at + 1 + (unsigned int)(random_next(state) % (run->threads - 1))) % run->threads;
	if (pin_to(*at) == 0)
		atomic_fetch_add(&cow->moves, 1);
}

static void read_then_write(struct run *run, unsigned int index)
{
	struct cow *cow = run->data;
	const uint64_t pages = slice_pages(&cow->slices, index);
	uint64_t sum = CHECKSUM_SEED, state = run->seed + index;
	unsigned int at = index;

	for (uint64_t i = 0; i < pages; i++) {
		perhaps_move(run, &state, &at);
		sum = checksum_add(sum, *(volatile uint64_t *)page_at(cow, index, i));
	}
	for (uint64_t i = 0; i < pages; i++) {
		volatile uint64_t *page = page_at(cow, index, i);

		perhaps_move(run, &state, &at);
		page[0] ^= sum;
		/* The last word is right only if the whole page was copied. */
		sum = checksum_add(sum, page[0] ^ page[PAGE_WORDS - 1]);
	}
	cow->sums[index].sum = sum;
	/* An early finisher goes on spinning: asleep, it would be no target. */
	team_barrier(run);
	if (at != index)
		(void)pin_to(index);
}

static void set_order(struct run *run, struct cow *cow, bool random)
{
	uint64_t state = run->seed;

	for (unsigned int index = 0; index < run->threads; index++) {
		uint32_t *order = cow->order + slice_first(&cow->slices, index);

		for (uint32_t i = 0; i < slice_pages(&cow->slices, index); i++) {
			const uint32_t j = random ? (uint32_t)(random_next(&state) % (i + 1)) : i;

			order[i] = order[j];
			order[j] = i;
		}
	}
}

static void teardown(struct run *run)
{
	struct cow *cow = run->data;

	fault_around_restore();
	if (!cow)
		return;
	if (cow->words)
		munmap(cow->words, slices_span_pages(&cow->slices) * PAGE_BYTES);
	free(cow->order);
	free(cow);
	run->data = NULL;
}

static int setup(struct run *run, bool random)
{
	struct slices slices = slices_divide(run->units, run->threads);
	const uint64_t pages = slices_span_pages(&slices);
	struct cow *cow = aligned_alloc(64, sizeof(*cow) + run->threads * sizeof(cow->sums[0]));
	void *words;
	int fd, error;

	run->data = cow;
	if (!cow)
		return workload_fail(run, "no memory for %u threads' sums", run->threads);
	*cow = (struct cow){ .slices = slices, .order = calloc(pages, sizeof(*cow->order)) };
	if (!cow->order)
		return workload_fail(run, "no memory for the order of %llu pages", (unsigned long long)pages);
	cow->moves_per_1000 = option_u64("moves", 0);
	if (cow->moves_per_1000 > MOVES_OF)
		return workload_fail(run, "moves=%llu is more than %d", (unsigned long long)cow->moves_per_1000,
				     MOVES_OF);
	if (cow->moves_per_1000 && run->threads < 2)
		return workload_skip(run, "moves=N needs a second CPU to move to");
	error = fault_around_set(run);
	if (error)
		return error;
	set_order(run, cow, random);
	fd = mapped_file_in_memory(run, pages);
	if (fd < 0)
		return fd;
	words = mmap(NULL, pages * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	close(fd);
	if (words == MAP_FAILED)
		return workload_fail(run, "%llu pages of a file cannot be mapped", (unsigned long long)pages);
	cow->words = words;
	return 0;
}

static int setup_seq(struct run *run)
{
	return setup(run, false);
}

static int setup_rand(struct run *run)
{
	return setup(run, true);
}

static int measure(struct run *run)
{
	struct cow *cow = run->data;

	team_run(run, read_then_write);
	if (cow->moves_per_1000)
		report_extra(run, "moves", (double)cow->moves);
	run->checksum = slices_checksum(cow->sums, run->threads);
	return 0;
}

WORKLOAD(cow_mt_seq) = {
	.name = "cow-mt-seq",
	.group = "micro",
	.unit = "page written",
	.about = "Threads read, then write in order, their own slices of a private file mapping: every write copies a page "
		 "and is one shootdown to all.",
	.units = 4000,
	.threads_min = 1,
	.setup = setup_seq,
	.measure = measure,
	.teardown = teardown,
};

WORKLOAD(cow_mt_rand) = {
	.name = "cow-mt-rand",
	.group = "micro",
	.unit = "page written",
	.about = "As cow-mt-seq, with each slice's pages in random order.",
	.units = 4000,
	.threads_min = 1,
	.setup = setup_rand,
	.measure = measure,
	.teardown = teardown,
};
