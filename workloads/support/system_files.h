/* SPDX-License-Identifier: GPL-2.0-only */
/* What /proc and /sys say about the machine, and settings there. */
#ifndef CEASEFIRE_SYSTEM_FILES_H
#define CEASEFIRE_SYSTEM_FILES_H

#include "workload.h"

#define NODES_MAX 64

#define VMSTAT "/proc/vmstat"

/* The number in a file's row "NAME NUMBER"; 0 where there is no such row. */
uint64_t file_row(const char *path, const char *name);

/* The NUMA nodes that have memory, in order. Return: how many (at least 1). */
unsigned int memory_nodes(unsigned int nodes[NODES_MAX]);

/* The node of the CPU the caller runs on. */
unsigned int node_here(void);

/*
 * May this run change swap, cgroups or kernel settings? The lab's guest lives
 * for one run (its PID 1 says so in the environment); a host's user must say
 * --set change_host=1, because a run that is killed cannot put things back.
 * Return: 0, or a negative errno after workload_skip() has said why.
 */
int system_may_change(struct run *run);

/* One value below /proc/sys or /sys, and what it was before. */
struct setting {
	const char *path, *value;
	char old[32];
	bool is_changed;
};

/* Return: 0 or -errno. */
int setting_change(struct setting *setting);
/* Does nothing if it was not changed. */
void setting_restore(struct setting *setting);

#endif
