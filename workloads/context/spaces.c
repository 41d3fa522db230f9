// SPDX-License-Identifier: GPL-2.0-only
/*
 * Processes change their address spaces at random, and compare what they read with what they wrote. A kernel that
 * gives an address space a new context instead of flushing pages must leave nothing of the old one, nor may
 * a process ever meet what another had under the same context.
 *
 * Each unit: so many processes come, and each makes so many steps in an area of its own: map, unmap, move, protect,
 * discard, clear the access bits, write, read, fork a child that goes on in a copy. Some accesses must fault. Between
 * steps they sleep, if asked to, so that what the kernel does in idle time is interrupted. And all map a file, if asked
 * to, both shared and private, that one process cuts off and makes whole again: it unmaps their pages without
 * asking them, and so their own changes come in the midst of its. Another one, if asked to, changes the mode of lazy
 * contexts all the time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
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

/* How a process ends. */
enum { RIGHT, WRONG, REFUSED };

#define MODE_FILE "/sys/kernel/mm/lazyctx/mode"
/* With the page's number: what the file's pages hold, but for those that are new. 32 bits are written at once. */
#define FILE_MARK 0xf11e0000U
#define FILE_PAGE_WORDS (PAGE_BYTES / sizeof(uint32_t))

static struct {
	uint64_t processes, pages, steps, sleep_us, shared_pages;
	volatile uint64_t *area;
	volatile uint32_t *shared;	/* the file, or NULL */
	volatile uint32_t *private;	/* the same, copied on write */
	int fd;				/* the same, or -1 */
	char mode[32];			/* to be restored; empty: it is not changed */
	struct board *board;		/* shared */
	uint64_t expected[PAGES_MAX];	/* in each page's first word */
	uint32_t copies[PAGES_MAX];	/* in those of the private file, or what the file holds; 0: just that */
	unsigned char states[PAGES_MAX];
	uint64_t random, written;	/* of the calling process */
	uint64_t file_random;		/* how far it comes depends on time, so the steps do not depend on it */
	uint64_t sum;
	bool is_wrong;
	sigjmp_buf back;
	bool may_fault;			/* back is where to go on */
} my;

/* What the processes tell. */
struct board {
	uint64_t sums[PROCESSES_MAX];	/* one for each process; 0: it found something wrong */
	char said[96];			/* the first that was wrong, or empty */
};

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

static __attribute__((format(printf, 1, 2))) void wrong(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	if (!my.board->said[0])
		vsnprintf(my.board->said, sizeof(my.board->said), format, list);
	va_end(list);
	my.is_wrong = true;
}

static void wrong_word(const char *where, uint64_t page, uint64_t found, uint64_t expected)
{
	wrong("%s %llu has %llx, not %llx", where, (unsigned long long)page, (unsigned long long)found,
	      (unsigned long long)expected);
}

static void on_fault(int signal)
{
	(void)signal;
	if (!my.may_fault) {
		wrong("an access faulted that was allowed");
		_exit(WRONG);
	}
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
		wrong("page %llu: a %s did not fault", (unsigned long long)page, is_write ? "write" : "read");
	}
	my.may_fault = false;
}

/* The file's page is new, or holds its mark. */
static bool is_of_file(uint32_t word, uint64_t page)
{
	return word == 0 || word == (FILE_MARK | page);
}

static void touch_file_page(uint64_t page)
{
	volatile uint32_t *shared = my.shared + page * FILE_PAGE_WORDS;
	volatile uint32_t *private = my.private + page * FILE_PAGE_WORDS;
	uint32_t word = *shared;

	if (!is_of_file(word, page))
		wrong_word("the file's page", page, word, FILE_MARK | page);
	*shared = FILE_MARK | (uint32_t)page;
	/* A copy is lost when the file is cut off, and does not come back. */
	word = *private;
	if (word != my.copies[page]) {
		if (!is_of_file(word, page))
			wrong_word("the file's private page", page, word, my.copies[page]);
		my.copies[page] = 0;
	}
	word = (uint32_t)random_next(&my.file_random);
	if (word % 8)
		return;
	*private = word;
	my.copies[page] = word;
}

