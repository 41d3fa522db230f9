// SPDX-License-Identifier: GPL-2.0-only
/*
 * The article's own loop: all threads call madvise on the same page, which
 * nobody touches. Linux 6.12 has nothing to flush there; what remains comes
 * from calls that overlap (nested gathers flush everything, whatever they hold),
 * and one shootdown that waits for another thread inside its call makes the next.
 */
#include <sys/mman.h>

#include "workload.h"

static int setup(struct run *run)
{
	run->data = area_reserve(PAGE_BYTES);
	if (!run->data || mprotect(run->data, PAGE_BYTES, PROT_READ | PROT_WRITE) ||
	    madvise(run->data, PAGE_BYTES, MADV_DONTNEED))
		return workload_fail(run, "no memory for one page");
	return 0;
}

static void loop(struct run *run, unsigned int index)
{
	uint64_t calls = run->units / run->threads + (index < run->units % run->threads);

	for (uint64_t i = 0; i < calls; i++)
		if (madvise(run->data, PAGE_BYTES, MADV_DONTNEED))
			workload_fail(run, "madvise(MADV_DONTNEED) was refused");
}

static int measure(struct run *run)
{
	team_run(run, loop);
	run->checksum = checksum_add(run->checksum, run->units);
	return run->has_failed ? -1 : 0;
}

static void teardown(struct run *run)
{
	area_release(run->data, PAGE_BYTES);
}

WORKLOAD(madvise_untouched) = {
	.name = "madvise-untouched",
	.group = "article",
	.unit = "madvise call",
	.about = "The article's own loop, every thread calling MADV_DONTNEED on one page nobody touches: Linux 6.12 "
		 "flushes only where calls overlap, and how often they do is chance: the count stands for nothing.",
	.units = 4000,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
