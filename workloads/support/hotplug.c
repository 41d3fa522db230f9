// SPDX-License-Identifier: GPL-2.0-only
/* See hotplug.h. A process of its own: it shall not be a user of the address space that is looked at. */
#define _GNU_SOURCE
#include "support/hotplug.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/system_files.h"

struct hotplug {
	_Atomic bool stop;
	_Atomic uint64_t departures;
	int failed_cpu;			/* with what follows: where it ended */
	int failed_leaving;		/* -errno, or 0 */
	int failed_returning;
	unsigned int cpus;
	uint64_t random;
	int pid;
};

static struct hotplug *hotplug;

/* Return: 0 or -errno. */
static int cpu_set_online(unsigned int index, bool is_online)
{
	char path[64];
	int fd, error;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", team_cpu(index));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	error = write(fd, is_online ? "1" : "0", 1) == 1 ? 0 : -errno;
	close(fd);
	return error;
}

/* The first CPU stays: it has no such file. */
static int come_and_go(void *argument)
{
	(void)argument;
	while (!atomic_load(&hotplug->stop)) {
		const unsigned int index = 1 + (unsigned int)(random_next(&hotplug->random) % (hotplug->cpus - 1));
		const int error = cpu_set_online(index, false);

		if (error == -EBUSY)
			continue;
		hotplug->failed_cpu = team_cpu(index);
		hotplug->failed_leaving = error;
		hotplug->failed_returning = error ? 0 : cpu_set_online(index, true);
		if (hotplug->failed_leaving || hotplug->failed_returning)
			return 1;
		atomic_fetch_add(&hotplug->departures, 1);
	}
	return 0;
}

int hotplug_start(struct run *run)
{
	if (!option_u64("hotplug", 0))
		return 0;
	if (system_may_change(run))
		return -EPERM;
	if (run->threads < 2 || access("/sys/devices/system/cpu/cpu1/online", W_OK))
		return workload_skip(run, "no CPU can leave: this needs two, and CONFIG_HOTPLUG_CPU");
	hotplug = mmap(NULL, sizeof(*hotplug), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (hotplug == MAP_FAILED) {
		hotplug = NULL;
		return workload_fail(run, "no memory that processes share: %s", strerror(errno));
	}
	hotplug->cpus = run->threads;
	hotplug->random = run->seed;
	hotplug->pid = process_start(0, come_and_go, NULL);
	return hotplug->pid < 0 ? workload_fail(run, "no process: %s", strerror(-hotplug->pid)) : 0;
}

void hotplug_return(unsigned int index)
{
	if (hotplug)
		(void)pin_to(index);
}

int hotplug_stop(struct run *run)
{
	struct hotplug ended;
	uint64_t departures;
	int error;

	if (!hotplug)
		return 0;
	atomic_store(&hotplug->stop, true);
	error = hotplug->pid > 0 ? process_join(hotplug->pid) : -ECHILD;
	departures = atomic_load(&hotplug->departures);
	ended = *hotplug;
	munmap(hotplug, sizeof(*hotplug));
	hotplug = NULL;
	(void)pin_to(0);
	report_extra(run, "hotplug_departures", (double)departures);
	if (ended.failed_leaving)
		return workload_fail(run, "CPU %d could not leave: %s", ended.failed_cpu, strerror(-ended.failed_leaving));
	if (ended.failed_returning)
		return workload_fail(run, "CPU %d could not come back: %s", ended.failed_cpu,
				     strerror(-ended.failed_returning));
	return error ? workload_fail(run, "the process that takes CPUs away failed: %d", error) : 0;
}
