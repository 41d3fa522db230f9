// SPDX-License-Identifier: GPL-2.0-only
/*
 * The team: pinned threads that wait for work in futex sleep, because a thread
 * that merely waits must not be a target of anybody's shootdown. Spinners are
 * the opposite: they exist to be targets.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness.h"

/* A vCPU that spins longer than this lets another thread of its CPU run. */
#define SPINS_PER_YIELD 4096U

static int cpus[THREADS_MAX];
static unsigned int cpu_count;

static struct {
	unsigned int size;	/* workers that exist, main thread excluded */
	unsigned int active;	/* threads that take part in the current call */
	struct run *run;
	team_fn fn;
	_Atomic uint32_t call;	/* futex: odd or even, it only has to change */
	_Atomic uint32_t ready, left;
	_Atomic uint32_t barrier_arrived, barrier_round;
	_Atomic bool stop_spinning;
	_Atomic uint32_t spinning;
} team;

int cpus_init(void)
{
	/* Room for far more CPUs than are used: the kernel refuses a short mask. */
	static unsigned long mask[8192 / (8 * sizeof(unsigned long))];
	long bytes = syscall(SYS_sched_getaffinity, 0, sizeof(mask), mask);
	const unsigned int bits = 8 * sizeof(unsigned long);

	if (bytes < 0)
		return -errno;
	if (nodes_fake()) {
		for (int cpu = 0; cpu < THREADS_MAX && cpu_find_node(cpu) >= 0; cpu++)
			cpus[cpu_count++] = cpu;
		return cpu_count ? 0 : -ENODEV;
	}
	for (unsigned int cpu = 0; cpu < (unsigned int)bytes * 8; cpu++)
		if (mask[cpu / bits] >> (cpu % bits) & 1 && cpu_count < THREADS_MAX)
			cpus[cpu_count++] = (int)cpu;
	return cpu_count ? 0 : -ENODEV;
}

unsigned int cpus_allowed(void)
{
	return cpu_count;
}

int team_cpu(unsigned int index)
{
	return cpus[index % cpu_count];
}

unsigned int team_node(unsigned int index)
{
	return cpu_node(team_cpu(index));
}

int team_place(struct run *run)
{
	return cpus_place(run, cpus, cpu_count);
}

int pin_to(unsigned int index)
{
	unsigned long mask[8192 / (8 * sizeof(unsigned long))] = { 0 };
	unsigned int cpu = (unsigned int)team_cpu(index);

	if (nodes_fake())
		return 0;
	mask[cpu / (8 * sizeof(unsigned long))] |= 1UL << (cpu % (8 * sizeof(unsigned long)));
	return syscall(SYS_sched_setaffinity, 0, sizeof(mask), mask) < 0 ? -errno : 0;
}

static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void spin(unsigned int *spins)
{
	cpu_pause();
	if (++*spins % SPINS_PER_YIELD == 0)
		sched_yield();
}

static void take_part(unsigned int index)
{
	unsigned int spins = 0;

	/* Everybody is awake before anybody works. */
	atomic_fetch_add(&team.ready, 1);
	while (atomic_load(&team.ready) < team.active)
		spin(&spins);
	team.fn(team.run, index);
	if (atomic_fetch_sub(&team.left, 1) == 1)
		futex_wake(&team.left);
}

static void *worker(void *argument)
{
	unsigned int index = (unsigned int)(uintptr_t)argument;
	uint32_t seen = 0;

	for (;;) {
		while (atomic_load(&team.call) == seen)
			futex_wait(&team.call, seen);
		seen = atomic_load(&team.call);
		if (index < team.active)
			take_part(index);
	}
	return NULL;
}

static void team_call(struct run *run, team_fn fn)
{
	team.run = run;
	team.fn = fn;
	team.active = team.size + 1;
	atomic_store(&team.ready, 0);
	atomic_store(&team.left, team.active);
	atomic_fetch_add(&team.call, 1);
	if (team.size)
		futex_wake(&team.call);
}

static void team_join(void)
{
	uint32_t left;

	while ((left = atomic_load(&team.left)) != 0)
		futex_wait(&team.left, left);
}

static void nothing(struct run *run, unsigned int index)
{
	(void)run;
	(void)index;
}

int team_start(struct run *run)
{
	pthread_attr_t attributes;
	int error = 0;

	if (team.size + 1 >= run->threads)
		return 0;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 256 * 1024);
	while (team.size + 1 < run->threads && !error) {
		unsigned int index = team.size + 1;
		cpu_set_t *set = CPU_ALLOC(8192);
		pthread_t thread;

		CPU_ZERO_S(CPU_ALLOC_SIZE(8192), set);
		CPU_SET_S(team_cpu(index), CPU_ALLOC_SIZE(8192), set);
		if (!nodes_fake())
			pthread_attr_setaffinity_np(&attributes, CPU_ALLOC_SIZE(8192), set);
		error = pthread_create(&thread, &attributes, worker, (void *)(uintptr_t)index);
		CPU_FREE(set);
		if (!error)
			team.size++;
	}
	pthread_attr_destroy(&attributes);
	if (error)
		return workload_fail(run, "thread %u of %u cannot be started: %s", team.size + 1,
				     run->threads, strerror(error));
	/* One empty call: every worker has run, and touched what it needs to wait. */
	team_call(run, nothing);
	take_part(0);
	team_join();
	return 0;
}

void team_run(struct run *run, team_fn fn)
{
	if (team_start(run))
		return;
	team_call(run, fn);
	take_part(0);
	team_join();
}

void team_barrier(struct run *run)
{
	uint32_t round = atomic_load(&team.barrier_round);
	unsigned int spins = 0;

	if (atomic_fetch_add(&team.barrier_arrived, 1) + 1 == run->threads) {
		atomic_store(&team.barrier_arrived, 0);
		atomic_fetch_add(&team.barrier_round, 1);
		return;
	}
	while (atomic_load(&team.barrier_round) == round)
		spin(&spins);
}

static void spin_until_stopped(struct run *run, unsigned int index)
{
	(void)run;
	(void)index;
	/*
	 * A CPU that runs another program is no target, so on a shared machine root's
	 * spinners go first. The lab's guest runs nothing else, and stays as it is.
	 */
	if (!counters_in_kernel())
		(void)sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ .sched_priority = 1 });
	atomic_fetch_add(&team.spinning, 1);
	while (!atomic_load_explicit(&team.stop_spinning, memory_order_relaxed))
		cpu_pause();
}

int spinners_start(struct run *run)
{
	unsigned int spins = 0;
	int error = team_start(run);

	if (error)
		return error;
	atomic_store(&team.stop_spinning, false);
	atomic_store(&team.spinning, 0);
	team_call(run, spin_until_stopped);
	/* The caller counts as ready, but goes on with the work itself. */
	atomic_fetch_add(&team.ready, 1);
	atomic_fetch_sub(&team.left, 1);
	while (atomic_load(&team.spinning) < team.size)
		spin(&spins);
	return 0;
}

void spinners_stop(struct run *run)
{
	(void)run;
	atomic_store(&team.stop_spinning, true);
	team_join();
}
