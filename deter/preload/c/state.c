/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which modes are on. CEASEFIRE_DETER has words with commas between: trim, free, zero, loose. A word that is not known
 * turns all off, as does a process that runs with more rights than its user, or under a sanitizer.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "deter.h"

#define MODES_NAME "CEASEFIRE_DETER"
/* A file of one page. Once its first byte is not zero, everything passes through. */
#define STOP_NAME "CEASEFIRE_DETER_STOP"

/* Each sanitizer that keeps a shadow of memory has its start function in the program, or in a library of its own. */
extern void __asan_init(void) __attribute__((weak));
extern void __hwasan_init(void) __attribute__((weak));
extern void __msan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));

/* Not in the pages that fork wipes: a child has its parent's modes, whatever its environment says by now. */
static _Atomic unsigned int modes;
static const volatile char *_Atomic stop_page;
static _Atomic uintptr_t heap_floor;

/* The heap began before this library did, but cannot have been larger than this by then. */
#define HEAP_BEFORE_MOST (64UL << 20)

/* The value of a variable; libc's getenv may not be ready. */
static const char *variable(const char *name)
{
	for (char **at = environ; *at; at++) {
		size_t i = 0;

		while (name[i] && (*at)[i] == name[i])
			i++;
		if (!name[i] && (*at)[i] == '=')
			return *at + i + 1;
	}
	return NULL;
}

/* Moves *at behind `word` where it stands there as a whole. */
static bool word_is(const char **at, const char *word)
{
	size_t i = 0;

	while (word[i] && (*at)[i] == word[i])
		i++;
	if (word[i] || ((*at)[i] && (*at)[i] != ','))
		return false;
	*at += i;
	return true;
}

static unsigned int modes_named(const char *at)
{
	unsigned int named = 0;
	bool loose = false;

	for (; *at; at += *at == ',') {
		if (word_is(&at, "trim"))
			named |= MODE_TRIM;
		else if (word_is(&at, "free"))
			named |= MODE_FREE;
		else if (word_is(&at, "zero"))
			named |= MODE_ZERO;
		else if (word_is(&at, "loose"))
			loose = true;
		else
			return 0;
	}
	/* What a program can notice needs a word of its own. */
	return loose ? named : named & ~MODE_ZERO;
}

static bool refused(void)
{
	return getauxval(AT_SECURE) || __asan_init || __hwasan_init || __msan_init || __tsan_init;
}

/* Whoever named a way to stop us relies on it: without it all is off. */
static bool stop_prepare(void)
{
	const char *const name = variable(STOP_NAME);
	struct stat status;
	long fd, page = -1;

	if (!name)
		return true;
	fd = kernel4(SYS_openat, AT_FDCWD, (long)name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
	if (failed(fd))
		return false;
	if (kernel3(SYS_fstat, fd, (long)&status, 0) == 0 && S_ISREG(status.st_mode) &&
	    status.st_size >= (off_t)PAGE_BYTES)
		page = kernel6(SYS_mmap, 0, PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	kernel3(SYS_close, fd, 0, 0);
	if (failed(page))
		return false;
	stop_page = (const char *)page;
	return true;
}

static unsigned int decide(void)
{
	const char *value;
	unsigned int found = 0;

	/* Too early to say: libc has not been told its environment. */
	if (!environ)
		return 0;
	value = variable(MODES_NAME);
	if (value && !refused() && stop_prepare())
		found = modes_named(value);
	if ((found & MODES_OF_RANGES) && !table_prepare())
		found &= ~MODES_OF_RANGES;
	heap_floor = page_down((uintptr_t)kernel3(SYS_brk, 0, 0, 0) - HEAP_BEFORE_MOST);
	found |= MODE_DECIDED;
	modes = found;
	return found;
}

unsigned int modes_now(void)
{
	const unsigned int now = modes;

	return now ? now : decide();
}

bool stopped(void)
{
	const volatile char *const page = stop_page;

	return !BROKEN(9) && page && *page;
}

/* What lies in the heap may be unmapped by brk(), also by malloc's own, which this library does not see. */
bool in_heap(uintptr_t start, uintptr_t end)
{
	return end > heap_floor && start < (uintptr_t)kernel3(SYS_brk, 0, 0, 0);
}

/* Before main(), where opening a file disturbs no other thread. */
__attribute__((constructor)) static void at_start(void)
{
	modes_now();
}
