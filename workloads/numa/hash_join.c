// SPDX-License-Identifier: GPL-2.0-only
/*
 * The second half of a hash join: for each tuple of the outer relation, which is read
 * in order, the inner relation's tuple of the same key is looked up in a hash table.
 * One in four has none. Unit: an outer tuple looked up. Checksum: of all inner values
 * found.
 *
 * Theory. Each lookup reads one random page; the outer relation is read page after
 * page. Nothing is written in the measured part: no shootdown.
 *
 * Tuples are functions of seed and number, and each outer tuple's partner is known
 * before it is looked up, so the sum of the join is computed again without the table.
 */
#include "support/dataset.h"

#define BUCKET 256U		/* slots: one page, half of them used on average */
#define UNITS_MAX (1ULL << 24)

struct tuple {
	uint64_t key;		/* 0: none */
	uint64_t value;
};

static struct {
	struct tuple *table;
	uint64_t slots;		/* a power of two */
	uint64_t inner;		/* tuples */
	uint64_t *outer;	/* keys, one for each unit, behind the table */
	_Atomic bool is_full;
} join;

static uint64_t key_at(const struct run *run, uint64_t i)
{
	return random_at(run->seed, i);
}

static uint64_t value_at(const struct run *run, uint64_t i)
{
	return random_at(~run->seed, i);
}

/* Keys are as good as random: their bits are the hash. */
static struct tuple *bucket_of(uint64_t key)
{
	return &join.table[key & (join.slots - BUCKET)];
}

/* The slot of this key, or the empty one where it would be; NULL in a full bucket. */
static struct tuple *slot_of(uint64_t key)
{
	struct tuple *bucket = bucket_of(key);

	for (unsigned int i = 0; i < BUCKET; i++) {
		struct tuple *slot = &bucket[(key + i) % BUCKET];

		if (!slot->key || slot->key == key)
			return slot;
	}
	return NULL;
}

/* The number of the inner tuple that outer tuple i goes with; in a miss there is no tuple of that number. */
static uint64_t partner_of(const struct run *run, uint64_t i, bool *is_miss)
{
	const uint64_t partner = random_at(run->seed ^ 0x6a6f696eULL << 32, i) % join.inner;

	*is_miss = i % 4 == 3;
	return *is_miss ? join.inner + partner : partner;
}

/* A thread fills its own buckets, in the order of the inner relation, so that the table is always the same. */
static void fill(struct run *run, unsigned int index)
{
	const uint64_t buckets = join.slots / BUCKET;
	const struct span mine = dataset_share(run, buckets, index);
	const struct span outer = dataset_share(run, run->units, index);

	for (uint64_t i = mine.first * BUCKET; i < mine.end * BUCKET; i++)
		join.table[i] = (struct tuple){ 0 };
	for (uint64_t i = 0; i < join.inner && mine.first < mine.end; i++) {
		const uint64_t key = key_at(run, i);
		const uint64_t bucket = (uint64_t)(bucket_of(key) - join.table) / BUCKET;
		struct tuple *slot;

		if (bucket < mine.first || bucket >= mine.end)
			continue;
		slot = slot_of(key);
		if (slot)
			*slot = (struct tuple){ .key = key, .value = value_at(run, i) };
		else
			join.is_full = true;
	}
	for (uint64_t i = outer.first; i < outer.end; i++) {
		bool is_miss;

		join.outer[i] = key_at(run, partner_of(run, i, &is_miss));
	}
}

static uint64_t probe(const struct run *run, uint64_t i)
{
	const uint64_t key = join.outer[i];
	const struct tuple *slot = slot_of(key);

	(void)run;
	return checksum_add(slot && slot->key == key ? slot->value : MISSED, i);
}

static uint64_t expected(const struct run *run, uint64_t i)
{
	bool is_miss;
	const uint64_t partner = partner_of(run, i, &is_miss);

	return checksum_add(is_miss ? MISSED : value_at(run, partner), i);
}

static int setup(struct run *run)
{
	int error;

	if (run->units > UNITS_MAX)
		return workload_fail(run, "units is %llu, and must be 1 to %llu", (unsigned long long)run->units,
				     UNITS_MAX);
	error = dataset_open(run, run->units * sizeof(*join.outer));
	if (error)
		return error;
	join.table = (struct tuple *)dataset.start;
	join.outer = (uint64_t *)(dataset.start + dataset.bytes);
	join.slots = dataset.bytes / sizeof(struct tuple);
	join.inner = join.slots / 2;
	team_run(run, fill);
	if (join.is_full)
		return workload_fail(run, "a bucket of %u slots is full: choose another --seed", BUCKET);
	if (dataset.is_planted)
		slot_of(join.outer[0])->value ^= 1;
	units_are(probe, expected);
	dataset_warm(run);
	return 0;
}

WORKLOAD(hash_join) = {
	DATASET_ENTRY,
	.name = "hash-join",
	.unit = "tuple joined",
	.about = "Threads look up the tuples of one relation in a hash table of --set mib=N MiB (64) of the other's.",
	.units = 500000,
	.measure = units_measure,
	.verify = units_verify,
};
