// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whose memory is it that a kernel keeps beside page tables? In a memory cgroup the
 * process writes a page of each of many page tables. Then it leaves, and ages the
 * pages from outside, as reclaim does for others. What a kernel makes for that is
 * beside page tables that the cgroup pays for, so it is to pay for that, too.
 *
 * charged_bytes: by how much the cgroup's slab memory has grown since before the
 * first page. A kernel that keeps nothing beside page tables adds next to nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "support/page_idle.h"
#include "support/pressure.h"
#include "support/system_files.h"

#define TABLE_BYTES (512 * PAGE_BYTES)
#define TABLES_MAX 16384UL
#define STAT "/sys/fs/cgroup/ceasefire/memory.stat"
#define SLACK_BYTES (64UL << 20)

static struct {
	char *raw;
	size_t bytes;
	struct page_idle idle;
	bool has_cgroup;
	uint64_t before;
} state;

static char *page_at(uint64_t table)
{
	const uintptr_t start = ((uintptr_t)state.raw + TABLE_BYTES - 1) & ~(TABLE_BYTES - 1);

	/* Not the first slot of its table: a neighbour's walk does not come near. */
	return (char *)start + table * TABLE_BYTES + TABLE_BYTES / 2;
}

static uint64_t slab_bytes(void)
{
	return file_row(STAT, "slab_unreclaimable");
}

static int write_pages(struct run *run)
{
	state.bytes = (run->units + 1) * TABLE_BYTES;
	state.raw = mmap(NULL, state.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (state.raw == MAP_FAILED) {
		state.raw = NULL;
		return workload_fail(run, "no address space for %llu page tables", (unsigned long long)run->units);
	}
	/* Fails where the kernel has no huge pages, which is as good. */
	(void)madvise(state.raw, state.bytes, MADV_NOHUGEPAGE);
	for (uint64_t i = 0; i < run->units; i++) {
		*(volatile uint64_t *)page_at(i) = run->seed + i;
		run->checksum = checksum_add(run->checksum, *(volatile uint64_t *)page_at(i));
	}
	return 0;
}

static int setup(struct run *run)
{
	int error;

	if (!run->units || run->units > TABLES_MAX)
		return workload_fail(run, "units is %llu, and must be 1 to %lu", (unsigned long long)run->units, TABLES_MAX);
	error = page_idle_open(run, &state.idle, run->units);
	/* A page, its page table, and what is kept beside it. */
	if (!error)
		error = pressure_cgroup_make(run, run->units * 4 * PAGE_BYTES + SLACK_BYTES);
	if (error)
		return error;
	state.has_cgroup = true;
	state.before = slab_bytes();
	if (pressure_cgroup_enter())
		return workload_skip(run, "needs a cgroup to enter");
	error = write_pages(run);
	if (pressure_cgroup_leave())
		return workload_fail(run, "the cgroup cannot be left");
	return error;
}

static int measure(struct run *run)
{
	int error = 0;

	page_idle_forget(&state.idle);
	for (uint64_t i = 0; i < run->units && !error; i++)
		error = page_idle_note(&state.idle, page_at(i), 1);
	if (!error)
		error = page_idle_set(&state.idle);
	if (error)
		return workload_fail(run, "pages cannot be marked idle: %s", strerror(-error));
	report_extra(run, "charged_bytes", (double)slab_bytes() - (double)state.before);
	return 0;
}

static void teardown(struct run *run)
{
	(void)run;
	page_idle_close(&state.idle);
	if (state.raw)
		munmap(state.raw, state.bytes);
	if (state.has_cgroup)
		pressure_cgroup_remove();
}

WORKLOAD(charged) = {
	.name = "charged",
	.group = "stress",
	.unit = "page table",
	.about = "Pages of a memory cgroup are aged by a process outside: what a kernel keeps beside their page tables is charged "
		 "to the cgroup.",
	.needs = "cgroup",
	.units = 2048,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
