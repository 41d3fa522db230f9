/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef MM_LAZYCTX_H
#define MM_LAZYCTX_H

#include <linux/mm.h>
#include <linux/sched.h>

#include <asm/lazyctx.h>
#include <asm/mmu.h>
#include <asm/mmu_context.h>
#include <asm/reg.h>

#include "engine/engine.h"

/* What flow.h works on is an mm_struct here; a page is its number. */
#define lazyctx_space		mm_struct
#define lazyctx_id(mm)		((mm)->context.id)
#define lazyctx_owes(mm)	((mm)->context.lazyctx.owes)
#define LAZYCTX_OWES		_PAGE_HASHPTE
#define LAZYCTX_NO_PAGE		BIT(31)
#define LAZYCTX_IDS		32768	/* LAST_CONTEXT + 1 */

enum lazyctx_mode { LAZYCTX_OFF, LAZYCTX_SEARCH, LAZYCTX_LAZY, LAZYCTX_LAZY_IDLE, LAZYCTX_MODES };

struct lazyctx_counters {
	u64 searched;		/* pages that were searched for because they lie in a range */
	u64 found;		/* of these, those with an entry */
};

extern struct lazyctx_counters lazyctx_counters;
extern struct static_key_false lazyctx_count_key;
/* Entries that create_hpte() added, and those of them that took another's place. */
extern u32 lazyctx_reloads, lazyctx_evicts;

enum lazyctx_mode lazyctx_mode(void);

/* The hash table. The first word of an entry has the VSID. */
static inline u32 *lazyctx_table(void)
{
	return __va(mfspr(SPRN_SDR1) & 0xffff0000);
}

/* The number of groups of eight entries; a power of two. */
static inline u32 lazyctx_groups(void)
{
	return ((mfspr(SPRN_SDR1) & 0x1ff) + 1) << 10;
}

/* The PTE of a user's page, or NULL: its page table does not exist. */
static inline pte_t *lazyctx_pte(struct mm_struct *mm, unsigned long addr)
{
	pmd_t *pmd = pmd_off(mm, addr);

	return pmd_none(*pmd) ? NULL : pte_offset_kernel(pmd, addr);
}

/* search.c, in mode search alone: all of @mm. */
void lazyctx_search_mm(struct mm_struct *mm);

struct lazyctx;
struct seq_file;

extern struct lazyctx lazyctx;

/* flush.c, for control.c */
void lazyctx_show(struct seq_file *seq);
void lazyctx_set_policy(const struct lazyctx_policy *policy);
void lazyctx_start(void);
void lazyctx_stop(void);
u32 lazyctx_owing(void);
void lazyctx_set_id_space(u32 end);

/*
 * oracle.c, on an emulated machine alone. Return: how many entries there are, in TLBs and hash
 * table, of the ids of @vsids for @pages of a segment from @page on.
 */
u32 oracle_count(const u32 *vsids, u32 nvsids, u32 page, u32 pages);
bool oracle_is_there(void);
void oracle_show(struct seq_file *seq);

struct dentry;

#ifdef CONFIG_LAZYCTX_DEBUG
void lazyctx_check_id(u32 id);
void lazyctx_check_space(struct mm_struct *mm);
void lazyctx_check_gone(struct mm_struct *mm);
void lazyctx_check_page(struct mm_struct *mm, u32 page);
void lazyctx_check_marked(bool is_marked);
void lazyctx_check_failed(void);
void lazyctx_debug_show(struct seq_file *seq);
void lazyctx_debug_init(struct dentry *dir);

void lazyctx_check_young(struct mm_struct *mm, unsigned long id);
#else
static inline void lazyctx_check_id(u32 id) { }
static inline void lazyctx_check_space(struct mm_struct *mm) { }
static inline void lazyctx_check_gone(struct mm_struct *mm) { }
static inline void lazyctx_check_page(struct mm_struct *mm, u32 page) { }
static inline void lazyctx_check_failed(void) { }
static inline void lazyctx_debug_show(struct seq_file *seq) { }
static inline void lazyctx_debug_init(struct dentry *dir) { }
#endif

#endif
