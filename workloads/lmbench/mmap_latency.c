// SPDX-License-Identifier: GPL-2.0-only
/* lmbench's lat_mmap: map a file, touch a page in every 16 KiB, unmap. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "workload.h"

#define STRIDE_BYTES 16384UL
#define MIB_MAX 1024UL

struct file {
	int fd;
	size_t bytes;
};

static int fill(struct run *run, struct file *file)
{
	static uint64_t block[PAGE_BYTES / sizeof(uint64_t)];
	uint64_t state = run->seed;

	for (size_t done = 0; done < file->bytes; done += PAGE_BYTES) {
		for (size_t i = 0; i < PAGE_BYTES / sizeof(*block); i++)
			block[i] = random_next(&state);
		if (write(file->fd, block, PAGE_BYTES) != (ssize_t)PAGE_BYTES)
			return workload_fail(run, "the file of %zu MiB cannot be written: %s", file->bytes >> 20,
					     strerror(errno));
	}
	return 0;
}

static int setup(struct run *run)
{
	static struct file file;
	uint64_t mib = option_u64("mib", 4);

	run->data = &file;
	file.fd = -1;
	if (!mib || mib > MIB_MAX)
		return workload_fail(run, "mib is %llu, and must be 1 to %lu", (unsigned long long)mib, MIB_MAX);
	file.bytes = mib << 20;
	file.fd = memfd_create("mmap-latency", MFD_CLOEXEC);
	if (file.fd < 0)
		return workload_skip(run, "this kernel has no memory files: %s", strerror(errno));
	return fill(run, &file) ?: spinners_start(run);
}

static int measure(struct run *run)
{
	struct file *file = run->data;

	for (uint64_t i = 0; i < run->units; i++) {
		char *map = mmap(NULL, file->bytes, PROT_READ, MAP_SHARED, file->fd, 0);

		if (map == MAP_FAILED)
			return workload_fail(run, "mmap of %zu MiB was refused", file->bytes >> 20);
		for (size_t at = 0; at < file->bytes; at += STRIDE_BYTES)
			run->checksum = checksum_add(run->checksum, *(volatile uint64_t *)(map + at));
		if (munmap(map, file->bytes))
			return workload_fail(run, "munmap of %zu MiB was refused", file->bytes >> 20);
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

WORKLOAD(mmap_latency) = {
	.name = "mmap-latency",
	.group = "lmbench",
	.unit = "mmap, touch and munmap of the file",
	.about = "lmbench's lat_mmap: maps a file of --set mib=N MiB (default 4), touches every 16 KiB of it and unmaps "
		 "it, while every other thread spins.",
	.units = 200,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
