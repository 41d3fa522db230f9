// SPDX-License-Identifier: GPL-2.0-only
/*
 * The control that must show exactly N: every call changes the permission of
 * one page that has just been used, while every other CPU runs this address
 * space. x86 flushes when write permission changes, in both directions. Every
 * CPU has read the page before: a kernel that knows on which nodes a page table
 * was used may leave none of them out. Where the processor broadcasts it, it
 * shows that nobody is interrupted, and that each call waits once.
 */
#include <errno.h>
#include <sys/mman.h>

#include "workload.h"

static void read_page(struct run *run, unsigned int index)
{
	volatile uint64_t *page = run->data;

	(void)index;
	if (*page != run->seed)
		workload_fail(run, "the page does not have the word that was written");
}

static int setup(struct run *run)
{
	volatile uint64_t *page = area_reserve(PAGE_BYTES);

	if (!page || mprotect((void *)page, PAGE_BYTES, PROT_READ | PROT_WRITE))
		return workload_fail(run, "no memory for one page");
	*page = run->seed;
	run->data = (void *)page;
	team_run(run, read_page);
	if (run->has_failed)
		return -EIO;
	run->expect_sent = run->threads > 1 ? (int64_t)run->units : 0;
	run->expect_received = (int64_t)(run->units * (run->threads - 1));
	if (mechanism_broadcasts(run->threads)) {
		run->expect_sent = 0;
		run->expect_received = 0;
		run->expect_tlbsync = (int64_t)run->units;
	}
	return spinners_start(run);
}

static int measure(struct run *run)
{
	volatile uint64_t *page = run->data;

	for (uint64_t i = 0; i < run->units; i++) {
		int protection = i % 2 ? PROT_READ | PROT_WRITE : PROT_READ;

		if (mprotect((void *)page, PAGE_BYTES, protection))
			return workload_fail(run, "mprotect of one page was refused at call %llu",
					     (unsigned long long)i);
		if (i % 2)
			*page += i;
		run->checksum = checksum_add(run->checksum, *page);
		let_others_run();
	}
	return 0;
}

static void teardown(struct run *run)
{
	spinners_stop(run);
	area_release(run->data, PAGE_BYTES);
}

WORKLOAD(exactly_n) = {
	.name = "exactly-n",
	.group = "control",
	.unit = "mprotect call",
	.about = "Changes the permission of one used page while every other thread spins: one shootdown per call, "
		 "received by every other thread's CPU.",
	.units = 4000,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
