// SPDX-License-Identifier: GPL-2.0-only
/*
 * Operations on page tables as Linux 6.12 does them, in small steps, with the
 * hooks of ABIS. Each is a program: op->step says where it is.
 *
 * The rules, all under the page-table lock of the slot:
 *   1. What takes hwA from a slot, and what takes a PTE away, is one atomic
 *      exchange; only the value it returned counts.
 *   2. Then it is seen whether a round is in flight, then the version is read, then
 *      the SPTE stored: spte_cleared() with abis_stamp_version().
 *   3. Then abis_decide(), with a version read after that.
 *   4. SPTE_UNCACHED only after the flush, or its elision, within this hold.
 *   5. spte_private() only as in insert.c, and only while eliding is on.
 *   6. A gather that is not alone asks abis_decide() also about what it passes by.
 *   7. What is hidden is not present to hardware, but may be held: whoever takes it asks
 *      about it, and flushes, as if it were; in any mode.
 *   8. A fault for want of rights ends in rule 9, or 1 to 3 (a copy); any other in an
 *      insertion over it, or it is revealed, and its SPTE stays as it is.
 *   9. A PTE is made writable and private only if it was taken away (rule 1) and none but
 *      the core itself may hold it; the core flushes it, then inserts. Else it stays as Linux has it.
 */
#include "model.h"

static u32 slot_of(int page) { return (u32)page % SLOTS; }
static int region_of(int page) { return page / SLOTS; }

/* SPTEs of an earlier time with tracking say nothing: in between nobody stamped. */
spte_t *spte_of(struct table *table, int slot)
{
	if (table->epoch != w.epoch) {
		for (int i = 0; i < SLOTS; i++) {
			table->spte[i] = SPTE_NEVER;
			table->proof_at[i] = 0;
			table->private[i] = 0;
		}
		table->epoch = w.epoch;
		COUNT(epoch_wiped);
	}
	return &table->spte[slot];
}

/* Nothing was ever filled from a new table. If nobody tracks, its epoch will pass. */
static void table_init(int index, int mm)
{
	struct table *table = &w.table[index];

	*table = (struct table){ .mm = mm, .lock = NOBODY, .epoch = w.epoch };
	for (int slot = 0; slot < SLOTS; slot++)
		table->spte[slot] = SPTE_UNCACHED;
}

static int table_alloc(int mm)
{
	for (int i = 0; i < TABLES; i++) {
		if (w.table[i].mm == NOBODY) {
			table_init(i, mm);
			return i;
		}
	}
	fail("model", "no table is left");
}

/* True when the lock was taken. The static keys are read inside the hold. */
static bool lock(struct core *core, int table)
{
	if (w.table[table].lock != NOBODY)
		return false;
	w.table[table].lock = (int)(core - w.core);
	core->op.track = core->see_track;
	core->op.elide = core->see_elide && !w.mm[core->op.mm].refused;
	if (core->see_elide && !core->op.elide)
		COUNT(refused);
	return true;
}

static void unlock(int table)
{
	w.table[table].lock = NOBODY;
}

/* pte_accessible(), pte_needs_flush(): could anybody hold it? */
static bool accessible(struct pte pte)
{
	return pte.present;
}

static void reveal(struct pte *pte)
{
	if (pte->hidden)
		COUNT(revealed);
	pte->hidden = false;
}

static void take_from(struct core *core, struct pte *pte, struct pte new)
{
	struct op *op = &core->op;

	op->old = *pte;
	*pte = new;
	op->when[op->slot] = w.now;
	op->done[op->slot] = true;
}

/* version_to_stamp() in two steps, after the exchange: first this, then read_version(). */
static void read_in_flight(struct op *op)
{
	truth_in_flight(op->mm);
	op->in_flight = w.mm[op->mm].in_flight;
}

static void read_version(struct op *op)
{
	op->stamp = w.mm[op->mm].version;
}

static void stamp(struct op *op, struct table *table, int slot)
{
	spte_t *spte;

	if (!op->track)
		return;
	if (!random_below(256)) {	/* no memory for SPTEs: what was promised of the table must go */
		COUNT(stamps_failed);
		table->epoch = 0;
		return;
	}
	spte = spte_of(table, slot);
	truth_cleared(table, slot, op->old.accessed, op->stamp, op->in_flight);
	*spte = spte_cleared(*spte, op->old.accessed, abis_stamp_version(op->stamp, op->in_flight));
}

/* __abis_pte_taken(), then __abis_elide() up to its question, which is decide(). True: one step done, come again. */
static bool taken(struct op *op, struct table *table, int slot)
{
	switch (op->ask++) {
	case 0:
		if (op->track && op->old.accessed) {
			read_in_flight(op);
			return true;
		}
		op->ask = 2;
		break;
	case 1:
		read_version(op);
		stamp(op, table, slot);
		return true;
	}
	op->version = w.mm[op->mm].version;
	op->ask = 0;
	return false;
}

