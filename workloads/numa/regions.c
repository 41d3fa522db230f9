// SPDX-License-Identifier: GPL-2.0-only
/*
 * Each thread has regions of its own, and changes them in its turn, while all others
 * are awake. The settings say which nodes have read a region, which node's thread
 * mapped it, and whether it shares a page table with other threads' regions. Unit: a
 * region changed. Checksum: of all words that were written and read.
 *
 * Theory. A kernel that interrupts every CPU of the address space sends one shootdown
 * a region to threads - 1 targets, whatever the settings. One that knows on which nodes
 * each page table was used interrupts the CPUs of those nodes alone. That saves nothing
 * where all nodes have read the region (readers=K) or have regions in the same page
 * table (layout=packed). Who mapped a region (mapper=other) does not change which TLBs
 * may hold it. Where its user has gone since (move=1) does not, either: the TLB that it
 * left may still hold it.
 *
 * The change alone is measured. A page table that becomes empty is freed, which takes
 * a flush more.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "support/checked_load.h"
#include "support/dataset.h"

#define PAGES_MAX (1UL << 19)	/* of all regions together */
#define PASSES_MAX 1000U
#define OTHER_MAPPINGS 100U	/* more than a program has beside its stacks */

/* Those before OP_TOUCH change what is there. */
enum op { OP_MUNMAP, OP_MPROTECT, OP_FREE, OP_REMAP, OP_TOUCH, OP_READ, OPS };

static const char *const op_names[OPS] = { "munmap", "mprotect", "free", "remap", "touch", "read" };

static struct {
	enum op op;
	uint64_t pages, readers, passes;
	bool is_packed, is_mapped_by_other, is_moved, is_planted;
	char *area[THREADS_MAX];	/* of each thread; packed: the first one, for all */
	uint64_t area_bytes[THREADS_MAX];
	char *away[THREADS_MAX];	/* op=remap: where a region of each thread goes, and comes back from */
	unsigned int nodes;		/* on which threads run */
	unsigned int first_on[THREADS_MAX];	/* each node's first thread */
	unsigned int rank[THREADS_MAX];	/* of each thread: its node's place in first_on */
	unsigned int shift;		/* move=1: a thread takes the CPU of the one so many further on */
	uint64_t sums[THREADS_MAX];
} state;

typedef void (*turn_fn)(struct run *run, unsigned int index, unsigned int owner);

static size_t region_bytes(void)
{
	return state.pages * PAGE_BYTES;
}

static char *region(const struct run *run, uint64_t number)
{
	const unsigned int owner = (unsigned int)(number % run->threads);

	if (state.is_packed)
		return state.area[0] + number * region_bytes();
	return state.area[owner] + number / run->threads * region_bytes();
}

static volatile uint64_t *page_of(const struct run *run, uint64_t number, uint64_t page)
{
	return (volatile uint64_t *)(region(run, number) + page * PAGE_BYTES);
}

static uint64_t word_of(const struct run *run, uint64_t number, uint64_t page)
{
	return random_at(run->seed, number * state.pages + page);
}

/* The threads take turns. Who waits for its turn spins on its CPU, where it is a target. */
static void take_turns(struct run *run, unsigned int index, turn_fn turn)
{
	for (unsigned int owner = 0; owner < run->threads; owner++) {
		turn(run, index, owner);
		team_barrier(run);
	}
}

static bool is_reader(unsigned int index, unsigned int owner)
{
	const unsigned int rank = state.rank[index];
	const unsigned int distance = (rank + state.nodes - state.rank[owner]) % state.nodes;

	return distance && distance <= state.readers && state.first_on[rank] == index;
}

