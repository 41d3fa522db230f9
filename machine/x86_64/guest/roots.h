/* SPDX-License-Identifier: GPL-2.0-only */
/* An address space with two roots, the tables of which are different ones. */
#ifndef GUEST_ROOTS_H
#define GUEST_ROOTS_H

#include "rules.h"

struct two_roots {
	uint64_t mine, other;
	/* In both: two pages that one page table maps, and one that another does. */
	uint64_t page, beside, below;
};

static inline struct two_roots two_roots(void)
{
	struct two_roots it = { .mine = space(), .other = space(), .page = window(PAGE_1G + PAGE_2M * 2) };

	it.beside = it.page + PAGE_BYTES;
	it.below = it.page + PAGE_2M;
	for (unsigned int i = 0; i < 2; i++) {
		page_make(i ? it.other : it.mine, it.page, W | U | A | D);
		page_make(i ? it.other : it.mine, it.beside, W | U | A | D);
		page_make(i ? it.other : it.mine, it.below, W | U | A | D);
	}
	return it;
}

#endif
