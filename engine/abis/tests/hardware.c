// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a core may do between any two steps of its own program: walk the tables
 * for any address of the loaded context, keep or drop what it found, use it.
 */
#include "model.h"

/* A walk in flight belongs to the PCID that it began under, whatever CR3 holds by now. */
static void drop_walk(struct core *core)
{
	if (!core->walk.valid || core->walk_asid != core->cr3_asid)
		return;
	COUNT(walks_dropped);
	core->walk.valid = false;
}

static void drop_upper(struct core *core, int asid)
{
	for (int region = 0; region < REGIONS; region++)
		core->upper[asid][region].valid = false;
}

void cpu_flush(struct core *core)
{
	drop_walk(core);
	drop_upper(core, core->cr3_asid);
	for (int page = 0; page < PAGES; page++)
		core->tlb[core->cr3_asid][page].valid = false;
}

/* Drops all paging-structure caches of the PCID, whatever the address. NOBODY: an address that nobody uses. */
void cpu_invlpg(struct core *core, int page)
{
	drop_walk(core);
	drop_upper(core, core->cr3_asid);
	if (page != NOBODY)
		core->tlb[core->cr3_asid][page].valid = false;
}

void cpu_load_cr3(struct core *core, int mm, int asid, bool flush)
{
	if (core->walk.valid && !flush)
		COUNT(walks_outlive_cr3);
	core->cr3_mm = mm;
	core->cr3_asid = asid;
	if (flush)
		cpu_flush(core);
}

/* The other hierarchy, under the same PCID: nothing is flushed. */
void cpu_load_secondary(struct core *core, bool secondary)
{
	core->cr3_secondary = secondary;
}

/* What the walker sees of an entry that Linux has hidden: P = 0. */
static bool walkable(const struct pte *pte)
{
	if (pte->present && pte->hidden)
		COUNT(hidden_walked);
	return pte->present && !pte->hidden;
}

static void finish_walk(struct core *core)
{
	if (core->walk.valid && core->walk.wrong)
		fail("wrong", "core %d holds a translation of page %d that was never its own", (int)(core - w.core), core->walk_page);
	if (core->walk.valid)
		core->tlb[core->walk_asid][core->walk_page] = core->walk;
	core->walk.valid = false;
}

/*
 * Speculative or not. The accessed bit is set atomically, with the PTE that is read. A write
 * to what is read-only ends in a fault, and sets it as well: some processors do.
 */
static void start_walk(struct core *core, int page, bool write)
{
	int asid = core->cr3_asid, region = page / SLOTS;
	struct upper *upper = &core->upper[asid][region];
	struct mm *mm = &w.mm[core->cr3_mm];
	bool other = core->secondary.region != region || core->secondary.mm != core->cr3_mm;
	struct pte *pte;

	if (upper->valid && !upper->secondary && upper->filled < mm->tables_dead_before[region]) {
		/*
		 * switch_mm_irqs_off() leaves mm_cpumask before it leaves CR3: for some
		 * instructions Linux itself lets such a walk happen. Its result goes with the next flush.
		 */
		if (must_flush(core, asid, core->cr3_mm, NOBODY))
			return;
		fail("tables", "core %d walks a table that was freed or moved away", (int)(core - w.core));
	}
	if (!upper->valid) {
		if (core->cr3_secondary ? other : mm->table[region] == NOBODY)
			return;
		*upper = (struct upper){ .valid = true, .secondary = core->cr3_secondary, .table = mm->table[region], .filled = w.now };
	}
	pte = upper->secondary ? &core->secondary.pte[page % SLOTS] : &w.table[upper->table].pte[page % SLOTS];
	if (!walkable(pte))
		return;
	if (write && !pte->write) {
		if (!pte->accessed)
			COUNT(marked_by_fault);
		pte->accessed = true;
		return;
	}
	COUNT(walks);
	if (upper->secondary)
		COUNT(walks_secondary);
	else if (core->cr3_secondary)
		COUNT(window_walked_primary);
	pte->accessed = true;
	core->walk_page = page;
	core->walk_asid = asid;
	core->walk = (struct entry){ .valid = true, .write = pte->write, .page = pte->page,
				     .filled = w.now, .ctx_id = mm->ctx_id,
				     .secondary = upper->secondary, .wrong = upper->secondary && other };
	if (random_below(4))
		finish_walk(core);
}

