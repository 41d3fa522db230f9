// SPDX-License-Identifier: GPL-2.0-only
/*
 * lmbench's lat_mmap: map a file, touch a page in every 16 KiB, unmap.
 *
 * pages=N in place of mib=N, touch=none or touch=all in place of a page in every 16 KiB, memory=anon in
 * place of a file: those pages are written, since to read one would map the page of zeros.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "workload.h"

#define STRIDE_BYTES 16384UL
#define MIB_MAX 1024UL

static struct file {
	int fd;			/* -1: anonymous memory */
	size_t bytes;
	size_t stride;		/* from one page that is touched to the next; 0: none is */
	bool is_anon, is_apart;
} file;

static int fill(struct run *run)
{
	static uint64_t block[PAGE_BYTES / sizeof(uint64_t)];
	uint64_t state = run->seed;

	for (size_t done = 0; done < file.bytes; done += PAGE_BYTES) {
		for (size_t i = 0; i < PAGE_BYTES / sizeof(*block); i++)
			block[i] = random_next(&state);
		if (write(file.fd, block, PAGE_BYTES) != (ssize_t)PAGE_BYTES)
			return workload_fail(run, "the file of %zu KiB cannot be written: %s", file.bytes >> 10,
					     strerror(errno));
	}
	return 0;
}

static int read_options(struct run *run)
{
	const uint64_t mib = option_u64("mib", 4), pages = option_u64("pages", mib << 8);
	const char *touch = option_text("touch", "sparse"), *memory = option_text("memory", "file");

	file.is_apart = option_u64("apart", 0) != 0;
	file.is_anon = strcmp(memory, "anon") == 0;
	if (!file.is_anon && strcmp(memory, "file") != 0)
		return workload_fail(run, "memory is file or anon, not %s", memory);
	if (!mib || mib > MIB_MAX)
		return workload_fail(run, "mib is %llu, and must be 1 to %lu", (unsigned long long)mib, MIB_MAX);
	if (!pages || pages > MIB_MAX << 8)
		return workload_fail(run, "pages is %llu, and must be 1 to %lu", (unsigned long long)pages,
				     MIB_MAX << 8);
	file.bytes = pages * PAGE_BYTES;
	if (strcmp(touch, "sparse") == 0)
		file.stride = STRIDE_BYTES;
	else if (strcmp(touch, "all") == 0)
		file.stride = PAGE_BYTES;
	else if (strcmp(touch, "none") == 0)
		file.stride = 0;
	else
		return workload_fail(run, "touch is sparse, all or none, not %s", touch);
	return 0;
}

static int setup(struct run *run)
{
	int error;

	run->data = &file;
	file.fd = -1;
	error = read_options(run);
	if (error || file.is_anon)
		return error ?: spinners_start(run);
	file.fd = memfd_create("mmap-latency", MFD_CLOEXEC);
	if (file.fd < 0)
		return workload_skip(run, "this kernel has no memory files: %s", strerror(errno));
	return fill(run) ?: spinners_start(run);
}

static void touch(struct run *run, char *map)
{
	for (size_t at = 0; file.stride && at < file.bytes; at += file.stride) {
		if (file.is_anon)
			*(volatile uint64_t *)(map + at) = run->seed + at;
		run->checksum = checksum_add(run->checksum, *(volatile uint64_t *)(map + at));
	}
}

static int measure(struct run *run)
{
	const int protection = file.is_anon ? PROT_READ | PROT_WRITE : PROT_READ;
	const int flags = file.is_anon ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	uint64_t mapped = 0, unmapped = 0;

	for (uint64_t i = 0; i < run->units; i++) {
		char *map;

		mapped -= calls_count(run, file.is_apart);
		map = mmap(NULL, file.bytes, protection, flags, file.fd, 0);
		mapped += calls_count(run, file.is_apart);
		if (map == MAP_FAILED)
			return workload_fail(run, "mmap of %zu KiB was refused", file.bytes >> 10);
		touch(run, map);
		unmapped -= calls_count(run, file.is_apart);
		if (munmap(map, file.bytes))
			return workload_fail(run, "munmap of %zu KiB was refused", file.bytes >> 10);
		unmapped += calls_count(run, file.is_apart);
	}
	report_calls(run, "mmap_instructions", mapped, run->units);
	report_calls(run, "munmap_instructions", unmapped, run->units);
	return 0;
}

static void teardown(struct run *run)
{
	spinners_stop(run);
	if (file.fd >= 0)
		close(file.fd);
}

WORKLOAD(mmap_latency) = {
	.name = "mmap-latency",
	.group = "lmbench",
	.unit = "mmap, touch and munmap of the file",
	.about = "lmbench's lat_mmap: maps a file of --set mib=N MiB (default 4; or pages=N), touches every 16 KiB of it "
		 "(touch=none, touch=all) and unmaps it, while every other thread spins. memory=anon: no file; apart=1 "
		 "counts each call alone, too, with --cost.",
	.units = 200,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
