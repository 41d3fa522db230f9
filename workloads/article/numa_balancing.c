// SPDX-License-Identifier: GPL-2.0-only
/*
 * Automatic NUMA balancing: threads keep reading memory that was allocated on
 * another node, until the kernel's scanner has protected `units` page entries.
 *
 * Theory. task_numa_work(), run from the timer tick, makes up to 512 entries
 * inaccessible per chunk (change_prot_numa(); scan_size_mb=1, rounded up to 2
 * MiB) and flushes once per chunk if any was present: sent = 1 and received =
 * threads - 1. Small mappings, and chunks that readers had half restored, cost
 * a flush too: some 130 to 330 pages per flush. The reader's next access is a
 * hint fault (do_numa_page()) without a flush, as an inaccessible entry is in
 * no TLB. The pages have come near before the measured part; with --set far=1
 * they come near in it, and a page migrated while a scan's flush is still
 * pending is flushed too (pte_accessible()): a race that makes the count 3 to
 * 10 times as high. The scanner follows the clock, so the unit is what it
 * protected, not how often memory was read meanwhile. Instructions of the timer
 * tick are not counted, those of the interrupts it sends are: no cost row.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "support/slices.h"
#include "support/system_files.h"

#define PAGES 8192UL
#define PASSES_PER_LOOK 16	/* reading /proc/vmstat costs more than a pass */
#define WAIT_S_MAX 30

#define SCAN "/sys/kernel/debug/sched/numa_balancing/"

/* As short as a tick allows, so that the scanner is never waited for long. */
static struct setting settings[] = {
	{ .path = SCAN "scan_delay_ms", .value = "1" },
	{ .path = SCAN "scan_period_min_ms", .value = "1" },
	{ .path = SCAN "scan_period_max_ms", .value = "10" },
	{ .path = SCAN "scan_size_mb", .value = "1" },
	{ .path = "/proc/sys/kernel/numa_balancing", .value = "1" },
};

#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

struct balancing {
	struct slices slices;
	uint64_t *words;
	uint64_t updates_wanted, updates_at_start, updates;
	uint64_t passes;	/* of the first thread */
	_Atomic bool stop, differs, is_late;
	struct slice_sum sums[];
};

static int settings_change(struct run *run)
{
	for (size_t i = 0; i < SETTINGS; i++) {
		int error = setting_change(&settings[i]);

		if (error == -ENOENT)
			return workload_skip(run, "needs %s: enable CONFIG_NUMA_BALANCING and mount debugfs",
					     settings[i].path);
		if (error)
			return workload_skip(run, "needs root to set %s", settings[i].path);
	}
	return 0;
}

static void settings_restore(void)
{
	for (size_t i = SETTINGS; i-- > 0;)
		setting_restore(&settings[i]);
}

static uint64_t *slice_words(struct balancing *balancing, unsigned int index)
{
	return balancing->words + slice_first(&balancing->slices, index) * (PAGE_BYTES / sizeof(uint64_t));
}

static uint64_t read_slice(struct balancing *balancing, unsigned int index)
{
	volatile uint64_t *word = slice_words(balancing, index);
	uint64_t sum = CHECKSUM_SEED;

	for (uint64_t i = 0; i < slice_pages(&balancing->slices, index); i++)
		sum = checksum_add(sum, word[i * (PAGE_BYTES / sizeof(*word))]);
	return sum;
}

/* On a node that the reader is not on; the policy is taken back, or the scanner would respect it. */
static void fill_elsewhere(struct run *run, unsigned int index)
{
	struct balancing *balancing = run->data;
	uint64_t *word = slice_words(balancing, index), state = run->seed + index;
	unsigned int nodes[NODES_MAX];
	unsigned long mask;

	memory_nodes(nodes);
	mask = 1UL << (nodes[0] == node_here() ? nodes[1] : nodes[0]);
	syscall(SYS_set_mempolicy, MPOL_BIND, &mask, NODES_MAX + 1);
	for (uint64_t i = 0; i < slice_pages(&balancing->slices, index); i++)
		word[i * (PAGE_BYTES / sizeof(*word))] = random_next(&state);
	syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
	balancing->sums[index].sum = read_slice(balancing, index);
}

static int64_t now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static void look(struct balancing *balancing, int64_t deadline_s)
{
	balancing->updates = file_row(VMSTAT, "numa_pte_updates") - balancing->updates_at_start;
	if (balancing->updates >= balancing->updates_wanted)
		balancing->stop = true;
	else if (now_s() > deadline_s)
		balancing->stop = balancing->is_late = true;
}

