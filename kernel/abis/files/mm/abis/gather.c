// SPDX-License-Identifier: GPL-2.0-only
/* ABIS in a gather: see include/linux/abis_gather.h. */

#include <linux/mm.h>

#include <asm/tlb.h>
#include <linux/abis_gather.h>

#include "abis.h"

/* Page tables of a gather for which CPUs may be interrupted. */
#define INTERRUPTS_MAX	3

/* mmu_gather::abis_narrowed, 8 bits: above any CPU plus one. */
#define NARROWED_TO_MORE	255

DEFINE_STATIC_KEY_FALSE(abis_used_key);

/*
 * What is to be flushed before the page-table lock is released under which this CPU
 * has cleared it. No part of struct mmu_gather, which many kernels clear on the stack
 * of everyone who has one. A CPU is between one such lock and its release at most
 * once; where locks can be preempted (PREEMPT_RT) it stays empty: no mode full.
 */
DEFINE_PER_CPU(struct abis_hold, abis_gather_hold) = { .sparing = true };

static enum abis_site site_of(const struct mmu_gather *tlb)
{
	return tlb->abis_protects ? ABIS_PROTECT : ABIS_ZAP;
}

/* Of the CPUs that were flushed for what they alone held, and the interrupts for that. */
#ifdef CONFIG_ABIS_FULL
static enum abis_targets targets_of(const struct mmu_gather *tlb)
{
	if (!tlb->abis_narrowed)
		return ABIS_NONE;
	return tlb->abis_narrowed != NARROWED_TO_MORE ? ABIS_CPU : ABIS_SET;
}

static unsigned int interrupts_of(const struct mmu_gather *tlb)
{
	return tlb->abis_interrupts;
}
#else
static enum abis_targets targets_of(const struct mmu_gather *tlb) { return ABIS_NONE; }
static unsigned int interrupts_of(const struct mmu_gather *tlb) { return 0; }
#endif

pte_t __tlb_abis_get_and_clear_ptes(struct mmu_gather *tlb, unsigned long address,
				    pte_t *ptep, unsigned int nr)
{
	pte_t pte = ptep_get_and_clear_full(tlb->mm, address, ptep, tlb->fullmm), other;

	while (--nr) {
		ptep++;
		address += PAGE_SIZE;
		other = ptep_get_and_clear_full(tlb->mm, address, ptep, tlb->fullmm);
		if (pte_dirty(other))
			pte = pte_mkdirty(pte);
		pte = pte_set_flags(pte, pte_flags(other) & (_PAGE_ACCESSED | _PAGE_SWA));
	}
	return pte;
}

void __tlb_abis_lock(struct mmu_gather *tlb, pte_t *ptep)
{
	struct ptdesc *ptdesc = abis_ptdesc_of(ptep);

	/*
	 * Nothing is to be inserted: end the promise of the whole new table at once,
	 * instead of at the first page that was used. Less is always right.
	 */
	if (abis_is_fresh(ptdesc) && abis_inserting() && !abis_pays(tlb->mm))
		abis_sptes_set(ptdesc, NULL);
	tlb->abis_unstamped = !tlb->fullmm && (!abis_sptes_of(ptdesc) ||
					       abis_mutant(ABIS_MUTANT_ZAP_UNSTAMPED));
}

static noinline bool elide(struct mmu_gather *tlb, pte_t *ptep, pte_t pte,
			   unsigned int nr, unsigned long address, enum abis_site site)
{
	struct abis_hold *hold = raw_cpu_ptr(&abis_gather_hold);
	bool blocked = false;

	if (tlb->fullmm)
		return false;
	/* One flush of everyone at the end instead of one more for each page table. */
	if (interrupts_of(tlb) >= INTERRUPTS_MAX)
		hold = NULL;
	tlb->abis_asked = 1;
	if (site == ABIS_PROTECT)
		tlb->abis_protects = 1;
	if (!__abis_elide(tlb->mm, address, ptep, pte, nr, site, &blocked, hold)) {
		tlb->abis_blocked |= blocked;
		return false;
	}
	if (hold && hold->pages)
		needed_ask(&hold->needed, tlb->mm, address, PAGE_SIZE * nr);
	tlb->abis_elided = 1;
	if (!tlb->end)
		__tlb_adjust_range(tlb, address, PAGE_SIZE * nr);
	return true;
}

