// SPDX-License-Identifier: GPL-2.0-only
/*
 * The software PTEs of Linux' page tables, the rounds of its address spaces, and
 * the question that the hooks ask before they flush. What is decided, the engine
 * decides (mm/abis/engine/engine.h); what holds the pieces together is in the comments.
 *
 * Every function here that takes a ptep is called with its PTE lock held.
 */

#define pr_fmt(fmt) "abis: " fmt

#include <linux/memcontrol.h>
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

/*
 * The SPTEs of every page table that is new, and never written to. Nothing was
 * ever filled from a slot of such a page table: it is linked after this, nobody
 * can walk it before, and all of its slots are none. What CPUs hold for its
 * addresses was filled from other tables, and whoever took those out answers for
 * that: their pages are freed only after a flush of everyone, paging-structure
 * caches included, and until then nobody is let to map anything there.
 *
 * From then on the promise is kept as any other: a slot whose accessed bit is set
 * promises nothing, and whoever clears that bit stamps. There must be a table to
 * stamp into, so whoever stamps or inserts first makes a copy, or, without memory for
 * it, ends the promise for the whole page table.
 */
const spte_t abis_fresh_table[PTRS_PER_PTE] __aligned(8) = {
	[0 ... PTRS_PER_PTE - 1] = SPTE_UNCACHED,
};

/* Was any SPTE of this page table ever written? */
bool abis_table_is_own(pte_t *ptep)
{
	const struct ptdesc *ptdesc = abis_ptdesc_of(ptep);

	return abis_sptes_of(ptdesc) && !abis_is_fresh(ptdesc);
}

/* Debug kernel: a private SPTE that outlives its accessed bit. */
static bool keeps_private(spte_t spte)
{
	return abis_mutant(ABIS_MUTANT_PRIVATE_SURVIVES) && spte >> 8 &&
	       spte != SPTE_UNCACHED;
}

/* The SPTEs of a page table, or NULL: nothing is promised. */
const spte_t *abis_table_read(pte_t *ptep)
{
	const struct ptdesc *ptdesc = abis_ptdesc_of(ptep);

	return abis_table_is_valid(ptdesc) ? abis_sptes_of(ptdesc) : NULL;
}

/* A CPU that has got no table does not ask again for so many: a full cgroup stays full. */
#define TABLES_UNASKED	64
static DEFINE_PER_CPU(unsigned int, tables_unasked);

/*
 * Charged to the memory cgroup of the page table, whoever stamps: reclaim and the
 * like do so for others. Reclaim's reserves are not for us, nor is what a cgroup lets
 * reclaim have beyond its limit.
 */
static spte_t *alloc_table(struct ptdesc *ptdesc)
{
	gfp_t gfp = GFP_NOWAIT | __GFP_NOMEMALLOC | __GFP_NOWARN;
	unsigned int reclaims = current->flags & PF_MEMALLOC;
	unsigned int unasked = this_cpu_read(tables_unasked);
	struct mem_cgroup *memcg, *old;
	spte_t *table;

	/* Preempted here (PREEMPT_RT) it asks a few times more or less. */
	if (unasked) {
		this_cpu_write(tables_unasked, unasked - 1);
		return NULL;
	}
	rcu_read_lock();
	memcg = folio_memcg_check(ptdesc_folio(ptdesc));
	/* It may be on its way out: then nobody is charged. */
	if (memcg && !mem_cgroup_tryget(memcg))
		memcg = NULL;
	rcu_read_unlock();

	old = set_active_memcg(memcg);
	current->flags &= ~PF_MEMALLOC;
	table = kmem_cache_alloc(table_cache, memcg ? gfp | __GFP_ACCOUNT : gfp);
	current->flags |= reclaims;
	set_active_memcg(old);
	mem_cgroup_put(memcg);
	if (!table)
		this_cpu_write(tables_unasked, TABLES_UNASKED);
	return table;
}

