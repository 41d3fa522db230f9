// SPDX-License-Identifier: GPL-2.0-only
/* The judge: sees every TLB, trusts no SPTE and no version. */
#include "model.h"

/* The generation that was just raised flushes these pages alone, and no tables; or all. */
void truth_raised(int index, bool all, int first, int last)
{
	struct mm *mm = &w.mm[index];

	mm->flushes[mm->tlb_gen % FLUSHES].all = all;
	mm->flushes[mm->tlb_gen % FLUSHES].first = first;
	mm->flushes[mm->tlb_gen % FLUSHES].last = last;
}

/* Does who catches up flush @page, whatever the ring says by then? NOBODY: what is no page's. */
static bool flushes(const struct mm *mm, u64 from, u64 to, int page)
{
	if (to > from + RING_SLOTS)
		return true;
	for (u64 gen = from + 1; gen <= to; gen++) {
		int first = mm->flushes[gen % FLUSHES].first, last = mm->flushes[gen % FLUSHES].last;

		if (mm->flushes[gen % FLUSHES].all || (page >= first && page <= last))
			return true;
	}
	return false;
}

/* Will @core flush @page, unasked, before it uses @mm's addresses through @asid again? */
bool must_flush(const struct core *core, int asid, int mm, int page)
{
	const struct switch_mm *sw = &core->sw;
	/* In the window of an insertion it runs the address space, with interrupts off. */
	int loaded = core->insert.irqs_off ? core->cr3_mm : core->loaded;
	bool lags, owes, decided = false;
	u64 gen = w.mm[mm].tlb_gen;

	if (core->ctx[asid].ctx_id != w.mm[mm].ctx_id)
		return true;	/* given away: CR3 is loaded with a flush */
	if (sw->on && sw->flush && sw->asid == asid)
		return true;	/* on its way to that load; ctx may be new already */
	if (sw->on && sw->owed && sw->next == mm)
		return true;	/* the bit is clear, the flush is still to come */
	if (sw->on && sw->replay.count && sw->asid == asid)
		return flushes(&w.mm[mm], core->ctx[asid].tlb_gen, sw->gen, page);
	if (sw->on && sw->next == mm) {
		decided = sw->step > (sw->prev == mm ? SWITCH_DECIDES_LAZY : SWITCH_DECIDES);
		if (!decided && sw->step > (sw->prev == mm ? 1 : 7))	/* what is raised by now it does not know */
			gen = sw->gen;
	}
	lags = flushes(&w.mm[mm], core->ctx[asid].tlb_gen, gen, page);
	owes = w.mm[mm].owed >> (core - w.core) & 1;
	if (!lags && !owes)
		return false;
	if (core->is_lazy)
		return true;
	/* Coming back from lazy mode, or arriving: not if it has looked already. */
	if (sw->on && sw->next == mm && (sw->was_lazy || loaded != mm))
		return (owes && sw->step <= (sw->prev == mm ? 2 : 8)) || (lags && !decided);
	if (loaded == mm)	/* else an interrupt is on its way, which somebody waits for */
		return sw->on && sw->was_lazy;
	return true;
}

/* The cores that hold what was filled for @page before @when and may still use it. */
static u32 holders(int mm, int page, u64 when, bool elided)
{
	u32 mask = 0;

	for (int cpu = 0; cpu < CORES; cpu++) {
		const struct core *core = &w.core[cpu];

		for (int asid = 0; asid < ASIDS; asid++) {
			const struct entry *entry = &core->tlb[asid][page];
			bool walking = core->walk.valid && core->walk_asid == asid && core->walk_page == page;

			if (walking && !(entry->valid && entry->filled < core->walk.filled))
				entry = &core->walk;
			if (!entry->valid || entry->ctx_id != w.mm[mm].ctx_id || entry->filled >= when)
				continue;
			if (!must_flush(core, asid, mm, page))
				mask |= 1u << cpu;
			else if (elided && core->sw.on && core->sw.replay.count)
				COUNT(elided_and_replayed);
			else if (elided && core->sw.on)
				COUNT(elided_while_switching);
			else if (elided && core->is_lazy && core->loaded == mm)
				COUNT(elided_while_lazy);
		}
	}
	return mask;
}

/* Asked under the lock, for every verdict: who is let off does not hold the entry. */
void truth_asked(int mm, int page, u64 when, struct abis_verdict verdict)
{
	u32 held = holders(mm, page, when, verdict.targets != ABIS_ALL);
	u32 flushed = verdict.targets == ABIS_ALL ? ~0u : verdict.targets == ABIS_CPU ? 1u << verdict.cpu : 0;

	for (int cpu = 0; cpu < CORES; cpu++)
		if (held >> cpu & 1 & ~(flushed >> cpu))
			fail("elided", "core %d holds page %d of mm %d, whose flush was left off", cpu, page, mm);
	if (held && verdict.targets == ABIS_ALL)
		COUNT(flushed_and_held);
	else if (held)
		COUNT(private_held);
}

