// SPDX-License-Identifier: GPL-2.0-only
/*
 * Nobody reads what a page held in an earlier life.
 *
 * The first thread maps blocks of pages with known words, waits until every
 * reader has read them, clears their access bits, flushes the whole address
 * space some times, and takes them away in one of eight ways; freed frames are
 * taken at once by pages full of poison. All others read, all the time.
 *
 * Each block has a sequence number: generation and phase. A reader loads it,
 * reads a word, and loads it again. What it may see follows from the first
 * value, and is exact where both are the same:
 *
 *   OPEN     the word of this generation, no fault
 *   CLOSING  (being taken away) that word, nothing yet (0), or a fault
 *   CLOSED   (taken away) a fault
 *   FILLING  a fault, nothing yet, or the word of this generation
 *   UPDATING the word of this generation or of the one before, no fault
 *
 * A word of an earlier generation, of another page, or poison is a stale read.
 * Readers also sleep and come back (lazy CPUs), and other processes take their
 * CPUs and ASIDs. While a block is quiet, readers leave it alone, so that its
 * access bits stay clear and its flush can be left out; one in some dozens
 * reads it nevertheless.
 *
 * What is done depends on seed and units alone; who reads when does not.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stale.h"
#include "support/checked_load.h"
#include "support/elisions.h"
#include "support/pressure.h"
#include "support/rounds.h"

#define BATCH_PAGES (BLOCKS * BLOCK_PAGES)
/* A file has this many batches' pages: the frames of an earlier life keep its words. */
#define FILE_BATCHES 4U
#define SWAP_BYTES (32UL << 20)
#define NEIGHBOUR_NAP_NS 50000000
#define NEIGHBOUR_PAGES 16UL
/* A reader may sleep, or its CPU run somebody else: then its look is not waited for. */
#define SPINS_PER_LOOK 2000U

enum clearing { CLEAR_NOT, CLEAR_IDLE, CLEAR_COLD, CLEAR_MSYNC };

struct stale stale;

static uint64_t draw(uint64_t below)
{
	return random_next(&stale.random) % below;
}

static void publish(unsigned int block, uint64_t generation, enum phase phase)
{
	atomic_store(&stale.blocks[block].sequence, generation << 3 | phase);
}

static uint64_t generation(unsigned int block)
{
	return stale_generation(atomic_load(&stale.blocks[block].sequence));
}

/* Until every reader has looked at the block in focus, or seems to be asleep: patience is in spins. */
static void wait_for_looks(const struct run *run, uint64_t patience)
{
	uint64_t seen[THREADS_MAX];
	uint64_t spins = 0;

	for (unsigned int i = 1; i < run->threads; i++)
		seen[i] = stale.readers[i].looks;
	for (unsigned int i = 1; i < run->threads; i++)
		while (stale.readers[i].looks < seen[i] + 2 && spins++ < patience && !stale.stop) {
			cpu_pause();
			if (spins % 4096 == 0)
				sched_yield();
		}
}

/* Until every reader has begun and ended a pass over all blocks. */
static void wait_for_passes(const struct run *run)
{
	uint64_t seen[THREADS_MAX];
	unsigned int spins = 0;

	for (unsigned int i = 1; i < run->threads; i++)
		seen[i] = stale.readers[i].passes;
	for (unsigned int i = 1; i < run->threads; i++)
		while (stale.readers[i].passes < seen[i] + 2 && !stale.stop) {
			cpu_pause();
			if (++spins % 4096 == 0)
				sched_yield();
		}
}

/* One call in place of a fault a page, which is most of the time; every fourth block faults nevertheless. */
static void populate(char *at)
{
	if (draw(4) != 0)
		(void)madvise(at, BLOCK_BYTES, MADV_POPULATE_WRITE);
}

static void write_words(unsigned int block, uint64_t generation)
{
	populate(region_at(&stale.area, block));
	for (uint64_t page = 0; page < BLOCK_PAGES; page++) {
		volatile uint64_t *words = stale_page(block, page);
		const uint64_t word = stale_word(block * BLOCK_PAGES + page, generation);

		words[0] = word;
		words[LAST_WORD] = word;
	}
	stale.maps += BLOCK_PAGES;
}

