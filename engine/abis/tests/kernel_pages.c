// SPDX-License-Identifier: GPL-2.0-only
/* Pages that are reclaimed, migrated, aged or moved. The rules: kernel.c. */
#include "kernel.h"

/* try_to_unmap_one(), try_to_migrate_one() with TTU_BATCH_FLUSH; then try_to_unmap_flush(). */
void reclaim(struct core *core)
{
	struct op *op = &core->op;
	struct mm *mm = &w.mm[op->mm];
	int slot = (int)slot_of(op->page);
	struct table *table = &w.table[op->table];
	struct pte *pte = &table->pte[slot];
	struct batch *batch = &core->batch;

	switch (op->step++) {
	case 0:
		op->slot = 0;
		op->range = (struct abis_range){ 0 };
		op->recent_only = false;
		op->table = mm->table[op->region];
		if (op->table == NOBODY)
			op->step = 12;
		else if (!lock(core, op->table))
			op->step = 0;
		break;
	case 1:
		if (!pte->present) {
			op->step = 11;
			break;
		}
		take_from(core, pte, (struct pte){ 0 });
		if (op->old.hidden)
			COUNT(hidden_reclaimed);
		break;
	case 2:
		if (taken(op, table, slot))
			op->step = 2;
		break;
	case 3:
		if (accessible(op->old))
			decide(op, table, slot, op->page);
		op->need = op->range.targets != ABIS_NONE;
		if (!op->need)
			op->step = 9;
		else if (op->range.targets == ABIS_CPU)
			op->step = 17;
		break;
	case 4:		/* arch_tlbbatch_add_pending(), first __abis_batch_add() */
		batch->required = true;
		if (op->track && batch->mm == NOBODY) {
			batch->mm = op->mm;
			mm->in_flight++;
		}
		break;
	case 5:
		if (op->track && batch->mm == op->mm)
			batch->begun = mm->version;
		break;
	case 6:
		mm->tlb_gen++;
		truth_raised(op->mm, true, 0, 0);
		break;
	case 7:
		batch->cpumask |= mm->cpumask;
		break;
	case 8:
		mm->batched++;
		break;
	case 9:
		if (op->restored) {	/* swap_duplicate() failed, say */
			*pte = op->old;
			COUNT(restored);
			if (!op->need)
				COUNT(restored_elided);
		} else if (!op->need) {
			finished(op, op->page, 0);
		} else {
			batch->unmapped[batch->count].mm = op->mm;
			batch->unmapped[batch->count].page = op->page;
			batch->unmapped[batch->count].ctx_id = mm->ctx_id;
			batch->unmapped[batch->count].when = op->when[0];
			batch->count++;
		}
		break;
	case 10:
	case 11:
		op->step = 12;
		unlock(op->table);
		break;
	case 12:	/* another page, perhaps of another process */
		if (batch->count < 3 && random_below(3)) {
			op->mm = w.mm[op->other_mm].live ? op->other_mm : op->mm;
			op->page = some_page();
			op->region = region_of(op->page);
			op->restored = !random_below(3);
			op->step = 0;
		}
		break;
	case 13:
		if (batch->required) {
			COUNT(batches);
			flush_start_batch(core);
		}
		break;
	case 14:
		if (batch->narrow)
			flush_start_narrow(core, NOBODY, 0, -1, false, batch->narrow);
		break;
	case 15:
		for (int i = 0; i < batch->count; i++)
			truth_finished(batch->unmapped[i].mm, batch->unmapped[i].ctx_id, batch->unmapped[i].page, batch->unmapped[i].when);
		*batch = (struct batch){ .mm = NOBODY };
		end(op);
		break;
	case 17:	/* one CPU alone: it owes from now on, and is asked to pay with the rest of the batch */
		COUNT(narrowed_by_batch);
		owe(op->mm, op->range.cpu);
		batch->narrow |= 1u << op->range.cpu;
		op->step = 8;
	}
}

/* ptep_test_and_clear_young(): reclaim, MGLRU, DAMON, page_idle. Flushes nothing. */
void young(struct core *core)
{
	struct op *op = &core->op;
	int slot = (int)slot_of(op->page);
	struct pte *pte = &w.table[op->table].pte[slot];

	switch (op->step++) {
	case 0:
		op->table = w.mm[op->mm].table[op->region];
		if (op->table == NOBODY)
			return end(op);
		if (!lock(core, op->table))
			op->step = 0;
		break;
	case 1:
		op->old = *pte;
		pte->accessed = false;
		if (!op->old.present)
			op->step = 5;
		break;
	case 2:
		read_in_flight(op);
		break;
	case 3:
		read_version(op);
		break;
	case 4:
		if (op->old.accessed)
			COUNT(young_cleared);
		else
			COUNT(young_kept);
		stamp(op, &w.table[op->table], slot);
		break;
	case 5:
		unlock(op->table);
		end(op);
	}
}

/* move_ptes(), one PTE. Each slot keeps its SPTE, which speaks of what was filled from that slot. */
void remap(struct core *core)
{
	struct op *op = &core->op;
	struct mm *mm = &w.mm[op->mm];
	int from = mm->table[op->region], to = mm->table[region_of(op->other)];
	int slot = (int)slot_of(op->page), new_slot = (int)slot_of(op->other);

	switch (op->step++) {
	case 0:
		if (mm->writer || mm->readers || from == NOBODY || to == NOBODY || op->page == op->other)
			return end(op);
		mm->writer = true;
		op->slot = 0;
		break;
	case 1:
		if (!lock(core, from < to ? from : to))
			op->step = 1;
		break;
	case 2:
		if (from != to && !lock(core, from < to ? to : from))
			op->step = 2;
		break;
	case 3:
		batched_pending(core);
		break;
	case 4:
		batched_flushed(op);
		if (!w.table[from].pte[slot].present || w.table[to].pte[new_slot].present)
			op->step = 9;
		break;
	case 5:
		take_from(core, &w.table[from].pte[slot], (struct pte){ 0 });
		break;
	case 6:
		if (taken(op, &w.table[from], slot))
			op->step = 6;
		break;
	case 7:
		if (accessible(op->old))
			decide(op, &w.table[from], slot, op->page);
		if (op->old.hidden)
			COUNT(hidden_moved);
		w.table[to].pte[new_slot] = op->old;
		flush_range(core, op->page, op->page, op->full);
		break;
	case 8:
		finished(op, op->page, 0);
		COUNT(remapped);
		break;
	case 9:
		unlock(from);
		unlock(to);
		mm->writer = false;
		end(op);
	}
}

/* move_normal_pmd(): SPTEs stay with their slots. Never left off: upper levels are cached without any hwA of a leaf. */
void move_table(struct core *core)
{
	struct op *op = &core->op;
	struct mm *mm = &w.mm[op->mm];
	int to = (op->region + 1) % REGIONS, first = op->region * SLOTS;

	switch (op->step++) {
	case 0:
		op->table = mm->table[op->region];
		if (mm->writer || mm->readers || op->table == NOBODY || mm->table[to] != NOBODY)
			return end(op);
		mm->writer = true;
		break;
	case 1:
		if (!lock(core, op->table))
			op->step = 1;
		break;
	case 2:
		mm->table[op->region] = NOBODY;
		mm->table[to] = op->table;
		flush_start(core, op->mm, first, first + SLOTS - 1, 1, op->full, true);
		break;
	case 3:
		region_finished(op, op->region);
		unlock(op->table);
		mm->writer = false;
		COUNT(tables_moved);
		end(op);
	}
}
