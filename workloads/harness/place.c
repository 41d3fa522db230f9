// SPDX-License-Identifier: GPL-2.0-only
/* NUMA nodes: which CPUs and how much free memory each has, and in which order threads are put on their CPUs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

#define NODES_MAX 1024
#define PATH_BYTES 512

const char *nodes_fake(void)
{
	return getenv("CEASEFIRE_FAKE_NODES");
}

static const char *nodes_directory(void)
{
	return nodes_fake() ? nodes_fake() : "/sys/devices/system/node";
}

int cpu_find_node(int cpu)
{
	char path[PATH_BYTES];

	for (int node = 0; node < NODES_MAX; node++) {
		snprintf(path, sizeof(path), "%s/node%d/cpu%d", nodes_directory(), node, cpu);
		if (access(path, F_OK) == 0)
			return node;
	}
	return -1;
}

unsigned int cpu_node(int cpu)
{
	const int node = cpu_find_node(cpu);

	/* A kernel without NUMA has no such files. */
	return node < 0 ? 0 : (unsigned int)node;
}

uint64_t node_room_kib(unsigned int node)
{
	char path[PATH_BYTES], list[256];

	snprintf(path, sizeof(path), "%s/has_memory", nodes_directory());
	if (file_read(path, list, sizeof(list)) <= 0 || !strpbrk(list, ",-"))
		return file_kib("/proc/meminfo", "MemAvailable:", UINT64_MAX);
	/* With other nodes to turn to, Linux takes their free memory before it reclaims any here. */
	snprintf(path, sizeof(path), "%s/node%u/meminfo", nodes_directory(), node);
	return file_kib(path, "MemFree:", 0);
}

/* The nodes of these CPUs, each once, the first CPU's node first. */
static unsigned int list_nodes(const unsigned int *node, unsigned int count, unsigned int *list)
{
	unsigned int nodes = 0;

	for (unsigned int i = 0; i < count; i++) {
		unsigned int known = 0;

		while (known < nodes && list[known] != node[i])
			known++;
		if (known == nodes)
			list[nodes++] = node[i];
	}
	return nodes;
}

/* Take a CPU of each listed node in turn, until they have none left. */
static unsigned int take_in_turn(int *cpus, unsigned int count, const unsigned int *node, bool *is_taken,
				 const unsigned int *list, unsigned int nodes, int *out)
{
	unsigned int taken = 0, before;

	do {
		before = taken;
		for (unsigned int i = 0; i < nodes; i++) {
			for (unsigned int j = 0; j < count; j++) {
				if (is_taken[j] || node[j] != list[i])
					continue;
				is_taken[j] = true;
				out[taken++] = cpus[j];
				break;
			}
		}
	} while (taken > before);
	return taken;
}

int cpus_place(struct run *run, int *cpus, unsigned int count)
{
	const char *how = option_text("cpus", run->workload->is_spread ? "spread" : "ordered");
	const bool is_apart = strcmp(how, "apart") == 0;
	unsigned int node[THREADS_MAX], list[THREADS_MAX], nodes, placed = 0;
	bool is_taken[THREADS_MAX] = { false };
	int out[THREADS_MAX];

	if (strcmp(how, "ordered") == 0)
		return 0;
	if (!is_apart && strcmp(how, "spread") != 0)
		return workload_fail(run, "cpus is ordered, spread or apart, not %s", how);
	for (unsigned int i = 0; i < count; i++)
		node[i] = cpu_node(cpus[i]);
	nodes = list_nodes(node, count, list);
	if (is_apart && nodes < 2)
		return workload_skip(run, "cpus=apart needs CPUs of 2 NUMA nodes: give --nodes 2");
	if (is_apart) {
		/* The other CPUs of the first thread's node come last. */
		is_taken[0] = true;
		out[placed++] = cpus[0];
		placed += take_in_turn(cpus, count, node, is_taken, list + 1, nodes - 1, out + placed);
		nodes = 1;
	}
	take_in_turn(cpus, count, node, is_taken, list, nodes, out + placed);
	memcpy(cpus, out, count * sizeof(*cpus));
	return 0;
}
