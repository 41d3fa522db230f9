/* SPDX-License-Identifier: GPL-2.0-only */
/* A load and a store that say whether they faulted, in place of a signal that kills. */
#ifndef CEASEFIRE_CHECKED_LOAD_H
#define CEASEFIRE_CHECKED_LOAD_H

#include "workload.h"

struct loaded {
	uint64_t value;
	uint64_t has_faulted;	/* 1 if there was nothing to read */
};

/* From here on the two below may be used. Return: 0, or what workload_fail() gave. */
int checked_load_open(struct run *run);

struct loaded checked_load(const volatile uint64_t *address);
/* Return: 0; 1 if it faulted, and then nothing was stored. */
int checked_store(volatile uint64_t *address, uint64_t value);

#endif
