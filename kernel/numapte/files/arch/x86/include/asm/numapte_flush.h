/* SPDX-License-Identifier: GPL-2.0-only */
/* What arch/x86/mm/tlb.c asks of a flush that is for some nodes: mm/numapte/filter.c. */
#ifndef _ASM_X86_NUMAPTE_FLUSH_H
#define _ASM_X86_NUMAPTE_FLUSH_H

#include <linux/numapte_flush.h>

#ifdef CONFIG_NUMAPTE

u64 __numapte_tlb_gen(struct mm_struct *mm);
void __numapte_flush_raise(struct flush_tlb_info *info, u64 nodes);
bool __numapte_any_but(const struct flush_tlb_info *info, int cpu);
bool __numapte_flushes(int cpu, void *info);
const struct flush_tlb_info *__numapte_flush_info(const struct flush_tlb_info *info,
						  struct flush_tlb_info *mine);

/* The generation that this CPU must have caught up to before it uses what it holds of @mm. */
static inline u64 numapte_tlb_gen(struct mm_struct *mm)
{
	return numapte_on() ? __numapte_tlb_gen(mm) : atomic64_read(&mm->context.tlb_gen);
}

/*
 * A flush of @info->mm is for @nodes: raise their generations. A full barrier before mm_cpumask
 * is read. Preemption is off.
 */
static inline void numapte_flush_raise(struct flush_tlb_info *info, u64 nodes)
{
	if (numapte_on())
		__numapte_flush_raise(info, nodes);
}

/* Is it for another CPU than @cpu? */
static inline bool numapte_any_but(const struct flush_tlb_info *info, int cpu)
{
	return numapte_on() ? __numapte_any_but(info, cpu) :
	       cpumask_any_but(mm_cpumask(info->mm), cpu) < nr_cpu_ids;
}

/* Is it for @cpu? */
static inline bool numapte_flushes(struct flush_tlb_info *info, int cpu)
{
	return !numapte_on() || __numapte_flushes(cpu, info);
}

static inline smp_cond_func_t numapte_flush_cond(const struct flush_tlb_info *info)
{
	return numapte_on() && info->numapte.gens ? __numapte_flushes : NULL;
}

/* @info as this CPU's node sees it: its own generation. */
static inline const struct flush_tlb_info *numapte_flush_info(const struct flush_tlb_info *info,
							      struct flush_tlb_info *mine)
{
	return numapte_on() ? __numapte_flush_info(info, mine) : info;
}

#else

static inline u64 numapte_tlb_gen(struct mm_struct *mm)
{
	return atomic64_read(&mm->context.tlb_gen);
}

static inline bool numapte_any_but(const struct flush_tlb_info *info, int cpu)
{
	return cpumask_any_but(mm_cpumask(info->mm), cpu) < nr_cpu_ids;
}

static inline const struct flush_tlb_info *numapte_flush_info(const struct flush_tlb_info *info,
							      struct flush_tlb_info *mine)
{
	return info;
}

static inline void numapte_flush_raise(struct flush_tlb_info *info, u64 nodes) { }
static inline bool numapte_flushes(struct flush_tlb_info *info, int cpu) { return true; }
static inline smp_cond_func_t numapte_flush_cond(const struct flush_tlb_info *info)
{
	return NULL;
}

#endif
#endif
