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
 *     them (see may_insert()). They are set in the secondary, accessed bit set.
 *  2. loaded_mm = LOADED_MM_SWITCHING: NMIs leave user memory alone, and a flush
 *     that looks now sends its interrupt, which waits.
 *  3. CR3 = the secondary, same PCID, no flush: the address space keeps its TLB.
 *  4. INVLPG: drops the paging-structure cache of this PCID, whatever its address.
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
 *
 * Hidden entries. A write to a page that is mapped read-only ends in a walk of the
 * primary, and some processors set the accessed bit in that walk, although it
 * faults: nobody could tell any more who else has used the page. So where a page that
 * may be written later is inserted read-only, the primary PTE is left not present to
 * hardware (pte_hide()). To Linux it is present. The fault of a write then finds the
 * SPTE as it was, and so does everyone who takes the PTE away, asks, and flushes.
 *
 * A read that faults, by another CPU or by this one when it has lost the entry, inserts
 * the page again if the SPTE lets it; else it reveals the entry: what the SPTE says
 * stays true, since whoever walks to it from then on sets the accessed bit.
 *
 * That read is a fault that would not be without hiding. It is charged to the account
 * of insertion (adapt.c): who has none left hides nothing either. And nobody does for
 * writes where the probe has found that a faulting write leaves the accessed bit alone:
 * there it would gain nothing.
 *
 * Data of a file that is only read is hidden, too (is_read_apart()): not from writes
 * but from those walks that tell nothing of who needs a flush. It has an account of its
 * own besides: each fault costs a point, each page that goes without a flush of everyone
 * brings one, and who has no points left hides one page in SAMPLE.
 */

#define pr_fmt(fmt) "abis: " fmt

#include <linux/abis_fault.h>
#include <linux/cpuhotplug.h>
#include <linux/kprobes.h>
#include <linux/memremap.h>
#include <linux/mm_inline.h>
#include <linux/mmu_context.h>
#include <linux/sched/mm.h>
#include <linux/secretmem.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#include <asm/asm.h>
#include <asm/cpuid.h>
#include <asm/debugreg.h>
#include <asm/mmu_context.h>
#include <asm/pgalloc.h>
#include <asm/smap.h>
#include <asm/special_insns.h>
#include <asm/tlbflush.h>

#include "abis.h"

/* At once, in one page table; and what a single call may ask for. */
#define SLOTS_MAX	32
/* Any canonical address will do; nothing is ever mapped at this one. */
#define NOWHERE		(-PAGE_SIZE)
#define PROBE_ADDRESS	(16ul << 20)
#define PROBES		16

#define HIDING_MAX	1024
/* So many faults of data that is only read are risked before any page has paid. */
#define HIDING_DEBT	960
#define HIDING_WRITTEN	4
#define SAMPLE		64
/* What an interrupt for the pages of a window must bring in later. */
#define HIDING_TAKEN	8
/* So much is risked on such interrupts before any has paid. */
#define TAKING_DEBT	256
/* As many as a fault-around maps; within one page table. */
#define WINDOW_PAGES	16ul

struct slot {
	unsigned long addr;
	pte_t *ptep;
	spte_t *spte;
	/* As Linux has it: present. */
	pte_t pte;
	bool filled;
	bool hide;
};

enum { PTES, PMDS, PUDS, P4DS, TABLES };

struct secondary {
	struct mm_struct *mm;
	/* The chain below its root; the last is used with five levels only. */
	unsigned long *tables[TABLES];
	/* What the chain is wired for. */
	unsigned long addr;
	bool is_wired;
	/* The probe has found that this CPU can insert: by the chain, by request. */
	bool is_proved[2];
	/* Kept back since abis_insert_begin(). */
	unsigned int nr;
	struct slot slots[SLOTS_MAX];
};

static DEFINE_PER_CPU(struct secondary *, secondaries);
static unsigned int nr_chains;
/* The machine's model-specific register; 0: by a secondary. Set while nothing is inserted. */
static unsigned int request_msr;
static bool is_hiding;
/* Pages that were not hidden for want of points. */
static DEFINE_PER_CPU(unsigned int, sampled);

static void flush_page(unsigned long addr)
{
	asm volatile("invlpg (%0)" : : "r" (addr) : "memory");
}

/* Read a byte of user memory. No side effects in RAM. Return: it was there. */
static __always_inline bool touch(unsigned long addr)
{
	int failed = 1;

	stac();
	/* MCE_SAFE: memory that turns out to be bad is as good as a fault. */
	asm volatile("1: testb %%al, (%[addr])\n\t"
		     "xorl %[failed], %[failed]\n"
		     "2:\n"
		     _ASM_EXTABLE_TYPE(1b, 2b, EX_TYPE_DEFAULT_MCE_SAFE)
		     : [failed] "+r" (failed)
		     : [addr] "r" (addr)
		     : "cc", "memory");
	clac();
	return !failed;
}

