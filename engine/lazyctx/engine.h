/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Lazy contexts (Dougan, 1999) on a hashed page table: which context ids are free, and when an
 * address space gets a new one in place of a flush of its pages. No Linux in it.
 *
 * id       the number of a context. A hardware entry names it by its VSID.
 * free     nothing names it: neither the hash table nor a TLB.
 * live     an address space has it.
 * zombie   retired. Entries may still name it, and no access can match them.
 * leaving  retired before the pass began that is under way.
 * pass     a look at the whole hash table that takes out entries of ids that are not live.
 *
 *     free --take--> live --retire--> zombie --pass begins--> leaving
 *      ^                                                         |
 *      +------- the pass has seen everything, and then ----------+
 *               the whole TLB was flushed
 */
#ifndef LAZYCTX_ENGINE_H
#define LAZYCTX_ENGINE_H

#include "engine_deps.h"	/* u32, u64, bool; supplied by each host */
#include "mutants.h"

/* The kernel's own context: neither taken nor retired. */
#define LAZYCTX_KERNEL	0u
#define LAZYCTX_NONE	0u	/* lazyctx_take(): there is none */

/*
 * Linux (CTX_TO_VSID): vsid = id * 897 * 16 + segment * 0x111, modulo 2^24. The low four bits
 * are the segment's; 897 is odd, so the rest leads back to the id.
 */
#define LAZYCTX_SKEW		897u
#define LAZYCTX_SKEW_INVERSE	0xc3c81u	/* 897 * 0xc3c81 = 1 modulo 2^20 */
#define LAZYCTX_SEGMENT_SKEW	0x111u
#define LAZYCTX_IDS_MAX		(1u << 20)

static inline u32 lazyctx_vsid(u32 id, u32 segment)
{
	return (id * (LAZYCTX_SKEW * 16) + segment * LAZYCTX_SEGMENT_SKEW) & 0xffffff;
}

static inline u32 lazyctx_id_of(u32 vsid)
{
	return ((vsid >> 4) - (vsid & 15) * (LAZYCTX_SEGMENT_SKEW >> 4)) * LAZYCTX_SKEW_INVERSE &
		(LAZYCTX_IDS_MAX - 1);
}

/* The first word of an entry of the hash table. */
#define LAZYCTX_VALID		0x80000000u
#define LAZYCTX_VSID_SHIFT	7

static inline u32 lazyctx_entry_id(u32 word)
{
	return lazyctx_id_of(word >> LAZYCTX_VSID_SHIFT & 0xffffff);
}

enum lazyctx_pass {
	LAZYCTX_NO_PASS,
	LAZYCTX_SCANNING,
	LAZYCTX_SCANNED,	/* nothing names a leaving id but the TLBs */
};

/* A bit for each id, in words of 32. Its owner makes them, and keeps others out. */
struct lazyctx_ids {
	u32 *used;		/* not free */
	u32 *live;
	u32 *leaving;
	u32 *worn;		/* were retired once */
	u32 words;		/* of each map */
	u32 end;		/* ids below it are taken; at most 32 * words */
	u32 next;		/* where to look for a free one */
	u32 zombies;		/* how many; without those that are leaving */
	u32 leavers;
	enum lazyctx_pass pass;
};

static inline bool lazyctx_bit(const u32 *map, u32 id)
{
	return map[id / 32] >> id % 32 & 1;
}

/* One that is not Linux's is nobody's to reclaim. */
static inline bool lazyctx_is_live(const struct lazyctx_ids *ids, u32 id)
{
	return id / 32 >= ids->words || lazyctx_bit(ids->live, id);
}

static inline bool lazyctx_is_free(const struct lazyctx_ids *ids, u32 id)
{
	return !lazyctx_bit(ids->used, id);
}

/* Return: an id that was free and is live now, or LAZYCTX_NONE. */
static inline u32 lazyctx_take(struct lazyctx_ids *ids)
{
	u32 words = (ids->end + 31) / 32;
	u32 word = ids->next / 32 < words ? ids->next / 32 : 0;
	u32 mask = ~0u << ids->next % 32;
	u32 i, id, unused;

	/* The first word twice: from the next id on, and then from its beginning. */
	for (i = 0; i <= words; i++) {
		unused = ~ids->used[word] & mask;
		if (unused) {
			id = word * 32 + (u32)__builtin_ctz(unused);
			if (id < ids->end) {
				ids->used[word] |= 1u << id % 32;
				ids->live[word] |= 1u << id % 32;
				ids->next = id + 1 < ids->end ? id + 1 : 1;
				return id;
			}
		}
		mask = ~0u;
		word = word + 1 < words ? word + 1 : 0;
	}
	return LAZYCTX_NONE;
}

/* No address space has it any more, and no segment register. */
static inline void lazyctx_retire(struct lazyctx_ids *ids, u32 id)
{
	if (lazyctx_broken(LAZYCTX_FREED_AT_ONCE)) {
		ids->used[id / 32] &= ~(1u << id % 32);
		ids->next = id;
	} else {
		ids->zombies++;
	}
	ids->worn[id / 32] |= 1u << id % 32;
	ids->live[id / 32] &= ~(1u << id % 32);
}

/* Return: whether a pass is under way now. It is not if nothing is retired. */
static inline bool lazyctx_begin_pass(struct lazyctx_ids *ids)
{
	u32 i;

	if (ids->pass != LAZYCTX_NO_PASS)
		return true;
	if (!ids->zombies)
		return false;
	/* Every id that is neither free nor live is retired. */
	for (i = 0; i < ids->words; i++) {
		ids->leaving[i] = ids->used[i] & ~ids->live[i];
		if (lazyctx_broken(LAZYCTX_LIVE_RECLAIMED))
			ids->leaving[i] = ids->used[i] & ~(i ? 0u : 1u);
	}
	ids->leavers = ids->zombies;
	ids->zombies = 0;
	ids->pass = LAZYCTX_SCANNING;
	return true;
}

/* The pass has seen the whole hash table. */
static inline void lazyctx_scanned(struct lazyctx_ids *ids)
{
	ids->pass = LAZYCTX_SCANNED;
}

/* ... and after that the whole TLB was flushed. Return: how many ids are free now. */
static inline u32 lazyctx_end_pass(struct lazyctx_ids *ids)
{
	u32 freed = ids->leavers, i;

	if (ids->pass != LAZYCTX_SCANNED)
		return 0;
	for (i = 0; i < ids->words; i++) {
		/* One that was retired after the pass began may have entries in what it had seen by then. */
		if (lazyctx_broken(LAZYCTX_FREED_EARLY))
			ids->leaving[i] = ids->used[i] & ~ids->live[i];
		ids->used[i] &= ~ids->leaving[i];
		ids->leaving[i] = 0;
	}
	ids->leavers = 0;
	ids->pass = LAZYCTX_NO_PASS;
	return freed;
}

/*
 * An address space has a new id. Must the segment registers be loaded? @is_active: they are
 * its own, be it that a kernel thread has borrowed it: what runs next may take them as they are.
 */
static inline bool lazyctx_must_load(bool is_active, bool is_borrowed)
{
	return is_active && !(is_borrowed && lazyctx_broken(LAZYCTX_BORROWED_KEPT));
}

/* When a range is flushed by a new id. */
struct lazyctx_policy {
	bool renews;		/* else nothing ever is */
	u32 cutoff;		/* pages: no more than these are flushed one by one */
};

/* At most @pages would be flushed: those that have an entry. */
static inline bool lazyctx_pays(const struct lazyctx_policy *policy, u32 pages)
{
	return policy->renews && pages > policy->cutoff;
}

#endif
