/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files share that insert: insert.c, insert_machine.c, hide.c, probe.c. */
#ifndef _MM_ABIS_INSERT_H
#define _MM_ABIS_INSERT_H

#include <linux/abis_fault.h>

#include <asm/asm.h>
#include <asm/msr.h>
#include <asm/smap.h>
#include <asm/tlbflush.h>

#include "abis.h"

/* At once, in one page table; and what a single call may ask for. */
#define SLOTS_MAX	32
/* Any canonical address will do; nothing is ever mapped at this one. */
#define NOWHERE		(-PAGE_SIZE)

struct slot {
	unsigned long addr;
	pte_t *ptep;
	/* To be written: there is memory for it. The probe has none. */
	spte_t *spte;
	/* As Linux has it: present. */
	pte_t pte;
	/* What was there when the slot was chosen, if that was hidden. */
	pte_t old;
	bool filled;
	bool hide;
};

enum { PTES, PMDS, PUDS, P4DS, TABLES };

struct secondary {
	struct mm_struct *mm;
	/* The address in CR3. */
	unsigned long root;
	/* The chain below its root; the last is used with five levels only. */
	unsigned long *tables[TABLES];
	/* What the chain is wired for, or NOWHERE. */
	unsigned long addr;
	/* The probe has found that this CPU can insert: by the chain, by request. */
	bool is_proved[2];
	/* Kept back since abis_insert_begin(). */
	unsigned int nr;
	struct slot slots[SLOTS_MAX];
};

DECLARE_PER_CPU(struct secondary *, abis_secondaries);

static __always_inline void flush_page(unsigned long addr)
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

/* May @mm's pages be inserted here and now? Preemption off. */
static inline bool abis_is_loaded(struct mm_struct *mm)
{
	return this_cpu_read(cpu_tlbstate.loaded_mm) == mm &&
	       !this_cpu_read(cpu_tlbstate_shared.is_lazy);
}

static inline void abis_refuse(enum abis_refusal refusal, unsigned int nr)
{
	this_cpu_add(abis_stat.insert_refused[refusal], nr);
}

/* To be mapped as one that nobody has used. */
static inline pte_t abis_mkunused(pte_t pte)
{
	return pte_young(pte) ? pte_set_flags(pte_mkold(pte), _PAGE_SWA) : pte;
}

/* Between two loads of CR3: part of whoever does that. */
static __always_inline void abis_wire_slot(struct secondary *secondary,
					   const struct slot *slot, bool set)
{
	pteval_t value = 0;

	if (set)
		value = (pte_val(slot->pte) & ~_PAGE_SWA) | _PAGE_ACCESSED;
	WRITE_ONCE(secondary->tables[PTES][pte_index(slot->addr)], value);
}

void __abis_wire(struct secondary *secondary, unsigned long addr);

/* The chain to the page table of @addr: no other entry in any of its tables. */
static inline void abis_wire(struct secondary *secondary, unsigned long addr)
{
	if ((secondary->addr ^ addr) & PMD_MASK)
		__abis_wire(secondary, addr);
}

/*
 * After the fill: whoever holds it filled it before this version is read. Where nobody can be
 * told that this CPU holds it, it does so no longer, and counts as one of anybody.
 */
static inline void abis_set_private(struct mm_struct *mm, struct slot *slot)
{
	if (!abis_tell_inserted(mm, slot->ptep)) {
		set_bit(_PAGE_BIT_ACCESSED, (unsigned long *)&slot->ptep->pte);
		/* Hidden and used does not go together. */
		abis_reveal(slot->ptep, 1);
		flush_page(slot->addr);
		slot->filled = false;
		return;
	}
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
static inline bool abis_set_slot(struct mm_struct *mm, const struct slot *slot, pte_t pte)
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

/* Nobody may have the page already, but by a hidden entry. */
static inline void abis_check_unmapped(const struct slot *slot)
{
	if (!IS_ENABLED(CONFIG_ABIS_DEBUG) || pte_hidden(slot->old))
		return;
	if (pte_present(ptep_get(slot->ptep)))
		abis_debug_violation("mapped before it is inserted", slot->addr, slot->pte);
}

void abis_fill_tlb(struct mm_struct *mm, struct secondary *secondary, struct slot *slots,
		   unsigned int nr);
void abis_insert(struct mm_struct *mm, struct secondary *secondary, struct slot *slots,
		 unsigned int nr);
bool abis_may_insert(struct mm_struct *mm, spte_t spte, pte_t old);
bool abis_is_plain(struct vm_area_struct *vma, pte_t pte);
bool abis_is_insertable(struct vm_area_struct *vma, pte_t pte);

#ifdef CONFIG_ABIS_HIDE
bool abis_hides_fault(const struct vm_fault *vmf, pte_t pte);
#else
static inline bool abis_hides_fault(const struct vm_fault *vmf, pte_t pte) { return false; }
#endif

/* By request of the machine (insert_machine.c). */
#ifdef CONFIG_ABIS_INSERT_MACHINE

/* Its model-specific register; 0: by a secondary. Set while nothing is inserted. */
extern unsigned int abis_request_msr;

#define MACHINE_INSERT_MSR	0x400000f1

static inline void abis_request(unsigned int msr, unsigned long addr, unsigned int pages)
{
	wrmsrl(msr, addr | (pages - 1));
}

bool abis_machine_inserts(void);
void abis_insert_by_request(struct mm_struct *mm, struct slot *slots, unsigned int nr);

#else

#define abis_request_msr	0
#define MACHINE_INSERT_MSR	0
static inline void abis_request(unsigned int msr, unsigned long addr, unsigned int pages) { }
static inline bool abis_machine_inserts(void) { return false; }
static inline void abis_insert_by_request(struct mm_struct *mm, struct slot *slots,
					  unsigned int nr) { }

#endif
#endif /* _MM_ABIS_INSERT_H */
