/* SPDX-License-Identifier: GPL-2.0-only */
/* For mechanisms that flush in ways of their own. To be called before late_initcall(). */
#ifndef MM_CEASEFIRE_COUNTERS_H
#define MM_CEASEFIRE_COUNTERS_H

#include <linux/types.h>

/*
 * @function is what a mechanism lets other CPUs run, by smp_call_function_many(), to
 * flush user translations, right after trace_tlb_flush(TLB_REMOTE_SEND_IPI, ...) and with
 * preemption off: its targets are counted as those of flush_tlb_func().
 */
void ceasefire_count_flush(const char *function);

/* Each call of @function is a flush request. */
void ceasefire_count_request(const char *function);

struct dentry;

void held_init(struct dentry *dir);

/* Between "enabled" and its end; a moment late on either side. */
bool ceasefire_is_counting(void);

/* Had a CPU to be interrupted that is about to be? (needed.c) */
enum need { NEEDLESS_CPU, NEEDED_CPU, UNASKED_CPU };

#ifdef CONFIG_CEASEFIRE_NEEDED
bool needed_is_known(void);
/* To be called where this task has chosen @cpu as a target. Preemption off. */
enum need needed_of(unsigned int cpu);
#else
static inline bool needed_is_known(void) { return false; }
static inline enum need needed_of(unsigned int cpu) { return UNASKED_CPU; }
#endif

#endif
