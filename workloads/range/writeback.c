// SPDX-License-Identifier: GPL-2.0-only
/*
 * Many pages of a shared file mapping, which every thread has written, are written
 * back at once: by one thread's msync, fsync or sync_file_range, or by the kernel.
 *
 * Theory. Each page is write-protected before it is written back, so that the next
 * write is noticed: folio_clear_dirty_for_io() -> folio_mkclean() ->
 * page_vma_mkclean_one(), whose ptep_clear_flush() is a shootdown of its own,
 * page by page and mapping by mapping: sent = 1 and received = threads - 1 per
 * page. All other threads spin in user mode and hold every entry, so each of these
 * interrupts is needed. What could be saved is that there is one for every page: a
 * kernel that cleans the pages first and flushes once sends 1 / pages of it.
 *
 * by=kworker: syncfs() writes no page itself. It queues the file system's work and
 * waits for it: writeback_inodes_sb() and sync_inodes_sb() -> bdi_queue_work() ->
 * wb_workfn(), in a kernel thread of the work queue "writeback". The caller's CPU
 * is idle meanwhile, and an idle CPU is no target.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/mapped_file.h"

#define MAPPINGS_MAX 8UL

static struct {
	uint64_t pages, spread, mappings;
	bool goes_on_writing;
	const char *by;
	volatile uint64_t *words[MAPPINGS_MAX];
	int fd;
	_Atomic uint64_t rounds_synced;
	_Atomic uint64_t faults;	/* while a sync ran */
	bool is_done;
} state;

static uint64_t file_pages(void)
{
	return state.pages * state.spread;
}

static uint64_t page_word(uint64_t page)
{
	return page * state.spread * PAGE_WORDS;
}

/* What the writer of that number writes in that round. */
static uint64_t word_of(const struct run *run, uint64_t round, uint64_t page, uint64_t writer)
{
	uint64_t random = run->seed ^ round << 40 ^ page << 16 ^ writer;

	return random_next(&random);
}

/* A writer is a thread in a mapping: each has a word of its own in every page. */
static void write_pages(const struct run *run, unsigned int index, uint64_t round, uint64_t pages)
{
	for (uint64_t i = 0; i < state.mappings; i++) {
		const uint64_t writer = i * run->threads + index;

		for (uint64_t page = 0; page < pages; page++)
			state.words[i][page_word(page) + writer] = word_of(run, round, page, writer);
	}
}

static uint64_t faults_of_thread(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return (uint64_t)usage.ru_minflt;
}

