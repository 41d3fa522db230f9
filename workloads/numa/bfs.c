// SPDX-License-Identifier: GPL-2.0-only
/*
 * Breadth-first search, one level after the other, through a Kronecker graph. The
 * search starts again from the same vertex until --units edges have been followed.
 * Unit: an edge followed. Checksum: of the levels of all vertices.
 *
 * Theory. A vertex's arcs are read in order, but the vertex at the end of each is
 * anywhere: a walk for each edge where the levels are beyond the TLB. Nothing is
 * mapped or unmapped: no shootdown.
 *
 * The levels are the distances from the start if and only if
 *   - the start alone has level 0,
 *   - each other vertex that was reached has a neighbour one level below,
 *   - no edge joins levels more than one apart, and
 *   - no edge joins a vertex that was reached and one that was not.
 * For this the edges are drawn again, not read from the graph.
 */
#include <errno.h>
#include <string.h>

#include "numa/graph.h"

#define NOT_REACHED UINT32_MAX
#define VERTICES_AT_ONCE 64U

/* What one search found: sums, as the order differs from one to the next. */
struct found {
	uint64_t arcs, arc_sum, level_sum;
};

static struct {
	uint32_t *level, *now, *next;	/* the vertices of this level, and of the next one */
	uint32_t start;
	_Atomic uint64_t taken, next_count;
	uint64_t now_count;
	struct found found[THREADS_MAX];
	struct found first;		/* by the first search; all others must find the same */
	bool is_different;
} bfs;

static uint64_t mixed(uint64_t from, uint64_t to)
{
	const uint64_t product = (from << 32 | to) * 0x9e3779b97f4a7c15ULL;

	return product ^ product >> 32;
}

static void forget(struct run *run, unsigned int index)
{
	const struct span mine = dataset_share(run, graph.vertices, index);

	for (uint64_t i = mine.first; i < mine.end; i++)
		bfs.level[i] = bfs.now[i] = bfs.next[i] = NOT_REACHED;
}

static int setup(struct run *run)
{
	const int error = graph_open(run);

	if (error)
		return error;
	bfs.level = (uint32_t *)graph.rest;
	bfs.now = bfs.level + graph.vertices;
	bfs.next = bfs.now + graph.vertices;
	team_run(run, forget);
	/* The vertex with most edges: nearly all that have edges can be reached from it. */
	for (uint64_t i = 1; i < graph.vertices; i++)
		if (graph_degree(i) > graph_degree(bfs.start))
			bfs.start = (uint32_t)i;
	if (dataset.is_planted)
		graph.target[graph.first[bfs.start]] ^= 1;
	dataset_warm(run);
	return 0;
}

static void follow(uint32_t vertex, uint32_t level, struct found *found)
{
	const uint32_t end = graph.first[vertex + 1];

	for (uint32_t arc = graph.first[vertex]; arc < end; arc++) {
		const uint32_t target = graph.target[arc];
		uint32_t expected = NOT_REACHED;

		found->arcs++;
		found->arc_sum += mixed(vertex, target);
		if (__atomic_load_n(&bfs.level[target], __ATOMIC_RELAXED) != NOT_REACHED)
			continue;
		if (!__atomic_compare_exchange_n(&bfs.level[target], &expected, level + 1, false, __ATOMIC_RELAXED,
						 __ATOMIC_RELAXED))
			continue;
		found->level_sum += mixed(level + 1, target);
		bfs.next[atomic_fetch_add(&bfs.next_count, 1)] = target;
	}
}

static void end_level(void)
{
	uint32_t *done = bfs.now;

	bfs.now = bfs.next;
	bfs.next = done;
	bfs.now_count = atomic_load(&bfs.next_count);
	atomic_store(&bfs.next_count, 0);
	atomic_store(&bfs.taken, 0);
}

