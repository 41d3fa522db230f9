// SPDX-License-Identifier: GPL-2.0-only
/*
 * Is anything lost that was synced? All threads write counters into the pages of a
 * file through two shared mappings, while some sync ranges of it. What had been
 * written before a sync began must be in the store beneath the file system when it
 * has returned, or be followed there by something newer.
 *
 * A page that is written back loses its write permission first, everywhere. Who
 * could still write it afterwards would do so without notice: the store stays old
 * although the page is clean, and the next sync passes it over.
 *
 * Meanwhile one thread takes ranges of the mappings away in every manner, one forks
 * children that write and exit, and one cuts off and extends a tail of the file,
 * which is written as well and not looked at. All three and none of them by turns:
 * each makes CPUs sleep, and one that has slept flushes everything, mistakes too.
 *
 * What is synced depends on seed, units and threads alone; what meets it does not.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/backing_store.h"
#include "support/checked_load.h"
#include "support/mapped_file.h"
#include "support/slices.h"

#define CHUNK_PAGES 8UL
#define CHUNK_BYTES (CHUNK_PAGES * PAGE_BYTES)
#define TAIL_CHUNKS 4UL
#define PAGES_MAX 512UL
#define CHUNKS_MAX (PAGES_MAX / CHUNK_PAGES + TAIL_CHUNKS)
#define MAPPINGS 2UL
#define SIDES 2UL
#define STORES 16U
#define CHILD_STORES 64U
#define LOOKS_MAX 1000U
#define PHASE_SYNCS 16UL
#define READ_ONLY_PAUSES 8UL

enum role { CHANGE, FORK, CUT, SYNC, WRITE };

enum change { READ_ONLY, MOVE, DISCARD, PAGE_OUT, MAP_AGAIN, CHANGES };

enum by { MSYNC, FSYNC, FDATASYNC, SYNC_FILE_RANGE, SYNCFS, BYS };

static const char *const by_names[BYS] = { "msync", "fsync", "fdatasync", "sync_file_range", "syncfs" };

/* One thread's; each apart from its neighbour's cache line. */
struct part {
	_Alignas(64) uint64_t random;
	uint64_t sum;
	uint64_t done, refused;		/* changes, children, cuts or syncs; stores that faulted */
	uint64_t checked;		/* promises */
	uint32_t *promised, *seen;	/* the counters of each page and thread when a sync began; at the last look */
};

static struct {
	uint64_t pages, chunks;		/* that are looked at; with the tail */
	int file;
	struct backing_store store;
	char *side[MAPPINGS][SIDES];	/* address space for the whole file */
	_Atomic unsigned char at[MAPPINGS][CHUNKS_MAX];	/* the side on which that chunk is mapped */
	/* The counter of each page and thread that was stored last; shared with children. */
	_Atomic uint32_t *stored;
	_Atomic unsigned int syncing;	/* threads that have not done all theirs */
	/* Of all threads. Every PHASE_SYNCS of them another combination of CHANGE, FORK and CUT is at work. */
	_Atomic uint64_t syncs;
	enum by by;			/* BYS: all in turn */
	bool is_planted;
	struct part parts[THREADS_MAX];
} state;

static enum role role_of(unsigned int index)
{
	if (index < SYNC)
		return (enum role)index;
	return index % 2 ? SYNC : WRITE;
}

static uint64_t draw(struct part *part, uint64_t below)
{
	return random_next(&part->random) % below;
}

/* A word that was read while it was being written is told from one that was written. */
static uint64_t word_of(uint32_t counter)
{
	return (uint64_t)~counter << 32 | counter;
}

static bool is_whole(uint64_t word)
{
	return word == word_of((uint32_t)word);
}

static char *chunk_at(uint64_t mapping, uint64_t chunk)
{
	return state.side[mapping][state.at[mapping][chunk]] + chunk * CHUNK_BYTES;
}

