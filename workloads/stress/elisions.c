// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flushes that may be left out, of every kind: at each site that changes a
 * page's entry (zap, reclaim, migrate, protect, remap, clear_flush), for each
 * reason (idle: access bit clear since two rounds; uncached: flushed everywhere
 * and unused since). A unit is a page for each pair. Between clearing and change
 * nobody uses the pages; every other CPU spins in this address space, so an
 * unpatched kernel interrupts them all.
 *
 * The second flush of clear_flush and uncached: only page_vma_mkclean_one()
 * leaves an entry uncached, in a shared file mapping, and read-only.
 * ptep_clear_flush() comes to such an entry again where a page is unmapped
 * outside of batches: because its memory is bad (MADV_HWPOISON, on kernels with
 * MEMORY_FAILURE; the frame is lost). Cleaning passes over it, what makes it
 * writable sets its access bit, and copying, KSM and uprobes are for private
 * mappings.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/elisions.h"
#include "support/mapped_file.h"
#include "support/page_idle.h"
#include "support/regions.h"
#include "support/rounds.h"
#include "support/system_files.h"

#define REGIONS 32UL
#define REGION_PAGES 32UL
#define REGION_BYTES (REGION_PAGES * PAGE_BYTES)
#define STEP_PAGES (REGIONS * REGION_PAGES)

enum backing { ANON, SHARED_FILE, PRIVATE_FILE };

struct pair {
	const char *site, *reason;
	enum backing backing;
	int (*change)(struct run *run, unsigned int region);
};

static struct {
	struct regions area, spare;
	struct page_idle idle;
	int file, memory;		/* the file on disk, /proc/self/mem */
	unsigned int node_count, nodes[NODES_MAX];
	void *pages[REGION_PAGES];
	int to[REGION_PAGES], status[REGION_PAGES];
	unsigned int target;		/* node that pages move to */
} elisions;

static volatile uint64_t *page_at(unsigned int region, uint64_t page)
{
	return (volatile uint64_t *)(region_at(&elisions.area, region) + page * PAGE_BYTES);
}

static int refused(struct run *run, const char *what)
{
	return workload_fail(run, "%s of %lu pages was refused: %s", what, REGION_PAGES, strerror(errno));
}

static int unmap(struct run *run, unsigned int region)
{
	return munmap(region_at(&elisions.area, region), REGION_BYTES) ? refused(run, "munmap") : 0;
}

static int reclaim(struct run *run, unsigned int region)
{
	return madvise(region_at(&elisions.area, region), REGION_BYTES, MADV_PAGEOUT) ? refused(run, "MADV_PAGEOUT") : 0;
}

static int migrate(struct run *run, unsigned int region)
{
	for (uint64_t page = 0; page < REGION_PAGES; page++) {
		elisions.pages[page] = (void *)page_at(region, page);
		elisions.to[page] = (int)elisions.target;
	}
	return syscall(SYS_move_pages, 0, REGION_PAGES, elisions.pages, elisions.to, elisions.status, MPOL_MF_MOVE) < 0 ?
		       refused(run, "move_pages") : 0;
}

static int protect(struct run *run, unsigned int region)
{
	return mprotect(region_at(&elisions.area, region), REGION_BYTES, PROT_NONE) ? refused(run, "mprotect") : 0;
}

