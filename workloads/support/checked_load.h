/* SPDX-License-Identifier: GPL-2.0-only */
/* A load that says whether it faulted, in place of a signal that kills. */
#ifndef CEASEFIRE_CHECKED_LOAD_H
#define CEASEFIRE_CHECKED_LOAD_H

#include "workload.h"

struct loaded {
	uint64_t value;
	uint64_t has_faulted;	/* 1 if there was nothing to read */
};

/* From here on checked_load() may be used. Return: 0, or what workload_fail() gave. */
int checked_load_open(struct run *run);

struct loaded checked_load(const volatile uint64_t *address);

#endif