/* Write to memory that must not be written. Return: it faulted. */
static __always_inline bool strike(unsigned long addr)
{
	int failed = 1;

	stac();
	asm volatile("1: movb $0, (%[addr])\n\t"
		     "xorl %[failed], %[failed]\n"
		     "2:\n"
		     _ASM_EXTABLE(1b, 2b)
		     : [failed] "+r" (failed)
		     : [addr] "r" (addr)
		     : "cc", "memory");
	clac();
	return failed;
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

/* The chain to the page table of @addr: no other entry in any of its tables. */
static void wire(struct secondary *secondary, unsigned long addr)
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

static void wire_slot(struct secondary *secondary, const struct slot *slot, bool set)
{
	pteval_t value = 0;

	if (set)
		value = (pte_val(slot->pte) & ~_PAGE_SWA) | _PAGE_ACCESSED;
	WRITE_ONCE(secondary->tables[PTES][pte_index(slot->addr)], value);
}

/*
 * Steps 2 to 8; @mm is loaded here, interrupts are off, all slots are of one page
 * table. Nothing may be traced or probed while CR3 is not what the rest of the
 * kernel thinks it is.
 */
static notrace noinline void fill_tlb(struct mm_struct *mm, struct secondary *secondary,
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
			wire_slot(secondary, &slots[i], false);
	}
	native_write_cr3(primary | CR3_NOFLUSH);
	if (!abis_mutant(ABIS_MUTANT_INSERT_NO_AFTER) &&
	    !abis_mutant(ABIS_MUTANT_INSERT_LEFT))
		flush_page(NOWHERE);

	barrier();
	this_cpu_write(cpu_tlbstate.loaded_mm, mm);
}
NOKPROBE_SYMBOL(fill_tlb);

/* May @mm's pages be inserted here and now? Interrupts off. */
static bool is_loaded(struct mm_struct *mm)
{
	return this_cpu_read(cpu_tlbstate.loaded_mm) == mm &&
	       !this_cpu_read(cpu_tlbstate_shared.is_lazy);
}

static void refuse(enum abis_refusal refusal, unsigned int nr)
{
	this_cpu_add(abis_stat.insert_refused[refusal], nr);
}

/* To be mapped as one that nobody has used. */
static pte_t mkunused(pte_t pte)
{
	return pte_young(pte) ? pte_set_flags(pte_mkold(pte), _PAGE_SWA) : pte;
}

/* After the fill: whoever holds it filled it before this version is read. */
static void set_private(struct mm_struct *mm, struct slot *slot)
{
	*slot->spte = spte_private(smp_processor_id(), abis_version_to_stamp(mm));
	this_cpu_inc(abis_stat.inserted);
	abis_debug_record(slot->ptep);
}

static void set_filled(struct mm_struct *mm, struct slot *slot)
{
	pte_t pte = slot->pte;

	slot->spte = slot->filled ? abis_spte_write(slot->ptep) : NULL;
	if (!slot->spte) {
		refuse(slot->filled ? ABIS_REFUSED_MEMORY : ABIS_REFUSED_FAULT, 1);
		if (!abis_mutant(ABIS_MUTANT_INSERT_PRIMARY_FIRST))
			set_ptes(mm, slot->addr, slot->ptep, pte, 1);
		return;
	}
	if (!abis_mutant(ABIS_MUTANT_INSERT_PRIMARY_FIRST)) {
		if (!abis_mutant(ABIS_MUTANT_BORN_ACCESSED))
			pte = mkunused(pte);
		if (slot->hide && !abis_mutant(ABIS_MUTANT_BORN_ACCESSED)) {
			pte = pte_hide(pte);
			this_cpu_inc(abis_stat.hidden);
		}
		set_ptes(mm, slot->addr, slot->ptep, pte, 1);
	}
	set_private(mm, slot);
}

/* Nobody may have the page already, but by a hidden entry. */
static void check_unmapped(const struct slot *slot)
{
	pte_t old;

	if (!IS_ENABLED(CONFIG_ABIS_DEBUG))
		return;
	old = ptep_get(slot->ptep);
	if (pte_present(old) && !pte_hidden(old))
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
	if (is_loaded(mm)) {
		for (i = 0; i < nr; i++)
			check_unmapped(&slots[i]);
		wire(secondary, slots[0].addr);
		for (i = 0; i < nr; i++)
			wire_slot(secondary, &slots[i], true);
		fill_tlb(mm, secondary, slots, nr);
		this_cpu_inc(abis_stat.insert_switches);
		abis_debug_secondary(mm, slots[0].addr,
				     (unsigned long *)secondary->tables, TABLES);
	}
	local_irq_restore(flags);
	pagefault_enable();

	for (i = 0; i < nr; i++)
		set_filled(mm, &slots[i]);
}

