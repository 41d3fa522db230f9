/* SPDX-License-Identifier: GPL-2.0-only */
/* Rules 3 to 11 and 13 to 16: what calls answer and what memory holds. */
#include "facts.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/uio.h>

#define N 64

/* An answer and its error; errno is some other number before, which a call that succeeds leaves. */
static void advised(const char *name, void *at, size_t length, int advice)
{
	int result;

	errno = EBADF;
	result = madvise(at, length, advice);
	printf("%s %d %s\n", name, result, error_name());
}

static void answers(void)
{
	static const int advice[] = { MADV_FREE, MADV_COLD, MADV_PAGEOUT };
	static const char *const names[] = { "free", "cold", "pageout" };
	const int fd = memfd_create("facts", 0);
	char *at, *file, *shared;
	char name[64];

	if (ftruncate(fd, N * PAGE) != 0)
		DIE("ftruncate");
	for (int i = 0; i < 3; i++) {
#define ADVISED(what, start, length) (snprintf(name, sizeof(name), "%s-" what, names[i]), advised(name, start, length, advice[i]))
		at = plain(N);
		fill(at, N);
		file = mmap(NULL, N * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
		shared = map(N, RW, MAP_SHARED | MAP_ANONYMOUS);
		ADVISED("all", at, N * PAGE);
		ADVISED("byte", at, 1);
		ADVISED("none", at, 0);
		ADVISED("unaligned", at + 8, PAGE);
		ADVISED("too-far", at, (N + 1) * PAGE);
		ADVISED("wraps", at, -PAGE);
		ADVISED("wraps-to-zero", at, (size_t)-1);
		ADVISED("nowhere", (void *)PAGE, PAGE);
		ADVISED("file", file, PAGE);
		ADVISED("shared", shared, PAGE);
		fact_number("holds", all_are(at, N, 0x5a));
		munmap(at + PAGE, PAGE);
		ADVISED("hole", at, 3 * PAGE);
		ADVISED("before-hole", at, 2 * PAGE);
		mprotect(at + 3 * PAGE, PAGE, PROT_READ);
		ADVISED("read-only", at + 2 * PAGE, 2 * PAGE);
		mlock(at + 4 * PAGE, PAGE);
		ADVISED("locked", at + 4 * PAGE, PAGE);
	}
	advised("unknown", plain(1), PAGE, 77);
	advised("unknown-none", plain(1), 0, 77);
}

/* Does MADV_FREE reach the kernel? */
static void lazily(void)
{
	char *const at = plain(512);

	fill(at, 512);
	advised("free", at, 512 * PAGE, MADV_FREE);
	fact("lazy", lazy() > 1024 ? "kernel" : "ours");
	advised("cold", at, 512 * PAGE, MADV_COLD);
}

static void zeroing(void)
{
	char *at = plain(N);

	fill(at, N);
	advised("part", at + PAGE, 2 * PAGE + 1, MADV_DONTNEED);
	fact_number("below", all_are(at, 1, 0x5a));
	fact_number("zeroed", all_are(at + PAGE, 3, 0));
	fact_number("above", all_are(at + 4 * PAGE, N - 4, 0x5a));
	advised("none", at, 0, MADV_DONTNEED);
	fact_number("still", all_are(at, 1, 0x5a));
	/* Across the pieces in which residency is asked for. */
	at = plain(700);
	fill(at, 700);
	advised("long", at, 700 * PAGE, MADV_DONTNEED);
	fact_number("long-resident", resident(at, 700));
	fact_number("long-zeroed", all_are(at, 700, 0));
	at = plain(5000);
	fill(at, 5000);
	advised("too-long", at, 5000 * PAGE, MADV_DONTNEED);
	fact_number("too-long-resident", resident(at, 1000));
	/* With holes in between, and by syscall(). */
	at = plain(N);
	for (int i = 0; i < N; i += 3)
		at[(size_t)i * PAGE + 17] = 1;
	fact_number("sparse-before", resident(at, N));
	errno = EBADF;
	fact_number("sparse-answer", syscall(SYS_madvise, at, N * PAGE, MADV_DONTNEED));
	fact("sparse-error", error_name());
	fact_number("sparse-resident", resident(at, N));
	fact_number("sparse-zeroed", all_are(at, N, 0));
}

/* What a page of a child's still holds is the child's. */
static void shared_with_child(void)
{
	char *const at = plain(N);
	int ready[2];
	char byte;
	pid_t pid;

	fill(at, N);
	if (pipe(ready) != 0)
		DIE("pipe");
	pid = fork();
	if (pid == 0) {
		if (read(ready[0], &byte, 1) != 1)
			_exit(2);
		_exit(all_are(at, N, 0x5a) ? 0 : 1);
	}
	advised("parent", at, N * PAGE, MADV_DONTNEED);
	fact_number("parent-zeroed", all_are(at, N, 0));
	if (write(ready[1], "x", 1) != 1)
		DIE("write");
	fact_number("child", child_says(pid));
}

/*
 * A program on a stack that it has mapped itself drops what is unused of it: up to the page in which its frame ends.
 * Whatever the library puts on the stack then lies in what is dropped.
 */
static void own_stack(void)
{
	char *const stack = plain(N);
	register char *top __asm__("rbx") = stack + N / 2 * PAGE + 64;
	long result;

	fill(stack, N / 2);
	errno = EBADF;
	__asm__ volatile("xchgq %%rsp, %%rbx\n\t"
			 "call madvise@PLT\n\t"
			 "xchgq %%rsp, %%rbx"
			 : "=a"(result), "+r"(top)
			 : "D"(stack), "S"(N / 2 * PAGE), "d"(MADV_DONTNEED)
			 : "rcx", "r8", "r9", "r10", "r11", "memory", "cc");
	fact_number("stack-answer", (int)result);
	fact("stack-error", error_name());
	fact_number("stack-zeroed", all_are(stack, N / 2, 0));
}

/* Memory that is unmapped is gone. */
static void gone(void)
{
	char *at = plain(N);
	unsigned char vector[N];

	fill(at, N);
	advised("before", at, N * PAGE, MADV_DONTNEED);
	fact_number("munmap", munmap(at, N * PAGE));
	fact_number("read-ends-with", touching(at, false));
	errno = 0;
	fact_number("mincore", mincore(at, N * PAGE, vector));
	fact("mincore-error", error_name());
	errno = 0;
	fact_number("msync", msync(at, PAGE, MS_ASYNC));
	fact("msync-error", error_name());
	errno = 0;
	fact_number("write", write(memfd_create("facts", 0), at, PAGE));
	fact("write-error", error_name());
}

static void reused(void)
{
	char *at = plain(N);

	fill(at, N);
	advised("drop", at, N * PAGE, MADV_DONTNEED);
	fact_number("zero-after-drop", all_are(at, N, 0));
	fill(at, N);
	munmap(at, N * PAGE);
	at = mmap(at, N * PAGE, RW, ANON, -1, 0);
	fact_number("zero-after-unmap", all_are(at, N, 0));
	fill(at, N);
	at = mmap(at, N * PAGE, RW, ANON | MAP_FIXED, -1, 0);
	fact_number("zero-after-fixed", all_are(at, N, 0));
}

static void addressed(void)
{
	char *at = plain(N), *hint;
	const int fd = memfd_create("facts", 0);

	fill(at, N);
	if (write(fd, "file", 4) != 4)
		DIE("write");
	errno = 0;
	fact_number("noreplace-taken", mmap(at, PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED);
	fact("noreplace-error", error_name());
	hint = mmap(at, PAGE, RW, ANON, -1, 0);
	fact_number("hint-taken-moves", hint != at && hint != MAP_FAILED);
	fact_number("fixed-file", mmap(at, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == at);
	fact_number("reads-file", memcmp(at, "file", 4) == 0);
	advised("fixed-file-free", at, PAGE, MADV_FREE);
	munmap(at, N * PAGE);
	fact_number("noreplace-free", mmap(at, N * PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0) == at);
	munmap(at, N * PAGE);
	fact_number("hint-free", mmap(at, N * PAGE, RW, ANON, -1, 0) == at);
}

/* As many mappings as the limit allows, and the same error then. */
static void limited(void)
{
	struct rlimit limit = { 256UL << 20, 256UL << 20 };
	int count = 0;
	char *at, *last = NULL;

	if (setrlimit(RLIMIT_AS, &limit) != 0)
		DIE("setrlimit");
	for (errno = 0; (at = mmap(NULL, 8UL << 20, RW, ANON, -1, 0)) != MAP_FAILED; last = at)
		count++;
	fact_number("mappings", count);
	fact("error", error_name());
	munmap(last, 8UL << 20);
	fact_number("again", mmap(NULL, 8UL << 20, RW, ANON, -1, 0) != MAP_FAILED);
}

/* Waits for its parent on standard input between two questions. */
static void stopping(void)
{
	char *const at = plain(N);
	char byte;

	fact("before", dropped_as(at, N));
	fflush(stdout);
	if (read(0, &byte, 1) != 1)
		DIE("read");
	fact("after", dropped_as(at, N));
	lazily();
	fact_number("trim", ({ void *p = malloc(1 << 16), *q = malloc(64); free(p); int r = malloc_trim(0); free(q); r; }));
}

static void files(void)
{
	const int fd = memfd_create("facts", 0);
	char *at;

	if (ftruncate(fd, PAGE) != 0)
		DIE("ftruncate");
	for (char i = 'a'; i < 'd'; i++) {
		if (pwrite(fd, &i, 1, 0) != 1)
			DIE("pwrite");
		at = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
		fact_number("reads-present", *at == i);
		munmap(at, PAGE);
		fact_number("unmapped", touching(at, false));
	}
}

static void permissions(void)
{
	char *const at = plain(N);

	fill(at, N);
	advised("ours", at, N * PAGE, MADV_FREE);
	mprotect(at, PAGE, PROT_NONE);
	mprotect(at + PAGE, PAGE, PROT_READ);
	fact_number("none-read", touching(at, false));
	fact_number("read-only-read", touching(at + PAGE, false));
	fact_number("read-only-write", touching(at + PAGE, true));
	fact_number("writable", touching(at + 2 * PAGE, true));
	advised("none-drop", at, PAGE, MADV_DONTNEED);
	advised("read-only-drop", at + PAGE, PAGE, MADV_DONTNEED);
	mprotect(at, PAGE, RW);
	fact_number("none-zero", all_are(at, 1, 0));
	fact_number("read-only-zero", all_are(at + PAGE, 1, 0));
}

static volatile long storms, storm_wrong;

/* All of the library in a signal handler, wherever the signal comes. */
static void storm(int signal)
{
	const int saved = errno;
	char *const at = mmap(NULL, 4 * PAGE, RW, ANON, -1, 0);

	(void)signal;
	if (at == MAP_FAILED)
		return;
	at[0] = at[3 * PAGE] = 1;
	storm_wrong += madvise(at, 4 * PAGE, MADV_FREE) != 0;
	storm_wrong += madvise(at, 4 * PAGE, MADV_DONTNEED) != 0 || at[0] || at[3 * PAGE];
	storm_wrong += mprotect(at, PAGE, PROT_READ) != 0;
	storm_wrong += munmap(at, 4 * PAGE) != 0;
	storms++;
	errno = saved;
}

static void *mapper(void *unused)
{
	struct timespec now, end;

	(void)unused;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += 2;
	do {
		char *const at = mmap(NULL, 8 * PAGE, RW, ANON, -1, 0);

		if (at == MAP_FAILED)
			DIE("mmap");
		errno = EBADF;
		memset(at, 1, 8 * PAGE);
		storm_wrong += madvise(at, 8 * PAGE, MADV_DONTNEED) != 0 || at[0] || at[8 * PAGE - 1];
		storm_wrong += errno != EBADF;
		storm_wrong += munmap(at, 8 * PAGE) != 0;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec);
	return NULL;
}

static void signals(void)
{
	const struct itimerval timer = { { 0, 200 }, { 0, 200 } };
	pthread_t threads[3];

	signal(SIGALRM, storm);
	setitimer(ITIMER_REAL, &timer, NULL);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, mapper, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	signal(SIGALRM, SIG_IGN);
	fact_number("many", storms > 50);
	fact_number("wrong", storm_wrong);
}

/* fork from many threads, while others hold the table's lock. */
static void forking_threads(void)
{
	pthread_t threads[3];
	int bad = 0;

	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, mapper, NULL);
	for (int i = 0; i < 200; i++) {
		const pid_t pid = fork();

		if (pid == 0) {
			char *const at = mmap(NULL, 4 * PAGE, RW, ANON, -1, 0);

			at[0] = 1;
			alarm(20);
			_exit(madvise(at, 4 * PAGE, MADV_DONTNEED) != 0 || at[0] || munmap(at, 4 * PAGE));
		}
		bad += child_says(pid) != 0;
	}
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	fact_number("wrong", storm_wrong + bad);
}

static void malloc_settings(void)
{
	void *volatile some;

	fact_number("mallopt", mallopt(M_MMAP_THRESHOLD, 1 << 20));
	fact_number("trim-threshold", mallopt(M_TRIM_THRESHOLD, 1 << 16));
	some = malloc(1 << 19);
	fact_number("mapped", mallinfo2().hblks);
	free(some);
	some = malloc(1 << 21);
	fact_number("mapped", mallinfo2().hblks);
	free(some);
}

static void trimming(void)
{
	void *most[1000], *last;
	size_t before;

	for (int i = 0; i < 1000; i++) {
		most[i] = malloc(4000);
		memset(most[i], 1, 4000);
	}
	last = malloc(64);
	for (int i = 0; i < 1000; i++)
		free(most[i]);
	before = mallinfo2().fordblks;
	fact("trim", malloc_trim(0) ? "libc" : "ours");
	fact_number("as-much-free", mallinfo2().fordblks <= before);
	free(last);
}

/* A program that was started with other rights than its user's. */
static void secure(void)
{
	fact_number("secure", (long)getauxval(AT_SECURE));
	fact("drop", dropped_as(plain(N), N));
	lazily();
}

static void waiting(void)
{
	char byte;

	fact("ready", "1");
	fflush(stdout);
	(void)!read(0, &byte, 1);
}

/* The pipe has the page, not a copy. */
static void on_its_way(void)
{
	char *const at = plain(1);
	struct iovec part = { at, PAGE };
	static char got[PAGE];
	int ends[2];

	fill(at, 1);
	if (pipe(ends) != 0 || vmsplice(ends[1], &part, 1, 0) != (ssize_t)PAGE)
		DIE("vmsplice");
	advised("drop", at, PAGE, MADV_DONTNEED);
	if (read(ends[0], got, PAGE) != (ssize_t)PAGE)
		DIE("read");
	fact("arrives", all_are(got, 1, 0x5a) ? "as-sent" : all_are(got, 1, 0) ? "zeroed" : "torn");
}

static const struct test_case cases[] = {
	{ "answers", answers }, { "lazily", lazily }, { "zeroing", zeroing }, { "shared-with-child", shared_with_child },
	{ "own-stack", own_stack }, { "gone", gone }, { "reused", reused }, { "addressed", addressed },
	{ "limited", limited }, { "stopping", stopping }, { "files", files }, { "permissions", permissions },
	{ "signals", signals }, { "forking-threads", forking_threads }, { "malloc-settings", malloc_settings },
	{ "trimming", trimming }, { "secure", secure }, { "waiting", waiting }, { "on-its-way", on_its_way }, { NULL, NULL },
};

int main(int argc, char **argv)
{
	return run_case(cases, argc, argv);
}
