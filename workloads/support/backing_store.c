// SPDX-License-Identifier: GPL-2.0-only
/* See backing_store.h. */
#define _GNU_SOURCE
#include "backing_store.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* The file behind a loop device, else the device. Return: whether its name is known. */
static bool find_store(int file, char *path, size_t size, bool *is_file)
{
	char name[128], text[1024], *found;
	struct stat status;

	if (fstat(file, &status))
		return false;
	snprintf(name, sizeof(name), "/sys/dev/block/%u:%u/loop/backing_file", major(status.st_dev),
		 minor(status.st_dev));
	*is_file = file_read(name, path, size) > 0;
	if (!*is_file) {
		snprintf(name, sizeof(name), "/sys/dev/block/%u:%u/uevent", major(status.st_dev), minor(status.st_dev));
		if (file_read(name, text, sizeof(text)) <= 0 || !(found = strstr(text, "DEVNAME=")))
			return false;
		snprintf(path, size, "/dev/%s", found + strlen("DEVNAME="));
	}
	path[strcspn(path, "\n")] = '\0';
	return true;
}

static int find_pages(struct run *run, struct backing_store *store, int file)
{
	int block_bytes = 0;

	if (ioctl(file, FIGETBSZ, &block_bytes) || block_bytes != (int)PAGE_BYTES)
		return workload_skip(run, "needs a file system with blocks of %lu bytes: give another with --set dir=PATH",
				     PAGE_BYTES);
	for (uint64_t page = 0; page < store->pages; page++) {
		int block = (int)page;

		if (ioctl(file, FIBMAP, &block) || !block)
			return workload_skip(run, "needs root, and ext2 or ext4: where a file's blocks are is not told "
					     "otherwise (%s)", block ? strerror(errno) : "a hole");
		store->at[page] = (uint64_t)block * PAGE_BYTES;
	}
	return 0;
}

int backing_store_open(struct run *run, struct backing_store *store, int file, uint64_t pages)
{
	char path[256];
	bool is_file;

	*store = (struct backing_store){ .fd = -1, .pages = pages, .at = calloc(pages, sizeof(*store->at)) };
	if (!store->at)
		return workload_fail(run, "no memory for the places of %llu pages", (unsigned long long)pages);
	if (!find_store(file, path, sizeof(path), &is_file))
		return workload_skip(run, "needs a file system on one block device: give another with --set dir=PATH");
	/* A device's own page cache is not the file's, but may be as old as the file. */
	store->fd = open(path, O_RDONLY | O_CLOEXEC | (is_file ? 0 : O_DIRECT));
	if (store->fd < 0)
		return workload_skip(run, "needs root, to read %s: %s", path, strerror(errno));
	return find_pages(run, store, file);
}

void backing_store_close(struct backing_store *store)
{
	if (!store->at)
		return;
	free(store->at);
	if (store->fd >= 0)
		close(store->fd);
	*store = (struct backing_store){ .fd = -1 };
}

int backing_store_read(const struct backing_store *store, uint64_t page, void *buffer)
{
	const ssize_t got = pread(store->fd, buffer, PAGE_BYTES, (off_t)store->at[page]);

	if (got < 0)
		return -errno;
	return got == (ssize_t)PAGE_BYTES ? 0 : -EIO;
}