static void sync_pages(struct run *run, uint64_t pages)
{
	const off_t bytes = (off_t)(((pages - 1) * state.spread + 1) * PAGE_BYTES);
	int error;

	if (!strcmp(state.by, "msync"))
		error = msync((void *)state.words[0], (size_t)bytes, MS_SYNC);
	else if (!strcmp(state.by, "fsync"))
		error = fsync(state.fd);
	else if (!strcmp(state.by, "kworker"))
		error = syncfs(state.fd);
	else
		error = sync_file_range(state.fd, 0, bytes, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
							    SYNC_FILE_RANGE_WAIT_AFTER);
	if (error)
		workload_fail(run, "%s of %llu pages: %s", state.by, (unsigned long long)pages, strerror(errno));
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void take_part(struct run *run, unsigned int index)
{
	uint64_t round = 1;

	for (uint64_t done = 0; done < run->units && !run->has_failed; done += state.pages, round++) {
		const uint64_t pages = smaller(state.pages, run->units - done);

		write_pages(run, index, round, pages);
		team_barrier(run);
		if (index == 0) {
			sync_pages(run, pages);
			state.rounds_synced = round;
		} else if (state.goes_on_writing) {
			const uint64_t before = faults_of_thread();

			while (state.rounds_synced < round)
				write_pages(run, index, round, pages);
			state.faults += faults_of_thread() - before;
		}
		team_barrier(run);
	}
}

static void write_first(struct run *run, unsigned int index)
{
	write_pages(run, index, 0, state.pages);
}

static int setup(struct run *run)
{
	state.pages = option_u64("pages", 512);
	state.spread = option_u64("spread", 1);
	state.mappings = option_u64("mappings", 1);
	state.goes_on_writing = option_u64("writing", 0);
	state.by = option_text("by", "msync");
	state.fd = -1;
	if (strcmp(state.by, "msync") && strcmp(state.by, "fsync") && strcmp(state.by, "sync_file_range") &&
	    strcmp(state.by, "kworker"))
		return workload_fail(run, "by is msync, fsync, sync_file_range or kworker, not %s", state.by);
	if (!state.pages || !state.spread)
		return workload_fail(run, "pages and spread are at least 1");
	if (!state.mappings || state.mappings > MAPPINGS_MAX || state.mappings * run->threads > PAGE_WORDS)
		return workload_fail(run, "mappings is 1 to %lu, and at most %lu for all threads together", MAPPINGS_MAX,
				     PAGE_WORDS);
	/* This process alone: each repeat is one of its own. */
	if (option_u64("refuse", 0) && mechanism_prctl(0))
		return workload_fail(run, "the mechanism's prctl was refused: %s", strerror(errno));
	state.fd = mapped_file_on_chosen(run, file_pages());
	if (state.fd < 0)
		return state.fd;
	for (uint64_t i = 0; i < state.mappings; i++) {
		void *at = mmap(NULL, file_pages() * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, state.fd, 0);

		if (at == MAP_FAILED)
			return workload_fail(run, "%llu pages of a file cannot be mapped: %s",
					     (unsigned long long)file_pages(), strerror(errno));
		state.words[i] = at;
	}
	/* As each later round finds them: in memory, mapped and clean. */
	team_run(run, write_first);
	if (fsync(state.fd))
		return workload_fail(run, "the file cannot be written back: %s", strerror(errno));
	return 0;
}

static int measure(struct run *run)
{
	team_run(run, take_part);
	if (run->has_failed)
		return -EIO;
	if (state.goes_on_writing)
		report_extra(run, "faults_per_page", (double)state.faults / (double)run->units);
	state.is_done = true;
	return 0;
}

/* The last round in which a page was written. */
static uint64_t last_round(const struct run *run, uint64_t page)
{
	const uint64_t whole = run->units / state.pages;

	return page < run->units % state.pages ? whole + 1 : whole;
}

/* Every word that was written is in the file. */
static void look_at_file(struct run *run)
{
	static uint64_t words[PAGE_WORDS];

	for (uint64_t page = 0; page < state.pages; page++) {
		const off_t at = (off_t)(page_word(page) * sizeof(words[0]));

		if (pread(state.fd, words, sizeof(words), at) != sizeof(words)) {
			workload_fail(run, "page %llu of the file cannot be read", (unsigned long long)page);
			return;
		}
		for (uint64_t writer = 0; writer < state.mappings * run->threads; writer++) {
			const uint64_t expected = word_of(run, last_round(run, page), page, writer);

			if (words[writer] != expected) {
				workload_fail(run, "page %llu of the file has 0x%llx where 0x%llx was written",
					      (unsigned long long)page, (unsigned long long)words[writer],
					      (unsigned long long)expected);
				return;
			}
			run->checksum = checksum_add(run->checksum, words[writer]);
		}
	}
}

static void teardown(struct run *run)
{
	for (uint64_t i = 0; i < MAPPINGS_MAX && state.words[i]; i++)
		munmap((void *)state.words[i], file_pages() * PAGE_BYTES);
	/* From the disk, not from memory, as far as it is there. */
	if (state.is_done && posix_fadvise(state.fd, 0, 0, POSIX_FADV_DONTNEED))
		workload_fail(run, "the file cannot be dropped from the page cache");
	if (state.is_done)
		look_at_file(run);
	if (state.fd >= 0)
		close(state.fd);
}

WORKLOAD(writeback) = {
	.name = "writeback",
	.group = "range",
	.unit = "page written back",
	.about = "Threads write all of --set pages=N pages (512) of a shared file mapping, and one syncs them at once: every "
		 "page is one shootdown to all.",
	.needs = "ext2",
	.units = 2048,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
