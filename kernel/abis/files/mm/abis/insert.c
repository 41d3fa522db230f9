// SPDX-License-Identifier: GPL-2.0-only
/*
 * Direct TLB insertion: whoever maps a page becomes its only holder, and its
 * accessed bit stays clear until anybody else (or this CPU once it has lost the
 * entry) uses it.
 *
 * Each CPU has a *secondary* hierarchy: the kernel's half, and one chain of tables
 * to one page table whose slots are empty but for the moment of an insertion. The
 * CPU fills its TLB from there, under the PCID of the address space, so that the
 * entry serves the address space. In this order, interrupts off, PTE lock held:
 *
 *  1. The primary slots are none, and nobody else can hold what was filled from
 *     them (see abis_may_insert()). They are set in the secondary, accessed bit set.
 *  2. loaded_mm = LOADED_MM_SWITCHING: NMIs leave user memory alone, and a flush
 *     that looks now sends its interrupt, which waits.
 *  3. CR3 = the secondary, same PCID, no flush: the address space keeps its TLB.
 *  4. INVLPG: drops the paging-structure cache of this PCID, whatever its address (but with
 *     EFER.TCE, which probe.c refuses).
 *     Those entries lead into the primary's tables, where the slots are none, and
 *     they are tagged by PCID, not by CR3.
 *  5. The pages are read. Each walk begins in the secondary.
 *  6. The secondary slots are cleared.
 *  7. CR3 = the primary, same PCID, no flush.
 *  8. INVLPG, again: now there are entries that lead into the secondary's tables.
 *     A walk from such an entry between 6 and 8 finds none, for this and any other
 *     address of the address space, and what is not present is not cached. Before
 *     6 it could find the very slots that are set there. So nothing is ever filled
 *     from the secondary but what step 1 set.
 *  9. loaded_mm is back. The primary slots are set, accessed bit clear, software
 *     accessed bit set, and each SPTE: this CPU alone, and the version read now,
 *     after the fill.
 *
 * So whoever holds an entry for such a slot is this CPU, or filled it from the
 * primary slot after 9 and has set the accessed bit. That is what the SPTE says.
 *
 * Kernel mappings are the same in both hierarchies, those of NMIs, of stacks and
 * of the per-CPU areas, too: the secondary's root is that of an mm_struct, which
 * memory hotplug keeps in step. Its user half is empty but for the chain.
 *
 * An entry that this CPU held for such a slot already stays, as any processor
 * keeps what it finds. Then it is one that only this CPU may hold, and that it is
 * to flush for somebody else's batch: until then it is used as without ABIS, after
 * that the CPU walks and sets the accessed bit.
 */

#define pr_fmt(fmt) "abis: " fmt

#include <linux/abis_fault.h>
#include <linux/kprobes.h>
#include <linux/memremap.h>
#include <linux/mm_inline.h>
#include <linux/secretmem.h>
#include <linux/uaccess.h>

#include <asm/debugreg.h>
#include <asm/mmu_context.h>
#include <asm/special_insns.h>

#include "insert.h"

DEFINE_PER_CPU(struct secondary *, abis_secondaries);

DEFINE_STATIC_KEY_FALSE(abis_inserting_key);
EXPORT_SYMBOL_GPL(abis_inserting_key);

static unsigned long table_entry(const void *table)
{
	return _PAGE_TABLE | __pa(table);
}

/* With four levels there is none, and its table stays empty. */
static unsigned int p4d_slot(unsigned long addr)
{
#if CONFIG_PGTABLE_LEVELS > 4
	return p4d_index(addr);
#else
	return 0;
#endif
}

