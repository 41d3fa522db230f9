// SPDX-License-Identifier: GPL-2.0-only
/*
 * Direct TLB insertion (ABIS, section 4.1): the core that faults fills its own TLB
 * through a secondary hierarchy of its own, so that hwA of the primary PTE stays
 * clear. All of it under the page-table lock, with the address space loaded.
 *
 * Who may hold an entry from the slot already? The slot is empty, so its SPTE
 * answers: nobody, or this core alone. Or nobody at all because no flush is under
 * way: whatever was taken from the slot since has been flushed, whatever its SPTE
 * still says. A flush is under way where a gather is, or a batch. Others flush
 * before they release the lock.
 *
 * The caches of upper levels belong to the PCID, not to the tables in CR3. So:
 * none of the primary may be left when the page is read, none of the secondary
 * when the primary is back. INVLPG drops all of them and spares the TLB. The
 * secondary PTE is clear before CR3 goes back: what is evicted from the TLB must
 * never come back but by the primary PTE, and its hwA.
 *
 * Hidden: a page that is read-only may be left with P = 0 in the primary PTE, while Linux
 * goes on taking it for present. No walk finds anything to set hwA in, so the SPTE still tells
 * who holds the entry. To hardware the slot is empty, so it may be inserted again, by whoever
 * may alone hold it. But what it maps has not been taken from it: that no flush is under way
 * says nothing about who holds that. And who reads with faults disabled has it revealed at
 * any moment, whoever has the lock: what is inserted again is exchanged for what it was when it
 * was chosen. If it is not that any more it stays as it is, and hwA is set: others may hold
 * it, and nobody knows of what this core has filled.
 */
#include "model.h"

/* @again: those of @slots that were taken out in this hold, to be mapped again as core->op.as. */
void insert_start(struct core *core, int table, int region, u32 slots, u32 again)
{
	core->insert = (struct insert){ .on = true, .table = table, .region = region, .slots = slots, .again = again };
	for (int slot = 0; slot < SLOTS; slot++)
		core->insert.old[slot] = w.table[table].pte[slot];
}

static bool is_wanted(const struct insert *insert, int slot)
{
	return insert->slots >> slot & 1;
}

static struct mm *mm_of(const struct core *core)
{
	return &w.mm[w.table[core->insert.table].mm];
}

/* May @core alone hold what was filled from @slot until now? */
static bool is_free(const struct core *core, int slot)
{
	const struct insert *insert = &core->insert;
	const struct pte *pte = &insert->old[slot];
	struct abis_verdict verdict = abis_decide(*spte_of(&w.table[insert->table], slot), false, insert->version);

	if (verdict.targets == ABIS_NONE) {
		COUNT(insert_over_none);
	} else if (verdict.targets == ABIS_CPU && &w.core[verdict.cpu] == core) {
		COUNT(insert_over_own);
	} else if (insert->quiet && !pte->hidden) {
		COUNT(insert_over_flushed);
	} else {
		if (pte->hidden)
			COUNT(hidden_refused);
		COUNT(insert_refused);
		return false;
	}
	return true;
}

static void choose_slots(struct core *core)
{
	struct insert *insert = &core->insert;

	for (int slot = 0; slot < SLOTS; slot++)
		if (is_wanted(insert, slot) && !is_free(core, slot))
			insert->slots &= ~(1u << slot);
	insert->on = insert->slots != 0;
}

static struct pte page_to_map(const struct insert *insert, int slot, const struct pte *as)
{
	struct pte new = { .present = true, .write = random_below(2), .page = ++w.pages };

	if (insert->old[slot].hidden)
		return insert->old[slot];
	if (insert->again >> slot & 1) {
		new.page = as[slot].page;
		new.write = as[slot].write;
	}
	new.hidden = !new.write && random_below(4);
	return new;
}

