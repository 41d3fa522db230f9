/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of mm/numapte share. */
#ifndef MM_NUMAPTE_H
#define MM_NUMAPTE_H

#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/numapte.h>
#include <linux/numapte_flush.h>
#include <linux/percpu.h>

#include "engine/engine.h"

struct dentry;

#define NUMAPTE_NODES	64	/* a mask of nodes is a u64 */
#define NUMAPTE_LEVELS	(NUMAPTE_PGD + 1)
#define ENTRIES		512

/*
 * What the trees use for one canonical table: ptdesc.pt_numapte of its page. NULL until
 * another tree than the canonical one leads to it.
 *
 * Changed under the lock of the table's entries (PTE level), else under page_table_lock;
 * read under the former, or while something keeps the table: its VMA, or exit. When nothing
 * leads to the table any more, it is taken apart without a lock. Who looked at the entry
 * that led there too early (walk_pte_range()) may still read the table, in a section of RCU
 * as the page itself needs: all its entries are empty, and no replica is asked for these.
 */
struct numapte_table {
#ifdef CONFIG_ABIS
	u16 *spte;		/* first: abis_sptes() */
#endif
	u64 links;		/* nodes that have a page here */
	u64 own;		/* those whose page is a replica, not the canonical page */
#ifdef CONFIG_ABIS_FULL
	u64 inserted;		/* those where a CPU has got an entry without a walk */
#endif
	enum numapte_level level;
	struct rcu_head rcu;
	unsigned long *page[];	/* by node */
};

/* What the CPUs of one node must have caught up to. Each in a line of its own: nodes write. */
struct numapte_gen {
	atomic64_t gen;
#ifdef CONFIG_ABIS_FULL
	u64 ring[32];		/* what the last ones flush: mm/abis/replay.c */
#endif
} ____cacheline_aligned_in_smp;

/* The trees of one address space: mm->context.numapte.mm. Published once, freed with the mm. */
struct numapte_mm {
	struct list_head list;	/* of all: reclaim.c */
	struct mm_struct *mm;
	bool eager;
	bool is_loaded;		/* no CPU walks mm->pgd any more */
	atomic_t asked;		/* debug: how often a CPU was asked for its root */
	u64 nodes;		/* those that have run it */
	struct numapte_gen *gens;	/* filter.c: by node */
	unsigned long *scan_from;	/* reclaim.c: by node, where the next scan begins */
	struct numapte_table top;
};

enum numapte_mode { MODE_OFF, MODE_ON, MODE_EAGER };

extern enum numapte_mode numapte_mode;
extern u64 numapte_forced;	/* debug: nodes that get replicas although no CPU of theirs asks */
extern unsigned int numapte_order;

/* Summed over CPUs in /sys/kernel/debug/numapte/counters. */
struct numapte_stat {
	u64 begun;		/* address spaces that got trees */
	u64 refused;		/* ... that may not have any */
	u64 linked;		/* PTE tables that a tree shares with the canonical one */
	u64 replicated;		/* PTE tables of which a node got a replica */
	u64 copy_faults;	/* faults that copied into a replica */
	u64 copied;		/* entries, at faults */
	u64 propagated;		/* stores into canonical entries that went to replicas, too */
	u64 fallbacks;		/* no memory on the node: shared, or from another node */
	u64 dropped;		/* tables whose replicas were given back while the process ran */
	u64 reclaimed;		/* replicas given back under memory pressure */
	u64 flushed_all;	/* flush requests for all nodes */
	u64 flushed_some;	/* ... for those alone that use the page tables */
	u64 audits;		/* entries compared with a replica */
	u64 audit_failures;
	u64 root_audits;	/* asked whether this CPU holds anything of another root */
	u64 root_failures;
	u64 let_off[NUMAPTE_SITES];	/* asked whether a CPU that is let off holds an entry */
	u64 let_off_failures;
};

DECLARE_PER_CPU(struct numapte_stat, numapte_stat);
extern atomic_long_t numapte_pages[NUMAPTE_LEVELS][NUMAPTE_NODES];

#define numapte_count(field, nr)	this_cpu_add(numapte_stat.field, nr)

/* table.c */
struct numapte_table *numapte_of(const void *entry);
struct numapte_table *numapte_table_alloc(enum numapte_level level, gfp_t gfp);
struct numapte_table *numapte_table_upper(struct mm_struct *mm, struct page *page,
					  enum numapte_level level, gfp_t gfp);
unsigned long *numapte_page_alloc(int node, enum numapte_level level, gfp_t gfp);
void numapte_page_free(unsigned long *page, enum numapte_level level);
void numapte_own(struct numapte_table *table, int node, unsigned long *page);

/* set.c */
void numapte_found_in(unsigned long *entry, u64 found);

/* reclaim.c */
void numapte_reclaim_add(struct numapte_mm *nm);
void numapte_reclaim_del(struct numapte_mm *nm);
void numapte_reclaim_init(void);

/* filter.c */
extern bool numapte_filter;	/* sharers are known in any case: it may be turned off and on */
struct numapte_gen *numapte_gens_alloc(gfp_t gfp);

/* fill.c */
int numapte_fill(struct mm_struct *mm, struct numapte_mm *nm, unsigned long addr, int node,
		 bool must, unsigned long *skip);

/*
 * What a page of tables has for the trees, or NULL. With ABIS the word is shared: a table that
 * has nothing for the trees may have SPTEs there, which move along (abis_sptes()).
 */
