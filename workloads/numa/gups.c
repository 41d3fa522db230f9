// SPDX-License-Identifier: GPL-2.0-only
/*
 * GUPS (HPC Challenge's RandomAccess): random words of one large table are XORed
 * with random values. Unit: a word updated. Checksum: of the whole table.
 *
 * Theory. Each update is at a random page, so in a table beyond the TLB nearly each
 * one walks. A walk's last read is remote if the page table is on another node: of
 * (n - 1) / n of the walks on n nodes, whether all page tables are on one node
 * (init=one) or equally many on each (init=each). Nothing is mapped or unmapped in
 * the measured part: no shootdown.
 *
 * XOR undoes itself: the same updates once more, by one thread, must give back
 * the table as it was, whatever the order. A lost update would stay in it.
 */
#include "support/dataset.h"

static struct {
	uint64_t *table;
	uint64_t words;		/* a power of two */
} gups;

static void fill(struct run *run, unsigned int index)
{
	const struct span mine = dataset_share(run, gups.words, index);

	for (uint64_t i = mine.first; i < mine.end; i++)
		gups.table[i] = i;
}

static int setup(struct run *run)
{
	const int error = dataset_open(run, 0);

	if (error)
		return error;
	gups.table = (uint64_t *)dataset.start;
	gups.words = dataset.bytes / sizeof(uint64_t);
	team_run(run, fill);
	if (dataset.is_planted)
		gups.table[run->seed % gups.words] ^= 1;
	dataset_warm(run);
	return 0;
}

static void update(struct run *run, unsigned int index)
{
	const struct span mine = work_share(run, run->units, index);

	for (uint64_t i = mine.first; i < mine.end; i++) {
		const uint64_t value = random_at(run->seed, i);

		/* HPC Challenge lets up to one in a hundred get lost; here none may. */
		__atomic_fetch_xor(&gups.table[value & (gups.words - 1)], value, __ATOMIC_RELAXED);
	}
}

static int measure(struct run *run)
{
	team_run(run, update);
	return 0;
}

static int verify(struct run *run)
{
	uint64_t wrong = 0;

	dataset_report(run);
	for (uint64_t i = 0; i < gups.words; i++)
		run->checksum = checksum_add(run->checksum, gups.table[i]);
	for (uint64_t i = 0; i < run->units; i++) {
		const uint64_t value = random_at(run->seed, i);

		gups.table[value & (gups.words - 1)] ^= value;
	}
	for (uint64_t i = 0; i < gups.words; i++)
		wrong += gups.table[i] != i;
	if (wrong)
		return workload_fail(run, "%llu of %llu words are wrong after all updates were undone",
				     (unsigned long long)wrong, (unsigned long long)gups.words);
	return 0;
}

WORKLOAD(gups_updates) = {
	DATASET_ENTRY,
	.name = "gups",
	.unit = "word updated",
	.about = "Threads XOR random words of a table of --set mib=N MiB (64), beyond what a TLB covers: nearly each "
		 "update walks the page tables.",
	.units = 1000000,
	.measure = measure,
	.verify = verify,
};
