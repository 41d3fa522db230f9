// SPDX-License-Identifier: GPL-2.0-only
/*
 * Processes take turns, by a token that goes round by pipes. In its turn each maps fresh pages, writes
 * and unmaps them, reads its own working set again and, if asked to, sleeps. A kernel that gives an
 * address space a new context instead of flushing a long range pays for the working set, which
 * has to be loaded again; when all sleep, the kernel has time for what it left behind.
 *
 * The token carries a checksum of all that was read. A process that finds a wrong word ends, and with it its pipes and
 * the run. wrong=N: for tests of that, process N finds one.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "workload.h"

#define PROCESSES_MAX 64U
#define PAGES_MAX (1UL << 16)
#define SLEEP_US_MAX 1000000UL
#define PAGE_WORDS (PAGE_BYTES / sizeof(uint64_t))

struct token {
	uint64_t turn;		/* 0: the last one, which ends the ring */
	uint64_t checksum;
};

static struct ring {
	unsigned int size, started;
	int pipes[PROCESSES_MAX][2];	/* pipe i is read by process i */
	int ready[2];
	int pids[PROCESSES_MAX];
	uint64_t seed, pages, fresh, sleep_us, wrong;
	volatile uint64_t *own;
} ring;

static uint64_t own_word(unsigned int index, uint64_t page)
{
	return ring.seed + ((uint64_t)index << 32) + page;
}

/* The working set of the calling process. */
static bool fill_own(unsigned int index)
{
	if (!ring.pages)
		return true;
	ring.own = mmap(NULL, ring.pages * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ring.own == MAP_FAILED)
		return false;
	for (uint64_t page = 0; page < ring.pages; page++)
		ring.own[page * PAGE_WORDS] = own_word(index, page);
	return true;
}

static bool come_and_go(struct token *token)
{
	volatile uint64_t *fresh;

	if (!ring.fresh)
		return true;
	fresh = mmap(NULL, ring.fresh * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (fresh == MAP_FAILED)
		return false;
	for (uint64_t page = 0; page < ring.fresh; page++) {
		fresh[page * PAGE_WORDS] = token->turn + page;
		token->checksum = checksum_add(token->checksum, fresh[page * PAGE_WORDS]);
	}
	return munmap((void *)fresh, ring.fresh * PAGE_BYTES) == 0;
}

/* Return: false if something was refused, or a word is wrong. */
static bool take_turn(unsigned int index, struct token *token)
{
	const struct timespec pause = { .tv_sec = (time_t)(ring.sleep_us / 1000000),
					.tv_nsec = (long)(ring.sleep_us % 1000000 * 1000) };

	if (!come_and_go(token))
		return false;
	for (uint64_t page = 0; page < ring.pages; page++) {
		if (ring.own[page * PAGE_WORDS] != own_word(index, page))
			return false;
		token->checksum = checksum_add(token->checksum, ring.own[page * PAGE_WORDS]);
	}
	if (ring.sleep_us && clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL))
		return false;
	token->checksum = checksum_add(token->checksum, token->turn++);
	return true;
}

/* Each process has two ends alone, so that others see when it is gone. */
static void keep_ends(unsigned int reads, unsigned int writes)
{
	for (unsigned int i = 0; i < ring.size; i++) {
		if (i != reads)
			close(ring.pipes[i][0]);
		if (i != writes)
			close(ring.pipes[i][1]);
	}
}

static bool pass(int to, const struct token *token)
{
	return write(to, token, sizeof(*token)) == (ssize_t)sizeof(*token);
}

static bool receive(int from, struct token *token)
{
	return read(from, token, sizeof(*token)) == (ssize_t)sizeof(*token);
}

static int member(void *argument)
{
	const unsigned int index = *(unsigned int *)argument;
	const unsigned int next = (index + 1) % ring.size;
	const int in = ring.pipes[index][0], out = ring.pipes[next][1];
	struct token token;

	keep_ends(index, next);
	if (!fill_own(index) || write(ring.ready[1], "r", 1) != 1)
		return 1;
	close(ring.ready[1]);
	if (index == ring.wrong)
		ring.own[0]++;
	while (receive(in, &token)) {
		const bool is_last = token.turn == 0;

		if ((!is_last && !take_turn(index, &token)) || !pass(out, &token))
			return 1;
		if (is_last)
			return 0;
	}
	return 1;
}

