/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Changes of page tables, where these may have replicas on other nodes (mm/numapte/set.c).
 * Whoever changes a table holds what it always held: the lock of the canonical table.
 * Included by <asm/pgtable.h> alone, behind the native functions.
 */
#ifndef _ASM_X86_NUMAPTE_H
#define _ASM_X86_NUMAPTE_H

#ifdef CONFIG_NUMAPTE

#include <linux/jump_label.h>

DECLARE_STATIC_KEY_FALSE(numapte_key);

/* Has any address space got trees? */
static __always_inline bool numapte_on(void)
{
	return static_branch_unlikely(&numapte_key);
}

void __numapte_store(unsigned long *entry, unsigned long value);
unsigned long __numapte_exchange(unsigned long *entry, unsigned long value);
void __numapte_wrprotect(unsigned long *entry);
int __numapte_clear_young(unsigned long *entry);
unsigned long __numapte_read(unsigned long *entry);

#define NUMAPTE_SETTER(level, entry_arg, value_arg)					\
static inline void numapte_set_##level(entry_arg, value_arg)				\
{											\
	if (numapte_on())								\
		__numapte_store((unsigned long *)entry, native_##level##_val(value));	\
	else										\
		native_set_##level(entry, value);					\
}

NUMAPTE_SETTER(pte, pte_t *entry, pte_t value)
NUMAPTE_SETTER(pmd, pmd_t *entry, pmd_t value)
NUMAPTE_SETTER(pud, pud_t *entry, pud_t value)
NUMAPTE_SETTER(p4d, p4d_t *entry, p4d_t value)
NUMAPTE_SETTER(pgd, pgd_t *entry, pgd_t value)

static inline pte_t numapte_ptep_get_and_clear(pte_t *ptep)
{
	if (numapte_on())
		return native_make_pte(__numapte_exchange(&ptep->pte, 0));
	return native_ptep_get_and_clear(ptep);
}

static inline pmd_t numapte_pmdp_get_and_clear(pmd_t *pmdp)
{
	if (numapte_on())
		return native_make_pmd(__numapte_exchange(&pmdp->pmd, 0));
	return native_pmdp_get_and_clear(pmdp);
}

static inline pud_t numapte_pudp_get_and_clear(pud_t *pudp)
{
	if (numapte_on())
		return native_make_pud(__numapte_exchange(&pudp->pud, 0));
	return native_pudp_get_and_clear(pudp);
}

static inline void numapte_pte_clear(struct mm_struct *mm, unsigned long addr, pte_t *ptep)
{
	numapte_set_pte(ptep, native_make_pte(0));
}

#undef set_pte
#define set_pte(ptep, pte)		numapte_set_pte(ptep, pte)
#undef set_pte_atomic
#define set_pte_atomic(ptep, pte)	numapte_set_pte(ptep, pte)
#undef pte_clear
#define pte_clear(mm, addr, ptep)	numapte_pte_clear(mm, addr, ptep)
#undef set_pmd
#define set_pmd(pmdp, pmd)		numapte_set_pmd(pmdp, pmd)
#undef pmd_clear
#define pmd_clear(pmdp)			numapte_set_pmd(pmdp, native_make_pmd(0))
#undef set_pud
#define set_pud(pudp, pud)		numapte_set_pud(pudp, pud)
#undef pud_clear
#define pud_clear(pudp)			numapte_set_pud(pudp, native_make_pud(0))
#undef set_p4d
#define set_p4d(p4dp, p4d)		numapte_set_p4d(p4dp, p4d)
#undef p4d_clear
#define p4d_clear(p4dp)			numapte_set_p4d(p4dp, native_make_p4d(0))
#undef set_pgd
#define set_pgd(pgdp, pgd)		numapte_set_pgd(pgdp, pgd)
#undef pgd_clear
#define pgd_clear(pgdp)							\
	(pgtable_l5_enabled() ? numapte_set_pgd(pgdp, native_make_pgd(0)) : 0)

#else

static __always_inline bool numapte_on(void) { return false; }
static inline void __numapte_wrprotect(unsigned long *entry) { }
static inline int __numapte_clear_young(unsigned long *entry) { return 0; }
static inline unsigned long __numapte_exchange(unsigned long *entry, unsigned long value)
{
	return 0;
}

#define numapte_ptep_get_and_clear	native_ptep_get_and_clear
#define numapte_pmdp_get_and_clear	native_pmdp_get_and_clear
#define numapte_pudp_get_and_clear	native_pudp_get_and_clear

#endif
#endif
