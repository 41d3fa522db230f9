// SPDX-License-Identifier: GPL-2.0-only
/* numaPTE's micro-operation: pages that only the caller touches change permission. */
#include <sys/mman.h>

#include "support/opt_in.h"
#include "workload.h"

#define PAGES_MAX (1UL << 18)

struct mprotect {
	volatile uint64_t *area;
	size_t pages;
	bool is_apart;
};

/* Every second part is left out of core dumps: the kernel keeps a VMA for each. */
static int split(struct run *run, const struct mprotect *state, size_t vmas)
{
	const size_t bytes = state->pages / vmas * PAGE_BYTES;

	for (size_t part = 1; part < vmas; part += 2)
		if (madvise((char *)state->area + part * bytes, bytes, MADV_DONTDUMP))
			return workload_fail(run, "no VMA of its own for part %zu of %zu", part, vmas);
	return 0;
}

static int setup(struct run *run)
{
	static struct mprotect state;
	const size_t vmas = option_u64("vmas", 1);
	int error = opt_in(run, false);

	if (error)
		return error;
	run->data = &state;
	state.is_apart = option_u64("apart", 0) != 0;
	state.pages = option_u64("pages", 1);
	if (!state.pages || state.pages > PAGES_MAX)
		return workload_fail(run, "pages is %zu, and must be 1 to %lu", state.pages, PAGES_MAX);
	if (!vmas || state.pages % vmas)
		return workload_fail(run, "vmas is %zu, and must divide the %zu pages", vmas, state.pages);
	state.area = area_reserve(state.pages * PAGE_BYTES);
	if (!state.area || mprotect((void *)state.area, state.pages * PAGE_BYTES, PROT_READ | PROT_WRITE))
		return workload_fail(run, "no memory for %zu pages", state.pages);
	error = split(run, &state, vmas);
	if (error)
		return error;
	/* Plain stores: reading first would map the zero page, to be replaced under count. */
	for (size_t page = 0; page < state.pages; page++)
		state.area[page * PAGE_BYTES / sizeof(*state.area)] = run->seed;
	return spinners_start(run);
}

static int measure(struct run *run)
{
	struct mprotect *state = run->data;
	const size_t bytes = state->pages * PAGE_BYTES, words = PAGE_BYTES / sizeof(*state->area);
	uint64_t taken = 0, given = 0;

	for (uint64_t i = 0; i < run->units; i++) {
		for (size_t page = 0; page < state->pages; page++) {
			state->area[page * words] += run->seed + i + page;
			run->checksum = checksum_add(run->checksum, state->area[page * words]);
		}
		const uint64_t before = calls_count(run, state->is_apart);
		const int error = mprotect((void *)state->area, bytes, PROT_READ);
		const uint64_t between = calls_count(run, state->is_apart);

		if (error || mprotect((void *)state->area, bytes, PROT_READ | PROT_WRITE))
			return workload_fail(run, "mprotect of %zu pages was refused", state->pages);
		taken += between - before;
		given += calls_count(run, state->is_apart) - between;
		let_others_run();
	}
	report_calls(run, "protect_instructions", taken, run->units);
	report_calls(run, "unprotect_instructions", given, run->units);
	return 0;
}

static void teardown(struct run *run)
{
	struct mprotect *state = run->data;

	spinners_stop(run);
	area_release((void *)state->area, state->pages * PAGE_BYTES);
}

WORKLOAD(mprotect_private) = {
	.name = "mprotect",
	.group = "micro",
	.unit = "touch, mprotect read-only and back",
	.about = "Writes --set pages=N pages (default 1) and takes write permission away and back while every other "
		 "thread spins and touches none of them. --set vmas=N: in N VMAs of one call; "
		 "apart=1 counts each call alone, too, with --cost.",
	.units = 500,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
