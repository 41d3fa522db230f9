// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages that every thread holds are changed in a state in which one particular
 * mistake would leave the flush out:
 *
 *   fresh      the access bits were cleared, no round since
 *   ranged     and small ranges were flushed elsewhere since
 *   beside     and everything was flushed twice, but on one node alone: what else it
 *              flushed are page tables that no other node's tree uses
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
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "held.h"
#include "support/checked_load.h"
#include "support/elisions.h"
#include "support/mapped_file.h"
#include "support/rounds.h"

/* Few enough to be flushed singly. */
#define RANGE_PAGES 8UL
#define RANGE_BYTES (RANGE_PAGES * PAGE_BYTES)
#define RANGES 4U
/* Changes at random moments, for each unit of the others. */
#define RACES 32U


struct scenario {
	const char *name;
	const char *reason;	/* the kernel's, for flushing */
	bool is_synced, needs_mode, needs_trees;
	int (*bring)(struct run *run, unsigned int region);
};

struct held held;

static struct setting round_every = { .value = "0" };

static uint64_t draw(uint64_t below)
{
	return random_next(&held.random) % below;
}

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
		return held_refused(run, "mmap");
	(void)madvise(at, REGION_BYTES, MADV_NOHUGEPAGE);
	for (uint64_t page = 0; page < REGION_PAGES; page++) {
		volatile uint64_t *word = held_page(region, page);

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
	const int error = file_write(mechanism_switch(), mode);

	return error ? workload_fail(run, "%s cannot be set to %s: %s", mechanism_switch(), mode, strerror(-error)) : 0;
}

