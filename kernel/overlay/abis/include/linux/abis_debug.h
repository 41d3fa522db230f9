/* SPDX-License-Identifier: GPL-2.0-only */
/* What the page-table accessors of the debug kernel look at. See mm/abis/debug.c. */
#ifndef _LINUX_ABIS_DEBUG_H
#define _LINUX_ABIS_DEBUG_H

#ifdef CONFIG_ABIS_DEBUG
void abis_debug_set_ptes(struct mm_struct *mm, pte_t *ptep, pte_t pte, unsigned int nr);
#else
static inline void abis_debug_set_ptes(struct mm_struct *mm, pte_t *ptep, pte_t pte,
				       unsigned int nr) { }
#endif

#endif /* _LINUX_ABIS_DEBUG_H */
