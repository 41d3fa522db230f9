// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages that one thread populates and another one uses: a file is mapped with
 * MAP_POPULATE (--set by=madvise: MADV_POPULATE_READ, by=pin: read through
 * /proc/self/mem, which is get_user_pages()), then another CPU reads every page.
 *
 * Theory. To populate is to spare the faults: there are none in the measured part,
 * in which the others read, and no shootdown.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/mapped_file.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#define UNITS_MAX 16384UL

static struct {
	volatile uint64_t *words;
	size_t bytes;
	uint64_t sums[THREADS_MAX];
} populate;

static int by_pin(const char *at, size_t bytes)
{
	char byte;
	int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC), error = 0;

	if (fd < 0)
		return -errno;
	for (size_t i = 0; i < bytes && !error; i += PAGE_BYTES) {
		if (pread(fd, &byte, 1, (off_t)(uintptr_t)(at + i)) != 1)
			error = -errno;
	}
	close(fd);
	return error;
}

static int setup(struct run *run)
{
	const char *by = option_text("by", "mmap");
	const bool is_mmap = strcmp(by, "mmap") == 0, is_madvise = strcmp(by, "madvise") == 0;
	void *area;
	int fd, error = 0;

	if (!is_mmap && !is_madvise && strcmp(by, "pin") != 0)
		return workload_fail(run, "by is mmap, madvise or pin, not %s", by);
	if (!run->units || run->units > UNITS_MAX)
		return workload_fail(run, "units is %llu, and must be 1 to %lu", (unsigned long long)run->units, UNITS_MAX);
	populate.bytes = run->units * PAGE_BYTES;
	fd = mapped_file_on_disk(run, run->units);
	if (fd < 0)
		return fd;
	area = mmap(NULL, populate.bytes, PROT_READ, MAP_SHARED | (is_mmap ? MAP_POPULATE : 0), fd, 0);
	close(fd);
	if (area == MAP_FAILED)
		return workload_fail(run, "%llu pages of a file cannot be mapped", (unsigned long long)run->units);
	populate.words = area;
	if (is_madvise && madvise(area, populate.bytes, MADV_POPULATE_READ))
		error = -errno;
	else if (!is_mmap && !is_madvise)
		error = by_pin(area, populate.bytes);
	return error ? workload_fail(run, "%s did not populate: %s", by, strerror(-error)) : 0;
}

/* All but the one that populated. */
static void read_all(struct run *run, unsigned int index)
{
	uint64_t sum = CHECKSUM_SEED;

	for (uint64_t page = 0; index && page < run->units; page++)
		sum = checksum_add(sum, populate.words[page * PAGE_WORDS]);
	populate.sums[index] = sum;
}

static int measure(struct run *run)
{
	team_run(run, read_all);
	for (unsigned int i = 1; i < run->threads; i++)
		run->checksum = checksum_add(run->checksum, populate.sums[i]);
	return 0;
}

static void teardown(struct run *run)
{
	(void)run;
	if (populate.words)
		munmap((void *)populate.words, populate.bytes);
	populate.words = NULL;
}

WORKLOAD(populate_mapping) = {
	.name = "populate",
	.group = "micro",
	.unit = "page read by all others",
	.about = "One thread populates a shared file mapping, all others read it: no fault, no shootdown.",
	.needs = "ext2",
	.units = 2000,
	.threads_min = 2,
	.shared = true,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
