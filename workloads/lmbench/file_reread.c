// SPDX-License-Identifier: GPL-2.0-only
/* lmbench's bw_file_rd: a file that is already in memory is read again, 64 KiB at a time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "workload.h"

#define CHUNK_BYTES 65536UL
#define FILE_CHUNKS 64UL	/* 4 MiB */

struct file {
	int fd;
	uint64_t chunk[CHUNK_BYTES / sizeof(uint64_t)];
};

static int setup(struct run *run)
{
	static struct file file;
	char path[] = "/tmp/file-reread-XXXXXX";
	uint64_t state = run->seed;

	run->data = &file;
	file.fd = mkstemp(path);
	if (file.fd < 0)
		return workload_fail(run, "no file in /tmp: %s", strerror(errno));
	unlink(path);
	for (size_t i = 0; i < FILE_CHUNKS; i++) {
		for (size_t word = 0; word < CHUNK_BYTES / sizeof(*file.chunk); word++)
			file.chunk[word] = random_next(&state);
		if (write(file.fd, file.chunk, CHUNK_BYTES) != (ssize_t)CHUNK_BYTES)
			return workload_fail(run, "/tmp cannot hold 4 MiB: %s", strerror(errno));
	}
	return spinners_start(run);
}

static int measure(struct run *run)
{
	struct file *file = run->data;

	for (uint64_t i = 0; i < run->units; i++) {
		off_t offset = (off_t)(i % FILE_CHUNKS * CHUNK_BYTES);

		if (pread(file->fd, file->chunk, CHUNK_BYTES, offset) != (ssize_t)CHUNK_BYTES)
			return workload_fail(run, "the file ends early: %s", strerror(errno));
		run->checksum = checksum_add(run->checksum, file->chunk[i % (CHUNK_BYTES / sizeof(*file->chunk))]);
	}
	return 0;
}

static void teardown(struct run *run)
{
	struct file *file = run->data;

	spinners_stop(run);
	if (file->fd >= 0)
		close(file->fd);
}

WORKLOAD(file_reread) = {
	.name = "file-reread",
	.group = "lmbench",
	.unit = "64 KiB read again",
	.about = "lmbench's bw_file_rd: reads a 4 MiB file that is already in memory, 64 KiB at a time, while every "
		 "other thread spins; no memory is unmapped, so no shootdown is expected.",
	.units = 800,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