/* The verdict on the PTE that was in @page; adds it to the range's. */
static void decide(struct op *op, struct table *table, int slot, int page)
{
	struct abis_verdict verdict = { .targets = ABIS_ALL, .reason = ABIS_NEVER };

	if (op->old.hidden && !op->track)
		COUNT(hidden_when_off);
	if (op->track && op->elide) {
		verdict = abis_decide(*spte_of(table, slot), op->old.accessed, op->version);
		truth_decided(table, slot, op, verdict);
		truth_asked(op->mm, page, op->when[op->slot], verdict);
		switch (verdict.reason) {
		case ABIS_IDLE: COUNT(elided_idle); break;
		case ABIS_UNCACHED: COUNT(elided_uncached); break;
		case ABIS_PRIVATE: COUNT(private); break;
		case ABIS_RECENT: COUNT(recent); break;
		case ABIS_ACCESSED: COUNT(accessed); break;
		default: COUNT(never);
		}
	}
	if (verdict.targets == ABIS_ALL)
		op->recent_only = (op->recent_only || op->range.targets != ABIS_ALL) && verdict.reason == ABIS_RECENT;
	abis_range_add(&op->range, verdict);
}

/* Whether a flush that only rounds could have saved becomes one itself. */
static bool widen(struct op *op)
{
	struct mm *mm = &w.mm[op->mm];
	bool round;

	if (!op->recent_only)
		return false;
	round = abis_round_force(&mm->blocked, ROUND_EVERY);
	truth_blocked(mm, round);
	if (round)
		COUNT(rounds_forced);
	return round;
}

/* The flush that a range's verdicts ask for. What they said holds, whatever the mode is by now. */
static void flush_range(struct core *core, int first, int last, bool full)
{
	struct op *op = &core->op;
	u32 mask = op->range.targets == ABIS_CPU ? 1u << op->range.cpu : (u32)op->range.set[0];

	if (op->range.targets == ABIS_NONE)
		return;
	if (op->range.targets == ABIS_ALL) {
		flush_start(core, op->mm, first, last, 1, full | widen(op), false);
		return;
	}
	COUNT(narrowed);
	if (op->range.targets == ABIS_SET)
		COUNT(narrowed_set);
	if (!core->see_elide)
		COUNT(narrowed_late);
	flush_start_narrow(core, op->mm, first, last, full, mask);
}

static void finished(struct op *op, int page, int slot)
{
	if (op->done[slot])
		truth_finished(op->mm, w.mm[op->mm].ctx_id, page, op->when[slot]);
}

static void region_finished(struct op *op, int region)
{
	for (int slot = 0; slot < SLOTS; slot++)
		truth_finished(op->mm, w.mm[op->mm].ctx_id, region * SLOTS + slot, w.now);
	w.mm[op->mm].tables_dead_before[region] = w.now;
}

/* flush_tlb_batched_pending(), in two steps: true while the flush is to be waited for. */
static bool batched_pending(struct core *core)
{
	struct mm *mm = &w.mm[core->op.mm];

	core->op.pending = mm->batched;
	if (mm->batched == mm->batched_flushed)
		return false;
	flush_start(core, core->op.mm, 0, PAGES - 1, 1, true, false);
	return true;
}

static void batched_flushed(struct op *op)
{
	if (w.mm[op->mm].batched_flushed != op->pending) {
		COUNT(batched_pending_flushed);
		w.mm[op->mm].batched_flushed = op->pending;
	}
}

static void end(struct op *op)
{
	op->kind = OP_NONE;
}

/* Is there an SPTE to ask, and may the answer be believed? */
static bool may_ask(const struct op *op)
{
	return op->track && op->elide;
}

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

/* The address space of the fault is the loaded one, unless it is another's: get_user_pages_remote(). */
static bool may_insert(const struct core *core)
{
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

	for (int slot = 0; slot < SLOTS; slot++)
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
		insert_start(core, op->table, op->region, 1u << slot_of(op->page), NOBODY);
}