static void map(struct run *run, unsigned int index, unsigned int owner)
{
	const unsigned int other = state.first_on[(state.rank[owner] + 1) % state.nodes];

	if (index != (state.is_mapped_by_other ? other : owner))
		return;
	for (uint64_t i = owner; i < run->units; i += run->threads) {
		void *at = mmap(region(run, i), region_bytes(), PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

		if (at == MAP_FAILED)
			workload_fail(run, "mmap of %llu pages was refused: %s", (unsigned long long)state.pages,
				      strerror(errno));
		else
			(void)madvise(at, region_bytes(), MADV_NOHUGEPAGE);
	}
}

static void write_all(struct run *run, unsigned int index, unsigned int owner)
{
	if (index != owner || run->has_failed)
		return;
	for (uint64_t i = owner; i < run->units; i += run->threads) {
		for (uint64_t page = 0; page < state.pages; page++) {
			volatile uint64_t *word = page_of(run, i, page);
			const bool is_wrong = state.is_planted && i == 0 && page == state.pages - 1;

			*word = word_of(run, i, page) ^ is_wrong;
			state.sums[index] += *word;
		}
	}
}

static void read_once(struct run *run, unsigned int index, unsigned int owner)
{
	for (uint64_t i = owner; i < run->units; i += run->threads)
		for (uint64_t page = 0; page < state.pages; page++)
			state.sums[index] += *page_of(run, i, page);
}

static void readers_read(struct run *run, unsigned int index, unsigned int owner)
{
	if (is_reader(index, owner) && !run->has_failed)
		read_once(run, index, owner);
}

static void all_read(struct run *run, unsigned int index, unsigned int owner)
{
	if (index != owner && !is_reader(index, owner))
		return;
	for (uint64_t i = 0; i < state.passes; i++)
		read_once(run, index, owner);
}

static bool has_moved(char *from, char *to)
{
	return mremap(from, region_bytes(), region_bytes(), MREMAP_MAYMOVE | MREMAP_FIXED, to) == to;
}

static bool is_changed(char *at, unsigned int owner)
{
	switch (state.op) {
	case OP_MUNMAP:
		return munmap(at, region_bytes()) == 0;
	case OP_MPROTECT:
		return mprotect(at, region_bytes(), PROT_READ) == 0;
	case OP_FREE:
		return madvise(at, region_bytes(), MADV_FREE) == 0;
	default:
		return has_moved(at, state.away[owner]) && has_moved(state.away[owner], at);
	}
}

static void change(struct run *run, unsigned int index, unsigned int owner)
{
	if (index != owner)
		return;
	for (uint64_t i = owner; i < run->units; i += run->threads) {
		if (!is_changed(region(run, i), owner))
			workload_fail(run, "%s of %llu pages was refused: %s", op_names[state.op],
				      (unsigned long long)state.pages, strerror(errno));
		let_others_run();
	}
}

static void prepare(struct run *run, unsigned int index)
{
	/* No other node is to have used the tables of what lies apart. */
	if (state.area[index])
		area_keep(state.area[index], state.area_bytes[index]);
	take_turns(run, index, map);
	if (state.op != OP_TOUCH)
		take_turns(run, index, write_all);
	if (state.op < OP_TOUCH)
		take_turns(run, index, readers_read);
	if (state.is_moved && pin_to((index + state.shift) % run->threads))
		workload_fail(run, "thread %u cannot move", index);
}

static void measured(struct run *run, unsigned int index)
{
	if (state.op == OP_TOUCH) {
		take_turns(run, index, write_all);
		take_turns(run, index, readers_read);
	} else {
		take_turns(run, index, state.op == OP_READ ? all_read : change);
	}
}

static void find_nodes(const struct run *run)
{
	unsigned int node[THREADS_MAX];

	for (unsigned int i = 0; i < run->threads; i++) {
		unsigned int rank = 0;

		node[i] = team_node(i);
		while (rank < state.nodes && node[state.first_on[rank]] != node[i])
			rank++;
		if (rank == state.nodes)
			state.first_on[state.nodes++] = i;
		state.rank[i] = rank;
	}
}

/* The least shift that takes every thread to another node. Return: false if there is none. */
static bool find_shift(const struct run *run)
{
	for (state.shift = 1; state.shift < run->threads; state.shift++) {
		unsigned int i = 0;

		while (i < run->threads && state.rank[i] != state.rank[(i + state.shift) % run->threads])
			i++;
		if (i == run->threads)
			return true;
	}
	return false;
}

static uint64_t regions_of(const struct run *run, unsigned int owner)
{
	return (run->units + run->threads - 1 - owner) / run->threads;
}

/*
 * One thread's regions are mapped, or changed, before the others' that lie between them. Each
 * is then a mapping of its own, and so is what lies between two; and a stack and its guard.
 */
static int must_be_mappable(struct run *run)
{
	const uint64_t mappings = 2 * regions_of(run, 0) + 2 * run->threads + OTHER_MAPPINGS;
	char text[32];
	uint64_t most;

	if (run->threads == 1 || file_read("/proc/sys/vm/max_map_count", text, sizeof(text)) <= 0)
		return 0;
	most = strtoull(text, NULL, 10);
	if (mappings > most)
		return workload_fail(run, "layout=packed needs %llu mappings for %llu regions, and vm.max_map_count is %llu: "
				     "ask for fewer --units", (unsigned long long)mappings,
				     (unsigned long long)run->units, (unsigned long long)most);
	return 0;
}

static int read_settings(struct run *run)
{
	const char *op = option_text("op", "munmap"), *layout = option_text("layout", "apart");
	const char *mapper = option_text("mapper", "user");

	while (state.op < OPS && strcmp(op, op_names[state.op]) != 0)
		state.op++;
	state.pages = option_u64("pages", 1);
	state.readers = option_u64("readers", 0);
	state.passes = state.op == OP_READ ? option_u64("passes", 1) : 1;
	state.is_packed = strcmp(layout, "packed") == 0;
	state.is_mapped_by_other = strcmp(mapper, "other") == 0;
	state.is_moved = option_u64("move", 0) != 0;
	state.is_planted = option_u64("plant", 0) != 0;
	if (state.op == OPS)
		return workload_fail(run, "op is munmap, mprotect, free, remap, touch or read, not %s", op);
	if (!state.is_packed && strcmp(layout, "apart") != 0)
		return workload_fail(run, "layout is apart or packed, not %s", layout);
	if (!state.is_mapped_by_other && strcmp(mapper, "user") != 0)
		return workload_fail(run, "mapper is user or other, not %s", mapper);
	if (!state.passes || state.passes > PASSES_MAX)
		return workload_fail(run, "passes is %llu, and must be 1 to %u", (unsigned long long)state.passes,
				     PASSES_MAX);
	if (!state.pages)
		return workload_fail(run, "pages is 0, and must be 1 or more");
	if (state.pages > PAGES_MAX / run->units)
		return workload_fail(run, "%llu regions of %llu pages are more than %lu pages in all",
				     (unsigned long long)run->units, (unsigned long long)state.pages, PAGES_MAX);
	return state.is_packed ? must_be_mappable(run) : 0;
}

static uint64_t bytes_of(const struct run *run, unsigned int owner)
{
	return regions_of(run, owner) * region_bytes();
}

static int reserve(struct run *run)
{
	for (unsigned int i = 0; i < run->threads && (i == 0 || !state.is_packed); i++) {
		const uint64_t regions = state.is_packed ? run->units : regions_of(run, i);

		state.area_bytes[i] = regions * region_bytes();
		state.area[i] = area_map(state.area_bytes[i]);
		if (!state.area[i])
			return workload_fail(run, "no address space for %llu regions", (unsigned long long)regions);
	}
	for (unsigned int i = 0; state.op == OP_REMAP && i < run->threads; i++) {
		state.away[i] = area_map(region_bytes());
		if (!state.away[i])
			return workload_fail(run, "no address space to move a region to");
	}
	return 0;
}

static int setup(struct run *run)
{
	int error = read_settings(run);

	if (error)
		return error;
	find_nodes(run);
	if (state.readers >= state.nodes)
		return workload_skip(run, "readers=%llu needs threads on %llu NUMA nodes, and they run on %u: "
				     "give more --nodes, or --set cpus=spread",
				     (unsigned long long)state.readers, (unsigned long long)state.readers + 1,
				     state.nodes);
	if ((state.is_mapped_by_other || state.is_moved) && state.nodes < 2)
		return workload_skip(run, "%s needs threads on 2 NUMA nodes: give --nodes 2",
				     state.is_moved ? "move=1" : "mapper=other");
	if (state.is_moved && !find_shift(run))
		return workload_skip(run, "move=1 needs as many threads on each NUMA node");
	error = nodes_must_have_room(run, bytes_of);
	if (!error)
		error = checked_load_open(run);
	if (!error)
		error = reserve(run);
	if (error)
		return error;
	team_run(run, prepare);
	return run->has_failed ? -EIO : 0;
}

static int measure(struct run *run)
{
	team_run(run, measured);
	return run->has_failed ? -EIO : 0;
}

/* Tries the first and the last page of a region: each try is a signal, and all would be too many. */
static int verify_ends(struct run *run, uint64_t number)
{
	for (uint64_t page = 0; page < state.pages; page += state.pages > 1 ? state.pages - 1 : 1) {
		volatile uint64_t *word = page_of(run, number, page);

		if (state.op == OP_MUNMAP && !checked_load(word).has_faulted)
			return workload_fail(run, "page %llu of region %llu can be read after munmap",
					     (unsigned long long)page, (unsigned long long)number);
		if (state.op == OP_MPROTECT && !checked_store(word, *word))
			return workload_fail(run, "page %llu of region %llu can be written after mprotect",
					     (unsigned long long)page, (unsigned long long)number);
	}
	return 0;
}

/* How often each word was added up: by the thread that wrote it, and by those that read it. */
static uint64_t times_read(void)
{
	return 1 + (state.readers + (state.op == OP_READ)) * state.passes;
}

static int verify(struct run *run)
{
	uint64_t sum = 0, expected = 0, wrong = 0;
	int error = 0;

	dataset_report(run);
	for (unsigned int i = 0; i < run->threads; i++)
		sum += state.sums[i];
	for (uint64_t i = 0; i < run->units && !error; i++) {
		for (uint64_t page = 0; page < state.pages; page++) {
			const uint64_t word = word_of(run, i, page);

			expected += word * times_read();
			wrong += state.op != OP_MUNMAP && *page_of(run, i, page) != word;
		}
		error = verify_ends(run, i);
	}
	if (error)
		return error;
	if (wrong)
		return workload_fail(run, "%llu pages do not have the word that was written", (unsigned long long)wrong);
	run->checksum = checksum_add(CHECKSUM_SEED, sum);
	return checksum_must_be(run, checksum_add(CHECKSUM_SEED, expected));
}

static void teardown(struct run *run)
{
	for (unsigned int i = 0; i < run->threads; i++) {
		area_release(state.area[i], state.area_bytes[i]);
		area_release(state.away[i], region_bytes());
	}
}

WORKLOAD(numa_regions) = {
	.name = "numa-regions",
	.group = "numa",
	.unit = "region changed",
	.about = "Each thread in turn unmaps its own regions (--set op=munmap, mprotect, free, remap, touch or read; pages=N), which "
		 "--set readers=K other nodes have read.",
	.units = 1000,
	.threads_min = 1,
	.is_spread = true,
	.setup = setup,
	.measure = measure,
	.verify = verify,
	.teardown = teardown,
};