/* It may be cut off at any moment, and each access may fault. */
static void touch_file(void)
{
	if (!my.shared)
		return;
	my.may_fault = true;
	if (!sigsetjmp(my.back, 1))
		for (uint64_t page = 0; page < my.shared_pages; page++)
			touch_file_page(page);
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
		const uint64_t found = *word(page);

		if (found != my.expected[page])
			wrong_word("page", page, found, my.expected[page]);
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

/* How process @pid has ended. One that was killed found no memory. */
static int wait_for(int pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return REFUSED;
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGKILL ? REFUSED : WRONG;
	return WEXITSTATUS(status) <= REFUSED ? WEXITSTATUS(status) : WRONG;
}

/* Return: whether a child was not refused anything. What it found wrong is wrong here. */
static bool is_right(int ended)
{
	if (ended == WRONG)
		my.is_wrong = true;
	return ended != REFUSED;
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
	return is_right(wait_for(pid));
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
	my.file_random = ~child->seed;
	touch_file();
	for (uint64_t i = 0; i < child->steps && !my.is_wrong; i++) {
		if (!step(child->depth))
			return REFUSED;
		if (i % 4 == 3)
			touch_file();
		if (my.sleep_us && i % 8 == 7 && clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL))
			return REFUSED;
	}
	read_all(0, my.pages);
	return my.is_wrong ? WRONG : RIGHT;
}

static int first_walk(void *argument)
{
	struct child *child = argument;
	const struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };
	int ended;

	my.area = area_reserve(my.pages * PAGE_BYTES);
	if (!my.area || sigaction(SIGSEGV, &action, NULL) || sigaction(SIGBUS, &action, NULL) || !map(0, my.pages))
		return REFUSED;
	if (my.fd >= 0) {
		my.shared = mmap(NULL, my.shared_pages * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, my.fd, 0);
		my.private = mmap(NULL, my.shared_pages * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, my.fd, 0);
		if (my.shared == MAP_FAILED || my.private == MAP_FAILED)
			return REFUSED;
	}
	ended = walk(child);
	if (ended == RIGHT)
		my.board->sums[child->index] = my.sum | 1;
	return ended;
}

/* Until it is killed. */
static int cut_off(void *unused)
{
	(void)unused;
	while (!ftruncate(my.fd, 0) && !ftruncate(my.fd, (off_t)(my.shared_pages * PAGE_BYTES)))
		sched_yield();
	return 1;
}

/* Until it is killed. */
static int switch_modes(void *unused)
{
	static const char *const modes[] = { "off", "lazy", "search", "lazy-idle", "off", "lazy-idle", "lazy" };
	const struct timespec pause = { .tv_nsec = 20 * 1000 * 1000 };

	(void)unused;
	for (unsigned int i = 0; !file_write(MODE_FILE, modes[i % (sizeof(modes) / sizeof(*modes))]); i++)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
	return 1;
}

/* @pid goes on until it is killed. Return: whether it had to be. */
static bool stop(int pid)
{
	const bool is_there = waitpid(pid, NULL, WNOHANG) == 0;

	if (is_there) {
		kill(pid, SIGKILL);
		process_join(pid);
	}
	return is_there;
}

