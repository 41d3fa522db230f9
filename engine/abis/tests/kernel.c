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
 *   6. A gather that ends while others are open flushes everything, unless all of them keep count of
 *      what they have yet to flush, and none has anything: kernel_gather.c.
 *   7. What is hidden is not present to hardware, but may be held: whoever takes it asks
 *      about it, and flushes, as if it were; in any mode.
 *   8. A fault for want of rights ends in rule 9, or 1 to 3 (a copy); any other in an
 *      insertion over it, or it is revealed, and its SPTE stays as it is.
 *   9. A PTE is made writable and private only if it was taken away (rule 1) and none but
 *      the core itself may hold it; the core flushes it, then inserts. Else it stays as Linux has it.
 */
#include "kernel.h"

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

int table_alloc(int mm)
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
bool lock(struct core *core, int table)
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

void unlock(int table)
{
	w.table[table].lock = NOBODY;
}

/* pte_accessible(), pte_needs_flush(): could anybody hold it? */
bool accessible(struct pte pte)
{
	return pte.present;
}

void reveal(struct pte *pte)
{
	if (pte->hidden)
		COUNT(revealed);
	pte->hidden = false;
}

void take_from(struct core *core, struct pte *pte, struct pte new)
{
	struct op *op = &core->op;

	op->old = *pte;
	*pte = new;
	op->when[op->slot] = w.now;
	op->done[op->slot] = true;
}

/* abis_version_to_stamp() in two steps, after the exchange: first this, then read_version(). */
void read_in_flight(struct op *op)
{
	truth_in_flight(op->mm);
	op->in_flight = w.mm[op->mm].in_flight;
}

void read_version(struct op *op)
{
	op->stamp = w.mm[op->mm].version;
}

void stamp(struct op *op, struct table *table, int slot)
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
bool taken(struct op *op, struct table *table, int slot)
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
void decide(struct op *op, struct table *table, int slot, int page)
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

/* What these CPUs alone may hold. What was said holds, whatever the mode is by now. */
void flush_cpus(struct core *core, int first, int last, bool full, u32 mask)
{
	COUNT(narrowed);
	if (mask & (mask - 1))
		COUNT(narrowed_set);
	if (!core->see_elide)
		COUNT(narrowed_late);
	flush_start_narrow(core, core->op.mm, first, last, full, mask);
}

/* The flush that a range's verdicts ask for. */
void flush_range(struct core *core, int first, int last, bool full)
{
	struct op *op = &core->op;

	if (op->range.targets == ABIS_ALL)
		flush_start(core, op->mm, first, last, 1, full | widen(op), false);
	else if (op->range.targets == ABIS_CPU)
		flush_cpus(core, first, last, full, 1u << op->range.cpu);
	else if (op->range.targets == ABIS_SET)
		flush_cpus(core, first, last, full, (u32)op->range.set[0]);
}

void finished(struct op *op, int page, int slot)
{
	if (op->done[slot])
		truth_finished(op->mm, w.mm[op->mm].ctx_id, page, op->when[slot]);
}

void region_finished(struct op *op, int region)
{
	for (int slot = 0; slot < SLOTS; slot++)
		truth_finished(op->mm, w.mm[op->mm].ctx_id, region * SLOTS + slot, w.now);
	w.mm[op->mm].tables_dead_before[region] = w.now;
}

/* flush_tlb_batched_pending(), in two steps: true while the flush is to be waited for. */
bool batched_pending(struct core *core)
{
	struct mm *mm = &w.mm[core->op.mm];

	core->op.pending = mm->batched;
	if (mm->batched == mm->batched_flushed)
		return false;
	flush_start(core, core->op.mm, 0, PAGES - 1, 1, true, false);
	return true;
}

void batched_flushed(struct op *op)
{
	if (w.mm[op->mm].batched_flushed != op->pending) {
		COUNT(batched_pending_flushed);
		w.mm[op->mm].batched_flushed = op->pending;
	}
}

void end(struct op *op)
{
	op->kind = OP_NONE;
}

/* Is there an SPTE to ask, and may the answer be believed? */
bool may_ask(const struct op *op)
{
	return op->track && op->elide;
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

	if (w.gathering && (kind == OP_ZAP || kind == OP_PROTECT))	/* by the reverse map, too */
		own = false;
	if (own && core->current_mm == NOBODY)
		return;
	if (kind == OP_FAULT && !random_below(8))
		own = false;
	*op = (struct op){ .kind = kind, .mm = own ? core->current_mm : any_live(), .page = some_page(),
			   .other = (int)random_below(PAGES), .other_mm = any_live(), .full = !random_below(16), .child = NOBODY,
			   .restored = !random_below(3), .shared = w.gathering || random_below(2), .write = random_below(2) };
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
