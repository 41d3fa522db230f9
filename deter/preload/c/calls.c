/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The calls that are answered, and those that change what a range is. Each ends in the kernel, but for the advice that
 * is answered.
 *
 * Functions of libc with "..." are defined here with all the arguments that their system call takes: the same registers.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "deter.h"

/* Not in the headers that this is compiled with. */
#define ADVICE_POPULATE_READ 22
#define ADVICE_POPULATE_WRITE 23
#define ADVICE_DONTNEED_LOCKED 24
#define ADVICE_COLLAPSE 25
#define NR_set_mempolicy_home_node 450
#define NR_mseal 462

#define REQUEST_USERFAULTFD_NEW 0xaa00u
#define REQUEST_USERFAULTFD_REGISTER 0xc020aa00u
#define OPTION_SET_SECCOMP 22
#define OPTION_SET_MM 35
#define OPTION_SET_SYSCALL_USER_DISPATCH 59
#define ARCH_ENABLE_TAGGED_ADDRESSES 0x4002

/* Kinds of mappings that are as good as plain ones; any other flag is not ours. */
#define FLAGS_OURS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_NORESERVE | MAP_POPULATE | \
		    MAP_NONBLOCK | MAP_STACK | MAP_32BIT)

static bool watching(void)
{
	return (modes_now() & MODES_OF_RANGES) && table_used();
}

long answer(long result)
{
	if (!failed(result))
		return result;
	errno = (int)-result;
	return -1;
}

static bool ours(int prot, int flags)
{
	if (BROKEN(10))
		return prot == (PROT_READ | PROT_WRITE) && !(flags & (MAP_HUGETLB | MAP_GROWSDOWN));
	return prot == (PROT_READ | PROT_WRITE) && (flags & MAP_ANONYMOUS) && (flags & MAP_TYPE) == MAP_PRIVATE &&
	       !(flags & ~FLAGS_OURS);
}

/* The program asks for an address: another thread may know it, too. */
static long map_at(uintptr_t at, size_t length, int prot, int flags, int fd, long offset)
{
	const uintptr_t wanted = page_down(at);
	const uintptr_t wanted_end = range_end(at, length);
	const bool replaces = (flags & MAP_FIXED) && !BROKEN(11);
	int change = replaces ? change_begin(wanted, wanted_end) : change_announce(wanted, wanted_end);
	const long result = kernel6(SYS_mmap, (long)at, (long)length, prot, flags, fd, offset);
	const uintptr_t start = (uintptr_t)result;
	const uintptr_t end = range_end(start, length);

	if (failed(result)) {
		change_end(change);
		return result;
	}
	if (start != wanted) {
		change_end(change);
		change = change_begin(start, end);
	}
	if (ours(prot, flags) && !in_heap(start, end))
		change_keep(change, start, end);
	else if (!BROKEN(11))
		table_forget(start, end);
	change_end(change);
	return result;
}

static long map(uintptr_t at, size_t length, int prot, int flags, int fd, long offset)
{
	uintptr_t start, end;
	long result;
	int change;

	if (watching() && length && (at || (flags & MAP_FIXED)))
		return map_at(at, length, prot, flags, fd, offset);
	result = kernel6(SYS_mmap, (long)at, (long)length, prot, flags, fd, offset);
	if (failed(result) || !watching())
		return result;
	start = (uintptr_t)result;
	end = range_end(start, length);
	if (!ours(prot, flags)) {
		/* Whatever was there has been unmapped, perhaps without our knowledge. */
		if (!BROKEN(21))
			table_forget(start, end);
		return result;
	}
	/* Nobody else can know this address before we return it. */
	change = change_announce(start, end);
	change_keep(change, start, end);
	change_end(change);
	return result;
}

/* A call after which [at, at + length) may be anything. */
static long change(long number, long at, long length, long c, long d, long e, long f)
{
	int slot;
	long result;

	if (!watching())
		return kernel6(number, at, length, c, d, e, f);
	slot = change_begin(page_down((uintptr_t)at), range_end((uintptr_t)at, (size_t)length));
	result = kernel6(number, at, length, c, d, e, f);
	change_end(slot);
	return result;
}

/* The same, where it cannot be said which range. */
static long change_all(long number, long a, long b, long c, long d, long e, long f)
{
	int slot;
	long result;

	if (!watching())
		return kernel6(number, a, b, c, d, e, f);
	slot = change_begin(0, page_down(UINTPTR_MAX));
	result = kernel6(number, a, b, c, d, e, f);
	change_end(slot);
	return result;
}