/* The leaf after the name: 12 letters, at 0x40000100. */
#define MACHINE_NAME		"TLBTLBTLBTLB"
#define MACHINE_INSERTS		BIT(4)
#define MACHINE_INSERT_MSR	0x400000f1

static bool machine_inserts(void)
{
	u32 base = boot_cpu_has(X86_FEATURE_HYPERVISOR) ?
		   hypervisor_cpuid_base(MACHINE_NAME, 1) : 0;

	return base && cpuid_ecx(base + 1) & MACHINE_INSERTS;
}

static void request(unsigned int msr, unsigned long addr, unsigned int pages)
{
	wrmsrl(msr, addr | (pages - 1));
}

/* Does @slot follow the one before it? */
static bool is_next(const struct slot *slot)
{
	return slot->filled && slot->addr == slot[-1].addr + PAGE_SIZE;
}

/*
 * By the machine (docs/reference/machine-insert.md of the series; no processor can). It takes
 * the page from the primary, which is set first: not with the accessed bit, and the
 * machine leaves that clear. From then on anyone may walk to it, this CPU, too; who
 * does sets the bit, and what the SPTE says does not matter any more. Nobody asks
 * the SPTE before it is set: the lock is held.
 *
 * A page that the machine leaves out is held by nobody, or by this CPU since before:
 * less than the SPTE says, so there is no need to know. A request names no page
 * between that is not ours: its SPTE may say that another CPU has it.
 *
 * To hide is to exchange what was set; if the accessed bit is set by now the page stays
 * as it is, since what is hidden must not lose the bit.
 */
static void insert_by_request(struct mm_struct *mm, struct slot *slots, unsigned int nr)
{
	bool loaded = is_loaded(mm);
	unsigned int i, first;

	for (i = 0; i < nr; i++) {
		struct slot *slot = &slots[i];
		pte_t pte = slot->pte;

		check_unmapped(slot);
		slot->spte = loaded ? abis_spte_write(slot->ptep) : NULL;
		slot->filled = slot->spte;
		if (slot->filled)
			pte = mkunused(pte);
		else
			refuse(loaded ? ABIS_REFUSED_MEMORY : ABIS_REFUSED_FAULT, 1);
		set_ptes(mm, slot->addr, slot->ptep, pte, 1);
	}
	for (first = 0; first < nr; first = i) {
		for (i = first + 1; i < nr && is_next(&slots[i]); i++)
			;
		if (abis_mutant(ABIS_MUTANT_REQUEST_SPANS) &&
		    slots[nr - 1].addr > slots[first].addr)
			i = nr;
		if (slots[first].filled)
			request(request_msr, slots[first].addr,
				((slots[i - 1].addr - slots[first].addr) >> PAGE_SHIFT) + 1);
	}
	for (i = 0; i < nr; i++) {
		struct slot *slot = &slots[i];
		pteval_t set = pte_val(mkunused(slot->pte));
		pteval_t hidden = pte_val(pte_hide(mkunused(slot->pte)));

		if (!slot->filled)
			continue;
		set_private(mm, slot);
		if (!slot->hide)
			continue;
		if (abis_mutant_lingering(ABIS_MUTANT_REQUEST_HIDES))
			WRITE_ONCE(slot->ptep->pte, hidden);
		else if (!try_cmpxchg(&slot->ptep->pte, &set, hidden))
			continue;
		this_cpu_inc(abis_stat.hidden);
	}
}

/* The whole of it for @nr slots of one page table, at least one. PTE lock held. */
static void insert(struct mm_struct *mm, struct secondary *secondary,
		   struct slot *slots, unsigned int nr)
{
	unsigned int i;

	if (request_msr)
		insert_by_request(mm, slots, nr);
	else
		insert_by_secondary(mm, secondary, slots, nr);
	abis_adapt_inserted(mm, nr, request_msr);
	for (i = 0; i < nr; i++) {
		if (slots[i].filled)
			abis_debug_inserted(mm, slots[i].addr, slots[i].ptep);
	}
}

/*
 * Can nobody but this CPU hold what was filled from this slot, which is none? A
 * slot that is not present counts as one with a clear accessed bit, so what the
 * SPTE promises holds now: nobody (UNCACHED, or enough rounds), or this CPU. The
 * slots of a page table that is new are UNCACHED.
 *
 * Where it does not promise that much, the slot is free still if nothing waits for
 * a flush: whoever took a PTE from it has flushed before it released the lock, but
 * for gathers and batches, and those have told before they released it. (Collapse
 * flushes later, too; the file's pages are locked until then, so nobody maps one.)
 */
