// SPDX-License-Identifier: GPL-2.0-only
/* See mapped_file.h. */
#define _GNU_SOURCE
#include "mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

static int fill(struct run *run, int fd, uint64_t pages)
{
	uint64_t words[PAGE_WORDS], state = run->seed;

	for (uint64_t page = 0; page < pages; page++) {
		ssize_t put;

		for (size_t i = 0; i < PAGE_WORDS; i++)
			words[i] = random_next(&state);
		put = write(fd, words, sizeof(words));
		if (put != (ssize_t)sizeof(words))
			return workload_fail(run, "a file of %llu pages cannot be written: %s",
					     (unsigned long long)pages,
					     put < 0 ? strerror(errno) : "no space left");
	}
	return 0;
}

int mapped_file_in_memory(struct run *run, uint64_t pages)
{
	int fd = memfd_create("ceasefire", MFD_CLOEXEC);
	int error;

	if (fd < 0 && errno == ENOSYS)
		return workload_skip(run, "needs memfd_create: enable CONFIG_MEMFD_CREATE and CONFIG_TMPFS");
	if (fd < 0)
		return workload_fail(run, "a file in memory cannot be made: %s", strerror(errno));
	error = fill(run, fd, pages);
	if (error) {
		close(fd);
		return error;
	}
	return fd;
}

static int open_in(struct run *run, const char *dir)
{
	struct statfs file_system;
	char path[256];
	int fd;

	if (statfs(dir, &file_system) != 0)
		return workload_fail(run, "%s: %s", dir, strerror(errno));
	/* These two never write back, so their pages are never cleaned or dropped. */
	if (file_system.f_type == TMPFS_MAGIC || (uint32_t)file_system.f_type == RAMFS_MAGIC)
		return workload_skip(run, "needs a file system that writes back, and %s is in memory: "
				     "give another with --set dir=PATH", dir);
	snprintf(path, sizeof(path), "%s/ceasefire-XXXXXX", dir);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return workload_skip(run, "needs a directory that can be written, and %s cannot (%s): "
				     "give another with --set dir=PATH", dir, strerror(errno));
	unlink(path);
	return fd;
}

static int make_in(struct run *run, const char *dir, uint64_t pages)
{
	int fd = open_in(run, dir);
	int error;

	if (fd < 0)
		return fd;
	error = fill(run, fd, pages);
	if (!error && fsync(fd) != 0)
		error = workload_fail(run, "the file cannot be written back: %s", strerror(errno));
	/* Its pages were charged to another cgroup; the next reader pays anew. */
	if (!error && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
		error = workload_fail(run, "the file cannot be dropped from the page cache");
	if (error) {
		close(fd);
		return error;
	}
	return fd;
}

static const char *default_directory(void)
{
	return access("/ext2", W_OK) == 0 ? "/ext2" : ".";
}

int mapped_file_on_disk(struct run *run, uint64_t pages)
{
	return make_in(run, option_text("dir", default_directory()), pages);
}

int mapped_file_on_chosen(struct run *run, uint64_t pages)
{
	const char *fs = option_text("fs", NULL), *dir = option_text("dir", NULL);

	if (fs && dir)
		return workload_fail(run, "fs says which of the guest's file systems, and dir another: give one of them");
	if (fs && strcmp(fs, "ext2") && strcmp(fs, "ext4"))
		return workload_fail(run, "fs is ext2 or ext4, not %s", fs);
	if (fs && !strcmp(fs, "ext4")) {
		dir = "/ext4";
		if (access(dir, W_OK))
			return workload_skip(run, "fs=ext4 needs the guest's /ext4: a kernel with CONFIG_EXT4_FS and "
					     "CONFIG_BLK_DEV_LOOP; elsewhere give a directory with --set dir=PATH");
	}
	return make_in(run, dir ? dir : default_directory(), pages);
}
