/* SPDX-License-Identifier: GPL-2.0-only */
/* What differs between processors, for the harness and for workloads that are not about one. */
#ifndef CEASEFIRE_ARCH_H
#define CEASEFIRE_ARCH_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)

#define CPU_IS_X86 1

/* What one page table maps. */
#define PAGE_TABLE_BYTES (2UL << 20)

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

static inline void cpu_ask(uint32_t leaf, uint32_t index, uint32_t answer[4])
{
	__asm__ volatile("cpuid"
			 : "=a"(answer[0]), "=b"(answer[1]), "=c"(answer[2]), "=d"(answer[3])
			 : "a"(leaf), "c"(index));
}

/* A feature that CPUID announces; of EAX, EBX, ECX, EDX by number. */
static inline bool cpu_has_bit(uint32_t leaf, uint32_t index, uint32_t bit)
{
	uint32_t answer[4];

	cpu_ask(leaf & 0x80000000u, 0, answer);
	if (answer[0] < leaf)
		return false;
	cpu_ask(leaf, 0, answer);
	return answer[index] >> bit & 1;
}

/*
 * Instructions of the guest's kernel, over all CPUs: docs/reference/machine-oracle.md, "Instructions". -1 where the
 * machine does not count them.
 */
static inline int64_t cpu_kernel_instructions(uint32_t index)
{
	uint32_t answer[4];

	cpu_ask(1, 0, answer);
	if (!(answer[2] >> 31))
		return -1;
	cpu_ask(0x40000100, 0, answer);
	if (answer[0] < 0x40000102 || answer[1] != 0x54424c54 || answer[2] != 0x4c54424c || answer[3] != 0x424c5442)
		return -1;
	cpu_ask(0x40000102, index, answer);
	return (int64_t)((uint64_t)answer[3] << 32 | answer[0]);
}

#elif defined(__powerpc__)

#define CPU_IS_X86 0

/* 1,024 entries of 32 bits. */
#define PAGE_TABLE_BYTES (4UL << 20)

static inline void cpu_pause(void)
{
	__asm__ volatile("or 1,1,1; or 2,2,2" ::: "memory");
}

static inline uint64_t cpu_ticks(void)
{
	return __builtin_ppc_get_timebase();
}

static inline bool cpu_has_bit(uint32_t leaf, uint32_t index, uint32_t bit)
{
	(void)leaf;
	(void)index;
	(void)bit;
	return false;
}

static inline int64_t cpu_kernel_instructions(uint32_t index)
{
	(void)index;
	return -1;
}

#else
#error "say here how this processor waits and what it counts"
#endif

#endif
