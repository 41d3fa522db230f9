/* SPDX-License-Identifier: GPL-2.0-only */
/* The mechanism's counters: pages whose flush was left out, by site and reason. */
#ifndef CEASEFIRE_ELISIONS_H
#define CEASEFIRE_ELISIONS_H

#include "workload.h"

bool elisions_are_counted(void);
/* Return: the count, 0 where nobody counts. */
uint64_t elisions_at(const char *site, const char *reason);
/* All sites, both reasons that need no flush at all. */
uint64_t elisions_all(void);

#endif
