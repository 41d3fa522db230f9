// SPDX-License-Identifier: GPL-2.0-only
/*
 * Kernel-range shootdowns that nobody asks for by name: kernel stacks are
 * vmalloc memory, and their addresses are flushed in one go when enough of them
 * were freed (32 MiB times the CPUs' logarithm). Threads come in batches, since
 * each CPU keeps two stacks for the next thread.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "workload.h"

#define BATCH 256U
#define STACK_BYTES 65536UL

struct batch {
	char *stacks;
	pthread_attr_t attributes[BATCH];
	pthread_t threads[BATCH];
	/* Shut while a batch is made. They share one CPU: who spun would keep the others from coming. */
	pthread_mutex_t gate;
	unsigned int ran;
};

static void *wait_for_all(void *argument)
{
	struct batch *batch = argument;

	pthread_mutex_lock(&batch->gate);
	batch->ran++;
	pthread_mutex_unlock(&batch->gate);
	return NULL;
}

/* Whether this very process's kernel stack is vmalloc memory; without root, nobody says. */
static bool stacks_are_vmalloc(void)
{
	FILE *file = fopen("/proc/vmallocinfo", "re");
	bool is_open = file, found = false;
	char line[512];

	while (file && !found && fgets(line, sizeof(line), file))
		found = strstr(line, "dup_task_struct") || strstr(line, "kernel_clone") ||
			strstr(line, "copy_process") || strstr(line, "alloc_thread_stack");
	if (file)
		fclose(file);
	return found || !is_open;
}

static int setup(struct run *run)
{
	static struct batch batch = { .gate = PTHREAD_MUTEX_INITIALIZER };

	run->data = &batch;
	batch.stacks = MAP_FAILED;
	if (!stacks_are_vmalloc())
		return workload_skip(run, "kernel stacks are not vmalloc memory here: enable CONFIG_VMAP_STACK");
	batch.stacks = mmap(NULL, BATCH * STACK_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_POPULATE, -1, 0);
	if (batch.stacks == MAP_FAILED)
		return workload_fail(run, "no memory for %u stacks", BATCH);
	for (unsigned int i = 0; i < BATCH; i++) {
		pthread_attr_init(&batch.attributes[i]);
		pthread_attr_setstack(&batch.attributes[i], batch.stacks + i * STACK_BYTES, STACK_BYTES);
	}
	return 0;
}

static int one_batch(struct run *run, unsigned int size)
{
	struct batch *batch = run->data;
	unsigned int started = 0;
	int error = 0;

	pthread_mutex_lock(&batch->gate);
	while (started < size && !error) {
		error = pthread_create(&batch->threads[started], &batch->attributes[started], wait_for_all, batch);
		started += !error;
	}
	pthread_mutex_unlock(&batch->gate);
	for (unsigned int i = 0; i < started; i++)
		pthread_join(batch->threads[i], NULL);
	return error ? workload_fail(run, "thread %u of a batch was refused: %s", started, strerror(error)) : 0;
}

static int measure(struct run *run)
{
	struct batch *batch = run->data;

	for (uint64_t left = run->units; left;) {
		unsigned int size = left < BATCH ? (unsigned int)left : BATCH;

		if (one_batch(run, size))
			return -1;
		left -= size;
	}
	run->checksum = checksum_add(run->checksum, batch->ran);
	return 0;
}

static void teardown(struct run *run)
{
	struct batch *batch = run->data;

	if (batch->stacks != MAP_FAILED)
		munmap(batch->stacks, BATCH * STACK_BYTES);
}

WORKLOAD(vmalloc_stacks) = {
	.name = "vmalloc-stacks",
	.group = "micro",
	.unit = "thread created and ended",
	.about = "Creates and ends threads in batches of 256, until the kernel flushes the addresses of their freed "
		 "kernel stacks: few kernel-range shootdowns, each to every CPU.",
	.units = 20480,
	.threads_min = 1,
	.own_processes = true,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
