// SPDX-License-Identifier: GPL-2.0-only
/*
 * arch/x86/mm/tlb.c of Linux 6.12 in small steps, names as there. The hooks of
 * ABIS: a round counts itself as in flight and reads the version before the
 * bump, in flush_step() and in kernel.c's batches; when all have answered it is
 * credited, and then no longer in flight.
 *
 * A narrowed flush asks some CPUs alone and raises no generation. Who runs the
 * address space is interrupted. Anyone else owes: a bit of the address space
 * for each CPU, set by an atomic operation before loaded_mm and is_lazy are read
 * once more. The CPU looks at its bit after it has stored loaded_mm, or is_lazy,
 * and before it uses what it kept under the PCID. So one sees the other. A bit is
 * cleared before the flush that pays for it: what is owed from then on, stays.
 */
#include "model.h"

void switch_start(struct core *core, int next)
{
	core->sw = (struct switch_mm){ .on = true, .next = next };
}

void owe(int mm, u32 cpu)
{
	w.mm[mm].owed |= 1u << cpu;
	truth_owed(mm, cpu);
}

/* test_and_clear_bit(). Whether anything is left off by now makes no difference: debts outlive the mode. */
static bool take_owed(const struct core *core, int index)
{
	struct mm *mm = &w.mm[index < 0 ? 0 : index];
	u32 cpu = (u32)(core - w.core);
	bool owed = mm->owed >> cpu & 1;

	if (index < 0)
		fail("stale", "core %u is to flush while it says that nothing is loaded", cpu);
	mm->owed &= ~(1u << cpu);
	if (owed)
		truth_paid(index, cpu);
	if (owed && !core->see_elide)
		COUNT(paid_when_off);
	return owed;
}

/*
 * abis_replay(): what the generations that @core lags behind flush, instead of everything;
 * not where they are unknown, nor where it owes: a bit has no range.
 */
static void collect(struct core *core, struct replay *replay, int mm, int asid, u64 gen)
{
	u64 from = core->ctx[asid].tlb_gen;

	replay->count = ring_collect(&w.mm[mm].ring, from, gen, REPLAY_PAGES, replay->ranges);
	replay->done = 0;
	if (!replay->count && gen > from + RING_SLOTS)
		COUNT(replay_too_far);
	else if (!replay->count)
		COUNT(replay_unknown);
}

/* One of them. Return: there are more. */
static bool replay_step(struct core *core, struct replay *replay)
{
	u64 range = replay->ranges[replay->done++];
	int first = (int)(range >> 12);

	for (int page = first; page < first + (int)(range & RING_PAGES); page++)
		cpu_invlpg(core, page);
	return replay->done < replay->count;
}

static void choose_new_asid(struct core *core)
{
	struct switch_mm *sw = &core->sw;

	for (sw->asid = 0; sw->asid < ASIDS; sw->asid++)
		if (core->ctx[sw->asid].ctx_id == w.mm[sw->next].ctx_id)
			return;
	sw->asid = core->next_asid;
	core->next_asid = (core->next_asid + 1) % ASIDS;
	sw->is_new = true;
}

/* Flush everything, some pages, or nothing. Return: there is something to do. */
static bool decide_flush(struct core *core)
{
	struct switch_mm *sw = &core->sw;
	bool lags = sw->is_new || core->ctx[sw->asid].tlb_gen < sw->gen;

	if (lags && !sw->is_new && !sw->owed)
		collect(core, &sw->replay, sw->next, sw->asid, sw->gen);
	sw->flush = (lags || sw->owed) && !sw->replay.count;
	return lags || sw->owed;
}

