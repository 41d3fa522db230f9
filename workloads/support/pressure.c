// SPDX-License-Identifier: GPL-2.0-only
/* See pressure.h. */
#define _GNU_SOURCE
#include "pressure.h"
#include "support/system_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <unistd.h>

#define CGROUP_ROOT "/sys/fs/cgroup"
#define CGROUP_DIR CGROUP_ROOT "/ceasefire"
#define ZRAM_CONTROL "/sys/class/zram-control"
#define SWAP_PRIORITY 32767

static int zram_index = -1;
static bool zram_is_swap;

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int error = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		error = -errno;
	close(fd);
	return error;
}

static int read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return -errno;
	got = read(fd, text, size - 1);
	if (got < 0)
		got = -errno;
	else
		text[got] = '\0';
	close(fd);
	return got < 0 ? (int)got : 0;
}

/* The header that mkswap writes: version 1, no bad pages. */
static int swap_format(const char *device, uint64_t bytes)
{
	unsigned char page[PAGE_BYTES] = { 0 };
	const uint32_t version = 1, last_page = (uint32_t)(bytes / PAGE_BYTES - 1);
	int fd = open(device, O_WRONLY | O_CLOEXEC);
	int error = 0;

	if (fd < 0)
		return -errno;
	memcpy(page + 1024, &version, sizeof(version));
	memcpy(page + 1028, &last_page, sizeof(last_page));
	memcpy(page + PAGE_BYTES - 10, "SWAPSPACE2", 10);
	if (pwrite(fd, page, sizeof(page), 0) != (ssize_t)sizeof(page) || fsync(fd) != 0)
		error = errno ? -errno : -EIO;
	close(fd);
	return error;
}

int pressure_swap_on(struct run *run, uint64_t bytes)
{
	char text[64], path[96];
	int error;

	if (zram_index >= 0)
		return workload_fail(run, "swap on zram is already set up");
	error = system_may_change(run);
	if (error)
		return error;
	error = read_text(ZRAM_CONTROL "/hot_add", text, sizeof(text));
	if (error == -ENOENT)
		return workload_skip(run, "needs zram: load the module or enable CONFIG_ZRAM");
	if (error == -EACCES)
		return workload_skip(run, "needs root to set up swap on zram");
	if (error)
		return workload_fail(run, "adding a zram device: %s", strerror(-error));
	zram_index = atoi(text);

	snprintf(path, sizeof(path), "/sys/block/zram%d/disksize", zram_index);
	snprintf(text, sizeof(text), "%" PRIu64, bytes);
	error = write_text(path, text);
	if (!error) {
		snprintf(path, sizeof(path), "/dev/zram%d", zram_index);
		error = swap_format(path, bytes);
	}
	if (!error && swapon(path, SWAP_FLAG_PREFER | SWAP_PRIORITY) != 0)
		error = -errno;
	if (error) {
		pressure_swap_off();
		if (error == -ENOSYS)
			return workload_skip(run, "needs swap: enable CONFIG_SWAP");
		return workload_fail(run, "swap on zram: %s", strerror(-error));
	}
	zram_is_swap = true;
	return 0;
}

void pressure_swap_off(void)
{
	char text[64], path[96];

	if (zram_index < 0)
		return;
	snprintf(path, sizeof(path), "/dev/zram%d", zram_index);
	if (zram_is_swap && swapoff(path) != 0)
		fprintf(stderr, "swapoff %s: %s\n", path, strerror(errno));
	zram_is_swap = false;
	snprintf(text, sizeof(text), "%d", zram_index);
	if (write_text(ZRAM_CONTROL "/hot_remove", text) != 0)
		fprintf(stderr, "zram%d could not be removed\n", zram_index);
	zram_index = -1;
}

int pressure_cgroup_make(struct run *run, uint64_t memory_bytes_max)
{
	char text[64];
	int error = system_may_change(run);

	if (error)
		return error;
	if (access(CGROUP_ROOT "/cgroup.controllers", F_OK) != 0)
		return workload_skip(run, "needs cgroup v2 at " CGROUP_ROOT);
	/* Already on below a service manager; then the write changes nothing. */
	write_text(CGROUP_ROOT "/cgroup.subtree_control", "+memory");
	pressure_cgroup_remove();
	if (mkdir(CGROUP_DIR, 0755) != 0)
		return workload_skip(run, "cannot make the cgroup " CGROUP_DIR ": %s",
				     strerror(errno));
	snprintf(text, sizeof(text), "%" PRIu64, memory_bytes_max);
	error = write_text(CGROUP_DIR "/memory.max", text);
	if (error) {
		pressure_cgroup_remove();
		return workload_skip(run, "needs the memory controller of cgroup v2: %s",
				     strerror(-error));
	}
	/* A kill must end the whole run: a survivor would compress less than all. */
	write_text(CGROUP_DIR "/memory.oom.group", "1");
	return 0;
}

int pressure_cgroup_enter(void)
{
	return write_text(CGROUP_DIR "/cgroup.procs", "0");
}

int pressure_cgroup_leave(void)
{
	return write_text(CGROUP_ROOT "/cgroup.procs", "0");
}

void pressure_cgroup_remove(void)
{
	if (rmdir(CGROUP_DIR) != 0 && errno != ENOENT)
		fprintf(stderr, "rmdir " CGROUP_DIR ": %s\n", strerror(errno));
}