static bool may_insert(struct mm_struct *mm, pte_t *ptep)
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
	if (pte_hidden(ptep_get(ptep)))
		return abis_mutant(ABIS_MUTANT_HIDDEN_OVER);
	return !mm_tlb_flush_pending(mm) && (!abis_batch_pending(mm) ||
					     abis_mutant(ABIS_MUTANT_INSERT_IN_BATCH));
}

/* Plain RAM with plain attributes, for user mode whatever its keys. */
static bool is_plain(struct vm_area_struct *vma, pte_t pte)
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
static enum abis_refusal refusal(struct vm_area_struct *vma, pte_t pte, unsigned int nr)
{
	if (!abis_mm_is_eligible(vma->vm_mm) || !is_loaded(vma->vm_mm))
		return ABIS_REFUSED_MM;
	if (nr > SLOTS_MAX)
		return ABIS_REFUSED_MANY;
	/* A watchpoint is for the program's own accesses: see use_temporary_mm(). */
	if (smp_processor_id() >= SPTE_CPUS || hw_breakpoint_active() ||
	    !this_cpu_read(secondaries)->is_proved[!!request_msr])
		return ABIS_REFUSED_CPU;
	if (!is_plain(vma, pte))
		return ABIS_REFUSED_PAGE;
	return ABIS_REFUSALS;
}

/*
 * Two accounts, each in its half of the word: of what may be written, for taking over
 * alone; and of the rest, for hiding, too.
 */
static unsigned int account_shift(const struct vm_area_struct *vma)
{
	return vma->vm_flags & VM_WRITE ? 0 : 16;
}

static int hiding_points(struct mm_struct *mm, unsigned int shift)
{
	return (s16)(READ_ONCE(mm->context.abis.hiding) >> shift);
}

static void hiding_add(struct mm_struct *mm, unsigned int shift, int points)
{
	int hiding = clamp(hiding_points(mm, shift) + points, -HIDING_DEBT, HIDING_MAX);
	u32 others = READ_ONCE(mm->context.abis.hiding) & ~(0xffffu << shift);

	/* A hint: who loses a race may lose a point. */
	WRITE_ONCE(mm->context.abis.hiding, others | (u32)(u16)hiding << shift);
}

/* A write that would have been a flush of everyone: it was worth keeping the page here. */
void abis_hidden_written(struct mm_struct *mm)
{
	this_cpu_inc(abis_stat.hidden_written);
	hiding_add(mm, 0, HIDING_WRITTEN);
}

/* Hidden to the end, and taken away without a flush of everyone. */
void abis_hidden_kept(struct mm_struct *mm)
{
	this_cpu_inc(abis_stat.hidden_kept);
	hiding_add(mm, 16, 1);
}

/*
 * Does the file system want to know of first writes? Then what is written will be
 * written back, and write-protected, soon.
 */
static bool is_noticed(struct vm_area_struct *vma)
{
	return (vma->vm_flags & VM_SHARED) && vma->vm_ops && vma->vm_ops->page_mkwrite;
}

/*
 * Data of a file that cannot be written here, among several threads: it may be one
 * thread's, to be read once and unmapped. A fault-around maps more than is read
 * before the CPU has to flush everything or the thread goes on elsewhere, and
 * each page that is then walked for makes the end of the mapping a flush of everyone,
 * who all have to walk again. Program text is for all.
 *
 * This chooses who is hidden, and nothing else: the VMA's flags, and the number of
 * users, may change at any time afterwards. What is hidden is safe whatever they are,
 * since all that asks does so by the PTE and its SPTE.
 */
static bool is_read_apart(struct vm_area_struct *vma)
{
	return vma->vm_file && !(vma->vm_flags & (VM_WRITE | VM_EXEC)) &&
	       atomic_read(&vma->vm_mm->mm_users) > 1;
}

/*
 * Is @pte read-only and likely to be written later, or writable and likely to be
 * write-protected soon, or for reading only, and worth the faults? A write through a
 * clean entry would walk, so what is writable must be dirty.
 */
bool abis_may_hide(struct vm_area_struct *vma, pte_t pte)
{
	if (vma->vm_flags & (VM_LOCKED | VM_UFFD_MISSING | VM_UFFD_WP | VM_UFFD_MINOR))
		return false;
	if (pte_write(pte) && !(pte_dirty(pte) && is_noticed(vma)))
		return false;
	/* Who is flushed as ever, or has page tables that devices walk, gains nothing. */
	if (!abis_mm_is_eligible(vma->vm_mm) ||
	    (!(is_hiding && (vma->vm_flags & VM_WRITE)) && !is_read_apart(vma)))
		return false;
	/* What may be written has no account but that of insertion, which the caller asks. */
	if ((vma->vm_flags & VM_WRITE) ||
	    hiding_points(vma->vm_mm, account_shift(vma)) > -HIDING_DEBT)
		return true;
	return !(this_cpu_inc_return(sampled) % SAMPLE);
}

