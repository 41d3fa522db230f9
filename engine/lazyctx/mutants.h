/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Deliberate mistakes, which the tests and the debug kernel must find. In another kernel the
 * compiler leaves nothing of them.
 */
#ifndef LAZYCTX_MUTANTS_H
#define LAZYCTX_MUTANTS_H

enum lazyctx_mutant {
	LAZYCTX_NOTHING,
	LAZYCTX_TLB_KEPT,	/* ids are free without a flush of the TLB */
	LAZYCTX_FREED_AT_ONCE,	/* an id is free when it is retired */
	LAZYCTX_FREED_EARLY,	/* an id that is retired during a pass is free when the pass ends */
	LAZYCTX_LIVE_RECLAIMED,	/* a pass that begins counts live ids as retired */
	LAZYCTX_BORROWED_KEPT,	/* segment registers that a kernel thread has borrowed keep the old id */
	LAZYCTX_HASHPTE_LEFT,	/* what a new id flushes keeps HASHPTE */
	LAZYCTX_YOUNG_RENEWS,	/* clearing an access bit gives a new id */
	LAZYCTX_DEBT_FORGOTTEN,	/* a flush of one page does not pay what the address space owes */
	LAZYCTX_EXIT_UNFLUSHED,	/* an exiting address space keeps its id while its pages are freed */
	LAZYCTX_NESTED_EXITS,	/* a flush of everything, since gathers were nested, is taken for an exit */
	LAZYCTX_PASS_SHORT,	/* a pass leaves the last entry of the hash table */
	LAZYCTX_MUTANTS,
};

#ifdef LAZYCTX_MUTANT_NAMES
static const char * const lazyctx_mutant_names[LAZYCTX_MUTANTS] = {
	[LAZYCTX_NOTHING] = "none",
	[LAZYCTX_TLB_KEPT] = "tlb-kept",
	[LAZYCTX_FREED_AT_ONCE] = "freed-at-once",
	[LAZYCTX_FREED_EARLY] = "freed-early",
	[LAZYCTX_LIVE_RECLAIMED] = "live-reclaimed",
	[LAZYCTX_BORROWED_KEPT] = "borrowed-kept",
	[LAZYCTX_HASHPTE_LEFT] = "hashpte-left",
	[LAZYCTX_YOUNG_RENEWS] = "young-renews",
	[LAZYCTX_DEBT_FORGOTTEN] = "debt-forgotten",
	[LAZYCTX_EXIT_UNFLUSHED] = "exit-unflushed",
	[LAZYCTX_NESTED_EXITS] = "nested-exits",
	[LAZYCTX_PASS_SHORT] = "pass-short",
};
#endif

#if defined(CONFIG_LAZYCTX_DEBUG) || !defined(__KERNEL__)
extern enum lazyctx_mutant lazyctx_mutant;

static inline bool lazyctx_broken(enum lazyctx_mutant mutant)
{
	return lazyctx_mutant == mutant;
}
#else
static inline bool lazyctx_broken(enum lazyctx_mutant mutant)
{
	return false;
}
#endif

#endif
