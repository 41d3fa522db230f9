/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a workload file needs, and nothing else. One file registers one workload
 * (or one family) with WORKLOAD(); harness.c finds it through the linker section.
 *
 *   setup     not measured: map, fill, start the team
 *   measure   measured: the counters are read just before and just after it
 *   verify    not measured: compare what was done with what it must be
 *   teardown  not measured
 *
 * Each returns 0, or -errno. `run->fail` or `run->skip` (workload_fail(),
 * workload_skip()) carries the sentence for the user.
 */
#ifndef CEASEFIRE_WORKLOAD_H
#define CEASEFIRE_WORKLOAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch.h"

#define THREADS_MAX 256
#define PAGE_BYTES 4096UL
#define OUTPUT_BYTES_MAX 1024

struct run;

/* A worker: called once on its own pinned thread; index 0 is the calling (main) thread. */
typedef void (*team_fn)(struct run *run, unsigned int index);

struct workload {
	const char *name;	/* as the user types it */
	const char *group;	/* control, micro, article, lmbench, context, idle, range, numa, hardware, stress, app, own */
	const char *unit;	/* one unit of work, singular */
	const char *about;	/* one sentence */
	const char *needs;	/* comma-separated guest features, or NULL: ext2, zram, cgroup, net, nodes, apps */
	const char *packages;	/* comma-separated Debian packages its programs come from, or NULL */
	const char *programs;	/* comma-separated absolute paths of those programs, or NULL */
	uint64_t units;		/* default number of units */
	unsigned int threads_min;
	bool shared;		/* every thread touches every page: no design may gain here */
	bool is_spread;		/* its threads go to the NUMA nodes in turn, unless --set cpus= says otherwise */
	bool own_processes;	/* makes its own processes or threads: the team is not started before setup */
	int (*setup)(struct run *run);
	int (*measure)(struct run *run);
	int (*verify)(struct run *run);	/* or NULL */
	void (*teardown)(struct run *run);
};

struct run {
	const struct workload *workload;
	unsigned int threads;	/* team size, main thread included */
	unsigned int repeat;
	uint64_t seed;
	uint64_t units;		/* asked for; measure() stores what was really done */
	bool cost;		/* instructions are counted, and time that passes is, too: wait for no clock */
	uint64_t checksum;	/* of the work done: equal across kernels for equal arguments */
	/* What a control must show; -1 where it makes no promise. */
	int64_t expect_sent;
	int64_t expect_received;
	int64_t expect_tlbsync;
	void *data;		/* the workload's own state, zeroed per repeat */
	bool has_failed, has_skipped;
	char reason[256];
	char output[OUTPUT_BYTES_MAX];	/* beside a failure: the last lines of what the program said that failed */
};

#define WORKLOAD(id)                                                           \
	static const struct workload id;                                       \
	static const struct workload *const id##_entry                         \
		__attribute__((section("workloads"), used)) = &id;             \
	static const struct workload id

/* Say why, in one sentence; both return a negative errno to pass on. */
int workload_fail(struct run *run, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
int workload_skip(struct run *run, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* --set KEY=VALUE, or fallback. */
uint64_t option_u64(const char *key, uint64_t fallback);
const char *option_text(const char *key, const char *fallback);

/* An extra figure for this repeat's result ("extra" in the protocol). Key: units last, lower_snake. */
void report_extra(struct run *run, const char *key, double value);

/*
 * For --set apart=1: the instructions of single calls, as an extra figure beside those of the whole unit.
 * calls_count() is a counter to be read before and after a call; 0 where no instructions are counted.
 */
static inline uint64_t calls_count(const struct run *run, bool is_apart)
{
	return is_apart && run->cost ? cpu_ticks() : 0;
}

/* The mean of so many calls, from what the counter grew by. Nothing where none are counted. */
void report_calls(struct run *run, const char *key, uint64_t counted, uint64_t calls);

/*
 * The team: run->threads pinned threads, started before setup (unless
 * own_processes) so that no thread is made in the measured part. team_run()
 * calls fn on all of them (index 0 on the caller), released together, and
 * returns when all are done. Between two calls the others sleep.
 */
void team_run(struct run *run, team_fn fn);

/*
 * Spinners: run->threads - 1 threads that keep this address space loaded on
 * their CPU and do nothing else, from setup to teardown. The caller is pinned
 * to the first CPU. spinners_start() returns when every one is spinning.
 */
int spinners_start(struct run *run);
void spinners_stop(struct run *run);

/* All threads of team_run() meet here; spins with PAUSE. Reusable. */
void team_barrier(struct run *run);

/* The CPU that team index runs on. */
int team_cpu(unsigned int index);

/* The NUMA node of that CPU. */
unsigned int team_node(unsigned int index);

/*
 * How much memory that node can give before another one must. Where no other has memory: how much there is at all,
 * page cache that can be dropped included.
 */
uint64_t node_room_kib(unsigned int node);

/* Pin the calling thread or process to the CPU of that team index. Return: 0 or -errno. */
int pin_to(unsigned int index);

/*
 * A child process on the CPU of that index, which dies with its parent; it runs
 * fn(argument) and exits with its value. Return: its pid, or -errno.
 */
int process_start(unsigned int index, int (*fn)(void *argument), void *argument);

/* Wait for it. Return: 0 if it exited with 0, else -ECHILD. */
int process_join(int pid);

/*
 * Address space for pages that come and go. It never uses huge pages, and its
 * first and last page stay mapped on both sides of what is returned, so that
 * unmapping what lies between frees no page table of a small area.
 */
void *area_reserve(size_t bytes);
/* In two steps: the node of the caller of area_keep() gets the first and the last page table. */
void *area_map(size_t bytes);
void area_keep(void *area, size_t bytes);
void area_release(void *area, size_t bytes);

/* Read a whole small file. Return: its length, or -errno; always terminated. */
ssize_t file_read(const char *path, char *buffer, size_t size);
/* The figure behind that word in a file of the kernel's, which has it in KiB. Return: KiB, or fallback. */
uint64_t file_kib(const char *path, const char *word, uint64_t fallback);
/* Return: 0 or -errno. */
int file_write(const char *path, const char *text);

/* splitmix64: the only source of randomness. */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* FNV-1a over 64-bit words, for checksums. Start from CHECKSUM_SEED. */
#define CHECKSUM_SEED 0xcbf29ce484222325ULL
static inline uint64_t checksum_add(uint64_t sum, uint64_t word)
{
	return (sum ^ word) * 0x100000001b3ULL;
}

/*
 * The mechanism under test: its switch, a setting beside it, its counters.
 * Return: a path; "" in a kernel without it.
 */
const char *mechanism_switch(void);
const char *mechanism_setting(const char *name);
const char *mechanism_counters(void);
/* Its prctl; 0: not for this process. Return: 0, also where there is no mechanism; or -errno. */
int mechanism_prctl(unsigned long value);
/*
 * What the mechanism that a process can opt in to says, by the number that follows.
 * Return: that; -ENODEV where there is none; or another negative errno.
 */
int mechanism_opt_in_get(void);
/* Does this kernel let the processor broadcast the flushes of a process on so many CPUs? Then nobody is interrupted. */
bool mechanism_broadcasts(unsigned int threads);

/*
 * Between two measured calls under spinners. On a round-robin emulator a kernel
 * thread may lose its CPU's turn half-way; that CPU is no target until its next
 * turn, and a caller that waits for nobody would make a slice of calls without
 * it. PAUSE ends the caller's turn, on hardware it is some hundred cycles.
 */
static inline void let_others_run(void)
{
	cpu_pause();
}

#endif
