// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a mechanism takes from the processor on trust, tried from user space, on any
 * kernel and without root: accessed bits are cleared by /proc/self/clear_refs,
 * which flushes nothing, and read back in /proc/self/smaps.
 *
 * Promises: one that is broken fails the run.
 *
 *   a page used through a walk has its bit set afterwards
 *   a page in whose neighbours' frames a TLB entry may reach (AMD's processors
 *   coalesce) has its own bit set when it is used, and INVLPG of one page drops
 *   what covers it
 *   a write through an entry that was filled while clean sets the dirty bit
 *   an entry that another CPU fills after it was interrupted marks the page
 *
 * Habits: no promise, reported as shares of the tries. They decide what it
 * gains in mode full, not whether it is right: does a write that is denied mark
 * the page (without and with an entry for it in the TLB), does setting the dirty
 * bit set the accessed bit, is an entry kept that long at all, and how often does
 * speculation mark a page that nobody touched, which is in all the others, too.
 *
 * What cannot be seen from here: that the bit is set *before* the entry is there.
 *
 * One unit is one try of each. On a busy machine a try on another CPU waits for
 * its turn there, so a repeat has a time budget (--set seconds=N, 0 for none): what
 * was tried until then is what is reported, with how often.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "workload.h"

#define HUGE_BYTES (2UL << 20)
#define NEIGHBOURS 16UL
#define FLUSH_PAGES 64UL	/* more than Linux flushes one by one */
#define BUDGET_S 30
#define BUDGET_S_MAX 86400

#ifndef MADV_FREE
#define MADV_FREE 8
#endif

enum habit {
	UNTOUCHED_MARKED,
	HIT_UNMARKED,
	DENIED_MISS_MARKED,
	DENIED_HIT_MARKED,
	DIRTY_MARKED,
	HABITS
};

static const char *const habit_names[HABITS] = {
	[UNTOUCHED_MARKED] = "untouched_marked_share",
	[HIT_UNMARKED] = "hit_unmarked_share",
	[DENIED_MISS_MARKED] = "denied_miss_marked_share",
	[DENIED_HIT_MARKED] = "denied_hit_marked_share",
	[DIRTY_MARKED] = "dirty_marked_share",
};

static struct {
	volatile char *page;		/* written, between pages of no access */
	volatile char *neighbours;	/* of one huge page, mapped one by one */
	volatile char *other;		/* what flushing flushes */
	bool is_one_frame;
	int clear_refs, smaps;
	uint64_t seen[HABITS];
	atomic_uint_fast64_t reads;	/* by the other CPU */
	atomic_bool is_over;
	uint64_t deadline_ns;		/* UINT64_MAX: none */
	uint64_t tries_other_cpu;
} state;

/* /proc/self/smaps, whose lines are read as they come. */
static char text[256 * 1024];
static sigjmp_buf denied;

/* What smaps says of the mapping that begins at `start`, in KiB. */
struct region {
	unsigned long referenced, dirty, huge;
};

