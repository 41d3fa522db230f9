// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages that are faulted in while a batch of migration is under way, and taken by it.
 *
 * The first thread moves a file's pages to another NUMA node, as one batch: its first
 * page every thread has read, the others belong to one reader each. When the batch has
 * taken the first page away it owes a flush of everyone. One reader, meanwhile, makes
 * everyone flush (it unmaps a page that it has walked to), and by that pays what the
 * batch owes so far on its own CPU; then it lets go of some of its pages, and faults
 * them in again. Those of them that the batch takes afterwards must be flushed once
 * more. When all are moved the first thread writes newer words through the file, and
 * every reader looks: whoever sees an older one reads a page that is gone.
 *
 * Where the reader comes in is drawn; one try in some meets the batch half-way.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/mempolicy.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/mapped_file.h"
#include "support/slices.h"
#include "support/system_files.h"

/* NR_MAX_BATCHED_MIGRATION. */
#define BATCH_PAGES 512UL
#define AGAIN_PAGES 32UL
#define PAUSES_MAX 30000UL

static struct {
	struct slices slices;	/* of the pages behind the first window, by reader */
	char *bytes;		/* the first window, of which one page is used, and the slices */
	int file;
	unsigned int nodes[NODES_MAX];
	void *pages[BATCH_PAGES];
	int to[BATCH_PAGES], status[BATCH_PAGES];
	uint64_t page_count, again, met;
	uint64_t random;
	_Atomic uint64_t begun, done;	/* try number */
	unsigned int disturber;
	uint64_t pauses;
} state;

static volatile uint64_t *word_at(uint64_t page)
{
	return (volatile uint64_t *)(state.bytes + page * PAGE_BYTES);
}

static uint64_t slice_page(unsigned int index, uint64_t page)
{
	return FAULT_AROUND_PAGES + slice_first(&state.slices, index - 1) + page;
}

static void fault_in(struct run *run, uint64_t page, uint64_t pages)
{
	if (madvise(state.bytes + page * PAGE_BYTES, pages * PAGE_BYTES, MADV_DONTNEED))
		workload_fail(run, "MADV_DONTNEED was refused: %s", strerror(errno));
	for (uint64_t i = 0; i < pages; i++)
		(void)*word_at(page + i);
}

/* Mapped by the kernel, not by a fault: hardware marks it when it is read. */
static void make_everyone_flush(struct run *run)
{
	char *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (page == MAP_FAILED) {
		workload_fail(run, "no memory for a page");
		return;
	}
	(void)*(volatile char *)page;
	munmap(page, PAGE_BYTES);
}

static void move(struct run *run, uint64_t number)
{
	const int to = (int)state.nodes[number % 2];

	for (uint64_t i = 0; i < state.page_count; i++)
		state.to[i] = to;
	if (syscall(SYS_move_pages, 0, state.page_count, state.pages, state.to, state.status, MPOL_MF_MOVE) < 0)
		workload_fail(run, "move_pages was refused: %s", strerror(errno));
	for (uint64_t i = 0; i < state.page_count; i++) {
		const off_t at = (char *)state.pages[i] - state.bytes;

		if (pwrite(state.file, &number, sizeof(number), at) != sizeof(number))
			workload_fail(run, "a write to a file in memory failed: %s", strerror(errno));
	}
}

static void disturb(struct run *run, unsigned int index)
{
	const uint64_t pages = slice_pages(&state.slices, index - 1);
	const uint64_t again = pages < AGAIN_PAGES ? pages : AGAIN_PAGES;

	for (uint64_t i = 0; i < state.pauses && atomic_load(&state.done) != state.begun; i++)
		cpu_pause();
	if (atomic_load(&state.done) != state.begun)
		state.met++;
	make_everyone_flush(run);
	/* The last ones of the slice, which the batch comes to last. */
	fault_in(run, slice_page(index, pages - again), again);
	state.again += again;
}

static void look(struct run *run, unsigned int index, uint64_t number)
{
	for (uint64_t i = 0; i < slice_pages(&state.slices, index - 1) && !run->has_failed; i++) {
		const uint64_t page = slice_page(index, i), word = *word_at(page);

		if (word != number)
			workload_fail(run, "stale read: %llu at page %llu after try %llu: taken by migrate, and faulted in meanwhile",
				      (unsigned long long)word, (unsigned long long)page, (unsigned long long)number);
	}
}

static void take_turns(struct run *run, unsigned int index)
{
	for (uint64_t number = 1; number <= run->units; number++) {
		if (index) {
			fault_in(run, slice_page(index, 0), slice_pages(&state.slices, index - 1));
			(void)*word_at(0);
		} else {
			state.disturber = 1 + (unsigned int)(random_next(&state.random) % (run->threads - 1));
			state.pauses = random_next(&state.random) % PAUSES_MAX;
		}
		team_barrier(run);
		if (index == 0) {
			atomic_store(&state.begun, number);
			move(run, number);
			atomic_store(&state.done, number);
		} else {
			while (atomic_load(&state.begun) != number)
				cpu_pause();
			if (index == state.disturber)
				disturb(run, index);
			while (atomic_load(&state.done) != number)
				cpu_pause();
			look(run, index, number);
		}
		team_barrier(run);
		if (run->has_failed)
			return;
	}
}

static int setup(struct run *run)
{
	uint64_t span;

	if (memory_nodes(state.nodes) < 2)
		return workload_skip(run, "needs 2 NUMA nodes");
	state.slices = slices_divide(BATCH_PAGES - 1, run->threads - 1);
	span = FAULT_AROUND_PAGES + slices_span_pages(&state.slices);
	state.file = mapped_file_in_memory(run, span);
	if (state.file < 0)
		return state.file;
	state.bytes = mmap(NULL, span * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, state.file, 0);
	if (state.bytes == MAP_FAILED) {
		state.bytes = NULL;
		return workload_fail(run, "%llu pages of a file cannot be mapped", (unsigned long long)span);
	}
	state.random = run->seed;
	state.pages[state.page_count++] = state.bytes;
	for (unsigned int index = 1; index < run->threads; index++)
		for (uint64_t i = 0; i < slice_pages(&state.slices, index - 1); i++)
			state.pages[state.page_count++] = state.bytes + slice_page(index, i) * PAGE_BYTES;
	return 0;
}

static int measure(struct run *run)
{
	team_run(run, take_turns);
	if (run->has_failed)
		return -EIO;
	run->checksum = checksum_add(CHECKSUM_SEED, run->units);
	report_extra(run, "stale_reads", 0);
	report_extra(run, "met_half_way_batches", (double)state.met);
	report_extra(run, "faulted_in_meanwhile_pages", (double)state.again);
	return 0;
}

static void teardown(struct run *run)
{
	(void)run;
	if (state.bytes)
		munmap(state.bytes, (FAULT_AROUND_PAGES + slices_span_pages(&state.slices)) * PAGE_BYTES);
	if (state.file > 0)
		close(state.file);
	memset(&state, 0, sizeof(state));
}

WORKLOAD(batch) = {
	.name = "batch",
	.group = "stress",
	.unit = "batch migrated",
	.about = "Pages that are faulted in again while a batch of migration is under way are taken by it: nobody may read what "
		 "they held before.",
	.needs = "nodes",
	.units = 500,
	.threads_min = 2,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
