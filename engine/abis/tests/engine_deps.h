/* SPDX-License-Identifier: GPL-2.0-only */
/* What the engine needs from its host, here a hosted C11 compiler or a freestanding one. */
#ifndef ENGINE_DEPS_H
#define ENGINE_DEPS_H

#include <stdbool.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

/* Before each access to a ring somebody else may come in between: tests/ring.c. */
#if __STDC_HOSTED__
extern void (*ring_yield)(void);
static inline void ring_access(void) { if (ring_yield) ring_yield(); }
#else
static inline void ring_access(void) { }
#endif

static inline u64 ring_load(const u64 *from)
{
	ring_access();
	return *from;
}

static inline void ring_store(u64 *to, u64 value)
{
	ring_access();
	*to = value;
}

static inline bool ring_exchange(u64 *at, u64 old, u64 new)
{
	ring_access();
	if (*at != old)
		return false;
	*at = new;
	return true;
}

#endif
