/* SPDX-License-Identifier: GPL-2.0-only */
/* --set hotplug=1: CPUs leave and come back, one at a time, while a workload runs. */
#ifndef CEASEFIRE_HOTPLUG_H
#define CEASEFIRE_HOTPLUG_H

#include "workload.h"

/* Starts a process that does so, if it is asked for. Return: 0, or what workload_fail() or workload_skip() gave. */
int hotplug_start(struct run *run);

/* The calling thread's CPU may have been away: back to it, if that is there. */
void hotplug_return(unsigned int index);

/* All CPUs are there again. How often one had left: extra figure hotplug_departures. Return: 0, or as above. */
int hotplug_stop(struct run *run);

#endif
