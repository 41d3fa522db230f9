/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The part of ABIS that sits below the page-table accessors and in the TLB
 * flushes: what ends an SPTE's promise, and what brings it nearer to a proof.
 */
#ifndef _ASM_X86_ABIS_H
#define _ASM_X86_ABIS_H

#include <linux/abis_debug.h>
#include <linux/limits.h>
#include <linux/string.h>

#include <asm/abis_types.h>
#include <asm/pgtable_types.h>
#include <asm/tlbbatch.h>

struct mm_struct;
struct vm_area_struct;

/* Where a CPU finds that it lags behind tlb_gen. Names: lag_names. */
enum abis_lag {
	ABIS_LAG_SWITCH,	/* it takes the address space up */
	ABIS_LAG_LAZY,		/* it ceases to be lazy */
	ABIS_LAG_IPI,		/* it is asked to flush, and two flushes overlap */
	ABIS_LAGS,
};

/* abis_round_begin() where no round begins. */
#define ABIS_NO_ROUND	U64_MAX

#define ABIS_HIDING_START	64
#define ABIS_POINTS_START	160

static inline void abis_context_init(struct abis_context *abis)
{
#ifdef CONFIG_ABIS
	atomic64_set(&abis->version, 1);
	atomic_set(&abis->in_flight, 0);
	abis->blocked = 0;
	atomic_set(&abis->unproven, 0);
	atomic64_set(&abis->gathers, 0);
#endif
#ifdef CONFIG_ABIS_FULL
	memset(abis->owed, 0, sizeof(abis->owed));
	memset(abis->ring, 0, sizeof(abis->ring));
#ifdef CONFIG_ABIS_HIDE
	abis->hiding = ABIS_HIDING_START;
#endif
#ifdef CONFIG_ABIS_DEBUG
	atomic_set(&abis->publishing, 0);
#endif
	abis->points = ABIS_POINTS_START;
	abis->earned = 0;
#endif
}

int __abis_test_and_clear_young(struct mm_struct *mm, pte_t *ptep);

#ifdef CONFIG_ABIS

#include <linux/jump_label.h>

DECLARE_STATIC_KEY_FALSE(abis_tracking_key);
/*
 * On before anything is left out for the first time, then for good: see mm/abis/gather.c.
 * Zap stamps only if it is on.
 */
DECLARE_STATIC_KEY_FALSE(abis_used_key);

void __abis_pte_taken(struct mm_struct *mm, pte_t *ptep, pte_t pte);
/*
 * Around each raise of tlb_gen while there is tracking: call the first before
 * it; @is_full: the whole address space is to be flushed ...
 */
u64 abis_round_begin(struct mm_struct *mm, bool is_full);
void __abis_round_end(struct mm_struct *mm, u64 begun);
void __abis_batch_add(struct arch_tlbflush_unmap_batch *batch, struct mm_struct *mm);
void __abis_batch_done(struct arch_tlbflush_unmap_batch *batch);

static __always_inline bool abis_tracking(void)
{
	return static_branch_unlikely(&abis_tracking_key);
}

/* A flush of a range never is; the debug kernel can be broken so that it is. */
static __always_inline bool abis_may_be_round(bool is_full)
{
	return is_full || IS_ENABLED(CONFIG_ABIS_DEBUG);
}

/* ... and this when all its targets have acknowledged. */
static __always_inline void abis_round_end(struct mm_struct *mm, u64 begun)
{
	if (begun != ABIS_NO_ROUND)
		__abis_round_end(mm, begun);
}

/*
 * @pte was taken out of @ptep by an atomic exchange. The PTE lock has been held since, and
 * nobody has looked at the SPTE.
 */
static __always_inline void abis_pte_taken(struct mm_struct *mm, pte_t *ptep,
					   pte_t pte)
{
	if (abis_tracking() && (pte.pte & _PAGE_ACCESSED))
		__abis_pte_taken(mm, ptep, pte);
}

