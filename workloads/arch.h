/* SPDX-License-Identifier: GPL-2.0-only */
/* What differs between processors, for the harness and for workloads that are not about one. */
#ifndef CEASEFIRE_ARCH_H
#define CEASEFIRE_ARCH_H

#include <stdint.h>

#if defined(__x86_64__)

/* In a loop that waits. */
static inline void cpu_pause(void)
{
	__builtin_ia32_pause();
}

/* A counter of time; where the emulator counts instructions, of these. */
static inline uint64_t cpu_ticks(void)
{
	return __builtin_ia32_rdtsc();
}

#elif defined(__powerpc__)

static inline void cpu_pause(void)
{
	__asm__ volatile("or 1,1,1; or 2,2,2" ::: "memory");
}

static inline uint64_t cpu_ticks(void)
{
	return __builtin_ppc_get_timebase();
}

#else
#error "say here how this processor waits and what it counts"
#endif

#endif