static void wire(struct core *core)
{
	struct insert *insert = &core->insert;

	insert->began = w.now;
	core->secondary.mm = w.table[insert->table].mm;
	core->secondary.region = insert->region;
	for (int slot = 0; slot < SLOTS; slot++) {
		if (!is_wanted(insert, slot))
			continue;
		insert->pte[slot] = page_to_map(insert, slot, core->op.as);
		core->secondary.pte[slot] = insert->pte[slot];
		core->secondary.pte[slot].hidden = false;
	}
}

static void read_pages(struct core *core)
{
	const struct insert *insert = &core->insert;
	const struct table *table = &w.table[insert->table];

	for (int slot = 0; slot < SLOTS; slot++) {
		if (!is_wanted(insert, slot))
			continue;
		/* What was revealed meanwhile a guess may have filled from the primary. */
		if (insert->old[slot].hidden && !table->pte[slot].hidden)
			cpu_read(core, insert->region * SLOTS + slot);
		else
			truth_read(core, cpu_read(core, insert->region * SLOTS + slot));
	}
}

static void clear_secondary(struct core *core)
{
	for (int slot = 0; slot < SLOTS; slot++)
		core->secondary.pte[slot] = (struct pte){ 0 };
}

/* Return: it was not revealed since it was chosen. */
static bool set_one(struct pte *pte, struct pte old, struct pte new)
{
	if (old.hidden && !pte->hidden) {
		COUNT(hidden_lost);
		pte->accessed = true;
		return false;
	}
	if (old.hidden)
		COUNT(hidden_again);
	else if (new.hidden)
		COUNT(hidden);
	*pte = new;
	return true;
}

static void set_primary(struct core *core)
{
	struct insert *insert = &core->insert;

	for (int slot = 0; slot < SLOTS; slot++)
		if (is_wanted(insert, slot) && !set_one(&w.table[insert->table].pte[slot], insert->old[slot], insert->pte[slot]))
			insert->slots &= ~(1u << slot);
}

static void record(struct core *core)
{
	const struct insert *insert = &core->insert;
	struct table *table = &w.table[insert->table];
	u32 cpu = (u32)(core - w.core);

	for (int slot = 0; slot < SLOTS; slot++) {
		if (!is_wanted(insert, slot))
			continue;
		*spte_of(table, slot) = spte_private(cpu, abis_stamp_version(insert->version, insert->in_flight));
		truth_inserted(table, slot, cpu, insert->version, insert->in_flight);
	}
	COUNT(inserted);
	if (insert->slots & (insert->slots - 1))
		COUNT(inserted_together);
}

void insert_step(struct core *core)
{
	struct insert *insert = &core->insert;
	struct mm *mm = mm_of(core);

	switch (insert->step++) {
	case 0:
		insert->quiet = !mm->flush_pending;
		break;
	case 1:
		insert->quiet &= mm->batched == mm->batched_flushed;
		break;
	case 2:
		insert->version = mm->version;
		break;
	case 3:
		choose_slots(core);
		break;
	case 4:		/* interrupts off, and NMIs keep away from user memory */
		insert->irqs_off = true;
		core->loaded = SWITCHING;
		break;
	case 5:
		wire(core);
		break;
	case 6:
		cpu_load_secondary(core, true);
		break;
	case 7:
		cpu_invlpg(core, NOBODY);
		break;
	case 8:
		read_pages(core);
		break;
	case 9:
		clear_secondary(core);
		break;
	case 10:
		cpu_load_secondary(core, false);
		break;
	case 11:
		cpu_invlpg(core, NOBODY);
		break;
	case 12:
		core->loaded = (int)(mm - w.mm);
		insert->irqs_off = false;
		break;
	case 13:
		set_primary(core);
		break;
	case 14:
		truth_in_flight((int)(mm - w.mm));
		insert->in_flight = mm->in_flight;
		break;
	case 15:
		insert->version = mm->version;
		break;
	case 16:
		record(core);
		insert->on = false;
	}
}