/*
 * Does who causes the fault use the page at once? Populated (MAP_POPULATE, madvise(),
 * get_user_pages()) it may be for anyone. This CPU has it, and is named as its holder,
 * all the same; but a user elsewhere would pay for the hiding with a fault. What the
 * kernel copies for the thread that faults is that thread's: an exception sets the
 * second flag, get_user_pages() only for KVM, whose notifier makes @vmf's mm ineligible.
 */
static bool is_for_itself(const struct vm_fault *vmf)
{
	return vmf->flags & (FAULT_FLAG_USER | FAULT_FLAG_INTERRUPTIBLE);
}

bool abis_hidden_needs_flush(pte_t oldpte, pte_t newpte)
{
	return pte_needs_flush(pte_reveal(oldpte), newpte);
}

static void insert_kept(struct mm_struct *mm, struct secondary *secondary)
{
	if (secondary->nr)
		insert(mm, secondary, secondary->slots, secondary->nr);
	secondary->nr = 0;
}

void __abis_set_ptes(struct vm_fault *vmf, pte_t pte, unsigned int nr)
{
	/* A fault-around sets PTEs beside the one of vmf->address, in the same page table. */
	unsigned long addr = (vmf->address & PMD_MASK) |
			     offset_in_page(vmf->pte) / sizeof(pte_t) << PAGE_SHIFT;
	struct vm_area_struct *vma = vmf->vma;
	pte_t *ptep = vmf->pte;
	struct secondary *secondary = this_cpu_read(secondaries);
	struct mm_struct *mm = vma->vm_mm;
	enum abis_refusal why;
	unsigned int i;

	this_cpu_add(abis_stat.insert_requests, nr);
	why = refusal(vma, pte, nr);
	if (why != ABIS_REFUSALS) {
		refuse(why, nr);
		set_ptes(mm, addr, ptep, pte, nr);
		return;
	}
	for (i = 0; i < nr; i++, ptep++, addr += PAGE_SIZE, pte = pte_next_pfn(pte)) {
		if (!may_insert(mm, ptep)) {
			refuse(ABIS_REFUSED_HELD, 1);
			set_ptes(mm, addr, ptep, pte, 1);
			continue;
		}
		if (secondary->nr == SLOTS_MAX)
			insert_kept(mm, secondary);
		secondary->slots[secondary->nr++] = (struct slot) {
			.addr = addr,
			.ptep = ptep,
			.pte = pte,
			.hide = is_for_itself(vmf) && abis_may_hide(vma, pte),
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

/* The pages of a fault-around: of one VMA, and of one page table. */
struct window {
	unsigned long start;
	unsigned long end;
	pte_t *ptep;
};

static struct window window_of(struct vm_area_struct *vma, unsigned long addr, pte_t *ptep)
{
	unsigned long first = round_down(addr, WINDOW_PAGES * PAGE_SIZE);
	struct window window = {
		.start = max(first, vma->vm_start),
		.end = min(first + WINDOW_PAGES * PAGE_SIZE, vma->vm_end),
	};

	window.ptep = ptep - ((addr - window.start) >> PAGE_SHIFT);
	return window;
}

/*
 * Somebody else reads here, and will go on to the neighbours, which a fault-around
 * may have mapped together. Nobody can have walked to what is hidden: their SPTEs
 * stay true, and the accessed bits clear.
 */
static void reveal_around(struct vm_area_struct *vma, unsigned long addr, pte_t *ptep)
{
	struct window window = window_of(vma, addr, ptep);

	for (; window.start < window.end; window.start += PAGE_SIZE, window.ptep++) {
		pte_t pte = ptep_get(window.ptep);

		if (pte_hidden(pte))
			set_ptes(vma->vm_mm, window.start, window.ptep, pte_reveal(pte), 1);
	}
}

/* The CPU that alone may hold what was filled from this hidden slot, or -1. */
static int holder_of(struct mm_struct *mm, pte_t *ptep)
{
	struct abis_verdict verdict;

	if (!pte_hidden(ptep_get(ptep)))
		return -1;
	verdict = abis_decide(abis_spte_read(ptep), false,
			      atomic64_read(&mm->context.abis.version));
	return verdict.targets == ABIS_CPU ? verdict.cpu : -1;
}

/*
 * Another CPU alone may hold what is hidden: flush it there, then nobody does. That
 * is one interrupt now, or none if that CPU runs something else, for all of them
 * later. So only where hiding has paid. Where nothing is written the thread has gone
 * on here, and whatever of the window that CPU holds comes along; where it is, two
 * threads may share a window, and each writes its pages once.
 *
 * Who takes over knows nothing but what the flush has proved: a slot becomes
 * UNCACHED only if it is among those that are flushed on its holder. Nobody can fill
 * it meanwhile: it is hidden when it is asked for, and the lock is held until it is
 * inserted here. A batch that took such a PTE away and put it back has left the SPTE,
 * so the holder is flushed here, and once more by the batch. The epoch stays as it is,
 * too: tracking ends only when all who hold such locks have let go.
 */
static bool take_over(struct vm_area_struct *vma, unsigned long addr, pte_t *ptep)
{
	struct mm_struct *mm = vma->vm_mm;
	bool is_written = vma->vm_flags & VM_WRITE;
	struct window window = { .start = addr, .end = addr + PAGE_SIZE, .ptep = ptep };
	int holder = holder_of(mm, ptep);
	DECLARE_BITMAP(taken, WINDOW_PAGES) = {};
	struct abis_hold hold;
	unsigned int i, pages;

	if (hiding_points(mm, account_shift(vma)) < (is_written ? HIDING_MAX / 2 : -TAKING_DEBT))
		return false;
	/* A CPU that does not run @mm is not interrupted, and of two that do nobody is spared. */
	if (holder < 0 || !abis_table_is_own(ptep) || !abis_spares_others(mm, holder))
		return false;
	if (!is_written)
		window = window_of(vma, addr, ptep);
	pages = (window.end - window.start) >> PAGE_SHIFT;

	abis_hold_init(&hold, false);
	for (i = 0; i < pages; i++) {
		if (holder_of(mm, window.ptep + i) != holder)
			continue;
		__set_bit(i, taken);
		if (abis_mutant(ABIS_MUTANT_HIDDEN_TAKEN) && window.ptep + i != ptep)
			continue;
		abis_hold_add(&hold, holder, window.start + i * PAGE_SIZE, window.ptep + i);
	}
	abis_hold_flush(mm, &hold);
	for_each_set_bit(i, taken, pages) {
		/* The table is there: see above. */
		spte_t *spte = abis_spte_write(window.ptep + i);

		if (spte)
			*spte = SPTE_UNCACHED;
		this_cpu_inc(abis_stat.hidden_taken);
	}
	hiding_add(mm, account_shift(vma), is_written ? -HIDING_WRITTEN : -HIDING_TAKEN);
	return true;
}

/*
 * What this CPU has lost at once it finds again at once, where data is only read: the
 * pages around that are hidden, too, and that it may insert. Each slot is asked for
 * itself, and what is hidden is inserted only if nobody else holds it (may_insert()).
 * The window is of one VMA and one page table, whose lock is held; it may hold any kind
 * of PTE.
 */
static unsigned int add_around(struct vm_area_struct *vma, unsigned long addr,
			       pte_t *ptep, struct slot *slots)
{
	struct window window = window_of(vma, addr, ptep);
	unsigned int nr = 0;

	for (; window.start < window.end; window.start += PAGE_SIZE, window.ptep++) {
		pte_t pte = ptep_get(window.ptep);

		if (window.ptep == ptep || !pte_hidden(pte) || !may_insert(vma->vm_mm, window.ptep))
			continue;
		pte = pte_reveal(pte);
		if (!is_plain(vma, pte))
			continue;
		slots[nr++] = (struct slot) {
			.addr = window.start,
			.ptep = window.ptep,
			.pte = pte,
			.hide = true,
		};
	}
	return nr;
}

bool __abis_hidden_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned long addr = vmf->address;
	pte_t *ptep = vmf->pte, pte = vmf->orig_pte;
	struct secondary *secondary = this_cpu_read(secondaries);
	struct mm_struct *mm = vma->vm_mm;
	struct slot slot = {
		.addr = addr,
		.ptep = ptep,
		.pte = pte_mkyoung(pte_reveal(pte)),
		.hide = true,
	};
	unsigned int nr;
	bool is_shared;

	this_cpu_inc(abis_stat.hidden_faults);
	if (!(vma->vm_flags & VM_WRITE))
		this_cpu_inc(abis_stat.hidden_reads);
	hiding_add(mm, account_shift(vma), -1);
	abis_adapt_refault(mm);
	if (abis_inserting() && abis_pays_for_fault(mm) && abis_may_hide(vma, slot.pte) &&
	    refusal(vma, slot.pte, 1) == ABIS_REFUSALS &&
	    (may_insert(mm, ptep) || take_over(vma, addr, ptep))) {
		secondary->slots[0] = slot;
		nr = 1;
		if (!(vma->vm_flags & VM_WRITE))
			nr += add_around(vma, addr, ptep, secondary->slots + 1);
		this_cpu_add(abis_stat.hidden_again, nr);
		insert(mm, secondary, secondary->slots, nr);
		return true;
	}
	this_cpu_inc(abis_stat.hidden_revealed);
	/* Asked and set while it is hidden: afterwards hardware may mark it. */
	is_shared = !may_insert(mm, ptep);
	set_ptes(mm, addr, ptep, pte_set_flags(pte_reveal(pte), _PAGE_SWA), 1);
	if (is_shared)
		reveal_around(vma, addr, ptep);
	if (abis_mutant(ABIS_MUTANT_HIDDEN_PRIVATE)) {
		spte_t *spte = abis_spte_write(ptep);

		if (spte)
			*spte = spte_private(smp_processor_id(), abis_version_to_stamp(mm));
	}
	return true;
}

/*
 * wp_page_reuse(). The PTE is taken away by an exchange, since hardware may set the
 * accessed bit of one that is not hidden; then this CPU flushes what it may hold, which
 * has the old rights. Whoever else holds the old rights is left alone, as without ABIS.
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
	    refusal(vma, pte, 1) != ABIS_REFUSALS)
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
	insert_kept(vma->vm_mm, this_cpu_read(secondaries));
}

/* Software page tables that no page table of a process has. */
long abis_insert_bytes(void)
{
	return (long)READ_ONCE(nr_chains) *
	       (TABLES + (1 << PGD_ALLOCATION_ORDER)) * PAGE_SIZE;
}

/* They stay once they are there: 6 pages for each possible CPU. */
static int create_chain(struct secondary *secondary)
{
	int i;

	if (secondary->mm)
		return 0;
	for (i = 0; i < TABLES; i++) {
		secondary->tables[i] = (unsigned long *)get_zeroed_page(GFP_KERNEL);
		if (!secondary->tables[i])
			goto free;
	}
	secondary->mm = mm_alloc();
	if (!secondary->mm)
		goto free;
	nr_chains++;
	return 0;

free:
	while (--i >= 0)
		free_page((unsigned long)secondary->tables[i]);
	return -ENOMEM;
}

static int create_secondary(unsigned int cpu, bool by_request)
{
	struct secondary *secondary = per_cpu(secondaries, cpu);

	if (!secondary) {
		secondary = kzalloc_node(sizeof(*secondary), GFP_KERNEL, cpu_to_node(cpu));
		if (!secondary)
			return -ENOMEM;
		per_cpu(secondaries, cpu) = secondary;
	}
	return by_request ? 0 : create_chain(secondary);
}

/*
 * Does this CPU do what insertion needs? In an address space of our own: a page
 * that was inserted can be read without its accessed bit being set; after INVLPG a
 * read sets it; and a page of the same 2 MiB that was not inserted is found, by a
 * walk from the primary. A speculative walk may spoil one try, not all.
 */
struct probe {
	struct mm_struct *mm;
	pte_t *ptep;
	struct page *page;
	/* 0: by a secondary. */
	unsigned int msr;
	bool is_kept;
	bool is_detected;
	bool is_clean;
	/* Of so many writes that faulted, all but these marked the page as accessed. */
	unsigned int struck, unmarked;
};

static bool probe_accessed(const struct probe *probe)
{
	return pte_flags(ptep_get(probe->ptep)) & _PAGE_ACCESSED;
}

static void probe_once(struct probe *probe)
{
	struct secondary *secondary = this_cpu_read(secondaries);
	pte_t pte = mk_pte(probe->page, PAGE_READONLY);
	struct slot slot = {
		.addr = PROBE_ADDRESS,
		.ptep = probe->ptep,
		.pte = pte,
	};
	bool is_kept;

	if (probe->msr) {
		native_set_pte(probe->ptep, pte_mkold(pte));
		request(probe->msr, slot.addr, 1);
	} else {
		wire(secondary, slot.addr);
		wire_slot(secondary, &slot, true);
		fill_tlb(probe->mm, secondary, &slot, 1);
		if (!slot.filled)
			return;
		native_set_pte(probe->ptep, pte_mkold(pte));
	}
	/* The neighbour is mapped in the primary alone. */
	native_set_pte(probe->ptep + 1, pte_mkold(pte));
	is_kept = touch(PROBE_ADDRESS) && !probe_accessed(probe);
	probe->is_kept |= is_kept;
	/* Before anything faults: a fault forgets what led into the secondary. */
	probe->is_clean &= touch(PROBE_ADDRESS + PAGE_SIZE);
	if (is_kept) {
		probe->struck += strike(PROBE_ADDRESS);
		probe->unmarked += !probe_accessed(probe);
	}
	flush_page(PROBE_ADDRESS);
	probe->is_detected &= touch(PROBE_ADDRESS) && probe_accessed(probe);

	native_set_pte(probe->ptep, __pte(0));
	native_set_pte(probe->ptep + 1, __pte(0));
	flush_page(PROBE_ADDRESS);
	flush_page(PROBE_ADDRESS + PAGE_SIZE);
}

static long probe_cpu(void *data)
{
	struct probe *probe = data;
	struct mm_struct *mm;
	unsigned long flags;
	bool is_proved;
	int i;

	pagefault_disable();
	local_irq_save(flags);
	if (this_cpu_read(cpu_tlbstate_shared.is_lazy))
		leave_mm();
	mm = this_cpu_read(cpu_tlbstate.loaded_mm);
	switch_mm_irqs_off(NULL, probe->mm, current);
	probe->is_kept = false;
	probe->is_detected = true;
	probe->is_clean = true;
	for (i = 0; i < PROBES; i++)
		probe_once(probe);
	switch_mm_irqs_off(NULL, mm, current);
	local_irq_restore(flags);
	pagefault_enable();

	is_proved = probe->is_kept && probe->is_detected && probe->is_clean;
	this_cpu_read(secondaries)->is_proved[!!probe->msr] = is_proved;
	if (is_proved)
		return 0;
	pr_info("CPU %u: an inserted entry %s\n", smp_processor_id(),
		!probe->is_kept ? "is not kept" :
		!probe->is_detected ? "outlives INVLPG, or leaves no accessed bit" :
		"hides its neighbours");
	return -EIO;
}

/* Kept, as its page tables are: no VMA tells exit_mmap() of them. */
static struct probe probe;

/*
 * A CPU that comes on line when all others have been asked: one that fails takes no
 * part in insertion, and is no reason to do without it, or them.
 */
static int probe_new_cpu(unsigned int cpu)
{
	/* The way to insert that was prepared last: the other one stays as it was. */
	probe_cpu(&probe);
	return 0;
}

/* From now on. Nothing is inserted. */
void abis_insert_choose(bool by_request)
{
	request_msr = by_request ? MACHINE_INSERT_MSR : 0;
}

/* Return: why no page can be inserted on this machine, in that way, or NULL. */
const char *abis_insert_prepare(bool by_request)
{
	static bool is_watching;
	const char *why = NULL;
	spinlock_t *ptl;
	unsigned int cpu;

	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		return "page-table locks can be preempted";
	if (!boot_cpu_has(X86_FEATURE_PCID) || !(cr4_read_shadow() & X86_CR4_PCIDE))
		return "this processor has no PCIDs";
#ifdef CONFIG_PARAVIRT_XXL
	if (pv_ops.mmu.write_cr3 != native_write_cr3)
		return "the hypervisor loads CR3 (paravirtualised page tables)";
#endif
	if (by_request && !machine_inserts())
		return "this processor inserts nothing on request, nor does any that is built";
	for_each_possible_cpu(cpu) {
		if (create_secondary(cpu, by_request))
			return "no memory for the CPUs' page tables";
	}

	if (!probe.mm) {
		probe.page = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!probe.page)
			return "no memory for the probe";
		probe.mm = mm_alloc();
		if (!probe.mm) {
			__free_page(probe.page);
			return "no memory for the probe";
		}
	}
	probe.ptep = get_locked_pte(probe.mm, PROBE_ADDRESS, &ptl);
	if (!probe.ptep)
		return "no memory for the probe";
	/* Nobody else knows this address space. */
	pte_unmap_unlock(probe.ptep, ptl);

	/* Whoever comes on line from here on is asked there, if not below. */
	if (!is_watching && cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "mm/abis:online",
						      probe_new_cpu, NULL) < 0)
		return "CPUs that come on line cannot be asked";
	is_watching = true;

	/* One CPU at a time, since none comes or goes meanwhile. */
	cpus_read_lock();
	probe.msr = by_request ? MACHINE_INSERT_MSR : 0;
	probe.struck = 0;
	probe.unmarked = 0;
	for_each_online_cpu(cpu) {
		if (work_on_cpu(cpu, probe_cpu, &probe)) {
			why = "insertion does not work on this processor (see above)";
			break;
		}
	}
	cpus_read_unlock();
	/* Speculation may mark one or the other. */
	is_hiding = probe.unmarked < probe.struck / 2;
	pr_info("%u of %u faulting writes mark the page as accessed: read-only pages are %shidden\n",
		probe.struck - probe.unmarked, probe.struck, is_hiding ? "" : "not ");
	return why;
}
