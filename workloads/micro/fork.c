// SPDX-License-Identifier: GPL-2.0-only
/*
 * A process with threads forks, as a database does for a snapshot. fork takes
 * write permission from every private page and flushes the whole address space
 * once, on every CPU that runs it. Then the parent's next write to its stack
 * copies a page, and flushes that.
 *
 * The system calls themselves: how many pages a library's fork() and waitpid()
 * write depends on where the program lies, which differs from boot to boot.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "workload.h"

static int setup(struct run *run)
{
	return spinners_start(run);
}

static int measure(struct run *run)
{
	for (uint64_t i = 0; i < run->units; i++) {
		int status = 0;
		pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

		if (pid == 0)
			_exit(0);
		if (pid < 0 || syscall(SYS_wait4, pid, &status, 0, NULL) != pid || status)
			return workload_fail(run, "child %llu could not be started, or failed", (unsigned long long)i);
		run->checksum = checksum_add(run->checksum, i);
	}
	return 0;
}

WORKLOAD(fork_children) = {
	.name = "fork",
	.group = "micro",
	.unit = "child forked and joined",
	.about = "Forks a child that ends at once while every other thread spins: fork flushes the whole address space, "
		 "whoever holds what.",
	.units = 200,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
	.teardown = spinners_stop,
};
