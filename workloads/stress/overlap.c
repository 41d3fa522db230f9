// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flushes that are still to come: one thread finds empty what another one is
 * discarding, and its caller relies on a flush that has not been made.
 *
 * The first thread (the sweeper) writes words to some pages at the start of an
 * area, waits until every reader has read them, and discards the whole area in
 * one call, which takes page table after page table and flushes at its end. As
 * soon as a word's page is gone, the second thread (the picker) discards it
 * again, or maps a new page there, writes to it and discards that. Then it says
 * so, and from then on a reader that sees one of these words sees a page that
 * is gone. Readers read all the time, so that they keep what they hold.
 *
 * What is done depends on seed and units alone; when the two meet does not.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "support/system_files.h"

#define TABLE_PAGES 512UL
#define TABLE_BYTES (TABLE_PAGES * PAGE_BYTES)
#define TABLES 4UL
#define TABLES_MAX 512UL
#define PROBES 4U
#define PAGEMAP_PRESENT (1ULL << 63)
#define WAIT_TURNS 48U
#define LEAVE UINT64_MAX

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

enum switching { NOT, BEFORE, DURING };

struct reader {
	_Alignas(64) _Atomic uint64_t passes;
};

static struct {
	char *raw, *area;
	uint64_t tables;
	enum switching switching;
	char mode[16];
	int pagemap;
	struct reader readers[THREADS_MAX];
	_Atomic uint64_t sweep;		/* generation that the picker may meet */
	_Atomic uint64_t swept;		/* ... whose sweep is over */
	_Atomic uint64_t picked;	/* ... that the picker is done with */
	_Atomic uint64_t floors[PROBES];	/* no word up to this one may be read any more */
	_Atomic bool stop;
	_Atomic uint64_t switch_ns;	/* what it took the last time */
	uint64_t random, seen, met, sweeps_ns;
} state;

static uint64_t draw(uint64_t below)
{
	return random_next(&state.random) % below;
}

static volatile uint64_t *probe_at(unsigned int probe)
{
	return (volatile uint64_t *)(state.area + probe * PAGE_BYTES);
}

/* The sweeper's words are even, the picker's odd. */
static uint64_t swept_word(uint64_t generation)
{
	return 2 * generation;
}

