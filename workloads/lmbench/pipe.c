// SPDX-License-Identifier: GPL-2.0-only
/* lmbench's bw_pipe: one process writes 64 KiB at a time, another reads. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "workload.h"

#define CHUNK_BYTES 65536UL

struct flow {
	int data[2], start[2];
	uint64_t units, seed;
	int pid;
	uint64_t chunk[CHUNK_BYTES / sizeof(uint64_t)];
};

static int writer(void *argument)
{
	struct flow *flow = argument;
	uint64_t state = flow->seed;
	char go;

	/* Its own copies would keep it from seeing that the reader is gone. */
	close(flow->data[0]);
	close(flow->start[1]);
	for (size_t i = 0; i < CHUNK_BYTES / sizeof(*flow->chunk); i++)
		flow->chunk[i] = random_next(&state);
	if (read(flow->start[0], &go, 1) != 1)
		return 1;
	for (uint64_t i = 0; i < flow->units; i++) {
		flow->chunk[0] = i;
		for (size_t done = 0; done < CHUNK_BYTES;) {
			ssize_t put = write(flow->data[1], (char *)flow->chunk + done, CHUNK_BYTES - done);

			if (put <= 0)
				return 1;
			done += (size_t)put;
		}
	}
	return 0;
}

static int setup(struct run *run)
{
	static struct flow flow;

	run->data = &flow;
	flow.units = run->units;
	flow.seed = run->seed;
	if (pipe(flow.data) || pipe(flow.start))
		return workload_fail(run, "no pipe: %s", strerror(errno));
	flow.pid = process_start(run->threads - 1, writer, &flow);
	if (flow.pid < 0)
		return workload_fail(run, "the writer cannot be started");
	close(flow.data[1]);
	/* This process has its own buffer pages before the count. */
	memset(flow.chunk, 1, sizeof(flow.chunk));
	return 0;
}

static int measure(struct run *run)
{
	struct flow *flow = run->data;

	if (write(flow->start[1], "g", 1) != 1)
		return workload_fail(run, "the writer does not start");
	for (uint64_t i = 0; i < run->units; i++) {
		for (size_t done = 0; done < CHUNK_BYTES;) {
			ssize_t got = read(flow->data[0], (char *)flow->chunk + done, CHUNK_BYTES - done);

			if (got <= 0)
				return workload_fail(run, "the pipe ended at chunk %llu", (unsigned long long)i);
			done += (size_t)got;
		}
		run->checksum = checksum_add(run->checksum, flow->chunk[0]);
		run->checksum = checksum_add(run->checksum, flow->chunk[CHUNK_BYTES / sizeof(*flow->chunk) - 1]);
	}
	return 0;
}

static void teardown(struct run *run)
{
	struct flow *flow = run->data;

	close(flow->start[1]);
	close(flow->data[0]);
	if (flow->pid > 0 && process_join(flow->pid))
		workload_fail(run, "the writer failed");
}

WORKLOAD(pipe_bandwidth) = {
	.name = "pipe",
	.group = "lmbench",
	.unit = "64 KiB through a pipe",
	.about = "lmbench's bw_pipe: a process on the last CPU of --threads writes 64 KiB at a time, one on the first "
		 "reads; no memory is unmapped, so no shootdown is expected.",
	.units = 400,
	.threads_min = 1,
	.own_processes = true,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
