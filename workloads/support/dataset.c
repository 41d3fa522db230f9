// SPDX-License-Identifier: GPL-2.0-only
/* See dataset.h. */
#include "support/dataset.h"

#include <string.h>
#include <sys/mman.h>

#define MIB_DEFAULT 64
#define MIB_MAX 1024ULL

struct dataset dataset;

static unit_fn unit_done, unit_expected;
static uint64_t sums[THREADS_MAX];

static uint64_t first_written_bytes(const struct run *run, unsigned int index)
{
	const struct span mine = dataset_share(run, dataset.all_bytes, index);

	return mine.end - mine.first;
}

int dataset_open(struct run *run, uint64_t more_bytes)
{
	const uint64_t mib = option_u64("mib", MIB_DEFAULT);
	const char *init = option_text("init", "one");
	int error;

	dataset.is_by_each = strcmp(init, "each") == 0;
	dataset.is_warm = option_u64("warm", 0) != 0;
	dataset.is_planted = option_u64("plant", 0) != 0;
	if (!mib || mib > MIB_MAX || mib & (mib - 1))
		return workload_fail(run, "mib is %llu, and must be a power of two from 1 to %llu",
				     (unsigned long long)mib, MIB_MAX);
	if (!dataset.is_by_each && strcmp(init, "one") != 0)
		return workload_fail(run, "init is one or each, not %s", init);
	dataset.bytes = mib << 20;
	dataset.all_bytes = dataset.bytes + more_bytes;
	error = nodes_must_have_room(run, first_written_bytes);
	if (error)
		return error;
	dataset.start = area_reserve(dataset.all_bytes);
	if (!dataset.start || mprotect(dataset.start, dataset.all_bytes, PROT_READ | PROT_WRITE))
		return workload_fail(run, "no address space for %llu MiB", (unsigned long long)mib);
	return 0;
}

void dataset_close(struct run *run)
{
	(void)run;
	area_release(dataset.start, dataset.all_bytes);
	dataset.start = NULL;
}

struct span work_share(const struct run *run, uint64_t count, unsigned int index)
{
	const uint64_t each = count / run->threads, more = count % run->threads;
	const uint64_t first = each * index + (index < more ? index : more);

	return (struct span){ .first = first, .end = first + each + (index < more) };
}

struct span dataset_share(const struct run *run, uint64_t count, unsigned int index)
{
	if (dataset.is_by_each)
		return work_share(run, count, index);
	return (struct span){ .first = 0, .end = index ? 0 : count };
}

int nodes_must_have_room(struct run *run, uint64_t (*bytes_of)(const struct run *run, unsigned int index))
{
	unsigned int node[THREADS_MAX];

	for (unsigned int i = 0; i < run->threads; i++)
		node[i] = team_node(i);
	for (unsigned int i = 0; i < run->threads; i++) {
		const uint64_t room_kib = node_room_kib(node[i]);
		uint64_t bytes = 0;

		for (unsigned int j = 0; j < run->threads; j++)
			if (node[j] == node[i])
				bytes += bytes_of(run, j);
		if (bytes >> 10 > room_kib)
			return workload_skip(run, "needs %llu MiB on NUMA node %u, where %llu MiB are free: ask for less, or "
					     "give the guest more --memory", (unsigned long long)(bytes + (1 << 20) - 1) >> 20,
					     node[i], (unsigned long long)room_kib >> 10);
	}
	return 0;
}

static void read_all(struct run *run, unsigned int index)
{
	(void)run;
	(void)index;
	for (uint64_t at = 0; at < dataset.all_bytes; at += PAGE_BYTES)
		(void)*(volatile uint64_t *)(dataset.start + at);
}

void dataset_warm(struct run *run)
{
	if (dataset.is_warm)
		team_run(run, read_all);
}

void dataset_report(struct run *run)
{
	report_extra(run, "page_table_kib", (double)file_kib("/proc/self/status", "VmPTE:", 0));
}

void units_are(unit_fn done, unit_fn expected)
{
	unit_done = done;
	unit_expected = expected;
}

static void work_units(struct run *run, unsigned int index)
{
	const struct span mine = work_share(run, run->units, index);
	uint64_t sum = 0;

	for (uint64_t i = mine.first; i < mine.end; i++)
		sum += unit_done(run, i);
	sums[index] = sum;
}

int units_measure(struct run *run)
{
	uint64_t sum = 0;

	team_run(run, work_units);
	for (unsigned int i = 0; i < run->threads; i++)
		sum += sums[i];
	run->checksum = checksum_add(CHECKSUM_SEED, sum);
	return 0;
}

int units_verify(struct run *run)
{
	uint64_t sum = 0;

	dataset_report(run);
	for (uint64_t i = 0; i < run->units; i++)
		sum += unit_expected(run, i);
	return checksum_must_be(run, checksum_add(CHECKSUM_SEED, sum));
}

void *again_alloc(struct run *run, uint64_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		workload_fail(run, "no memory to compute again: %llu bytes", (unsigned long long)bytes);
		return NULL;
	}
	/* Fails where the kernel has no huge pages, which is only slower. */
	(void)madvise(memory, bytes, MADV_HUGEPAGE);
	return memory;
}

void again_free(void *memory, uint64_t bytes)
{
	if (memory)
		munmap(memory, bytes);
}

int checksum_must_be(struct run *run, uint64_t expected)
{
	if (run->checksum == expected)
		return 0;
	return workload_fail(run, "the checksum is %016llx, and must be %016llx", (unsigned long long)run->checksum,
			     (unsigned long long)expected);
}
