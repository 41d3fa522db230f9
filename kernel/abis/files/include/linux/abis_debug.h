/* SPDX-License-Identifier: GPL-2.0-only */
/* What the page-table accessors of the debug kernel look at. See mm/abis/debug/. */
#ifndef _LINUX_ABIS_DEBUG_H
#define _LINUX_ABIS_DEBUG_H

#include <linux/types.h>

struct mm_struct;

/* How a CPU loses all that it holds of an address space. Names: loss_names. */
enum abis_loss {
	ABIS_LOST_NOTHING,
	ABIS_LOST_LAG_SWITCH,	/* behind tlb_gen when it takes the address space up */
	ABIS_LOST_LAG_LAZY,	/* ... when it ceases to be lazy */
	ABIS_LOST_LAG_IPI,	/* ... by more than the range it is asked to flush */
	ABIS_LOST_ASKED,	/* asked to flush everything */
	ABIS_LOST_OWED,		/* it owed a flush */
	ABIS_LOST_ASID,		/* another address space takes its ASID */
	ABIS_LOST_REPLAY,	/* not all: the pages that it had missed, to catch up */
	ABIS_LOSSES,
};

#ifdef CONFIG_ABIS_DEBUG
void abis_debug_lost(u16 asid, enum abis_loss why);
void abis_debug_publishing(struct mm_struct *mm, int change);
void abis_debug_set_ptes(struct mm_struct *mm, pte_t *ptep, pte_t pte, unsigned int nr);
bool abis_debug_spares_moved(void);
void abis_debug_tables(struct mm_struct *mm, unsigned long start, unsigned long end);
void abis_debug_flushed(struct mm_struct *mm, unsigned long addr);
#else
static inline void abis_debug_lost(u16 asid, enum abis_loss why) { }
static inline void abis_debug_publishing(struct mm_struct *mm, int change) { }
static inline void abis_debug_set_ptes(struct mm_struct *mm, pte_t *ptep, pte_t pte,
				       unsigned int nr) { }
static inline bool abis_debug_spares_moved(void) { return false; }
static inline void abis_debug_tables(struct mm_struct *mm, unsigned long start,
				     unsigned long end) { }
static inline void abis_debug_flushed(struct mm_struct *mm, unsigned long addr) { }
#endif

#endif /* _LINUX_ABIS_DEBUG_H */
