/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM abis

#if !defined(_TRACE_ABIS_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_ABIS_H

#include <linux/abis.h>
#include <linux/tracepoint.h>

#define ABIS_SITE_NAMES					\
	{ ABIS_ZAP,		"zap" },		\
	{ ABIS_RECLAIM,		"reclaim" },		\
	{ ABIS_MIGRATE,		"migrate" },		\
	{ ABIS_PROTECT,		"protect" },		\
	{ ABIS_REMAP,		"remap" },		\
	{ ABIS_CLEAR_FLUSH,	"clear_flush" }

/* One decision about nr PTEs: targets and reason as in mm/abis/engine/engine.h. */
TRACE_EVENT(abis_decide,
	TP_PROTO(struct mm_struct *mm, unsigned long addr, unsigned int nr,
		 int site, int targets, int reason),
	TP_ARGS(mm, addr, nr, site, targets, reason),
	TP_STRUCT__entry(
		__field(u64,		ctx_id)
		__field(unsigned long,	addr)
		__field(unsigned int,	nr)
		__field(u8,		site)
		__field(u8,		targets)
		__field(u8,		reason)
	),
	TP_fast_assign(
		__entry->ctx_id = mm->context.ctx_id;
		__entry->addr = addr;
		__entry->nr = nr;
		__entry->site = site;
		__entry->targets = targets;
		__entry->reason = reason;
	),
	TP_printk("ctx=%llu addr=0x%lx nr=%u site=%s targets=%s reason=%s",
		  __entry->ctx_id, __entry->addr, __entry->nr,
		  __print_symbolic(__entry->site, ABIS_SITE_NAMES),
		  __print_symbolic(__entry->targets,
				   { 0, "none" }, { 1, "one" }, { 2, "set" },
				   { 3, "all" }),
		  __print_symbolic(__entry->reason,
				   { 0, "idle" }, { 1, "uncached" },
				   { 2, "private" }, { 3, "recent" },
				   { 4, "accessed" }, { 5, "never" }))
);

/* A round of this address space is over. */
TRACE_EVENT(abis_round,
	TP_PROTO(struct mm_struct *mm, u64 version),
	TP_ARGS(mm, version),
	TP_STRUCT__entry(
		__field(u64,	ctx_id)
		__field(u64,	version)
	),
	TP_fast_assign(
		__entry->ctx_id = mm->context.ctx_id;
		__entry->version = version;
	),
	TP_printk("ctx=%llu version=%llu", __entry->ctx_id, __entry->version)
);

#endif /* _TRACE_ABIS_H */

#include <trace/define_trace.h>