/* The same for a batch of unmapped pages. Call before each raise of tlb_gen ... */
static inline void abis_batch_add(struct arch_tlbflush_unmap_batch *batch,
				  struct mm_struct *mm)
{
	if (abis_tracking())
		__abis_batch_add(batch, mm);
}

/* Are CPUs to be interrupted that owe a flush? */
static inline bool abis_batch_is_owed(const struct arch_tlbflush_unmap_batch *batch)
{
#ifdef CONFIG_ABIS_FULL
	return batch->abis.is_owed;
#else
	return false;
#endif
}

/* ... and this when the whole batch has been flushed. */
static inline void abis_batch_done(struct arch_tlbflush_unmap_batch *batch)
{
	if (unlikely(batch->abis.round_mm || abis_batch_is_owed(batch)))
		__abis_batch_done(batch);
}

#else /* !CONFIG_ABIS */

static inline bool abis_may_be_round(bool is_full) { return false; }
static inline bool abis_tracking(void) { return false; }
static inline void abis_pte_taken(struct mm_struct *mm, pte_t *ptep, pte_t pte)
{
}

static inline u64 abis_round_begin(struct mm_struct *mm, bool is_full)
{
	return ABIS_NO_ROUND;
}

static inline void abis_round_end(struct mm_struct *mm, u64 begun) { }
static inline void abis_batch_add(struct arch_tlbflush_unmap_batch *batch,
				  struct mm_struct *mm) { }
static inline void abis_batch_done(struct arch_tlbflush_unmap_batch *batch) { }

#endif /* CONFIG_ABIS */

#ifdef CONFIG_ABIS_FULL

DECLARE_STATIC_KEY_FALSE(abis_owing_key);

bool __abis_settle(struct mm_struct *mm, bool was_lazy);

/*
 * This CPU takes up @mm, from another address space or from lazy mode, has said so
 * where others read it, and has passed a full barrier since. Return: it owes a
 * flush of everything, and now it must do that before it uses @mm.
 */
static __always_inline bool abis_settle(struct mm_struct *mm, bool was_lazy)
{
	return static_branch_unlikely(&abis_owing_key) && __abis_settle(mm, was_lazy);
}

bool __abis_collect(struct mm_struct *mm, u16 asid, u64 to, enum abis_lag lag);
unsigned long abis_replay(void);

/*
 * Of flush_tlb_page(): a part of a huge page is no page of a range that is published. A
 * macro, since neither the structure nor the flag is known here.
 */
#define abis_page_shift(vma)	\
	(static_branch_unlikely(&abis_used_key) && ((vma)->vm_flags & VM_HUGETLB) ? \
	 PMD_SHIFT : PAGE_SHIFT)

static __always_inline bool abis_may_collect(void)
{
	return static_branch_unlikely(&abis_owing_key);
}

/*
 * This CPU's context @asid lags behind generation @to of @mm. Can it catch up by
 * abis_replay(), instead of flushing everything? See mm/abis/replay.c.
 */
static __always_inline bool abis_collect(struct mm_struct *mm, u16 asid, u64 to,
					 enum abis_lag lag)
{
	return abis_may_collect() && __abis_collect(mm, asid, to, lag);
}

#else

static inline bool abis_settle(struct mm_struct *mm, bool was_lazy) { return false; }
static inline bool abis_may_collect(void) { return false; }
static inline bool abis_collect(struct mm_struct *mm, u16 asid, u64 to, enum abis_lag lag)
{
	return false;
}
static inline unsigned long abis_replay(void) { return 0; }
#define abis_page_shift(vma)	((void)(vma), PAGE_SHIFT)

#endif /* CONFIG_ABIS_FULL */

/* pte_needs_flush() of a PTE that is hidden: somebody may hold it all the same. */
#ifdef CONFIG_ABIS_HIDE
bool abis_hidden_needs_flush(pte_t oldpte, pte_t newpte);
#else
static inline bool abis_hidden_needs_flush(pte_t oldpte, pte_t newpte) { return false; }
#endif

#endif /* _ASM_X86_ABIS_H */
