// SPDX-License-Identifier: GPL-2.0-only
/* numaPTE's micro-operation: pages that only the caller touched are unmapped. */
#include <sys/mman.h>

#include "workload.h"

#define PAGES_MAX (1UL << 18)

struct munmap {
	volatile uint64_t *area;
	size_t pages;
};

static int setup(struct run *run)
{
	static struct munmap state;

	run->data = &state;
	state.pages = option_u64("pages", 1);
	if (!state.pages || state.pages > PAGES_MAX)
		return workload_fail(run, "pages is %zu, and must be 1 to %lu", state.pages, PAGES_MAX);
	state.area = area_reserve(state.pages * PAGE_BYTES);
	if (!state.area)
		return workload_fail(run, "no address space for %zu pages", state.pages);
	return spinners_start(run);
}

static int measure(struct run *run)
{
	struct munmap *state = run->data;
	const size_t bytes = state->pages * PAGE_BYTES, words = PAGE_BYTES / sizeof(*state->area);

	/* The reserved pages go first: from here on the hole is the caller's own. */
	for (uint64_t i = 0; i < run->units; i++) {
		if (mmap((void *)state->area, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			return workload_fail(run, "mmap of %zu pages was refused", state->pages);
		for (size_t page = 0; page < state->pages; page++) {
			state->area[page * words] = run->seed + i + page;
			run->checksum = checksum_add(run->checksum, state->area[page * words]);
		}
		if (munmap((void *)state->area, bytes))
			return workload_fail(run, "munmap of %zu pages was refused", state->pages);
		let_others_run();
	}
	return 0;
}

static void teardown(struct run *run)
{
	struct munmap *state = run->data;

	spinners_stop(run);
	area_release((void *)state->area, state->pages * PAGE_BYTES);
}

WORKLOAD(munmap_private) = {
	.name = "munmap",
	.group = "micro",
	.unit = "mmap, touch and munmap",
	.about = "Maps, touches and unmaps --set pages=N pages (default 1) while every other thread spins and touches "
		 "none of them.",
	.units = 1000,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
