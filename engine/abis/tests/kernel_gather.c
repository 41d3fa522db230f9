// SPDX-License-Identifier: GPL-2.0-only
/* zap and mprotect(): gathers, alone and beside others. The rules: kernel.c. */
#include "kernel.h"

/*
 * The flush of a gather, after unlock. Where the mode, or the process, did not let
 * it ask about what others had taken, it is Linux's: everybody, if others are under
 * way. Freed tables are everybody's, page by page unless no page needs a flush.
 */
static void gather_flush(struct core *core, int region, bool freed_tables)
{
	struct op *op = &core->op;
	struct abis_verdict all = { .targets = ABIS_ALL };
	bool nested = w.mm[op->mm].gathers > 1;
	int first = region * SLOTS, last = first + SLOTS - 1, stride = 1;

	if (nested && !may_ask(op)) {
		COUNT(gathers_nested);
		abis_range_add(&op->range, all);
		op->recent_only = false;
	} else if (nested && op->range.targets == ABIS_NONE) {
		COUNT(nested_spared);
	} else if (nested && op->range.targets != ABIS_ALL) {
		COUNT(nested_narrowed);
	}
	if (!freed_tables)
		return flush_range(core, first, last, op->full);
	if (op->range.targets == ABIS_NONE) {
		COUNT(tables_freed_alone);
		stride = SLOTS;
	}
	flush_start(core, op->mm, first, last, stride, op->full, true);
}

/*
 * A slot that a gather passes by: empty, or as it shall be. Another gather, or a batch,
 * may have made it so, and its flush may be still to come. Whoever holds what was there is
 * named by the SPTE, and is flushed here, too, before the gather returns.
 */
static void pass_by(struct op *op, struct table *table)
{
	struct pte *pte = &table->pte[op->slot];

	op->when[op->slot] = pte->present ? table->protected_at[op->slot] : w.now;
	op->done[op->slot] = true;
	if (op->kind == OP_PROTECT && random_below(2))
		reveal(pte);
	op->step = (op->nested || op->pending_batch) && may_ask(op) ? 10 : 12;
}

/* False: only a batch can have left something there, and nobody knows where. */
static bool ask_passed(struct op *op, struct table *table)
{
	struct abis_range before = op->range;

	decide(op, table, op->slot, op->region * SLOTS + op->slot);
	if (!op->pending_batch || op->nested || op->range.targets != ABIS_ALL || before.targets == ABIS_ALL)
		return true;
	op->range = before;
	return false;
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
	mm->gathers++;
	op->table = mm->table[op->region];
	return true;
}

static void gather_end(struct op *op)
{
	struct mm *mm = &w.mm[op->mm];

	mm->gathers--;
	if (op->kind == OP_UNMAP_TABLE) {
		region_finished(op, op->region);
		w.table[op->table].mm = NOBODY;
		mm->unmapped &= ~(1u << op->region);
		COUNT(tables_freed);
	} else {
		for (int slot = 0; slot < SLOTS; slot++)
			finished(op, op->region * SLOTS + slot, slot);
	}
	if (op->shared)
		mm->readers--;
	else
		mm->writer = false;
	end(op);
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
	case 1:
		if (!lock(core, op->table))
			op->step = 1;
		break;
	case 2:		/* a batch that is pending is asked about, too, instead of a flush by everybody */
		if (!may_ask(op))
			batched_pending(core);
		else
			op->pending_batch = mm->batched != mm->batched_flushed;
		break;
	case 3:
		if (!may_ask(op))
			batched_flushed(op);
		break;
	case 4:		/* mm_tlb_flush_nested(): who took something here before has raised it before */
		op->nested = mm->gathers > 1;
		op->slot = 0;
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
			decide(op, table, op->slot, first + op->slot);
		break;
	case 8:
		if (op->kind == OP_PROTECT) {
			table->protected_at[op->slot] = op->when[op->slot];
			*pte = op->old;
			pte->write = false;
			reveal(pte);
		}
		op->step = 12;
		break;
	case 9:
		batched_flushed(op);
		op->step = 12;
		break;
	case 10:
		op->old = *pte;
		break;
	case 11:
		if (op->nested)
			COUNT(nested_asked);
		if (op->pending_batch)
			COUNT(batch_asked);
		op->version = mm->version;
		if (ask_passed(op, table))
			break;
		/* Anyone may hold what the batch took: then as in Linux, once for all that is pending. */
		COUNT(batch_asked_in_vain);
		batched_pending(core);
		op->pending_batch = false;
		op->step = 9;
		break;
	case 12:
		op->step = 5;
		if (++op->slot < SLOTS)
			break;
		op->step = 13;
		if (op->kind == OP_UNMAP_TABLE)
			mm->table[op->region] = NOBODY;
		unlock(op->table);
		break;
	case 13:
		gather_flush(core, op->region, op->kind == OP_UNMAP_TABLE);
		break;
	case 14:
		gather_end(op);
	}
}
