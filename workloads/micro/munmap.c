// SPDX-License-Identifier: GPL-2.0-only
/* numaPTE's micro-operation: pages that only the caller touched are unmapped. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "support/system_files.h"

#define PAGES_MAX (1UL << 18)
#define FOLIO_MAX 1024UL	/* KiB; twice as much is a huge page */

struct munmap {
	char *reserved;
	size_t reserved_bytes;
	volatile uint64_t *area;
	size_t pages;
	char path[80];
	struct setting folios;
	bool is_apart;
};

/* Pages come by so many KiB at once, where the mapping begins with such a block. Return: 0, or a negative errno. */
static int use_folios(struct run *run, struct munmap *state, uint64_t kib)
{
	int error;

	if (kib < 16 || kib > FOLIO_MAX || kib & (kib - 1) || state->pages * PAGE_BYTES % (kib << 10))
		return workload_fail(run, "folio_kib is %llu, and must be a power of two from 16 to %lu that divides the pages",
				     (unsigned long long)kib, FOLIO_MAX);
	error = system_may_change(run);
	if (error)
		return error;
	snprintf(state->path, sizeof(state->path), "/sys/kernel/mm/transparent_hugepage/hugepages-%llukB/enabled",
		 (unsigned long long)kib);
	state->folios = (struct setting){ .path = state->path, .value = "always" };
	error = setting_change(&state->folios);
	return error ? workload_skip(run, "%s cannot be set: %s", state->path, strerror(-error)) : 0;
}

static int setup(struct run *run)
{
	static struct munmap state;
	const uint64_t folio_kib = option_u64("folio_kib", 0);
	const size_t aligned = folio_kib ? folio_kib << 10 : PAGE_BYTES;
	int error;

	run->data = &state;
	state.is_apart = option_u64("apart", 0) != 0;
	state.pages = option_u64("pages", 1);
	if (!state.pages || state.pages > PAGES_MAX)
		return workload_fail(run, "pages is %zu, and must be 1 to %lu", state.pages, PAGES_MAX);
	error = folio_kib ? use_folios(run, &state, folio_kib) : 0;
	if (error)
		return error;
	state.reserved_bytes = state.pages * PAGE_BYTES + aligned - PAGE_BYTES;
	state.reserved = area_reserve(state.reserved_bytes);
	if (!state.reserved)
		return workload_fail(run, "no address space for %zu pages", state.pages);
	state.area = (volatile uint64_t *)(((uintptr_t)state.reserved + aligned - 1) / aligned * aligned);
	return spinners_start(run);
}

static int measure(struct run *run)
{
	struct munmap *state = run->data;
	const size_t bytes = state->pages * PAGE_BYTES, words = PAGE_BYTES / sizeof(*state->area);
	uint64_t counted = 0;

	/* The reserved pages go first: from here on the hole is the caller's own. */
	for (uint64_t i = 0; i < run->units; i++) {
		if (mmap((void *)state->area, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			return workload_fail(run, "mmap of %zu pages was refused", state->pages);
		for (size_t page = 0; page < state->pages; page++) {
			state->area[page * words] = run->seed + i + page;
			run->checksum = checksum_add(run->checksum, state->area[page * words]);
		}
		counted -= calls_count(run, state->is_apart);
		if (munmap((void *)state->area, bytes))
			return workload_fail(run, "munmap of %zu pages was refused", state->pages);
		counted += calls_count(run, state->is_apart);
		let_others_run();
	}
	report_calls(run, "munmap_instructions", counted, run->units);
	return 0;
}

static void teardown(struct run *run)
{
	struct munmap *state = run->data;

	spinners_stop(run);
	area_release(state->reserved, state->reserved_bytes);
	setting_restore(&state->folios);
}

WORKLOAD(munmap_private) = {
	.name = "munmap",
	.group = "micro",
	.unit = "mmap, touch and munmap",
	.about = "Maps, touches and unmaps --set pages=N pages (default 1; folio_kib=K: in folios of K KiB) while every other "
		 "thread spins and touches none of them. --set apart=1 counts munmap alone, too, with --cost.",
	.units = 1000,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
