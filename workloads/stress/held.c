// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages that every thread holds are changed in a state in which one particular
 * mistake would leave the flush out:
 *
 *   fresh      the access bits were cleared, no round since
 *   ranged     and small ranges were flushed elsewhere since
 *   alone      and pages that only the caller had used were replaced elsewhere since
 *   again      cleared, two rounds, used by all, cleared again
 *   used       cleared, two rounds, used by all
 *   synced     written back, so flushed everywhere, then used by all
 *   switched   cleared, two rounds; while the kernel does not track, used by all
 *              and cleared; then it tracks again
 *   unstamped  some rounds; while it does not track, used by all and cleared
 *   racing     some threads flush everything while bits are cleared and pages
 *              changed, at random moments
 *
 * Each thread reads the pages until they are changed, so that it holds them with
 * or without their access bits. In all but the last no round runs between the
 * clearing and the change, and no design may leave the flush out: where the
 * kernel counts what it leaves out, one page fails the run, and so does a page
 * that was not in the state that it should be in.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness/harness.h"
#include "support/checked_load.h"
#include "support/elisions.h"
#include "support/mapped_file.h"
#include "support/page_idle.h"
#include "support/regions.h"
#include "support/rounds.h"
#include "support/system_files.h"

#define REGIONS 8UL
#define REGION_PAGES 16UL
#define REGION_BYTES (REGION_PAGES * PAGE_BYTES)
/* Few enough to be flushed singly. */
#define RANGE_PAGES 8UL
#define RANGE_BYTES (RANGE_PAGES * PAGE_BYTES)
#define RANGES 4U
#define FLUSHERS 2U
/* More than are flushed singly. */
#define FLUSHER_PAGES 64UL
#define FLUSHER_BYTES (FLUSHER_PAGES * PAGE_BYTES)
/* Changes at random moments, for each unit of the others. */
#define RACES 32U

#define MODE "/sys/kernel/mm/abis/mode"
#define ROUND_EVERY "/sys/kernel/mm/abis/round_every"

enum backing { ANON, SHARED_FILE, PRIVATE_FILE };
enum order { REST, TOUCH, LEAVE };

struct change {
	const char *name, *site;
	enum backing backing;
	bool takes_all;		/* all pages, whatever else they are used for */
	int (*one)(struct run *run, unsigned int region);
};

struct scenario {
	const char *name;
	const char *reason;	/* the kernel's, for flushing */
	bool is_synced, needs_mode;
	int (*bring)(struct run *run, unsigned int region);
};

struct counts {
	uint64_t elided, flushed, as_meant;
};

struct toucher {
	_Alignas(64) _Atomic uint64_t passes;
	uint64_t random;
};

static struct {
	struct regions area, spare, range, flushed;
	struct page_idle idle;
	struct toucher touchers[THREADS_MAX];
	_Atomic enum order order;
	_Atomic unsigned int turn, region, races;
	unsigned int flushers;
	int file, memory;		/* the file on disk, /proc/self/mem */
	unsigned int node_count, nodes[NODES_MAX];
	bool is_counted, is_idle;	/* elisions, and that they happen: mode idle or full */
	const char *mode;
	uint64_t random;
	struct counts sum;		/* of one scenario */
	const char *scenario;
	int error;
	void *pages[REGION_PAGES];
	int to[REGION_PAGES], status[REGION_PAGES];
} held;

static struct setting round_every = { .path = ROUND_EVERY, .value = "0" };

static volatile uint64_t *page_at(unsigned int region, uint64_t page)
{
	return (volatile uint64_t *)(region_at(&held.area, region) + page * PAGE_BYTES);
}

static uint64_t draw(uint64_t below)
{
	return random_next(&held.random) % below;
}

/* Threads that hold the pages */

/* Return: false if a page is gone. */
static bool touch_region(unsigned int region)
{
	for (uint64_t page = 0; page < REGION_PAGES; page++)
		if (checked_load(page_at(region, page)).has_faulted)
			return false;
	return true;
}

static void pause_for(uint64_t times)
{
	for (uint64_t i = 0; i < times; i++)
		cpu_pause();
}

