// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads of a mapped file larger than the memory allowed: threads read their
 * slices once, in a memory cgroup a quarter the size of the file.
 *
 * Theory. A reader over the limit reclaims (try_charge_memcg()). Clean pages of
 * a file on disk need no swap: shrink_folio_list() finds one mapped and young,
 * clears the access bit (folio_check_references()), and on the next visit
 * unmaps it in try_to_unmap_one() with the flush deferred; then
 * try_to_unmap_flush() flushes once for the whole list, to every CPU that runs
 * this address space: received = threads - 1 per flush. A list is at most 32
 * pages (SWAP_CLUSTER_MAX), but starts as the LRU's size >> 12 and doubles
 * with each fall of the priority (get_scan_count()), and some of its pages are
 * still young. In a cgroup this small 6 to 12 pages share a flush. One thread
 * alone never defers: one local flush per page. The multi-generation LRU makes
 * longer lists. Repeats differ by some percent: who reclaims what is a race.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/fault_around.h"
#include "support/mapped_file.h"
#include "support/pressure.h"
#include "support/slices.h"
#include "support/system_files.h"

#define LIMIT_KIB_MIN 2048ULL
/* Each CPU takes 64 pages (MEMCG_CHARGE_BATCH) from the limit in advance. */
#define LIMIT_KIB_PER_THREAD 256ULL
#define LOOKS_MAX 4000

struct mmap_read {
	struct slices slices;
	uint64_t *words;
	bool has_cgroup;
	struct slice_sum sums[];
};

static void read_once(struct run *run, unsigned int index)
{
	struct mmap_read *state = run->data;
	const uint64_t first = slice_first(&state->slices, index);
	const uint64_t pages = slice_pages(&state->slices, index);
	uint64_t sum = CHECKSUM_SEED;

	for (uint64_t i = first; i < first + pages; i++)
		sum = checksum_add(sum, *(volatile uint64_t *)(state->words + i * PAGE_WORDS));
	state->sums[index].sum = sum;
	/* An early finisher goes on spinning: asleep, it would be no target. */
	team_barrier(run);
}

/* A new page, charged to the cgroup: this CPU's reserve of charges no longer holds an old one. */
static void charge_here(struct run *run, unsigned int index)
{
	volatile char *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)run;
	(void)index;
	if (page == MAP_FAILED)
		return;
	*page = 1;
	munmap((void *)page, PAGE_BYTES);
}

/*
 * An earlier repeat's cgroup is freed, after its last charge, by workers that
 * would keep a CPU from being a target for a tenth of the run.
 */
static void wait_for_freed_cgroups(struct run *run)
{
	team_run(run, charge_here);
	for (unsigned int i = 0; i < LOOKS_MAX; i++) {
		if (file_row("/sys/fs/cgroup/cgroup.stat", "nr_dying_descendants") == 0)
			return;
		sched_yield();
	}
}

static void teardown(struct run *run)
{
	struct mmap_read *state = run->data;

	fault_around_restore();
	if (!state)
		return;
	/* The nameless file's pages go with its last user, before their cgroup. */
	if (state->words)
		munmap(state->words, slices_span_pages(&state->slices) * PAGE_BYTES);
	if (state->has_cgroup) {
		pressure_cgroup_leave();
		pressure_cgroup_remove();
	}
	free(state);
	run->data = NULL;
}

static uint64_t limit_kib_default(const struct run *run)
{
	const uint64_t quarter = run->units * PAGE_BYTES / 1024 / 4;
	const uint64_t least = LIMIT_KIB_MIN + LIMIT_KIB_PER_THREAD * run->threads;

	return quarter > least ? quarter : least;
}

static int enter_cgroup(struct run *run, struct mmap_read *state)
{
	int error = pressure_cgroup_make(run, option_u64("limit_kib", limit_kib_default(run)) * 1024);

	if (error)
		return error;
	state->has_cgroup = true;
	error = pressure_cgroup_enter();
	if (error)
		return workload_fail(run, "the memory cgroup cannot be entered: %s", strerror(-error));
	wait_for_freed_cgroups(run);
	return 0;
}

static int setup(struct run *run)
{
	struct slices slices = slices_divide(run->units, run->threads);
	const uint64_t pages = slices_span_pages(&slices);
	struct mmap_read *state = aligned_alloc(64, sizeof(*state) + run->threads * sizeof(state->sums[0]));
	void *words;
	int fd, error;

	run->data = state;
	if (!state)
		return workload_fail(run, "no memory for %u threads' sums", run->threads);
	*state = (struct mmap_read){ .slices = slices };
	error = fault_around_set(run);
	if (error)
		return error;
	fd = mapped_file_on_disk(run, pages);
	if (fd < 0)
		return fd;
	words = mmap(NULL, pages * PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (words == MAP_FAILED)
		return workload_fail(run, "%llu pages of a file cannot be mapped", (unsigned long long)pages);
	state->words = words;
	return enter_cgroup(run, state);
}

static int measure(struct run *run)
{
	struct mmap_read *state = run->data;
	const uint64_t before = file_row(VMSTAT, "pgsteal_file");

	team_run(run, read_once);
	run->checksum = slices_checksum(state->sums, run->threads);
	report_extra(run, "reclaimed_pages", (double)(file_row(VMSTAT, "pgsteal_file") - before));
	return 0;
}

WORKLOAD(mmap_read) = {
	.name = "mmap-read",
	.group = "micro",
	.unit = "page read",
	.about = "Threads read once through a mapped file four times the memory allowed: reclaim unmaps clean pages in "
		 "batches of up to 32, each one shootdown.",
	.needs = "ext2,cgroup",
	.units = 8192,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