/* do_anonymous_page(), set_pte_range(), wp_page_reuse(), remove_migration_pte() */
static void fault(struct core *core)
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
				insert_start(core, op->table, op->region, random_below(2) ? empty_slots(&w.table[op->table]) : 1u << slot_of(op->page), NOBODY);
			break;
		}
		fault_present(core, &w.table[op->table], pte);
		break;
	case 3:
		if (pte->present) {
			if (pte->hidden && !was_inserted(core))
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
static void gather(struct core *core)
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
static void clear_flush(struct core *core)
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
			pte->hidden = may_ask(op) && random_below(2);
			if (pte->hidden)
				COUNT(hidden_by_mkclean);
		} else if (op->restored && op->kind != OP_REUSE) {
			*pte = op->old;
		} else if (may_insert(core)) {
			insert_start(core, op->table, op->region, 1u << slot, op->kind == OP_REUSE ? slot : NOBODY);
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

/* try_to_unmap_one(), try_to_migrate_one() with TTU_BATCH_FLUSH; then try_to_unmap_flush(). */
static void reclaim(struct core *core)
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
static void young(struct core *core)
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
static void remap(struct core *core)
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
static void move_table(struct core *core)
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

static void mm_init(struct mm *mm)
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
static void fork_mm(struct core *core)
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
static void mode(struct core *core)
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

static void run(struct core *core)
{
	struct op *op = &core->op;

	if (op->step++ == 0) {
		switch_start(core, op->mm);
	} else {
		core->current_mm = op->mm;
		end(op);
	}
}

static void lazy(struct core *core)
{
	struct op *op = &core->op;

	if (op->step++ == 0) {
		core->is_lazy = core->loaded != 0;
	} else {
		core->current_mm = NOBODY;
		end(op);
	}
}

static void flush_all(struct core *core)
{
	struct op *op = &core->op;

	if (op->step++ == 0)
		flush_start(core, op->mm, 0, PAGES - 1, 1, true, false);
	else
		end(op);
}

static int any_live(void)
{
	int mm = 1;

	while (w.focus != NOBODY && random_below(8))
		if (w.mm[mm++].live)
			return mm - 1;
	do
		mm = 1 + (int)random_below(MMS - 1);
	while (!w.mm[mm].live);
	return mm;
}

bool is_own(const struct core *core, int page)
{
	return !w.apart || page % CORES == core - w.core;
}

void op_start(struct core *core, enum op_kind kind)
{
	struct op *op = &core->op;
	bool own = kind == OP_FAULT || kind == OP_REUSE || kind == OP_ZAP || kind == OP_UNMAP_TABLE || kind == OP_PROTECT || kind == OP_REMAP ||
		   kind == OP_MOVE_TABLE || kind == OP_FORK;

	if (own && core->current_mm == NOBODY)
		return;
	if (kind == OP_FAULT && !random_below(8))
		own = false;
	*op = (struct op){ .kind = kind, .mm = own ? core->current_mm : any_live(), .page = some_page(),
			   .other = (int)random_below(PAGES), .other_mm = any_live(), .full = !random_below(16), .child = NOBODY,
			   .restored = !random_below(3), .shared = random_below(2), .write = random_below(2) };
	if (kind == OP_FAULT && w.apart && random_below(4))
		op->page = (int)(core - w.core) % PAGES;
	op->region = region_of(op->page);
}

void op_step(struct core *core)
{
	switch (core->op.kind) {
	case OP_FAULT: fault(core); break;
	case OP_ZAP:
	case OP_UNMAP_TABLE:
	case OP_PROTECT: gather(core); break;
	case OP_COW:
	case OP_REUSE:
	case OP_MKCLEAN: clear_flush(core); break;
	case OP_RECLAIM: reclaim(core); break;
	case OP_YOUNG: young(core); break;
	case OP_REMAP: remap(core); break;
	case OP_MOVE_TABLE: move_table(core); break;
	case OP_FORK: fork_mm(core); break;
	case OP_ROUND: flush_all(core); break;
	case OP_RUN: run(core); break;
	case OP_LAZY: lazy(core); break;
	case OP_MODE: mode(core); break;
	case OP_REFUSE:
		w.mm[core->op.mm].refused = !w.mm[core->op.mm].refused && !random_below(8);
		/* fall through */
	case OP_NONE:
	case OPS: end(&core->op);
	}
}

/* If @core elided on this SPTE now: the promise is kept at every moment, not only when somebody relies on it. */
void kernel_probe(const struct core *core, int index, int slot)
{
	struct table *table = &w.table[index];
	const struct pte *pte = &table->pte[slot];

	struct abis_verdict verdict;

	if (table->mm == NOBODY || table->lock != NOBODY || pte->accessed || !core->see_track || !core->see_elide || w.mm[table->mm].refused)
		return;
	verdict = abis_decide(*spte_of(table, slot), false, w.mm[table->mm].version);
	if (verdict.targets == ABIS_ALL)
		return;
	for (int region = 0; region < REGIONS; region++)
		if (w.mm[table->mm].table[region] == index)
			truth_asked(table->mm, region * SLOTS + slot, w.now, verdict);
	COUNT(probed);
}

void kernel_init(void)
{
	for (int i = 0; i < TABLES; i++)
		w.table[i] = (struct table){ .mm = NOBODY, .lock = NOBODY };
	for (int mm = 0; mm < MMS; mm++) {
		for (int region = 0; region < REGIONS; region++)
			w.mm[mm].table[region] = NOBODY;
		mm_init(&w.mm[mm]);
		w.mm[mm].live = mm == 1 || mm == 2;
	}
	w.epoch = 1;
	w.mode_on = true;
	w.switcher = NOBODY;
	for (int cpu = 0; cpu < CORES; cpu++) {
		struct core *core = &w.core[cpu];

		core->current_mm = NOBODY;
		core->ctx[0].ctx_id = w.mm[0].ctx_id;
		core->ctx[0].tlb_gen = w.mm[0].tlb_gen;
		core->next_asid = 1;
		core->batch.mm = NOBODY;
		core->secondary.region = NOBODY;
		core->see_track = core->see_elide = true;
	}
}
