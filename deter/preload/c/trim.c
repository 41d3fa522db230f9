/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * malloc_trim() gives memory back with MADV_DONTNEED, which interrupts all threads. It may answer 0: nothing was given
 * back. This is no call of memory management that a signal handler could make, so dlsym() may be asked for libc's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>

#include "deter.h"

/* The version that every libc of x86-64 has, in libdl before 2.34. Where there is none, nothing is trimmed. */
extern void *found_by_libc(void *handle, const char *name) __attribute__((weak));
__asm__(".symver found_by_libc, dlsym@GLIBC_2.2.5");

EXPORT int malloc_trim(size_t pad)
{
	static int (*_Atomic next)(size_t);
	int (*trim)(size_t);

	if ((modes_now() & MODE_TRIM) && !stopped())
		return 0;
	trim = next;
	if (!trim && found_by_libc) {
		*(void **)&trim = found_by_libc(RTLD_NEXT, "malloc_trim");
		next = trim;
	}
	return trim ? trim(pad) : 0;
}
