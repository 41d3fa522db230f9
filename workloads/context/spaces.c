// SPDX-License-Identifier: GPL-2.0-only
/*
 * Processes change their address spaces at random, and compare what they read with what they wrote. A kernel that
 * gives an address space a new context instead of flushing pages must leave nothing of the old one, nor may
 * a process ever meet what another had under the same context.
 *
 * Each unit: so many processes come, and each makes so many steps in an area of its own: map, unmap, move, protect,
 * discard, clear the access bits, write, read, fork a child that goes on in a copy. Some accesses must fault. Between
 * steps they sleep, if asked to, so that what the kernel does in idle time is interrupted. And all map a file, if asked
 * to, that one process cuts off and makes whole again: it unmaps their pages without asking them, and so their
 * own changes come in the midst of its.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "workload.h"

#define PROCESSES_MAX 64U
#define PAGES_MAX 4096UL
#define STEPS_MAX 100000UL
#define SLEEP_US_MAX 1000000UL
#define DEPTH_MAX 2U	/* children of children */
#define PAGE_WORDS (PAGE_BYTES / sizeof(uint64_t))
/* Most ranges are short; from 20 pages on, the paper's kernel gave a new context. */
#define SHORT_PAGES 8U
#define LONG_PAGES 120U

enum state { GONE, READABLE, WRITABLE };

static struct {
	uint64_t processes, pages, steps, sleep_us, shared_pages;
	volatile uint64_t *area;
	volatile char *shared;		/* the file, or NULL */
	int fd;				/* the same, or -1 */
	uint64_t *sums;			/* shared: one for each process; 0: it found a fault */
	uint64_t expected[PAGES_MAX];	/* in each page's first word */
	unsigned char states[PAGES_MAX];
	uint64_t random, written;	/* of the calling process */
	uint64_t sum;
	bool is_wrong;
	sigjmp_buf back;
	bool may_fault;			/* back is where to go on */
} my;

struct child {
	unsigned int index, depth;
	uint64_t seed, steps;
};

static int walk(struct child *child);

static volatile uint64_t *word(uint64_t page)
{
	return my.area + page * PAGE_WORDS;
}

static uint64_t below(uint64_t end)
{
	return random_next(&my.random) % end;
}

static void on_fault(int signal)
{
	(void)signal;
	if (!my.may_fault)
		_exit(1);
	siglongjmp(my.back, 1);
}

static void must_fault(uint64_t page, bool is_write)
{
	if (my.states[page] == WRITABLE || (my.states[page] == READABLE && !is_write))
		return;
	my.may_fault = true;
	if (!sigsetjmp(my.back, 1)) {
		if (is_write)
			*word(page) = 0;
		else
			(void)*word(page);
		my.is_wrong = true;
	}
	my.may_fault = false;
}

/* It may be cut off at any page. */
static void touch_shared(void)
{
	if (!my.shared)
		return;
	my.may_fault = true;
	if (!sigsetjmp(my.back, 1))
		for (uint64_t page = 0; page < my.shared_pages; page++)
			(void)my.shared[page * PAGE_BYTES];
	my.may_fault = false;
}

static bool are_all(uint64_t first, uint64_t count, enum state least)
{
	for (uint64_t page = first; page < first + count; page++)
		if (my.states[page] < least)
			return false;
	return true;
}

static void set_all(uint64_t first, uint64_t count, enum state state)
{
	memset(my.states + first, state, count);
}

static void write_all(uint64_t first, uint64_t count)
{
	for (uint64_t page = first; page < first + count; page++) {
		if (my.states[page] != WRITABLE)
			continue;
		my.expected[page] = my.random ^ (page << 48) ^ ++my.written;
		*word(page) = my.expected[page];
	}
}

static void read_all(uint64_t first, uint64_t count)
{
	for (uint64_t page = first; page < first + count; page++) {
		if (my.states[page] == GONE)
			continue;
		if (*word(page) != my.expected[page])
			my.is_wrong = true;
		my.sum = checksum_add(my.sum, my.expected[page]);
	}
}