static uint64_t stored_at(const struct run *run, uint64_t page, unsigned int index)
{
	return page * run->threads + index;
}

/*
 * Every other page has one writer, in one mapping: no other store makes it dirty again, so that one that nobody
 * noticed is still missing when the page is synced next. The others, and the tail, are written by all in both.
 */
static void choose_page(const struct run *run, struct part *part, unsigned int index, uint64_t *page, uint64_t *mapping)
{
	const uint64_t own_pages = state.pages / 2;
	const uint64_t own = index < own_pages ? (own_pages - index - 1) / run->threads + 1 : 0;

	if (own && draw(part, 2)) {
		const uint64_t number = draw(part, own);

		*page = (index + number * run->threads) * 2 + 1;
		*mapping = number % MAPPINGS;
	} else {
		*page = draw(part, state.chunks * CHUNK_PAGES / 2) * 2;
		*mapping = draw(part, MAPPINGS);
	}
}

/* The next counter into this thread's word of a page, unless the page is away. */
static void store_next(const struct run *run, struct part *part, unsigned int index)
{
	uint64_t page, mapping;
	_Atomic uint32_t *stored;
	char *at;

	choose_page(run, part, index, &page, &mapping);
	stored = &state.stored[stored_at(run, page, index)];
	at = chunk_at(mapping, page / CHUNK_PAGES) + page % CHUNK_PAGES * PAGE_BYTES;
	if (checked_store((uint64_t *)(void *)at + index, word_of(*stored + 1)))
		part->refused++;
	else
		++*stored;
}

static void store_some(const struct run *run, struct part *part, unsigned int index)
{
	for (unsigned int i = 0; i < STORES; i++)
		store_next(run, part, index);
}

/* --set plant=1: what is said to have been stored was not, and the next sync must tell. Return: whether it was done. */
static bool plant_lost_store(const struct run *run, unsigned int index)
{
	if (!state.is_planted)
		return false;
	state.stored[stored_at(run, 0, index)]++;
	state.is_planted = false;
	return true;
}

static int lost(struct run *run, const char *where, const char *how, uint64_t page, unsigned int index,
		uint32_t expected, uint64_t word)
{
	return workload_fail(run, "lost: page %llu has 0x%llx in %s after %s, where thread %u had stored 0x%llx",
			     (unsigned long long)page, (unsigned long long)word, where, how, index,
			     (unsigned long long)word_of(expected));
}

/* Read until that thread's word is one that was written, for a newer one may be on its way there just now. */
static int read_page(struct run *run, uint64_t page, unsigned int index, uint64_t *words)
{
	unsigned int looks = 0;

	do {
		const int error = backing_store_read(&state.store, page, words);

		if (error)
			return workload_fail(run, "the store cannot be read: %s", strerror(-error));
		if (looks++)
			cpu_pause();
	} while (!is_whole(words[index]) && looks < LOOKS_MAX);
	return 0;
}

/* The page in the store against what had been promised. */
static int look(struct run *run, struct part *part, const char *how, uint64_t page)
{
	static _Thread_local _Alignas(PAGE_BYTES) uint64_t words[PAGE_WORDS];
	int error = read_page(run, page, 0, words);

	for (unsigned int i = 0; i < run->threads && !error; i++) {
		const uint64_t n = stored_at(run, page, i);

		if (!is_whole(words[i]))
			error = read_page(run, page, i, words);
		if (error)
			break;
		if (!is_whole(words[i]) || (uint32_t)words[i] < part->promised[n])
			return lost(run, "the store", how, page, i, part->promised[n], words[i]);
		part->checked += part->promised[n] != part->seen[n];
		part->seen[n] = part->promised[n];
	}
	return error;
}

