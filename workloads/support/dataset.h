/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One piece of memory that is larger than what a TLB covers, in pages of 4 KiB: what
 * the workloads share whose every access walks the page tables.
 *
 *   mib=N      its size, a power of two (64)
 *   init=one   the first thread is the first to write all of it, so all page tables
 *              are on that thread's node; init=each: each thread writes its share
 *   warm=1     every thread reads all pages once before the measured part
 *   plant=1    one bit is made wrong, which must fail the row: it tests the check
 *
 * A workload skips where a node has no room for what its threads write first: Linux
 * would put the rest, and its page tables, on another node.
 */
#ifndef CEASEFIRE_DATASET_H
#define CEASEFIRE_DATASET_H

#include "workload.h"

/* Of the running workload: there is one a process. */
extern struct dataset {
	char *start;
	uint64_t bytes;		/* mib=N */
	uint64_t all_bytes;	/* with what the workload wanted behind it */
	bool is_by_each, is_warm, is_planted;
} dataset;

/* From first to before end. */
struct span {
	uint64_t first, end;
};

/*
 * Reads the settings and maps the memory, with so many bytes more. Nothing is written yet.
 * Return: 0, or what workload_fail() or workload_skip() gave.
 */
int dataset_open(struct run *run, uint64_t more_bytes);
/* For teardown, even if setup failed. */
void dataset_close(struct run *run);

/* Of so many things, those that this thread is the first to write. */
struct span dataset_share(const struct run *run, uint64_t count, unsigned int index);
/* Of so many things, those that are this thread's part of the work. */
struct span work_share(const struct run *run, uint64_t count, unsigned int index);

/* At the end of setup, when all is written. */
void dataset_warm(struct run *run);
/* Extra figure page_table_kib: the memory in this process's page tables. At the start of verify. */
void dataset_report(struct run *run);

/*
 * Each thread will be the first to write so many bytes. Return: 0; or what workload_skip()
 * gave, if a node has no room for those of its threads.
 */
int nodes_must_have_room(struct run *run, uint64_t (*bytes_of)(const struct run *run, unsigned int index));

/*
 * Where units are independent of each other, and the result of each is a function of its number:
 * setup says how a unit is done, and what must come out of it. The threads share the units, and
 * the checksum is the sum of the results. The latter two are .measure and .verify.
 */
typedef uint64_t (*unit_fn)(const struct run *run, uint64_t number);
void units_are(unit_fn done, unit_fn expected);
int units_measure(struct run *run);
int units_verify(struct run *run);

/* What the entries of these workloads have in common. */
#define DATASET_ENTRY .group = "numa", .threads_min = 1, .is_spread = true, .setup = setup, .teardown = dataset_close

/*
 * Memory full of zeros for the second computation, in huge pages where there are any, so that
 * it costs few walks. Return: NULL, after workload_fail(), if there is none.
 */
void *again_alloc(struct run *run, uint64_t bytes);
void again_free(void *memory, uint64_t bytes);

/* The checksum must be this. Return: 0, or what workload_fail() gave. */
int checksum_must_be(struct run *run, uint64_t expected);

/* The word at that index of the sequence that random_next() gives from this seed on: no two are equal. */
static inline uint64_t random_at(uint64_t seed, uint64_t index)
{
	uint64_t state = seed + index * 0x9e3779b97f4a7c15ULL;

	return random_next(&state);
}

/* What a lookup gives that must not find anything, and does not. */
#define MISSED 0x6d69737365640aULL
/* Multiplied by it, numbers below a power of two change places: it is odd. */
#define SCATTER 0x9e3779b1U

#endif
