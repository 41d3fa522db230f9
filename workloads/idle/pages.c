// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages that every thread has used are changed after their access bits were
 * cleared and the whole address space was flushed --set rounds=K times. What is
 * measured is the change alone.
 *
 * Theory. An unpatched kernel does not look at access bits: each change is one
 * shootdown to every CPU that runs this address space, received = threads - 1.
 * A kernel that does may leave it out where a page's access bit is still clear
 * and two rounds have passed since it was cleared: nobody can hold it any more.
 * A region has 32 pages by default, so that a change that is not elided flushes
 * them singly and is no round itself. Migration and reclaim flush batches, and
 * fully: with K = 0 their first flush tells, so use --units 1. With
 * --set refuse=1 the process refuses to have flushes left out.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/access_bits.h"
#include "support/mapped_file.h"
#include "support/pressure.h"
#include "support/regions.h"
#include "support/rounds.h"
#include "support/system_files.h"

#define SWAP_BYTES (64UL << 20)

struct change {
	const char *name;
	int (*prepare)(struct run *run);
	int (*one)(struct run *run, uint64_t region);
};

static struct {
	struct regions regions, spare;	/* mremap() moves one to the other */
	const struct change *change;
	bool is_file, has_swap;
	void **pages;			/* what move_pages() takes */
	int *nodes, *status;
	uint64_t gone;			/* pages that reclaim took, or that moved */
} idle;

static size_t region_bytes(void)
{
	return idle.regions.pages * PAGE_BYTES;
}

static int refused(struct run *run, const char *what)
{
	return workload_fail(run, "%s of %llu pages was refused: %s", what, (unsigned long long)idle.regions.pages,
			     strerror(errno));
}

static int prepare_nothing(struct run *run)
{
	(void)run;
	return 0;
}

static int one_munmap(struct run *run, uint64_t region)
{
	return munmap(region_at(&idle.regions, region), region_bytes()) ? refused(run, "munmap") : 0;
}

static int one_mprotect(struct run *run, uint64_t region)
{
	return mprotect(region_at(&idle.regions, region), region_bytes(), PROT_NONE) ? refused(run, "mprotect") : 0;
}

static int prepare_remap(struct run *run)
{
	return regions_reserve(run, &idle.spare, idle.regions.count, idle.regions.pages);
}

static int one_remap(struct run *run, uint64_t region)
{
	void *to = region_at(&idle.spare, region);

	if (mremap(region_at(&idle.regions, region), region_bytes(), region_bytes(), MREMAP_MAYMOVE | MREMAP_FIXED,
		   to) != to)
		return refused(run, "mremap");
	return 0;
}

static int prepare_reclaim(struct run *run)
{
	int error;

	/* A file's clean pages need no swap. */
	if (idle.is_file || strcmp(option_text("clear", "page-idle"), "classic") == 0)
		return 0;
	error = pressure_swap_on(run, SWAP_BYTES);
	idle.has_swap = !error;
	return error;
}

static int one_reclaim(struct run *run, uint64_t region)
{
	return madvise(region_at(&idle.regions, region), region_bytes(), MADV_PAGEOUT) ? refused(run, "MADV_PAGEOUT") : 0;
}

static int prepare_migrate(struct run *run)
{
	const uint64_t pages = idle.regions.pages;
	unsigned int nodes[NODES_MAX];

	if (memory_nodes(nodes) < 2)
		return workload_skip(run, "op=migrate needs 2 NUMA nodes: give --nodes 2");
	idle.pages = calloc(pages, sizeof(*idle.pages));
	idle.nodes = calloc(pages, sizeof(*idle.nodes));
	idle.status = calloc(pages, sizeof(*idle.status));
	if (!idle.pages || !idle.nodes || !idle.status)
		return workload_fail(run, "no memory for a list of %llu pages", (unsigned long long)pages);
	for (uint64_t i = 0; i < pages; i++) {
		idle.nodes[i] = (int)(nodes[0] == node_here() ? nodes[1] : nodes[0]);
		idle.pages[i] = NULL;
		idle.status[i] = -1;
	}
	return 0;
}

static int one_migrate(struct run *run, uint64_t region)
{
	const uint64_t pages = idle.regions.pages;

	for (uint64_t i = 0; i < pages; i++)
		idle.pages[i] = region_at(&idle.regions, region) + i * PAGE_BYTES;
	if (syscall(SYS_move_pages, 0, pages, idle.pages, idle.nodes, idle.status, MPOL_MF_MOVE) < 0)
		return refused(run, "move_pages");
	for (uint64_t i = 0; i < pages; i++)
		idle.gone += idle.status[i] == idle.nodes[i];
	return 0;
}