/* The chain to the page table of @addr: no other entry in any of its tables. */
void abis_wire(struct secondary *secondary, unsigned long addr)
{
	unsigned long **tables = secondary->tables;
	unsigned long old = secondary->addr;
	unsigned long *top = tables[PUDS];
	pgd_t *root = secondary->mm->pgd;

	if (secondary->is_wired && (old & PMD_MASK) == (addr & PMD_MASK))
		return;
	if (secondary->is_wired) {
		WRITE_ONCE(tables[PMDS][pmd_index(old)], 0);
		WRITE_ONCE(tables[PUDS][pud_index(old)], 0);
		WRITE_ONCE(tables[P4DS][p4d_slot(old)], 0);
		WRITE_ONCE(root[pgd_index(old)].pgd, 0);
	}
	WRITE_ONCE(tables[PMDS][pmd_index(addr)], table_entry(tables[PTES]));
	WRITE_ONCE(tables[PUDS][pud_index(addr)], table_entry(tables[PMDS]));
	if (pgtable_l5_enabled()) {
		WRITE_ONCE(tables[P4DS][p4d_slot(addr)], table_entry(tables[PUDS]));
		top = tables[P4DS];
	}
	WRITE_ONCE(root[pgd_index(addr)].pgd, table_entry(top));
	secondary->addr = addr;
	secondary->is_wired = true;
}

/*
 * Steps 2 to 8; @mm is loaded here, interrupts are off, all slots are of one page
 * table. Nothing may be traced or probed while CR3 is not what the rest of the
 * kernel thinks it is.
 */
notrace noinline void abis_fill_tlb(struct mm_struct *mm, struct secondary *secondary,
				    struct slot *slots, unsigned int nr)
{
	unsigned long primary = __get_current_cr3_fast();
	unsigned long change = __sme_pa(mm->pgd) ^ __sme_pa(secondary->mm->pgd);
	unsigned int i;

	this_cpu_write(cpu_tlbstate.loaded_mm, LOADED_MM_SWITCHING);
	barrier();

	native_write_cr3((primary ^ change) | CR3_NOFLUSH);
	if (!abis_mutant(ABIS_MUTANT_INSERT_NO_BEFORE))
		flush_page(NOWHERE);

	for (i = 0; i < nr; i++)
		slots[i].filled = touch(slots[i].addr);
	abis_mutant_lingering(ABIS_MUTANT_INSERT_INTERRUPTED);

	if (!abis_mutant(ABIS_MUTANT_INSERT_LEFT)) {
		for (i = 0; i < nr; i++)
			abis_wire_slot(secondary, &slots[i], false);
	}
	native_write_cr3(primary | CR3_NOFLUSH);
	if (!abis_mutant(ABIS_MUTANT_INSERT_NO_AFTER) &&
	    !abis_mutant(ABIS_MUTANT_INSERT_LEFT))
		flush_page(NOWHERE);

	barrier();
	this_cpu_write(cpu_tlbstate.loaded_mm, mm);
}
NOKPROBE_SYMBOL(abis_fill_tlb);

/* After the fill: whoever holds it filled it before this version is read. */
void abis_set_private(struct mm_struct *mm, struct slot *slot)
{
	*slot->spte = spte_private(smp_processor_id(), abis_version_to_stamp(mm));
	this_cpu_inc(abis_stat.inserted);
	abis_debug_record(slot->ptep);
}

/*
 * A slot that is none is nobody else's under the lock. What is hidden may meanwhile have
 * been revealed without it (abis_reveal_nofault()), and others may have walked to it: then
 * it stays as it is, and counts as used by anyone. Nobody knows what this CPU has filled.
 * Return: @pte was set.
 */
bool abis_set_slot(struct mm_struct *mm, const struct slot *slot, pte_t pte)
{
	pteval_t old = pte_val(slot->old);

	if (!pte_hidden(slot->old)) {
		set_ptes(mm, slot->addr, slot->ptep, pte, 1);
		return true;
	}
	if (abis_mutant_lingering(ABIS_MUTANT_HIDDEN_STORED)) {
		WRITE_ONCE(slot->ptep->pte, pte_val(pte));
		return true;
	}
	if (try_cmpxchg(&slot->ptep->pte, &old, pte_val(pte)))
		return true;
	set_bit(_PAGE_BIT_ACCESSED, (unsigned long *)&slot->ptep->pte);
	return false;
}

