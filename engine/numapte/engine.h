/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Page tables replicated per node: the decisions about one entry or one table of x86-64.
 * The canonical tree is complete, and software reads it alone. A replica holds for each
 * canonical entry either nothing or what numapte_replica() says; hardware sets A and D in
 * the page that it walks. The lock of the canonical entry is held: docs/proofs/numapte.md.
 */
#ifndef NUMAPTE_ENGINE_H
#define NUMAPTE_ENGINE_H

#include "engine_deps.h"

/* Intel SDM 3A, 4.5; the bits that Linux keeps for itself: arch/x86/include/asm/pgtable_types.h. */
#define NUMAPTE_PRESENT		(1ull << 0)
#define NUMAPTE_RW		(1ull << 1)
#define NUMAPTE_ACCESSED	(1ull << 5)
#define NUMAPTE_DIRTY		(1ull << 6)
#define NUMAPTE_PSE		(1ull << 7)		/* above the PTE level */
#define NUMAPTE_SAVED_DIRTY	(1ull << 58)
#define NUMAPTE_FRAME		0x000ffffffffff000ull
#define NUMAPTE_SOFTWARE	(7ull << 9 | 0x7full << 52)
/* KNL sets these in entries that are not present, too (_PAGE_KNL_ERRATUM_MASK). */
#define NUMAPTE_STRAY		(NUMAPTE_ACCESSED | NUMAPTE_DIRTY)

enum numapte_level { NUMAPTE_PTE, NUMAPTE_PMD, NUMAPTE_PUD, NUMAPTE_P4D, NUMAPTE_PGD };

/* Can hardware use it? Neither PROT_NONE nor a PMD that is being split: pte_present() is another question. */
static inline bool numapte_walkable(u64 entry)
{
	return entry & NUMAPTE_PRESENT;
}

static inline bool numapte_is_table(enum numapte_level level, u64 entry)
{
	return level != NUMAPTE_PTE && numapte_walkable(entry) && !(entry & NUMAPTE_PSE);
}

/*
 * What a store of @entry into the canonical table puts into each replica. An entry that
 * leads to a table is linked by a fault of its node alone: until then, nothing.
 */
static inline u64 numapte_replica(enum numapte_level level, u64 entry)
{
	if (!numapte_walkable(entry) || numapte_is_table(level, entry))
		return 0;
	return entry & ~NUMAPTE_SOFTWARE;
}

/* Is there something to copy at a fill? What is there already is right, and may be dirty. */
static inline bool numapte_must_copy(enum numapte_level level, u64 entry, u64 replica)
{
	return numapte_replica(level, entry) && !numapte_walkable(replica);
}

/* What a fill copies. @accessed: it is the entry of the fault; a neighbour has not been used on this node. */
static inline u64 numapte_copy(enum numapte_level level, u64 entry, bool accessed)
{
	entry = numapte_replica(level, entry);
	if (!entry)
		return 0;
	return accessed ? entry | NUMAPTE_ACCESSED : entry & ~NUMAPTE_ACCESSED;
}

/* What a node's upper table holds where the canonical one holds @entry; @page: the node's page of the table below. */
static inline u64 numapte_link(u64 entry, u64 page)
{
	return (entry & ~(NUMAPTE_FRAME | NUMAPTE_ACCESSED)) | page;
}

/* Must a store reach the replicas? Not if they hold nothing, and are to hold nothing. */
static inline bool numapte_must_store(enum numapte_level level, u64 old, u64 entry)
{
	return numapte_walkable(old) || numapte_replica(level, entry);
}

/*
 * The bits to set in @entry, canonical or just taken out of there, for what hardware has set in
 * @replica. Never rights, nor a frame. Dirty without the right to write would be a shadow stack;
 * pte_mkdirty() would set soft-dirty, too. A stray bit means nothing, nor one of another page.
 */
static inline u64 numapte_found(u64 entry, u64 replica)
{
	u64 found;

	if (!numapte_walkable(entry) || !numapte_walkable(replica) || (entry ^ replica) & NUMAPTE_FRAME)
		return 0;
	found = replica & NUMAPTE_ACCESSED;
	if (replica & NUMAPTE_DIRTY && !(entry & (NUMAPTE_DIRTY | NUMAPTE_SAVED_DIRTY)))
		found |= entry & NUMAPTE_RW ? NUMAPTE_DIRTY : NUMAPTE_SAVED_DIRTY;
	return found;
}

static inline u64 numapte_fold(u64 entry, u64 replica)
{
	return entry | numapte_found(entry, replica);
}

/*
 * Would a plain store of @entry over @replica lose what hardware has set? Only after a plain
 * read and without a clear between: nobody may do so where another CPU can write (debug).
 */
