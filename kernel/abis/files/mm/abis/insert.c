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

/* The root by which this CPU inserts, as in CR3, or 0. Preemption off. */
u64 abis_secondary_root(void)
{
	const struct secondary *secondary = this_cpu_read(abis_secondaries);

	return secondary && secondary->mm ? secondary->root : 0;
}

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

/* See abis_wire(). */
void __abis_wire(struct secondary *secondary, unsigned long addr)
{
	unsigned long **tables = secondary->tables;
	unsigned long old = secondary->addr;
	unsigned long *top = tables[PUDS];
	pgd_t *root = secondary->mm->pgd;

	if (old != NOWHERE) {
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
}

/*
 * Steps 2 to 8; @mm is loaded here, interrupts are off, all slots are of one page
 * table. Nothing may be traced or probed while CR3 is not what the rest of the
 * kernel thinks it is, so this is only a part of functions that are not.
 */
static __always_inline void fill_tlb(struct mm_struct *mm, struct secondary *secondary,
				     struct slot *slots, unsigned int nr)
{
	unsigned long primary = __get_current_cr3_fast();
	unsigned int i;

	this_cpu_write(cpu_tlbstate.loaded_mm, LOADED_MM_SWITCHING);
	barrier();

	native_write_cr3((primary & ~CR3_ADDR_MASK) | secondary->root | CR3_NOFLUSH);
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

notrace noinline void abis_fill_tlb(struct mm_struct *mm, struct secondary *secondary,
				    struct slot *slots, unsigned int nr)
{
	fill_tlb(mm, secondary, slots, nr);
}
NOKPROBE_SYMBOL(abis_fill_tlb);

/* Of one page, in registers. Return: it could be read. */
static notrace noinline bool fill_one(struct mm_struct *mm, struct secondary *secondary,
				      unsigned long addr, pte_t pte)
{
	struct slot slot = { .addr = addr, .pte = pte };

	abis_wire_slot(secondary, &slot, true);
	fill_tlb(mm, secondary, &slot, 1);
	return slot.filled;
}
NOKPROBE_SYMBOL(fill_one);

static __always_inline void set_filled(struct mm_struct *mm, struct slot *slot)
{
	pte_t pte = slot->pte;

	if (!slot->filled && abis_mutant(ABIS_MUTANT_INSERT_UNREAD_KEPT)) {
		abis_set_slot(mm, slot, abis_mkunused(pte));
		return;
	}
	if (!slot->filled) {
		/* The read may have filled the TLB before it failed. */
		flush_page(slot->addr);
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
		if (!slot->filled) {
			flush_page(slot->addr);
			return;
		}
		if (pte_hidden(pte))
			this_cpu_inc(abis_stat.hidden);
	}
	abis_set_private(mm, slot);
}

/* Faults come with interrupts on, and find them so afterwards. */
static __always_inline void insert_by_secondary(struct mm_struct *mm,
						struct secondary *secondary,
						struct slot *slots, unsigned int nr)
{
	unsigned int i;

	if (IS_ENABLED(CONFIG_ABIS_DEBUG) &&
	    abis_mutant(ABIS_MUTANT_INSERT_PRIMARY_FIRST)) {
		for (i = 0; i < nr; i++)
			set_ptes(mm, slots[i].addr, slots[i].ptep,
				 pte_mkold(slots[i].pte), 1);
	}
	for (i = 0; i < nr; i++)
		slots[i].filled = false;
	lockdep_assert_irqs_enabled();
	/* The read fails rather than being handled: nothing may sleep, or take locks. */
	pagefault_disable();
	local_irq_disable();
	if (abis_mutant(ABIS_MUTANT_INSERT_INTERRUPTED))
		local_irq_enable();
	if (abis_is_loaded(mm)) {
		for (i = 0; i < nr; i++)
			abis_check_unmapped(&slots[i]);
		abis_wire(secondary, slots[0].addr);
		if (__builtin_constant_p(nr) && nr == 1) {
			slots->filled = fill_one(mm, secondary, slots->addr, slots->pte);
		} else {
			for (i = 0; i < nr; i++)
				abis_wire_slot(secondary, &slots[i], true);
			abis_fill_tlb(mm, secondary, slots, nr);
		}
		this_cpu_inc(abis_stat.insert_switches);
		abis_debug_secondary(mm, slots[0].addr,
				     (unsigned long *)secondary->tables, TABLES);
	}
	local_irq_enable();
	pagefault_enable();

	for (i = 0; i < nr; i++) {
		if (abis_mutant(ABIS_MUTANT_INSERT_UNREAD) ||
		    abis_mutant(ABIS_MUTANT_INSERT_UNREAD_KEPT))
			slots[i].filled = slots[i].filled &&
					  this_cpu_read(abis_stat.insert_switches) & 7;
		if (!slots[i].filled)
			abis_refuse(ABIS_REFUSED_FAULT, 1);
		set_filled(mm, &slots[i]);
	}
}

static __always_inline void account(struct mm_struct *mm, const struct slot *slots,
				    unsigned int nr)
{
	unsigned int i;

	abis_adapt_inserted(mm, nr, abis_request_msr);
	for (i = 0; i < nr; i++) {
		if (slots[i].filled)
			abis_debug_inserted(mm, slots[i].addr, slots[i].ptep);
	}
}

/* The whole of it for @nr slots of one page table, at least one. PTE lock held. */
void abis_insert(struct mm_struct *mm, struct secondary *secondary, struct slot *slots,
		 unsigned int nr)
{
	if (abis_request_msr)
		abis_insert_by_request(mm, slots, nr);
	else
		insert_by_secondary(mm, secondary, slots, nr);
	account(mm, slots, nr);
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
static inline bool may_insert(struct mm_struct *mm, spte_t spte, pte_t old)
{
	struct abis_verdict verdict = abis_decide(spte, false, abis_version(mm));

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

bool abis_may_insert(struct mm_struct *mm, spte_t spte, pte_t old)
{
	return may_insert(mm, spte, old);
}

/*
 * Plain RAM with plain attributes, for user mode whatever its keys. What is not special,
 * in such a VMA, has a struct page, as for vm_normal_page().
 */
static inline bool is_plain(struct vm_area_struct *vma, pte_t pte)
{
	const pteval_t wanted = _PAGE_PRESENT | _PAGE_USER;
	const pteval_t unwanted = _PAGE_PWT | _PAGE_PCD | _PAGE_PAT | _PAGE_GLOBAL |
				  _PAGE_DEVMAP | _PAGE_PKEY_MASK;
	struct page *page;

	if ((pte_flags(pte) & (wanted | unwanted)) != wanted)
		return false;
	if (vma->vm_flags & (VM_IO | VM_PFNMAP | VM_MIXEDMAP))
		return false;
	if (pte_special(pte))
		return is_zero_pfn(pte_pfn(pte));
	page = pte_page(pte);
	return !(vma->vm_file && vma_is_secretmem(vma)) && !PageHWPoison(page) &&
	       !is_zone_device_page(page);
}

bool abis_is_plain(struct vm_area_struct *vma, pte_t pte)
{
	return is_plain(vma, pte);
}

/* Return: why not, or ABIS_REFUSALS. Preemption off. */
static inline enum abis_refusal refusal_of(struct vm_area_struct *vma, pte_t pte,
					   unsigned int nr)
{
	if (!abis_mm_is_eligible(vma->vm_mm) || !abis_is_loaded(vma->vm_mm))
		return ABIS_REFUSED_MM;
	if (nr > SLOTS_MAX)
		return ABIS_REFUSED_MANY;
	/* A watchpoint is for the program's own accesses: see use_temporary_mm(). */
	if (!this_cpu_read(abis_secondaries)->is_proved[!!abis_request_msr] ||
	    hw_breakpoint_active())
		return ABIS_REFUSED_CPU;
	if (!is_plain(vma, pte))
		return ABIS_REFUSED_PAGE;
	return ABIS_REFUSALS;
}

bool abis_is_insertable(struct vm_area_struct *vma, pte_t pte)
{
	return refusal_of(vma, pte, 1) == ABIS_REFUSALS;
}

static void insert_kept(struct mm_struct *mm, struct secondary *secondary)
{
	if (secondary->nr)
		abis_insert(mm, secondary, secondary->slots, secondary->nr);
	secondary->nr = 0;
}

/*
 * @slot is to have its PTE, inserted if it may be. @is_flushed: nobody holds what was here.
 * Return: it is to be inserted. Else it is set.
 */
static __always_inline bool choose(struct vm_fault *vmf, const struct slot *slot,
				   bool is_flushed)
{
	struct mm_struct *mm = vmf->vma->vm_mm;

	if (is_flushed)
		*slot->spte = SPTE_UNCACHED;
	if (may_insert(mm, *slot->spte, __pte(0)))
		return true;
	abis_refuse(ABIS_REFUSED_HELD, 1);
	set_ptes(mm, slot->addr, slot->ptep, slot->pte, 1);
	return false;
}

static __always_inline bool hides(struct vm_fault *vmf, pte_t pte)
{
	return vmf->vma->vm_file && abis_hides_fault(vmf, pte);
}

/* Several, or one of several: kept back, to be inserted at once. @slot: the first. */
static noinline void set_several(struct vm_fault *vmf, struct slot slot, unsigned int nr,
				 bool is_flushed)
{
	struct secondary *secondary = this_cpu_read(abis_secondaries);
	struct mm_struct *mm = vmf->vma->vm_mm;

	while (nr--) {
		if (choose(vmf, &slot, is_flushed)) {
			slot.hide = hides(vmf, slot.pte);
			if (secondary->nr == SLOTS_MAX)
				insert_kept(mm, secondary);
			secondary->slots[secondary->nr++] = slot;
		}
		slot.addr += PAGE_SIZE;
		slot.ptep++;
		slot.spte++;
		slot.pte = pte_next_pfn(slot.pte);
	}
	if (!this_cpu_read(abis_keeping))
		insert_kept(mm, secondary);
}

/* One page alone, which is what most faults bring, in registers. */
static __always_inline void set_ptes_inserted(struct vm_fault *vmf, pte_t pte,
					      unsigned int nr, bool is_flushed)
{
	struct secondary *secondary = this_cpu_read(abis_secondaries);
	struct vm_area_struct *vma = vmf->vma;
	struct mm_struct *mm = vma->vm_mm;
	enum abis_refusal why;
	struct slot slot = {
		/* A fault-around sets PTEs beside vmf->address, in the same page table. */
		.addr = (vmf->address & PMD_MASK) | abis_slot_of(vmf->pte) << PAGE_SHIFT,
		.ptep = vmf->pte,
		.pte = pte,
	};

	this_cpu_add(abis_stat.insert_requests, nr);
	why = refusal_of(vma, pte, nr);
	if (why == ABIS_REFUSALS) {
		slot.spte = abis_spte_write(slot.ptep);
		why = ABIS_REFUSED_MEMORY;
	}
	if (!slot.spte) {
		abis_refuse(why, nr);
		set_ptes(mm, slot.addr, slot.ptep, pte, nr);
	} else if (nr > 1 || this_cpu_read(abis_keeping) || abis_request_msr) {
		set_several(vmf, slot, nr, is_flushed);
	} else {
		if (choose(vmf, &slot, is_flushed)) {
			slot.hide = hides(vmf, pte);
			insert_by_secondary(mm, secondary, &slot, 1);
			account(mm, &slot, 1);
		}
	}
}

void __abis_set_ptes(struct vm_fault *vmf, pte_t pte, unsigned int nr)
{
	set_ptes_inserted(vmf, pte, nr, false);
}

/*
 * The PTE that was here is gone, and flushed, within this hold of the lock: nobody
 * holds it. Anything but a complete flush since would be a wrong reason to be here.
 */
void __abis_set_flushed_pte(struct vm_fault *vmf, pte_t pte)
{
	set_ptes_inserted(vmf, pte, 1, true);
}

/*
 * wp_page_reuse(). The PTE is taken away by an exchange, since hardware may set its
 * accessed bit at any time; then this CPU flushes what it may hold, which has the old
 * rights. Whoever else holds the old rights is left alone, as without ABIS. A
 * special PTE, which has no struct page, is left to wp_page_reuse().
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

	if (!abis_pays_for_fault(mm) || (pte_flags(old) & _PAGE_ACCESSED) || !pte_write(pte) ||
	    !vmf->page || !abis_is_insertable(vma, pte))
		return false;
	verdict = abis_decide(abis_spte_read(ptep), false, abis_version(mm));
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
