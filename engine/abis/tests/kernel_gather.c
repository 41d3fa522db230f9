// SPDX-License-Identifier: GPL-2.0-only
/* zap and mprotect(): gathers, alone and beside others. The rules: kernel.c. */
#include "kernel.h"

/*
 * Two gathers at the same time. B may find a slot that A has emptied, or protected, and not
 * flushed yet, and its caller relies on that flush. So in Linux a gather that ends while others
 * are open (flush_pending) flushes everything. With ABIS it does so only where another one may
 * have something to flush (mm/abis/gather.c of the kernel has the proof). In the address space:
 *
 *   gathers	accountable gathers, those open and those ever begun. Not accountable is what was
 *		begun while nothing was elided, and what walks without a gather.
 *   unproven	accountable gathers that have something to flush: counted in the hold of the lock in
 *		which they took the first of it, until the flush is over.
 *
 * B ends with its own flush alone if nobody else is unproven, and nobody is open who is not
 * accountable. What one CPU alone may hold is flushed before the lock is released.
 */

/* tlb_flush_pte_range(), tlb_flush_pmd_range() */
static void count_unproven(struct op *op)
{
	if (!op->counted || op->unproven)
		return;
	w.mm[op->mm].unproven++;
	op->unproven = true;
}

static void drop_unproven(struct op *op)
{
	if (op->unproven)
		w.mm[op->mm].unproven--;
	op->unproven = false;
}

static void flush_by_all(struct op *op)
{
	op->range.targets = ABIS_ALL;
	op->recent_only = false;
}

/* tlb_abis_elide(). One CPU alone is flushed within the hold; where that does not pay, everyone in the end. */
static void ask(struct op *op, struct table *table)
{
	if (op->is_walk) {
		flush_by_all(op);
		return;
	}
	decide(op, table, op->slot, op->region * SLOTS + op->slot);
	if (op->range.targets != ABIS_CPU)
		return;
	if (!random_below(8)) {
		COUNT(narrow_widened);
		flush_by_all(op);
		return;
	}
	op->hold |= 1u << op->range.cpu;
	op->range = (struct abis_range){ 0 };
	*spte_of(table, op->slot) = SPTE_UNCACHED;
	table->private[op->slot] = 0;
}

/* What a gather flushes itself. Freed tables are everybody's, page by page unless no page needs a flush. */
static void gather_flush(struct core *core, bool freed_tables)
{
	struct op *op = &core->op;
	int first = op->first_region * SLOTS, last = first + op->regions * SLOTS - 1, stride = 1;

	if (!freed_tables)
		return flush_range(core, first, last, op->full);
	if (op->range.targets == ABIS_NONE) {
		COUNT(tables_freed_alone);
		stride = SLOTS;
	}
	flush_start(core, op->mm, first, last, stride, op->full, true);
}

/*
 * A slot that a gather passes by: empty, or as it shall be. Another gather may have made it so,
 * and its flush may be still to come. When this one has ended, nobody may use what was there.
 */
static void pass_by(struct op *op, struct table *table)
{
	struct pte *pte = &table->pte[op->slot];

	op->when[op->slot] = pte->present ? table->protected_at[op->slot] : w.now;
	op->done[op->slot] = true;
	if (op->kind == OP_PROTECT && random_below(2))
		reveal(pte);
	op->step = 10;
}

static bool gather_start(struct op *op)
{
	struct mm *mm = &w.mm[op->mm];
	bool exclusive = op->kind == OP_UNMAP_TABLE || (op->kind == OP_PROTECT && !op->shared);

	if (mm->writer || (exclusive && mm->readers) || mm->table[op->region] == NOBODY || mm->unmapped >> op->region & 1)
		return false;
	if (op->kind == OP_ZAP)
		op->shared = true;
	else if (op->kind == OP_UNMAP_TABLE && op->shared)	/* downgraded: nobody finds the region any more */
		mm->unmapped |= 1u << op->region;
	if (op->shared)
		mm->readers++;
	else
		mm->writer = true;
	op->is_walk = op->kind == OP_PROTECT && op->shared && !random_below(4);
	if (op->is_walk)
		COUNT(walks_without_gather);
	mm->flush_pending++;
	op->table = mm->table[op->region];
	op->first_region = op->region;
	op->regions = 1;
	return true;
}

