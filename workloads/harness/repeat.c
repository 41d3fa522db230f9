// SPDX-License-Identifier: GPL-2.0-only
/*
 * One repeat in a process of its own: repeats share no memory, no page tables
 * and no threads, and one that crashes takes nothing with it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

/* The outcome this process writes; report_extra() has only the run to go by. */
static struct outcome *current;

static void set_reason(struct run *run, const char *format, va_list list)
{
	vsnprintf(run->reason, sizeof(run->reason), format, list);
}

int workload_fail(struct run *run, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	/* The first failure is the cause; later ones follow from it. */
	if (!run->has_failed)
		set_reason(run, format, list);
	va_end(list);
	run->has_failed = true;
	return -EIO;
}

int workload_skip(struct run *run, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	if (!run->has_failed)
		set_reason(run, format, list);
	va_end(list);
	run->has_skipped = true;
	return -EOPNOTSUPP;
}

void report_extra(struct run *run, const char *key, double value)
{
	struct extra *extra;

	(void)run;
	/* JSON has no word for these. */
	if (!isfinite(value) || current->extras == EXTRAS_MAX)
		return;
	extra = &current->extra[current->extras++];
	snprintf(extra->key, sizeof(extra->key), "%s", key);
	extra->value = value;
}

void report_calls(struct run *run, const char *key, uint64_t counted, uint64_t calls)
{
	const double instructions = ticks_instructions(counted);

	/* With several CPUs the machine counts, and the counter that the calls were told by is a clock. */
	if (run->cost && instructions > 0 && calls && cpu_kernel_instructions(0) < 0)
		report_extra(run, key, instructions / (double)calls);
}

/*
 * After fork every writable page is shared with the parent until it is written.
 * Breaking that sharing is a flush, so it is done before threads exist.
 */
static void own_all_memory(void)
{
	static char maps[65536];
	char *line = maps, *next;

	if (file_read("/proc/self/maps", maps, sizeof(maps)) <= 0)
		return;
	for (; *line; line = next) {
		unsigned long start, end;
		char mode[5];

		next = strchr(line, '\n');
		next = next ? next + 1 : line + strlen(line);
		if (sscanf(line, "%lx-%lx %4s", &start, &end, mode) != 3 || strcmp(mode, "rw-p") != 0)
			continue;
		for (unsigned long page = start; page < end; page += PAGE_BYTES) {
			volatile char *byte = (volatile char *)page;
			*byte = *byte;
		}
	}
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

/*
 * Return just after a timer tick. A tick costs thousands of instructions, and
 * how many fall into the measured part must not depend on when the boot came
 * here. CLOCK_MONOTONIC_COARSE stands still between ticks. Bounded: one tick.
 */
static void wait_for_tick(void)
{
	struct timespec before, now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &before);
	do {
		clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	} while (now.tv_nsec == before.tv_nsec && now.tv_sec == before.tv_sec);
}

static int measured(struct outcome *outcome, bool cost)
{
	struct run *run = &outcome->run;
	struct sample begin;
	uint64_t begin_ns, begin_ticks, end_ticks;
	int error;

	counters_begin(&begin);
	if (cost)
		wait_for_tick();
	counters_begin_nearest(&begin);
	begin_ns = now_ns();
	begin_ticks = cpu_ticks();
	error = run->workload->measure(run);
	end_ticks = cpu_ticks();
	outcome->duration_ns = now_ns() - begin_ns;
	counters_end(&outcome->counted);
	counters_subtract(&outcome->counted, &begin);
	mechanisms_subtract(outcome->mechanism);
	/* Under `-icount shift=0` the time stamp counter counts instructions; a machine that counts them itself has none. */
	if (!cost || outcome->counted.value[KERNEL_INSTRUCTIONS] >= 0)
		outcome->counted.value[INSTRUCTIONS] = -1;
	else
		outcome->counted.value[INSTRUCTIONS] = (int64_t)ticks_instructions(end_ticks - begin_ticks);
	return error;
}

static void work(struct outcome *outcome, const struct arguments *arguments)
{
	struct run *run = &outcome->run;
	const struct workload *workload = run->workload;
	int error = 0;

	own_all_memory();
	error = team_place(run);
	if (!error && !workload->own_processes)
		error = team_start(run);
	if (!error)
		error = warm_up(run);
	/* Teardown relies on what setup stores, even on a setup that failed. */
	if (!error) {
		if (workload->setup)
			error = workload->setup(run);
		if (!error)
			error = measured(outcome, arguments->cost);
		if (!error && workload->verify)
			error = workload->verify(run);
		if (workload->teardown)
			workload->teardown(run);
	}
	if (error && !run->has_failed && !run->has_skipped)
		workload_fail(run, "%s", strerror(-error));
	outcome->is_complete = true;
}

static void explain_end(struct outcome *outcome, int status)
{
	struct run *run = &outcome->run;

	if (WIFSIGNALED(status))
		workload_fail(run, "repeat %u was killed by signal %d (%s)", run->repeat, WTERMSIG(status),
			      strsignal(WTERMSIG(status)));
	else if (!outcome->is_complete)
		workload_fail(run, "repeat %u ended early with exit code %d", run->repeat, WEXITSTATUS(status));
}

int repeat_run(struct outcome *outcome, const struct arguments *arguments, unsigned int repeat)
{
	struct run *run = &outcome->run;
	int status;
	pid_t parent = getpid(), pid;

	memset(outcome, 0, sizeof(*outcome));
	*run = (struct run){
		.workload = arguments->workload,
		.threads = arguments->threads,
		.repeat = repeat,
		.seed = arguments->seed,
		.units = arguments->units,
		.cost = arguments->cost,
		.checksum = CHECKSUM_SEED,
		.expect_sent = -1,
		.expect_received = -1,
		.expect_tlbsync = -1,
	};
	current = outcome;
	pid = fork();
	if (pid < 0)
		return workload_fail(run, "no process for repeat %u: %s", repeat, strerror(errno));
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == parent)
			work(outcome, arguments);
		_exit(EXIT_PASS);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_USAGE)
		return -EINVAL;
	explain_end(outcome, status);
	return 0;
}
