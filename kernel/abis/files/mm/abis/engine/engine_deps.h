/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the engine needs of the kernel. */
#ifndef ENGINE_DEPS_H
#define ENGINE_DEPS_H

#include <linux/atomic.h>
#include <linux/types.h>

static inline u64 ring_load(const u64 *from)
{
	/* Pairs with ring_store(): who reads a generation reads its range. */
	return smp_load_acquire(from);
}

static inline void ring_store(u64 *to, u64 value)
{
	/* Pairs with ring_load(). */
	smp_store_release(to, value);
}

/* A full barrier where it succeeds. */
static inline bool ring_exchange(u64 *at, u64 old, u64 new)
{
	return cmpxchg(at, old, new) == old;
}

#endif