static inline bool numapte_loses(u64 entry, u64 replica)
{
	return replica & NUMAPTE_RW && numapte_found(entry, replica) & (NUMAPTE_DIRTY | NUMAPTE_SAVED_DIRTY);
}

/* A replica after ptep_set_wrprotect(); its dirty bit goes to the canonical entry: numapte_found() of the old one. */
static inline u64 numapte_wrprotect(u64 replica)
{
	return numapte_walkable(replica) ? replica & ~(NUMAPTE_RW | NUMAPTE_DIRTY) : 0;
}

/*
 * The nodes whose CPUs a flush must reach. @links: the nodes whose trees use the tables that it is
 * about, read in the hold of the lock in which their slots were changed. @rooted: the nodes that
 * have a root; CPUs of others walk the canonical tree, and so do all until each has @loaded its root.
 */
static inline u64 numapte_flushed(u64 links, u64 rooted, bool loaded)
{
	return loaded ? links | ~rooted : ~0ull;
}

/* What a node's upper table is to lead to. */
enum numapte_place { NUMAPTE_NOWHERE, NUMAPTE_OWN, NUMAPTE_CANONICAL };

/*
 * At a fault: @home: the canonical page lies on this node; @own: a page of this node could be had;
 * @split: copies are wanted even there (debug). Only PTE pages are shared: a canonical table above
 * them leads to canonical tables alone.
 */
static inline enum numapte_place numapte_place(enum numapte_level level, bool home, bool own, bool split)
{
	if (level == NUMAPTE_PTE && home && !split)
		return NUMAPTE_CANONICAL;
	if (own)
		return NUMAPTE_OWN;
	return level == NUMAPTE_PTE ? NUMAPTE_CANONICAL : NUMAPTE_NOWHERE;
}

/* How far a replica, or a whole table, is on its way out: each step on all nodes and CPUs before the next begins. */
enum numapte_leaving { NUMAPTE_LINKED, NUMAPTE_UNLINKED, NUMAPTE_FLUSHED, NUMAPTE_FOLDED };

/* Until the flush, CPUs set A and D in it. */
static inline bool numapte_may_fold(enum numapte_leaving leaving)
{
	return leaving >= NUMAPTE_FLUSHED;
}

/* @stays: the canonical table does, and with it what its entries say. */
static inline bool numapte_may_free(enum numapte_leaving leaving, bool stays)
{
	return leaving >= (stays ? NUMAPTE_FOLDED : NUMAPTE_FLUSHED);
}

/* What is wrong with a replica's entry. */
enum numapte_wrong {
	NUMAPTE_RIGHT,
	NUMAPTE_NOT_GRANTED,	/* the canonical entry is not one for hardware */
	NUMAPTE_LITTER,		/* not present, and not empty; or bits of software */
	NUMAPTE_OTHER_TABLE,	/* it does not lead to this node's page of the table */
	NUMAPTE_OTHER_FRAME,
	NUMAPTE_OTHER_RIGHTS,
	NUMAPTE_OTHER_DIRTY,	/* not writable, and the shadow stack's bit differs */
};

/*
 * Of one entry, with its lock held. @page: this node's page of the table that @entry leads to, or 0.
 * Processors without shadow stacks may set dirty where the right to write was just taken
 * (ptep_set_wrprotect()): NUMAPTE_OTHER_DIRTY is no fault there.
 */
static inline enum numapte_wrong numapte_audit(enum numapte_level level, u64 entry, u64 replica, u64 page)
{
	u64 differs;

	if (!numapte_walkable(replica))
		return replica & ~NUMAPTE_STRAY ? NUMAPTE_LITTER : NUMAPTE_RIGHT;
	if (!numapte_walkable(entry))
		return NUMAPTE_NOT_GRANTED;
	if (numapte_is_table(level, entry)) {
		differs = (numapte_link(entry, page) ^ replica) & ~NUMAPTE_STRAY;
		return !page || differs ? NUMAPTE_OTHER_TABLE : NUMAPTE_RIGHT;
	}
	if (numapte_is_table(level, replica))
		return NUMAPTE_OTHER_TABLE;
	if (replica & NUMAPTE_SOFTWARE)
		return NUMAPTE_LITTER;
	differs = (entry ^ replica) & ~(NUMAPTE_SOFTWARE | NUMAPTE_ACCESSED);
	if (differs & NUMAPTE_FRAME)
		return NUMAPTE_OTHER_FRAME;
	if (differs & ~NUMAPTE_DIRTY)
		return NUMAPTE_OTHER_RIGHTS;
	return differs && !(entry & NUMAPTE_RW) ? NUMAPTE_OTHER_DIRTY : NUMAPTE_RIGHT;
}

#endif