static void raise_floor(unsigned int probe, uint64_t word)
{
	if (atomic_load(&state.floors[probe]) < word)
		atomic_store(&state.floors[probe], word);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

/* Readers */

static void read_always(struct run *run, unsigned int index)
{
	while (!state.stop) {
		for (unsigned int probe = 0; probe < PROBES; probe++) {
			const uint64_t floor = atomic_load(&state.floors[probe]);
			const uint64_t word = *probe_at(probe);

			if (!word || word > floor)
				continue;
			workload_fail(run, "stale read: word %llu at %p, and %llu was discarded", (unsigned long long)word,
				      (void *)probe_at(probe), (unsigned long long)floor);
			state.stop = true;
		}
		atomic_fetch_add(&state.readers[index].passes, 1);
		cpu_pause();
	}
}

static void wait_for_readers(const struct run *run)
{
	uint64_t seen[THREADS_MAX];

	for (unsigned int i = 2; i < run->threads; i++)
		seen[i] = state.readers[i].passes;
	for (unsigned int i = 2; i < run->threads; i++)
		while (state.readers[i].passes < seen[i] + 2 && !state.stop)
			cpu_pause();
}

/* The picker */

static bool is_present(unsigned int probe)
{
	uint64_t entry = PAGEMAP_PRESENT;
	const off_t at = (off_t)((uintptr_t)probe_at(probe) / PAGE_BYTES * sizeof(entry));

	return pread(state.pagemap, &entry, sizeof(entry), at) != sizeof(entry) || entry & PAGEMAP_PRESENT;
}

static void discard(struct run *run, unsigned int probe)
{
	if (madvise((void *)probe_at(probe), PAGE_BYTES, MADV_DONTNEED))
		workload_fail(run, "MADV_DONTNEED of one page was refused: %s", strerror(errno));
}

static void switch_on(struct run *run)
{
	const uint64_t begun = now_ns();

	if (file_write(mechanism_switch(), state.mode))
		workload_fail(run, "%s cannot be set to %s", mechanism_switch(), state.mode);
	state.switch_ns = now_ns() - begun;
}

static void pick_one(struct run *run, uint64_t generation)
{
	const unsigned int probe = (unsigned int)draw(PROBES);
	const bool refills = draw(2);
	uint64_t turns = draw(2) ? draw(WAIT_TURNS) : 0;

	if (state.switching == DURING)
		switch_on(run);
	while (is_present(probe) && state.swept != generation && !state.stop)
		cpu_pause();
	state.seen += state.swept != generation;
	while (turns-- && state.swept != generation)
		cpu_pause();
	if (refills)
		*probe_at(probe) = swept_word(generation) + 1;
	discard(run, probe);
	state.met += state.swept != generation;
	raise_floor(probe, swept_word(generation) + refills);
}

static void pick_always(struct run *run)
{
	for (uint64_t generation = 0;;) {
		const uint64_t last = generation;

		while ((generation = atomic_load(&state.sweep)) == last)
			cpu_pause();
		if (generation == LEAVE)
			return;
		pick_one(run, generation);
		atomic_store(&state.picked, generation);
	}
}

/* The sweeper */

static int switch_mode(struct run *run, const char *mode)
{
	const int error = file_write(mechanism_switch(), mode);

	return error ? workload_fail(run, "%s cannot be set to %s: %s", mechanism_switch(), mode, strerror(-error)) : 0;
}

static void sweep(struct run *run, uint64_t generation)
{
	uint64_t begun;

	if (state.switching == DURING && switch_mode(run, "off"))
		return;
	for (unsigned int probe = 0; probe < PROBES; probe++)
		*probe_at(probe) = swept_word(generation);
	if (madvise(state.area + TABLE_BYTES, (state.tables - 1) * TABLE_BYTES, MADV_POPULATE_READ)) {
		workload_fail(run, "MADV_POPULATE_READ was refused: %s", strerror(errno));
		return;
	}
	if (state.switching == BEFORE && (switch_mode(run, "off") || switch_mode(run, state.mode)))
		return;
	wait_for_readers(run);
	atomic_store(&state.sweep, generation);
	/* It is to begin before the mode is on, and to end after. */
	if (state.switching == DURING && state.switch_ns)
		nanosleep(&(struct timespec){ .tv_nsec = (long)(run->seed + generation * 7) % 16 * (long)state.switch_ns / 16 }, NULL);
	begun = now_ns();
	if (madvise(state.area, state.tables * TABLE_BYTES, MADV_DONTNEED))
		workload_fail(run, "MADV_DONTNEED was refused: %s", strerror(errno));
	atomic_store(&state.swept, generation);
	state.sweeps_ns += now_ns() - begun;
	for (unsigned int probe = 0; probe < PROBES; probe++)
		raise_floor(probe, swept_word(generation));
	while (atomic_load(&state.picked) != generation)
		cpu_pause();
}

static void take_part(struct run *run, unsigned int index)
{
	if (index > 1) {
		read_always(run, index);
		return;
	}
	if (index == 1) {
		pick_always(run);
		return;
	}
	for (uint64_t i = 1; i <= run->units && !run->has_failed; i++) {
		sweep(run, i);
		run->checksum = checksum_add(run->checksum, i);
	}
	state.stop = true;
	atomic_store(&state.sweep, LEAVE);
}

static int setup(struct run *run)
{
	const char *switching = option_text("switch", "no");

	state.tables = option_u64("tables", TABLES);
	if (state.tables < 2 || state.tables > TABLES_MAX)
		return workload_fail(run, "tables is %llu, and must be 2 to %lu", (unsigned long long)state.tables, TABLES_MAX);
	state.switching = !strcmp(switching, "before") ? BEFORE : !strcmp(switching, "during") ? DURING : NOT;
	if (state.switching == NOT && strcmp(switching, "no"))
		return workload_fail(run, "switch is no, before or during, not %s", switching);
	if (state.switching != NOT) {
		const int fd = open(mechanism_switch(), O_RDWR | O_CLOEXEC);
		const ssize_t got = fd < 0 ? -1 : read(fd, state.mode, sizeof(state.mode) - 1);

		if (fd >= 0)
			close(fd);
		if (got <= 0)
			return workload_skip(run, "switch needs a kernel with a mechanism, and root");
		state.mode[strcspn(state.mode, "\n")] = '\0';
	}
	state.raw = mmap(NULL, (state.tables + 1) * TABLE_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (state.raw == MAP_FAILED)
		return workload_fail(run, "no address space for %llu page tables", (unsigned long long)state.tables);
	(void)madvise(state.raw, (state.tables + 1) * TABLE_BYTES, MADV_NOHUGEPAGE);
	state.area = (char *)(((uintptr_t)state.raw + TABLE_BYTES - 1) / TABLE_BYTES * TABLE_BYTES);
	state.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (state.pagemap < 0)
		return workload_skip(run, "needs /proc/self/pagemap: enable CONFIG_PROC_PAGE_MONITOR");
	state.random = run->seed;
	return 0;
}

static int measure(struct run *run)
{
	team_run(run, take_part);
	if (run->has_failed)
		return -EIO;
	report_extra(run, "stale_reads", 0);
	report_extra(run, "found_empty_sweeps", (double)state.seen);
	report_extra(run, "met_sweeps", (double)state.met);
	report_extra(run, "sweep_us", (double)state.sweeps_ns / 1000 / (double)run->units);
	report_extra(run, "switch_us", (double)state.switch_ns / 1000);
	return 0;
}

static void teardown(struct run *run)
{
	(void)run;
	if (state.raw && state.raw != MAP_FAILED)
		munmap(state.raw, (state.tables + 1) * TABLE_BYTES);
	if (state.pagemap > 0)
		close(state.pagemap);
}

WORKLOAD(overlap) = {
	.name = "overlap",
	.group = "stress",
	.unit = "sweep",
	.about = "While one thread discards an area that all read, another one finds pages gone, discards or refills them at "
		 "once, and says so: no reader may see them any more.",
	.units = 400,
	.threads_min = 3,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
