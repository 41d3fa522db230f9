// SPDX-License-Identifier: GPL-2.0-only
/* Address space with neighbours, and processes on a given CPU. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

/* The caller's pages start at a page table's second page: its first stays mapped. */
static size_t whole_bytes(size_t bytes)
{
	return (bytes + 2 * PAGE_BYTES + PAGE_TABLE_BYTES - 1) / PAGE_TABLE_BYTES * PAGE_TABLE_BYTES;
}

void *area_map(size_t bytes)
{
	size_t whole = whole_bytes(bytes);
	char *raw = mmap(NULL, whole + PAGE_TABLE_BYTES, PROT_READ,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *start;

	if (raw == MAP_FAILED)
		return NULL;
	start = (char *)(((uintptr_t)raw + PAGE_TABLE_BYTES - 1) / PAGE_TABLE_BYTES * PAGE_TABLE_BYTES);
	if (start > raw)
		munmap(raw, (size_t)(start - raw));
	if (start + whole < raw + whole + PAGE_TABLE_BYTES)
		munmap(start + whole, (size_t)(raw + whole + PAGE_TABLE_BYTES - (start + whole)));
	/* Fails where the kernel has no huge pages, which is as good. */
	(void)madvise(start, whole, MADV_NOHUGEPAGE);
	return start + PAGE_BYTES;
}

void area_keep(void *area, size_t bytes)
{
	volatile char *start = (char *)area - PAGE_BYTES;

	*start;
	*(start + whole_bytes(bytes) - PAGE_BYTES);
}

void *area_reserve(size_t bytes)
{
	void *area = area_map(bytes);

	if (area)
		area_keep(area, bytes);
	return area;
}

void area_release(void *area, size_t bytes)
{
	if (area)
		munmap((char *)area - PAGE_BYTES, whole_bytes(bytes));
}

int process_start(unsigned int index, int (*fn)(void *argument), void *argument)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || pin_to(index))
		_exit(EXIT_FAIL);
	_exit(fn(argument));
}

int process_join(int pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -ECHILD;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ECHILD;
}
