// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lazy contexts on the hashed page tables of 32-bit PowerPC: what the flush functions call.
 * The order of things is the engine's: engine/flow.h.
 *
 * One CPU, and the kernel is not preempted (Kconfig). So between two lines nobody comes but an
 * interrupt, which may use an address space and changes none.
 */

#include <linux/irqflags.h>
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/seq_file.h>

#include <asm/lazyctx.h>
#include <asm/synch.h>
#include <asm/tlb.h>
#include <asm/tlbflush.h>

#include "lazyctx.h"

/* The 604's TLBs have 64 sets, others have fewer; tlbie drops a set. */
#define TLB_SETS	64
#define PASS_SLOTS	128	/* of the hash table, each time that the idle loop comes by */
#define STOP_SLOTS	2048	/* when it is switched off: interrupts are off meanwhile */

DEFINE_STATIC_KEY_FALSE(lazyctx_key);

bool lazyctx_is_open;
struct lazyctx_counters lazyctx_counters;
u32 lazyctx_reloads, lazyctx_evicts;

static u32 live_map[LAZYCTX_IDS / 32], leaving_map[LAZYCTX_IDS / 32], worn_map[LAZYCTX_IDS / 32];
static bool is_started;		/* the ids are the engine's */

static void lazyctx_flush_tlb(void)
{
	unsigned int i;

	mb();	/* the entries are gone from memory before they go from the TLBs */
	for (i = 0; i < TLB_SETS; i++)
		asm volatile("tlbie %0" : : "r" (i << PAGE_SHIFT) : "memory");
	mb();	/* and from these before an id is used again */
}

static void lazyctx_load_segments(struct mm_struct *mm)
{
	/* The keys and no-execute stay as they are. */
	mm->context.sr0 = lazyctx_vsid(mm->context.id, 0) | (mm->context.sr0 & ~0xffffffUL);
	/* ->active_mm: a kernel thread may have borrowed it, and whoever is switched to next keeps it. */
	if (!lazyctx_must_load(current->active_mm == mm, !current->mm))
		return;
	current->thread.sr0 = mm->context.sr0;
	isync();
	update_user_segments(mm->context.sr0);
	isync();
}

/* One page table at a time: @pte is the PTE of page @start, and what is to be done goes to @next. */
#define for_each_table(mm, pte, start, next, end)						\
	for (; (start) < (end) &&								\
	       ((next) = min(((start) | (PTRS_PER_PTE - 1)) + 1, (end)),			\
		(pte) = lazyctx_pte(mm, (unsigned long)(start) << PAGE_SHIFT), true); (start) = (next))

static void lazyctx_flush_pages(struct mm_struct *mm, u32 start, u32 end)
{
	pte_t *pte;
	u32 next;

	for_each_table(mm, pte, start, next, end) {
		if (pte)
			flush_hash_pages(mm->context.id, (unsigned long)start << PAGE_SHIFT,
					 __pa(pte) & PAGE_MASK, next - start);
	}
}

static void lazyctx_forget_pages(struct mm_struct *mm, u32 start, u32 end)
{
	unsigned long flags;
	pte_t *pte;
	u32 next;

	for_each_table(mm, pte, start, next, end) {
		unsigned long *word = (unsigned long *)pte;
		u32 left = next - start;

		if (!pte)
			continue;
		/* An interrupt that touches user memory may set the bit. */
		local_irq_save(flags);
		for (; left >= 8; left -= 8, word += 8) {
			word[0] &= ~_PAGE_HASHPTE;
			word[1] &= ~_PAGE_HASHPTE;
			word[2] &= ~_PAGE_HASHPTE;
			word[3] &= ~_PAGE_HASHPTE;
			word[4] &= ~_PAGE_HASHPTE;
			word[5] &= ~_PAGE_HASHPTE;
			word[6] &= ~_PAGE_HASHPTE;
			word[7] &= ~_PAGE_HASHPTE;
		}
		for (; left; left--, word++)
			*word &= ~_PAGE_HASHPTE;
		local_irq_restore(flags);
	}
}

