// SPDX-License-Identifier: GPL-2.0-only
/*
 * The control that must show zero: one thread, always on the first CPU, changes
 * its mappings while every other CPU runs another address space. Whoever sends a
 * shootdown here sends it to CPUs that cannot need it.
 */
#include <sys/mman.h>

#include "workload.h"

#define PAGES 16UL

struct shared {
	atomic_bool stop;
	atomic_uint spinning;
};

struct zero {
	volatile uint64_t *pages;
	struct shared *shared;
	int pids[THREADS_MAX];
	unsigned int processes;
};

static int spin(void *argument)
{
	struct shared *shared = argument;

	atomic_fetch_add(&shared->spinning, 1);
	while (!atomic_load_explicit(&shared->stop, memory_order_relaxed))
		cpu_pause();
	return 0;
}

static int setup(struct run *run)
{
	static struct zero zero;

	run->data = &zero;
	zero.pages = area_reserve(PAGES * PAGE_BYTES);
	zero.shared = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!zero.pages || zero.shared == MAP_FAILED)
		return workload_fail(run, "no memory for %lu pages", PAGES);
	atomic_store(&zero.shared->stop, false);
	for (unsigned int i = 1; i < run->threads; i++) {
		int pid = process_start(i, spin, zero.shared);

		if (pid < 0)
			return workload_fail(run, "process %u cannot be started", i);
		zero.pids[zero.processes++] = pid;
	}
	while (atomic_load(&zero.shared->spinning) < zero.processes)
		cpu_pause();
	run->expect_sent = 0;
	run->expect_received = 0;
	return 0;
}

static int measure(struct run *run)
{
	struct zero *zero = run->data;
	const size_t bytes = PAGES * PAGE_BYTES;
	void *const start = (void *)zero->pages;
	const size_t words = PAGE_BYTES / sizeof(*zero->pages);

	for (uint64_t i = 0; i < run->units; i++) {
		if (mmap(start, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			return workload_fail(run, "mmap was refused");
		for (size_t page = 0; page < PAGES; page++) {
			zero->pages[page * words] = i + page;
			run->checksum = checksum_add(run->checksum, zero->pages[page * words]);
		}
		if (mprotect(start, bytes, PROT_READ) || munmap(start, bytes))
			return workload_fail(run, "mprotect or munmap was refused");
	}
	return 0;
}

static void teardown(struct run *run)
{
	struct zero *zero = run->data;

	if (zero->shared && zero->shared != MAP_FAILED)
		atomic_store(&zero->shared->stop, true);
	for (unsigned int i = 0; i < zero->processes; i++)
		if (process_join(zero->pids[i]))
			workload_fail(run, "a spinning process died");
	area_release((void *)zero->pages, PAGES * PAGE_BYTES);
}

WORKLOAD(zero) = {
	.name = "zero",
	.group = "control",
	.unit = "mmap, mprotect and munmap of 16 pages",
	.about = "One thread on the first CPU changes its mappings while other processes spin on every other CPU: "
		 "no shootdown may be sent.",
	.units = 500,
	.threads_min = 1,
	.own_processes = true,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