/* Frames that were freed just now are the first that are given out again. */
static int take_frames(struct run *run)
{
	if (madvise(stale.poison, BLOCK_BYTES, MADV_DONTNEED))
		return workload_fail(run, "MADV_DONTNEED: %s", strerror(errno));
	populate(stale.poison);
	for (uint64_t page = 0; page < BLOCK_PAGES; page++) {
		volatile uint64_t *words = (volatile uint64_t *)(stale.poison + page * PAGE_BYTES);

		words[0] = POISON;
		words[LAST_WORD] = POISON;
	}
	return 0;
}

static int map_block(struct run *run, unsigned int block, enum kind kind)
{
	const uint64_t batch = stale.batches % FILE_BATCHES;
	const int flags = kind == ANON ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	const off_t offset = kind == ANON ? 0 : (off_t)((batch * BLOCKS + block) * BLOCK_BYTES);
	char *at = region_at(&stale.area, block);

	if (mmap(at, BLOCK_BYTES, PROT_READ | PROT_WRITE, flags | MAP_FIXED, kind == ANON ? -1 : stale.files[kind],
		 offset) != at)
		return workload_fail(run, "mmap of %lu pages was refused: %s", BLOCK_PAGES, strerror(errno));
	(void)madvise(at, BLOCK_BYTES, MADV_NOHUGEPAGE);
	return 0;
}

/* From CLOSED to OPEN. An old file's words are seen until they are overwritten, so they are zeroed first. */
static int open_block(struct run *run, unsigned int block, enum kind kind)
{
	static const char zeros[BLOCK_BYTES];
	const uint64_t now = generation(block);
	int error;

	if (kind != ANON) {
		const off_t start = (off_t)((stale.batches % FILE_BATCHES * BLOCKS + block) * BLOCK_BYTES);

		if (pwrite(stale.files[kind], zeros, BLOCK_BYTES, start) != (ssize_t)BLOCK_BYTES)
			return workload_fail(run, "the file cannot be written: %s", strerror(errno));
	}
	publish(block, now, FILLING);
	error = map_block(run, block, kind);
	if (error)
		return error;
	write_words(block, now);
	publish(block, now, OPEN);
	return 0;
}

static int clear_bits(struct run *run, enum clearing clearing)
{
	int error = 0;

	page_idle_forget(&stale.idle);
	for (unsigned int i = 0; i < BLOCKS && !error; i++) {
		char *at = region_at(&stale.area, i);

		if (clearing == CLEAR_COLD)
			error = madvise(at, BLOCK_BYTES, MADV_COLD) ? -errno : 0;
		else if (clearing == CLEAR_MSYNC)
			error = msync(at, BLOCK_BYTES, MS_SYNC) ? -errno : 0;
		else if (clearing == CLEAR_IDLE)
			error = page_idle_note(&stale.idle, at, BLOCK_PAGES);
	}
	if (!error && clearing == CLEAR_IDLE)
		error = page_idle_set(&stale.idle);
	return error ? workload_fail(run, "access bits cannot be cleared: %s", strerror(-error)) : 0;
}

static int refused(struct run *run, const char *what)
{
	return workload_fail(run, "%s of %lu pages was refused: %s", what, BLOCK_PAGES, strerror(errno));
}

static int migrate_block(struct run *run, unsigned int block)
{
	for (uint64_t page = 0; page < BLOCK_PAGES; page++) {
		stale.pages[page] = (void *)stale_page(block, page);
		stale.to[page] = (int)stale.nodes[stale.batches % stale.node_count];
	}
	/* Pages that stay are as good: their words are looked at all the same. */
	return syscall(SYS_move_pages, 0, BLOCK_PAGES, stale.pages, stale.to, stale.status, MPOL_MF_MOVE) < 0 ?
		       refused(run, "move_pages") : 0;
}

