// SPDX-License-Identifier: GPL-2.0-only
/* lmbench's lat_ctx: a token goes round a ring of processes, each pass a context switch. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "workload.h"

#define RING_MAX 64U

struct ring {
	unsigned int size;
	int pipes[RING_MAX][2];	/* pipe i is read by process i */
	int pids[RING_MAX];
	unsigned int started;
};

struct place {
	struct ring *ring;
	unsigned int index;
};

/* Wait for the token, count it, hand it on; the token of 0 ends the ring. */
static int pass_on(void *argument)
{
	struct place *place = argument;
	struct ring *ring = place->ring;
	int in = ring->pipes[place->index][0];
	int out = ring->pipes[(place->index + 1) % ring->size][1];
	uint64_t token;

	while (read(in, &token, sizeof(token)) == (ssize_t)sizeof(token)) {
		bool is_last = token == 0;

		token += !is_last;
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
	return 0;
}

static int measure(struct run *run)
{
	struct ring *ring = run->data;
	uint64_t rounds = (run->units + ring->size - 1) / ring->size;
	uint64_t token = 1;

	for (uint64_t i = 0; i < rounds; i++)
		if (write(ring->pipes[1][1], &token, sizeof(token)) != (ssize_t)sizeof(token) ||
		    read(ring->pipes[0][0], &token, sizeof(token)) != (ssize_t)sizeof(token))
			return workload_fail(run, "the token was lost in round %llu", (unsigned long long)i);
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
		 "the CPUs of --threads; no memory is unmapped, so no shootdown is expected.",
	.units = 40000,
	.threads_min = 1,
	.own_processes = true,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
