// SPDX-License-Identifier: GPL-2.0-only
/*
 * A range loses its right to be written or gets it back, and is flushed page by page
 * (INVLPG) or by a flush of everything. Then the caller reads its working set again.
 *
 * Theory. What a page costs to flush by itself is paid for each page; what a flush
 * of everything costs comes afterwards, as walks for whatever is still in use. So
 * the best ceiling grows with the working set. One that does not fit into the TLB, and
 * is read in order, is walked for in any case: then flushing everything is cheaper.
 * Linux has one ceiling for all: tlb_single_page_flush_ceiling, 33. A CPU that is
 * interrupted and lags behind by this flush alone flushes by the same function as the
 * caller (flush_tlb_func()), so that one vCPU tells of both.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "support/system_files.h"
#include "workload.h"

#define CEILING "/sys/kernel/debug/x86/tlb_single_page_flush_ceiling"
#define PAGES_MAX 512UL
#define WORKING_MAX 65536UL
#define PAGE_WORDS (PAGE_BYTES / sizeof(uint64_t))

static struct {
	uint64_t pages, working;
	volatile uint64_t *range, *set;
	struct setting ceiling;
} state;

static uint64_t *map(struct run *run, size_t pages)
{
	uint64_t *area = area_reserve(pages * PAGE_BYTES);

	if (!area || mprotect(area, pages * PAGE_BYTES, PROT_READ | PROT_WRITE)) {
		workload_fail(run, "no memory for %zu pages", pages);
		return NULL;
	}
	for (size_t page = 0; page < pages; page++)
		area[page * PAGE_WORDS] = run->seed + page;
	return area;
}

static int setup(struct run *run)
{
	const char *by = option_text("by", "pages");
	int error = system_may_change(run);

	if (error)
		return error;
	state.pages = option_u64("pages", 33);
	state.working = option_u64("working", 256);
	if (strcmp(by, "pages") && strcmp(by, "full"))
		return workload_fail(run, "by is pages or full, not %s", by);
	if (!state.pages || state.pages > PAGES_MAX)
		return workload_fail(run, "pages is 1 to %lu", PAGES_MAX);
	if (!state.working || state.working > WORKING_MAX)
		return workload_fail(run, "working is 1 to %lu", WORKING_MAX);
	/* A range of more pages than this is flushed with everything else. */
	state.ceiling = (struct setting){ .path = CEILING, .value = strcmp(by, "full") ? "512" : "0" };
	error = setting_change(&state.ceiling);
	if (error)
		return workload_skip(run, "%s cannot be set: %s", CEILING, strerror(-error));
	state.range = map(run, state.pages);
	state.set = state.range ? map(run, state.working) : NULL;
	return state.set ? 0 : -ENOMEM;
}

static int measure(struct run *run)
{
	void *range = (void *)state.range;
	const size_t bytes = state.pages * PAGE_BYTES;

	for (uint64_t i = 0; i < run->units; i++) {
		/* Taken and given by turns: Linux flushes both. */
		if (mprotect(range, bytes, i % 2 ? PROT_READ | PROT_WRITE : PROT_READ))
			return workload_fail(run, "mprotect of %zu bytes was refused", bytes);
		for (uint64_t page = 0; page < state.working; page++)
			run->checksum = checksum_add(run->checksum, state.set[page * PAGE_WORDS]);
	}
	return 0;
}

static void teardown(struct run *run)
{
	(void)run;
	setting_restore(&state.ceiling);
	if (state.range)
		area_release((void *)state.range, state.pages * PAGE_BYTES);
	if (state.set)
		area_release((void *)state.set, state.working * PAGE_BYTES);
}

WORKLOAD(flush_ceiling) = {
	.name = "flush-ceiling",
	.group = "range",
	.unit = "range flushed",
	.about = "Takes the right to write from --set pages=N pages (33), or gives it back, flushed --set by=pages one by one, or "
		 "by=full with everything else, then reads a working set of --set working=N pages (256).",
	.units = 100,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
