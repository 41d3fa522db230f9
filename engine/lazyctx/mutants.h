/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Deliberate mistakes, which the tests and the debug kernel must find. In another kernel the
 * compiler leaves nothing of them.
 */
#ifndef LAZYCTX_MUTANTS_H
#define LAZYCTX_MUTANTS_H

#define LAZYCTX_MUTANTS(X) \
	X(NOTHING, "none", "nothing is broken") \
	X(TLB_KEPT, "tlb-kept", "ids are free without a flush of the TLB") \
	X(FREED_AT_ONCE, "freed-at-once", "an id is free when it is retired") \
	X(FREED_EARLY, "freed-early", "an id that is retired during a pass is free when the pass ends") \
	X(LIVE_RECLAIMED, "live-reclaimed", "a pass that begins counts live ids as retired") \
	X(BORROWED_KEPT, "borrowed-kept", "segment registers that a kernel thread has borrowed keep the old id") \
	X(HASHPTE_LEFT, "hashpte-left", "what a new id flushes keeps HASHPTE") \
	X(YOUNG_RENEWS, "young-renews", "clearing an access bit gives a new id") \
	X(DEBT_FORGOTTEN, "debt-forgotten", "a flush of one page does not pay what the address space owes") \
	X(EXIT_UNFLUSHED, "exit-unflushed", "an exiting address space keeps its id while its pages are freed")
#define LAZYCTX_MUTANT_ENUM(id, name, what) LAZYCTX_##id,
enum lazyctx_mutant { LAZYCTX_MUTANTS(LAZYCTX_MUTANT_ENUM) LAZYCTX_MUTANT_COUNT };

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
