/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel, asked without libc: no errno, no cancellation, no lock of others.
 * A result from -4095 to -1 is an error.
 */
#ifndef DETER_KERNEL_H
#define DETER_KERNEL_H

#ifndef __x86_64__
#error "the preload library knows the system calls of x86-64 alone"
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#define PAGE_BYTES 4096UL
#define ERRORS_FROM -4095UL

static inline long kernel6(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

static inline long kernel4(long number, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
}

static inline long kernel3(long number, long a, long b, long c)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return result;
}

static inline bool failed(long result)
{
	return (unsigned long)result >= ERRORS_FROM;
}

#endif