static long remap(uintptr_t at, size_t length, size_t new_length, int flags, uintptr_t new_at)
{
	const size_t longer = new_length > length ? new_length : length;
	int old_slot, new_slot = NO_CHANGE;
	long result;

	if (!watching() || BROKEN(12))
		return kernel6(SYS_mremap, (long)at, (long)length, (long)new_length, flags, (long)new_at, 0);
	old_slot = change_begin(page_down(at), range_end(at, longer));
	if (flags & MREMAP_FIXED)
		new_slot = change_begin(page_down(new_at), range_end(new_at, new_length));
	result = kernel6(SYS_mremap, (long)at, (long)length, (long)new_length, flags, (long)new_at, 0);
	if (!failed(result))
		table_forget((uintptr_t)result, range_end((uintptr_t)result, new_length));
	change_end(new_slot);
	change_end(old_slot);
	return result;
}

/* Advice that leaves a range what it is. */
static bool advice_harmless(int advice)
{
	switch (advice) {
	case MADV_NORMAL:
	case MADV_WILLNEED:
	case MADV_DONTNEED:
	case MADV_FREE:
	case MADV_COLD:
	case MADV_PAGEOUT:
	case ADVICE_POPULATE_READ:
	case ADVICE_POPULATE_WRITE:
	case ADVICE_DONTNEED_LOCKED:
	case ADVICE_COLLAPSE:
		return true;
	}
	return false;
}

static long advise(uintptr_t at, size_t length, int advice)
{
	const uintptr_t end = BROKEN(18) ? page_down(at + length) : range_end(at, length);
	unsigned int mode = 0;

	if (advice == MADV_FREE || advice == MADV_COLD || advice == MADV_PAGEOUT)
		mode = MODE_FREE;
	else if (advice == MADV_DONTNEED)
		mode = MODE_ZERO;
	else if (!advice_harmless(advice))
		return change(SYS_madvise, (long)at, (long)length, advice, 0, 0, 0);
	if (!(modes_now() & mode) || !table_used() || at % PAGE_BYTES || end <= at ||
	    (length > end - at && !BROKEN(18)) || stopped())
		return kernel3(SYS_madvise, (long)at, (long)length, advice);
	if (BROKEN(14) && mode == MODE_FREE)
		return 0;
	if (!table_covers(at, end))
		return kernel3(SYS_madvise, (long)at, (long)length, advice);
	if (BROKEN(13))
		errno = EPERM;
	/* With length 0 the kernel only says whether it knows the advice, and whoever forbids the call forbids it. */
	if (mode == MODE_FREE || zero_range(at, end))
		return kernel3(SYS_madvise, (long)at, 0, advice);
	return kernel3(SYS_madvise, (long)at, (long)length, advice);
}

/* A call after which nothing is known any more, and perhaps no call of ours is allowed. */
static long retire(long number, long a, long b, long c, long d, long e)
{
	if (!BROKEN(20))
		table_retire();
	return kernel6(number, a, b, c, d, e, 0);
}

long watched_call(long number, long a, long b, long c, long d, long e, long f)
{
	switch (number) {
	case SYS_mmap:
		return map((uintptr_t)a, (size_t)b, (int)c, (int)d, (int)e, f);
	case SYS_mprotect:
	case SYS_pkey_mprotect:
		if (BROKEN(15))
			return kernel6(number, a, b, c, d, e, f);
		return change(number, a, b, c, d, e, f);
	case SYS_mlock:
		if (BROKEN(19))
			return kernel6(number, a, b, c, d, e, f);
		return change(number, a, b, c, d, e, f);
	case SYS_munmap:
	case SYS_mlock2:
	case SYS_mbind:
	case SYS_remap_file_pages:
	case NR_set_mempolicy_home_node:
	case NR_mseal:
		return change(number, a, b, c, d, e, f);
	case SYS_mremap:
		return remap((uintptr_t)a, (size_t)b, (size_t)c, (int)d, (uintptr_t)e);
	case SYS_madvise:
		return advise((uintptr_t)a, (size_t)b, (int)c);
	case SYS_process_madvise:
		/* It may be about this very process. */
		if (!advice_harmless((int)d))
			return change_all(number, a, b, c, d, e, f);
		break;
	case SYS_shmat:
		if (c & SHM_REMAP)
			return change_all(number, a, b, c, d, e, f);
		break;
	case SYS_mlockall:
	case SYS_userfaultfd:
	case SYS_seccomp:
		return retire(number, a, b, c, d, e);
	case SYS_ioctl:
		if ((uint32_t)b == REQUEST_USERFAULTFD_NEW || (uint32_t)b == REQUEST_USERFAULTFD_REGISTER)
			return retire(number, a, b, c, d, e);
		break;
	case SYS_prctl:
		if ((int)a == OPTION_SET_SECCOMP || (int)a == OPTION_SET_MM || (int)a == OPTION_SET_SYSCALL_USER_DISPATCH)
			return retire(number, a, b, c, d, e);
		break;
	case SYS_arch_prctl:
		/* Then an address has several names. */
		if ((int)a == ARCH_ENABLE_TAGGED_ADDRESSES)
			return retire(number, a, b, c, d, e);
		break;
	}
	return kernel6(number, a, b, c, d, e, f);
}

