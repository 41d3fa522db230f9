/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * PTEs that are hidden: present to Linux, not present to hardware. A CPU may hold
 * the entry all the same, and no walk can set its accessed bit. Never writable. It may be
 * revealed at any time, without the lock: change one by an exchange. See mm/abis/hide.c.
 * Included by asm/pgtable.h, whose functions it uses.
 */
#ifndef _ASM_X86_ABIS_HIDDEN_H
#define _ASM_X86_ABIS_HIDDEN_H

#ifdef CONFIG_ABIS_HIDE

static inline bool pte_hidden(pte_t pte)
{
	/* Of nearly all one bit tells, without a constant of 64 bits. */
	return unlikely(!(pte_flags(pte) & _PAGE_PRESENT)) &&
	       (pte_flags(pte) & (_PAGE_PROTNONE | _PAGE_HIDDEN)) ==
	       (_PAGE_PROTNONE | _PAGE_HIDDEN);
}

static inline pte_t pte_hide(pte_t pte)
{
	pteval_t old = pte_val(pte);
	pteval_t val = (old & ~_PAGE_PRESENT) | _PAGE_PROTNONE | _PAGE_HIDDEN;

	return __pte(flip_protnone_guard(old, val, PTE_PFN_MASK));
}

pte_t __pte_reveal(pte_t pte);

static inline pte_t pte_reveal(pte_t pte)
{
	return unlikely(!(pte_flags(pte) & _PAGE_PRESENT)) ? __pte_reveal(pte) : pte;
}

#else

static inline bool pte_hidden(pte_t pte) { return false; }
static inline pte_t pte_hide(pte_t pte) { return pte; }
static inline pte_t pte_reveal(pte_t pte) { return pte; }

#endif
#define pte_hidden pte_hidden

#endif /* _ASM_X86_ABIS_HIDDEN_H */
