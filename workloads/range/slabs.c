// SPDX-License-Identifier: GPL-2.0-only
/*
 * Slabs of kernel address space are mapped, read by every CPU and unmapped: by one
 * flush each, as Linux does, or page by page, as an operating system did that freed
 * its buffers so.
 *
 * Theory. Kernel addresses may be in every TLB, so each flush interrupts every other
 * online CPU, whoever runs there: kernel_sent is 1 for a slab, or 1 for each of its
 * pages. Linux frees vmalloc memory lazily, many areas at once; here nobody waits.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "workload.h"

#define SLAB "/sys/kernel/debug/batch/slab"

static char request[32];

static int setup(struct run *run)
{
	const uint64_t pages = option_u64("pages", 32);
	const char *by = option_text("by", "range");

	if (strcmp(by, "range") && strcmp(by, "pages"))
		return workload_fail(run, "by is range or pages, not %s", by);
	if (!pages || pages > 512)
		return workload_fail(run, "pages is 1 to 512");
	snprintf(request, sizeof(request), "%u %s", (unsigned int)pages, by);
	return 0;
}

static int measure(struct run *run)
{
	for (uint64_t i = 0; i < run->units; i++) {
		const int error = file_write(SLAB, request);

		if (error == -ENOENT || error == -EACCES)
			return workload_skip(run, "this kernel has no slabs to free (%s): boot batch-debug", SLAB);
		if (error)
			return workload_fail(run, "%s: %s", SLAB, strerror(-error));
		run->checksum = checksum_add(run->checksum, run->seed + i);
	}
	return 0;
}

WORKLOAD(slabs) = {
	.name = "slabs",
	.group = "range",
	.unit = "slab freed",
	.about = "Unmaps slabs of --set pages=N pages (32) of kernel address space at once, --set by=range, or by=pages: one "
		 "shootdown each, or one for each page.",
	.units = 200,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
};