bool __tlb_abis_elide(struct mmu_gather *tlb, pte_t *ptep, pte_t pte,
		      unsigned int nr, unsigned long address, enum abis_site site)
{
	bool is_accessed;

	/* Two constants, rather than bits and a counter to be found. */
	if (site == ABIS_PROTECT)
		is_accessed = tlb_abis_is_accessed(tlb, pte, nr, ABIS_PROTECT);
	else
		is_accessed = tlb_abis_is_accessed(tlb, pte, nr, ABIS_ZAP);
	return !is_accessed && elide(tlb, ptep, pte, nr, address, site);
}

static void ask_protected(struct mmu_gather *tlb, unsigned long address, pte_t *ptep,
			  pte_t old, pte_t pte)
{
	if (pte_needs_flush(old, pte) &&
	    !__tlb_abis_elide(tlb, ptep, old, 1, address, ABIS_PROTECT))
		tlb_flush_pte_range(tlb, address, PAGE_SIZE);
}

void __tlb_abis_change_pte(struct mmu_gather *tlb, struct vm_area_struct *vma,
			   unsigned long address, pte_t *ptep, pte_t old, pte_t pte)
{
	ask_protected(tlb, address, ptep, old, pte);
	ptep_modify_prot_commit(vma, address, ptep, old, pte);
}

#ifdef CONFIG_ABIS_FULL
/* The same where the new PTE may be inserted, which is held back then: see protect.c. */
void __tlb_abis_insert_pte(struct mmu_gather *tlb, struct vm_area_struct *vma,
			   unsigned long address, pte_t *ptep, pte_t old, pte_t pte)
{
	ask_protected(tlb, address, ptep, old, pte);
	if (!abis_inserting() || !abis_keep_protected(vma, address, ptep, old, pte))
		ptep_modify_prot_commit(vma, address, ptep, old, pte);
}
#endif

#ifdef CONFIG_ABIS_FULL
void __tlb_abis_unlock(struct mmu_gather *tlb)
{
	struct abis_hold *hold = raw_cpu_ptr(&abis_gather_hold);
	unsigned int only;

	BUILD_BUG_ON(SPTE_CPUS >= NARROWED_TO_MORE);
	only = find_first_bit(hold->cpus, SPTE_CPUS) + 1;
	if (bitmap_weight(hold->cpus, SPTE_CPUS) > 1 ||
	    (tlb->abis_narrowed && tlb->abis_narrowed != only))
		only = NARROWED_TO_MORE;
	tlb->abis_narrowed = only;
	needed_begin(&hold->needed);
	if (__abis_hold_flush(tlb->mm, hold) && tlb->abis_interrupts < INTERRUPTS_MAX)
		tlb->abis_interrupts++;
	needed_end();
}
#endif

void __tlb_abis_elided(struct mmu_gather *tlb)
{
	if (!tlb->abis_elided)
		return;
	abis_count_request(site_of(tlb), targets_of(tlb));
	abis_adapt_saved(tlb->mm, interrupts_of(tlb), false);
	__tlb_reset_range(tlb);
}

/* It flushes everyone. Return: whether it is a request that counts. */
static __always_inline bool count_flush(struct mmu_gather *tlb)
{
	if (!tlb->abis_asked)
		return false;
	abis_count_request(site_of(tlb), ABIS_ALL);
	abis_adapt_missed(tlb->mm, false);
	return true;
}

/*
 * Nested gathers. Of two gathers at the same time B may find slots empty, or
 * write-protected, that A has changed and not flushed yet. If B then returned,
 * its caller would rely on a flush that is still to come. So Linux lets every
 * gather that ends while others are open (mm->tlb_flush_pending) flush everyone.
 * That is needed only if another one has such PTEs. They are counted:
 *
 *   gathers	accountable gathers, open ones and those ever begun: those that
 *		keep the other count. Every other cause of tlb_flush_pending
 *		(fullmm, begun while nothing is elided, users without a gather)
 *		is not among them.
 *   unproven	accountable gathers that hold changed PTEs to be flushed.
 *
 * An accountable gather counts itself in the second under the lock of the first
 * such PTE, and is out of it when all of them are flushed. Huge entries are looked
 * at without their lock: before it comes to one, a gather counts itself until it
 * ends. What ABIS has elided does not count: nobody holds it, so B need not care.
 *
 * B may end with its own flush alone if, after its last look at a slot, nobody
 * but accountable gathers is open, and none but itself is unproven. For let a
 * slot that B has found changed be waiting for a flush:
 *
 *  - Its gather is accountable: it was counted before the lock was released that
 *    B took afterwards, so B reads the count with it, until it has flushed.
 *  - Its gather is not accountable, or there is none: it raised tlb_flush_pending
 *    before the change, and lowers it after the flush. A gather raises
 *    tlb_flush_pending, then gathers, and lowers them in reverse, so the former
 *    is never less than the latter's open ones. B reads them in one moment, since
 *    gathers before and after is the same and the number begun only grows. They
 *    are equal: nobody else was open.
 *
 * Page tables that are taken out are counted after that, without a lock. It makes
 * no difference: nobody else looks there. Their VMAs were taken out of the tree
 * first, under the mmap lock for writing, which cannot be had by anyone else
 * before the gather has ended; and out of the reverse maps, under their locks, and
 * a gather that came that way ends within these.
 *
 * Switching: what a gather has begun as it ends as. Eliding is on only after
 * abis_used_key is, on all CPUs, so a gather that is accountable keeps its count;
 * and that key stays on, so it does so to its end, whatever is switched. B relies
 * on others only if it is accountable itself and eliding is on.
 */
