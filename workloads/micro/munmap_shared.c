// SPDX-License-Identifier: GPL-2.0-only
/*
 * The honest opposite of munmap: every thread reads the page before it is
 * unmapped, so every CPU really holds the translation, and no design may skip
 * its interrupt. With --set holders=N only N of the other threads do: exactly
 * so many interrupts are needed, whatever a kernel sends.
 */
#include <sys/mman.h>

#include "support/opt_in.h"
#include "workload.h"

struct shared {
	volatile uint64_t *page;
	uint64_t holders;
	atomic_uint_fast64_t seen;
};

static int setup(struct run *run)
{
	static struct shared shared;
	int error = opt_in(run, false);

	if (error)
		return error;
	run->data = &shared;
	shared.holders = option_u64("holders", run->threads - 1);
	if (shared.holders >= run->threads)
		return workload_fail(run, "holders is %llu, and must be 0 to %u at %u threads",
				     (unsigned long long)shared.holders, run->threads - 1, run->threads);
	shared.page = area_reserve(PAGE_BYTES);
	return shared.page ? 0 : workload_fail(run, "no address space for one page");
}

static void take_turns(struct run *run, unsigned int index)
{
	struct shared *shared = run->data;

	for (uint64_t i = 0; i < run->units; i++) {
		if (index == 0) {
			if (mmap((void *)shared->page, PAGE_BYTES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
				workload_fail(run, "mmap of one page was refused");
			else
				*shared->page = run->seed + i;
		}
		team_barrier(run);
		if (run->has_failed)
			return;
		if (index <= shared->holders)
			atomic_fetch_add(&shared->seen, *shared->page);
		team_barrier(run);
		if (index == 0 && munmap((void *)shared->page, PAGE_BYTES))
			workload_fail(run, "munmap of one page was refused");
	}
	/* Who is done sleeps, and would be missing from the last shootdown. */
	team_barrier(run);
}

static int measure(struct run *run)
{
	struct shared *shared = run->data;

	team_run(run, take_turns);
	run->checksum = checksum_add(run->checksum, atomic_load(&shared->seen));
	return run->has_failed ? -1 : 0;
}

static void teardown(struct run *run)
{
	struct shared *shared = run->data;

	area_release((void *)shared->page, PAGE_BYTES);
}

WORKLOAD(munmap_shared) = {
	.name = "munmap-shared",
	.group = "micro",
	.unit = "mmap, touch by all and munmap",
	.about = "Every thread reads the page before the first one unmaps it: every CPU holds the translation, so no "
		 "design may show a gain here. --set holders=N: only N of the others read it.",
	.units = 500,
	.threads_min = 1,
	.shared = true,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
