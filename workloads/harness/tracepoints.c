// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counting on a kernel that is not ours: one perf counter per tracepoint, filter
 * and CPU. csd_queue_cpu fires on the initiator, once per target, where the
 * target is chosen. It needs root; without it these counters are null.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness.h"

#define CPUS_MAX 1024
#define TLB_FLUSH_REASONS_LOCAL 4	/* reasons 0 to 3 flush this CPU; later ones are IPIs */

#define FILTER_BYTES 512
#define FUNCTION_BYTES 32	/* one more function in a filter */
#define FILES_WANTED (4 * CPUS_MAX + 64)

enum event { EV_OTHER, EV_LOCAL_FULL, EV_RECEIVED, EV_KERNEL_RECEIVED, EVENTS };

static int fds[EVENTS][CPUS_MAX];
static bool opened[EVENTS];
static unsigned int online[CPUS_MAX], online_count;

static void read_online(void)
{
	char list[512];
	char *at = list;

	online_count = 0;
	if (file_read("/sys/devices/system/cpu/online", list, sizeof(list)) <= 0)
		return;
	while (*at >= '0' && *at <= '9') {
		unsigned long first = strtoul(at, &at, 10), last = first;

		if (*at == '-')
			last = strtoul(at + 1, &at, 10);
		for (; first <= last && online_count < CPUS_MAX; first++)
			online[online_count++] = (unsigned int)first;
		if (*at == ',')
			at++;
	}
}

static void put_this_cpu_first(void)
{
	for (unsigned int i = 1; i < online_count; i++) {
		if (online[i] == (unsigned int)team_cpu(0)) {
			online[i] = online[0];
			online[0] = (unsigned int)team_cpu(0);
		}
	}
}

/* Where tracefs is. If it is nowhere, a mount that only this process sees. */
static const char *tracefs(void)
{
	if (access("/sys/kernel/tracing/events", R_OK) == 0)
		return "/sys/kernel/tracing";
	if (access("/sys/kernel/debug/tracing/events", R_OK) == 0)
		return "/sys/kernel/debug/tracing";
	if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	    mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, NULL) == 0)
		return "/sys/kernel/tracing";
	return NULL;
}

static uint64_t symbol_address(const char *name)
{
	FILE *symbols = fopen("/proc/kallsyms", "re");
	char line[512], found[256], type;
	unsigned long long address, result = 0;

	if (!symbols)
		return 0;
	while (!result && fgets(line, sizeof(line), symbols))
		if (sscanf(line, "%llx %c %255s", &address, &type, found) == 3 &&
		    (type == 't' || type == 'T') && strcmp(found, name) == 0)
			result = address;
	fclose(symbols);
	return result;
}

static void close_event(enum event event, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		close(fds[event][i]);
	opened[event] = false;
}

static void open_event(enum event event, const char *root, const char *name, const char *filter)
{
	char path[256], number[32];

	snprintf(path, sizeof(path), "%s/events/%s/id", root, name);
	if (file_read(path, number, sizeof(number)) <= 0)
		return;
	for (unsigned int i = 0; i < online_count; i++) {
		struct perf_event_attr attr = {
			.type = PERF_TYPE_TRACEPOINT,
			.size = sizeof(attr),
			.config = strtoull(number, NULL, 10),
			.disabled = 1,
		};
		int fd = (int)syscall(SYS_perf_event_open, &attr, -1, (int)online[i], -1, PERF_FLAG_FD_CLOEXEC);

		if (fd < 0) {
			close_event(event, i);
			return;
		}
		fds[event][i] = fd;
		if (ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter) || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0)) {
			close_event(event, i + 1);
			return;
		}
	}
	opened[event] = online_count > 0;
}

void tracepoints_open(void)
{
	struct rlimit files;
	unsigned long long user, range, all;
	const char *root;
	char filter[FILTER_BYTES], others[FILTER_BYTES], name[128];
	int length, others_length;

	if (geteuid() != 0)
		return;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FILES_WANTED) {
		files.rlim_cur = FILES_WANTED;
		if (files.rlim_max < FILES_WANTED)
			files.rlim_max = FILES_WANTED;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	read_online();
	put_this_cpu_first();
	root = tracefs();
	if (!root)
		return;
	snprintf(filter, sizeof(filter), "reason<%d && pages==0x%lx", TLB_FLUSH_REASONS_LOCAL, ~0UL);
	open_event(EV_LOCAL_FULL, root, "tlb/tlb_flush", filter);

	user = symbol_address("flush_tlb_func");
	range = symbol_address("do_kernel_range_flush");
	all = symbol_address("do_flush_tlb_all");
	if (!user || !range || !all)
		return;
	length = snprintf(filter, sizeof(filter), "func==0x%llx", user);
	others_length = snprintf(others, sizeof(others), "func!=0x%llx && func!=0x%llx && func!=0x%llx", user, range,
				 all);
	for (unsigned int i = 0; mechanisms_flush_function(i, name, sizeof(name)); i++) {
		unsigned long long own = symbol_address(name);

		/* Only in kernels that have the mechanism. */
		if (!own || length + FUNCTION_BYTES > FILTER_BYTES || others_length + FUNCTION_BYTES > FILTER_BYTES)
			continue;
		length += snprintf(filter + length, FUNCTION_BYTES, " || func==0x%llx", own);
		others_length += snprintf(others + others_length, FUNCTION_BYTES, " && func!=0x%llx", own);
	}
	open_event(EV_RECEIVED, root, "csd/csd_queue_cpu", filter);
	snprintf(filter, sizeof(filter), "func==0x%llx || func==0x%llx", range, all);
	open_event(EV_KERNEL_RECEIVED, root, "csd/csd_queue_cpu", filter);
	open_event(EV_OTHER, root, "csd/csd_queue_cpu", others);
}

void tracepoints_close(void)
{
	for (int event = 0; event < EVENTS; event++)
		if (opened[event])
			close_event(event, online_count);
}

static void read_event(int event, bool self_last, struct sample *sample)
{
	static const enum counter counter[EVENTS] = {
		[EV_OTHER] = OTHER_IPIS,
		[EV_LOCAL_FULL] = LOCAL_FULL,
		[EV_RECEIVED] = RECEIVED,
		[EV_KERNEL_RECEIVED] = KERNEL_RECEIVED,
	};
	int64_t sum = 0;

	for (unsigned int i = 0; i < online_count; i++) {
		uint64_t count;

		if (read(fds[event][self_last ? online_count - 1 - i : i], &count, sizeof(count)) == sizeof(count))
			sum += (int64_t)count;
	}
	sample->value[counter[event]] = sum;
}

/*
 * Reading another CPU's counter is an IPI of the kind EV_OTHER counts, on this
 * CPU: that one is read last before the measured part and first after it.
 */
void tracepoints_read(struct sample *sample, bool is_end)
{
	for (int i = 0; i < EVENTS; i++) {
		int event = is_end ? i : EVENTS - 1 - i;

		if (opened[event])
			read_event(event, !is_end, sample);
	}
}