/* Return: whether it returned success. A range that was away just then promises nothing. */
static bool sync_range(struct run *run, enum by by, uint64_t mapping, uint64_t first, uint64_t pages)
{
	const off_t start = (off_t)(first * PAGE_BYTES), bytes = (off_t)(pages * PAGE_BYTES);
	int error = 0;

	switch (by) {
	case MSYNC:
		error = msync(chunk_at(mapping, first / CHUNK_PAGES) + first % CHUNK_PAGES * PAGE_BYTES, (size_t)bytes,
			      MS_SYNC);
		if (error && errno == ENOMEM)
			return false;
		break;
	case FSYNC:
		error = fsync(state.file);
		break;
	case FDATASYNC:
		error = fdatasync(state.file);
		break;
	case SYNC_FILE_RANGE:
		error = sync_file_range(state.file, start, bytes, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
								    SYNC_FILE_RANGE_WAIT_AFTER);
		break;
	default:
		error = syncfs(state.file);
		break;
	}
	if (error)
		workload_fail(run, "%s: %s", by_names[by], strerror(errno));
	return !error;
}

static void sync_and_look(struct run *run, struct part *part, enum by by)
{
	const bool is_whole_file = by == FSYNC || by == FDATASYNC || by == SYNCFS;
	uint64_t first = draw(part, state.pages), most = state.pages - first;
	uint64_t pages, mapping = draw(part, MAPPINGS);

	/* One msync() for one mapping: a chunk may be elsewhere than its neighbour. */
	if (by == MSYNC)
		most = CHUNK_PAGES - first % CHUNK_PAGES;
	pages = 1 + draw(part, most);
	if (is_whole_file) {
		first = 0;
		pages = state.pages;
	}
	part->sum = checksum_add(part->sum, (uint64_t)by << 30 | first << 20 | pages << 10 | mapping);
	for (uint64_t n = stored_at(run, first, 0); n < stored_at(run, first + pages, 0); n++)
		part->promised[n] = state.stored[n];
	if (!sync_range(run, by, mapping, first, pages))
		return;
	for (uint64_t page = first; page < first + pages; page++)
		if (look(run, part, by_names[by], page))
			return;
}

static int map_chunk(char *at, uint64_t chunk)
{
	return mmap(at, CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, state.file,
		    (off_t)(chunk * CHUNK_BYTES)) == at ? 0 : -1;
}

