/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Batched write-back: the two decisions about a PTE of a shared file mapping. Why they
 * are enough: docs/proofs/batch.md. The page-table lock is held.
 */
#ifndef BATCH_ENGINE_H
#define BATCH_ENGINE_H

#include "engine_deps.h"

/* Of a PTE that is present. */
struct batch_pte {
	bool writable;
	bool dirty;
};

/*
 * Ahead of writing the page, before the flush: nobody may fill a TLB with the right to
 * write. Dirty, so that nobody takes it for a page that no CPU can write.
 */
static inline struct batch_pte batch_protect(struct batch_pte pte)
{
	return (struct batch_pte){ .writable = false, .dirty = pte.dirty || pte.writable };
}

/* Must a PTE be flushed when it is cleaned? @is_flush_pending: of this address space. */
static inline bool batch_must_flush(struct batch_pte pte, bool is_flush_pending)
{
	return pte.writable || is_flush_pending;
}

#endif
