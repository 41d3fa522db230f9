// SPDX-License-Identifier: GPL-2.0-only
/*
 * Insertion by the machine, mode full-hw (docs/reference/machine-insert.md of the
 * series; no processor can). It takes the page from the primary, which is set first: not
 * with the accessed bit, and the machine leaves that clear. From then on anyone may walk
 * to it, this CPU, too; who does sets the bit, and what the SPTE says does not matter any
 * more. Nobody asks the SPTE before it is set: the lock is held.
 *
 * A page that the machine leaves out is held by nobody, or by this CPU since before:
 * less than the SPTE says, so there is no need to know. A request names no page
 * between that is not ours: its SPTE may say that another CPU has it.
 *
 * To hide is to exchange what was set; if the accessed bit is set by now the page stays
 * as it is, since what is hidden must not lose the bit.
 */

#include <linux/mm.h>

#include "../ceasefire/machine.h"
#include "insert.h"

unsigned int abis_request_msr;

bool abis_machine_inserts(void)
{
	u32 features;

	return machine_find(&features) && features & MACHINE_INSERTS;
}

/* Does @slot follow the one before it? */
static bool is_next(const struct slot *slot)
{
	return slot->filled && slot->addr == slot[-1].addr + PAGE_SIZE;
}

void abis_insert_by_request(struct mm_struct *mm, struct slot *slots, unsigned int nr)
{
	bool loaded = abis_is_loaded(mm);
	unsigned int i, first;

	for (i = 0; i < nr; i++) {
		struct slot *slot = &slots[i];
		pte_t pte = slot->pte;

		abis_check_unmapped(slot);
		slot->filled = loaded;
		if (slot->filled)
			pte = abis_mkunused(pte);
		else
			abis_refuse(ABIS_REFUSED_FAULT, 1);
		if (!abis_set_slot(mm, slot, slot->filled ? pte : pte_mkyoung(pte)))
			slot->filled = false;
	}
	for (first = 0; first < nr; first = i) {
		for (i = first + 1; slots[first].filled && i < nr && is_next(&slots[i]); i++)
			;
		if (abis_mutant(ABIS_MUTANT_REQUEST_SPANS) &&
		    slots[nr - 1].addr > slots[first].addr)
			i = nr;
		if (slots[first].filled)
			abis_request(abis_request_msr, slots[first].addr,
				((slots[i - 1].addr - slots[first].addr) >> PAGE_SHIFT) + 1);
	}
	for (i = 0; i < nr; i++) {
		struct slot *slot = &slots[i];
		pteval_t set = pte_val(abis_mkunused(slot->pte));
		pteval_t hidden = pte_val(pte_hide(abis_mkunused(slot->pte)));

		if (!slot->filled)
			continue;
		abis_set_private(mm, slot);
		if (!slot->hide)
			continue;
		if (abis_mutant_lingering(ABIS_MUTANT_REQUEST_HIDES))
			WRITE_ONCE(slot->ptep->pte, hidden);
		else if (!try_cmpxchg(&slot->ptep->pte, &set, hidden))
			continue;
		this_cpu_inc(abis_stat.hidden);
	}
}
