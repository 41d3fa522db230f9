// SPDX-License-Identifier: GPL-2.0-only
/* See graph.h. */
#include "numa/graph.h"

#define LEVELS_PER_DRAW 8U	/* a byte each */
#define DRAWS 4U

/* Of 256: the quadrants of Graph500, 0.57, 0.19, 0.19 and 0.05. */
#define BELOW_AB 146U
#define BELOW_BA 195U
#define BELOW_BB 244U

struct graph graph;

/* Numbers the vertices anew, so that those with many edges do not lie side by side. */
static uint32_t scattered(const struct run *run, uint64_t vertex)
{
	const uint64_t mask = graph.vertices - 1;

	vertex = (vertex + run->seed) * SCATTER & mask;
	vertex ^= vertex >> (graph.scale / 2 + 1);
	return (uint32_t)(vertex * 0x85ebca6bU & mask);
}

struct edge graph_edge(const struct run *run, uint64_t number)
{
	uint64_t a = 0, b = 0, random = 0;

	for (unsigned int level = 0; level < graph.scale; level++) {
		unsigned int quadrant;

		if (level % LEVELS_PER_DRAW == 0)
			random = random_at(run->seed, number * DRAWS + level / LEVELS_PER_DRAW);
		quadrant = random & 0xff;
		random >>= 8;
		a = a << 1 | (quadrant >= BELOW_BA);
		b = b << 1 | ((quadrant >= BELOW_AB && quadrant < BELOW_BA) || quadrant >= BELOW_BB);
	}
	return (struct edge){ .a = scattered(run, a), .b = scattered(run, b) };
}

/* Each thread is the first to write its share. */
static void clear(struct run *run, unsigned int index)
{
	const struct span vertices = dataset_share(run, graph.vertices + 1, index);
	const struct span arcs = dataset_share(run, graph.arcs, index);

	for (uint64_t i = vertices.first; i < vertices.end; i++)
		graph.first[i] = 0;
	for (uint64_t i = arcs.first; i < arcs.end; i++)
		graph.target[i] = 0;
}

/* One thread, so that each list is in the order in which its edges are drawn. */
static void lay_down(const struct run *run)
{
	uint32_t sum = 0;

	for (uint64_t i = 0; i < graph.edges; i++) {
		const struct edge edge = graph_edge(run, i);

		graph.first[edge.a]++;
		graph.first[edge.b]++;
	}
	for (uint64_t i = 0; i <= graph.vertices; i++) {
		const uint32_t degree = graph.first[i];

		sum += degree;
		/* The end of its list, which is filled from there down to its beginning. */
		graph.first[i] = sum;
	}
	for (uint64_t i = graph.edges; i-- > 0;) {
		const struct edge edge = graph_edge(run, i);

		graph.target[--graph.first[edge.a]] = edge.b;
		graph.target[--graph.first[edge.b]] = edge.a;
	}
}

int graph_open(struct run *run)
{
	const int error = dataset_open(run, 0);

	if (error)
		return error;
	graph.vertices = dataset.bytes / BYTES_PER_VERTEX;
	while (1ULL << graph.scale < graph.vertices)
		graph.scale++;
	graph.edges = graph.vertices * EDGES_PER_VERTEX;
	graph.arcs = 2 * graph.edges;
	/* What needs eight bytes comes first. */
	graph.rest = dataset.start;
	graph.first = (uint32_t *)(graph.rest + graph.vertices * GRAPH_REST_BYTES);
	graph.target = graph.first + graph.vertices + 1;
	team_run(run, clear);
	lay_down(run);
	return 0;
}
