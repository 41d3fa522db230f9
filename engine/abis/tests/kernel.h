/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of the kernel side share; what others may call is in model.h. */
#ifndef KERNEL_H
#define KERNEL_H

#include "model.h"

static inline u32 slot_of(int page) { return (u32)page % SLOTS; }
static inline int region_of(int page) { return page / SLOTS; }

/* kernel.c */
int table_alloc(int mm);
bool lock(struct core *core, int table);
void unlock(int table);
bool accessible(struct pte pte);
void reveal(struct pte *pte);
void take_from(struct core *core, struct pte *pte, struct pte new);
void read_in_flight(struct op *op);
void read_version(struct op *op);
void stamp(struct op *op, struct table *table, int slot);
bool taken(struct op *op, struct table *table, int slot);
void decide(struct op *op, struct table *table, int slot, int page);
void flush_range(struct core *core, int first, int last, bool full);
void flush_cpus(struct core *core, int first, int last, bool full, u32 mask);
void finished(struct op *op, int page, int slot);
void region_finished(struct op *op, int region);
bool batched_pending(struct core *core);
void batched_flushed(struct op *op);
void end(struct op *op);
bool may_ask(const struct op *op);

/* kernel_fault.c */
bool may_insert(const struct core *core);
void fault(struct core *core);
void clear_flush(struct core *core);

/* kernel_gather.c */
void gather(struct core *core);

/* kernel_pages.c */
void reclaim(struct core *core);
void young(struct core *core);
void remap(struct core *core);
void move_table(struct core *core);

/* kernel_mm.c */
void mm_init(struct mm *mm);
void fork_mm(struct core *core);
void mode(struct core *core);
void run(struct core *core);
void lazy(struct core *core);
void flush_all(struct core *core);

#endif
