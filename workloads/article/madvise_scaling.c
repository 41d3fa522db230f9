// SPDX-License-Identifier: GPL-2.0-only
/*
 * The article's madvise loop in the form that does flush: the page is touched
 * before every call, by the calling thread alone, while the others spin.
 */
#include <sys/mman.h>

#include "workload.h"

static int setup(struct run *run)
{
	run->data = area_reserve(PAGE_BYTES);
	if (!run->data || mprotect(run->data, PAGE_BYTES, PROT_READ | PROT_WRITE))
		return workload_fail(run, "no memory for one page");
	return spinners_start(run);
}

static int measure(struct run *run)
{
	volatile uint64_t *page = run->data;

	for (uint64_t i = 0; i < run->units; i++) {
		/*
		 * A plain store first: reading first would map the zero page, and replacing
		 * that is a shootdown of its own. The second word must read as zero, which
		 * proves that the page of the last round went away.
		 */
		page[0] = run->seed + i;
		run->checksum = checksum_add(run->checksum, page[1]);
		page[1] = run->seed + i + 1;
		if (madvise((void *)page, PAGE_BYTES, MADV_DONTNEED))
			return workload_fail(run, "madvise(MADV_DONTNEED) was refused");
		let_others_run();
	}
	return 0;
}

static void teardown(struct run *run)
{
	spinners_stop(run);
	area_release(run->data, PAGE_BYTES);
}

WORKLOAD(madvise_scaling) = {
	.name = "madvise-scaling",
	.group = "article",
	.unit = "madvise call",
	.about = "Touches one page and gives it back with MADV_DONTNEED while every other thread spins: each call "
		 "interrupts every other thread's CPU.",
	.units = 1000,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