static const struct change changes[] = {
	{ "munmap", prepare_nothing, one_munmap },
	{ "mprotect", prepare_nothing, one_mprotect },
	{ "remap", prepare_remap, one_remap },
	{ "reclaim", prepare_reclaim, one_reclaim },
	{ "migrate", prepare_migrate, one_migrate },
};

static uint64_t *word_at(uint64_t region, uint64_t page)
{
	return (uint64_t *)(region_at(&idle.regions, region) + page * PAGE_BYTES);
}

/* Anonymous pages are written, or all would be the zero page. */
static void use_first(struct run *run)
{
	for (uint64_t i = 0; i < idle.regions.count; i++) {
		for (uint64_t page = 0; page < idle.regions.pages; page++) {
			volatile uint64_t *word = word_at(i, page);

			if (!idle.is_file)
				*word = run->seed + i * idle.regions.pages + page;
			run->checksum = checksum_add(run->checksum, *word);
		}
	}
}

static void use_all(struct run *run, unsigned int index)
{
	(void)run;
	(void)index;
	for (uint64_t i = 0; i < idle.regions.count; i++)
		for (uint64_t page = 0; page < idle.regions.pages; page++)
			(void)*(volatile uint64_t *)word_at(i, page);
}

static int map_regions(struct run *run)
{
	int fd = idle.is_file ? mapped_file_on_disk(run, idle.regions.count * idle.regions.pages) : -1;
	int error = 0;

	if (idle.is_file && fd < 0)
		return fd;
	for (uint64_t i = 0; i < idle.regions.count && !error; i++)
		error = region_map(run, &idle.regions, i, fd);
	if (fd >= 0)
		close(fd);
	return error;
}

static int options_read(struct run *run)
{
	const char *op = option_text("op", "munmap"), *memory = option_text("memory", "anon");

	for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++)
		if (strcmp(changes[i].name, op) == 0)
			idle.change = &changes[i];
	if (!idle.change)
		return workload_fail(run, "op is munmap, mprotect, remap, reclaim or migrate, not %s", op);
	/* A kernel that leaves nothing out does not know the call. */
	if (option_u64("refuse", 0))
		mechanism_prctl(0);
	idle.is_file = strcmp(memory, "file") == 0;
	if (!idle.is_file && strcmp(memory, "anon") != 0)
		return workload_fail(run, "memory is anon or file, not %s", memory);
	return 0;
}

static int setup(struct run *run)
{
	const uint64_t rounds = option_u64("rounds", 2);
	int64_t cleared;
	int error = options_read(run);

	if (!error)
		error = regions_reserve(run, &idle.regions, run->units, option_u64("pages", 32));
	if (!error)
		error = access_bits_open(run, option_text("clear", "page-idle"), &idle.regions, idle.is_file);
	if (!error)
		error = idle.change->prepare(run);
	if (!error)
		error = rounds_open(run);
	if (!error)
		error = map_regions(run);
	if (error)
		return error;
	use_first(run);
	team_run(run, use_all);
	error = access_bits_clear(run, &cleared);
	if (error)
		return error;
	error = spinners_start(run);
	if (!error)
		error = rounds_run(run, rounds);
	if (!error && run->workload->shared) {
		spinners_stop(run);
		team_run(run, use_all);
		error = spinners_start(run);
	}
	if (error)
		return error;
	if (cleared >= 0)
		report_extra(run, "cleared_pages", (double)cleared);
	return 0;
}

static int measure(struct run *run)
{
	int error = 0;

	for (uint64_t i = 0; i < run->units && !error; i++) {
		error = idle.change->one(run, i);
		let_others_run();
	}
	if (!error && idle.gone)
		report_extra(run, "migrated_pages", (double)idle.gone);
	return error;
}

static void teardown(struct run *run)
{
	spinners_stop(run);
	regions_release(&idle.regions);
	regions_release(&idle.spare);
	rounds_close();
	access_bits_close();
	if (idle.has_swap)
		pressure_swap_off();
	free(idle.pages);
	free(idle.nodes);
	free(idle.status);
}

WORKLOAD(idle_pages) = {
	.name = "idle-pages",
	.group = "idle",
	.unit = "region changed",
	.about = "Changes regions of --set pages=N pages (32) by --set op= munmap, mprotect, remap, reclaim or migrate, that all "
		 "threads used before their access bits were cleared (clear= page-idle, cold, classic, mglru, damon or none) "
		 "and rounds=K full flushes.",
	.needs = "ext2,zram,cgroup",
	.units = 64,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};

WORKLOAD(idle_shared) = {
	.name = "idle-shared",
	.group = "idle",
	.unit = "region changed",
	.about = "As idle-pages, but every thread uses every page again between the rounds and the change: no design may show a "
		 "gain here.",
	.needs = "ext2,zram,cgroup",
	.units = 64,
	.threads_min = 1,
	.shared = true,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
