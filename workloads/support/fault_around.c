// SPDX-License-Identifier: GPL-2.0-only
/* See fault_around.h. */
#include "support/fault_around.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "support/system_files.h"

/* A page, and what one page table maps. */
#define KIB_MIN 4
#define KIB_MAX 2048

static char value[24];
static struct setting around = { .path = "/sys/kernel/debug/fault_around_bytes", .value = value };

int fault_around_set(struct run *run)
{
	const uint64_t kib = option_u64("fault_around_kib", 0);
	int error;

	if (!kib)
		return 0;
	/* The kernel rounds down to a power of two, and the row would carry another number than was set. */
	if (kib < KIB_MIN || kib > KIB_MAX || (kib & (kib - 1)))
		return workload_fail(run, "fault_around_kib=%" PRIu64 " is no power of two from %d to %d", kib,
				     KIB_MIN, KIB_MAX);
	error = system_may_change(run);
	if (error)
		return error;
	snprintf(value, sizeof(value), "%" PRIu64, kib * 1024);
	error = setting_change(&around);
	return error ? workload_skip(run, "needs %s: %s", around.path, strerror(-error)) : 0;
}

void fault_around_restore(void)
{
	setting_restore(&around);
}