/* abis_table_write() of a page table without SPTEs of its own, or of an earlier epoch. */
spte_t *abis_table_begin(struct ptdesc *ptdesc)
{
	spte_t *table = abis_sptes_of(ptdesc);

	if (table && !abis_is_fresh(ptdesc)) {
		memset(table, 0, PTRS_PER_PTE * sizeof(spte_t));
		ptdesc->pt_spte_epoch = READ_ONCE(abis_epoch);
		return table;
	}
	table = alloc_table(ptdesc);
	if (!table) {
		this_cpu_inc(abis_stat.spte_failed);
		abis_sptes_set(ptdesc, NULL);
		return NULL;
	}
	if (abis_table_is_valid(ptdesc))
		memcpy(table, abis_fresh_table, sizeof(abis_fresh_table));
	else
		memset(table, 0, sizeof(abis_fresh_table));
	memset(table + PTRS_PER_PTE, 0, ABIS_RECORDS_SIZE);
	abis_sptes_set(ptdesc, table);
	ptdesc->pt_spte_epoch = READ_ONCE(abis_epoch);
	atomic_long_inc(&abis_tables);
	return table;
}

#ifdef CONFIG_ABIS_FULL
/* Of an epoch that ends before the page table is linked: then it is void. */
void __abis_table_fresh(struct ptdesc *ptdesc)
{
	/*
	 * Where nothing is inserted the promise would only have to be ended. For
	 * fork's child its parent's account decides.
	 */
	if (abis_inserting() && current->mm && !abis_pays(current->mm))
		return;
	ptdesc->pt_spte = (spte_t *)abis_fresh_table;
	ptdesc->pt_spte_epoch = READ_ONCE(abis_epoch);
}
EXPORT_SYMBOL_GPL(__abis_table_fresh);
#endif

void __abis_table_free(struct ptdesc *ptdesc)
{
	bool fresh = abis_is_fresh(ptdesc);

	if (!fresh)
		kmem_cache_free(table_cache, abis_sptes_of(ptdesc));
	abis_sptes_set(ptdesc, NULL);
	if (fresh)
		return;
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
	struct ptdesc *ptdesc = abis_ptdesc_of(ptep);
	spte_t *spte = abis_sptes_of(ptdesc) + abis_slot_of(ptep);
	/* Less is promised, which is always right, and not asked again. */
	bool is_unpaid = abis_inserting() && !abis_pays(mm);

	if (!was_accessed(pte))
		return;
	/* In a table of an earlier epoch nothing counts, so a stamp does no harm. */
	if (abis_is_fresh(ptdesc)) {
		if (is_unpaid) {
			abis_sptes_set(ptdesc, NULL);
			return;
		}
		spte = abis_spte_write(ptep);
	}
	if (is_unpaid)
		*spte = SPTE_NEVER;
	else if (spte && !keeps_private(*spte))
		*spte = spte_shared(abis_version_to_stamp(mm));
}

/*
 * A PTE with a set accessed bit was taken away. Whoever holds it filled it
 * before now: that is what the stamp says. Where nothing is promised, without a
 * table or of SPTE_NEVER, there is nothing to take back. Kernel page tables never
 * have a table.
 */
void __abis_pte_taken(struct mm_struct *mm, pte_t *ptep, pte_t pte)
{
	const spte_t *table;

	if (mm == &init_mm)
		return;
	table = abis_sptes_of(abis_ptdesc_of(ptep));
	if (table && table[abis_slot_of(ptep)] != SPTE_NEVER)
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
	bool accessed;
	spte_t *spte;

	if (!pte_present(pte))
		return 0;
	accessed = abis_clear_accessed(ptep, pte);
	/* Hardware may set A and D beside it at any time. */
	if (pte_flags(pte) & _PAGE_SWA)
		clear_bit(_PAGE_BIT_SWA, (unsigned long *)&ptep->pte);
	/* Orders a bit found clear before the version, as the atomic ones do. */
	smp_rmb();

	spte = abis_spte_write(ptep);
	if (spte && abis_mutant(ABIS_MUTANT_UNCACHED_UNFLUSHED))
		*spte = SPTE_UNCACHED;
	else if (spte && !(abis_mutant(ABIS_MUTANT_CLEAR_UNSTAMPED) && *spte) &&
		 !keeps_private(*spte))
		*spte = spte_cleared(*spte, accessed, abis_version_to_stamp(mm));

	return accessed || (pte_flags(pte) & _PAGE_SWA);
}

/*
 * @pte was taken from @ptep and flushed everywhere under one hold of the lock;
 * it is about to go back. Nobody holds it now: record that, and keep what Linux
 * knows of its use in the software accessed bit.
 *
 * Return: the PTE to store.
 */
