// SPDX-License-Identifier: GPL-2.0-only
/*
 * lmbench's lat_proc exec: a child is forked, executes a program that ends at once, and is joined. An
 * address space is copied, given up for another one, and given up for good.
 *
 * pages=N: the parent has N pages, which it has written: fork copies their page tables, too.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workload.h"

#define PAGES_MAX (1UL << 17)
/* This program itself (harness.c). */
#define PROGRAM "/proc/self/exe"
#define WORD "end"

static struct {
	volatile uint64_t *area;
	size_t pages;
} parent;

static int setup(struct run *run)
{
	run->data = &parent;
	parent.pages = option_u64("pages", 0);
	if (parent.pages > PAGES_MAX)
		return workload_fail(run, "pages is %zu, and must be 0 to %lu", parent.pages, PAGES_MAX);
	if (parent.pages) {
		parent.area = area_reserve(parent.pages * PAGE_BYTES);
		if (!parent.area ||
		    mprotect((void *)parent.area, parent.pages * PAGE_BYTES, PROT_READ | PROT_WRITE))
			return workload_fail(run, "no memory for %zu pages", parent.pages);
		for (size_t page = 0; page < parent.pages; page++)
			parent.area[page * PAGE_BYTES / sizeof(*parent.area)] = run->seed + page;
	}
	return spinners_start(run);
}

/* The system calls themselves: what a library's fork() does besides differs from one to the next. */
static int measure(struct run *run)
{
	static char *const words[] = { PROGRAM, WORD, NULL };
	static char *const environment[] = { NULL };

	for (uint64_t i = 0; i < run->units; i++) {
		int status = 0;
		pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

		if (pid == 0) {
			execve(PROGRAM, words, environment);
			_exit(127);
		}
		if (pid < 0)
			return workload_fail(run, "child %llu could not be started", (unsigned long long)i);
		if (syscall(SYS_wait4, pid, &status, 0, NULL) != pid || status)
			return workload_fail(run, "the program of child %llu %s", (unsigned long long)i,
					     WIFEXITED(status) && WEXITSTATUS(status) == 127 ?
						     "could not be executed" : "failed");
		run->checksum = checksum_add(run->checksum, i);
	}
	return 0;
}

static void teardown(struct run *run)
{
	spinners_stop(run);
	area_release((void *)parent.area, parent.pages * PAGE_BYTES);
}

WORKLOAD(exec_children) = {
	.name = "exec",
	.group = "context",
	.unit = "child forked, executed and joined",
	.about = "lmbench's lat_proc exec: forks a child that executes a static program, which ends at once, while every "
		 "other thread spins. --set pages=N: the parent has N pages.",
	.units = 100,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
