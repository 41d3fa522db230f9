/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * --set opt-in=1: the process uses membarrier(2). opt-in=2: it tells the mechanism by its
 * prctl. Either says that nobody relies on being interrupted by its mprotect(). opt-in=3:
 * it registers for membarrier(2), as C libraries do, which says nothing.
 */
#ifndef CEASEFIRE_OPT_IN_H
#define CEASEFIRE_OPT_IN_H

#include "workload.h"

/*
 * @is_refused: the process has refused, and that must last. Does nothing where it was not
 * asked for. Return: 0, or a negative errno after the reason is said.
 */
int opt_in(struct run *run, bool is_refused);

#endif
