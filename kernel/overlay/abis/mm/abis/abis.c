// SPDX-License-Identifier: GPL-2.0-only
/*
 * The software PTEs of Linux' page tables, the rounds of its address spaces, and
 * the question that the hooks ask before they flush. What is decided, the engine
 * decides (engine/engine.c); what holds the pieces together is in the comments.
 *
 * Every function here that takes a ptep is called with its PTE lock held.
 */

#define pr_fmt(fmt) "abis: " fmt

#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/sched/coredump.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include <asm/tlbflush.h>

#include "abis.h"

#define CREATE_TRACE_POINTS
#include <trace/events/abis.h>

DEFINE_STATIC_KEY_FALSE(abis_tracking_key);
EXPORT_SYMBOL_GPL(abis_tracking_key);
DEFINE_STATIC_KEY_FALSE(abis_eliding_key);

/* Raised whenever tracking begins: what was stamped before is void. */
unsigned long abis_epoch;
u32 abis_round_every = 8;
atomic_long_t abis_tables;

static struct kmem_cache *table_cache __ro_after_init;

static struct ptdesc *ptdesc_of(pte_t *ptep)
{
	return virt_to_ptdesc(ptep);
}

static unsigned int slot_of(pte_t *ptep)
{
	return offset_in_page(ptep) / sizeof(*ptep);
}

static u64 version_of(struct mm_struct *mm)
{
	return atomic64_read(&mm->context.abis.version);
}

/*
 * The version to stamp with, read after the atomic operation that cleared the
 * bit, and in this order: a round that ends in between is counted in the version.
 */
static u64 version_to_stamp(struct mm_struct *mm)
{
	bool in_flight = atomic_read_acquire(&mm->context.abis.in_flight);

	if (abis_mutant(ABIS_MUTANT_IN_FLIGHT_IGNORED))
		in_flight = false;
	return abis_stamp_version(version_of(mm), in_flight);
}

static bool table_is_valid(const struct ptdesc *ptdesc)
{
	if (!ptdesc->pt_spte)
		return false;
	return ptdesc->pt_spte_epoch == READ_ONCE(abis_epoch) ||
	       abis_mutant(ABIS_MUTANT_EPOCH_IGNORED);
}

/* The SPTE of a slot; SPTE_NEVER without a table. */
static spte_t spte_read(pte_t *ptep)
{
	const struct ptdesc *ptdesc = ptdesc_of(ptep);

	return table_is_valid(ptdesc) ? ptdesc->pt_spte[slot_of(ptep)] : SPTE_NEVER;
}

/*
 * The SPTE of a slot to write to. NULL if there is no memory for a table, which
 * is no error: a slot without an SPTE is one that was never stamped. Reclaim's
 * reserves are not for us.
 */
static spte_t *spte_write(pte_t *ptep)
{
	struct ptdesc *ptdesc = ptdesc_of(ptep);

	if (!ptdesc->pt_spte) {
		ptdesc->pt_spte = kmem_cache_zalloc(table_cache, GFP_NOWAIT |
						    __GFP_NOMEMALLOC | __GFP_NOWARN);
		if (!ptdesc->pt_spte) {
			this_cpu_inc(abis_stat.spte_failed);
			return NULL;
		}
		ptdesc->pt_spte_epoch = READ_ONCE(abis_epoch);
		atomic_long_inc(&abis_tables);
	} else if (!table_is_valid(ptdesc)) {
		memset(ptdesc->pt_spte, 0, PTRS_PER_PTE * sizeof(spte_t));
		ptdesc->pt_spte_epoch = READ_ONCE(abis_epoch);
	}
	return ptdesc->pt_spte + slot_of(ptep);
}

void __abis_table_free(struct ptdesc *ptdesc)
{
	kmem_cache_free(table_cache, ptdesc->pt_spte);
	ptdesc->pt_spte = NULL;
	atomic_long_dec(&abis_tables);
}
EXPORT_SYMBOL_GPL(__abis_table_free);

/* Did hardware say so? */
static bool was_accessed(pte_t pte)
{
	if (abis_mutant(ABIS_MUTANT_ACCESSED_IGNORED) ||
	    (abis_mutant(ABIS_MUTANT_SOFTWARE_BIT) && (pte_flags(pte) & _PAGE_SWA)))
		return false;
	return pte_flags(pte) & _PAGE_ACCESSED;
}