EXPORT void *mmap(void *at, size_t length, int prot, int flags, int fd, off_t offset)
{
	return (void *)answer(map((uintptr_t)at, length, prot, flags, fd, offset));
}

EXPORT void *mmap64(void *at, size_t length, int prot, int flags, int fd, off_t offset) __attribute__((alias("mmap")));

EXPORT int munmap(void *at, size_t length)
{
	return (int)answer(change(SYS_munmap, (long)at, (long)length, 0, 0, 0, 0));
}

EXPORT int mprotect(void *at, size_t length, int prot)
{
	return (int)answer(watched_call(SYS_mprotect, (long)at, (long)length, prot, 0, 0, 0));
}

EXPORT int pkey_mprotect(void *at, size_t length, int prot, int key)
{
	/* As libc does it: without a key it is mprotect, which every kernel has. */
	return (int)answer(watched_call(key == -1 ? SYS_mprotect : SYS_pkey_mprotect, (long)at, (long)length, prot,
					key, 0, 0));
}

EXPORT int madvise(void *at, size_t length, int advice)
{
	return (int)answer(advise((uintptr_t)at, length, advice));
}

EXPORT int mlock(const void *at, size_t length)
{
	return (int)answer(watched_call(SYS_mlock, (long)at, (long)length, 0, 0, 0, 0));
}

EXPORT int mlock2(const void *at, size_t length, unsigned int flags)
{
	/* As libc does it: without flags it is mlock, which every kernel has. */
	return (int)answer(change(flags ? SYS_mlock2 : SYS_mlock, (long)at, (long)length, flags, 0, 0, 0));
}

EXPORT int mlockall(int flags)
{
	return (int)answer(retire(SYS_mlockall, flags, 0, 0, 0, 0));
}

EXPORT int remap_file_pages(void *at, size_t length, int prot, size_t offset, int flags)
{
	return (int)answer(change(SYS_remap_file_pages, (long)at, (long)length, prot, (long)offset, flags, 0));
}

EXPORT ssize_t process_madvise(int pidfd, const struct iovec *ranges, size_t count, int advice, unsigned int flags)
{
	return answer(watched_call(SYS_process_madvise, pidfd, (long)ranges, (long)count, advice, flags, 0));
}

EXPORT void *shmat(int id, const void *at, int flags)
{
	return (void *)answer(watched_call(SYS_shmat, id, (long)at, flags, 0, 0, 0));
}

long deter_mbind(void *at, unsigned long length, int mode, const unsigned long *nodes, unsigned long count,
		 unsigned int flags) __asm__("mbind");
EXPORT long deter_mbind(void *at, unsigned long length, int mode, const unsigned long *nodes, unsigned long count,
			unsigned int flags)
{
	return answer(change(SYS_mbind, (long)at, (long)length, mode, (long)nodes, (long)count, flags));
}

void *deter_mremap(void *at, size_t length, size_t new_length, int flags, void *new_at) __asm__("mremap");
EXPORT void *deter_mremap(void *at, size_t length, size_t new_length, int flags, void *new_at)
{
	return (void *)answer(remap((uintptr_t)at, length, new_length, flags, (uintptr_t)new_at));
}

int deter_ioctl(int fd, unsigned long request, long argument) __asm__("ioctl");
EXPORT int deter_ioctl(int fd, unsigned long request, long argument)
{
	return (int)answer(watched_call(SYS_ioctl, fd, (long)request, argument, 0, 0, 0));
}

int deter_prctl(int option, long a, long b, long c, long d) __asm__("prctl");
EXPORT int deter_prctl(int option, long a, long b, long c, long d)
{
	return (int)answer(watched_call(SYS_prctl, option, a, b, c, d, 0));
}

int arch_prctl(int option, unsigned long argument);
EXPORT int arch_prctl(int option, unsigned long argument)
{
	return (int)answer(watched_call(SYS_arch_prctl, option, (long)argument, 0, 0, 0, 0));
}