/* switch_mm_irqs_off() */
static void switch_step(struct core *core)
{
	struct switch_mm *sw = &core->sw;
	u32 cpu = (u32)(core - w.core);

	switch (sw->step++) {
	case 0:
		sw->prev = core->loaded;
		sw->was_lazy = core->is_lazy;
		core->is_lazy = false;
		if (sw->prev != sw->next) {
			sw->step = 4;
		} else if (!sw->was_lazy) {
			sw->on = false;
		}
		break;
	case 1:
		sw->gen = w.mm[sw->next].tlb_gen;
		sw->asid = core->asid;
		break;
	case 2:
		sw->owed = take_owed(core, sw->next);
		if (sw->owed)
			COUNT(paid_by_lazy_return);
		break;
	case SWITCH_DECIDES_LAZY:
		if (!decide_flush(core)) {
			COUNT(lazy_return_fresh);
			sw->on = false;
			break;
		}
		COUNT(lazy_return_flushed);
		if (sw->replay.count) {
			COUNT(replayed_by_lazy_return);
			core->loaded = SWITCHING;	/* not before all is flushed */
		}
		sw->step = 10;
		break;
	case 4:
		core->loaded = SWITCHING;
		break;
	case 5:
		w.mm[sw->prev].cpumask &= ~(1u << cpu);
		break;
	case 6:
		if (sw->next)
			w.mm[sw->next].cpumask |= 1u << cpu;
		break;
	case 7:
		sw->gen = w.mm[sw->next].tlb_gen;
		choose_new_asid(core);
		break;
	case 8:
		sw->owed = take_owed(core, sw->next);
		break;
	case SWITCH_DECIDES:
		decide_flush(core);
		if (sw->is_new)
			COUNT(asid_new);
		else if (sw->replay.count)
			COUNT(replayed_by_switch);
		else if (sw->flush)
			COUNT(asid_flushed);
		else
			COUNT(asid_kept);
		if (sw->owed && sw->is_new)
			COUNT(paid_by_new_asid);
		else if (sw->owed)
			COUNT(paid_by_switch);
		break;
	case 10:
		if (sw->flush) {
			core->ctx[sw->asid].ctx_id = w.mm[sw->next].ctx_id;
			core->ctx[sw->asid].tlb_gen = sw->gen;
		}
		break;
	case 11:
		cpu_load_cr3(core, sw->next, sw->asid, sw->flush);
		sw->flush = sw->owed = false;
		if (!sw->replay.count)
			sw->step = 13;
		break;
	case 12:	/* before loaded_mm says that user memory may be used */
		if (replay_step(core, &sw->replay)) {
			sw->step = 12;
			break;
		}
		core->ctx[sw->asid].tlb_gen = sw->gen;
		break;
	case 13:
		core->loaded = sw->next;
		core->asid = sw->asid;
		sw->on = false;
	}
}

static void func_start(struct core *core, int from, const struct flush_info *info)
{
	core->func = (struct flush_func){ .on = true, .local = &w.core[from] == core, .from = from, .info = *info };
}

static void func_done(struct core *core)
{
	core->func.on = false;
	if (!core->func.local)
		core->ipi[core->func.from].pending = false;
}

/*
 * The interrupt of a narrowed flush, or what it does on the CPU itself. Without a
 * generation: none of flush_tlb_func()'s reasons to do nothing holds. NOBODY: the
 * CPU owes already.
 */
static void narrow_step(struct core *core)
{
	struct flush_func *func = &core->func;
	struct flush_info *info = &func->info;

	switch (func->step++) {
	case 0:
		if (core->loaded && !core->is_lazy && (info->mm == NOBODY || info->mm == core->loaded))
			break;
		if (info->mm != NOBODY) {
			owe(info->mm, (u32)(core - w.core));
			COUNT(owed_by_handler);
		}
		func_done(core);
		break;
	case 1:
		func->full = take_owed(core, core->loaded);
		if (func->full)
			COUNT(paid_by_interrupt);
		if (!func->full && info->mm == NOBODY)
			func_done(core);
		break;
	case 2:
		if (func->full || info->full)
			cpu_flush(core);
		else
			for (int page = info->first; page <= info->last; page++)
				cpu_invlpg(core, page);
		func_done(core);
	}
}