/* Return: false if the call was refused. */
static bool map(uint64_t first, uint64_t count)
{
	if (mmap((void *)word(first), count * PAGE_BYTES, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		return false;
	memset(my.expected + first, 0, count * sizeof(uint64_t));
	set_all(first, count, WRITABLE);
	return true;
}

static bool unmap(uint64_t first, uint64_t count)
{
	set_all(first, count, GONE);
	return munmap((void *)word(first), count * PAGE_BYTES) == 0;
}

static bool discard(uint64_t first, uint64_t count)
{
	if (!are_all(first, count, READABLE))
		return true;
	memset(my.expected + first, 0, count * sizeof(uint64_t));
	return madvise((void *)word(first), count * PAGE_BYTES, MADV_DONTNEED) == 0;
}

static bool protect(uint64_t first, uint64_t count, enum state state)
{
	if (!are_all(first, count, READABLE))
		return true;
	write_all(first, 1);
	set_all(first, count, state);
	if (mprotect((void *)word(first), count * PAGE_BYTES, state == WRITABLE ? PROT_READ | PROT_WRITE : PROT_READ))
		return false;
	must_fault(first, true);
	return true;
}

/* Page by page: many VMAs, and many short flushes. */
static bool protect_each(uint64_t first, uint64_t count)
{
	for (uint64_t page = first; page < first + count; page++)
		if (!protect(page, 1, READABLE))
			return false;
	return true;
}

/* All of one mapping, or it is refused. */
static bool move(uint64_t from, uint64_t count)
{
	const uint64_t to = below(my.pages - count + 1);
	const enum state state = my.states[from];

	if (state == GONE || (to < from + count && from < to + count))
		return true;
	for (uint64_t page = from; page < from + count; page++)
		if (my.states[page] != (unsigned char)state)
			return true;
	/* It makes room there even where it is refused then. */
	set_all(to, count, GONE);
	if (mremap((void *)word(from), count * PAGE_BYTES, count * PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED,
		   (void *)word(to)) == MAP_FAILED)
		return munmap((void *)word(to), count * PAGE_BYTES) == 0;
	memcpy(my.expected + to, my.expected + from, count * sizeof(uint64_t));
	set_all(to, count, state);
	set_all(from, count, GONE);
	return true;
}

/* A child goes on in the copy, while this one writes what both have. */
static bool copy(unsigned int depth, uint64_t first, uint64_t count)
{
	struct child child = { .depth = depth + 1, .seed = random_next(&my.random), .steps = 30 };
	int pid;

	if (depth == DEPTH_MAX || below(12))
		return true;
	pid = process_start(0, (int (*)(void *))walk, &child);
	if (pid < 0)
		return false;
	write_all(first, count);
	return process_join(pid) == 0;
}

static bool step(unsigned int depth)
{
	const uint64_t longest = below(4) ? SHORT_PAGES : LONG_PAGES;
	const uint64_t first = below(my.pages), most = my.pages - first;
	uint64_t count = 1 + below(longest);

	if (count > most)
		count = most;
	switch (below(12)) {
	case 0: return unmap(first, count);
	case 1: return map(first, count);
	case 2: return protect_each(first, count);
	case 3: return protect(first, count, READABLE);
	case 4: return protect(first, count, WRITABLE);
	case 5: return discard(first, count);
	case 6: return move(first, count);
	case 7: return copy(depth, first, count);
	/* Refused where the kernel has no such file. */
	case 8: return below(4) || file_write("/proc/self/clear_refs", "1") || true;
	case 9:
		read_all(first, count);
		must_fault(first, true);
		must_fault(first + count - 1, false);
		return true;
	default: write_all(first, count); return true;
	}
}

static int walk(struct child *child)
{
	const struct timespec pause = { .tv_sec = (time_t)(my.sleep_us / 1000000),
					.tv_nsec = (long)(my.sleep_us % 1000000 * 1000) };

	my.random = child->seed;
	touch_shared();
	for (uint64_t i = 0; i < child->steps && !my.is_wrong; i++) {
		if (!step(child->depth))
			return 1;
		if (i % 4 == 3)
			touch_shared();
		if (my.sleep_us && i % 8 == 7 && clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL))
			return 1;
	}
	read_all(0, my.pages);
	return my.is_wrong;
}

static int first_walk(void *argument)
{
	struct child *child = argument;
	const struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };

	my.area = area_reserve(my.pages * PAGE_BYTES);
	if (!my.area || sigaction(SIGSEGV, &action, NULL) || sigaction(SIGBUS, &action, NULL) || !map(0, my.pages))
		return 1;
	if (my.fd >= 0) {
		my.shared = mmap(NULL, my.shared_pages * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, my.fd, 0);
		if (my.shared == MAP_FAILED)
			return 1;
	}
	if (walk(child))
		return 1;
	my.sums[child->index] = my.sum | 1;
	return 0;
}