/*
 * mprotect() with an insertion (mm/abis/protect.c of the kernel): what was taken out is flushed
 * before the lock is released, by whom it may be, and then inserted. The mmap_lock is held for
 * writing. So the slot stays empty until then; or it gets its new PTE at once, as ever.
 */
static void protect(struct core *core, struct table *table)
{
	struct op *op = &core->op;
	struct pte new = op->old;

	table->protected_at[op->slot] = op->when[op->slot];
	new.write = false;
	reveal(&new);
	op->as[op->slot] = new;
	if (!op->shared && !op->is_walk && may_insert(core))
		op->kept |= 1u << op->slot;
	else
		table->pte[op->slot] = new;
}

static void kept_are_flushed(struct op *op, struct table *table)
{
	for (int slot = 0; slot < SLOTS; slot++) {
		if (!(op->kept >> slot & 1))
			continue;
		truth_finished(op->mm, w.mm[op->mm].ctx_id, op->region * SLOTS + slot, op->when[slot]);
		*spte_of(table, slot) = SPTE_UNCACHED;
		table->private[slot] = 0;
	}
}

/* What could not be inserted after all is used by anyone. */
static void kept_are_set(struct op *op, struct table *table)
{
	for (int slot = 0; slot < SLOTS; slot++) {
		if (!(op->kept >> slot & 1))
			continue;
		if (table->private[slot])
			COUNT(inserted_by_protect);
		if (table->pte[slot].present)
			continue;
		table->pte[slot] = op->as[slot];
		table->pte[slot].accessed = true;
	}
	op->kept = 0;
}

/* All slots of a table are done. Return: there is another table, and the next step is to lock that. */
static bool goes_on(struct op *op)
{
	const struct mm *mm = &w.mm[op->mm];

	for (int slot = 0; slot < SLOTS; slot++) {
		if (op->done[slot])
			op->gone[op->region * SLOTS + slot] = op->when[slot];
		op->done[slot] = false;
	}
	if (op->kind == OP_UNMAP_TABLE || op->regions == REGIONS || random_below(2))
		return false;
	if (mm->table[REGIONS - 1 - op->region] == NOBODY || mm->unmapped >> (REGIONS - 1 - op->region) & 1)
		return false;
	COUNT(gathers_of_two_tables);
	op->region = REGIONS - 1 - op->region;
	op->table = mm->table[op->region];
	op->first_region = 0;
	op->regions = REGIONS;
	op->slot = 0;
	return true;
}

static void gather_end(struct op *op)
{
	struct mm *mm = &w.mm[op->mm];

	mm->flush_pending--;
	if (op->kind == OP_UNMAP_TABLE) {
		region_finished(op, op->region);
		w.table[op->table].mm = NOBODY;
		mm->unmapped &= ~(1u << op->region);
		COUNT(tables_freed);
	} else {
		for (int page = 0; page < PAGES; page++)
			if (op->gone[page])
				truth_finished(op->mm, mm->ctx_id, page, op->gone[page]);
	}
	if (op->shared)
		mm->readers--;
	else
		mm->writer = false;
	end(op);
}

/* tlb_finish_mmu(): is another open? Step 20: flush everything; 21: what is its own. */
static int nested_step(const struct core *core)
{
	const struct op *op = &core->op;

	if (op->is_walk)	/* flush_tlb_mm() */
		return 20;
	if (w.mm[op->mm].flush_pending <= 1)
		return 21;
	return op->counted && core->see_elide ? 16 : 20;
}

/*
 * The accountable ones open, and all that is open, in one moment: the former are the same, and so are
 * those ever begun, before and after the latter was read. If they come and go, tried three times.
 */
static int accountable_step(struct op *op)
{
	u64 gathers = w.mm[op->mm].gathers;

	if (gathers != op->gathers_seen) {
		COUNT(nested_retried);
		op->gathers_seen = gathers;
		return ++op->tries < 3 ? 17 : 20;
	}
	if (op->pending_seen == (op->gathers_seen & GATHERS_OPEN))
		return 19;
	COUNT(nested_unaccountable);
	return 20;
}

static int unproven_step(const struct op *op)
{
	if (w.mm[op->mm].unproven != op->unproven) {
		COUNT(nested_unproven);
		return 20;
	}
	COUNT(nested_proven);
	if (op->range.targets == ABIS_NONE)
		COUNT(nested_spared);
	return 21;
}

