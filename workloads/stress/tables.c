// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page tables that are moved and freed while others walk through them.
 *
 * The first thread maps 2 MiB, so that they have a page table of their own, and
 * writes words to some of its pages. Then, by turns:
 *
 *   moved	every reader reads them, and keeps the page table at hand; mremap() takes
 *		it to another place, with all that it maps, and new pages are mapped in
 *		the old one. Readers that lag see the old words there.
 *   freed	nobody else reads them; readers go on beside, so that only speculation
 *		brings the page table into their caches. munmap() frees it. New pages are
 *		mapped, with a page table of their own, and readers read them.
 *
 * All the time readers have the kernel walk the page tables without a lock, too: a
 * shared futex is looked up by get_user_pages_fast().
 *
 * device=1: a device has a notifier for the address space, as if it walked these page
 * tables (the kernel's test device for that, /dev/hmm_dmirror0).
 *
 * What is done depends on seed and units alone.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "workload.h"

#define TABLE_BYTES (512 * PAGE_BYTES)
#define PLACES 2U
/* Each place is a page table apart from what is beside it, which readers use. */
#define AREA_BYTES ((2 * PLACES + 2) * TABLE_BYTES)
#define WORDS 8U
/* The first slots of a place stay empty: what speculation finds there marks nothing. */
#define FIRST_PAGE 16U
#define DEVICE "/dev/hmm_dmirror0"
#define LEAVE UINT64_MAX

static struct {
	char *raw, *area;
	int device;
	unsigned int pages[WORDS];		/* of a place, that have words */
	_Atomic uint64_t generation;		/* what readers read: of this one, LEAVE, or 0: what is beside */
	_Atomic uint64_t words[PLACES];		/* the generation of the words of a place, or 0: not to be read */
	_Atomic uint64_t seen[THREADS_MAX];
	uint64_t random;
} state;

static char *place_at(unsigned int place)
{
	return state.area + (2 * place + 1) * TABLE_BYTES;
}

static volatile uint64_t *word_at(unsigned int place, unsigned int index)
{
	return (volatile uint64_t *)(place_at(place) + state.pages[index] * PAGE_BYTES);
}

static uint64_t word_of(uint64_t generation, unsigned int place, unsigned int index)
{
	return generation << 16 | place << 8 | (index + 1);
}

static void read_place(struct run *run, unsigned int place, uint64_t generation)
{
	for (unsigned int i = 0; i < WORDS; i++) {
		const uint64_t wanted = word_of(generation, place, i), word = *word_at(place, i);

		if (word != wanted)
			workload_fail(run, "stale read: 0x%llx at %p, and should be 0x%llx", (unsigned long long)word,
				      (void *)word_at(place, i), (unsigned long long)wanted);
	}
	syscall(SYS_futex, (uint32_t *)(uintptr_t)word_at(place, generation % WORDS), FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Of the page tables before each place, their last page: the next one is the place's first. */
static void read_beside(void)
{
	for (unsigned int place = 0; place < PLACES; place++)
		(void)*(volatile uint64_t *)(place_at(place) - PAGE_BYTES);
}

static void read_always(struct run *run, unsigned int index)
{
	for (uint64_t generation; (generation = atomic_load(&state.generation)) != LEAVE;) {
		for (unsigned int place = 0; generation && place < PLACES; place++) {
			const uint64_t of = atomic_load(&state.words[place]);

			if (of)
				read_place(run, place, of);
		}
		read_beside();
		atomic_store(&state.seen[index], generation);
		cpu_pause();
	}
}

/* All readers have read what they now may, or nothing but what is beside. */
static void readers_read(struct run *run, uint64_t generation)
{
	atomic_store(&state.generation, generation);
	for (unsigned int i = 1; i < run->threads; i++)
		while (atomic_load(&state.seen[i]) != generation)
			cpu_pause();
}

static int map_words(struct run *run, unsigned int place, uint64_t generation)
{
	char *at = place_at(place);

	if (mmap(at, TABLE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at ||
	    madvise(at, TABLE_BYTES, MADV_NOHUGEPAGE))
		return workload_fail(run, "2 MiB cannot be mapped: %s", strerror(errno));
	for (unsigned int i = 0; i < WORDS; i++) {
		*word_at(place, i) = word_of(generation, place, i);
		run->checksum = checksum_add(run->checksum, word_of(generation, place, i));
	}
	return 0;
}

static int unmap(struct run *run, unsigned int place)
{
	return munmap(place_at(place), TABLE_BYTES) ? workload_fail(run, "munmap was refused: %s", strerror(errno)) : 0;
}

static int move(struct run *run, uint64_t generation)
{
	char *from = place_at(0), *to = place_at(1);

	if (map_words(run, 0, generation))
		return -EIO;
	state.words[0] = generation;
	readers_read(run, generation);
	state.words[0] = 0;
	readers_read(run, 0);
	if (mremap(from, TABLE_BYTES, TABLE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
		return workload_fail(run, "mremap was refused: %s", strerror(errno));
	if (map_words(run, 0, generation + 1))
		return -EIO;
	/* The words came along, so they say where they were. */
	for (unsigned int i = 0; i < WORDS; i++) {
		if (*word_at(1, i) != word_of(generation, 0, i))
			return workload_fail(run, "a word did not come along with its page table");
		*word_at(1, i) = word_of(generation, 1, i);
	}
	state.words[0] = generation + 1;
	state.words[1] = generation;
	readers_read(run, generation + 1);
	state.words[0] = state.words[1] = 0;
	readers_read(run, 0);
	return unmap(run, 0) || unmap(run, 1) ? -EIO : 0;
}

static int release(struct run *run, uint64_t generation)
{
	if (map_words(run, 0, generation) || unmap(run, 0) || map_words(run, 0, generation + 1))
		return -EIO;
	state.words[0] = generation + 1;
	readers_read(run, generation + 1);
	state.words[0] = 0;
	readers_read(run, 0);
	return unmap(run, 0);
}

static void take_part(struct run *run, unsigned int index)
{
	if (index) {
		read_always(run, index);
		return;
	}
	for (uint64_t i = 0; i < run->units && !run->has_failed; i++) {
		const uint64_t generation = 2 * i + 1;

		for (unsigned int k = 0; k < WORDS; k++)
			state.pages[k] = FIRST_PAGE + k * 32 + (unsigned int)(random_next(&state.random) % 32);
		if (i % 2 ? release(run, generation) : move(run, generation))
			break;
	}
	atomic_store(&state.generation, LEAVE);
}

static int setup(struct run *run)
{
	state.raw = mmap(NULL, AREA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (state.raw == MAP_FAILED) {
		state.raw = NULL;
		return workload_fail(run, "no address space");
	}
	state.area = (char *)(((uintptr_t)state.raw + TABLE_BYTES - 1) & ~(TABLE_BYTES - 1));
	state.random = run->seed;
	for (unsigned int place = 0; place < PLACES; place++) {
		char *beside = place_at(place) - PAGE_BYTES;

		/* Nothing else near: the page table of a place is freed with it. */
		if (munmap(place_at(place), TABLE_BYTES) || mprotect(beside, PAGE_BYTES, PROT_READ | PROT_WRITE))
			return workload_fail(run, "address space cannot be divided: %s", strerror(errno));
		*beside = 1;
	}
	if (!option_u64("device", 0))
		return 0;
	state.device = open(DEVICE, O_RDWR | O_CLOEXEC);
	if (state.device < 0)
		return workload_skip(run, "device=1 needs " DEVICE ": enable CONFIG_TEST_HMM, as root");
	return 0;
}

static int measure(struct run *run)
{
	team_run(run, take_part);
	if (run->has_failed)
		return -EIO;
	report_extra(run, "stale_reads", 0);
	return 0;
}

static void teardown(struct run *run)
{
	(void)run;
	if (state.device > 0)
		close(state.device);
	if (state.raw)
		munmap(state.raw, AREA_BYTES);
	memset(&state, 0, sizeof(state));
}

WORKLOAD(tables) = {
	.name = "tables",
	.group = "stress",
	.unit = "page table moved or freed",
	.about = "Page tables are moved by mremap and freed by munmap while others walk through them: nobody may read what "
		 "they led to before.",
	.units = 1000,
	.threads_min = 2,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
