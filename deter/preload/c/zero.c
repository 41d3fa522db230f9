/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * MADV_DONTNEED of private, anonymous memory makes it read zero. So does writing zeros, and that needs no flush.
 *
 * mincore() tells which pages to write. It is believed where it says "resident", never where it says "absent": an
 * absent page may be swapped out. Those the kernel drops, which needs no flush as nothing of them is mapped.
 *
 * What differs: zeroing is not atomic per page. A thread that writes meanwhile may see half of a page zeroed.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "deter.h"

/* Pages asked about at once: the stack may be a signal handler's, and small. */
#define PAGES_ASKED 256UL
/* What this library may use of the stack below its caller's frame, with room to spare. */
#define STACK_USED 8192UL

static void write_zeros(uintptr_t start, uintptr_t end)
{
	unsigned long words = (end - start) / sizeof(uint64_t);

	if (BROKEN(6))
		words -= PAGE_BYTES / sizeof(uint64_t);
	__asm__ volatile("rep stosq" : "+D"(start), "+c"(words) : "a"(0UL) : "memory");
}

/* Lock: held. The pages from `start` on, resident or not, that are alike. */
static bool zero_asked(uintptr_t start, uintptr_t end)
{
	unsigned char resident[PAGES_ASKED];
	unsigned long pages = (end - start) / PAGE_BYTES, past;

	if (kernel3(SYS_mincore, (long)start, (long)(end - start), (long)resident) != 0)
		return false;
#ifdef ALL_ABSENT
	/* As if all were swapped out: a test. */
	for (unsigned long i = 0; i < pages; i++)
		resident[i] = 0;
#endif
	for (unsigned long i = 0; i < pages; i = past) {
		const uintptr_t from = start + i * PAGE_BYTES;

		for (past = i + 1; past < pages && (resident[past] & 1) == (resident[i] & 1); past++)
			;
		if (resident[i] & 1)
			write_zeros(from, start + past * PAGE_BYTES);
		else if (!BROKEN(7) &&
			 kernel3(SYS_madvise, (long)from, (long)((past - i) * PAGE_BYTES), MADV_DONTNEED) != 0)
			return false;
	}
	return true;
}

/* A part that was zeroed is no harm where the kernel is asked next. */
bool zero_range(uintptr_t start, uintptr_t end)
{
	const uintptr_t stack = (uintptr_t)__builtin_frame_address(0);
	uint64_t signals;
	bool zeroed = true;

	if (end - start > ZERO_MOST)
		return false;
	/* A program may drop the unused part of its own stack, where this function has its frame. */
	if (!BROKEN(8) && start <= stack && end > stack - STACK_USED)
		return false;
	if (!table_hold(start, end, &signals))
		return false;
	for (uintptr_t at = start; zeroed && at < end; at += PAGES_ASKED * PAGE_BYTES) {
		const uintptr_t most = at + PAGES_ASKED * PAGE_BYTES;

		zeroed = zero_asked(at, most < end ? most : end);
	}
	table_release(signals);
	return zeroed;
}
