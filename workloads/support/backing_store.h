/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What lies beneath a file system, read around the page cache of its files: what
 * has been written back of a file, and nothing else. A file is asked once where its
 * pages are: they must have been written, and never move.
 *
 * O_DIRECT on the file itself would not do: it writes the pages back first.
 */
#ifndef CEASEFIRE_BACKING_STORE_H
#define CEASEFIRE_BACKING_STORE_H

#include "workload.h"

struct backing_store {
	int fd;			/* -1: not open */
	uint64_t pages;
	uint64_t *at;		/* byte of each page */
};

/* Needs root. Return: 0 or a negative errno after the reason was said. */
int backing_store_open(struct run *run, struct backing_store *store, int file, uint64_t pages);
void backing_store_close(struct backing_store *store);
/* To a page-aligned buffer. Return: 0 or -errno. */
int backing_store_read(const struct backing_store *store, uint64_t page, void *buffer);

#endif