static u32 lazyctx_first_hashed(struct mm_struct *mm, u32 start, u32 end)
{
	pte_t *pte;
	u32 next;

	for_each_table(mm, pte, start, next, end) {
		const unsigned long *word = (const unsigned long *)pte;
		u32 page = start;

		if (!pte)
			continue;
		for (; next - page >= 8; page += 8, word += 8) {
			if ((word[0] | word[1] | word[2] | word[3] |
			     word[4] | word[5] | word[6] | word[7]) & _PAGE_HASHPTE)
				break;
		}
		for (; page < next; page++, word++) {
			if (*word & _PAGE_HASHPTE)
				return page;
		}
	}
	return end;
}

static void lazyctx_check_marks(struct mm_struct *mm, u32 start, u32 end)
{
#ifdef CONFIG_LAZYCTX_DEBUG
	lazyctx_check_marked(lazyctx_first_hashed(mm, start, end) != end);
#endif
}

#include "engine/flow.h"

struct lazyctx lazyctx = {
	.ids = {
		.live = live_map,
		.leaving = leaving_map,
		.worn = worn_map,
		.words = LAZYCTX_IDS / 32,
		.end = LAZYCTX_IDS,
		.next = 1,
	},
	.run = { .end = LAZYCTX_NO_PAGE },
};

/* Does anybody run in it, or may? Else it exits. A gather of an address space in use may be fullmm, too. */
static bool is_used(struct mm_struct *mm)
{
	return atomic_read(&mm->mm_users);
}

/* Apart, so that the fast way needs no stack. */
static noinline void remove_first(struct mmu_gather *tlb, unsigned long addr)
{
	if (lazyctx_is_open)
		lazyctx_open_run(&lazyctx);
	lazyctx_note_page(&lazyctx, tlb->mm, addr >> PAGE_SHIFT, !is_used(tlb->mm));
}

/* The page-table lock is held. */
void lazyctx_remove(struct mmu_gather *tlb, unsigned long addr)
{
	/* Page numbers are compared, not address spaces: one is unmapped at a time. */
	if (IS_ENABLED(CONFIG_LAZYCTX_DEBUG))
		WARN_ON_ONCE(lazyctx.run.has_pages && lazyctx.run.space != tlb->mm);
	if (!lazyctx_note_next(&lazyctx.run, addr >> PAGE_SHIFT))
		remove_first(tlb, addr);
}

void lazyctx_enter(void)
{
	lazyctx_is_open = lazyctx.policy.renews;
}

void lazyctx_leave(void)
{
	lazyctx_is_open = false;
	if (lazyctx.run.has_pages)
		lazyctx_close_run(&lazyctx);
}

void lazyctx_flush_page(struct mm_struct *mm, unsigned long addr)
{
	lazyctx_flush_one(&lazyctx, mm, addr >> PAGE_SHIFT);
}

void lazyctx_flush(struct mm_struct *mm, unsigned long start, unsigned long end)
{
	u32 page = start >> PAGE_SHIFT, last = (end - 1) / PAGE_SIZE + 1;

	/* As short as Linux's own. */
	if (!mm->context.lazyctx.owes && (!lazyctx.policy.renews || last - page <= lazyctx.policy.cutoff)) {
		lazyctx_flush_pages(mm, page, last);
		return;
	}
	lazyctx_flush_range(&lazyctx, mm, page, last);
}

bool lazyctx_flush_mm(struct mm_struct *mm)
{
	bool is_done = lazyctx_flush_all(&lazyctx, mm, is_used(mm));

	if (!is_done && is_used(mm))
		lazyctx_search_mm(mm);
	return is_done;
}

void lazyctx_copy(struct mm_struct *mm)
{
	if (lazyctx.policy.renews)
		lazyctx_owe(&lazyctx, mm);
}

bool lazyctx_new_id(struct mm_struct *mm)
{
	unsigned long flags;
	bool is_mine;

	local_irq_save(flags);
	is_mine = is_started;
	if (is_mine)
		mm->context.id = lazyctx_find_id(&lazyctx);
	local_irq_restore(flags);
	return is_mine;
}

bool lazyctx_destroy(struct mm_struct *mm)
{
	unsigned long flags;
	bool is_mine;

	/* Whoever changes the maps of ids is not interrupted by another one: they take no lock. */
	WARN_ON_ONCE(!in_task());
	local_irq_save(flags);
	/* Its last flush has paid. */
	if (WARN_ON_ONCE(mm->context.lazyctx.owes)) {
		mm->context.lazyctx.owes = 0;
		lazyctx.owing--;
		lazyctx_check_failed();
	}
	is_mine = is_started;
	lazyctx_check_gone(mm);
	if (is_mine)
		lazyctx_retire(&lazyctx.ids, mm->context.id);
	local_irq_restore(flags);
	return is_mine;
}