/* A round or two beside those of others: advice needs no lock against them. */
static void flush_all(unsigned int flusher, uint64_t random)
{
	volatile char *at = region_at(&held.flushed, flusher);

	pause_for(random % 4);
	for (unsigned int i = 0; i < (random & 0x300 ? 1U : 2U); i++) {
		(void)madvise((void *)at, FLUSHER_BYTES, MADV_COLD);
		/* The next one needs accessed bits, or it would flush nothing. */
		for (uint64_t page = 0; page < FLUSHER_PAGES; page++)
			(void)at[page * PAGE_BYTES];
	}
}

static void touch_always(unsigned int index)
{
	struct toucher *self = &held.touchers[index];
	unsigned int gone = 0, raced = 0;

	for (;;) {
		const unsigned int turn = held.turn, races = held.races;
		const enum order order = held.order;

		if (order == LEAVE)
			return;
		if (index <= held.flushers && raced != races) {
			flush_all(index - 1, random_next(&self->random));
			raced = races;
		} else if (order != REST && gone != turn) {
			/* A page that is gone faults each time: no more of that until the next turn. */
			if (!touch_region(held.region))
				gone = turn;
		}
		atomic_fetch_add(&self->passes, 1);
		cpu_pause();
	}
}

static void wait_for_passes(const struct run *run)
{
	uint64_t seen[THREADS_MAX];

	for (unsigned int i = 1; i < run->threads; i++)
		seen[i] = held.touchers[i].passes;
	for (unsigned int i = 1; i < run->threads; i++)
		while (held.touchers[i].passes < seen[i] + 2)
			cpu_pause();
}

/* From here on every thread holds the region's pages. */
static void all_touch(const struct run *run, unsigned int region)
{
	held.region = region;
	held.turn++;
	held.order = TOUCH;
	wait_for_passes(run);
}

static void all_rest(const struct run *run)
{
	held.order = REST;
	wait_for_passes(run);
}

/* Changes */

static int refused(struct run *run, const char *what)
{
	return workload_fail(run, "%s of %lu pages was refused: %s", what, REGION_PAGES, strerror(errno));
}

static int unmap(struct run *run, unsigned int region)
{
	return munmap(region_at(&held.area, region), REGION_BYTES) ? refused(run, "munmap") : 0;
}

static int protect(struct run *run, unsigned int region)
{
	return mprotect(region_at(&held.area, region), REGION_BYTES, PROT_NONE) ? refused(run, "mprotect") : 0;
}

