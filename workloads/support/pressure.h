/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory pressure: swap on a zram device of our own, and a cgroup (v2) with a
 * memory limit. Needs root. Each function that can fail returns 0, or a
 * negative errno after workload_skip() or workload_fail() has said why.
 */
#ifndef CEASEFIRE_PRESSURE_H
#define CEASEFIRE_PRESSURE_H

#include "workload.h"

/*
 * Add a zram device and swap on it. A machine's own swap is left alone; ours
 * gets the highest priority. One at a time.
 */
int pressure_swap_on(struct run *run, uint64_t bytes);
/* Swap off, device gone. Does nothing when there is none. */
void pressure_swap_off(void);

/* Make the cgroup "ceasefire" with this memory.max. One at a time. */
int pressure_cgroup_make(struct run *run, uint64_t memory_bytes_max);
/* Move the calling process in, or back to the root cgroup. Return: 0 or -errno. */
int pressure_cgroup_enter(void);
int pressure_cgroup_leave(void);
/* Pages charged to the cgroup are dropped with it. Does nothing when there is none. */
void pressure_cgroup_remove(void);

#endif