bool lazyctx_idle(void)
{
	return lazyctx_mode() >= LAZYCTX_LAZY_IDLE && lazyctx_reclaim(&lazyctx, PASS_SLOTS);
}

#ifdef CONFIG_LAZYCTX_DEBUG
void lazyctx_debug_young(struct mm_struct *mm, unsigned long addr)
{
	unsigned long id = mm->context.id;

	if (!is_started)
		return;
	lazyctx_flush_young(&lazyctx, mm, addr >> PAGE_SHIFT);
	lazyctx_check_young(mm, id);
}
#endif

void lazyctx_set_policy(const struct lazyctx_policy *policy)
{
	unsigned long flags;

	local_irq_save(flags);
	lazyctx.policy = *policy;
	local_irq_restore(flags);
}

/* From now on the ids are the engine's: those that Linux has given away are live. */
void lazyctx_start(void)
{
	unsigned long flags;

	local_irq_save(flags);
	lazyctx.slots = lazyctx_groups() * 8;
	lazyctx.ids.used = (u32 *)context_map;
	memcpy(live_map, context_map, sizeof(live_map));
	is_started = true;
	local_irq_restore(flags);
}

/* Nobody renews any more. Linux can have the ids back when nothing is left of those that are retired. */
void lazyctx_stop(void)
{
	unsigned long flags;
	bool is_working;

	do {
		local_irq_save(flags);
		is_working = lazyctx_reclaim(&lazyctx, STOP_SLOTS);
		if (!is_working)
			is_started = false;
		local_irq_restore(flags);
		cond_resched();
	} while (is_working);
}

u32 lazyctx_owing(void)
{
	return READ_ONCE(lazyctx.owing);
}

void lazyctx_set_id_space(u32 end)
{
	unsigned long flags;

	local_irq_save(flags);
	lazyctx.ids.end = end;
	if (lazyctx.ids.next >= end)
		lazyctx.ids.next = 1;
	local_irq_restore(flags);
}

static const char * const why_names[LAZYCTX_WHYS] = {
	[LAZYCTX_ZAP] = "zap",
	[LAZYCTX_RANGE] = "range",
	[LAZYCTX_ALL] = "all",
	[LAZYCTX_EXIT] = "exit",
	[LAZYCTX_DEBT] = "debt",
};

static void show_table(struct seq_file *seq)
{
	u32 *entry = lazyctx_table(), live = 0, dead = 0, kernel = 0, empty = 0, i;

	for (i = 0; i < lazyctx_groups() * 8; i++, entry += 2) {
		u32 id = lazyctx_entry_id(*entry);

		if (!(*entry & LAZYCTX_VALID))
			empty++;
		else if (id == LAZYCTX_KERNEL)
			kernel++;
		else if (id < LAZYCTX_IDS && is_started && !lazyctx_is_live(&lazyctx.ids, id))
			dead++;
		else
			live++;
	}
	seq_printf(seq, "entries_live %u\nentries_zombie %u\nentries_kernel %u\nentries_empty %u\n",
		   live, dead, kernel, empty);
}

void lazyctx_show(struct seq_file *seq)
{
	const struct lazyctx_stat *stat = &lazyctx.stat;
	unsigned int i;

	seq_printf(seq, "reloads %u\nevicts %u\n", lazyctx_reloads, lazyctx_evicts);
	for (i = 0; i < LAZYCTX_WHYS; i++)
		seq_printf(seq, "%s_renewals %llu\n", why_names[i], stat->renewals[i]);
	seq_printf(seq, "taken %llu\nreuses %llu\npasses %llu\nreclaimed %llu\nsweeps %llu\npurges %llu\n",
		   stat->taken, stat->reuses, stat->passes, stat->reclaimed, stat->sweeps, stat->purges);
	seq_printf(seq, "flushed %llu\nsearched %llu\nfound %llu\n", stat->flushed,
		   lazyctx_counters.searched, lazyctx_counters.found);
	show_table(seq);
}
