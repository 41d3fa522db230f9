// SPDX-License-Identifier: GPL-2.0-only
/* See opt_in.h. */
#include "support/opt_in.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOTHING, USE_MEMBARRIER, PRCTL, REGISTER };

static int membarrier(struct run *run, int command)
{
	return syscall(SYS_membarrier, command, 0, 0) ? workload_skip(run, "needs membarrier(2): %s", strerror(errno)) : 0;
}

/* Return: what the mechanism says in a child, or -1. */
static int said_in_child(void)
{
	const pid_t child = fork();
	int status;

	if (child == 0)
		_exit(mechanism_prctl_get());
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

/* A kernel that leaves nothing out does not know the call. */
static int by_prctl(struct run *run)
{
	int said;

	if (mechanism_prctl(2))
		return workload_fail(run, "the mechanism's prctl was refused");
	said = mechanism_prctl_get();
	if (said < 0)
		return 0;
	if (said != 2)
		return workload_fail(run, "the mechanism says %d after prctl 2", said);
	said = said_in_child();
	return said == 1 ? 0 : workload_fail(run, "the mechanism says %d in a child, and must say 1: it has said nothing", said);
}

int opt_in(struct run *run)
{
	const uint64_t how = option_u64("opt-in", NOTHING);
	int error;

	switch (how) {
	case NOTHING:
		return 0;
	case PRCTL:
		return by_prctl(run);
	case USE_MEMBARRIER:
	case REGISTER:
		error = membarrier(run, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
		return error || how == REGISTER ? error : membarrier(run, MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	}
	return workload_fail(run, "opt-in=%" PRIu64 " is neither 1 (membarrier), 2 (prctl) nor 3 (registering alone)", how);
}