static int start_members(struct run *run)
{
	char byte;

	for (unsigned int i = 1; i < ring.size; i++) {
		int pid = process_start(i % run->threads, member, &i);

		if (pid < 0)
			return workload_fail(run, "process %u cannot be started", i);
		ring.pids[ring.started++] = pid;
	}
	keep_ends(0, 1);
	close(ring.ready[1]);
	for (unsigned int i = 0; i < ring.started; i++)
		if (read(ring.ready[0], &byte, 1) != 1)
			return workload_fail(run, "no memory for %u processes with %llu pages each", ring.size,
					     (unsigned long long)ring.pages);
	return 0;
}

static int setup(struct run *run)
{
	const uint64_t size = option_u64("processes", 8);
	int error;

	run->data = &ring;
	ring.seed = run->seed;
	ring.wrong = option_u64("wrong", 0);
	ring.pages = option_u64("pages", 200);
	ring.fresh = option_u64("fresh", 64);
	ring.sleep_us = option_u64("sleep_us", 0);
	if (size < 2 || size > PROCESSES_MAX)
		return workload_fail(run, "processes must be 2 to %u", PROCESSES_MAX);
	ring.size = (unsigned int)size;
	if (ring.pages > PAGES_MAX || ring.fresh > PAGES_MAX)
		return workload_fail(run, "pages and fresh must be 0 to %lu", PAGES_MAX);
	if (ring.wrong && (ring.wrong >= size || !ring.pages))
		return workload_fail(run, "wrong must be 0 or a process below %llu with pages", (unsigned long long)size);
	if (ring.sleep_us > SLEEP_US_MAX)
		return workload_fail(run, "sleep_us must be 0 to %lu", SLEEP_US_MAX);
	if (ring.sleep_us && run->cost)
		return workload_skip(run, "the time that passes in sleep_us would be counted as instructions");
	if (pipe(ring.ready))
		return workload_fail(run, "no pipe: %s", strerror(errno));
	for (unsigned int i = 0; i < ring.size; i++)
		if (pipe(ring.pipes[i]))
			return workload_fail(run, "no pipe: %s", strerror(errno));
	/* Process 0 is this one. Its pages come last: the others would begin with copies of them. */
	error = start_members(run);
	if (error)
		return error;
	return fill_own(0) ? 0 : workload_fail(run, "no memory for the working set");
}

static int measure(struct run *run)
{
	const uint64_t rounds = (run->units + ring.size - 1) / ring.size;
	struct token token = { .turn = 1, .checksum = run->checksum };

	for (uint64_t i = 0; i < rounds; i++)
		if (!take_turn(0, &token) || !pass(ring.pipes[1][1], &token) || !receive(ring.pipes[0][0], &token))
			return workload_fail(run, "round %llu did not end: memory or sleep was refused, or a word was wrong",
					     (unsigned long long)i);
	run->units = rounds * ring.size;
	if (token.turn != run->units + 1)
		return workload_fail(run, "%llu turns were taken, not %llu", (unsigned long long)token.turn - 1,
				     (unsigned long long)run->units);
	run->checksum = token.checksum;
	return 0;
}

static void teardown(struct run *run)
{
	const struct token last = { .turn = 0 };

	if (ring.started && ring.started + 1 == ring.size && pass(ring.pipes[1][1], &last))
		for (unsigned int i = 0; i < ring.started; i++)
			if (process_join(ring.pids[i]))
				workload_fail(run, "a process of the ring died, or found a wrong word");
}

WORKLOAD(turns) = {
	.name = "turns",
	.group = "context",
	.unit = "turn of a process",
	.about = "A token goes round --set processes=N processes (8). Who has it maps, writes and unmaps fresh=N pages (64), "
		 "reads its own pages=N (200) and sleeps for sleep_us=N (0).",
	.units = 400,
	.threads_min = 1,
	.own_processes = true,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