/* Out of line, so that most callers of the function below save no registers. */
static noinline void stamp_taken(struct mm_struct *mm, pte_t *ptep, pte_t pte)
{
	if (mm == &init_mm || !was_accessed(pte))
		return;
	/* In a table of an earlier epoch nothing counts, so this does no harm. */
	ptdesc_of(ptep)->pt_spte[slot_of(ptep)] = spte_shared(version_to_stamp(mm));
}

/*
 * A PTE with a set accessed bit was taken away. Whoever holds it filled it
 * before now: that is what the stamp says. Without a table there is nothing to
 * take back. Kernel page tables never have one.
 */
void __abis_pte_taken(struct mm_struct *mm, pte_t *ptep, pte_t pte)
{
	if (ptdesc_of(ptep)->pt_spte)
		stamp_taken(mm, ptep, pte);
}
EXPORT_SYMBOL_GPL(__abis_pte_taken);

/*
 * ptep_test_and_clear_young() with tracking. The version is read after the
 * atomic operation, so that a CPU which filled its TLB before the bit was
 * cleared did so before the round began that proves the slot free.
 *
 * Return: whether the accessed bit or the software accessed bit was set.
 */
int __abis_test_and_clear_young(struct mm_struct *mm, pte_t *ptep)
{
	pte_t pte = ptep_get(ptep);
	bool accessed = false;
	spte_t *spte;

	if (!pte_present(pte))
		return 0;
	if (pte_flags(pte) & _PAGE_ACCESSED)
		accessed = test_and_clear_bit(_PAGE_BIT_ACCESSED,
					      (unsigned long *)&ptep->pte);
	/* Hardware may set A and D beside it at any time. */
	if (pte_flags(pte) & _PAGE_SWA)
		clear_bit(_PAGE_BIT_SWA, (unsigned long *)&ptep->pte);
	/* Orders a bit found clear before the version, as the atomic ones do. */
	smp_rmb();

	spte = spte_write(ptep);
	if (spte && abis_mutant(ABIS_MUTANT_UNCACHED_UNFLUSHED))
		*spte = SPTE_UNCACHED;
	else if (spte && !(abis_mutant(ABIS_MUTANT_CLEAR_UNSTAMPED) && *spte))
		*spte = spte_cleared(*spte, accessed, version_to_stamp(mm));

	return accessed || (pte_flags(pte) & _PAGE_SWA);
}

/*
 * @pte was taken from @ptep and flushed everywhere under one hold of the lock;
 * it is about to go back. Nobody holds it now: record that, and keep what Linux
 * knows of its use in the software accessed bit.
 *
 * Return: the PTE to store.
 */
pte_t __abis_mkuncached(struct mm_struct *mm, pte_t *ptep, pte_t pte)
{
	spte_t *spte;

	/* PROT_NONE: ptep_clear_flush() left it to whoever made it so. */
	if (!(pte_flags(pte) & _PAGE_PRESENT))
		return pte;
	spte = spte_write(ptep);
	if (!spte)
		return pte;
	*spte = SPTE_UNCACHED;
	return pte_young(pte) ? pte_set_flags(pte_mkold(pte), _PAGE_SWA) : pte;
}

/*
 * May flushes of this address space be left out at all? A device that walks
 * these page tables (SVA) registers a notifier before its first walk, and the
 * PTE in question is gone already: it cannot be filled there any more.
 */
static bool mm_is_eligible(struct mm_struct *mm)
{
	return !mm_has_notifiers(mm) && !test_bit(MMF_ABIS_REFUSED, &mm->flags);
}

static struct abis_verdict decide(spte_t spte, bool accessed, u64 version)
{
	if (abis_mutant(ABIS_MUTANT_GAP_NONE))
		version++;
	if (abis_mutant(ABIS_MUTANT_NEVER_IS_ZERO) && spte == SPTE_NEVER)
		spte = spte_shared(0);
	return abis_decide(spte, accessed, version);
}

