// SPDX-License-Identifier: GPL-2.0-only
/*
 * lmbench's lat_ctx: a token goes round a ring of processes, each pass a context switch.
 *
 * pages=N: who has the token reads its own working set of N pages.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "workload.h"

#define RING_MAX 64U
#define PAGES_MAX (1UL << 16)
#define PAGE_WORDS (PAGE_BYTES / sizeof(uint64_t))

struct ring {
	unsigned int size;
	int pipes[RING_MAX][2];	/* pipe i is read by process i */
	int pids[RING_MAX];
	unsigned int started;
	uint64_t pages;
	volatile uint64_t *own;	/* of the calling process */
	int ready[2];
};

struct place {
	struct ring *ring;
	unsigned int index;
};

static bool fill_own(struct ring *ring)
{
	if (!ring->pages)
		return true;
	ring->own = mmap(NULL, ring->pages * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ring->own == MAP_FAILED)
		return false;
	for (uint64_t page = 0; page < ring->pages; page++)
		ring->own[page * PAGE_WORDS] = page;
	return true;
}

/* Return: false if a word is wrong. */
static bool read_own(const struct ring *ring)
{
	for (uint64_t page = 0; page < ring->pages; page++)
		if (ring->own[page * PAGE_WORDS] != page)
			return false;
	return true;
}

/* Wait for the token, count it, hand it on; the token of 0 ends the ring. */
static int pass_on(void *argument)
{
	struct place *place = argument;
	struct ring *ring = place->ring;
	int in = ring->pipes[place->index][0];
	int out = ring->pipes[(place->index + 1) % ring->size][1];
	uint64_t token;

	if (!fill_own(ring) || write(ring->ready[1], "r", 1) != 1)
		return 1;
	while (read(in, &token, sizeof(token)) == (ssize_t)sizeof(token)) {
		bool is_last = token == 0;

		token += !is_last;
		if (!is_last && !read_own(ring))
			return 1;
		if (write(out, &token, sizeof(token)) != (ssize_t)sizeof(token))
			return 1;
		if (is_last)
			return 0;
	}
	return 1;
}

static int setup(struct run *run)
{
	static struct ring ring;

	run->data = &ring;
	ring.size = (unsigned int)option_u64("processes", 8);
	if (ring.size < 2 || ring.size > RING_MAX) {
		ring.size = 0;
		return workload_fail(run, "processes must be 2 to %u", RING_MAX);
	}
	ring.pages = option_u64("pages", 0);
	if (ring.pages > PAGES_MAX)
		return workload_fail(run, "pages must be 0 to %lu", PAGES_MAX);
	if (pipe(ring.ready))
		return workload_fail(run, "no pipe: %s", strerror(errno));
	for (unsigned int i = 0; i < ring.size; i++)
		if (pipe(ring.pipes[i]))
			return workload_fail(run, "no pipe: %s", strerror(errno));
	/* Process 0 is this one. */
	for (unsigned int i = 1; i < ring.size; i++) {
		struct place place = { .ring = &ring, .index = i };
		int pid = process_start(i % run->threads, pass_on, &place);

		if (pid < 0)
			return workload_fail(run, "process %u cannot be started", i);
		ring.pids[ring.started++] = pid;
	}
	/* With the last copy of a process that failed the pipe ends. */
	close(ring.ready[1]);
	for (unsigned int i = 0; i < ring.started; i++) {
		char byte;

		if (read(ring.ready[0], &byte, 1) != 1)
			return workload_fail(run, "no memory for %u processes with %llu pages each", ring.size,
					     (unsigned long long)ring.pages);
	}
	return fill_own(&ring) ? 0 : workload_fail(run, "no memory for the working set");
}

static int measure(struct run *run)
{
	struct ring *ring = run->data;
	uint64_t rounds = (run->units + ring->size - 1) / ring->size;
	uint64_t token = 1;

	for (uint64_t i = 0; i < rounds; i++) {
		if (!read_own(ring))
			return workload_fail(run, "a word of the working set is wrong in round %llu",
					     (unsigned long long)i);
		if (write(ring->pipes[1][1], &token, sizeof(token)) != (ssize_t)sizeof(token) ||
		    read(ring->pipes[0][0], &token, sizeof(token)) != (ssize_t)sizeof(token))
			return workload_fail(run, "the token was lost in round %llu", (unsigned long long)i);
	}
	run->units = rounds * ring->size;
	run->checksum = checksum_add(run->checksum, token);
	return 0;
}

static void teardown(struct run *run)
{
	struct ring *ring = run->data;
	uint64_t token = 0;

	if (ring->started && ring->started + 1 == ring->size &&
	    write(ring->pipes[1][1], &token, sizeof(token)) == (ssize_t)sizeof(token))
		for (unsigned int i = 0; i < ring->started; i++)
			if (process_join(ring->pids[i]))
				workload_fail(run, "a process of the ring died");
}

WORKLOAD(context_switch) = {
	.name = "context-switch",
	.group = "lmbench",
	.unit = "token handed on",
	.about = "lmbench's lat_ctx: a token goes round --set processes=N processes (default 8) by pipes, spread over "
		 "the CPUs of --threads; --set pages=N: who has it reads N pages of its own. No memory is unmapped, so no "
		 "shootdown is expected.",
	.units = 40000,
	.threads_min = 1,
	.own_processes = true,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
