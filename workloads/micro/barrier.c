// SPDX-License-Identifier: GPL-2.0-only
/*
 * mprotect() as a barrier for a whole process: a thread takes a right from a page
 * that it alone uses, and relies on every other thread's having been interrupted
 * when the call returns. Run-times and libraries did so before membarrier(2), and
 * where it is missing.
 *
 * Theory. Linux interrupts each CPU that runs the address space: sent = 1 and
 * received = threads - 1 for each barrier. A kernel that knows that the caller alone
 * holds the page interrupts nobody, and the barrier is none. No address space is
 * left alone by it that has refused it by prctl (--set refuse=1).
 *
 * --set again=1: the same page each time, as most of them do it. After the first
 * time the caller's own store walks the page table and marks the page as used by
 * anyone, unless the process has said that it needs no barrier (--set opt-in=1 or 2).
 */
#include <errno.h>
#include <sys/mman.h>

#include "support/opt_in.h"
#include "workload.h"

#define UNITS_MAX (1UL << 18)

static struct {
	char *area;
	size_t bytes;
	bool is_again;
} barrier;

static int setup(struct run *run)
{
	bool is_refused = option_u64("refuse", 0);
	int error;

	if (!run->units || run->units > UNITS_MAX)
		return workload_fail(run, "units is %llu, and must be 1 to %lu", (unsigned long long)run->units, UNITS_MAX);
	/* A kernel that leaves nothing out does not know the call. */
	if (is_refused && mechanism_prctl(0))
		return workload_fail(run, "the mechanism's prctl was refused");
	error = opt_in(run, is_refused);
	if (error)
		return error;
	barrier.is_again = option_u64("again", 0);
	barrier.bytes = (barrier.is_again ? 1 : run->units) * PAGE_BYTES;
	barrier.area = area_reserve(barrier.bytes);
	if (!barrier.area || mprotect(barrier.area, barrier.bytes, PROT_READ | PROT_WRITE))
		return workload_fail(run, "no memory for %llu pages", (unsigned long long)(barrier.bytes / PAGE_BYTES));
	return spinners_start(run);
}

static int measure(struct run *run)
{
	for (uint64_t i = 0; i < run->units; i++) {
		char *at = barrier.area + (barrier.is_again ? 0 : i * PAGE_BYTES);
		volatile uint64_t *word = (volatile uint64_t *)at;

		*word = run->seed + i;
		/* The barrier; and a right that is given back interrupts nobody. */
		if (mprotect(at, PAGE_BYTES, PROT_READ) || mprotect(at, PAGE_BYTES, PROT_READ | PROT_WRITE))
			return workload_fail(run, "mprotect of a page was refused");
		run->checksum = checksum_add(run->checksum, *word);
		let_others_run();
	}
	return 0;
}

static void teardown(struct run *run)
{
	spinners_stop(run);
	area_release(barrier.area, barrier.bytes);
}

WORKLOAD(mprotect_barrier) = {
	.name = "barrier",
	.group = "micro",
	.unit = "barrier by mprotect",
	.about = "Takes write permission from a page that only the caller uses, to interrupt every other thread.",
	.units = 1000,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
