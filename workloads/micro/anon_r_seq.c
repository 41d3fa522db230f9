// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sequential reads of anonymous memory: the overhead case. --set write=1
 * writes instead, so that each fault brings a page of its own.
 *
 * Theory. A read fault maps the zero page, a write fault a new page
 * (do_anonymous_page()); an entry that was not present is in no TLB, so there
 * is nothing to flush: no shootdown, one fault per page. Whatever a mechanism
 * does at a fault is seen here as pure cost. Nothing is unmapped while it is
 * measured. No promise of zero is made (the control "zero" does that): on a
 * host, other programs and NUMA balancing flush too.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "support/slices.h"

struct anon {
	struct slices slices;
	bool writes;
	char *bytes;
	struct slice_sum sums[];
};

static void touch(struct run *run, unsigned int index)
{
	struct anon *anon = run->data;
	const uint64_t first = slice_first(&anon->slices, index);
	const uint64_t pages = slice_pages(&anon->slices, index);
	uint64_t sum = CHECKSUM_SEED, state = run->seed + index;

	for (uint64_t i = first; i < first + pages; i++) {
		volatile uint64_t *word = (volatile uint64_t *)(anon->bytes + i * PAGE_BYTES);

		if (anon->writes)
			*word = random_next(&state);
		sum = checksum_add(sum, *word);
	}
	anon->sums[index].sum = sum;
}

static void teardown(struct run *run)
{
	struct anon *anon = run->data;

	if (!anon)
		return;
	area_release(anon->bytes, slices_span_pages(&anon->slices) * PAGE_BYTES);
	free(anon);
	run->data = NULL;
}

static int setup(struct run *run)
{
	struct slices slices = slices_divide(run->units, run->threads);
	const uint64_t bytes = slices_span_pages(&slices) * PAGE_BYTES;
	struct anon *anon = aligned_alloc(64, sizeof(*anon) + run->threads * sizeof(anon->sums[0]));

	run->data = anon;
	if (!anon)
		return workload_fail(run, "no memory for %u threads' sums", run->threads);
	*anon = (struct anon){
		.slices = slices,
		.writes = option_u64("write", 0) != 0,
		.bytes = area_reserve(bytes),
	};
	if (!anon->bytes || mprotect(anon->bytes, bytes, PROT_READ | PROT_WRITE))
		return workload_fail(run, "no address space for %llu pages", (unsigned long long)run->units);
	return 0;
}

static int measure(struct run *run)
{
	struct anon *anon = run->data;

	team_run(run, touch);
	run->checksum = slices_checksum(anon->sums, run->threads);
	return 0;
}

WORKLOAD(anon_r_seq) = {
	.name = "anon-r-seq",
	.group = "micro",
	.unit = "page touched",
	.about = "Threads read fresh anonymous memory in order and never unmap it: no shootdowns, so any mechanism is pure "
		 "cost here.",
	.units = 16000,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
