/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A Kronecker graph as in Graph500, but with 4 edges a vertex. Each edge is a function
 * of seed and number, so it can be drawn again without the graph. Loops and repeated
 * edges stay in. In memory each edge is two arcs, one in the list of either vertex.
 */
#ifndef CEASEFIRE_GRAPH_H
#define CEASEFIRE_GRAPH_H

#include "support/dataset.h"

#define EDGES_PER_VERTEX 4U
/* Of the dataset, for each vertex: its arcs, where they begin, and what the algorithm needs. */
#define BYTES_PER_VERTEX 64U
#define GRAPH_REST_BYTES 24U

/* Of the running workload: there is one a process. */
extern struct graph {
	uint64_t vertices;	/* 2 to the power of scale */
	unsigned int scale;
	uint64_t edges, arcs;
	uint32_t *first;	/* arc of each vertex; one more at the end */
	uint32_t *target;	/* of each arc */
	char *rest;		/* GRAPH_REST_BYTES for each vertex, for the algorithm */
} graph;

struct edge {
	uint32_t a, b;
};

/* Opens the dataset and fills in the graph; the rest is not written yet. Return: as dataset_open(). */
int graph_open(struct run *run);
struct edge graph_edge(const struct run *run, uint64_t number);

static inline uint64_t graph_degree(uint64_t vertex)
{
	return graph.first[vertex + 1] - graph.first[vertex];
}

#endif