pte_t __abis_mkuncached(struct vm_area_struct *vma, pte_t *ptep, pte_t pte)
{
	spte_t *spte;

	/* PROT_NONE: ptep_clear_flush() left it to whoever made it so. */
	if (!(pte_flags(pte) & _PAGE_PRESENT) && !pte_hidden(pte))
		return pte;
	/* The next use would set the accessed bit anew, which is not free. */
	if (abis_inserting() && !abis_pays(vma->vm_mm))
		return pte;
	spte = abis_spte_write(ptep);
	if (!spte)
		return pte;
	*spte = SPTE_UNCACHED;
	if (pte_young(pte))
		pte = pte_set_flags(pte_mkold(pte), _PAGE_SWA);
	return pte;
}

static struct abis_verdict decide(spte_t spte, bool accessed, u64 version)
{
	if (abis_mutant(ABIS_MUTANT_GAP_NONE))
		version++;
	if (abis_mutant(ABIS_MUTANT_NEVER_IS_ZERO) && spte == SPTE_NEVER)
		spte = spte_shared(0);
	return abis_decide(spte, accessed, version);
}

/*
 * One CPU alone may hold the entry, and flushes it before the lock is released:
 * nobody holds it then. A batch flushes later, so its slot keeps what it has.
 */
static void narrow(struct abis_hold *hold, unsigned int cpu, unsigned long addr,
		   pte_t *ptep)
{
	abis_hold_add(hold, cpu, addr, ptep);
	if (!hold->deferred || abis_mutant(ABIS_MUTANT_BATCH_UNCACHED))
		abis_sptes_of(abis_ptdesc_of(ptep))[abis_slot_of(ptep)] = SPTE_UNCACHED;
}

static bool may_narrow(struct mm_struct *mm, const struct abis_hold *hold, unsigned int cpu)
{
	return IS_ENABLED(CONFIG_ABIS_FULL) && hold && (!hold->sparing || abis_spares_others(mm, cpu));
}

/* No CPU is flushed alone if @hold is NULL: a flush of everyone is as good to the caller. */
bool __abis_elide(struct mm_struct *mm, unsigned long addr, pte_t *ptep,
		  pte_t pte, unsigned int nr, enum abis_site site, bool *blocked,
		  struct abis_hold *hold)
{
	bool accessed = was_accessed(pte), elided = true;
	const spte_t *table;
	unsigned int i;
	u64 version;

	/* Special PTEs belong to drivers, which age them in their own ways. */
	if (!pte_accessible(mm, pte) || !abis_mm_is_eligible(mm) ||
	    (pte_special(pte) && !is_zero_pfn(pte_pfn(pte))))
		return false;
	version = abis_version(mm);
	table = abis_table_read(ptep);

	for (i = 0; i < nr; i++) {
		spte_t spte = table ? table[abis_slot_of(ptep) + i] : SPTE_NEVER;
		struct abis_verdict verdict = decide(spte, accessed, version);

		if (abis_mutant(ABIS_MUTANT_HIDDEN_UNCACHED) && pte_hidden(pte))
			verdict = decide(SPTE_UNCACHED, false, version);

		if (verdict.reason == ABIS_RECENT)
			*blocked = true;
		/* Let off is only what is flushed on that CPU alone. */
		if (verdict.targets == ABIS_CPU && !may_narrow(mm, hold, verdict.cpu)) {
			verdict.targets = ABIS_ALL;
			verdict.reason = ABIS_RECENT;
		}
		this_cpu_inc(abis_stat.pages[site][verdict.reason]);
		trace_abis_decide(mm, addr + i * PAGE_SIZE, 1, site,
				  verdict.targets, verdict.reason);
		abis_debug_check(mm, addr + i * PAGE_SIZE, pte, spte, site, verdict);
		abis_debug_class(mm, addr + i * PAGE_SIZE, ptep + i, site, verdict, nr);
		if (IS_ENABLED(CONFIG_ABIS_DEBUG))
			/* Of several the first may be hidden, and another one marked. */
			WARN_ONCE(nr == 1 && accessed && pte_hidden(pte),
				  "hidden, and marked: %#lx\n", pte_val(pte));
		if (site <= ABIS_MIGRATE && verdict.targets != ABIS_ALL && pte_hidden(pte))
			abis_hidden_kept(mm);
		if (verdict.targets == ABIS_CPU)
			narrow(hold, verdict.cpu, addr + i * PAGE_SIZE, ptep + i);
		else if (verdict.targets != ABIS_NONE)
			elided = false;
	}
	return elided;
}

