/* SPDX-License-Identifier: GPL-2.0-only */
/* What the test programs print: facts that can be seen from outside the library, one a line. */
#ifndef FACTS_H
#define FACTS_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096UL
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

#define DIE(...) (fprintf(stderr, __VA_ARGS__), fprintf(stderr, ": %s\n", strerror(errno)), exit(3))

static inline char *map(size_t pages, int prot, int flags)
{
	char *const at = mmap(NULL, pages * PAGE, prot, flags, -1, 0);

	if (at == MAP_FAILED)
		DIE("mmap");
	return at;
}

/* A plain range that has no neighbour: one page on each side is somebody else's. */
static inline char *plain(size_t pages)
{
	char *const at = map(pages + 2, PROT_NONE, ANON);

	if (mmap(at + PAGE, pages * PAGE, RW, ANON | MAP_FIXED, -1, 0) != at + PAGE)
		DIE("mmap");
	return at + PAGE;
}

static inline void fill(char *at, size_t pages)
{
	memset(at, 0x5a, pages * PAGE);
}

static inline int all_are(const char *at, size_t pages, char value)
{
	for (size_t i = 0; i < pages * PAGE; i++) {
		if (at[i] != value)
			return 0;
	}
	return 1;
}

static inline int resident(char *at, size_t pages)
{
	unsigned char vector[1024] = { 0 };
	int count = 0;

	if (pages > sizeof(vector) || mincore(at, pages * PAGE, vector) != 0)
		return -1;
	for (size_t i = 0; i < pages; i++)
		count += vector[i] & 1;
	return count;
}

/* Lazily freed memory of this process, in KiB. */
static inline long lazy(void)
{
	FILE *const smaps = fopen("/proc/self/smaps", "r");
	char line[512];
	long sum = 0, value;

	if (!smaps)
		DIE("smaps");
	while (fgets(line, sizeof(line), smaps)) {
		if (sscanf(line, "LazyFree: %ld", &value) == 1)
			sum += value;
	}
	fclose(smaps);
	return sum;
}

/* Is a filled range zeroed, dropped by the kernel, or refused? "ours": it reads zero, and is resident as before. */
static inline const char *dropped_as(char *at, size_t pages)
{
	int before, after;

	fill(at, pages);
	before = resident(at, pages);
	if (madvise(at, pages * PAGE, MADV_DONTNEED) != 0)
		return errno == EINVAL ? "EINVAL" : errno == ENOMEM ? "ENOMEM" : "error";
	after = resident(at, pages);
	if (!all_are(at, pages, 0))
		return "NOT-ZERO";
	return after == before ? "ours" : after == 0 ? "kernel" : "partly";
}

static inline const char *error_name(void)
{
	switch (errno) {
	case 0: return "0";
	case EINVAL: return "EINVAL";
	case ENOMEM: return "ENOMEM";
	case EACCES: return "EACCES";
	case EPERM: return "EPERM";
	case EFAULT: return "EFAULT";
	case EEXIST: return "EEXIST";
	case EAGAIN: return "EAGAIN";
	case EBADF: return "EBADF";
	case ENODEV: return "ENODEV";
	case EBUSY: return "EBUSY";
	case ENOSYS: return "ENOSYS";
	}
	return "other";
}

static inline void fact(const char *name, const char *value)
{
	printf("%s %s\n", name, value);
}

static inline void fact_number(const char *name, long value)
{
	printf("%s %ld\n", name, value);
}

/* What a child says by its exit code, or by the signal that ends it. */
static inline int child_says(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, __WALL) < 0) {
		if (errno != EINTR)
			DIE("waitpid");
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* The signal that touching an address ends with, or 0. */
static inline int touching(volatile char *at, bool write)
{
	const pid_t pid = fork();
	int says;

	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL);
		if (write)
			*at = 1;
		else
			(void)*at;
		_exit(0);
	}
	says = child_says(pid);
	return says >= 1000 ? says - 1000 : 0;
}

struct test_case {
	const char *name;
	void (*run)(void);
};

static inline int run_case(const struct test_case *cases, int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (; cases->name; cases++) {
		if (argc > 1 && strcmp(cases->name, argv[1]) == 0) {
			cases->run();
			return 0;
		}
	}
	fprintf(stderr, "no such case\n");
	return 2;
}

#endif