static inline struct numapte_table *numapte_table_of(const struct ptdesc *ptdesc)
{
	unsigned long word = READ_ONCE(ptdesc->__page_mapping);

#ifdef CONFIG_ABIS
	word = word & ABIS_SPTE_ELSEWHERE ? word - ABIS_SPTE_ELSEWHERE : 0;
#endif
	return (struct numapte_table *)word;
}

/* @table is complete before it can be found. The lock is held, see struct numapte_table. */
static inline void numapte_table_set(struct ptdesc *ptdesc, struct numapte_table *table)
{
	unsigned long word = (unsigned long)table;

#ifdef CONFIG_ABIS
	table->spte = ptdesc->pt_spte;
	word += ABIS_SPTE_ELSEWHERE;
#endif
	/* Pairs with the look without the lock in numapte_table_of(). */
	smp_store_release(&ptdesc->__page_mapping, word);
}

static inline void numapte_table_unset(struct ptdesc *ptdesc)
{
	unsigned long word = 0;

#ifdef CONFIG_ABIS
	word = (unsigned long)abis_sptes(ptdesc);
#endif
	WRITE_ONCE(ptdesc->__page_mapping, word);
}

/* Does the accessed bit tell who holds an entry? Then nobody but a walk sets it. */
static inline bool numapte_is_tracked(void)
{
#ifdef CONFIG_ABIS
	return abis_tracking();
#else
	return false;
#endif
}

/* The trees of @mm, or NULL. */
static inline struct numapte_mm *numapte_trees(struct mm_struct *mm)
{
	/* Pairs with publish(): the roots are complete. */
	return smp_load_acquire(&mm->context.numapte.mm);
}

static inline unsigned int entry_index(const unsigned long *entry)
{
	return ((unsigned long)entry & ~PAGE_MASK) / sizeof(*entry);
}

/* Nodes that get what is filled although no CPU of theirs has asked. */
static inline u64 numapte_wanted(const struct numapte_mm *nm)
{
	return ((nm->eager ? READ_ONCE(nm->nodes) : 0) | READ_ONCE(numapte_forced)) &
	       nm->top.own;
}

/* Deliberate breaks of the debug kernel: numapte_mutant=NAME. The number is the trap's. */
enum numapte_mutant {
	MUTANT_NONE,
	MUTANT_FULL_CANONICAL,		/* T1 */
	MUTANT_WRPROTECT_UNFOLDED,	/* T2 */
	MUTANT_FOLD_WHOLE,		/* T3 */
	MUTANT_STALE_COPY,		/* T4 */
	MUTANT_GATE_PRESENT,		/* T5 */
	MUTANT_FOLD_EARLY,		/* T7 */
	MUTANT_FREE_EARLY,		/* T8 */
	MUTANT_ENABLE_NOT_LAZY,		/* T9 */
	MUTANT_CLEAR_CANONICAL,		/* T12 */
	MUTANT_DEPOSIT_KEPT,		/* T14 */
	MUTANT_STORE_CANONICAL,		/* a store that forgets the replicas */
	MUTANT_YOUNG_CANONICAL,
	MUTANT_FORK_PLAIN,		/* T30 */
	MUTANT_COPY_OVER,		/* T31 */
	MUTANT_TWO_GIVERS,
	MUTANT_RAISE_NONE,		/* T21 */
	MUTANT_LAST_HOLD,		/* T24 */
	MUTANT_SHARER_PLACE,		/* T26 */
	MUTANT_NESTED_FILTERED,
	MUTANT_ROUND_FILTERED,		/* T22 */
	MUTANTS
};

#ifdef CONFIG_NUMAPTE_DEBUG

extern enum numapte_mutant numapte_mutant_chosen;

void numapte_audit_entry(struct numapte_table *table, unsigned long *entry);
void numapte_audit_kept(const unsigned long *entry, u64 found);
void numapte_audit_show(struct seq_file *file);
void numapte_audit_root(struct mm_struct *mm, struct numapte_mm *nm);
void numapte_audit_root_init(void);
void numapte_audit_filter_init(void);
void numapte_audit_nodes(struct mm_struct *mm, unsigned long addr, unsigned long bytes, u64 nodes,
			 enum numapte_site site);
void numapte_audit_replica(struct mm_struct *mm, unsigned long addr, int node);
bool numapte_denied(gfp_t gfp);
void numapte_debug_init(struct dentry *dir);

static inline bool numapte_mutant(enum numapte_mutant mutant)
{
	return unlikely(READ_ONCE(numapte_mutant_chosen) == mutant);
}

#else

static inline void numapte_audit_entry(struct numapte_table *table, unsigned long *entry) { }
static inline void numapte_audit_kept(const unsigned long *entry, u64 found) { }
static inline void numapte_audit_root(struct mm_struct *mm, struct numapte_mm *nm) { }
static inline void numapte_audit_nodes(struct mm_struct *mm, unsigned long addr,
				       unsigned long bytes, u64 nodes, enum numapte_site site) { }
static inline void numapte_audit_replica(struct mm_struct *mm, unsigned long addr, int node) { }
static inline bool numapte_denied(gfp_t gfp) { return false; }
static inline void numapte_debug_init(struct dentry *dir) { }
static inline bool numapte_mutant(enum numapte_mutant mutant) { return false; }

#endif
#endif
