// SPDX-License-Identifier: GPL-2.0-only
/* See rounds.h. */
#include "support/rounds.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define ROUND_PAGES 256UL
#define ROUND_BYTES (ROUND_PAGES * PAGE_BYTES)

static char *area;

int rounds_open(struct run *run)
{
	area = area_reserve(ROUND_BYTES);
	if (!area || mprotect(area, ROUND_BYTES, PROT_READ | PROT_WRITE))
		return workload_fail(run, "no address space for %lu pages", ROUND_PAGES);
	return 0;
}

void rounds_close(void)
{
	area_release(area, ROUND_BYTES);
	area = NULL;
}

int rounds_run(struct run *run, uint64_t count)
{
	for (uint64_t round = 0; round < count; round++) {
		/* Their access bits are set: this flush is never needless. */
		for (uint64_t i = 0; i < ROUND_PAGES; i++)
			((volatile char *)area)[i * PAGE_BYTES] = 1;
		if (mprotect(area, ROUND_BYTES, PROT_READ) || mprotect(area, ROUND_BYTES, PROT_READ | PROT_WRITE))
			return workload_fail(run, "mprotect of %lu pages was refused: %s", ROUND_PAGES, strerror(errno));
		let_others_run();
	}
	return 0;
}