/*
 * Linux's part of a read that may not fault, from an NMI, say: what is hidden is revealed, by
 * one exchange and without the lock, and the read tried again (abis_reveal_nofault()).
 */
static void reveal_nofault(const struct mm *mm, int page)
{
	int table = mm->table[page / SLOTS];
	struct pte *pte;

	if (table == NOBODY)
		return;
	pte = &w.table[table].pte[page % SLOTS];
	if (!pte->present || !pte->hidden)
		return;
	pte->hidden = false;
	COUNT(revealed_unlocked);
	if (w.table[table].lock != NOBODY)
		COUNT(revealed_beside_lock);
}

/* An access by the program, by the kernel for it, or by an NMI: nmi_uaccess_okay(), and not lazy. */
void cpu_use(struct core *core, int page, bool write)
{
	struct mm *mm = &w.mm[core->cr3_mm];
	struct entry *entry = &core->tlb[core->cr3_asid][page];

	if (core->loaded <= 0 || core->loaded != core->current_mm || core->is_lazy)
		return;
	if (core->loaded != core->cr3_mm || core->cr3_secondary)
		fail("window", "core %d uses user memory while loaded_mm and CR3 differ", (int)(core - w.core));
	if (!entry->valid) {
		if (!write && !random_below(2)) {
			reveal_nofault(mm, page);
			/* It tries again later. */
			if (random_below(2))
				return;
		}
		start_walk(core, page, write);
		finish_walk(core);
		return;
	}
	if (entry->ctx_id != mm->ctx_id)
		fail("stale", "core %d uses another process's translation", (int)(core - w.core));
	if (entry->filled < mm->dead_before[page])
		fail("stale", "core %d uses page %d of mm %d as it was before an operation that has finished",
		     (int)(core - w.core), page, core->cr3_mm);
	if (write && !entry->write) {	/* walks once more, whatever the TLB holds; a fault drops the entry, or nearly so */
		start_walk(core, page, true);
		finish_walk(core);
		if (random_below(2)) {
			entry->valid = false;
			COUNT(dropped_by_fault);
		}
		return;
	}
	if (write)
		COUNT(wrote);
	COUNT(used);
	if (core->op.kind || tlb_busy(core))
		COUNT(used_inside_operation);
	int table = mm->table[page / SLOTS];
	if (table == NOBODY || !w.table[table].pte[page % SLOTS].present || w.table[table].pte[page % SLOTS].page != entry->page)
		COUNT(used_stale_in_time);
}

/* The kernel reads a user page of the loaded context, by whatever tables CR3 or a cache leads to. */
const struct entry *cpu_read(struct core *core, int page)
{
	const struct entry *entry = &core->tlb[core->cr3_asid][page];

	if (!entry->valid) {
		start_walk(core, page, false);
		finish_walk(core);
	}
	return entry;
}

void cpu_step(struct core *core)
{
	int page = some_page();
	bool hot = page == w.focus || w.mm[core->cr3_mm].hot >> page & 1;
	bool own = is_own(core, page) || !random_below(64);

	if (!core->cr3_mm)
		return;
	if (core->insert.irqs_off && random_below(2))	/* speculation is where it hurts */
		return start_walk(core, (int)random_below(PAGES), false);
	switch (random_below(8)) {
	case 0:
		if (w.apart && random_below(8))
			break;
		if (core->tlb[core->cr3_asid][page].valid)
			COUNT(evicted);
		core->tlb[core->cr3_asid][page].valid = false;
		break;
	case 1:
		if (random_below(4))
			break;
		core->upper[core->cr3_asid][page / SLOTS].valid = false;
		break;
	case 2:
		finish_walk(core);
		break;
	case 3:
		if (own && (hot || !random_below(256)) && !core->walk.valid)
			start_walk(core, page, false);
		break;
	default:
		if ((own && hot) || core->tlb[core->cr3_asid][page].valid || !random_below(256))
			cpu_use(core, page, !random_below(8));
	}
}
