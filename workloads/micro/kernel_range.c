// SPDX-License-Identifier: GPL-2.0-only
/*
 * Kernel-range shootdowns: a page of a secret memory file leaves the kernel's
 * own map when it is first touched, and every CPU must forget it. They go to
 * all online CPUs, whoever runs there, and the TLB interrupt row leaves them out.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "workload.h"

/* Not every processor's Linux has it: this number no call has. */
#ifndef SYS_memfd_secret
#define SYS_memfd_secret (-1)
#endif

struct secret {
	int fd;
	volatile uint64_t *pages;
};

static int setup(struct run *run)
{
	static struct secret secret;
	struct rlimit lock;
	size_t bytes = run->units * PAGE_BYTES;

	run->data = &secret;
	secret.fd = (int)syscall(SYS_memfd_secret, 0);
	if (secret.fd < 0)
		return workload_skip(run, "this kernel has no memfd_secret (%s): build it with SECRETMEM and boot "
					  "it with secretmem.enable=1", strerror(errno));
	/* Secret pages count as locked memory. */
	getrlimit(RLIMIT_MEMLOCK, &lock);
	if (lock.rlim_cur < bytes + PAGE_BYTES &&
	    setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){ RLIM_INFINITY, RLIM_INFINITY }))
		return workload_skip(run, "%zu KiB of locked memory are not allowed (ulimit -l)", bytes / 1024);
	if (ftruncate(secret.fd, (off_t)bytes))
		return workload_fail(run, "secret memory of %zu KiB was refused: %s", bytes / 1024, strerror(errno));
	secret.pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, secret.fd, 0);
	if (secret.pages == MAP_FAILED) {
		secret.pages = NULL;
		return workload_fail(run, "secret memory cannot be mapped: %s", strerror(errno));
	}
	return 0;
}

static int measure(struct run *run)
{
	struct secret *secret = run->data;
	const size_t words = PAGE_BYTES / sizeof(*secret->pages);

	for (uint64_t i = 0; i < run->units; i++) {
		secret->pages[i * words] = run->seed + i;
		run->checksum = checksum_add(run->checksum, secret->pages[i * words]);
	}
	return 0;
}

static void teardown(struct run *run)
{
	struct secret *secret = run->data;

	if (secret->pages)
		munmap((void *)secret->pages, run->units * PAGE_BYTES);
	if (secret->fd >= 0)
		close(secret->fd);
}

WORKLOAD(kernel_range) = {
	.name = "kernel-range",
	.group = "micro",
	.unit = "secret page touched",
	.about = "Touches pages of a memfd_secret file, each of which leaves the kernel's own map: one kernel-range "
		 "shootdown per page, to every other online CPU.",
	.units = 256,
	.threads_min = 1,
	.own_processes = true,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