static void set_filled(struct mm_struct *mm, struct slot *slot)
{
	pte_t pte = slot->pte;

	slot->spte = slot->filled ? abis_spte_write(slot->ptep) : NULL;
	if (!slot->spte) {
		abis_refuse(slot->filled ? ABIS_REFUSED_MEMORY : ABIS_REFUSED_FAULT, 1);
		/* The read may have filled the TLB before it failed. */
		if (!abis_mutant(ABIS_MUTANT_INSERT_PRIMARY_FIRST))
			abis_set_slot(mm, slot, pte_mkyoung(pte));
		return;
	}
	if (!abis_mutant(ABIS_MUTANT_INSERT_PRIMARY_FIRST)) {
		if (!abis_mutant(ABIS_MUTANT_BORN_ACCESSED))
			pte = abis_mkunused(pte);
		if (slot->hide && !abis_mutant(ABIS_MUTANT_BORN_ACCESSED))
			pte = pte_hide(pte);
		slot->filled = abis_set_slot(mm, slot, pte);
		if (!slot->filled)
			return;
		if (pte_hidden(pte))
			this_cpu_inc(abis_stat.hidden);
	}
	abis_set_private(mm, slot);
}

/* Nobody may have the page already, but by a hidden entry. */
void abis_check_unmapped(const struct slot *slot)
{
	if (!IS_ENABLED(CONFIG_ABIS_DEBUG) || pte_hidden(slot->old))
		return;
	if (pte_present(ptep_get(slot->ptep)))
		abis_debug_violation("mapped before it is inserted", slot->addr, slot->pte);
}

static void insert_by_secondary(struct mm_struct *mm, struct secondary *secondary,
				struct slot *slots, unsigned int nr)
{
	unsigned long flags;
	unsigned int i;

	if (IS_ENABLED(CONFIG_ABIS_DEBUG) &&
	    abis_mutant(ABIS_MUTANT_INSERT_PRIMARY_FIRST)) {
		for (i = 0; i < nr; i++)
			set_ptes(mm, slots[i].addr, slots[i].ptep,
				 pte_mkold(slots[i].pte), 1);
	}
	/* The read fails rather than being handled: nothing may sleep, or take locks. */
	pagefault_disable();
	local_irq_save(flags);
	if (abis_mutant(ABIS_MUTANT_INSERT_INTERRUPTED))
		local_irq_enable();
	for (i = 0; i < nr; i++)
		slots[i].filled = false;
	if (abis_is_loaded(mm)) {
		for (i = 0; i < nr; i++)
			abis_check_unmapped(&slots[i]);
		abis_wire(secondary, slots[0].addr);
		for (i = 0; i < nr; i++)
			abis_wire_slot(secondary, &slots[i], true);
		abis_fill_tlb(mm, secondary, slots, nr);
		this_cpu_inc(abis_stat.insert_switches);
		abis_debug_secondary(mm, slots[0].addr,
				     (unsigned long *)secondary->tables, TABLES);
	}
	local_irq_restore(flags);
	pagefault_enable();

	for (i = 0; i < nr; i++)
		set_filled(mm, &slots[i]);
}

/* The whole of it for @nr slots of one page table, at least one. PTE lock held. */
void abis_insert(struct mm_struct *mm, struct secondary *secondary, struct slot *slots,
		 unsigned int nr)
{
	unsigned int i;

	if (abis_request_msr)
		abis_insert_by_request(mm, slots, nr);
	else
		insert_by_secondary(mm, secondary, slots, nr);
	abis_adapt_inserted(mm, nr, abis_request_msr);
	for (i = 0; i < nr; i++) {
		if (slots[i].filled)
			abis_debug_inserted(mm, slots[i].addr, slots[i].ptep);
	}
}

/*
 * Can nobody but this CPU hold what was filled from this slot, which is none, or @old? A
 * slot that is not present counts as one with a clear accessed bit, so what the
 * SPTE promises holds now: nobody (UNCACHED, or enough rounds), or this CPU. The
 * slots of a page table that is new are UNCACHED.
 *
 * Where it does not promise that much, the slot is free still if nothing waits for
 * a flush: whoever took a PTE from it has flushed before it released the lock, but
 * for gathers and batches, and those have told before they released it. (Collapse
 * flushes later, too; the file's pages are locked until then, so nobody maps one.)
 */
