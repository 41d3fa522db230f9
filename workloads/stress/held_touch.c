// SPDX-License-Identifier: GPL-2.0-only
/* The threads that hold the pages, and flush everything where pages race. See held.c. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "held.h"
#include "support/checked_load.h"

/* Return: false if a page is gone. */
static bool touch_region(unsigned int region)
{
	for (uint64_t page = 0; page < REGION_PAGES; page++)
		if (checked_load(held_page(region, page)).has_faulted)
			return false;
	return true;
}

void held_pause(uint64_t times)
{
	for (uint64_t i = 0; i < times; i++)
		cpu_pause();
}

/* A round or two beside those of others: advice needs no lock against them. */
static void flush_all(unsigned int flusher, uint64_t random)
{
	volatile char *at = region_at(&held.flushed, flusher);

	held_pause(random % 4);
	for (unsigned int i = 0; i < (random & 0x300 ? 1U : 2U); i++) {
		(void)madvise((void *)at, FLUSHER_BYTES, MADV_COLD);
		/* The next one needs accessed bits, or it would flush nothing. */
		for (uint64_t page = 0; page < FLUSHER_PAGES; page++)
			(void)at[page * PAGE_BYTES];
	}
}

void held_touch_always(unsigned int index)
{
	struct toucher *self = &held.touchers[index];
	unsigned int gone = 0, raced = 0;

	for (;;) {
		const unsigned int turn = held.turn, races = held.races;
		const enum order order = held.order;

		if (order == LEAVE)
			return;
		if (index <= held.flushers && raced != races) {
			flush_all(index - 1, random_next(&self->random));
			raced = races;
		} else if (order != REST && gone != turn) {
			/* A page that is gone faults each time: no more of that until the next turn. */
			if (!touch_region(held.region))
				gone = turn;
		}
		atomic_fetch_add(&self->passes, 1);
		cpu_pause();
	}
}

void held_wait(const struct run *run)
{
	uint64_t seen[THREADS_MAX];

	for (unsigned int i = 1; i < run->threads; i++)
		seen[i] = held.touchers[i].passes;
	for (unsigned int i = 1; i < run->threads; i++)
		while (held.touchers[i].passes < seen[i] + 2)
			cpu_pause();
}

void held_all_touch(const struct run *run, unsigned int region)
{
	held.region = region;
	held.turn++;
	held.order = TOUCH;
	held_wait(run);
}

void held_all_rest(const struct run *run)
{
	held.order = REST;
	held_wait(run);
}
