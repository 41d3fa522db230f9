/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Calls of memory management with good and bad arguments. Prints what each answers, errno, and a checksum of the
 * memory: all of it must be the same with and without the library.
 */
#include "facts.h"

#include <pthread.h>
#include <sys/uio.h>

#define PAGES 64
/* Far from where the kernel puts things. */
#define ARENA ((char *)0x200000000000UL)

static uint64_t sum(void)
{
	uint64_t hash = 14695981039346656037UL;
	static unsigned char page[PAGE];

	for (size_t i = 0; i < PAGES; i++) {
		struct iovec to = { page, PAGE }, from = { ARENA + i * PAGE, PAGE };

		if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)PAGE)
			memset(page, 0xee, PAGE);
		for (size_t k = 0; k < PAGE; k++)
			hash = (hash ^ page[k]) * 1099511628211UL;
	}
	return hash;
}

static void told(const char *call, long result, int error)
{
	if (result >= (long)ARENA && result < (long)(ARENA + PAGES * PAGE))
		printf("%s = arena + %ld", call, result - (long)ARENA);
	else if (result < -1 || result > 0xffffff)
		printf("%s = elsewhere", call);
	else
		printf("%s = %ld", call, result);
	errno = error;
	printf(" %s", error_name());
	printf(" %016lx\n", (unsigned long)sum());
}

