// SPDX-License-Identifier: GPL-2.0-only
/*
 * What has been flushed is held by nobody: the emulated machine is asked, on any kernel.
 *
 * All threads read a block of pages. While the others spin, the first one unmaps it,
 * discards it, takes its rights away or moves it, by turns. When that call has returned no CPU
 * that runs the program may hold an entry of one of the pages, however it was
 * invalidated. Before, each must: else the question would say nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "workload.h"

#define BLOCK_PAGES 64UL
#define BLOCK_BYTES (BLOCK_PAGES * PAGE_BYTES)
/* Asked while all hold it: once in so many units. */
#define CONTROL_UNITS 64U
/* The others may be in the kernel when they are asked about. */
#define CONTROL_TRIES 10000U

enum way { UNMAP, DISCARD, PROTECT, MOVE, WAYS };

static const char *const way_names[WAYS] = { "munmap", "MADV_DONTNEED", "mprotect", "mremap" };

static struct {
	char *block, *other;
	int question;
	uint64_t asked, seen_held;
	_Atomic uint64_t sum;
} state;

/* Return: 0: nobody, 1: somebody, or -errno. */
static int ask(const char *at)
{
	char text[64];
	const int length = snprintf(text, sizeof(text), "%" PRIxPTR " %lu", (uintptr_t)at, BLOCK_PAGES);

	if (write(state.question, text, (size_t)length) == length)
		return 0;
	return errno == EBUSY ? 1 : -errno;
}

/* For a moment at least. */
static bool is_held(const char *at)
{
	for (unsigned int i = 0; i < CONTROL_TRIES; i++)
		if (ask(at) == 1)
			return true;
	return false;
}

static int setup(struct run *run)
{
	memset(&state, 0, sizeof(state));
	state.question = open("/sys/kernel/debug/ceasefire/held", O_WRONLY | O_CLOEXEC);
	if (state.question < 0)
		return workload_skip(run, "needs a kernel of the lab: it has no question who holds an entry");
	state.block = area_reserve(BLOCK_BYTES);
	state.other = area_reserve(BLOCK_BYTES);
	if (!state.block || !state.other)
		return workload_fail(run, "no address space for two blocks of pages");
	if (ask(state.block) == -ENXIO)
		return workload_skip(run, "needs a machine that can be asked who holds an entry (--tlb hardware)");
	return 0;
}

static int fill(struct run *run, uint64_t unit)
{
	if (mmap(state.block, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
	    MAP_FAILED)
		return workload_fail(run, "mmap of %lu pages was refused: %s", BLOCK_PAGES, strerror(errno));
	(void)madvise(state.block, BLOCK_BYTES, MADV_NOHUGEPAGE);
	(void)madvise(state.block, BLOCK_BYTES, MADV_POPULATE_WRITE);
	for (unsigned long page = 0; page < BLOCK_PAGES; page++)
		*(volatile uint64_t *)(state.block + page * PAGE_BYTES) = run->seed + unit * BLOCK_PAGES + page;
	return 0;
}

static bool take_away(enum way way)
{
	switch (way) {
	case UNMAP:
		return munmap(state.block, BLOCK_BYTES) == 0;
	case DISCARD:
		return madvise(state.block, BLOCK_BYTES, MADV_DONTNEED) == 0;
	case PROTECT:
		return mprotect(state.block, BLOCK_BYTES, PROT_NONE) == 0;
	default:
		return mremap(state.block, BLOCK_BYTES, BLOCK_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED,
			      state.other) == state.other;
	}
}

static void change(struct run *run, uint64_t unit)
{
	const enum way way = unit % WAYS;
	int held;

	if (unit % CONTROL_UNITS == 0 && run->threads > 1) {
		if (!is_held(state.block)) {
			workload_fail(run, "nobody holds pages that all others have just read: the question tells nothing");
			return;
		}
		state.seen_held++;
	}
	if (!take_away(way)) {
		workload_fail(run, "%s of %lu pages was refused: %s", way_names[way], BLOCK_PAGES, strerror(errno));
		return;
	}
	held = ask(state.block);
	if (held)
		workload_fail(run, held < 0 ? "the machine cannot be asked after %s" :
					      "stale entry: a CPU holds one of the pages after %s", way_names[way]);
	state.asked += BLOCK_PAGES;
	if (way == MOVE)
		(void)munmap(state.other, BLOCK_BYTES);
}

static void take_turns(struct run *run, unsigned int index)
{
	for (uint64_t unit = 0; unit < run->units; unit++) {
		uint64_t sum = 0;

		if (index == 0)
			fill(run, unit);
		team_barrier(run);
		if (run->has_failed)
			return;
		for (unsigned long page = 0; page < BLOCK_PAGES; page++)
			sum += *(volatile uint64_t *)(state.block + page * PAGE_BYTES);
		atomic_fetch_add(&state.sum, sum);
		team_barrier(run);
		if (index == 0)
			change(run, unit);
	}
	/* Who is done sleeps, and would hold nothing. */
	team_barrier(run);
}

static int measure(struct run *run)
{
	team_run(run, take_turns);
	if (run->has_failed)
		return -1;
	run->checksum = checksum_add(run->checksum, atomic_load(&state.sum));
	report_extra(run, "asked_pages", (double)state.asked);
	report_extra(run, "held_before", (double)state.seen_held);
	return 0;
}

static void teardown(struct run *run)
{
	(void)run;
	close(state.question);
	area_release(state.block, BLOCK_BYTES);
	area_release(state.other, BLOCK_BYTES);
}

WORKLOAD(unheld) = {
	.name = "unheld",
	.group = "stress",
	.unit = "block of 64 pages taken away",
	.about = "Pages that all threads have read are unmapped, discarded, protected or moved; then the emulated machine "
		 "is asked who still holds one: nobody may.",
	.units = 1000,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