/* One thread alone changes mappings, and nobody else maps anything: what is moved leaves a hole. */
static void change_chunk(struct run *run, struct part *part)
{
	const uint64_t mapping = draw(part, MAPPINGS), chunk = draw(part, state.chunks);
	const enum change change = (enum change)draw(part, CHANGES);
	const unsigned char side = state.at[mapping][chunk];
	char *at = chunk_at(mapping, chunk), *to;
	int error = 0;

	switch (change) {
	case READ_ONLY:
		error = mprotect(at, CHUNK_BYTES, PROT_READ);
		for (uint64_t i = draw(part, READ_ONLY_PAUSES); i; i--)
			cpu_pause();
		error |= mprotect(at, CHUNK_BYTES, PROT_READ | PROT_WRITE);
		break;
	case MOVE:
		to = state.side[mapping][!side] + chunk * CHUNK_BYTES;
		error = mremap(at, CHUNK_BYTES, CHUNK_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to;
		state.at[mapping][chunk] = !side;
		break;
	case DISCARD:
		error = madvise(at, CHUNK_BYTES, MADV_DONTNEED);
		break;
	case PAGE_OUT:
		error = madvise(at, CHUNK_BYTES, MADV_PAGEOUT);
		break;
	default:
		error = munmap(at, CHUNK_BYTES);
		error |= map_chunk(at, chunk);
		break;
	}
	if (error)
		workload_fail(run, "a change of a mapping was refused: %s", strerror(errno));
}

/* In the child: the forking thread's counters go on meanwhile. */
static int store_and_exit(void *argument)
{
	struct run *run = argument;

	for (unsigned int i = 0; i < CHILD_STORES; i++)
		store_next(run, &state.parts[FORK], FORK);
	return 0;
}

static void fork_child(struct run *run, struct part *part)
{
	const int pid = process_start((unsigned int)draw(part, run->threads), store_and_exit, run);

	if (pid < 0)
		workload_fail(run, "no child process: %s", strerror(-pid));
	else if (process_join(pid))
		workload_fail(run, "a child process failed");
}

static void cut_tail(struct run *run, struct part *part)
{
	const uint64_t whole = state.chunks * CHUNK_BYTES;
	const uint64_t bytes = state.pages * PAGE_BYTES + draw(part, TAIL_CHUNKS * CHUNK_BYTES);

	if (ftruncate(state.file, (off_t)bytes) || ftruncate(state.file, (off_t)whole))
		workload_fail(run, "the file cannot be cut or extended: %s", strerror(errno));
}

static unsigned int sync_threads(const struct run *run)
{
	return (run->threads - SYNC + 1) / 2;
}

static void sync_all(struct run *run, struct part *part, unsigned int index)
{
	const unsigned int number = (index - SYNC) / 2, threads = sync_threads(run);
	const uint64_t units = run->units / threads + (number < run->units % threads);

	for (; part->done < units && !run->has_failed; part->done++) {
		enum by by = state.by == BYS ? (enum by)draw(part, BYS) : state.by;

		state.syncs++;
		store_some(run, part, index);
		if (part->done == units / 2 && number == 0 && plant_lost_store(run, index))
			by = FSYNC;
		sync_and_look(run, part, by);
	}
	state.syncing--;
}

static void take_part(struct run *run, unsigned int index)
{
	struct part *part = &state.parts[index];
	const enum role role = role_of(index);

	if (role == SYNC) {
		sync_all(run, part, index);
		return;
	}
	while (state.syncing && !run->has_failed) {
		store_some(run, part, index);
		if (role > CUT || !(state.syncs / PHASE_SYNCS >> role & 1))
			continue;
		if (role == CHANGE)
			change_chunk(run, part);
		else if (role == FORK)
			fork_child(run, part);
		else
			cut_tail(run, part);
		part->done++;
	}
}

/* At the end both must have exactly the last word of every thread: the file, and the store after an fsync. */
static int look_at_all(struct run *run)
{
	struct part *part = &state.parts[SYNC];
	uint64_t words[PAGE_WORDS];

	for (uint64_t page = 0; page < state.pages; page++) {
		if (pread(state.file, words, sizeof(words), (off_t)(page * PAGE_BYTES)) != sizeof(words))
			return workload_fail(run, "page %llu of the file cannot be read", (unsigned long long)page);
		for (unsigned int i = 0; i < run->threads; i++) {
			const uint32_t stored = state.stored[stored_at(run, page, i)];

			part->promised[stored_at(run, page, i)] = stored;
			if (words[i] != word_of(stored))
				return lost(run, "the file", "everything", page, i, stored, words[i]);
		}
	}
	if (fsync(state.file))
		return workload_fail(run, "fsync: %s", strerror(errno));
	for (uint64_t page = 0; page < state.pages; page++)
		if (look(run, part, "the last fsync", page))
			return -EIO;
	return 0;
}

static int make_file(struct run *run)
{
	static uint64_t words[PAGE_WORDS];

	state.file = mapped_file_on_chosen(run, state.chunks * CHUNK_PAGES);
	if (state.file < 0)
		return state.file;
	for (uint64_t i = 0; i < PAGE_WORDS; i++)
		words[i] = word_of(0);
	for (uint64_t page = 0; page < state.chunks * CHUNK_PAGES; page++)
		if (pwrite(state.file, words, sizeof(words), (off_t)(page * PAGE_BYTES)) != sizeof(words))
			return workload_fail(run, "the file cannot be written: %s", strerror(errno));
	if (fsync(state.file))
		return workload_fail(run, "fsync: %s", strerror(errno));
	return backing_store_open(run, &state.store, state.file, state.pages);
}

static int map_file(struct run *run)
{
	const size_t bytes = state.chunks * CHUNK_BYTES;

	for (uint64_t mapping = 0; mapping < MAPPINGS; mapping++) {
		for (uint64_t side = 0; side < SIDES; side++) {
			state.side[mapping][side] = area_reserve(bytes);
			if (!state.side[mapping][side] || munmap(state.side[mapping][side], bytes))
				return workload_fail(run, "no address space");
		}
		for (uint64_t chunk = 0; chunk < state.chunks; chunk++)
			if (map_chunk(chunk_at(mapping, chunk), chunk))
				return workload_fail(run, "the file cannot be mapped: %s", strerror(errno));
	}
	return 0;
}

static int choose_by(struct run *run)
{
	const char *by = option_text("by", NULL);

	for (state.by = 0; state.by < BYS && by && strcmp(by, by_names[state.by]); state.by++)
		;
	if (!by)
		state.by = BYS;
	else if (state.by == BYS)
		return workload_fail(run, "by is msync, fsync, fdatasync, sync_file_range or syncfs, not %s", by);
	return 0;
}

static int setup(struct run *run)
{
	uint64_t counters;
	int error;

	state.file = state.store.fd = -1;
	state.pages = option_u64("pages", 64);
	state.is_planted = option_u64("plant", 0);
	if (!state.pages || state.pages > PAGES_MAX || state.pages % CHUNK_PAGES)
		return workload_fail(run, "pages is a multiple of %lu, and at most %lu", CHUNK_PAGES, PAGES_MAX);
	state.chunks = state.pages / CHUNK_PAGES + TAIL_CHUNKS;
	state.syncing = sync_threads(run);
	counters = stored_at(run, state.chunks * CHUNK_PAGES, 0);
	state.stored = mmap(NULL, counters * sizeof(*state.stored), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (state.stored == MAP_FAILED)
		return workload_fail(run, "no memory for %llu counters", (unsigned long long)counters);
	for (unsigned int i = 0; i < run->threads; i++) {
		struct part *part = &state.parts[i];

		part->random = run->seed + i;
		part->sum = CHECKSUM_SEED;
		if (role_of(i) != SYNC)
			continue;
		part->promised = calloc(counters, sizeof(*part->promised));
		part->seen = calloc(counters, sizeof(*part->seen));
		if (!part->promised || !part->seen)
			return workload_fail(run, "no memory for %llu counters", (unsigned long long)counters);
	}
	error = choose_by(run);
	if (!error)
		error = make_file(run);
	if (!error)
		error = checked_load_open(run);
	return error ? error : map_file(run);
}

static int measure(struct run *run)
{
	uint64_t checked = 0, refused = 0;

	team_run(run, take_part);
	if (run->has_failed || look_at_all(run))
		return -EIO;
	for (unsigned int i = 0; i < run->threads; i++) {
		checked += state.parts[i].checked;
		refused += state.parts[i].refused;
		run->checksum = checksum_add(run->checksum, state.parts[i].sum);
	}
	report_extra(run, "checked_promises", (double)checked);
	report_extra(run, "refused_stores", (double)refused);
	report_extra(run, "changed_mappings", (double)state.parts[CHANGE].done);
	report_extra(run, "forked_children", (double)state.parts[FORK].done);
	report_extra(run, "cut_tails", (double)state.parts[CUT].done);
	return 0;
}

static void teardown(struct run *run)
{
	backing_store_close(&state.store);
	for (unsigned int i = 0; i < run->threads; i++) {
		free(state.parts[i].promised);
		free(state.parts[i].seen);
	}
	if (state.file >= 0)
		close(state.file);
}

WORKLOAD(synced) = {
	.name = "synced",
	.group = "stress",
	.unit = "sync",
	.about = "Threads write a mapped file while others sync it and its mappings change: all that was written before a "
		 "sync must be in the store beneath.",
	.needs = "ext2",
	.units = 1000,
	.threads_min = 4,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
