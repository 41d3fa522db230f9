// SPDX-License-Identifier: GPL-2.0-only
/* Address spaces: fork(), switching to them, full flushes; and the mode. The rules: kernel.c. */
#include "kernel.h"

static bool mm_unused(int mm)
{
	for (int cpu = 0; cpu < CORES; cpu++) {
		const struct core *core = &w.core[cpu];

		if (core->loaded == mm || core->cr3_mm == mm || core->current_mm == mm || (core->sw.on && core->sw.next == mm) ||
		    core->batch.mm == mm || (core->op.kind && (core->op.mm == mm || core->op.other_mm == mm || core->op.child == mm)))
			return false;
	}
	return true;
}

void mm_init(struct mm *mm)
{
	for (int region = 0; region < REGIONS; region++) {
		if (mm->table[region] != NOBODY)
			w.table[mm->table[region]].mm = NOBODY;
	}
	*mm = (struct mm){ .ctx_id = ++w.last_ctx_id, .version = 1 + random_below(600), .hot = (u8)random_below(1 << PAGES) };
	for (int region = 0; region < REGIONS; region++)
		mm->table[region] = NOBODY;
}

/* dup_mmap(): the parent's PTEs lose the write bit, the child's are born old; SPTEs and version are not inherited. */
void fork_mm(struct core *core)
{
	struct op *op = &core->op;
	struct mm *mm = &w.mm[op->mm], *child = &w.mm[op->child];
	struct table *table = &w.table[op->table], *new;
	struct pte *pte = &table->pte[slot_of(op->page)];
	int free;

	switch (op->step++) {
	case 0:
		free = 1 + (int)random_below(MMS - 1);
		if (mm->writer || mm->readers || !mm_unused(free))
			return end(op);
		mm->writer = true;
		op->child = free;
		mm_init(&w.mm[free]);
		op->region = -1;
		break;
	case 1:
		if (++op->region == REGIONS) {
			op->step = 9;
			break;
		}
		op->table = mm->table[op->region];
		if (op->table == NOBODY)
			op->step = 1;
		else
			child->table[op->region] = table_alloc(op->child);
		op->page = op->region * SLOTS - 1;
		break;
	case 2:
		if (!lock(core, op->table))
			op->step = 2;
		break;
	case 3:
		if (++op->page == (op->region + 1) * SLOTS) {
			unlock(op->table);
			op->step = 1;
		}
		break;
	case 4:		/* ptep_set_wrprotect(): hwA stays */
		op->old = *pte;
		op->slot = op->page % SLOTS;
		op->when[op->slot] = w.now;
		pte->write = false;
		if (!op->old.present)
			op->step = 3;
		break;
	case 5:
		op->version = mm->version;
		break;
	case 6:
		if (op->old.write) {
			decide(op, table, op->slot, op->page);
			op->done[op->slot] = true;
			op->protected[op->page] = op->when[op->slot];
		}
		new = &w.table[child->table[op->region]];
		new->pte[op->slot] = op->old;
		new->pte[op->slot].write = new->pte[op->slot].accessed = false;
		if (op->old.hidden)
			COUNT(hidden_forked);
		op->step = 3;
		break;
	case 9:
		flush_range(core, 0, PAGES - 1, true);
		break;
	case 10:
		for (int page = 0; page < PAGES; page++)
			if (op->protected[page])
				truth_finished(op->mm, mm->ctx_id, page, op->protected[page]);
		child->live = true;
		mm->writer = false;
		COUNT(forks);
		end(op);
	}
}

static bool holds(int cpu, bool unaware)
{
	const struct op *op = &w.core[cpu].op;

	for (int i = 0; i < TABLES; i++)
		if (w.table[i].lock == cpu && (unaware ? !op->track : op->elide))
			return true;
	return false;
}

/*
 * On: everyone stamps; a new epoch; everyone may elide. Off: nobody elides; nobody stamps.
 * Between two phases all holds of the first are waited for (synchronize_rcu()).
 */
void mode(struct core *core)
{
	struct op *op = &core->op;

	if (random_below(16))	/* each CPU's code is patched by interrupts of its own */
		return;
	switch (op->step) {
	case 0:
		if (w.switcher != NOBODY)
			return end(op);
		w.switcher = (int)(core - w.core);
		op->cpu = 0;
		op->step = w.mode_on ? 5 : 1;
		return;
	case 1:
		w.core[op->cpu].see_track = true;
		break;
	case 2:
		if (holds(op->cpu, true))
			return;
		break;
	case 3:
		if (op->cpu == 0)
			w.epoch++;
		break;
	case 4:
		w.core[op->cpu].see_elide = true;
		break;
	case 5:
		w.core[op->cpu].see_elide = false;
		break;
	case 6:
		if (holds(op->cpu, false))
			return;
		break;
	case 7:
		w.core[op->cpu].see_track = false;
		break;
	}
	if (++op->cpu < CORES)
		return;
	op->cpu = 0;
	op->step++;
	if (op->step == 5 || op->step == 8) {
		w.mode_on = op->step == 5;
		w.switcher = NOBODY;
		COUNT(mode_changes);
		end(op);
	}
}

void run(struct core *core)
{
	struct op *op = &core->op;

	if (op->step++ == 0) {
		/* kthread_use_mm(), exec. Not over its own lazy one: there Linux itself is not strict. */
		if (core->loaded != op->mm && random_below(2))
			core->current_mm = op->mm;
		switch_start(core, op->mm);
	} else {
		core->current_mm = op->mm;
		end(op);
	}
}

void lazy(struct core *core)
{
	struct op *op = &core->op;

	if (op->step++ == 0) {
		core->is_lazy = core->loaded != 0;
	} else {
		core->current_mm = NOBODY;
		end(op);
	}
}

void flush_all(struct core *core)
{
	struct op *op = &core->op;

	if (op->step++ == 0)
		flush_start(core, op->mm, 0, PAGES - 1, 1, true, false);
	else
		end(op);
}
