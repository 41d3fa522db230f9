// SPDX-License-Identifier: GPL-2.0-only
/* See page_idle.h. */
#define _GNU_SOURCE
#include "support/page_idle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BITMAP "/sys/kernel/mm/page_idle/bitmap"
#define PAGEMAP_PRESENT (1ULL << 63)
#define PAGEMAP_FRAME ((1ULL << 55) - 1)
#define FRAMES_PER_WORD 64
#define WORDS_MAX 64	/* of the bitmap in one call */

bool page_idle_available(void)
{
	return access(BITMAP, R_OK | W_OK) == 0;
}

int page_idle_open(struct run *run, struct page_idle *idle, uint64_t pages_max)
{
	*idle = (struct page_idle){ .pagemap = -1, .bitmap = -1, .max = pages_max };
	if (access(BITMAP, F_OK) != 0)
		return workload_skip(run, "needs idle page tracking: enable CONFIG_IDLE_PAGE_TRACKING");
	idle->bitmap = open(BITMAP, O_RDWR | O_CLOEXEC);
	if (idle->bitmap < 0)
		return workload_skip(run, "needs root to mark pages idle");
	idle->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (idle->pagemap < 0)
		return workload_skip(run, "needs /proc/self/pagemap: enable CONFIG_PROC_PAGE_MONITOR");
	idle->nothing = mmap(NULL, PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (idle->nothing == MAP_FAILED)
		return workload_fail(run, "mmap of one page was refused: %s", strerror(errno));
	idle->frames = calloc(pages_max, sizeof(*idle->frames));
	if (!idle->frames)
		return workload_fail(run, "no memory for a list of %llu pages", (unsigned long long)pages_max);
	return 0;
}

void page_idle_close(struct page_idle *idle)
{
	/* Zeroed, it was never opened. */
	if (idle->max && idle->bitmap >= 0)
		close(idle->bitmap);
	if (idle->max && idle->pagemap >= 0)
		close(idle->pagemap);
	if (idle->nothing && idle->nothing != MAP_FAILED)
		munmap(idle->nothing, PAGE_BYTES);
	free(idle->frames);
	*idle = (struct page_idle){ .max = 0 };
}

void page_idle_forget(struct page_idle *idle)
{
	idle->count = 0;
	idle->is_sorted = false;
}

int page_idle_note(struct page_idle *idle, const void *start, uint64_t pages)
{
	uint64_t *entry = idle->frames + idle->count, kept = 0;
	ssize_t got;

	if (pages > idle->max - idle->count)
		return -ENOSPC;
	got = pread(idle->pagemap, entry, pages * sizeof(*entry),
		    (off_t)((uintptr_t)start / PAGE_BYTES * sizeof(*entry)));
	if (got != (ssize_t)(pages * sizeof(*entry)))
		return got < 0 ? -errno : -EIO;
	for (uint64_t i = 0; i < pages; i++)
		if (entry[i] & PAGEMAP_PRESENT)
			entry[kept++] = entry[i] & PAGEMAP_FRAME;
	idle->count += kept;
	idle->is_sorted = false;
	return 0;
}

static int by_number(const void *a, const void *b)
{
	const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

/*
 * The bitmap's words that the frames from *at on lie in, as far as they follow
 * each other. Return: how many; *at moves on and *first is the first one's index.
 */
static unsigned int next_words(const struct page_idle *idle, uint64_t *at, uint64_t words[WORDS_MAX], uint64_t *first)
{
	unsigned int count = 0;

	*first = idle->frames[*at] / FRAMES_PER_WORD;
	for (; *at < idle->count; ++*at) {
		const uint64_t word = idle->frames[*at] / FRAMES_PER_WORD - *first;

		if (word > count || word >= WORDS_MAX)
			break;
		if (word == count)
			words[count++] = 0;
		words[word] |= 1ULL << idle->frames[*at] % FRAMES_PER_WORD;
	}
	return count;
}

static void sort(struct page_idle *idle)
{
	if (!idle->is_sorted)
		qsort(idle->frames, idle->count, sizeof(*idle->frames), by_number);
	idle->is_sorted = true;
}

int page_idle_set(struct page_idle *idle)
{
	uint64_t words[WORDS_MAX], first;

	/* Advice that concerns no page empties this CPU's batch, and flushes nothing. */
	(void)madvise(idle->nothing, PAGE_BYTES, MADV_COLD);
	sort(idle);
	for (uint64_t at = 0; at < idle->count;) {
		const ssize_t bytes = (ssize_t)(next_words(idle, &at, words, &first) * sizeof(*words));
		const ssize_t put = pwrite(idle->bitmap, words, (size_t)bytes, (off_t)(first * sizeof(*words)));

		if (put < 0)
			return -errno;
		/* Where memory ends within a word, the kernel heeds it and does not count it. */
		if (put < bytes - (ssize_t)sizeof(*words))
			return -EIO;
	}
	return 0;
}

uint64_t page_idle_count(struct page_idle *idle)
{
	uint64_t words[WORDS_MAX], now[WORDS_MAX], first, idle_pages = 0;

	sort(idle);
	for (uint64_t at = 0; at < idle->count;) {
		const unsigned int count = next_words(idle, &at, words, &first);
		const ssize_t bytes = (ssize_t)(count * sizeof(*words));

		if (pread(idle->bitmap, now, (size_t)bytes, (off_t)(first * sizeof(*words))) != bytes)
			continue;
		for (unsigned int i = 0; i < count; i++)
			idle_pages += (unsigned int)__builtin_popcountll(words[i] & now[i]);
	}
	return idle_pages;
}
