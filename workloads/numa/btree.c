// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lookups in a B-tree whose nodes lie anywhere in memory, as after many changes.
 * One in four is for a key that is not there. Unit: a key looked up. Checksum: of
 * all values found.
 *
 * Theory. A lookup reads one node of each level, each on another page. The upper
 * levels stay in the TLB, the last two walk. Nothing is written in the measured
 * part: no shootdown.
 *
 * Key i and its value are functions of seed and i, so what the lookups must find
 * is added up without the tree.
 */
#include "support/dataset.h"

#define KEYS 15U		/* of a leaf */
#define CHILDREN 16U
#define LEVELS_MAX 8

struct node {
	uint64_t count;		/* of keys in a leaf, of children above */
	uint64_t key[KEYS];	/* above a leaf: the least key below child i + 1 */
	union {
		uint64_t value[KEYS];
		uint32_t child[CHILDREN];
	};
} __attribute__((aligned(256)));

static struct {
	struct node *nodes;
	uint64_t slots;		/* a power of two */
	uint64_t inverse;	/* of SCATTER, modulo slots */
	unsigned int levels;	/* leaves are level 0 */
	uint64_t size[LEVELS_MAX], first[LEVELS_MAX], used;
	uint64_t keys;
} tree;

/* Even, so that the next number is nobody's key. */
static uint64_t key_at(const struct run *run, uint64_t i)
{
	return i << 20 | (random_at(run->seed, i) & 0x7ffff) << 1;
}

static uint64_t value_at(const struct run *run, uint64_t i)
{
	return random_at(~run->seed, i);
}

static uint32_t slot_of(uint64_t node)
{
	return (uint32_t)(node * SCATTER & (tree.slots - 1));
}

/* The node that lies in a slot. */
static uint64_t node_in(uint64_t slot)
{
	return slot * tree.inverse & (tree.slots - 1);
}

/* As many leaves as there is room for, with all that is above them. */
static void shape(void)
{
	uint64_t leaves = tree.slots * (CHILDREN - 1) / CHILDREN + 1;

	/* Newton's iteration: an odd number is its own inverse in 3 bits, and each step doubles them. */
	tree.inverse = SCATTER;
	for (int bits = 3; bits < 64; bits *= 2)
		tree.inverse *= 2 - SCATTER * tree.inverse;
	do {
		leaves--;
		tree.used = 0;
		tree.levels = 0;
		for (uint64_t size = leaves;; size = (size + CHILDREN - 1) / CHILDREN) {
			tree.size[tree.levels] = size;
			tree.first[tree.levels++] = tree.used;
			tree.used += size;
			if (size == 1)
				break;
		}
	} while (tree.used > tree.slots);
	tree.keys = leaves * KEYS;
}

static void fill_leaf(const struct run *run, struct node *node, uint64_t at)
{
	node->count = KEYS;
	for (uint64_t i = 0; i < KEYS; i++) {
		node->key[i] = key_at(run, at * KEYS + i);
		node->value[i] = value_at(run, at * KEYS + i);
	}
}

static void fill_inner(const struct run *run, struct node *node, unsigned int level, uint64_t at)
{
	const uint64_t first = at * CHILDREN, left = tree.size[level - 1] - first;
	uint64_t keys = KEYS;	/* below one child */

	for (unsigned int i = 1; i < level; i++)
		keys *= CHILDREN;
	node->count = left < CHILDREN ? left : CHILDREN;
	for (uint64_t i = 0; i < node->count; i++) {
		node->child[i] = slot_of(tree.first[level - 1] + first + i);
		if (i)
			node->key[i - 1] = key_at(run, (first + i) * keys);
	}
}

static void fill(struct run *run, unsigned int index)
{
	const struct span mine = dataset_share(run, tree.slots, index);

	for (uint64_t slot = mine.first; slot < mine.end; slot++) {
		const uint64_t node = node_in(slot);
		unsigned int level = 0;

		if (node >= tree.used)
			continue;
		while (node - tree.first[level] >= tree.size[level])
			level++;
		if (level)
			fill_inner(run, &tree.nodes[slot], level, node - tree.first[level]);
		else
			fill_leaf(run, &tree.nodes[slot], node);
	}
}

/* The number of the key that lookup i is for; in a miss it is for one just above, which is not there. */
static uint64_t drawn(const struct run *run, uint64_t i, bool *is_miss)
{
	*is_miss = i % 4 == 3;
	return random_at(run->seed ^ 0x6c6f6f6bULL << 32, i) % tree.keys;
}

static uint64_t find(uint64_t key)
{
	const struct node *node = &tree.nodes[slot_of(tree.first[tree.levels - 1])];

	for (unsigned int level = tree.levels - 1; level; level--) {
		uint64_t i = 0;

		while (i + 1 < node->count && node->key[i] <= key)
			i++;
		node = &tree.nodes[node->child[i]];
	}
	for (uint64_t i = 0; i < node->count; i++)
		if (node->key[i] == key)
			return node->value[i];
	return MISSED;
}

static uint64_t look_up(const struct run *run, uint64_t i)
{
	bool is_miss;
	const uint64_t key = key_at(run, drawn(run, i, &is_miss));

	return checksum_add(find(key + is_miss), i);
}

static uint64_t expected(const struct run *run, uint64_t i)
{
	bool is_miss;
	const uint64_t key = drawn(run, i, &is_miss);

	return checksum_add(is_miss ? MISSED : value_at(run, key), i);
}

static int setup(struct run *run)
{
	const int error = dataset_open(run, 0);
	uint64_t key;
	bool is_miss;

	if (error)
		return error;
	/* Each node is within one page. */
	tree.nodes = (struct node *)dataset.start;
	tree.slots = dataset.bytes / sizeof(struct node);
	shape();
	team_run(run, fill);
	key = drawn(run, 0, &is_miss);
	if (dataset.is_planted)
		tree.nodes[slot_of(key / KEYS)].value[key % KEYS] ^= 1;
	units_are(look_up, expected);
	dataset_warm(run);
	return 0;
}

WORKLOAD(btree_lookups) = {
	DATASET_ENTRY,
	.name = "btree",
	.unit = "key looked up",
	.about = "Threads look up random keys in a B-tree of --set mib=N MiB (64), whose nodes lie anywhere.",
	.units = 200000,
	.measure = units_measure,
	.verify = units_verify,
};