bool abis_may_insert(struct mm_struct *mm, pte_t *ptep, pte_t old)
{
	spte_t spte = abis_spte_read(ptep);
	u64 version = atomic64_read(&mm->context.abis.version);
	struct abis_verdict verdict = abis_decide(spte, false, version);

	if (abis_mutant(ABIS_MUTANT_INSERT_OVER_SHARED) ||
	    (abis_mutant(ABIS_MUTANT_INSERT_OVER_NEVER) && spte == SPTE_NEVER))
		return true;
	if (verdict.targets == ABIS_NONE ||
	    (verdict.targets == ABIS_CPU && verdict.cpu == smp_processor_id()))
		return true;
	/* What is hidden is still there: whoever holds it, nothing waits for a flush. */
	if (pte_hidden(old))
		return abis_mutant(ABIS_MUTANT_HIDDEN_OVER);
	return !mm_tlb_flush_pending(mm) && (!abis_batch_pending(mm) ||
					     abis_mutant(ABIS_MUTANT_INSERT_IN_BATCH));
}

/* Plain RAM with plain attributes, for user mode whatever its keys. */
bool abis_is_plain(struct vm_area_struct *vma, pte_t pte)
{
	const pteval_t wanted = _PAGE_PRESENT | _PAGE_USER;
	const pteval_t unwanted = _PAGE_PWT | _PAGE_PCD | _PAGE_PAT | _PAGE_GLOBAL |
				  _PAGE_DEVMAP | _PAGE_PKEY_MASK;
	unsigned long pfn = pte_pfn(pte);

	if ((pte_flags(pte) & (wanted | unwanted)) != wanted)
		return false;
	if (vma->vm_flags & (VM_IO | VM_PFNMAP | VM_MIXEDMAP))
		return false;
	if (is_zero_pfn(pfn))
		return true;
	return !pte_special(pte) && pfn_valid(pfn) && !vma_is_secretmem(vma) &&
	       !PageHWPoison(pfn_to_page(pfn)) && !is_zone_device_page(pfn_to_page(pfn));
}

/* Return: why not, or ABIS_REFUSALS. Preemption off. */
enum abis_refusal abis_insert_refusal(struct vm_area_struct *vma, pte_t pte, unsigned int nr)
{
	if (!abis_mm_is_eligible(vma->vm_mm) || !abis_is_loaded(vma->vm_mm))
		return ABIS_REFUSED_MM;
	if (nr > SLOTS_MAX)
		return ABIS_REFUSED_MANY;
	/* A watchpoint is for the program's own accesses: see use_temporary_mm(). */
	if (smp_processor_id() >= abis_cpus || hw_breakpoint_active() ||
	    !this_cpu_read(abis_secondaries)->is_proved[!!abis_request_msr])
		return ABIS_REFUSED_CPU;
	if (!abis_is_plain(vma, pte))
		return ABIS_REFUSED_PAGE;
	return ABIS_REFUSALS;
}

static void insert_kept(struct mm_struct *mm, struct secondary *secondary)
{
	if (secondary->nr)
		abis_insert(mm, secondary, secondary->slots, secondary->nr);
	secondary->nr = 0;
}

void __abis_set_ptes(struct vm_fault *vmf, pte_t pte, unsigned int nr)
{
	/* A fault-around sets PTEs beside the one of vmf->address, in the same page table. */
	unsigned long addr = (vmf->address & PMD_MASK) |
			     offset_in_page(vmf->pte) / sizeof(pte_t) << PAGE_SHIFT;
	struct vm_area_struct *vma = vmf->vma;
	pte_t *ptep = vmf->pte;
	struct secondary *secondary = this_cpu_read(abis_secondaries);
	struct mm_struct *mm = vma->vm_mm;
	enum abis_refusal why;
	unsigned int i;

	this_cpu_add(abis_stat.insert_requests, nr);
	why = abis_insert_refusal(vma, pte, nr);
	if (why != ABIS_REFUSALS) {
		abis_refuse(why, nr);
		set_ptes(mm, addr, ptep, pte, nr);
		return;
	}
	for (i = 0; i < nr; i++, ptep++, addr += PAGE_SIZE, pte = pte_next_pfn(pte)) {
		if (!abis_may_insert(mm, ptep, __pte(0))) {
			abis_refuse(ABIS_REFUSED_HELD, 1);
			set_ptes(mm, addr, ptep, pte, 1);
			continue;
		}
		if (secondary->nr == SLOTS_MAX)
			insert_kept(mm, secondary);
		secondary->slots[secondary->nr++] = (struct slot) {
			.addr = addr,
			.ptep = ptep,
			.pte = pte,
			.hide = abis_hides_fault(vmf, pte),
		};
	}
	if (!this_cpu_read(abis_keeping))
		insert_kept(mm, secondary);
}

