// SPDX-License-Identifier: GPL-2.0-only
/* What goes on beside the writers and syncers of durable.c: one deed at a time, of mappings or of the file. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "durable.h"

#define CHILD_PAGES 32U
#define SOME_PAGES 256U		/* a part, where it is not all */
#define RECLAIM_FILE "/sys/fs/cgroup/ceasefire/memory.reclaim"
#define VM "/proc/sys/vm/"

struct part {
	unsigned int mapping;
	uint64_t first, pages;
};

/* All of a mapping, or some pages of it. */
static struct part choose_part(uint64_t *random)
{
	const uint64_t draw = random_next(random);
	struct part part = { .mapping = (unsigned int)draw % MAPPINGS, .pages = durable.pages };

	if (draw & 0x100) {
		part.pages = 1 + (draw >> 16) % SOME_PAGES;
		part.first = (draw >> 32) % (durable.pages - part.pages + 1);
	}
	return part;
}

/* Each once, then any of them. */
static enum deed choose_deed(enum deed first, enum deed end, unsigned int *done, uint64_t *random)
{
	const unsigned int count = end - first;
	const unsigned int chosen = *done < count ? (*done)++ : (unsigned int)random_next(random) % count;

	return (enum deed)(first + chosen);
}

static char *part_at(const struct part *part)
{
	return durable.at[part->mapping] + part->first * PAGE_BYTES;
}

static int protect(const struct part *part)
{
	return mprotect(part_at(part), part->pages * PAGE_BYTES, PROT_READ) ||
	       mprotect(part_at(part), part->pages * PAGE_BYTES, PROT_READ | PROT_WRITE) ? -errno : 0;
}

/* There and back: who writes meanwhile waits in its handler. */
static int move(unsigned int mapping)
{
	const int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
	char *at = durable.at[mapping];

	if (mremap(at, durable.bytes, durable.bytes, flags, durable.spare) != durable.spare ||
	    mremap(durable.spare, durable.bytes, durable.bytes, flags, at) != at)
		return -errno;
	return 0;
}

struct child {
	struct run *run;
	uint64_t random;
};

static int write_in_child(void *argument)
{
	struct child *child = argument;

	for (unsigned int i = 0; i < CHILD_PAGES && !durable.stop; i++) {
		const uint64_t draw = random_next(&child->random);

		durable_write(child->run, (unsigned int)(draw >> 32) % MAPPINGS, draw % durable.pages, durable.slots - 1);
	}
	return child->run->has_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int write_after_fork(struct run *run, uint64_t *random)
{
	struct child child = { .run = run, .random = random_next(random) };
	const int pid = process_start((unsigned int)random_next(random) % durable.writers, write_in_child, &child);

	if (pid < 0)
		return pid;
	return process_join(pid) ? workload_fail(run, "the child has read another counter than it wrote") : 0;
}

static int refused(struct run *run, enum deed deed, int error)
{
	if (!error) {
		atomic_fetch_add(&durable.deeds[deed], 1);
		return 0;
	}
	return workload_fail(run, "deed %u beside the writers: %s", deed, strerror(-error));
}

int durable_change_mappings(struct run *run, uint64_t *random)
{
	static unsigned int done;
	const enum deed deed = choose_deed(PROTECT, TRUNCATE, &done, random);
	const struct part part = choose_part(random);
	int error = 0;

	switch (deed) {
	case PROTECT:
		error = protect(&part);
		break;
	case MOVE:
		error = move(part.mapping);
		break;
	case FORGET:
		/* The pages stay; what was written through the mapping goes from its PTEs to them. */
		error = madvise(part_at(&part), part.pages * PAGE_BYTES, MADV_DONTNEED) ? -errno : 0;
		break;
	default:
		error = write_after_fork(run, random);
	}
	return refused(run, deed, error);
}

/* The tail comes, is written through a mapping, and goes. */
static int truncate_tail(void)
{
	if (ftruncate(durable.file, (off_t)(durable.bytes + TAIL_PAGES * PAGE_BYTES)))
		return -errno;
	for (unsigned int page = 0; page < TAIL_PAGES; page += 3)
		*(volatile char *)(durable.tail + page * PAGE_BYTES) = 1;
	return ftruncate(durable.file, (off_t)durable.bytes) ? -errno : 0;
}

static int migrate(struct part *part, uint64_t draw)
{
	static void *pages[SOME_PAGES];
	static int to[SOME_PAGES], status[SOME_PAGES];

	if (part->pages > SOME_PAGES)
		part->pages = SOME_PAGES;
	for (uint64_t i = 0; i < part->pages; i++) {
		pages[i] = part_at(part) + i * PAGE_BYTES;
		to[i] = (int)durable.nodes[(draw + i / 32) % durable.node_count];
	}
	/* Those that several mappings have, too. */
	return syscall(SYS_move_pages, 0, part->pages, pages, to, status, MPOL_MF_MOVE_ALL) < 0 ? -errno : 0;
}

int durable_change_file(struct run *run, uint64_t *random)
{
	static unsigned int done;
	const enum deed deed = choose_deed(TRUNCATE, DEEDS, &done, random);
	const uint64_t draw = random_next(random);
	struct part part = choose_part(random);
	int error = 0;

	switch (deed) {
	case TRUNCATE:
		error = truncate_tail();
		break;
	case PAGEOUT:
		/* While a mapping is elsewhere there is nothing to advise on. */
		if (madvise(part_at(&part), part.pages * PAGE_BYTES, MADV_PAGEOUT) && errno != ENOMEM)
			error = -errno;
		break;
	case RECLAIM:
		/* It fails where it finds less than it was asked for. */
		(void)file_write(RECLAIM_FILE, draw & 0x10000 ? "4M" : "512K");
		error = access(RECLAIM_FILE, W_OK) ? -errno : 0;
		break;
	case DROP:
		(void)posix_fadvise(durable.file, (off_t)(part.first * PAGE_BYTES), (off_t)(part.pages * PAGE_BYTES),
				    POSIX_FADV_DONTNEED);
		error = file_write(VM "drop_caches", "1");
		break;
	case COMPACT:
		error = file_write(VM "compact_memory", "1");
		break;
	case MIGRATE:
		if (durable.node_count < 2)
			return 0;
		error = migrate(&part, draw >> 32);
		break;
	default:
		/* It promises nothing. */
		if (sync_file_range(durable.file, (off_t)(part.first * PAGE_BYTES), (off_t)(part.pages * PAGE_BYTES),
				    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE))
			error = -errno;
	}
	return refused(run, deed, error);
}
