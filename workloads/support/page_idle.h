/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * /sys/kernel/mm/page_idle/bitmap, by address of this process. Marking a page
 * idle clears its access bits, and asking whether it still is does so again.
 * Pages that wait in a CPU's batch for their LRU list are passed over by the
 * kernel: the caller of page_idle_set() has brought in the pages itself, and
 * its own batch is emptied.
 */
#ifndef CEASEFIRE_PAGE_IDLE_H
#define CEASEFIRE_PAGE_IDLE_H

#include "workload.h"

struct page_idle {
	int pagemap, bitmap;
	uint64_t *frames;	/* of the pages noted */
	uint64_t count, max;
	bool is_sorted;
	void *nothing;		/* an address that nobody uses */
};

/* For at most pages_max pages at a time. Return: 0, or what workload_skip() or workload_fail() gave. */
int page_idle_open(struct run *run, struct page_idle *idle, uint64_t pages_max);
void page_idle_close(struct page_idle *idle);
/* Whether the kernel has it and this process may use it. */
bool page_idle_available(void);

/* Forget the pages noted, and note those present in this range. */
void page_idle_forget(struct page_idle *idle);
int page_idle_note(struct page_idle *idle, const void *start, uint64_t pages);
/* Mark all noted pages idle. Return: 0 or -errno. */
int page_idle_set(struct page_idle *idle);
/* How many of them are idle still: nobody has used them, and no access bit is set. */
uint64_t page_idle_count(struct page_idle *idle);

#endif