static int remap(struct run *run, unsigned int region)
{
	void *to = region_at(&held.spare, region);

	return mremap(region_at(&held.area, region), REGION_BYTES, REGION_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to ?
		       refused(run, "mremap") : 0;
}

static int migrate(struct run *run, unsigned int region)
{
	for (uint64_t page = 0; page < REGION_PAGES; page++)
		held.pages[page] = (void *)page_at(region, page);
	/* Without a list of nodes it tells where they are: a file's pages stay where they were moved. */
	if (syscall(SYS_move_pages, 0, REGION_PAGES, held.pages, NULL, held.status, 0) < 0)
		return refused(run, "move_pages");
	for (uint64_t page = 0; page < REGION_PAGES; page++)
		held.to[page] = (int)held.nodes[held.nodes[0] == (unsigned int)held.status[page]];
	return syscall(SYS_move_pages, 0, REGION_PAGES, held.pages, held.to, held.status, MPOL_MF_MOVE) < 0 ?
		       refused(run, "move_pages") : 0;
}

static int reclaim(struct run *run, unsigned int region)
{
	return madvise(region_at(&held.area, region), REGION_BYTES, MADV_PAGEOUT) ? refused(run, "MADV_PAGEOUT") : 0;
}

/* Written without being used: the kernel copies the file's page, and no walk sets its access bit. */
static int copy(struct run *run, unsigned int region)
{
	for (uint64_t page = 0; page < REGION_PAGES; page++) {
		const uint64_t word = page;

		if (pwrite(held.memory, &word, sizeof(word), (off_t)(uintptr_t)page_at(region, page)) != sizeof(word))
			return refused(run, "a write through /proc/self/mem");
	}
	return 0;
}

static const struct change changes[] = {
	{ "munmap", "zap", ANON, true, unmap },
	{ "mprotect", "protect", ANON, true, protect },
	{ "remap", "remap", ANON, true, remap },
	{ "migrate", "migrate", ANON, false, migrate },
	/* Clean pages: nothing is written out, and one flush serves all. */
	{ "reclaim", "reclaim", SHARED_FILE, false, reclaim },
	{ "copy", "clear_flush", PRIVATE_FILE, true, copy },
};

#define CHANGES (sizeof(changes) / sizeof(changes[0]))

/* What brings the pages into their state; all threads hold them afterwards */

static int map_region(struct run *run, enum backing backing, bool is_written, unsigned int region)
{
	const int flags = backing == ANON ? MAP_PRIVATE | MAP_ANONYMOUS : backing == SHARED_FILE ? MAP_SHARED : MAP_PRIVATE;
	char *at = region_at(&held.area, region);

	/*
	 * Where threads of two nodes have brought a file's pages back, each run of
	 * pages on one node is reclaimed by itself, and its flush is a round for the
	 * next: they come anew, from here.
	 */
	if (backing != ANON)
		(void)posix_fadvise(held.file, (off_t)(region * REGION_BYTES), REGION_BYTES, POSIX_FADV_DONTNEED);
	if (mmap(at, REGION_BYTES, PROT_READ | PROT_WRITE, flags | MAP_FIXED, backing == ANON ? -1 : held.file,
		 backing == ANON ? 0 : (off_t)(region * REGION_BYTES)) != at)
		return refused(run, "mmap");
	(void)madvise(at, REGION_BYTES, MADV_NOHUGEPAGE);
	for (uint64_t page = 0; page < REGION_PAGES; page++) {
		volatile uint64_t *word = page_at(region, page);

		if (backing == ANON || is_written)
			*word = run->seed + page;
		(void)*word;
	}
	return 0;
}

static int clear_bits(struct run *run, unsigned int region)
{
	int error;

	page_idle_forget(&held.idle);
	error = page_idle_note(&held.idle, region_at(&held.area, region), REGION_PAGES);
	if (!error && held.idle.count != REGION_PAGES)
		return workload_fail(run, "%s: only %llu of %lu pages are present", held.scenario,
				     (unsigned long long)held.idle.count, REGION_PAGES);
	if (!error)
		error = page_idle_set(&held.idle);
	return error ? workload_fail(run, "pages cannot be marked idle: %s", strerror(-error)) : 0;
}

static int set_mode(struct run *run, const char *mode)
{
	const int error = file_write(MODE, mode);

	return error ? workload_fail(run, MODE " cannot be set to %s: %s", mode, strerror(-error)) : 0;
}

static int touch_and_clear(struct run *run, unsigned int region)
{
	all_touch(run, region);
	return clear_bits(run, region);
}

static int ranges_flush(struct run *run)
{
	char *at = region_at(&held.range, 0);

	for (unsigned int i = 0; i < RANGES; i++) {
		/* Their access bits are set: this flush is never needless. */
		for (uint64_t page = 0; page < RANGE_PAGES; page++)
			((volatile char *)at)[page * PAGE_BYTES] = 1;
		if (mprotect(at, RANGE_BYTES, PROT_READ) || mprotect(at, RANGE_BYTES, PROT_READ | PROT_WRITE))
			return refused(run, "mprotect");
	}
	return 0;
}

static int bring_ranged(struct run *run, unsigned int region)
{
	const int error = touch_and_clear(run, region);

	return error ? error : ranges_flush(run);
}

/* In mode full the kernel knows that nobody else holds these pages, and flushes nobody else. */
static int bring_alone(struct run *run, unsigned int region)
{
	int error = touch_and_clear(run, region);

	for (unsigned int i = 0; i < RANGES && !error; i++) {
		error = region_map(run, &held.range, 0, -1);
		for (uint64_t page = 0; page < RANGE_PAGES && !error; page++)
			((volatile char *)region_at(&held.range, 0))[page * PAGE_BYTES] = 1;
	}
	return error;
}

/* Nobody holds the pages any more, and that is known. */
static int bring_idle(struct run *run, unsigned int region)
{
	const int error = touch_and_clear(run, region);

	all_rest(run);
	return error ? error : rounds_run(run, 2);
}

static int bring_used(struct run *run, unsigned int region)
{
	const int error = bring_idle(run, region);

	all_touch(run, region);
	return error;
}

static int bring_again(struct run *run, unsigned int region)
{
	const int error = bring_idle(run, region);

	return error ? error : touch_and_clear(run, region);
}

static int bring_synced(struct run *run, unsigned int region)
{
	if (msync(region_at(&held.area, region), REGION_BYTES, MS_SYNC))
		return refused(run, "msync");
	all_touch(run, region);
	return 0;
}

static int bring_untracked(struct run *run, unsigned int region)
{
	int error = set_mode(run, "off");

	if (error)
		return error;
	error = touch_and_clear(run, region);
	return set_mode(run, held.mode) ? -EIO : error;
}

static int bring_switched(struct run *run, unsigned int region)
{
	const int error = bring_idle(run, region);

	return error ? error : bring_untracked(run, region);
}

static int bring_unstamped(struct run *run, unsigned int region)
{
	const int error = rounds_run(run, 3);

	return error ? error : bring_untracked(run, region);
}

static const struct scenario scenarios[] = {
	{ "fresh", "recent", false, false, touch_and_clear },
	{ "ranged", "recent", false, false, bring_ranged },
	{ "alone", "recent", false, false, bring_alone },
	{ "again", "recent", false, false, bring_again },
	{ "used", "accessed", false, false, bring_used },
	{ "synced", "accessed", true, false, bring_synced },
	{ "switched", "never", false, true, bring_switched },
	{ "unstamped", "never", false, true, bring_unstamped },
};

#define SCENARIOS (sizeof(scenarios) / sizeof(scenarios[0]))

static struct counts counts_now(const char *site, const char *reason)
{
	return (struct counts){
		.elided = elisions_at(site, "idle") + elisions_at(site, "uncached") +
			  elisions_at(site, "private"),
		.flushed = elisions_at(site, "recent") + elisions_at(site, "accessed") + elisions_at(site, "never"),
		.as_meant = elisions_at(site, reason),
	};
}

/* What this change added to the sum. */
static int judge(struct run *run, const struct scenario *scenario, const struct change *change, struct counts before)
{
	const struct counts now = counts_now(change->site, scenario->reason);
	const uint64_t elided = now.elided - before.elided, flushed = now.flushed - before.flushed;

	if (elided)
		return workload_fail(run, "%s: %s left out the flush of %llu pages that every thread held", scenario->name,
				     change->name, (unsigned long long)elided);
	if (flushed < (change->takes_all ? REGION_PAGES : 1))
		return workload_fail(run, "%s: %s flushed %llu of %lu pages", scenario->name, change->name,
				     (unsigned long long)flushed, REGION_PAGES);
	held.sum.flushed += flushed;
	held.sum.as_meant += now.as_meant - before.as_meant;
	return 0;
}

/* Processors set some bits again, when they speculate or were slow: most of the pages must be as they should be. */
static int judge_sum(struct run *run, const struct scenario *scenario)
{
	if (held.sum.as_meant >= held.sum.flushed / 2)
		return 0;
	return workload_fail(run, "%s: of %llu pages flushed only %llu were so because %s", scenario->name,
			     (unsigned long long)held.sum.flushed, (unsigned long long)held.sum.as_meant, scenario->reason);
}

static int tidy(struct run *run, const struct change *change, unsigned int region)
{
	if (change->one == remap && munmap(region_at(&held.spare, region), REGION_BYTES))
		return refused(run, "munmap");
	return munmap(region_at(&held.area, region), REGION_BYTES) ? refused(run, "munmap") : 0;
}

static int step(struct run *run, const struct scenario *scenario, const struct change *change, unsigned int region)
{
	const bool is_judged = held.is_counted && held.is_idle;
	struct counts before = { 0 };
	int error;

	held.order = REST;
	error = map_region(run, scenario->is_synced ? SHARED_FILE : change->backing, scenario->is_synced, region);
	if (!error)
		error = scenario->bring(run, region);
	/* Where nobody counts, the kernel's own view of the bits must do. */
	if (!error && !is_judged && scenario->bring != bring_used && !scenario->is_synced &&
	    page_idle_count(&held.idle) < REGION_PAGES / 2)
		error = workload_fail(run, "%s: the access bits are not clear", scenario->name);
	if (!error && is_judged)
		before = counts_now(change->site, scenario->reason);
	if (!error)
		error = change->one(run, region);
	if (!error && is_judged)
		error = judge(run, scenario, change, before);
	held.order = REST;
	return error ? error : tidy(run, change, region);
}

/* Changes at random moments between clearing and rounds of others: the pages come back, and are changed again. */
static int race(struct run *run, unsigned int region, unsigned int number)
{
	char *at = region_at(&held.area, region);
	int error;

	all_touch(run, region);
	page_idle_forget(&held.idle);
	error = page_idle_note(&held.idle, at, REGION_PAGES);
	held.races++;
	pause_for(draw(8));
	if (!error)
		error = page_idle_set(&held.idle);
	if (error)
		return workload_fail(run, "pages cannot be marked idle: %s", strerror(-error));
	/* The first three wait until no round is under way, the last one meets some. */
	switch (number % 4) {
	case 0:
	case 1:
		return protect(run, region) || mprotect(at, REGION_BYTES, PROT_READ | PROT_WRITE) ? -EIO : 0;
	case 2:
		error = unmap(run, region);
		return error ? error : map_region(run, ANON, true, region);
	}
	pause_for(draw(8));
	if (madvise(at, REGION_BYTES, MADV_DONTNEED))
		return refused(run, "MADV_DONTNEED");
	for (uint64_t page = 0; page < REGION_PAGES; page++)
		*page_at(region, page) = page;
	return 0;
}

static int races(struct run *run)
{
	int error = map_region(run, ANON, true, 0);

	for (uint64_t i = 0; i < run->units * RACES && !error; i++)
		error = race(run, 0, (unsigned int)i);
	held.order = REST;
	wait_for_passes(run);
	return error ? error : unmap(run, 0);
}

static bool is_chosen(const char *name)
{
	return strcmp(held.scenario, "all") == 0 || strcmp(held.scenario, name) == 0;
}

static int all_scenarios(struct run *run, uint64_t *done)
{
	const char *chosen = held.scenario;
	int error = 0;

	for (size_t i = 0; i < SCENARIOS && !error; i++) {
		const struct scenario *scenario = &scenarios[i];
		uint64_t changed = 0;
		char key[48];

		if (!is_chosen(scenario->name) || (scenario->needs_mode && !held.is_idle))
			continue;
		held.scenario = scenario->name;
		held.sum = (struct counts){ 0 };
		for (uint64_t unit = 0; unit < run->units && !error; unit++) {
			const struct change *change = &changes[unit % CHANGES];

			if ((change->one == migrate && held.node_count < 2) || (change->one == copy && scenario->is_synced))
				continue;
			error = step(run, scenario, change, (unsigned int)(unit % REGIONS));
			changed++;
		}
		if (!error)
			error = judge_sum(run, scenario);
		held.scenario = chosen;
		*done += changed;
		snprintf(key, sizeof(key), "%s_regions", scenario->name);
		report_extra(run, key, (double)changed);
	}
	if (!error && is_chosen("racing")) {
		error = races(run);
		*done += run->units * RACES;
		report_extra(run, "racing_regions", (double)(run->units * RACES));
	}
	return error;
}

static void change_or_touch(struct run *run, unsigned int index)
{
	uint64_t done = 0;

	if (index != 0) {
		touch_always(index);
		return;
	}
	held.error = all_scenarios(run, &done);
	run->checksum = checksum_add(run->checksum, done);
	run->units = done;
	held.order = LEAVE;
}

static int options_read(struct run *run)
{
	bool is_known;

	held.scenario = option_text("scenario", "all");
	is_known = strcmp(held.scenario, "all") == 0 || strcmp(held.scenario, "racing") == 0;
	for (size_t i = 0; i < SCENARIOS; i++) {
		if (strcmp(held.scenario, scenarios[i].name) != 0)
			continue;
		is_known = true;
		if (scenarios[i].needs_mode && !held.is_idle)
			return workload_skip(run, "%s needs a kernel that elides: --kernel abis:idle", held.scenario);
	}
	return is_known ? 0 : workload_fail(run, "scenario is fresh, ranged, alone, again, used, synced, switched, unstamped, racing "
					    "or all, not %s", held.scenario);
}

static int regions_ready(struct run *run)
{
	int error = regions_reserve(run, &held.area, REGIONS, REGION_PAGES);

	if (!error)
		error = regions_reserve(run, &held.spare, REGIONS, REGION_PAGES);
	if (!error)
		error = regions_reserve(run, &held.range, 1, RANGE_PAGES);
	if (!error)
		error = region_map(run, &held.range, 0, -1);
	if (!error)
		error = regions_reserve(run, &held.flushed, FLUSHERS, FLUSHER_PAGES);
	for (unsigned int i = 0; i < FLUSHERS && !error; i++) {
		error = region_map(run, &held.flushed, i, -1);
		/* Or all would be the zero page, whose bits nobody clears. */
		if (!error)
			memset(region_at(&held.flushed, i), 1, FLUSHER_BYTES);
	}
	return error;
}

static int setup(struct run *run)
{
	char mode[16] = "";
	int error;

	if (file_read(MODE, mode, sizeof(mode)) > 0)
		held.mode = strncmp(mode, "full", 4) == 0 ? "full" : strncmp(mode, "idle", 4) == 0 ? "idle" : NULL;
	held.is_idle = held.mode;
	held.is_counted = elisions_are_counted();
	held.random = run->seed;
	/* Somebody must go on touching. */
	held.flushers = run->threads > FLUSHERS + 1 ? FLUSHERS : run->threads - 2;
	error = options_read(run);
	if (!error && held.is_idle)
		error = system_may_change(run);
	if (!error)
		error = page_idle_open(run, &held.idle, REGION_PAGES);
	if (!error)
		error = checked_load_open(run);
	if (!error)
		error = rounds_open(run);
	if (!error)
		error = regions_ready(run);
	if (error)
		return error;
	held.file = mapped_file_on_disk(run, REGIONS * REGION_PAGES);
	if (held.file < 0)
		return held.file;
	held.memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	if (held.memory < 0)
		return workload_fail(run, "/proc/self/mem: %s", strerror(errno));
	held.node_count = memory_nodes(held.nodes);
	for (unsigned int i = 0; i < run->threads; i++)
		held.touchers[i].random = run->seed + i;
	held.order = REST;
	if (!held.is_idle)
		return 0;
	error = setting_change(&round_every);
	return error ? workload_fail(run, ROUND_EVERY " cannot be set: %s", strerror(-error)) : 0;
}

static int measure(struct run *run)
{
	team_run(run, change_or_touch);
	return held.error;
}

static void teardown(struct run *run)
{
	(void)run;
	setting_restore(&round_every);
	regions_release(&held.area);
	regions_release(&held.spare);
	regions_release(&held.range);
	regions_release(&held.flushed);
	rounds_close();
	page_idle_close(&held.idle);
	if (held.file > 0)
		close(held.file);
	if (held.memory > 0)
		close(held.memory);
}

WORKLOAD(held_pages) = {
	.name = "held",
	.group = "stress",
	.unit = "region changed",
	.about = "Changes pages that every thread holds, in a state (--set scenario= fresh, ranged, alone, again, used, synced, "
		 "switched, unstamped, racing or all) in which one mistake would leave the flush out.",
	.needs = "ext2,nodes",
	.units = 12,
	.threads_min = 2,
	.shared = true,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