#define SAY(call)                                     \
	do {                                          \
		errno = 0;                            \
		const long said = (long)(call);       \
		told(#call, said, errno);             \
	} while (0)

#define AT(page) (ARENA + (page) * PAGE)
#define LEN(pages) ((pages) * PAGE)

/* A fresh arena: 0 to 15 plain, 16 to 23 shared, 24 to 31 a private file, 32 to 39 read-only, 40 to 47 nothing. */
static void fresh(void)
{
	const int fd = memfd_create("compare", 0);

	munmap(ARENA, LEN(PAGES));
	if (ftruncate(fd, LEN(8)) != 0 || mmap(AT(0), LEN(16), RW, ANON | MAP_FIXED, -1, 0) != AT(0) ||
	    mmap(AT(16), LEN(8), RW, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != AT(16) ||
	    mmap(AT(24), LEN(8), RW, MAP_PRIVATE | MAP_FIXED, fd, 0) != AT(24) ||
	    mmap(AT(32), LEN(8), RW, ANON | MAP_FIXED, -1, 0) != AT(32) ||
	    mmap(AT(48), LEN(16), RW, ANON | MAP_FIXED, -1, 0) != AT(48))
		DIE("arena");
	close(fd);
	for (size_t i = 0; i < PAGES; i++) {
		if (i < 40 || i >= 48)
			memset(AT(i), (int)i + 1, PAGE);
	}
	mprotect(AT(32), LEN(8), PROT_READ);
}

static void advice(void)
{
	static const struct {
		size_t page, length;
	} ranges[] = { { 0, LEN(16) }, { 0, 1 }, { 2, 0 }, { 12, LEN(8) }, { 16, LEN(2) }, { 24, LEN(2) },
		       { 32, LEN(2) }, { 36, LEN(8) }, { 40, LEN(2) }, { 44, LEN(8) }, { 48, LEN(16) }, { 60, LEN(8) },
		       { 0, LEN(64) }, { 0, (size_t)-1 }, { 0, (size_t)-4096 }, { 3, LEN(2) + 1 } };
	/* Not those that only root may ask for, or that end the process. */
	static const int kinds[] = { 0, 1, 2, 3, 4, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26, 99, -1 };
	char name[96];

	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		for (size_t i = 0; i < sizeof(ranges) / sizeof(*ranges); i++) {
			int result;

			fresh();
			for (int by_number = 0; by_number < 2; by_number++) {
				errno = 0;
				result = by_number ? (int)syscall(SYS_madvise, AT(ranges[i].page), ranges[i].length, kinds[k])
						   : madvise(AT(ranges[i].page), ranges[i].length, kinds[k]);
				snprintf(name, sizeof(name), "madvise %d of %zu, %zu bytes", kinds[k], ranges[i].page,
					 ranges[i].length);
				told(name, result, errno);
			}
		}
	}
	fresh();
	SAY(madvise(AT(0) + 1, PAGE, MADV_FREE));
	SAY(madvise(NULL, PAGE, MADV_FREE));
	SAY(madvise((void *)-4096L, 2 * PAGE, MADV_FREE));
	SAY(posix_madvise(AT(0), LEN(2), POSIX_MADV_DONTNEED));
}

static void mappings(void)
{
	const int read_only = open("/proc/self/exe", O_RDONLY);

	fresh();
	SAY(mmap(AT(2), LEN(2), RW, ANON | MAP_FIXED, -1, 0));
	SAY(madvise(AT(0), LEN(4), MADV_FREE));
	SAY(mmap(AT(2), LEN(2), RW, ANON | MAP_FIXED_NOREPLACE, -1, 0));
	SAY(mmap(AT(41), LEN(2), RW, ANON | MAP_FIXED_NOREPLACE, -1, 0));
	SAY(madvise(AT(41), LEN(2), MADV_FREE));
	SAY(madvise(AT(41), LEN(3), MADV_FREE));
	SAY(mmap(AT(44), LEN(2), RW, ANON, -1, 0));
	SAY(mmap(AT(44) + 5, LEN(1), RW, ANON | MAP_FIXED, -1, 0));
	SAY(mmap(AT(0), 0, RW, ANON | MAP_FIXED, -1, 0));
	SAY(mmap(NULL, 0, RW, ANON, -1, 0));
	SAY(mmap(NULL, (size_t)-1, RW, ANON, -1, 0));
	SAY(mmap(NULL, LEN(1), RW, MAP_ANONYMOUS, -1, 0));
	SAY(mmap(NULL, LEN(1), RW, MAP_PRIVATE, -1, 0));
	SAY(mmap(NULL, LEN(1), RW, MAP_PRIVATE, 9999, 0));
	SAY(mmap(NULL, LEN(1), RW, MAP_SHARED, read_only, 0));
	SAY(mmap(AT(4), LEN(1), PROT_READ, MAP_PRIVATE | MAP_FIXED, read_only, 0));
	SAY(madvise(AT(4), LEN(1), MADV_FREE));
	SAY(madvise(AT(0), LEN(8), MADV_FREE));
	SAY(mmap(NULL, LEN(1), PROT_READ, MAP_PRIVATE, read_only, 5));
	SAY(mmap(AT(5), LEN(1), RW, ANON | MAP_FIXED, -1, 5));
	SAY(mmap(AT(5), LEN(1), RW, ANON | MAP_FIXED, -1, 0x1000));
	SAY(mmap(AT(6), LEN(1), RW, ANON | MAP_FIXED | MAP_GROWSDOWN, -1, 0));
	SAY(mmap(AT(7), LEN(1), RW, MAP_PRIVATE | 0x40000000 | MAP_FIXED, -1, 0));
	SAY(mmap((void *)(1UL << 63), LEN(1), RW, ANON | MAP_FIXED, -1, 0));
	SAY(mmap((void *)-4096L, LEN(2), RW, ANON | MAP_FIXED, -1, 0));
	SAY(syscall(SYS_mmap, AT(8), LEN(1), RW, ANON | MAP_FIXED, -1, 0L));
	SAY(syscall(SYS_mmap, AT(8), LEN(1), RW, ANON | MAP_FIXED, -1, 1L));
	SAY(munmap(AT(8), LEN(1)));
	SAY(munmap(AT(8), LEN(1)));
	SAY(madvise(AT(7), LEN(3), MADV_FREE));
	SAY(munmap(AT(8) + 1, LEN(1)));
	SAY(munmap(AT(8), 0));
	SAY(munmap(AT(8), (size_t)-1));
	SAY(munmap((void *)(1UL << 63), LEN(1)));
	SAY(munmap(AT(10), 1));
	SAY(syscall(SYS_munmap, AT(11), LEN(1)));
	SAY(madvise(AT(9), LEN(4), MADV_FREE));
}

static void protections(void)
{
	fresh();
	SAY(mprotect(AT(0), LEN(4), PROT_READ));
	SAY(madvise(AT(0), LEN(4), MADV_FREE));
	SAY(mprotect(AT(0), LEN(4), RW));
	SAY(mprotect(AT(0), LEN(4), PROT_NONE));
	SAY(madvise(AT(0), LEN(4), MADV_DONTNEED));
	SAY(mprotect(AT(0), LEN(4), RW));
	SAY(mprotect(AT(0) + 1, LEN(4), RW));
	SAY(mprotect(AT(0), 0, RW));
	SAY(mprotect(AT(38), LEN(4), RW));
	SAY(mprotect(AT(0), (size_t)-1, RW));
	SAY(mprotect(AT(0), LEN(1), 0x70));
	SAY(mprotect(AT(0), LEN(1), PROT_READ | PROT_GROWSDOWN));
	SAY(pkey_mprotect(AT(0), LEN(1), RW, -1));
	SAY(pkey_mprotect(AT(0), LEN(1), RW, 9));
	SAY(syscall(SYS_mprotect, AT(0), LEN(1), PROT_READ));
	SAY(syscall(SYS_mprotect, AT(0), LEN(1), 0x70));
	SAY(mlock(AT(4), LEN(2)));
	SAY(madvise(AT(4), LEN(2), MADV_FREE));
	SAY(madvise(AT(4), LEN(2), MADV_DONTNEED));
	SAY(madvise(AT(4), LEN(2), MADV_COLD));
	SAY(msync(AT(4), LEN(2), MS_INVALIDATE));
	SAY(munlock(AT(4), LEN(2)));
	SAY(madvise(AT(4), LEN(2), MADV_FREE));
	SAY(mlock(AT(40), LEN(2)));
	SAY(mlock(AT(0), (size_t)-1));
	SAY(mlock2(AT(4), LEN(2), 1));
	SAY(mlock2(AT(4), LEN(2), 8));
	SAY(munlock(AT(4), LEN(2)));
	SAY(syscall(SYS_mlock2, AT(4), LEN(1), 0));
	SAY(mlockall(64));
	SAY(mlockall(0));
	SAY(munlockall());
}

static void moves(void)
{
	fresh();
	SAY(mremap(AT(0), LEN(2), LEN(1), 0));
	SAY(madvise(AT(0), LEN(2), MADV_FREE));
	SAY(mremap(AT(0), LEN(1), LEN(2), 0));
	SAY(madvise(AT(0), LEN(2), MADV_FREE));
	SAY(mremap(AT(0), LEN(1), LEN(8), 0));
	SAY(mremap(AT(8), LEN(1), LEN(1), MREMAP_MAYMOVE | MREMAP_FIXED, AT(42)));
	SAY(madvise(AT(8), LEN(1), MADV_FREE));
	SAY(madvise(AT(42), LEN(1), MADV_FREE));
	SAY(mremap(AT(9), LEN(1), LEN(1), MREMAP_MAYMOVE | MREMAP_FIXED, AT(16)));
	SAY(mremap(AT(10), LEN(1), LEN(1), MREMAP_FIXED, AT(16)));
	SAY(mremap(AT(10), LEN(1), LEN(1), MREMAP_MAYMOVE | MREMAP_FIXED, AT(10)));
	SAY(mremap(AT(10) + 1, LEN(1), LEN(1), 0));
	SAY(mremap(AT(10), LEN(1), 0, 0));
	SAY(mremap(AT(10), 0, LEN(1), MREMAP_MAYMOVE));
	SAY(mremap(AT(17), 0, LEN(1), MREMAP_MAYMOVE));
	SAY(mremap(AT(40), LEN(1), LEN(2), MREMAP_MAYMOVE));
	SAY(mremap(AT(10), LEN(1), LEN(1), 64));
	SAY(mremap(AT(11), LEN(1), LEN(1), MREMAP_MAYMOVE | 4, 0));
	SAY(mremap(AT(12), LEN(1), LEN(1), MREMAP_MAYMOVE | MREMAP_FIXED | 4, AT(44)));
	SAY(madvise(AT(12), LEN(1), MADV_FREE));
	SAY(mremap(AT(15), LEN(1), LEN(400), MREMAP_MAYMOVE));
	SAY(syscall(SYS_mremap, AT(13), LEN(1), LEN(1), MREMAP_MAYMOVE | MREMAP_FIXED, AT(46)));
	SAY(syscall(SYS_mremap, AT(13), LEN(1), LEN(1), 0, 0));
}

static void *in_thread(void *unused)
{
	(void)unused;
	SAY(madvise(AT(1), LEN(2), MADV_FREE));
	SAY(munmap(AT(1), LEN(1)));
	SAY(madvise(AT(0), LEN(2), MADV_FREE));
	SAY(madvise(AT(0), LEN(1), MADV_FREE));
	return NULL;
}

static void others(void)
{
	unsigned char vector[PAGES];
	pthread_t thread;
	char *heap;
	pid_t pid;

	fresh();
	SAY(mincore(AT(0), LEN(4), vector));
	SAY(mincore(AT(38), LEN(4), vector));
	SAY(mincore(AT(0) + 1, LEN(4), vector));
	SAY(mincore(AT(0), LEN(4), (void *)8));
	SAY(msync(AT(0), LEN(4), MS_SYNC));
	SAY(msync(AT(38), LEN(4), MS_ASYNC));
	SAY(msync(AT(0), LEN(4), MS_SYNC | MS_ASYNC));
	SAY(msync(AT(0) + 1, LEN(4), MS_SYNC));
	heap = sbrk(0);
	SAY(sbrk(LEN(4)) == heap);
	SAY(madvise((void *)(((uintptr_t)heap + PAGE) & ~(PAGE - 1)), LEN(2), MADV_FREE));
	SAY(sbrk(-(long)LEN(4)) == heap + LEN(4));
	SAY(brk((void *)8));
	SAY((long)sbrk(1L << 60));
	SAY(syscall(SYS_mbind, AT(0), LEN(1), 0, NULL, 0L, 0));
	SAY(syscall(SYS_mbind, AT(0), LEN(1), 99, NULL, 0L, 0));
	SAY(syscall(SYS_process_madvise, -1, NULL, 0L, MADV_FREE, 0));
	SAY(process_madvise(-1, NULL, 0, MADV_COLD, 0));
	SAY(process_madvise(-1, NULL, 0, MADV_DONTDUMP, 0));
	SAY(syscall(1023, 1, 2, 3));
	SAY(syscall(-1L, 1, 2, 3));
	SAY(syscall(SYS_getppid) > 0);
	SAY(remap_file_pages(AT(0), LEN(1), 0, 0, 0));
	SAY(remap_file_pages(AT(16), LEN(1), 0, 1, 0));
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		SAY(madvise(AT(2), LEN(4), MADV_FREE));
		SAY(munmap(AT(3), LEN(1)));
		SAY(madvise(AT(2), LEN(4), MADV_FREE));
		SAY(madvise(AT(4), LEN(1), MADV_DONTNEED));
		SAY(mmap(AT(3), LEN(1), RW, ANON | MAP_FIXED, -1, 0));
		SAY(madvise(AT(2), LEN(4), MADV_FREE));
		fflush(stdout);
		_exit(0);
	}
	SAY(child_says(pid));
	SAY(madvise(AT(2), LEN(4), MADV_FREE));
	pid = vfork();
	if (pid == 0) {
		madvise(AT(5), LEN(1), MADV_FREE);
		_exit(mprotect(AT(6), LEN(1), PROT_READ) == 0 ? 3 : 4);
	}
	SAY(child_says(pid));
	SAY(madvise(AT(6), LEN(1), MADV_FREE));
	pid = vfork();
	if (pid == 0)
		_exit(munmap(AT(7), LEN(1)) == 0 ? 3 : 4);
	SAY(child_says(pid));
	SAY(madvise(AT(7), LEN(1), MADV_FREE));
	fresh();
	pthread_create(&thread, NULL, in_thread, NULL);
	pthread_join(thread, NULL);
	SAY(touching(AT(1), false));
	SAY(touching(AT(33), true));
}

int main(void)
{
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	advice();
	mappings();
	protections();
	moves();
	others();
	fflush(stdout);
	return 0;
}