/* One page, @pages of it to be flushed on the one CPU that may hold them. */
void abis_count_request_hold(enum abis_site site, bool elided, unsigned int pages)
{
	abis_count_request(site, !elided ? ABIS_ALL : pages ? ABIS_CPU : ABIS_NONE);
}

/* PTE lock held; the last @pages in @hold are of this request. */
void abis_end_request(struct mm_struct *mm, enum abis_site site, bool elided,
		      const struct abis_hold *hold, unsigned int pages)
{
	bool batched = site != ABIS_CLEAR_FLUSH;

	abis_count_request_hold(site, elided, pages);
	if (!elided)
		abis_adapt_missed(mm, batched);
	else
		abis_adapt_saved(mm, pages && !abis_hold_is_here(hold), batched);
}

bool __abis_force_round(struct mm_struct *mm)
{
	if (!abis_round_force(&mm->context.abis.blocked, READ_ONCE(abis_round_every)))
		return false;
	this_cpu_inc(abis_stat.rounds_forced);
	return true;
}

/*
 * ptep_clear_flush() while there is tracking. The PTE lock is held from the exchange to the
 * end of the flush, and the old value is exact: ask there. Where only a round was wanting,
 * one flush of some becomes a round. It flushes leaf entries, so it does not wake lazy CPUs.
 */
pte_t __abis_clear_flush(struct vm_area_struct *vma, unsigned long addr, pte_t *ptep)
{
	struct mm_struct *mm = vma->vm_mm;
	struct abis_hold hold __uninitialized;
	struct needed needed = { };
	bool blocked = false;
	pte_t pte;

	pte = ptep_get_and_clear(mm, addr, ptep);
	if (!pte_accessible(mm, pte))
		return pte;
	abis_hold_init(&hold, false);
	needed_ask(&needed, mm, addr, PAGE_SIZE);
	needed_begin(&needed);
	if (abis_elide_request(mm, addr, ptep, pte, ABIS_CLEAR_FLUSH, &blocked, &hold))
		abis_hold_flush(mm, &hold);
	else if (abis_force_round(mm, blocked))
		flush_tlb_mm_range(mm, 0, TLB_FLUSH_ALL, PAGE_SHIFT, false);
	else
		abis_flush_page(vma, ptep, addr);
	needed_end();
	abis_debug_flushed(mm, addr);
	return pte;
}

static void credit(struct mm_struct *mm, u64 begun)
{
	s64 version = abis_version(mm), next;

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
	/* Against abis_version_to_stamp(): what it does not see here begins after it. */
	smp_mb__after_atomic();
	if (abis_mutant(ABIS_MUTANT_EARLY_CREDIT))
		credit(mm, abis_version(mm));
	return abis_version(mm);
}

/* The version first: a stamp that sees nothing in flight must see the credit. */
void __abis_round_end(struct mm_struct *mm, u64 begun)
{
	credit(mm, begun);
	/* Pairs with the acquire in abis_version_to_stamp(). */
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
	if (!batch->abis.round_mm) {
		mmgrab(mm);
		batch->abis.round_mm = mm;
		batch->abis.round = abis_round_begin(mm, true);
	} else if (batch->abis.round_mm == mm) {
		batch->abis.round = abis_version(mm);
	}
}

void __abis_batch_done(struct arch_tlbflush_unmap_batch *batch)
{
	if (abis_batch_is_owed(batch))
		abis_batch_pay(batch);
	if (!batch->abis.round_mm)
		return;
	__abis_round_end(batch->abis.round_mm, batch->abis.round);
	mmdrop(batch->abis.round_mm);
	batch->abis.round_mm = NULL;
}

int __init abis_cache_init(void)
{
	BUILD_BUG_ON(PTRS_PER_PTE * sizeof(spte_t) * 4 != PAGE_SIZE);
	BUILD_BUG_ON(SPTE_CPUS > 4 * BITS_PER_LONG);
	table_cache = kmem_cache_create("abis_table", PTRS_PER_PTE * sizeof(spte_t) +
					ABIS_RECORDS_SIZE, 0, 0, NULL);
	return table_cache ? 0 : -ENOMEM;
}