static int remap(struct run *run, unsigned int region)
{
	void *to = region_at(&elisions.spare, region);

	return mremap(region_at(&elisions.area, region), REGION_BYTES, REGION_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to ?
		       refused(run, "mremap") : 0;
}

/* Written without being used: the kernel copies the file's page, and no walk sets its access bit. */
static int copy(struct run *run, unsigned int region)
{
	for (uint64_t page = 0; page < REGION_PAGES; page++) {
		const uint64_t word = page;

		if (pwrite(elisions.memory, &word, sizeof(word), (off_t)(uintptr_t)page_at(region, page)) != sizeof(word))
			return refused(run, "a write through /proc/self/mem");
	}
	return 0;
}

/*
 * To take one page's memory away lasts so long that a processor that speculates
 * finds the next ones: each is synced right before.
 */
static int sync_and_poison(struct run *run, unsigned int region)
{
	for (uint64_t page = 0; page < REGION_PAGES; page++) {
		void *at = (void *)page_at(region, page);

		if (msync(at, PAGE_BYTES, MS_SYNC))
			return refused(run, "msync");
		if (!madvise(at, PAGE_BYTES, MADV_HWPOISON))
			continue;
		if (errno != EBUSY)
			return refused(run, "MADV_HWPOISON");
		/* Unmapped, but somebody held the page: it stays in the file, and whoever reads it is killed. */
		if (ftruncate(elisions.file, 0) || ftruncate(elisions.file, STEP_PAGES * PAGE_BYTES))
			return refused(run, "ftruncate");
		return 0;
	}
	return 0;
}

static const struct pair pairs[] = {
	{ "zap", "idle", ANON, unmap },
	{ "reclaim", "idle", SHARED_FILE, reclaim },
	{ "migrate", "idle", ANON, migrate },
	{ "protect", "idle", ANON, protect },
	{ "remap", "idle", ANON, remap },
	{ "clear_flush", "idle", PRIVATE_FILE, copy },
	{ "zap", "uncached", SHARED_FILE, unmap },
	{ "reclaim", "uncached", SHARED_FILE, reclaim },
	{ "migrate", "uncached", SHARED_FILE, migrate },
	{ "protect", "uncached", SHARED_FILE, protect },
	{ "remap", "uncached", SHARED_FILE, remap },
	{ "clear_flush", "uncached", SHARED_FILE, sync_and_poison },
};

#define PAIRS (sizeof(pairs) / sizeof(pairs[0]))

static bool is_possible(const struct pair *pair)
{
	if (pair->change == migrate)
		return elisions.node_count >= 2;
	return pair->change != sync_and_poison || access("/proc/sys/vm/memory_failure_recovery", F_OK) == 0;
}

static bool is_uncached(const struct pair *pair)
{
	return strcmp(pair->reason, "uncached") == 0;
}

static int map_region(struct run *run, const struct pair *pair, unsigned int region)
{
	const int flags = pair->backing == ANON ? MAP_PRIVATE | MAP_ANONYMOUS :
			  pair->backing == SHARED_FILE ? MAP_SHARED : MAP_PRIVATE;
	char *at = region_at(&elisions.area, region);

	if (mmap(at, REGION_BYTES, PROT_READ | PROT_WRITE, flags | MAP_FIXED, pair->backing == ANON ? -1 : elisions.file,
		 pair->backing == ANON ? 0 : (off_t)(region * REGION_BYTES)) != at)
		return refused(run, "mmap");
	(void)madvise(at, REGION_BYTES, MADV_NOHUGEPAGE);
	for (uint64_t page = 0; page < REGION_PAGES; page++) {
		volatile uint64_t *word = page_at(region, page);

		/* A page that is only read stays clean, and reclaim needs no write-back. */
		if (pair->backing == ANON || is_uncached(pair))
			*word = run->seed + page;
		run->checksum = checksum_add(run->checksum, *word);
	}
	return 0;
}

static int make_idle(struct run *run)
{
	int error = 0;

	page_idle_forget(&elisions.idle);
	for (unsigned int i = 0; i < REGIONS && !error; i++)
		error = page_idle_note(&elisions.idle, region_at(&elisions.area, i), REGION_PAGES);
	if (!error)
		error = page_idle_set(&elisions.idle);
	return error ? workload_fail(run, "pages cannot be marked idle: %s", strerror(-error)) : rounds_run(run, 2);
}

static int make_uncached(struct run *run)
{
	for (unsigned int i = 0; i < REGIONS; i++)
		if (msync(region_at(&elisions.area, i), REGION_BYTES, MS_SYNC))
			return refused(run, "msync");
	return 0;
}

/* STEP_PAGES pages for one pair. */
static int step(struct run *run, const struct pair *pair)
{
	const unsigned int here = node_here(), other = elisions.nodes[elisions.nodes[0] == here];
	int error = 0;

	/* Fresh pages are born here; a file's pages stay where they were moved. */
	elisions.target = pair->backing == ANON || elisions.target != other ? other : here;
	for (unsigned int i = 0; i < REGIONS && !error; i++)
		error = map_region(run, pair, i);
	if (!error && pair->change != sync_and_poison)
		error = is_uncached(pair) ? make_uncached(run) : make_idle(run);
	for (unsigned int i = 0; i < REGIONS && !error; i++) {
		error = pair->change(run, i);
		let_others_run();
	}
	for (unsigned int i = 0; i < REGIONS && !error && pair->change == remap; i++)
		error = munmap(region_at(&elisions.spare, i), REGION_BYTES) ? refused(run, "munmap") : 0;
	return error;
}

static int setup(struct run *run)
{
	int error = page_idle_open(run, &elisions.idle, STEP_PAGES);

	if (!error)
		error = regions_reserve(run, &elisions.area, REGIONS, REGION_PAGES);
	if (!error)
		error = regions_reserve(run, &elisions.spare, REGIONS, REGION_PAGES);
	if (!error)
		error = rounds_open(run);
	if (error)
		return error;
	elisions.file = mapped_file_on_disk(run, STEP_PAGES);
	if (elisions.file < 0)
		return elisions.file;
	elisions.memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	if (elisions.memory < 0)
		return workload_fail(run, "/proc/self/mem: %s", strerror(errno));
	elisions.node_count = memory_nodes(elisions.nodes);
	elisions.target = node_here();
	return spinners_start(run);
}

static int measure(struct run *run)
{
	const bool is_counted = elisions_are_counted();
	const char *only = option_text("only", "");
	uint64_t pages = 0;

	for (size_t i = 0; i < PAIRS; i++) {
		const struct pair *pair = &pairs[i];
		const uint64_t before = elisions_at(pair->site, pair->reason);
		uint64_t done = 0;
		char key[48];
		int error = 0;

		snprintf(key, sizeof(key), "%s_%s", pair->site, pair->reason);
		if ((*only && strcmp(only, key) != 0) || !is_possible(pair))
			continue;
		/* Where elisions are counted they are what is wanted; a processor that speculates spoils some. */
		while (!error && (is_counted ? elisions_at(pair->site, pair->reason) - before : done) < run->units &&
		       done < 64 * run->units + STEP_PAGES) {
			error = step(run, pair);
			done += STEP_PAGES;
		}
		if (error)
			return error;
		pages += done;
		report_extra(run, key, is_counted ? (double)(elisions_at(pair->site, pair->reason) - before) : (double)done);
	}
	run->units = pages;
	if (!pages)
		return workload_fail(run, "only is a site and a reason such as zap_idle, not %s", only);
	return 0;
}

static void teardown(struct run *run)
{
	spinners_stop(run);
	regions_release(&elisions.area);
	regions_release(&elisions.spare);
	rounds_close();
	page_idle_close(&elisions.idle);
}

WORKLOAD(elision_pairs) = {
	.name = "elisions",
	.group = "stress",
	.unit = "page changed",
	.about = "For each site and each reason, changes --units pages whose flush may be left out; where the kernel counts "
		 "elisions, until it has counted as many.",
	.needs = "ext2,nodes",
	.units = 10000,
	.threads_min = 2,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