static int touch_and_clear(struct run *run, unsigned int region)
{
	held_all_touch(run, region);
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
			return held_refused(run, "mprotect");
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

/* Nobody holds the pages any more, and that is known: where the flushes are for every CPU. */
static int bring_idle(struct run *run, unsigned int region)
{
	const int error = touch_and_clear(run, region);

	held_all_rest(run);
	return error ? error : rounds_run(run, 2);
}

static int bring_used(struct run *run, unsigned int region)
{
	const int error = bring_idle(run, region);

	held_all_touch(run, region);
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
		return held_refused(run, "msync");
	held_all_touch(run, region);
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
	{ "fresh", "recent", false, false, false, touch_and_clear },
	{ "ranged", "recent", false, false, false, bring_ranged },
	{ "beside", "recent", false, false, true, bring_idle },
	{ "alone", "recent", false, false, false, bring_alone },
	{ "again", "recent", false, false, false, bring_again },
	{ "used", "accessed", false, false, false, bring_used },
	{ "synced", "accessed", true, false, false, bring_synced },
	{ "switched", "never", false, true, false, bring_switched },
	{ "unstamped", "never", false, true, false, bring_unstamped },
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
static bool is_as_meant(void)
{
	return held.sum.as_meant >= held.sum.flushed / 2;
}

static int judge_sum(struct run *run, const struct scenario *scenario)
{
	if (is_as_meant())
		return 0;
	return workload_fail(run, "%s: of %llu pages flushed only %llu were so because %s", scenario->name,
			     (unsigned long long)held.sum.flushed, (unsigned long long)held.sum.as_meant,
			     held.is_counted && held.is_idle ? scenario->reason : "their access bits were clear");
}

/*
 * Where nobody counts, the kernel's own view of the bits must do. A processor that
 * lags behind flushes everything and sets all bits again: they count in the sum.
 */
static void ask_bits(void)
{
	held.sum.flushed += REGION_PAGES;
	held.sum.as_meant += page_idle_count(&held.idle);
}

static int tidy(struct run *run, const struct change *change, unsigned int region)
{
	if (change->moves && munmap(region_at(&held.spare, region), REGION_BYTES))
		return held_refused(run, "munmap");
	return munmap(region_at(&held.area, region), REGION_BYTES) ? held_refused(run, "munmap") : 0;
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
	if (!error && !is_judged && scenario->bring != bring_used && !scenario->is_synced)
		ask_bits();
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

	held_all_touch(run, region);
	page_idle_forget(&held.idle);
	error = page_idle_note(&held.idle, at, REGION_PAGES);
	held.races++;
	held_pause(draw(8));
	if (!error)
		error = page_idle_set(&held.idle);
	if (error)
		return workload_fail(run, "pages cannot be marked idle: %s", strerror(-error));
	/* The first three wait until no round is under way, the last one meets some. */
	switch (number % 4) {
	case 0:
	case 1:
		return held_protect(run, region) || mprotect(at, REGION_BYTES, PROT_READ | PROT_WRITE) ? -EIO : 0;
	case 2:
		error = held_unmap(run, region);
		return error ? error : map_region(run, ANON, true, region);
	}
	held_pause(draw(8));
	if (madvise(at, REGION_BYTES, MADV_DONTNEED))
		return held_refused(run, "MADV_DONTNEED");
	for (uint64_t page = 0; page < REGION_PAGES; page++)
		*held_page(region, page) = page;
	return 0;
}

static int races(struct run *run)
{
	int error = map_region(run, ANON, true, 0);

	for (uint64_t i = 0; i < run->units * RACES && !error; i++)
		error = race(run, 0, (unsigned int)i);
	held.order = REST;
	held_wait(run);
	return error ? error : held_unmap(run, 0);
}

static int one_scenario(struct run *run, const struct scenario *scenario, uint64_t *changed)
{
	int error = 0;

	held.sum = (struct counts){ 0 };
	for (uint64_t unit = 0; unit < run->units && !error; unit++) {
		const struct change *change = &held_changes[unit % HELD_CHANGES];

		if ((change->needs_nodes && held.node_count < 2) || (change->backing == PRIVATE_FILE && scenario->is_synced))
			continue;
		error = step(run, scenario, change, (unsigned int)(unit % REGIONS));
		++*changed;
	}
	return error;
}

/* Page tables are replicated per node, and threads run on several. */
static bool has_trees(void)
{
	char mode[16];

	return held.node_count > 1 && file_read("/sys/kernel/mm/numapte/mode", mode, sizeof(mode)) > 0 &&
	       strncmp(mode, "off", 3) != 0;
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

		if (!is_chosen(scenario->name) || (scenario->needs_mode && !held.is_idle) ||
		    (scenario->needs_trees && !has_trees()))
			continue;
		held.scenario = scenario->name;
		/* On a busy host processors have long to speculate. A flush that is left out fails at once. */
		for (unsigned int tries = 0; tries < 3 && !error; tries++) {
			error = one_scenario(run, scenario, &changed);
			if (is_as_meant())
				break;
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
		held_touch_always(index);
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
			return workload_skip(run, "%s needs a kernel that leaves flushes out (--kernel NAME:MODE)", held.scenario);
		if (scenarios[i].needs_trees && !has_trees())
			return workload_skip(run, "%s needs page tables replicated per node (a kernel that has them on, --nodes 2)",
					     held.scenario);
	}
	return is_known ? 0 : workload_fail(run, "scenario is fresh, ranged, beside, alone, again, used, synced, switched, "
					    "unstamped, racing or all, not %s", held.scenario);
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

	if (file_read(mechanism_switch(), mode, sizeof(mode)) > 0)
		held.mode = strncmp(mode, "full", 4) == 0 ? "full" : strncmp(mode, "idle", 4) == 0 ? "idle" : NULL;
	held.is_idle = held.mode;
	held.is_counted = elisions_are_counted();
	held.random = run->seed;
	/* Somebody must go on touching. */
	held.flushers = run->threads > FLUSHERS + 1 ? FLUSHERS : run->threads - 2;
	held.node_count = memory_nodes(held.nodes);
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
	for (unsigned int i = 0; i < run->threads; i++)
		held.touchers[i].random = run->seed + i;
	held.order = REST;
	if (!held.is_idle)
		return 0;
	round_every.path = mechanism_setting("round_every");
	error = setting_change(&round_every);
	return error ? workload_fail(run, "%s cannot be set: %s", round_every.path, strerror(-error)) : 0;
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
	.about = "Changes pages that every thread holds, in a state (--set scenario= fresh, ranged, beside, alone, again, "
		 "used, synced, switched, unstamped, racing or all) in which one mistake would leave the flush out.",
	.needs = "ext2,nodes",
	.units = 12,
	.threads_min = 2,
	.shared = true,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