/* Until it is killed. */
static int cut_off(void *unused)
{
	(void)unused;
	while (!ftruncate(my.fd, 0) && !ftruncate(my.fd, (off_t)(my.shared_pages * PAGE_BYTES)))
		sched_yield();
	return 1;
}

static int setup(struct run *run)
{
	my.fd = -1;
	my.processes = option_u64("processes", 4);
	my.pages = option_u64("pages", 256);
	my.steps = option_u64("steps", 200);
	my.sleep_us = option_u64("sleep_us", 0);
	my.shared_pages = option_u64("shared_pages", 0);
	my.sum = CHECKSUM_SEED;
	if (my.processes < 1 || my.processes > PROCESSES_MAX)
		return workload_fail(run, "processes must be 1 to %u", PROCESSES_MAX);
	if (my.pages < 2 || my.pages > PAGES_MAX || my.shared_pages > PAGES_MAX)
		return workload_fail(run, "pages must be 2 to %lu, and shared_pages at most that", PAGES_MAX);
	if (my.steps < 1 || my.steps > STEPS_MAX || my.sleep_us > SLEEP_US_MAX)
		return workload_fail(run, "steps must be 1 to %lu, and sleep_us at most %lu", STEPS_MAX, SLEEP_US_MAX);
	if (my.sleep_us && run->cost)
		return workload_skip(run, "the time that passes in sleep_us would be counted as instructions");
	my.sums = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (my.sums == MAP_FAILED) {
		my.sums = NULL;
		return workload_fail(run, "no shared memory: %s", strerror(errno));
	}
	if (!my.shared_pages)
		return 0;
	my.fd = memfd_create("spaces", MFD_CLOEXEC);
	if (my.fd < 0)
		return workload_fail(run, "no file in memory: %s", strerror(errno));
	return 0;
}

static int measure(struct run *run)
{
	uint64_t random = run->seed;
	int pids[PROCESSES_MAX], cutter = my.fd < 0 ? 0 : process_start(0, cut_off, NULL);

	if (cutter < 0)
		return workload_fail(run, "no process for the shared file");

	for (uint64_t unit = 0; unit < run->units; unit++) {
		unsigned int failed = 0;

		memset(my.sums, 0, my.processes * sizeof(*my.sums));
		for (unsigned int i = 0; i < my.processes; i++) {
			struct child child = { .index = i, .seed = random_next(&random), .steps = my.steps };

			pids[i] = process_start(i % run->threads, first_walk, &child);
		}
		for (unsigned int i = 0; i < my.processes; i++)
			failed += pids[i] < 0 || process_join(pids[i]) || !my.sums[i];
		if (failed && cutter)
			kill(cutter, SIGKILL);
		if (failed)
			return workload_fail(run, "stale read: %u of %llu processes found another word than they wrote, an access that "
					     "did not fault, or were refused memory or sleep", failed,
					     (unsigned long long)my.processes);
		for (unsigned int i = 0; i < my.processes; i++)
			run->checksum = checksum_add(run->checksum, my.sums[i]);
	}
	if (cutter) {
		const bool is_there = waitpid(cutter, NULL, WNOHANG) == 0;

		kill(cutter, SIGKILL);
		process_join(cutter);
		if (!is_there)
			return workload_fail(run, "the shared file could not be cut off");
	}
	return 0;
}

static void teardown(struct run *run)
{
	(void)run;
	if (my.sums)
		munmap(my.sums, PAGE_BYTES);
	my.sums = NULL;
	if (my.fd >= 0)
		close(my.fd);
	my.fd = -1;
}

WORKLOAD(spaces) = {
	.name = "spaces",
	.group = "context",
	.unit = "round of processes",
	.about = "--set processes=N processes (4) come and change N pages (256) of their own at random in steps=N steps (200), "
		 "and compare what they read. They sleep for sleep_us=N (0) after each eighth step, and share a file of "
		 "shared_pages=N pages (0) that is cut off.",
	.units = 20,
	.threads_min = 1,
	.own_processes = true,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
