// SPDX-License-Identifier: GPL-2.0-only
/*
 * A file's pages that one thread alone reads are reclaimed, many with one flush
 * at the end. As soon as one is unmapped, and before that flush, another thread
 * reads it again from the file, and has the kernel write a newer word to it, for
 * which its page is copied. Who reads the old page after that was forgotten.
 *
 * Reclaim is MADV_PAGEOUT, or with by=cgroup the memory cgroup's: the former tells
 * others that it has not flushed yet in two ways, the latter in one alone.
 *
 * What is done depends on seed and units alone; when the two meet does not.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/mapped_file.h"
#include "support/pressure.h"
#include "support/regions.h"
#include "support/system_files.h"

#define PAGES 64UL
#define PAGEMAP_PRESENT (1ULL << 63)
#define LEAVE UINT64_MAX
#define CGROUP_BYTES (256UL << 20)
#define RECLAIM "/sys/fs/cgroup/ceasefire/memory.reclaim"

static struct {
	struct regions area;
	int file, pagemap, memory;
	bool has_cgroup;
	_Atomic uint64_t order;		/* what the reader reads: a generation, or 0 */
	_Atomic uint64_t obeyed;
	_Atomic uint64_t sweep, swept, picked;
	_Atomic uint64_t written;	/* the page with a newer word, and ... */
	_Atomic uint64_t published;	/* ... in which generation */
	uint64_t random, met;
} state;

static volatile uint64_t *page_at(uint64_t page)
{
	return (volatile uint64_t *)(region_at(&state.area, 0) + page * PAGE_BYTES);
}

static uint64_t newer_word(uint64_t generation)
{
	return 0x0fULL << 56 | generation;
}

static void read_until(struct run *run, uint64_t generation)
{
	while (state.order == generation) {
		const bool is_written = atomic_load(&state.published) == generation;

		for (uint64_t page = 0; page < PAGES; page++) {
			const uint64_t word = *page_at(page);

			if (is_written && page == state.written && word != newer_word(generation))
				workload_fail(run, "stale read: 0x%llx at %p, and should be 0x%llx", (unsigned long long)word,
					      (void *)page_at(page), (unsigned long long)newer_word(generation));
		}
		/* Once round: it holds all of them. */
		state.obeyed = generation;
		cpu_pause();
	}
}

static void read_pages(struct run *run)
{
	for (uint64_t order; (order = state.order) != LEAVE;) {
		if (order)
			read_until(run, order);
		else
			state.obeyed = 0;
		cpu_pause();
	}
}

static bool is_present(uint64_t page)
{
	uint64_t entry = PAGEMAP_PRESENT;
	const off_t at = (off_t)((uintptr_t)page_at(page) / PAGE_BYTES * sizeof(entry));

	return pread(state.pagemap, &entry, sizeof(entry), at) != sizeof(entry) || entry & PAGEMAP_PRESENT;
}

static void pick_pages(struct run *run)
{
	for (uint64_t generation = 0;;) {
		const uint64_t last = generation, page = random_next(&state.random) % PAGES;
		uint64_t word;

		while ((generation = state.sweep) == last)
			cpu_pause();
		if (generation == LEAVE)
			return;
		word = newer_word(generation);
		while (is_present(page) && state.swept != generation)
			cpu_pause();
		/*
		 * This CPU may hold the old page, too, from a speculative walk. A write to a slot that
		 * is still empty would flush nobody, on any Linux, and the reader see it late.
		 */
		do
			(void)*page_at(page);
		while (!is_present(page) && state.swept != generation);
		state.met += state.swept != generation;
		if (pwrite(state.memory, &word, sizeof(word), (off_t)(uintptr_t)page_at(page)) != sizeof(word))
			workload_fail(run, "a write through /proc/self/mem was refused: %s", strerror(errno));
		state.written = page;
		state.published = generation;
		state.picked = generation;
	}
}

static void order_reader(uint64_t order)
{
	state.order = order;
	while (state.obeyed != order)
		cpu_pause();
}

static int reclaim(struct run *run, uint64_t generation)
{
	char *at = region_at(&state.area, 0);

	if (mmap(at, PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, state.file, 0) != at)
		return workload_fail(run, "mmap of a file was refused: %s", strerror(errno));
	order_reader(generation);
	state.sweep = generation;
	/* It fails where it finds less than it was asked for. */
	if (state.has_cgroup)
		(void)file_write(RECLAIM, "1M");
	else if (madvise(at, PAGES * PAGE_BYTES, MADV_PAGEOUT))
		workload_fail(run, "MADV_PAGEOUT was refused: %s", strerror(errno));
	state.swept = generation;
	while (state.picked != generation)
		cpu_pause();
	/* It has seen what was written. */
	state.obeyed = 0;
	while (state.obeyed != generation)
		cpu_pause();
	order_reader(0);
	return 0;
}

static void take_part(struct run *run, unsigned int index)
{
	if (index == 1)
		pick_pages(run);
	else if (index == 2)
		read_pages(run);
	if (index)
		return;
	for (uint64_t i = 1; i <= run->units && !run->has_failed; i++) {
		reclaim(run, i);
		run->checksum = checksum_add(run->checksum, i);
	}
	state.order = LEAVE;
	state.sweep = LEAVE;
}

static int setup(struct run *run)
{
	const char *by = option_text("by", "madvise");
	int error = regions_reserve(run, &state.area, 1, PAGES);

	if (error)
		return error;
	if (strcmp(by, "madvise") && strcmp(by, "cgroup"))
		return workload_fail(run, "by is madvise or cgroup, not %s", by);
	if (!strcmp(by, "cgroup")) {
		error = system_may_change(run);
		if (!error)
			error = pressure_cgroup_make(run, CGROUP_BYTES);
		if (error)
			return error;
		state.has_cgroup = true;
		error = pressure_cgroup_enter();
		if (error || access(RECLAIM, W_OK))
			return workload_skip(run, "by=cgroup needs " RECLAIM);
	}
	state.file = mapped_file_on_disk(run, PAGES);
	if (state.file < 0)
		return state.file;
	state.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (state.pagemap < 0)
		return workload_skip(run, "needs /proc/self/pagemap: enable CONFIG_PROC_PAGE_MONITOR");
	state.memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	if (state.memory < 0)
		return workload_fail(run, "/proc/self/mem cannot be opened: %s", strerror(errno));
	state.random = run->seed;
	return 0;
}

static int measure(struct run *run)
{
	team_run(run, take_part);
	if (run->has_failed)
		return -EIO;
	report_extra(run, "stale_reads", 0);
	report_extra(run, "met_sweeps", (double)state.met);
	return 0;
}

static void teardown(struct run *run)
{
	(void)run;
	regions_release(&state.area);
	for (const int *fd = (const int[]){ state.file, state.pagemap, state.memory, 0 }; *fd > 0; fd++)
		close(*fd);
	if (!state.has_cgroup)
		return;
	pressure_cgroup_leave();
	pressure_cgroup_remove();
}

WORKLOAD(refault) = {
	.name = "refault",
	.group = "stress",
	.unit = "sweep",
	.about = "While reclaim unmaps a file's pages that one thread alone reads, another one reads one of them again and "
		 "replaces it: the first must see that.",
	.needs = "ext2,cgroup",
	.units = 400,
	.threads_min = 3,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
