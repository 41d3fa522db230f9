/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the parts of the library know of each other.
 *
 *   state.c    which modes are on; who may use them; when to stop
 *   table.c    the ranges that this library saw mapped private, anonymous, read-write
 *   zero.c     MADV_DONTNEED as zeroing
 *   calls.c    the calls of libc that are answered or watched
 *   syscall.c  the same through syscall()
 *   trim.c     malloc_trim
 *
 * Everything here may run in a signal handler, before constructors and after fork: no allocation, no lock of libc.
 */
#ifndef DETER_H
#define DETER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel.h"

#define EXPORT __attribute__((visibility("default")))

/* Deliberate mistakes: the tests compile each, and show that they notice it. */
#ifndef BREAK
#define BREAK 0
#endif
#define BROKEN(n) (BREAK == (n))

/* Ranges at once; what does not fit passes through. The tests make it smaller. */
#ifndef RANGES_MOST
#define RANGES_MOST 4096u
#endif
/* Changes in flight at once: one a thread, and one more a signal handler in it. */
#define CHANGES_MOST 64
#define NO_CHANGE -1

/* Longer ranges are the kernel's: zeroing holds the lock, with signals blocked. */
#define ZERO_MOST (16UL << 20)

enum modes {
	MODE_DECIDED = 1,
	MODE_TRIM = 2,
	MODE_FREE = 4,
	MODE_ZERO = 8,
};
#define MODES_OF_RANGES (MODE_FREE | MODE_ZERO)

/* state.c */
unsigned int modes_now(void);
bool stopped(void);
bool in_heap(uintptr_t start, uintptr_t end);

/* table.c */
bool table_prepare(void);
bool table_used(void);
void table_retire(void);
bool table_covers(uintptr_t start, uintptr_t end);
int change_announce(uintptr_t start, uintptr_t end);
int change_begin(uintptr_t start, uintptr_t end);
void change_keep(int change, uintptr_t start, uintptr_t end);
void change_end(int change);
void table_forget(uintptr_t start, uintptr_t end);
bool table_hold(uintptr_t start, uintptr_t end, uint64_t *signals);
void table_release(uint64_t signals);

/* zero.c: true where the range now reads zero. */
bool zero_range(uintptr_t start, uintptr_t end);

/* calls.c: the kernel's answer, or ours in its form. */
long watched_call(long number, long a, long b, long c, long d, long e, long f);
long answer(long result);

/* Ranges in whole pages; one that would wrap ends with the address space. */
static inline uintptr_t page_down(uintptr_t address)
{
	return address & ~(PAGE_BYTES - 1);
}

static inline uintptr_t range_end(uintptr_t start, size_t length)
{
	const uintptr_t end = start + length;

	if (end < start || end > UINTPTR_MAX - PAGE_BYTES)
		return page_down(UINTPTR_MAX);
	return page_down(end + PAGE_BYTES - 1);
}

#endif