static int look(const volatile char *start, struct region *region)
{
	size_t length = 0;
	ssize_t got;
	char name[40];
	const char *line;

	*region = (struct region){ 0 };
	if (lseek(state.smaps, 0, SEEK_SET) < 0)
		return -errno;
	while (length < sizeof(text) - 1 &&
	       (got = read(state.smaps, text + length, sizeof(text) - 1 - length)) > 0)
		length += (size_t)got;
	text[length] = '\0';
	snprintf(name, sizeof(name), "%lx-", (unsigned long)(uintptr_t)start);
	for (line = text; line && strncmp(line, name, strlen(name)) != 0;) {
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	if (!line)
		return -ENOENT;
	while ((line = strchr(line, '\n')) && line++) {
		/* The last line of a mapping. */
		if (strncmp(line, "VmFlags:", 8) == 0)
			return 0;
		sscanf(line, "Referenced: %lu", &region->referenced);
		sscanf(line, "Private_Dirty: %lu", &region->dirty);
		sscanf(line, "AnonHugePages: %lu", &region->huge);
	}
	return -ENOENT;
}

static bool is_marked(const volatile char *page)
{
	struct region region;

	return look(page, &region) == 0 && region.referenced > 0;
}

/* Clears the accessed bits of this process. The TLBs keep what they have. */
static void clear(void)
{
	(void)!pwrite(state.clear_refs, "1", 1, 0);
}

/* Makes this CPU forget every translation of this process. */
static void flush(void)
{
	for (unsigned long i = 0; i < FLUSH_PAGES; i++)
		state.other[i * PAGE_BYTES] = 1;
	mprotect((void *)state.other, FLUSH_PAGES * PAGE_BYTES, PROT_READ);
	mprotect((void *)state.other, FLUSH_PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE);
}

static void on_denied(int signal)
{
	(void)signal;
	siglongjmp(denied, 1);
}

/* Return: false if it was not denied at all. */
static bool write_denied(volatile char *page)
{
	if (sigsetjmp(denied, 1))
		return true;
	*page = 1;
	return false;
}

static void *guarded(size_t bytes)
{
	char *raw = mmap(NULL, bytes + 2 * PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (raw == MAP_FAILED)
		return NULL;
	if (mprotect(raw + PAGE_BYTES, bytes, PROT_READ | PROT_WRITE))
		return NULL;
	/* Fails where the kernel has no huge pages, which is as good. */
	(void)madvise(raw + PAGE_BYTES, bytes, MADV_NOHUGEPAGE);
	memset(raw + PAGE_BYTES, 1, bytes);
	return raw + PAGE_BYTES;
}

/* Pages whose frames follow each other, so that one entry might cover several: part of a huge page, if there is one. */
static int prepare_neighbours(struct run *run)
{
	char *raw = mmap(NULL, 2 * HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *start;
	struct region region;

	if (raw == MAP_FAILED)
		return workload_fail(run, "mmap of %lu MiB was refused: %s", 2 * HUGE_BYTES >> 20, strerror(errno));
	start = (char *)(((uintptr_t)raw + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES);
	/* A mapping of its own, which smaps tells by its start. */
	mprotect(raw, 2 * HUGE_BYTES, PROT_NONE);
	mprotect(start, HUGE_BYTES, PROT_READ | PROT_WRITE);
	(void)madvise(start, HUGE_BYTES, MADV_HUGEPAGE);
	memset(start, 1, HUGE_BYTES);
	state.is_one_frame = look(start, &region) == 0 && region.huge == HUGE_BYTES / 1024;
	/* Part of it with other rights: the huge page is mapped by 512 entries from now on. */
	state.neighbours = start + HUGE_BYTES / 2;
	if (mprotect((void *)state.neighbours, NEIGHBOURS * PAGE_BYTES, PROT_READ))
		return workload_fail(run, "mprotect was refused: %s", strerror(errno));
	return 0;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

/* A run that counts instructions looks at no clock. */
static bool is_time_up(void)
{
	return state.deadline_ns != UINT64_MAX && now_ns() >= state.deadline_ns;
}

static int setup(struct run *run)
{
	struct sigaction action = { .sa_handler = on_denied };
	struct region region;

	memset(&state, 0, sizeof(state));
	/* With a mechanism as without: this is about the processor, and flush() must flush. */
	mechanism_prctl(0);
	state.clear_refs = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
	state.smaps = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
	if (state.clear_refs < 0 || state.smaps < 0)
		return workload_skip(run, "needs /proc/self/clear_refs and smaps: enable CONFIG_PROC_PAGE_MONITOR");
	state.page = guarded(PAGE_BYTES);
	state.other = guarded(FLUSH_PAGES * PAGE_BYTES);
	if (!state.page || !state.other)
		return workload_fail(run, "mmap was refused: %s", strerror(errno));
	if (prepare_neighbours(run))
		return -EIO;
	sigaction(SIGSEGV, &action, NULL);
	clear();
	if (look(state.page, &region) || region.referenced)
		return workload_skip(run, "needs a kernel whose clear_refs and smaps agree on what was used");
	return 0;
}

static int broken(struct run *run, const char *what, uint64_t index)
{
	return workload_fail(run, "this processor (or hypervisor) breaks a promise: %s (try %llu of %llu)", what,
			     (unsigned long long)index + 1, (unsigned long long)run->units);
}

static int try_reads(struct run *run, uint64_t i)
{
	clear();
	flush();
	state.seen[UNTOUCHED_MARKED] += is_marked(state.page);
	clear();
	flush();
	(void)*state.page;
	if (!is_marked(state.page))
		return broken(run, "a page was read after a flush, and its accessed bit is clear", i);
	clear();
	(void)*state.page;
	state.seen[HIT_UNMARKED] += !is_marked(state.page);
	return 0;
}

static int try_denied(struct run *run)
{
	bool is_denied;

	mprotect((void *)state.page, PAGE_BYTES, PROT_READ);
	clear();
	flush();
	is_denied = write_denied(state.page);
	state.seen[DENIED_MISS_MARKED] += is_marked(state.page);
	(void)*state.page;
	clear();
	is_denied &= write_denied(state.page);
	state.seen[DENIED_HIT_MARKED] += is_marked(state.page);
	mprotect((void *)state.page, PAGE_BYTES, PROT_READ | PROT_WRITE);
	return is_denied ? 0 : workload_fail(run, "a write to a read-only page was not denied");
}

static int try_dirty(struct run *run, uint64_t i)
{
	struct region region;

	*state.page = 1;
	/* Clean and old, still writable; and flushed. */
	if (madvise((void *)state.page, PAGE_BYTES, MADV_FREE))
		return workload_fail(run, "MADV_FREE was refused: %s", strerror(errno));
	(void)*state.page;
	if (look(state.page, &region) || region.dirty)
		return 0;
	clear();
	*state.page = 1;
	if (look(state.page, &region))
		return workload_fail(run, "smaps lost the page");
	state.seen[DIRTY_MARKED] += region.referenced > 0;
	if (!region.dirty)
		return broken(run, "a page was written through a clean entry, and its dirty bit is clear", i);
	return 0;
}

static int try_neighbours(struct run *run, uint64_t i)
{
	volatile char *first = state.neighbours, *one = first + (1 + i % (NEIGHBOURS - 1)) * PAGE_BYTES;
	struct region region;

	clear();
	flush();
	for (unsigned long page = 0; page < NEIGHBOURS; page++)
		(void)first[page * PAGE_BYTES];
	if (look(first, &region))
		return workload_fail(run, "smaps lost the neighbours");
	if (region.referenced < NEIGHBOURS * PAGE_BYTES / 1024)
		return broken(run, "of 16 neighbours each was read after a flush, and not all accessed bits are set", i);
	/* All are in the TLB, with clear bits. One is flushed by its address, and read. */
	clear();
	mprotect((void *)one, PAGE_BYTES, PROT_NONE);
	mprotect((void *)one, PAGE_BYTES, PROT_READ);
	(void)*one;
	if (!is_marked(first))
		return broken(run, "of 16 neighbours one was flushed and read, and its accessed bit is clear", i);
	return 0;
}

/*
 * Another CPU reads all the time; it is interrupted, and reads on.
 * Return: false if it has not, and there is no time left to wait for it.
 */
static bool try_other_cpu(struct run *run, uint64_t i)
{
	uint64_t before;
	bool has_read = true;

	clear();
	mprotect((void *)state.page, PAGE_BYTES, PROT_READ);
	before = atomic_load(&state.reads);
	while (has_read && atomic_load(&state.reads) < before + 2) {
		let_others_run();
		has_read = !is_time_up();
	}
	if (has_read && !is_marked(state.page))
		broken(run, "another CPU read a page after a flush, and its accessed bit is clear", i);
	mprotect((void *)state.page, PAGE_BYTES, PROT_READ | PROT_WRITE);
	return has_read;
}

static void work(struct run *run, unsigned int index)
{
	if (index > 1)
		return;
	if (index == 1) {
		while (!atomic_load(&state.is_over)) {
			(void)*state.page;
			atomic_fetch_add(&state.reads, 1);
			let_others_run();
		}
		return;
	}
	while (state.tries_other_cpu < run->units && !run->has_failed && !is_time_up() &&
	       try_other_cpu(run, state.tries_other_cpu))
		state.tries_other_cpu++;
	atomic_store(&state.is_over, true);
}

static int measure(struct run *run)
{
	const uint64_t asked = run->units, seconds = option_u64("seconds", BUDGET_S);
	const uint64_t budget_ns = (seconds < BUDGET_S_MAX ? seconds : BUDGET_S_MAX) * 1000000000ULL;
	const uint64_t begin_ns = run->cost || !budget_ns ? 0 : now_ns();
	uint64_t tries = 0;

	/* The second half of the time is for the other CPU, and what the first leaves of its own. */
	state.deadline_ns = begin_ns ? begin_ns + (run->threads > 1 ? budget_ns / 2 : budget_ns) : UINT64_MAX;
	do {
		if (try_reads(run, tries) || try_denied(run) || try_dirty(run, tries) || try_neighbours(run, tries))
			return -EIO;
		run->checksum = checksum_add(run->checksum, tries);
	} while (++tries < asked && !is_time_up());
	if (begin_ns)
		state.deadline_ns = begin_ns + budget_ns;
	if (run->threads > 1)
		team_run(run, work);
	if (run->has_failed)
		return -EIO;
	run->units = tries;
	for (unsigned int habit = 0; habit < HABITS; habit++)
		report_extra(run, habit_names[habit], (double)state.seen[habit] / (double)tries);
	report_extra(run, "one_huge_page", state.is_one_frame);
	report_extra(run, "tries", (double)tries);
	report_extra(run, "tries_other_cpu", (double)state.tries_other_cpu);
	report_extra(run, "tries_asked", (double)asked);
	return 0;
}

WORKLOAD(promises) = {
	.name = "promises",
	.group = "hardware",
	.unit = "try of each",
	.about = "What a processor promises and does about accessed and dirty bits: on a miss, on a hit, when a write is denied, "
		 "for neighbours in one frame, and on another CPU.",
	.units = 200,
	.setup = setup,
	.measure = measure,
};
