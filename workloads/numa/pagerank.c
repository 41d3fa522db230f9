// SPDX-License-Identifier: GPL-2.0-only
/*
 * PageRank of a Kronecker graph: in each round each vertex adds up what its neighbours
 * give, until --units edges have been read. Unit: an edge read. Checksum: of the last
 * ranks, and of what each vertex has read in each round. Without the latter, what was
 * read wrong in an early round would fade away, as the ranks converge.
 *
 * Theory. A vertex's arcs are read in order, but the neighbour at the end of each is
 * anywhere: a walk for each edge where the ranks are beyond the TLB. Nothing is mapped
 * or unmapped: no shootdown.
 *
 * Ranks are integers, so sums do not depend on their order. One thread computes all
 * again with edges that are drawn again: for each edge it adds to both its vertices.
 */
#include <errno.h>

#include "numa/graph.h"

#define RANK_ONE (1ULL << 24)	/* the mean rank: no sum overflows below 2^30 vertices */
#define DAMPING 870U		/* of 1,024: 0.85 */

static struct {
	uint64_t *gives, *next;	/* what each vertex gives to each neighbour, in this round and in the next */
	uint64_t rounds;
	uint64_t read_sums[THREADS_MAX];
} rank;

static uint64_t ranked(uint64_t taken)
{
	return RANK_ONE * (1024 - DAMPING) / 1024 + taken * DAMPING / 1024;
}

static uint64_t given(uint64_t of, uint64_t degree)
{
	return degree ? of / degree : 0;
}

/* For the checksum. An odd factor lets one wrong sum always show; different ones keep two from cancelling out. */
static uint64_t weighted(uint64_t vertex, uint64_t taken)
{
	return (2 * vertex + 1) * taken;
}

static void start(struct run *run, unsigned int index)
{
	const struct span mine = dataset_share(run, graph.vertices, index);

	for (uint64_t i = mine.first; i < mine.end; i++) {
		rank.gives[i] = given(RANK_ONE, graph_degree(i));
		rank.next[i] = 0;
	}
}

/* Makes wrong the first arc whose wrong neighbour does not give as much as the right one. */
static void plant(void)
{
	uint64_t arc = 0;

	while (arc + 1 < graph.arcs && rank.gives[graph.target[arc]] == rank.gives[graph.target[arc] ^ 1])
		arc++;
	graph.target[arc] ^= 1;
}

static int setup(struct run *run)
{
	const int error = graph_open(run);

	if (error)
		return error;
	rank.gives = (uint64_t *)graph.rest;
	rank.next = rank.gives + graph.vertices;
	team_run(run, start);
	if (dataset.is_planted)
		plant();
	rank.rounds = (run->units + graph.arcs - 1) / graph.arcs;
	dataset_warm(run);
	return 0;
}

static void iterate(struct run *run, unsigned int index)
{
	const struct span mine = work_share(run, graph.vertices, index);
	uint64_t sum = 0;

	for (uint64_t round = 0; round < rank.rounds; round++) {
		for (uint64_t i = mine.first; i < mine.end; i++) {
			const uint32_t first = graph.first[i], end = graph.first[i + 1];
			uint64_t taken = 0;

			for (uint32_t arc = first; arc < end; arc++)
				taken += rank.gives[graph.target[arc]];
			rank.next[i] = given(ranked(taken), end - first);
			sum += weighted(i, taken);
		}
		team_barrier(run);
		if (index == 0) {
			uint64_t *done = rank.gives;

			rank.gives = rank.next;
			rank.next = done;
		}
		team_barrier(run);
	}
	rank.read_sums[index] = sum;
}

static int measure(struct run *run)
{
	team_run(run, iterate);
	run->units = rank.rounds * graph.arcs;
	report_extra(run, "rounds", (double)rank.rounds);
	return 0;
}

/* A vertex in the second computation. */
struct again {
	uint64_t gives, taken, degree;
};

/* Return: the sum of what all vertices have read. */
static uint64_t compute_again(const struct run *run, struct again *again)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < graph.edges; i++) {
		const struct edge edge = graph_edge(run, i);

		again[edge.a].degree++;
		again[edge.b].degree++;
	}
	for (uint64_t i = 0; i < graph.vertices; i++)
		again[i].gives = given(RANK_ONE, again[i].degree);
	for (uint64_t round = 0; round < rank.rounds; round++) {
		for (uint64_t i = 0; i < graph.edges; i++) {
			const struct edge edge = graph_edge(run, i);

			again[edge.a].taken += again[edge.b].gives;
			again[edge.b].taken += again[edge.a].gives;
		}
		for (uint64_t i = 0; i < graph.vertices; i++) {
			sum += weighted(i, again[i].taken);
			again[i].gives = given(ranked(again[i].taken), again[i].degree);
			again[i].taken = 0;
		}
	}
	return sum;
}

static int verify(struct run *run)
{
	const uint64_t bytes = graph.vertices * sizeof(struct again);
	uint64_t expected, sum = 0;
	struct again *again;

	dataset_report(run);
	again = again_alloc(run, bytes);
	if (!again)
		return -ENOMEM;
	for (unsigned int i = 0; i < run->threads; i++)
		sum += rank.read_sums[i];
	run->checksum = checksum_add(CHECKSUM_SEED, sum);
	expected = checksum_add(CHECKSUM_SEED, compute_again(run, again));
	for (uint64_t i = 0; i < graph.vertices; i++) {
		run->checksum = checksum_add(run->checksum, rank.gives[i]);
		expected = checksum_add(expected, again[i].gives);
	}
	again_free(again, bytes);
	return checksum_must_be(run, expected);
}

WORKLOAD(page_rank) = {
	DATASET_ENTRY,
	.name = "pagerank",
	.unit = "edge read",
	.about = "Threads rank the vertices of a Kronecker graph of --set mib=N MiB (64), in rounds until --units edges have "
		 "been read.",
	.units = 1,
	.measure = measure,
	.verify = verify,
};
