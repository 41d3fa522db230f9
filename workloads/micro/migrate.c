// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page migration: threads read their slices of a shared file mapping and then
 * spin, while the first thread moves all of it to another NUMA node.
 *
 * Theory. move_pages() collects the pages of a call, and migrate_pages_batch()
 * unmaps up to 512 of them (NR_MAX_BATCHED_MIGRATION) before one flush,
 * try_to_unmap_flush() -> arch_tlbbatch_flush(): sent = 1 and received =
 * threads - 1 per batch, so per page 1/512 of that. --set pages_per_call=N
 * makes smaller batches. A page that fails the batch is flushed alone.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/mapped_file.h"
#include "support/slices.h"
#include "support/system_files.h"

#define PAGES_PER_CALL 512

struct migrate {
	struct slices slices;
	uint64_t *words;
	void **pages;		/* what move_pages() takes: one entry per page in use */
	int *nodes, *status;
	uint64_t pages_per_call, calls;
	int error;
	struct slice_sum sums[];
};

static void move_all(struct run *run, struct migrate *migrate)
{
	for (uint64_t i = 0; i < run->units; i += migrate->pages_per_call) {
		const uint64_t left = run->units - i;
		const uint64_t count = left < migrate->pages_per_call ? left : migrate->pages_per_call;

		migrate->calls++;
		if (syscall(SYS_move_pages, 0, count, migrate->pages + i, migrate->nodes + i,
			    migrate->status + i, MPOL_MF_MOVE) < 0 && !migrate->error)
			migrate->error = errno;
	}
}

static void read_then_move(struct run *run, unsigned int index)
{
	struct migrate *migrate = run->data;
	const uint64_t first = slice_first(&migrate->slices, index);
	const uint64_t pages = slice_pages(&migrate->slices, index);
	uint64_t sum = CHECKSUM_SEED;

	for (uint64_t i = first; i < first + pages; i++)
		sum = checksum_add(sum, *(volatile uint64_t *)(migrate->words + i * PAGE_WORDS));
	team_barrier(run);
	if (index == 0)
		move_all(run, migrate);
	/* The others spin here, as targets. */
	team_barrier(run);
	/* The pages must have come along whole. */
	for (uint64_t i = first; i < first + pages; i++)
		sum = checksum_add(sum, *(volatile uint64_t *)(migrate->words + (i + 1) * PAGE_WORDS - 1));
	migrate->sums[index].sum = sum;
}

static void teardown(struct run *run)
{
	struct migrate *migrate = run->data;

	if (!migrate)
		return;
	if (migrate->words)
		munmap(migrate->words, slices_span_pages(&migrate->slices) * PAGE_BYTES);
	free(migrate->pages);
	free(migrate->nodes);
	free(migrate->status);
	free(migrate);
	run->data = NULL;
}

/* The file's pages are born on the first node: shared memory follows the writer's policy. */
static int make_file(struct run *run, uint64_t pages, unsigned int node)
{
	unsigned long mask = 1UL << node;
	int fd;

	if (syscall(SYS_set_mempolicy, MPOL_BIND, &mask, NODES_MAX + 1) != 0)
		return workload_skip(run, "needs NUMA memory policies: %s", strerror(errno));
	fd = mapped_file_in_memory(run, pages);
	syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
	return fd;
}

static int allocate(struct run *run, struct slices slices)
{
	struct migrate *migrate = aligned_alloc(64, sizeof(*migrate) + run->threads * sizeof(migrate->sums[0]));

	run->data = migrate;
	if (!migrate)
		return workload_fail(run, "no memory for %u threads' sums", run->threads);
	*migrate = (struct migrate){
		.slices = slices,
		.pages = calloc(run->units, sizeof(*migrate->pages)),
		.nodes = calloc(run->units, sizeof(*migrate->nodes)),
		.status = calloc(run->units, sizeof(*migrate->status)),
		.pages_per_call = option_u64("pages_per_call", PAGES_PER_CALL),
	};
	if (!migrate->pages || !migrate->nodes || !migrate->status)
		return workload_fail(run, "no memory for a list of %llu pages", (unsigned long long)run->units);
	if (migrate->pages_per_call == 0)
		return workload_fail(run, "pages_per_call is 0: give 1 or more");
	return 0;
}

static int setup(struct run *run)
{
	struct slices slices = slices_divide(run->units, run->threads);
	const uint64_t span = slices_span_pages(&slices);
	unsigned int nodes[NODES_MAX];
	struct migrate *migrate;
	uint64_t next = 0;
	void *words;
	int error, fd;

	if (memory_nodes(nodes) < 2)
		return workload_skip(run, "needs 2 NUMA nodes");
	error = allocate(run, slices);
	if (error)
		return error;
	migrate = run->data;
	fd = make_file(run, span, nodes[0]);
	if (fd < 0)
		return fd;
	words = mmap(NULL, span * PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (words == MAP_FAILED)
		return workload_fail(run, "%llu pages of a file cannot be mapped", (unsigned long long)span);
	migrate->words = words;
	for (unsigned int index = 0; index < run->threads; index++)
		for (uint64_t i = 0; i < slice_pages(&slices, index); i++, next++) {
			migrate->pages[next] = migrate->words + (slice_first(&slices, index) + i) * PAGE_WORDS;
			migrate->nodes[next] = (int)nodes[1];
			/* Also brings in the page of the array: no fault while measured. */
			migrate->status[next] = -1;
		}
	return 0;
}

static int measure(struct run *run)
{
	struct migrate *migrate = run->data;
	uint64_t stayed = 0;

	team_run(run, read_then_move);
	if (migrate->error)
		return workload_fail(run, "move_pages: %s", strerror(migrate->error));
	for (uint64_t i = 0; i < run->units; i++)
		stayed += migrate->status[i] != migrate->nodes[i];
	if (stayed)
		return workload_fail(run, "%llu of %llu pages did not reach the other node",
				     (unsigned long long)stayed, (unsigned long long)run->units);
	run->checksum = slices_checksum(migrate->sums, run->threads);
	report_extra(run, "pages_per_call", (double)run->units / (double)migrate->calls);
	return 0;
}

WORKLOAD(migrate) = {
	.name = "migrate",
	.group = "micro",
	.unit = "page migrated",
	.about = "Moves pages that threads have read to another NUMA node while the threads spin: one shootdown per batch of "
		 "up to 512 pages.",
	.needs = "nodes",
	.units = 4096,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