/* The operation that changed @page at @when has returned: what is older is never used again. */
void truth_finished(int mm, u64 ctx_id, int page, u64 when)
{
	if (w.mm[mm].ctx_id != ctx_id)
		return;
	if (w.mm[mm].dead_before[page] < when)
		w.mm[mm].dead_before[page] = when;
	if (holders(mm, page, when, false))
		fail("stale", "page %d of mm %d is held as it was before an operation that has finished", page, mm);
}

/* hwA went to 0, or was found 0; then the host looked for rounds in flight, then at the version. */
void truth_cleared(struct table *table, int slot, bool accessed, u64 version, bool in_flight)
{
	if (!accessed && table->proof_at[slot])
		return;
	table->proof_at[slot] = version + (in_flight ? 2 : 1);
	table->quiet[slot] = !in_flight;
	table->private[slot] = 0;
	if (in_flight)
		COUNT(stamped_in_flight);
	else
		COUNT(stamped_quiet);
}

/* What hardware cannot see it cannot mark, and Linux does not: else nobody could tell who holds it. */
void truth_taken(const struct pte *pte)
{
	if (pte->hidden && pte->accessed)
		fail("marked", "a PTE that is hidden is marked as accessed");
}

/* A fault of a page that is present has come to its end: it will not come again at once. */
void truth_resolved(const struct core *core, int page, bool inserted)
{
	const struct mm *mm = &w.mm[core->op.mm];
	const struct pte *pte = &w.table[mm->table[page / SLOTS]].pte[page % SLOTS];

	if (pte->hidden && !inserted)
		fail("starved", "core %d has faulted on page %d, which is as hidden as it was", (int)(core - w.core), page);
	if (core->op.write && !pte->write)
		fail("starved", "core %d has faulted on a write to page %d, which is still read-only", (int)(core - w.core), page);
}

/* What has been clear for long enough is found to be so: not only safe, also of use. */
void truth_decided(const struct table *table, int slot, const struct op *op, struct abis_verdict verdict)
{
	u64 proof_at = table->proof_at[slot];

	truth_taken(&op->old);
	if (!op->old.accessed && table->private[slot] && verdict.targets == ABIS_ALL)
		fail("starved", "core %d alone can hold the entry, all are flushed", table->private[slot] - 1);
	if (op->old.accessed || !proof_at || op->version < proof_at || op->version >= proof_at + 200)
		return;
	if (verdict.targets != ABIS_NONE)
		fail("starved", "hwA is clear since version %llu was still to come, %llu is reached, but its flush is not left off",
		     (unsigned long long)proof_at, (unsigned long long)op->version);
	if (verdict.reason == ABIS_IDLE && op->version == proof_at && table->quiet[slot])
		COUNT(elided_after_one);
}

/* A round that is over is not in flight: else every stamp would wait for two. */
void truth_in_flight(int mm)
{
	u32 most = 0;

	for (int cpu = 0; cpu < CORES; cpu++) {
		const struct core *core = &w.core[cpu];

		most += core->flush.on && core->flush.round && !core->flush.batch && core->flush.info.mm == mm;
		most += core->batch.mm == mm;
	}
	if (w.mm[mm].in_flight > most)
		fail("starved", "%u rounds of mm %d are counted as in flight, there are at most %u", w.mm[mm].in_flight, mm, most);
}

/* Who waits for rounds alone gets one in time. */
void truth_blocked(struct mm *mm, bool round)
{
	mm->blocked_in_a_row = round ? 0 : mm->blocked_in_a_row + 1;
	if (mm->blocked_in_a_row > 4 * ROUND_EVERY)
		fail("starved", "%u flushes waited for a round, none became one", mm->blocked_in_a_row);
}

/* The page was read in the window: only a secondary PTE can have filled the entry since. */
void truth_read(const struct core *core, const struct entry *entry)
{
	if (!entry->valid || (entry->filled >= core->insert.began && !entry->secondary))
		fail("starved", "core %d asks for an entry of its secondary tables and does not get it", (int)(core - w.core));
}

/* The core inserted under a hold, then looked for rounds in flight, then at the version. */
void truth_inserted(struct table *table, int slot, u32 cpu, u64 version, bool in_flight)
{
	if (cpu >= SPTE_CPUS)
		fail("unnamed", "core %u has inserted, and no SPTE can name it", cpu);
	table->proof_at[slot] = version + (in_flight ? 2 : 1);
	table->quiet[slot] = !in_flight;
	table->private[slot] = (int)cpu + 1;
}

/* What is owed is paid, and once: else a CPU would flush whenever it comes back. */
void truth_owed(int mm, u32 cpu)
{
	w.mm[mm].debts |= 1u << cpu;
}

void truth_paid(int mm, u32 cpu)
{
	if (!(w.mm[mm].debts >> cpu & 1))
		fail("starved", "core %u flushes mm %d for a flush that it has paid for", cpu, mm);
	w.mm[mm].debts &= ~(1u << cpu);
}
