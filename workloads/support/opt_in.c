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

/* Return: what the mechanism says in a child, cut to a byte; -1 if the child did not exit. */
static int said_in_child(void)
{
	const pid_t child = fork();
	int status;

	if (child == 0)
		_exit(mechanism_opt_in_get());
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

/* The mechanism must say @here, and @in_child to a child, which has said nothing yet. */
static int look(struct run *run, int here, int in_child)
{
	const int said = mechanism_opt_in_get();
	int said_there;

	/* Nothing to opt in to: nobody leaves a flush of mprotect() out for it. */
	if (said == -ENODEV)
		return 0;
	said_there = said_in_child();
	if (said == here && said_there == in_child)
		return 0;
	return workload_fail(run, "the mechanism's prctl says %d, and %d in a child, not %d and %d", said, said_there, here, in_child);
}

int opt_in(struct run *run, bool is_refused)
{
	const uint64_t how = option_u64("opt-in", NOTHING);
	int error;

	switch (how) {
	case NOTHING:
		return 0;
	case PRCTL:
		if (mechanism_prctl(2))
			return workload_fail(run, "the mechanism's prctl was refused");
		return look(run, 2, 1);
	case USE_MEMBARRIER:
	case REGISTER:
		error = membarrier(run, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
		if (!error && how == USE_MEMBARRIER)
			error = membarrier(run, MEMBARRIER_CMD_PRIVATE_EXPEDITED);
		if (error)
			return error;
		return is_refused ? look(run, 0, 0) : look(run, how == REGISTER ? 1 : 2, 1);
	}
	return workload_fail(run, "opt-in=%" PRIu64 " is neither 1 (membarrier), 2 (prctl) nor 3 (registering alone)", how);
}