static void read_until_scanned(struct run *run, unsigned int index)
{
	struct balancing *balancing = run->data;
	const int64_t deadline_s = now_s() + WAIT_S_MAX;
	uint64_t passes = 0;

	team_barrier(run);
	while (!balancing->stop) {
		if (read_slice(balancing, index) != balancing->sums[index].sum)
			balancing->differs = true;
		if (++passes % PASSES_PER_LOOK == 0 && index == 0)
			look(balancing, deadline_s);
		cpu_pause();
	}
	if (index == 0)
		balancing->passes = passes;
}

static int scan(struct run *run, uint64_t updates)
{
	struct balancing *balancing = run->data;

	balancing->updates_wanted = updates;
	balancing->updates_at_start = file_row(VMSTAT, "numa_pte_updates");
	balancing->stop = false;
	team_run(run, read_until_scanned);
	if (balancing->is_late)
		return workload_fail(run, "NUMA balancing protected only %llu of %llu page entries in %d s",
				     (unsigned long long)balancing->updates, (unsigned long long)updates,
				     WAIT_S_MAX);
	if (balancing->differs)
		return workload_fail(run, "memory changed its content while it was migrated");
	return 0;
}

static void teardown(struct run *run)
{
	struct balancing *balancing = run->data;

	settings_restore();
	if (!balancing)
		return;
	area_release(balancing->words, slices_span_pages(&balancing->slices) * PAGE_BYTES);
	free(balancing);
	run->data = NULL;
}

static int setup(struct run *run)
{
	struct slices slices = slices_divide(PAGES, run->threads);
	const uint64_t bytes = slices_span_pages(&slices) * PAGE_BYTES;
	unsigned int nodes[NODES_MAX];
	const bool far = option_u64("far", 0) != 0;
	struct balancing *balancing;
	int error;

	if (run->cost)
		return workload_skip(run, "its work runs from the timer tick, which --cost leaves out: measure it without");
	if (memory_nodes(nodes) < 2)
		return workload_skip(run, "needs 2 NUMA nodes");
	error = system_may_change(run);
	if (!error)
		error = settings_change(run);
	if (error)
		return error;
	balancing = aligned_alloc(64, sizeof(*balancing) + run->threads * sizeof(balancing->sums[0]));
	run->data = balancing;
	if (!balancing)
		return workload_fail(run, "no memory for %u threads' sums", run->threads);
	*balancing = (struct balancing){ .slices = slices, .words = area_reserve(bytes) };
	if (!balancing->words || mprotect(balancing->words, bytes, PROT_READ | PROT_WRITE))
		return workload_fail(run, "no address space for %lu pages", PAGES);
	team_run(run, fill_elsewhere);
	/*
	 * The first scan of a process comes a second after its birth, and the
	 * next ones move the memory: what follows is the steady state.
	 */
	error = scan(run, 2 * PAGES);
	if (!error && far && madvise(balancing->words, bytes, MADV_DONTNEED))
		return workload_fail(run, "memory cannot be given back: %s", strerror(errno));
	if (!error && far)
		team_run(run, fill_elsewhere);
	return error;
}

static int measure(struct run *run)
{
	struct balancing *balancing = run->data;
	const uint64_t faults = file_row(VMSTAT, "numa_hint_faults"), moved = file_row(VMSTAT, "numa_pages_migrated");
	const int error = scan(run, run->units);

	if (error)
		return error;
	/* The scanner overshoots, by a quarter with 8 threads. */
	run->units = balancing->updates;
	report_extra(run, "hint_faults", (double)(file_row(VMSTAT, "numa_hint_faults") - faults));
	report_extra(run, "migrated_pages", (double)(file_row(VMSTAT, "numa_pages_migrated") - moved));
	report_extra(run, "passes", (double)balancing->passes);
	run->checksum = slices_checksum(balancing->sums, run->threads);
	return 0;
}

WORKLOAD(numa_balancing) = {
	.name = "numa-balancing",
	.group = "article",
	.unit = "page protected",
	.about = "Threads read memory while automatic NUMA balancing protects it again and again: one shootdown per chunk of "
		 "up to 512 pages.",
	.needs = "nodes",
	.units = 16384,
	.threads_min = 2,
	/* Threads born after the scan delay was shortened are scanned at once. */
	.own_processes = true,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