/* Return: the phase that follows, or a negative errno. */
static int take_away(struct run *run, unsigned int block, enum kind kind, enum taking taking)
{
	char *at = region_at(&stale.area, block), *spare = region_at(&stale.spare, block);

	switch (taking) {
	case UNMAP:
		return munmap(at, BLOCK_BYTES) ? refused(run, "munmap") : CLOSED;
	case REPLACE:
		return mmap(at, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at ?
			       refused(run, "mmap") : FILLING;
	case PROTECT:
		return mprotect(at, BLOCK_BYTES, PROT_NONE) ? refused(run, "mprotect") : CLOSED;
	case REMAP:
		return mremap(at, BLOCK_BYTES, BLOCK_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, spare) != spare ?
			       refused(run, "mremap") : CLOSED;
	case DONTNEED:
		return madvise(at, BLOCK_BYTES, MADV_DONTNEED) ? refused(run, "MADV_DONTNEED") :
			kind == ANON ? FILLING : UPDATING;
	case MIGRATE:
		return migrate_block(run, block) ? -EIO : UPDATING;
	case PAGEOUT:
		return madvise(at, BLOCK_BYTES, MADV_PAGEOUT) ? refused(run, "MADV_PAGEOUT") : UPDATING;
	default:
		return UPDATING;
	}
}

/*
 * --set plant=...: one wrong is done on purpose, and the readers must tell: the
 * block stays ("gone"), keeps its words ("earlier"), or has another page's ("poison").
 * Return: whether it was done here.
 */
static bool plant_wrong(const struct run *run, unsigned int block, uint64_t next)
{
	const char *wrong = stale.plant;

	if (!wrong || stale.maps < run->units / 2)
		return false;
	stale.plant = NULL;
	for (uint64_t page = 0; page < BLOCK_PAGES && strcmp(wrong, "poison") == 0; page++)
		stale_page(block, page)[0] = stale_page(block, page)[LAST_WORD] = POISON;
	publish(block, next, strcmp(wrong, "gone") == 0 ? CLOSED : OPEN);
	stale.focus = block;
	stale.blocks[block].is_quiet = false;
	wait_for_looks(run, UINT64_MAX);
	return true;
}

static int change_block(struct run *run, unsigned int block, enum kind kind, enum taking taking)
{
	const uint64_t next = generation(block) + 1;
	int phase, error;

	if (plant_wrong(run, block, next))
		return 0;
	/* Where nothing is taken away for a moment, readers need not be lenient. */
	if (taking != COW && taking != MIGRATE && taking != PAGEOUT && !(taking == DONTNEED && kind != ANON))
		publish(block, next - 1, CLOSING);
	/* Sometimes readers come before the change, not after it. */
	if (draw(8) == 0)
		stale.blocks[block].is_quiet = false;
	phase = take_away(run, block, kind, taking);
	if (phase < 0)
		return phase;
	publish(block, next, (enum phase)phase);
	if (phase != CLOSED)
		write_words(block, next);
	if (phase != CLOSED)
		publish(block, next, OPEN);
	stale.focus = block;
	error = take_frames(run);
	stale.blocks[block].is_quiet = false;
	wait_for_looks(run, SPINS_PER_LOOK);
	return error;
}

/* What is still mapped goes, so that the next batch begins with nothing. */
static int close_block(struct run *run, unsigned int block)
{
	const uint64_t sequence = stale.blocks[block].sequence;
	const uint64_t now = stale_generation(sequence);

	if (stale_phase(sequence) == CLOSED)
		return 0;
	publish(block, now, CLOSING);
	if (munmap(region_at(&stale.area, block), BLOCK_BYTES))
		return refused(run, "munmap");
	publish(block, now + 1, CLOSED);
	return 0;
}

static enum kind choose_kind(void)
{
	for (;;) {
		const enum kind kind = (enum kind)draw(KINDS);

		if (kind == ANON || stale.files[kind] >= 0)
			return kind;
	}
}

static enum taking choose_taking(enum kind kind)
{
	for (;;) {
		const enum taking taking = (enum taking)draw(TAKINGS);

		if (taking == MIGRATE && stale.node_count < 2)
			continue;
		if (taking == PAGEOUT && kind != DISK && !stale.has_swap)
			continue;
		/* Forking costs as much as a batch. */
		if (taking == COW && (kind != ANON || draw(4) != 0))
			continue;
		return taking;
	}
}

static enum clearing choose_clearing(enum kind kind)
{
	const uint64_t choice = draw(8);

	if (choice == 0)
		return CLEAR_NOT;
	if (kind == DISK && choice < 5)
		return CLEAR_MSYNC;
	return choice == 7 || !stale.has_idle ? CLEAR_COLD : CLEAR_IDLE;
}

/* A child that has all pages and does nothing: the parent's next writes copy them. */
static int idle_child(void *argument)
{
	(void)argument;
	for (;;)
		pause();
	return EXIT_SUCCESS;
}

static int batch(struct run *run)
{
	const enum kind kind = choose_kind();
	const enum taking taking = choose_taking(kind);
	const enum clearing clearing = choose_clearing(kind);
	const uint64_t rounds = draw(4);
	pid_t child = 0;
	int error = 0;

	for (unsigned int i = 0; i < BLOCKS && !error; i++)
		error = open_block(run, i, kind);
	if (error)
		return error;
	wait_for_passes(run);
	for (unsigned int i = 0; i < BLOCKS; i++)
		stale.blocks[i].is_quiet = draw(8) != 0;
	if (taking == COW) {
		child = process_start(0, idle_child, NULL);
		if (child < 0)
			return workload_fail(run, "no process: %s", strerror(-child));
	}
	error = clear_bits(run, clearing);
	if (!error)
		error = rounds_run(run, rounds);
	for (unsigned int i = 0; i < BLOCKS && !error && !stale.stop; i++)
		error = change_block(run, i, kind, taking);
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	for (unsigned int i = 0; i < BLOCKS && !error; i++)
		error = close_block(run, i);
	if (!error && taking == REMAP) {
		/* The spare addresses lose theirs: another batch may move there. */
		for (unsigned int i = 0; i < BLOCKS && !error; i++)
			error = munmap(region_at(&stale.spare, i), BLOCK_BYTES) ? refused(run, "munmap") : 0;
	}
	stale.batches++;
	stale.taken[taking] += BATCH_PAGES;
	run->checksum = checksum_add(run->checksum, (uint64_t)kind << 8 | taking << 4 | clearing);
	return error;
}

static void write_or_read(struct run *run, unsigned int index)
{
	if (index != 0) {
		stale_read(run, index);
		return;
	}
	while (stale.maps < run->units && !stale.stop)
		if (batch(run))
			break;
	stale.stop = true;
}

/* Other processes on the readers' CPUs: they take ASIDs, and their CPU's turns. */
static int neighbour(void *argument)
{
	volatile char *area = mmap(NULL, NEIGHBOUR_PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)argument;
	if (area == MAP_FAILED)
		return EXIT_FAILURE;
	for (;;) {
		for (uint64_t i = 0; i < NEIGHBOUR_PAGES; i++)
			area[i * PAGE_BYTES]++;
		stale_nap(NEIGHBOUR_NAP_NS);
	}
}

static int neighbours_start(struct run *run)
{
	const uint64_t wanted = option_u64("neighbours", NEIGHBOURS);

	if (wanted > NEIGHBOURS)
		return workload_fail(run, "neighbours is %llu, and must be at most %u", (unsigned long long)wanted, NEIGHBOURS);
	/* All but one on the last CPU: more than the ASIDs that Linux keeps on one. */
	for (unsigned int i = 0; i < wanted; i++) {
		stale.neighbours[i] = process_start(i == 0 ? 0 : run->threads - 1, neighbour, NULL);
		if (stale.neighbours[i] < 0)
			return workload_fail(run, "no process: %s", strerror(-stale.neighbours[i]));
	}
	return 0;
}

/* What is missing here is left out: the rows "taken" tell. */
static void optional_parts(struct run *run)
{
	struct run quiet = *run;

	stale.node_count = memory_nodes(stale.nodes);
	stale.has_idle = page_idle_available() && page_idle_open(&quiet, &stale.idle, BATCH_PAGES) == 0;
	stale.files[ANON] = -1;
	stale.files[MEMFD] = mapped_file_in_memory(&quiet, (uint64_t)FILE_BATCHES * BATCH_PAGES);
	stale.files[DISK] = mapped_file_on_disk(&quiet, (uint64_t)FILE_BATCHES * BATCH_PAGES);
	stale.has_swap = pressure_swap_on(&quiet, SWAP_BYTES) == 0;
}

static int setup(struct run *run)
{
	int error = regions_reserve(run, &stale.area, BLOCKS, BLOCK_PAGES);

	if (!error)
		error = regions_reserve(run, &stale.spare, BLOCKS, BLOCK_PAGES);
	if (!error)
		error = rounds_open(run);
	if (!error)
		error = checked_load_open(run);
	if (!error)
		error = neighbours_start(run);
	if (error)
		return error;
	stale.poison = area_reserve(BLOCK_BYTES);
	if (!stale.poison || mprotect(stale.poison, BLOCK_BYTES, PROT_READ | PROT_WRITE))
		return workload_fail(run, "no address space for %lu pages", BLOCK_PAGES);
	optional_parts(run);
	stale.plant = option_text("plant", NULL);
	if (stale.plant && strcmp(stale.plant, "gone") && strcmp(stale.plant, "earlier") && strcmp(stale.plant, "poison"))
		return workload_fail(run, "plant is gone, earlier or poison, not %s", stale.plant);
	stale.random = run->seed;
	for (unsigned int i = 0; i < run->threads; i++)
		stale.readers[i].random = run->seed + i;
	for (unsigned int i = 0; i < BLOCKS; i++)
		publish(i, 1, CLOSED);
	return 0;
}

static int measure(struct run *run)
{
	static const char *const names[TAKINGS] = {
		"taken_by_munmap_pages", "taken_by_replace_pages", "taken_by_mprotect_pages", "taken_by_mremap_pages",
		"taken_by_dontneed_pages", "taken_by_migrate_pages", "taken_by_pageout_pages", "taken_by_cow_pages",
	};
	const uint64_t elided = elisions_all();
	uint64_t reads = 0, faults = 0;

	team_run(run, write_or_read);
	if (run->has_failed)
		return -EIO;
	for (unsigned int i = 1; i < run->threads; i++) {
		reads += stale.readers[i].reads;
		faults += stale.readers[i].faults;
	}
	run->units = stale.maps;
	report_extra(run, "stale_reads", 0);
	report_extra(run, "reads", (double)reads);
	report_extra(run, "faulting_reads", (double)faults);
	for (unsigned int i = 0; i < TAKINGS; i++)
		report_extra(run, names[i], (double)stale.taken[i]);
	if (elisions_are_counted())
		report_extra(run, "elided_pages", (double)(elisions_all() - elided));
	return 0;
}

static void teardown(struct run *run)
{
	(void)run;
	for (unsigned int i = 0; i < NEIGHBOURS; i++) {
		if (stale.neighbours[i] <= 0)
			continue;
		kill(stale.neighbours[i], SIGKILL);
		waitpid(stale.neighbours[i], NULL, 0);
	}
	regions_release(&stale.area);
	regions_release(&stale.spare);
	area_release(stale.poison, BLOCK_BYTES);
	rounds_close();
	page_idle_close(&stale.idle);
	pressure_swap_off();
}

WORKLOAD(stale_reads) = {
	.name = "stale",
	.group = "stress",
	.unit = "page mapped",
	.about = "Pages lose their access bits, then their place, and freed frames are poisoned, while every other thread reads "
		 "and must never see an earlier life's word.",
	.needs = "ext2,zram",
	.units = 200000,
	.threads_min = 2,
	.shared = true,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
