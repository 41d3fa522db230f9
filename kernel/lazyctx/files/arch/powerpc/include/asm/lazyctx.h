/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Lazy contexts: a new context id instead of a flush of many pages. See mm/lazyctx/.
 */
#ifndef _ASM_POWERPC_LAZYCTX_H
#define _ASM_POWERPC_LAZYCTX_H

#ifndef __ASSEMBLY__

#include <linux/types.h>

struct mm_struct;
struct vm_area_struct;

#ifdef CONFIG_LAZYCTX

#include <linux/jump_label.h>

/* In mm_context_t. */
struct lazyctx_context {
	/*
	 * _PAGE_HASHPTE, or 0. Set: entries may be left that no PTE's _PAGE_HASHPTE tells of,
	 * so the next flush of the address space, of whatever kind, gives it a new id.
	 */
	u32 owes;
};

DECLARE_STATIC_KEY_FALSE(lazyctx_key);

static __always_inline bool lazyctx_enabled(void)
{
	return static_branch_unlikely(&lazyctx_key);
}

/*
 * What is called stands apart, and little is inline: so it costs the callers no registers where
 * it is off.
 */

/* The control, in its mode alone: searches the hash table for every address of a range that is about to change. */
void lazyctx_search(struct mm_struct *mm, unsigned long start, unsigned long end);

/* A page-table lock was taken, or is about to be: nothing is unmapped without it; */
void lazyctx_enter(void);
/* and is about to be dropped, or was, if nothing was unmapped. What is unmapped between is flushed together. */
void lazyctx_leave(void);

extern bool lazyctx_is_open;

void lazyctx_flush_page(struct mm_struct *mm, unsigned long addr);
void lazyctx_flush(struct mm_struct *mm, unsigned long start, unsigned long end);
/* Return: whether all of @mm is flushed now. */
bool lazyctx_flush_mm(struct mm_struct *mm);
/* fork() begins to copy @mm; flush_tlb_mm() ends it. */
void lazyctx_copy(struct mm_struct *mm);

/* A bit for each id that is not free. */
extern unsigned long context_map[];

/* Return: false if Linux is to give ids away, and to take them back. The id is 0 if there is none. */
bool lazyctx_new_id(struct mm_struct *mm);
bool lazyctx_destroy(struct mm_struct *mm);
/* The CPU is idle, interrupts are off. Return: whether it had something to do. */
bool lazyctx_idle(void);

#ifdef CONFIG_LAZYCTX_DEBUG
/* An access bit was cleared. */
void lazyctx_debug_young(struct mm_struct *mm, unsigned long addr);
#else
static inline void lazyctx_debug_young(struct mm_struct *mm, unsigned long addr) { }
#endif

/* Are pages that are unmapped flushed together? Else one by one. */
#define lazyctx_collects(mm)	(lazyctx_is_open || (mm)->context.lazyctx.owes)
/* What ptep_set_wrprotect() clears beside the right to write. */
#define lazyctx_owed(mm)	((mm)->context.lazyctx.owes)

#else

static inline bool lazyctx_enabled(void) { return false; }
static inline void lazyctx_flush_page(struct mm_struct *mm, unsigned long addr) { }
static inline void lazyctx_flush(struct mm_struct *mm, unsigned long start, unsigned long end) { }
static inline bool lazyctx_flush_mm(struct mm_struct *mm) { return false; }
static inline bool lazyctx_new_id(struct mm_struct *mm) { return false; }
static inline bool lazyctx_destroy(struct mm_struct *mm) { return false; }
static inline bool lazyctx_idle(void) { return false; }
static inline void lazyctx_debug_young(struct mm_struct *mm, unsigned long addr) { }
#define lazyctx_collects(mm)	((void)(mm), false)
#define lazyctx_owed(mm)	((void)(mm), 0)

#endif
#endif
#endif