void __tlb_abis_drop_unproven(struct mmu_gather *tlb)
{
	tlb->abis_unproven = 0;
	tlb->abis_proven = 1;
	/* The flush is over before: it waits for its targets. */
	smp_mb__before_atomic();
	atomic_dec(&tlb->mm->context.abis.unproven);
}

void __tlb_abis_unproven(struct mmu_gather *tlb)
{
	tlb->abis_proven = 0;
	tlb->abis_unproven = 1;
	atomic_inc(&tlb->mm->context.abis.unproven);
	/* Against those who look at a huge entry without its lock. */
	smp_mb__after_atomic();
}

/* All that the gather has cleared is flushed. */
static void flushed(struct mmu_gather *tlb)
{
	if (tlb->abis_unproven && !tlb->abis_unproven_to_end)
		__tlb_abis_drop_unproven(tlb);
}

/*
 * tlb_flush_mmu_tlbonly(), in the words it has without ABIS. If all that the flush
 * lacked was to be a round, it may become one.
 */
void __tlb_abis_flush_mmu_tlbonly(struct mmu_gather *tlb)
{
	unsigned long start = tlb->start, end = tlb->end;

	if (abis_mutant(ABIS_MUTANT_NESTED_EARLY)) {
		flushed(tlb);
		abis_mutant_lingering(ABIS_MUTANT_NESTED_EARLY);
	}
	if (abis_eliding() && count_flush(tlb) &&
	    abis_force_round(tlb->mm, tlb->abis_blocked)) {
		tlb->start = 0;
		tlb->end = TLB_FLUSH_ALL;
		abis_gather_everyone(tlb);
	}
	if (!abis_mutant(ABIS_MUTANT_FREED_ELIDED) || !tlb->freed_tables || tlb->cleared_ptes)
		tlb_flush(tlb);
	if (tlb->freed_tables && !tlb->fullmm)
		abis_debug_tables(tlb->mm, start, end);
	__tlb_reset_range(tlb);
	flushed(tlb);
}

/* Return: all others that are open are accountable. May fail if they come and go. */
static bool all_accountable(struct mm_struct *mm)
{
	u64 gathers = atomic64_read(&mm->context.abis.gathers);
	int i, pending;

	for (i = 0; i < 3; i++) {
		u64 before = gathers;

		/* In one moment, see above: between two reads that agree. */
		smp_rmb();
		pending = atomic_read(&mm->tlb_flush_pending);
		/* Pairs with the one above. */
		smp_rmb();
		gathers = atomic64_read(&mm->context.abis.gathers);
		if (gathers == before)
			return pending == (gathers & ABIS_GATHERS_OPEN);
	}
	return false;
}

bool __tlb_abis_nested(struct mmu_gather *tlb)
{
	struct mm_struct *mm = tlb->mm;

	if ((tlb->abis_proven || tlb->abis_unproven) &&
	    (all_accountable(mm) || abis_mutant(ABIS_MUTANT_NESTED_UNACCOUNTED)) &&
	    (atomic_read(&mm->context.abis.unproven) == tlb->abis_unproven ||
	     abis_mutant(ABIS_MUTANT_NESTED_UNPROVEN))) {
		this_cpu_inc(abis_stat.nested_proven);
		return false;
	}
	this_cpu_inc(abis_stat.nested_flushed);
	/* What it holds is forgotten when its range becomes everything. */
	count_flush(tlb);
	return true;
}