static void search(struct run *run, unsigned int index)
{
	const struct span mine = work_share(run, graph.vertices, index);
	struct found found = { 0 };

	for (uint64_t i = mine.first; i < mine.end; i++)
		bfs.level[i] = NOT_REACHED;
	team_barrier(run);
	if (index == 0) {
		bfs.level[bfs.start] = 0;
		bfs.next[0] = bfs.start;
		atomic_store(&bfs.next_count, 1);
		end_level();
	}
	team_barrier(run);
	for (uint32_t level = 0; bfs.now_count; level++) {
		for (;;) {
			uint64_t i = atomic_fetch_add(&bfs.taken, VERTICES_AT_ONCE);
			const uint64_t end = i + VERTICES_AT_ONCE;

			if (i >= bfs.now_count)
				break;
			for (; i < end && i < bfs.now_count; i++)
				follow(bfs.now[i], level, &found);
		}
		team_barrier(run);
		if (index == 0)
			end_level();
		team_barrier(run);
	}
	bfs.found[index] = found;
}

static int measure(struct run *run)
{
	uint64_t arcs = 0, searches = 0;

	for (; arcs < run->units; searches++) {
		struct found all = { 0 };

		team_run(run, search);
		for (unsigned int i = 0; i < run->threads; i++) {
			all.arcs += bfs.found[i].arcs;
			all.arc_sum += bfs.found[i].arc_sum;
			all.level_sum += bfs.found[i].level_sum;
		}
		if (!searches)
			bfs.first = all;
		bfs.is_different |= memcmp(&all, &bfs.first, sizeof(all)) != 0;
		arcs += all.arcs;
	}
	run->units = arcs;
	report_extra(run, "searches", (double)searches);
	return 0;
}

static int wrong(struct run *run, const char *what, uint64_t vertex)
{
	return workload_fail(run, "the search from %u is wrong at vertex %llu: %s", bfs.start,
			     (unsigned long long)vertex, what);
}

/* Looks at each edge by itself. In *all: which edges a search must have followed. */
static int verify_edges(struct run *run, bool *has_parent, struct found *all)
{
	for (uint64_t i = 0; i < graph.edges; i++) {
		const struct edge edge = graph_edge(run, i);
		const uint32_t a = bfs.level[edge.a], b = bfs.level[edge.b];

		if ((a == NOT_REACHED) != (b == NOT_REACHED))
			return wrong(run, "it has an edge of which one end was reached, and the other was not", edge.a);
		if (a == NOT_REACHED)
			continue;
		if (a > b + 1 || b > a + 1)
			return wrong(run, "it has an edge to a level more than one away", edge.a);
		has_parent[edge.a] |= a == b + 1;
		has_parent[edge.b] |= b == a + 1;
		all->arcs += 2;
		all->arc_sum += mixed(edge.a, edge.b) + mixed(edge.b, edge.a);
	}
	return 0;
}

static int verify_levels(struct run *run)
{
	const uint64_t bytes = graph.vertices * sizeof(bool);
	bool *has_parent = again_alloc(run, bytes);
	struct found all = { 0 };
	int error;

	if (!has_parent)
		return -ENOMEM;
	error = verify_edges(run, has_parent, &all);
	for (uint64_t i = 0; i < graph.vertices && !error; i++) {
		if (bfs.level[i] == NOT_REACHED)
			continue;
		if (has_parent[i] != (i != bfs.start) || (bfs.level[i] == 0) != (i == bfs.start))
			error = wrong(run, "its level is not one above a neighbour's", i);
		if (i != bfs.start)
			all.level_sum += mixed(bfs.level[i], i);
	}
	again_free(has_parent, bytes);
	if (!error && memcmp(&all, &bfs.first, sizeof(all)))
		error = wrong(run, "the edges that were followed are not the graph's", bfs.start);
	return error;
}

static int verify(struct run *run)
{
	dataset_report(run);
	for (uint64_t i = 0; i < graph.vertices; i++)
		run->checksum = checksum_add(run->checksum, bfs.level[i]);
	if (bfs.is_different)
		return wrong(run, "two searches found different things", bfs.start);
	return verify_levels(run);
}

WORKLOAD(bfs_search) = {
	DATASET_ENTRY,
	.name = "bfs",
	.unit = "edge followed",
	.about = "Threads search a Kronecker graph of --set mib=N MiB (64) breadth-first, again until --units edges have been "
		 "followed.",
	.units = 1,
	.measure = measure,
	.verify = verify,
};
