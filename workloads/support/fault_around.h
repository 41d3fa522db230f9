/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * --set fault_around_kib=N: how much of a file one read fault maps, where its
 * pages are in memory already. The kernel's own is 64; 4 maps the page alone.
 * A thread's slice of a mapping starts on a window of 64 KiB: in larger ones
 * a fault at its edge maps a neighbour's pages, too.
 */
#ifndef CEASEFIRE_FAULT_AROUND_H
#define CEASEFIRE_FAULT_AROUND_H

#include "workload.h"

/* Does nothing where it was not asked for. Return: 0, or a negative errno after the reason is said. */
int fault_around_set(struct run *run);
void fault_around_restore(void);

#endif
