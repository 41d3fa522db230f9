/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's own ways of clearing the access bits of pages in use:
 *
 *   none       leaves them
 *   page-idle  idle page tracking
 *   cold       MADV_COLD, which also flushes each range
 *   classic    reclaim by the classic LRU, which passes over pages in use
 *   mglru      aging by the multi-generation LRU
 *   damon      DAMON's sampling of virtual addresses
 */
#ifndef CEASEFIRE_ACCESS_BITS_H
#define CEASEFIRE_ACCESS_BITS_H

#include "support/page_idle.h"
#include "support/regions.h"

/*
 * Before the regions are first used. is_file: what will be mapped in them.
 * Return: 0, or what workload_skip() or workload_fail() gave.
 */
int access_bits_open(struct run *run, const char *how, const struct regions *regions, bool is_file);
void access_bits_close(void);
/*
 * Clear those of all regions, which the caller was the first to use, and look
 * that they are clear. *clear_pages: how many are; -1 where nothing can tell.
 */
int access_bits_clear(struct run *run, int64_t *clear_pages);
/* Look again. */
int64_t access_bits_look(void);

#endif