/*
 * The PTE that was here is gone, and flushed, within this hold of the lock: nobody
 * holds it. Anything but a complete flush since would be a wrong reason to be here.
 */
void __abis_set_flushed_pte(struct vm_fault *vmf, pte_t pte)
{
	spte_t *spte = NULL;

	if (abis_mm_is_eligible(vmf->vma->vm_mm))
		spte = abis_spte_write(vmf->pte);
	if (spte)
		*spte = SPTE_UNCACHED;
	__abis_set_ptes(vmf, pte, 1);
}

/*
 * wp_page_reuse(). The PTE is taken away by an exchange, since hardware may set its
 * accessed bit at any time; then this CPU flushes what it may hold, which has the old
 * rights. Whoever else holds the old rights is left alone, as without ABIS.
 */
bool __abis_reuse_pte(struct vm_fault *vmf, pte_t pte)
{
	struct vm_area_struct *vma = vmf->vma;
	struct mm_struct *mm = vma->vm_mm;
	unsigned long addr = vmf->address;
	pte_t old = vmf->orig_pte, *ptep = vmf->pte;
	struct abis_verdict verdict;
	bool blocked = false, elided;
	struct abis_hold hold;

	if ((pte_flags(old) & _PAGE_ACCESSED) || !pte_write(pte) ||
	    abis_insert_refusal(vma, pte, 1) != ABIS_REFUSALS)
		return false;
	verdict = abis_decide(abis_spte_read(ptep), false,
			      atomic64_read(&mm->context.abis.version));
	if (verdict.targets != ABIS_NONE &&
	    (verdict.targets != ABIS_CPU || verdict.cpu != smp_processor_id()))
		return false;

	old = ptep_get_and_clear(mm, addr, ptep);
	abis_hold_init(&hold, false);
	elided = __abis_elide(mm, addr, ptep, old, 1, ABIS_CLEAR_FLUSH, &blocked, &hold);
	abis_count_request_hold(ABIS_CLEAR_FLUSH, elided, hold.pages);
	if (!elided) {
		set_ptes(mm, addr, ptep, pte, 1);
		return true;
	}
	abis_hold_flush(mm, &hold);
	this_cpu_inc(abis_stat.reused);
	__abis_set_flushed_pte(vmf, pte);
	return true;
}

/*
 * A fault-around maps one page after the other. Between here and abis_insert_end(),
 * under one hold of the lock of one page table, they are kept back, to be inserted
 * at once. They count as mapped already, but whoever looks them up by the lock
 * waits for it, and whoever looks without takes them for not mapped yet.
 */
DEFINE_PER_CPU(bool, abis_keeping);

void __abis_insert_end(struct vm_area_struct *vma)
{
	this_cpu_write(abis_keeping, false);
	insert_kept(vma->vm_mm, this_cpu_read(abis_secondaries));
}

/* From now on. Nothing is inserted. */
void abis_insert_choose(bool by_request)
{
#ifdef CONFIG_ABIS_INSERT_MACHINE
	abis_request_msr = by_request ? MACHINE_INSERT_MSR : 0;
#endif
}

void abis_inserting_begin(void)
{
	static_branch_enable(&abis_inserting_key);
}

void abis_inserting_end(void)
{
	static_branch_disable(&abis_inserting_key);
}
