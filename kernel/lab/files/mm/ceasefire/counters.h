/* SPDX-License-Identifier: GPL-2.0-only */
/* For mechanisms that flush in ways of their own. To be called before late_initcall(). */
#ifndef MM_CEASEFIRE_COUNTERS_H
#define MM_CEASEFIRE_COUNTERS_H

/*
 * @function is what a mechanism lets other CPUs run, by smp_call_function_many(), to
 * flush user translations, right after trace_tlb_flush(TLB_REMOTE_SEND_IPI, ...) and with
 * preemption off: its targets are counted as those of flush_tlb_func().
 */
void ceasefire_count_flush(const char *function);

/* Each call of @function is a flush request. */
void ceasefire_count_request(const char *function);

#endif