/* flush_tlb_func() */
static void func_step(struct core *core)
{
	struct flush_func *func = &core->func;
	struct flush_info *info = &func->info;

	if (info->narrow)
		return narrow_step(core);
	switch (func->step++) {
	case 0:
		func->local_gen = core->ctx[core->asid].tlb_gen;
		if ((!func->local && info->mm != NOBODY && info->mm != core->loaded) || !core->loaded) {
			func_done(core);
		} else if (core->is_lazy) {
			COUNT(lazy_interrupted);
			switch_start(core, 0);
			func->step = 5;
		} else if (info->new_tlb_gen && info->new_tlb_gen <= func->local_gen) {
			COUNT(flush_not_needed);
			func_done(core);
		}
		break;
	case 1:
		func->mm_gen = w.mm[core->loaded].tlb_gen;
		if (func->local_gen == func->mm_gen) {
			COUNT(flush_not_needed);
			func_done(core);
		}
		func->full = info->full || info->new_tlb_gen != func->local_gen + 1 || info->new_tlb_gen != func->mm_gen;
		break;
	case 2:
		if (func->full)
			collect(core, &func->replay, core->loaded, core->asid, func->mm_gen);
		break;
	case 3:
		if (func->replay.count) {
			if (replay_step(core, &func->replay))
				func->step = 3;
			else
				COUNT(replayed_by_interrupt);
			break;
		}
		if (func->full) {
			if (!info->full)
				COUNT(flush_widened);
			cpu_flush(core);
			break;
		}
		COUNT(flush_partial);
		for (int page = info->first; page <= info->last; page += info->stride)
			cpu_invlpg(core, page);
		break;
	case 4:
		core->ctx[core->asid].tlb_gen = func->mm_gen;
		/* fall through */
	case 5:
		func_done(core);
	}
}

/* @stride SLOTS: one address of each table, which is enough for the upper levels. */
void flush_start(struct core *core, int mm, int first, int last, int stride, bool full, bool freed_tables)
{
	core->flush = (struct flush_range){ .on = true, .freed_tables = freed_tables,
		.info = { .pending = true, .full = full, .mm = mm, .first = first, .last = last, .stride = stride } };
}

void flush_start_batch(struct core *core)
{
	core->flush = (struct flush_range){ .on = true, .batch = true, .step = 3, .mask = core->batch.cpumask,
		.round = core->batch.mm != NOBODY,
		.begun = core->batch.begun, .info = { .pending = true, .full = true, .mm = NOBODY } };
}

/* @mm NOBODY: each address space of a batch has noted what @mask owes. */
void flush_start_narrow(struct core *core, int mm, int first, int last, bool full, u32 mask)
{
	core->flush = (struct flush_range){ .on = true, .step = 10, .mask = mask,
		.info = { .pending = true, .full = full, .narrow = true, .mm = mm, .first = first, .last = last } };
}

static void send(struct core *core, struct core *target)
{
	struct flush_range *flush = &core->flush;

	if (core == target)
		flush->local = true;
	else
		target->ipi[core - w.core] = flush->info;
}

/* on_each_cpu_cond_mask(should_flush_tlb): one core in two steps, loaded_mm read before is_lazy. */
static void targets_step(struct core *core)
{
	struct flush_range *flush = &core->flush;
	int mm = flush->info.mm, cpu = flush->cpu;
	struct core *target = &w.core[cpu];

	if (flush->step == 3) {
		if (cpu == CORES) {
			flush->step = 5;
			return;
		}
		if (!flush->batch)
			flush->mask = w.mm[mm].cpumask;
		flush->loaded = target->loaded;
		if (!(flush->mask >> cpu & 1)) {
			flush->cpu++;
		} else if (flush->freed_tables) {
			send(core, target);
			flush->cpu++;
		} else {
			flush->step = 4;
		}
		return;
	}
	if (target->is_lazy)
		COUNT(lazy_not_interrupted);
	else if (mm == NOBODY || flush->loaded == SWITCHING || flush->loaded == mm)
		send(core, target);
	flush->cpu++;
	flush->step = 3;
}

/* Does the target run the address space? Its is_lazy is read after its loaded_mm. */
static bool runs(const struct core *target, const struct flush_range *flush)
{
	int mm = flush->info.mm;

	if (target->is_lazy)
		return false;
	return flush->loaded == SWITCHING || (mm == NOBODY ? flush->loaded != 0 : flush->loaded == mm);
}

static void narrow_done(struct flush_range *flush)
{
	flush->cpu++;
	flush->step = 10;
}

/*
 * A narrowed flush, one target in up to five steps. Who seems to run the address
 * space is interrupted, and owes only if it has left by then. Who does not, owes
 * first, and is looked at again.
 */
