// SPDX-License-Identifier: GPL-2.0-only
/* How pages that every thread holds are changed. See held.c. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/mempolicy.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "held.h"

int held_refused(struct run *run, const char *what)
{
	return workload_fail(run, "%s of %lu pages was refused: %s", what, REGION_PAGES, strerror(errno));
}

int held_unmap(struct run *run, unsigned int region)
{
	return munmap(region_at(&held.area, region), REGION_BYTES) ? held_refused(run, "munmap") : 0;
}

int held_protect(struct run *run, unsigned int region)
{
	return mprotect(region_at(&held.area, region), REGION_BYTES, PROT_NONE) ? held_refused(run, "mprotect") : 0;
}

static int remap(struct run *run, unsigned int region)
{
	void *to = region_at(&held.spare, region);

	return mremap(region_at(&held.area, region), REGION_BYTES, REGION_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to ?
		       held_refused(run, "mremap") : 0;
}

static int migrate(struct run *run, unsigned int region)
{
	for (uint64_t page = 0; page < REGION_PAGES; page++)
		held.pages[page] = (void *)held_page(region, page);
	/* Without a list of nodes it tells where they are: a file's pages stay where they were moved. */
	if (syscall(SYS_move_pages, 0, REGION_PAGES, held.pages, NULL, held.status, 0) < 0)
		return held_refused(run, "move_pages");
	for (uint64_t page = 0; page < REGION_PAGES; page++)
		held.to[page] = (int)held.nodes[held.nodes[0] == (unsigned int)held.status[page]];
	return syscall(SYS_move_pages, 0, REGION_PAGES, held.pages, held.to, held.status, MPOL_MF_MOVE) < 0 ?
		       held_refused(run, "move_pages") : 0;
}

static int reclaim(struct run *run, unsigned int region)
{
	return madvise(region_at(&held.area, region), REGION_BYTES, MADV_PAGEOUT) ? held_refused(run, "MADV_PAGEOUT") : 0;
}

/* Written without being used: the kernel copies the file's page, and no walk sets its access bit. */
static int copy(struct run *run, unsigned int region)
{
	for (uint64_t page = 0; page < REGION_PAGES; page++) {
		const uint64_t word = page;

		if (pwrite(held.memory, &word, sizeof(word), (off_t)(uintptr_t)held_page(region, page)) != sizeof(word))
			return held_refused(run, "a write through /proc/self/mem");
	}
	return 0;
}

const struct change held_changes[HELD_CHANGES] = {
	{ .name = "munmap", .site = "zap", .backing = ANON, .takes_all = true, .one = held_unmap },
	{ .name = "mprotect", .site = "protect", .backing = ANON, .takes_all = true, .one = held_protect },
	{ .name = "remap", .site = "remap", .backing = ANON, .takes_all = true, .moves = true, .one = remap },
	{ .name = "migrate", .site = "migrate", .backing = ANON, .needs_nodes = true, .one = migrate },
	/* Clean pages: nothing is written out, and one flush serves all. */
	{ .name = "reclaim", .site = "reclaim", .backing = SHARED_FILE, .one = reclaim },
	{ .name = "copy", .site = "clear_flush", .backing = PRIVATE_FILE, .takes_all = true, .one = copy },
};
