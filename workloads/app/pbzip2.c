// SPDX-License-Identifier: GPL-2.0-only
/*
 * PBZIP2 compresses a file inside a cgroup that is too small for it, with swap
 * on zram: reclaim takes pages away from a process that runs on all CPUs.
 */
#include "support/app.h"

#include <stdio.h>

#include "support/pressure.h"

#define MIB (1024 * 1024ULL)

static unsigned int block_100k;

static void pbzip2_teardown(struct run *run)
{
	(void)run;
	/* The output is charged to the cgroup, so it goes first. */
	app_end();
	pressure_cgroup_remove();
	pressure_swap_off();
}

static int pbzip2_setup(struct run *run)
{
	/* First of all: a setting that is no number ends this process, which must not leave swap on. */
	const uint64_t swap_bytes = option_u64("swap_mib", 256) * MIB;
	const uint64_t memory_bytes = option_u64("memory_mib", 40) * MIB;
	int error;

	block_100k = (unsigned int)option_u64("block_100k", 9);
	error = app_begin(run);
	/* Written from outside of the cgroup, so the input is not charged to it. */
	if (!error)
		error = app_write_words(run, "input", run->seed, run->units * MIB);
	if (!error)
		error = pressure_swap_on(run, swap_bytes);
	if (!error)
		error = pressure_cgroup_make(run, memory_bytes);
	if (error)
		pbzip2_teardown(run);
	return error;
}

static int pbzip2_measure(struct run *run)
{
	char threads[16], block[16], input[APP_PATH_BYTES_MAX], output[APP_PATH_BYTES_MAX];
	const char *const argv[] = { "/usr/bin/pbzip2", threads, block, "-k", "-c", "-q", input, NULL };
	const struct app_command command = { .argv = argv, .output = output, .in_cgroup = true };
	uint64_t sum = CHECKSUM_SEED;
	pid_t pid;
	int error;

	snprintf(threads, sizeof(threads), "-p%u", run->threads);
	snprintf(block, sizeof(block), "-b%u", block_100k);
	app_path(input, "input");
	app_path(output, "output");
	pid = app_start(run, &command);
	if (pid < 0)
		return pid;
	error = app_wait(run, pid, "pbzip2");
	if (!error)
		error = app_checksum_file(run, "output", &sum);
	run->checksum = sum;
	return error;
}

WORKLOAD(pbzip2) = {
	.name = "pbzip2",
	.group = "app",
	.unit = "MiB of input",
	.about = "PBZIP2 compresses a file in a 40 MiB cgroup with swap on zram.",
	.needs = "apps,zram,cgroup",
	.packages = "pbzip2",
	.programs = "/usr/bin/pbzip2",
	.units = 22,
	.threads_min = 1,
	.own_processes = true,
	.setup = pbzip2_setup,
	.measure = pbzip2_measure,
	.teardown = pbzip2_teardown,
};