static void narrow_step_target(struct core *core)
{
	struct flush_range *flush = &core->flush;
	struct core *target = &w.core[flush->cpu];

	switch (flush->step++) {
	case 10:
		if (flush->cpu == CORES) {
			flush->step = 5;
		} else if (!(flush->mask >> flush->cpu & 1)) {
			narrow_done(flush);
		} else if (target == core) {
			COUNT(narrowed_local);
			send(core, target);
			narrow_done(flush);
		} else {
			flush->loaded = target->loaded;
		}
		break;
	case 11:
		if (runs(target, flush)) {
			COUNT(narrowed_interrupted);
			send(core, target);
			narrow_done(flush);
		} else if (flush->info.mm == NOBODY) {
			narrow_done(flush);
		}
		break;
	case 12:
		owe(flush->info.mm, (u32)flush->cpu);
		break;
	case 13:
		flush->loaded = target->loaded;
		break;
	case 14:
		if (runs(target, flush)) {
			COUNT(narrowed_owed_and_interrupted);
			send(core, target);
		} else {
			COUNT(narrowed_owed);
		}
		narrow_done(flush);
	}
}

/*
 * flush_tlb_mm_range(), arch_tlbbatch_flush(). Steps 0 and 1 are __abis_round_begin(),
 * steps 7 to 9 __abis_round_end(): one step for each atomic access.
 */
static void flush_step(struct core *core)
{
	struct flush_range *flush = &core->flush;
	int index = flush->batch ? core->batch.mm : flush->info.mm;
	struct mm *mm = &w.mm[index == NOBODY ? 0 : index];

	switch (flush->step) {
	case 0:
		flush->round = flush->info.full && core->see_track;
		if (flush->round)
			mm->in_flight++;
		else if (flush->info.full)
			COUNT(rounds_untracked);
		flush->step = 1;
		break;
	case 1:
		flush->begun = mm->version;
		flush->step = 2;
		break;
	case 2:
		flush->info.new_tlb_gen = ++mm->tlb_gen;
		flush->step = flush->info.full || flush->freed_tables || flush->info.stride != 1 ? 3 : 15;
		truth_raised(flush->info.mm, flush->step == 3, flush->info.first, flush->info.last);
		break;
	case 3:
	case 4:
		targets_step(core);
		break;
	case 5:
		if (flush->local)
			func_start(core, (int)(core - w.core), &flush->info);
		flush->step = 6;
		break;
	case 6:
		for (int cpu = 0; cpu < CORES; cpu++)
			if (w.core[cpu].ipi[core - w.core].pending)
				return;
		if (flush->round)
			flush->step = 7;
		else
			flush->on = false;
		break;
	case 7:
		flush->seen = mm->version;
		flush->step = 8;
		break;
	case 8:		/* compare and exchange: a version never goes back */
		if (mm->version != flush->seen) {
			COUNT(credit_raced);
			flush->step = 7;
			break;
		}
		mm->version = abis_round_done(flush->seen, flush->begun);
		if (mm->version == flush->seen)
			COUNT(rounds_overlapping);
		else if (mm->version % SPTE_VERSIONS == 0)
			COUNT(version_wrapped);
		COUNT(rounds);
		if (flush->batch)
			COUNT(rounds_batched);
		flush->step = 9;
		break;
	case 9:		/* after the credit: who sees none in flight sees its version */
		mm->in_flight--;
		flush->on = false;
		break;
	case 15:
		ring_publish(&mm->ring, flush->info.new_tlb_gen, (u64)flush->info.first << 12, (u64)(flush->info.last - flush->info.first + 1));
		COUNT(published);
		flush->step = 3;
		break;
	default:
		narrow_step_target(core);
	}
}

bool tlb_busy(const struct core *core)
{
	return core->sw.on || core->func.on || core->flush.on || core->insert.on;
}

/* One step of what interrupts or holds up @core's operation, if anything does. */
bool tlb_step(struct core *core)
{
	if (core->sw.on) {
		switch_step(core);
		return true;
	}
	if (core->func.on) {
		func_step(core);
		return true;
	}
	int from = (int)random_below(CORES);
	if (core->insert.on && core->insert.irqs_off) {
		if (core->ipi[from].pending)
			COUNT(window_interrupt_waited);
		insert_step(core);
		return true;
	}
	if (core->ipi[from].pending) {
		func_start(core, from, &core->ipi[from]);
		return true;
	}
	if (core->flush.on) {
		flush_step(core);
		return true;
	}
	if (core->insert.on) {
		insert_step(core);
		return true;
	}
	return false;
}