/*
 * zap_pte_range() of madvise or munmap; for OP_UNMAP_TABLE with free_pgtables(), for OP_PROTECT
 * change_pte_range() of mprotect(), or of userfaultfd, which holds mmap_lock for reading.
 */
void gather(struct core *core)
{
	struct op *op = &core->op;
	struct mm *mm = &w.mm[op->mm];
	struct table *table = &w.table[op->table];
	struct pte *pte = &table->pte[op->slot];
	int first = op->region * SLOTS;

	switch (op->step++) {
	case 0:
		if (!gather_start(op))
			end(op);
		break;
	case 1:		/* tlb_abis_begin() */
		op->counted = core->see_elide && !op->is_walk;
		if (op->counted)
			mm->gathers += GATHERS_BEGUN + 1;
		break;
	case 2:
		if (!lock(core, op->table))
			op->step = 2;
		break;
	case 3:
		batched_pending(core);
		break;
	case 4:
		batched_flushed(op);
		break;
	case 5:
		if (!pte->present || (op->kind == OP_PROTECT && !pte->write && !(pte->hidden && op->restored))) {
			pass_by(op, table);
			break;
		}
		take_from(core, pte, (struct pte){ 0 });
		if (op->old.hidden && op->kind == OP_PROTECT)
			COUNT(hidden_protected);
		else if (op->old.hidden)
			COUNT(hidden_zapped);
		break;
	case 6:
		if (taken(op, table, op->slot))
			op->step = 6;
		break;
	case 7:
		if (accessible(op->old))
			ask(op, table);
		break;
	case 8:
		if (op->range.targets == ABIS_ALL)
			count_unproven(op);
		break;
	case 9:
		if (op->kind == OP_PROTECT)
			protect(core, table);
		break;
	case 10:	/* the next slot; or a batch of pages is full, and they are to be freed first */
		op->step = 5;
		if (++op->slot < SLOTS && (op->kind == OP_PROTECT || random_below(8)))
			break;
		op->step = 11;
		if (op->hold)
			flush_cpus(core, first, first + SLOTS - 1, op->full, op->hold);
		break;
	case 11:
		if (op->kept && op->hold)
			COUNT(protect_flushed_cpu);
		op->hold = 0;
		if (op->slot == SLOTS) {
			op->step = op->kept ? 25 : 13;
			break;
		}
		COUNT(gathers_midway);
		gather_flush(core, false);
		break;
	case 12:
		drop_unproven(op);
		op->range = (struct abis_range){ 0 };
		op->recent_only = false;
		op->step = 2;
		unlock(op->table);
		break;
	case 13:
		if (op->kind == OP_UNMAP_TABLE)
			mm->table[op->region] = NOBODY;
		unlock(op->table);
		if (goes_on(op))
			op->step = 2;
		break;
	case 14:
		if (op->kind == OP_UNMAP_TABLE)
			count_unproven(op);
		break;
	case 15:
		op->step = nested_step(core);
		break;
	case 16:
		op->gathers_seen = mm->gathers;
		break;
	case 17:
		op->pending_seen = mm->flush_pending;
		break;
	case 18:
		op->step = accountable_step(op);
		break;
	case 19:
		op->step = unproven_step(op);
		break;
	case 20:
		if (!op->is_walk)
			COUNT(gathers_nested);
		flush_start(core, op->mm, 0, PAGES - 1, 1, true, true);
		op->step = 22;
		break;
	case 21:
		gather_flush(core, op->kind == OP_UNMAP_TABLE);
		break;
	case 22:
		drop_unproven(op);
		break;
	case 23:	/* tlb_abis_end() */
		if (op->counted)
			mm->gathers--;
		break;
	case 24:
		gather_end(op);
		break;
	case 25:
		if (op->range.targets == ABIS_ALL)
			COUNT(protect_flushed_all);
		gather_flush(core, false);
		break;
	case 26:
		drop_unproven(op);
		op->range = (struct abis_range){ 0 };
		op->recent_only = false;
		kept_are_flushed(op, table);
		break;
	case 27:
		insert_start(core, op->table, op->region, op->kept, op->kept);
		break;
	case 28:
		kept_are_set(op, table);
		op->step = 13;
	}
}