static int setup(struct run *run)
{
	my.fd = -1;
	my.processes = option_u64("processes", 4);
	my.pages = option_u64("pages", 256);
	my.steps = option_u64("steps", 200);
	my.sleep_us = option_u64("sleep_us", 0);
	my.shared_pages = option_u64("shared_pages", 0);
	my.mode[0] = 0;
	my.sum = CHECKSUM_SEED;
	if (my.processes < 1 || my.processes > PROCESSES_MAX)
		return workload_fail(run, "processes must be 1 to %u", PROCESSES_MAX);
	if (my.pages < 2 || my.pages > PAGES_MAX || my.shared_pages > PAGES_MAX)
		return workload_fail(run, "pages must be 2 to %lu, and shared_pages at most that", PAGES_MAX);
	if (my.steps < 1 || my.steps > STEPS_MAX || my.sleep_us > SLEEP_US_MAX)
		return workload_fail(run, "steps must be 1 to %lu, and sleep_us at most %lu", STEPS_MAX, SLEEP_US_MAX);
	if (option_u64("switches", 0)) {
		if (file_read(MODE_FILE, my.mode, sizeof(my.mode)) <= 0)
			return workload_skip(run, "switches needs a kernel with lazy contexts");
		my.mode[strcspn(my.mode, "\n")] = 0;
	}
	if (my.sleep_us && run->cost)
		return workload_skip(run, "the time that passes in sleep_us would be counted as instructions");
	my.board = mmap(NULL, sizeof(*my.board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (my.board == MAP_FAILED) {
		my.board = NULL;
		return workload_fail(run, "no shared memory: %s", strerror(errno));
	}
	if (!my.shared_pages)
		return 0;
	my.fd = memfd_create("spaces", MFD_CLOEXEC);
	if (my.fd < 0)
		return workload_fail(run, "no file in memory: %s", strerror(errno));
	return 0;
}

/* Return: how the worst of them has ended. */
static int round_of_processes(const struct run *run, uint64_t *random)
{
	int pids[PROCESSES_MAX], worst = RIGHT;

	memset(my.board, 0, sizeof(*my.board));
	for (unsigned int i = 0; i < my.processes; i++) {
		struct child child = { .index = i, .seed = random_next(random), .steps = my.steps };

		pids[i] = process_start(i % run->threads, first_walk, &child);
	}
	for (unsigned int i = 0; i < my.processes; i++) {
		const int ended = pids[i] < 0 ? REFUSED : wait_for(pids[i]);

		if (ended == WRONG || (ended == REFUSED && worst == RIGHT))
			worst = ended;
	}
	return worst;
}

static int measure(struct run *run)
{
	uint64_t random = run->seed;
	int cutter = my.fd < 0 ? 0 : process_start(0, cut_off, NULL);
	int switcher = my.mode[0] ? process_start(0, switch_modes, NULL) : 0;
	int worst = RIGHT;
	bool has_stopped;

	for (uint64_t unit = 0; unit < run->units && worst == RIGHT && cutter >= 0 && switcher >= 0; unit++) {
		worst = round_of_processes(run, &random);
		for (unsigned int i = 0; i < my.processes; i++)
			run->checksum = checksum_add(run->checksum, my.board->sums[i]);
	}
	has_stopped = cutter < 0 || switcher < 0 || (cutter && !stop(cutter));
	has_stopped |= switcher > 0 && (!stop(switcher) || file_write(MODE_FILE, my.mode));
	if (worst == WRONG)
		return workload_fail(run, "stale read: %s", my.board->said[0] ? my.board->said : "a process died");
	if (worst == REFUSED)
		return workload_fail(run, "a process was refused memory, another process, or sleep");
	if (has_stopped)
		return workload_fail(run, "the file could not be cut off, or the mode not be changed");
	return 0;
}

static void teardown(struct run *run)
{
	(void)run;
	if (my.board)
		munmap(my.board, sizeof(*my.board));
	my.board = NULL;
	if (my.fd >= 0)
		close(my.fd);
	my.fd = -1;
}

WORKLOAD(spaces) = {
	.name = "spaces",
	.group = "context",
	.unit = "round of processes",
	.about = "--set processes=N processes (4) come and change N pages (256) of their own at random in "
		 "steps=N steps (200), and compare what they read. They sleep for sleep_us=N (0) after each eighth step, "
		 "and share a file of shared_pages=N pages (0) that is cut off. With switches=1 the mode of lazy contexts "
		 "changes all the time.",
	.units = 20,
	.threads_min = 1,
	.own_processes = true,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
