/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A round: a flush of the whole of this address space, on every CPU that runs
 * it. More pages than any kernel here flushes one by one (33 as tlb_single_page_flush_ceiling
 * has it, 132 where it is raised most), which the caller has just used, lose their write
 * permission in one call.
 */
#ifndef CEASEFIRE_ROUNDS_H
#define CEASEFIRE_ROUNDS_H

#include "workload.h"

/* Return: 0, or what workload_fail() gave. */
int rounds_open(struct run *run);
void rounds_close(void);
int rounds_run(struct run *run, uint64_t count);

#endif
