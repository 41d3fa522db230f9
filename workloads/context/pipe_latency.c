// SPDX-License-Identifier: GPL-2.0-only
/* lmbench's lat_pipe: a word goes to another process by a pipe, and comes back by a second one. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "workload.h"

struct way {
	int there[2], back[2];
	int pid;
};

/* Hand each word on, one larger, until the other side is closed. */
static int echo(void *argument)
{
	struct way *way = argument;
	uint64_t word;

	/* Its own copies would keep it from seeing that the other process is gone. */
	close(way->there[1]);
	close(way->back[0]);
	while (read(way->there[0], &word, sizeof(word)) == (ssize_t)sizeof(word)) {
		word++;
		if (write(way->back[1], &word, sizeof(word)) != (ssize_t)sizeof(word))
			return 1;
	}
	return 0;
}

static int round_trip(struct run *run, uint64_t word)
{
	struct way *way = run->data;
	const uint64_t sent = word;

	if (write(way->there[1], &word, sizeof(word)) != (ssize_t)sizeof(word) ||
	    read(way->back[0], &word, sizeof(word)) != (ssize_t)sizeof(word))
		return workload_fail(run, "the other process is gone");
	if (word != sent + 1)
		return workload_fail(run, "%llu came back for %llu", (unsigned long long)word,
				     (unsigned long long)sent);
	run->checksum = checksum_add(run->checksum, word);
	return 0;
}

static int setup(struct run *run)
{
	static struct way way;

	run->data = &way;
	if (pipe(way.there) || pipe(way.back))
		return workload_fail(run, "no pipe: %s", strerror(errno));
	way.pid = process_start(run->threads - 1, echo, &way);
	if (way.pid < 0)
		return workload_fail(run, "the other process cannot be started");
	close(way.there[0]);
	close(way.back[1]);
	/* Both are up, and have what they need. */
	return round_trip(run, run->seed);
}

static int measure(struct run *run)
{
	for (uint64_t i = 0; i < run->units; i++)
		if (round_trip(run, run->seed + i))
			return -EIO;
	return 0;
}

static void teardown(struct run *run)
{
	struct way *way = run->data;

	close(way->there[1]);
	close(way->back[0]);
	if (way->pid > 0 && process_join(way->pid))
		workload_fail(run, "the other process failed");
}

WORKLOAD(pipe_latency) = {
	.name = "pipe-latency",
	.group = "context",
	.unit = "word there and back",
	.about = "lmbench's lat_pipe: a word goes to a process on the last CPU of --threads and comes back, by pipes; no "
		 "memory is unmapped, so no shootdown is expected.",
	.units = 4000,
	.threads_min = 1,
	.own_processes = true,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
