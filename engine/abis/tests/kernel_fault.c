// SPDX-License-Identifier: GPL-2.0-only
/* Faults, and pages that are copied or reused: what may be inserted, and what must be flushed first. The rules: kernel.c. */
#include "kernel.h"

/*
 * The address space of the fault is the loaded one, unless it is another's: get_user_pages_remote().
 * A core that no SPTE can name would insert for nothing.
 */
bool may_insert(const struct core *core)
{
	if ((u32)(core - w.core) >= SPTE_CPUS) {
		COUNT(insert_refused_cpu);
		return false;
	}
	return may_ask(&core->op) && core->loaded == core->op.mm && !core->is_lazy && random_below(4);
}

static u32 empty_slots(const struct table *table)
{
	u32 slots = 0;

	for (int slot = 0; slot < SLOTS; slot++)
		slots |= (u32)!table->pte[slot].present << slot;
	return slots;
}

/* Was the slot inserted in this hold? The core's own insertion is done by the time of the next step. */
static bool was_inserted(const struct core *core)
{
	return core->insert.slots >> slot_of(core->op.page) & 1;
}

/*
 * What is hidden is there, and nobody can walk to it: a fault inserts it, or lets all walk; with
 * its neighbours, which another core is likely to ask for next. For want of rights: OP_COW and
 * OP_REUSE, or as wp_page_reuse() does it.
 */
static void fault_revealed(struct op *op, struct table *table)
{
	struct pte *pte = &table->pte[slot_of(op->page)];
	bool was_hidden = pte->hidden;

	for (int slot = 0; was_hidden && slot < SLOTS; slot++)
		if (slot == (int)slot_of(op->page) || random_below(2))
			reveal(&table->pte[slot]);
	if (op->write && !pte->write)
		pte->write = pte->accessed = true;
}

static void fault_present(struct core *core, const struct table *table, struct pte *pte)
{
	struct op *op = &core->op;
	int holder = table->private[slot_of(op->page)];

	if (!pte->hidden) {
		if (op->write && !pte->write)
			pte->write = pte->accessed = true;
		return;
	}
	if (op->write && !pte->write)
		COUNT(hidden_written);
	else if (holder && &w.core[holder - 1] != core)
		COUNT(hidden_read_elsewhere);
	if ((!op->write || pte->write) && may_insert(core))
		insert_start(core, op->table, op->region, 1u << slot_of(op->page), 0);
}

/* do_anonymous_page(), set_pte_range(), wp_page_reuse(), remove_migration_pte() */
void fault(struct core *core)
{
	struct op *op = &core->op;
	struct mm *mm = &w.mm[op->mm];
	struct pte *pte = &w.table[op->table].pte[slot_of(op->page)];

	switch (op->step++) {
	case 0:
		if (mm->writer || mm->unmapped >> op->region & 1)
			return end(op);
		mm->readers++;
		if (mm->table[op->region] == NOBODY)
			mm->table[op->region] = table_alloc(op->mm);
		op->table = mm->table[op->region];
		break;
	case 1:
		if (!lock(core, op->table))
			op->step = 1;
		core->insert.slots = 0;
		break;
	case 2:
		if (!pte->present) {
			op->write = false;
			if (may_insert(core))	/* with its neighbours, perhaps: do_fault_around() */
				insert_start(core, op->table, op->region, random_below(2) ? empty_slots(&w.table[op->table]) : 1u << slot_of(op->page), 0);
			break;
		}
		fault_present(core, &w.table[op->table], pte);
		break;
	case 3:
		if (pte->present) {
			if (!was_inserted(core))
				fault_revealed(op, &w.table[op->table]);
			truth_resolved(core, op->page, was_inserted(core));
			break;
		}
		*pte = (struct pte){ .present = true, .write = random_below(2), .accessed = random_below(2), .page = ++w.pages };
		if (!pte->accessed)
			COUNT(born_old);
		break;
	case 4:
		unlock(op->table);
		mm->readers--;
		end(op);
	}
}

static bool is_core(const struct core *core, u32 cpu)
{
	return &w.core[cpu] == core;
}

/* Has the core asked, and may none but itself hold what was taken? Nobody else is interrupted for more rights. */
static bool is_alone(const struct core *core)
{
	const struct op *op = &core->op;

	if (!may_ask(op))
		return false;
	return op->range.targets == ABIS_NONE || (op->range.targets == ABIS_CPU && is_core(core, op->range.cpu));
}

/* wp_page_reuse(): whoever holds the old rights faults, and finds the new ones. */
static void map_in_place(struct pte *pte, struct pte old)
{
	*pte = old;
	reveal(pte);
	pte->write = pte->accessed = true;
}

/* ptep_clear_flush() of wp_page_copy(), page_vma_mkclean_one(), and of unmapping one by one; wp_page_reuse(). */
void clear_flush(struct core *core)
{
	struct op *op = &core->op;
	struct mm *mm = &w.mm[op->mm];
	int slot = (int)slot_of(op->page);
	struct table *table = &w.table[op->table];
	struct pte *pte = &table->pte[slot];

	switch (op->step++) {
	case 0:
		op->slot = 0;
		op->table = mm->table[op->region];
		if (op->table == NOBODY)
			return end(op);
		if (!lock(core, op->table))
			op->step = 0;
		break;
	case 1:
		if (!pte->present || (op->kind == OP_REUSE && pte->write)) {
			op->step = 7;
			break;
		}
		take_from(core, pte, (struct pte){ 0 });
		break;
	case 2:
		if (taken(op, table, slot))
			op->step = 2;
		break;
	case 3:
		if (accessible(op->old))
			decide(op, table, slot, op->page);
		if (op->old.hidden && op->kind != OP_MKCLEAN && op->range.targets == ABIS_CPU && is_core(core, op->range.cpu))
			COUNT(hidden_private_written);
		if (op->kind == OP_REUSE && !is_alone(core)) {
			COUNT(reuse_in_place);
			map_in_place(pte, op->old);
			op->step = 7;
			break;
		}
		flush_range(core, op->page, op->page, op->full);
		break;
	case 4:
		finished(op, op->page, 0);
		if (op->track) {
			*spte_of(table, slot) = SPTE_UNCACHED;
			table->private[slot] = 0;
			COUNT(uncached_recorded);
		}
		break;
	case 5:
		if (op->kind == OP_MKCLEAN) {
			*pte = op->old;
			pte->write = pte->accessed = false;
		} else if (op->restored && op->kind != OP_REUSE) {
			*pte = op->old;
		} else if (may_insert(core)) {
			op->as[slot] = op->old;
			op->as[slot].write = true;
			insert_start(core, op->table, op->region, 1u << slot, op->kind == OP_REUSE ? 1u << slot : 0);
		}
		break;
	case 6:
		if (pte->present) {
			if (table->private[slot] && op->kind == OP_REUSE)
				COUNT(inserted_by_reuse);
			else if (table->private[slot])
				COUNT(inserted_by_cow);
			break;
		}
		if (op->kind == OP_REUSE) {
			map_in_place(pte, op->old);
			break;
		}
		*pte = (struct pte){ .present = true, .write = true, .accessed = true, .page = ++w.pages };
		break;
	case 7:
		unlock(op->table);
		end(op);
	}
}