bool __abis_elide(struct mm_struct *mm, unsigned long addr, pte_t *ptep,
		  pte_t pte, unsigned int nr, enum abis_site site, bool *blocked)
{
	bool accessed = was_accessed(pte), elided = true;
	unsigned int i;
	u64 version;

	/* Special PTEs belong to drivers, which age them in their own ways. */
	if (!pte_accessible(mm, pte) || pte_special(pte) || !mm_is_eligible(mm))
		return false;
	version = version_of(mm);

	for (i = 0; i < nr; i++) {
		spte_t spte = spte_read(ptep + i);
		struct abis_verdict verdict = decide(spte, accessed, version);

		this_cpu_inc(abis_stat.pages[site][verdict.reason]);
		trace_abis_decide(mm, addr + i * PAGE_SIZE, 1, site,
				  verdict.targets, verdict.reason);
		abis_debug_check(mm, addr + i * PAGE_SIZE, pte, spte, site, verdict);
		if (verdict.targets != ABIS_NONE)
			elided = false;
		if (verdict.reason == ABIS_RECENT)
			*blocked = true;
	}
	return elided;
}

void __abis_count_request(enum abis_site site, bool elided)
{
	this_cpu_inc(abis_stat.requests[site][elided ? ABIS_NONE : ABIS_ALL]);
}

bool __abis_force_round(struct mm_struct *mm)
{
	if (!abis_round_force(&mm->context.abis.blocked, READ_ONCE(abis_round_every)))
		return false;
	this_cpu_inc(abis_stat.rounds_forced);
	return true;
}

static void credit(struct mm_struct *mm, u64 begun)
{
	s64 version = version_of(mm), next;

	do {
		if (abis_mutant(ABIS_MUTANT_NAIVE_CREDIT))
			begun = version;
		next = abis_round_done(version, begun);
		if (next == version)
			return;
	} while (!atomic64_try_cmpxchg(&mm->context.abis.version, &version, next));

	this_cpu_inc(abis_stat.rounds);
	trace_abis_round(mm, next);
}

/* A round for its own sake: as a flush of leaf entries, it does not wake lazy CPUs. */
void abis_flush_round(struct mm_struct *mm)
{
	flush_tlb_mm_range(mm, 0, TLB_FLUSH_ALL, PAGE_SHIFT, false);
}

/*
 * Both come before tlb_gen is raised (atomic operations, full barriers): a flush
 * that ends with a higher version than it began with was begun after every stamp
 * of that lower version, and no flush can be begun unseen by a stamp.
 */
u64 abis_round_begin(struct mm_struct *mm, bool is_full)
{
	if (!is_full && !abis_mutant(ABIS_MUTANT_PARTIAL_ROUND))
		return ABIS_NO_ROUND;
	atomic_inc(&mm->context.abis.in_flight);
	/* Against version_to_stamp(): what it does not see here begins after it. */
	smp_mb__after_atomic();
	if (abis_mutant(ABIS_MUTANT_EARLY_CREDIT))
		credit(mm, version_of(mm));
	return version_of(mm);
}

/* The version first: a stamp that sees nothing in flight must see the credit. */
void abis_round_end(struct mm_struct *mm, u64 begun)
{
	if (begun == ABIS_NO_ROUND)
		return;
	credit(mm, begun);
	/* Pairs with the acquire in version_to_stamp(). */
	smp_mb__before_atomic();
	atomic_dec(&mm->context.abis.in_flight);
}

/*
 * A batch raises tlb_gen once for each page and flushes everything in the end,
 * after the last of them: it is a round that began before that last one. The
 * first address space of a batch is credited, the others only flushed.
 */
void __abis_batch_add(struct arch_tlbflush_unmap_batch *batch, struct mm_struct *mm)
{
	if (!batch->round_mm) {
		mmgrab(mm);
		batch->round_mm = mm;
		batch->round = abis_round_begin(mm, true);
	} else if (batch->round_mm == mm) {
		batch->round = version_of(mm);
	}
}

void __abis_batch_done(struct arch_tlbflush_unmap_batch *batch)
{
	abis_round_end(batch->round_mm, batch->round);
	mmdrop(batch->round_mm);
	batch->round_mm = NULL;
}

int __init abis_cache_init(void)
{
	BUILD_BUG_ON(PTRS_PER_PTE * sizeof(spte_t) * 4 != PAGE_SIZE);
	table_cache = kmem_cache_create("abis_table", PTRS_PER_PTE * sizeof(spte_t),
					0, 0, NULL);
	return table_cache ? 0 : -ENOMEM;
}
