/* SPDX-License-Identifier: GPL-2.0-only */
/* Rules 1, 2, 12: which ranges are the library's, and what ends that. */
#include "facts.h"

#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/shm.h>
#include <sys/uio.h>

#define N 16

static int file_of(size_t pages)
{
	const int fd = memfd_create("facts", 0);

	if (fd < 0 || ftruncate(fd, (off_t)(pages * PAGE)) != 0)
		DIE("memfd");
	return fd;
}

static void kinds(void)
{
	const int fd = file_of(N), zero = open("/dev/zero", O_RDWR);
	char *at;

	fact("private", dropped_as(map(N, RW, ANON), N));
	fact("noreserve", dropped_as(map(N, RW, ANON | MAP_NORESERVE | MAP_STACK), N));
	fact("populated", dropped_as(map(N, RW, ANON | MAP_POPULATE), N));
	at = map(N, PROT_NONE, ANON);
	fact("fixed", dropped_as(mmap(at, N * PAGE, RW, ANON | MAP_FIXED, -1, 0), N));
	fact("by-syscall", dropped_as((char *)syscall(SYS_mmap, 0, N * PAGE, RW, ANON, -1, 0L), N));
	fact("executable", dropped_as(map(N, RW | PROT_EXEC, ANON), N));
	fact("growsdown", dropped_as(map(N, RW, ANON | MAP_GROWSDOWN), N));
	fact("locked", dropped_as(map(N, RW, ANON | MAP_LOCKED), N));
	fact("zero-device", dropped_as(mmap(NULL, N * PAGE, RW, MAP_PRIVATE, zero, 0), N));
	at = map(N, PROT_NONE, ANON);
	if (mprotect(at, N * PAGE, RW) != 0)
		DIE("mprotect");
	fact("made-writable", dropped_as(at, N));
	/* These keep what they hold, or get the file's. */
	at = map(N, RW, MAP_SHARED | MAP_ANONYMOUS);
	fill(at, N);
	fact_number("shared-answer", madvise(at, N * PAGE, MADV_DONTNEED));
	fact_number("shared-kept", all_are(at, N, 0x5a));
	at = mmap(NULL, N * PAGE, RW, MAP_SHARED, fd, 0);
	fill(at, N);
	fact_number("file-shared-answer", madvise(at, N * PAGE, MADV_DONTNEED));
	fact_number("file-shared-kept", all_are(at, N, 0x5a));
	at = mmap(NULL, N * PAGE, RW, MAP_PRIVATE, fd, 0);
	memset(at, 1, N * PAGE);
	fact_number("file-private-answer", madvise(at, N * PAGE, MADV_DONTNEED));
	fact_number("file-private-reads-file", all_are(at, N, 0x5a));
}

/* Half of the table's ranges are plain; both of a pair of neighbours are one. */
static void neighbours(void)
{
	char *const at = map(2 * N, PROT_NONE, ANON);

	mmap(at, N * PAGE, RW, ANON | MAP_FIXED, -1, 0);
	mmap(at + N * PAGE, N * PAGE, RW, ANON | MAP_FIXED, -1, 0);
	fact("both", dropped_as(at, 2 * N));
	munmap(at + N / 2 * PAGE, PAGE);
	mmap(at + N / 2 * PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0);
	fact("mended", dropped_as(at, 2 * N));
	mmap(at + 3 * PAGE, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	fill(at, 2 * N);
	fact_number("across-shared-answer", madvise(at, 2 * N * PAGE, MADV_DONTNEED));
	fact_number("across-shared-kept", all_are(at + 3 * PAGE, 1, 0x5a) && all_are(at, 3, 0));
	fact("below", dropped_as(at, 3));
	fact("above", dropped_as(at + 4 * PAGE, 2 * N - 4));
	/* Replaced by one that is not ours, from below, from above, and all. */
	mmap(at, 2 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	fact("rest-above", dropped_as(at + 2 * PAGE, 1));
	mmap(at + (2 * N - 1) * PAGE, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	fact("rest-below", dropped_as(at + 4 * PAGE, 2 * N - 5));
	fill(at, 2 * N);
	fact_number("replaced-answer", madvise(at, 2 * N * PAGE, MADV_DONTNEED));
	fact_number("replaced-kept", all_are(at, 2, 0x5a) && all_are(at + (2 * N - 1) * PAGE, 1, 0x5a));
}

/* A change of the middle of a range; what is left and right of it stays ours. `changed`: whether it could be made. */
static void part(const char *name, char *at, bool changed)
{
	char middle[64], sides[64];

	snprintf(middle, sizeof(middle), "%s-middle", name);
	snprintf(sides, sizeof(sides), "%s-sides", name);
	if (!changed) {
		fact(middle, "skipped");
		return;
	}
	fact(middle, dropped_as(at + 4 * PAGE, 8));
	fact(sides, strcmp(dropped_as(at, 4), "ours") == 0 ? dropped_as(at + 12 * PAGE, 4) : "below-is-not");
}

static void changes(void)
{
	unsigned long nodes = 1;
	char *at, *to;

#define MIDDLE (at + 4 * PAGE), 8 * PAGE
#define CASE(name, call) (at = plain(N), part(name, at, (call)))
	CASE("mprotect", mprotect(MIDDLE, PROT_READ) == 0 && mprotect(MIDDLE, RW) == 0);
	CASE("mprotect-same", mprotect(MIDDLE, RW) == 0);
	CASE("mprotect-syscall", syscall(SYS_mprotect, MIDDLE, RW) == 0);
	CASE("pkey_mprotect", pkey_mprotect(MIDDLE, RW, -1) == 0);
	CASE("mlock", mlock(MIDDLE) == 0 && munlock(MIDDLE) == 0);
	CASE("mlock2", mlock2(MIDDLE, MLOCK_ONFAULT) == 0 && munlock(MIDDLE) == 0);
	CASE("mlock-syscall", syscall(SYS_mlock, MIDDLE) == 0 && munlock(MIDDLE) == 0);
	CASE("mbind-syscall", syscall(SYS_mbind, MIDDLE, 0, NULL, 0L, 0) == 0);
	CASE("home-node-syscall", syscall(SYS_mbind, MIDDLE, 2, &nodes, 8L, 0) == 0 &&
					  syscall(450, MIDDLE, 0, 0) == 0);
	CASE("dontdump", madvise(MIDDLE, MADV_DONTDUMP) == 0);
	CASE("hugepage", madvise(MIDDLE, MADV_NOHUGEPAGE) == 0);
	CASE("dontfork", madvise(MIDDLE, MADV_DONTFORK) == 0);
	CASE("wipeonfork", madvise(MIDDLE, MADV_WIPEONFORK) == 0);
	CASE("advice-syscall", syscall(SYS_madvise, MIDDLE, MADV_DONTDUMP) == 0);
	CASE("willneed", madvise(MIDDLE, MADV_WILLNEED) == 0);
	CASE("munmap-mprotected", munmap(MIDDLE) == 0 && mmap(MIDDLE, PROT_NONE, ANON | MAP_FIXED, -1, 0) != MAP_FAILED &&
					  mprotect(MIDDLE, RW) == 0);
	CASE("fixed-shared", mmap(MIDDLE, RW, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
	CASE("mremap-away", (to = mremap(MIDDLE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, plain(8))) != MAP_FAILED &&
				    mmap(MIDDLE, RW | PROT_EXEC, ANON | MAP_FIXED, -1, 0) != MAP_FAILED);
	fact("mremap-target", dropped_as(to, 8));
	CASE("mremap-onto", mremap(map(8, RW, MAP_SHARED | MAP_ANONYMOUS), 8 * PAGE, 8 * PAGE,
				   MREMAP_MAYMOVE | MREMAP_FIXED, at + 4 * PAGE) != MAP_FAILED);
	CASE("mremap-same", mremap(MIDDLE, 8 * PAGE, 0) == at + 4 * PAGE);
	CASE("mremap-syscall", (char *)syscall(SYS_mremap, MIDDLE, 8 * PAGE, 0, 0) == at + 4 * PAGE);
#ifdef MREMAP_DONTUNMAP
	CASE("mremap-dontunmap", mremap(MIDDLE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL) != MAP_FAILED);
#endif
	CASE("unaligned-end", mprotect(at + 4 * PAGE, 7 * PAGE + 1, RW) == 0);
}

/* After these nothing is known any more. */
static void process_advice(void)
{
	char *at = plain(N);
	struct iovec range = { at, PAGE };
	const int self = (int)syscall(434, getpid(), 0);

	process_madvise(self, &range, 1, MADV_DONTDUMP, 0);
	fact("process_madvise", dropped_as(at, N));
	at = plain(N);
	range.iov_base = at;
	process_madvise(self, &range, 1, MADV_COLD, 0);
	fact("process_madvise-cold", dropped_as(at, N));
}

static void shm(void)
{
	char *const at = plain(N);
	const int id = shmget(IPC_PRIVATE, N * PAGE, 0600);

	if (id < 0 || shmat(id, at, SHM_REMAP) != at)
		DIE("shmat");
	shmctl(id, IPC_RMID, NULL);
	fill(at, N);
	fact_number("shmat-answer", madvise(at, N * PAGE, MADV_DONTNEED));
	fact_number("shmat-kept", all_are(at, N, 0x5a));
}

static void locked_all(void)
{
	char *const at = plain(N);

	fact("before", dropped_as(at, N));
	if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
		DIE("mlockall");
	fact("locked", dropped_as(at, N));
	fact("mapped-later", dropped_as(map(N, RW, ANON), N));
	munlockall();
}

static void userfault(void)
{
	char *const at = plain(N);
	const int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = {
		.range = { (unsigned long)at, N * PAGE },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) != 0 || ioctl(fd, UFFDIO_REGISTER, &range) != 0) {
		fact("registered", "skipped");
		return;
	}
	ioctl(fd, UFFDIO_UNREGISTER, &range.range);
	fact("registered", dropped_as(at, N));
	fact("mapped-later", dropped_as(map(N, RW, ANON), N));
}

static void seccomp_on(void)
{
	char *const at = plain(N);

	fact("before", dropped_as(at, N));
	/* Refused, as the filter is none; the library cannot know. */
	prctl(PR_SET_SECCOMP, 2, 0, 0, 0);
	fact("after", dropped_as(at, N));
}

/* Neither child nor parent may take the other's ranges for its own. */
static void forks(void)
{
	char *const at = plain(N);
	pid_t pid;

	fact("parent-before", dropped_as(at, N));
	pid = fork();
	if (pid == 0) {
		fact("fork-child", dropped_as(at, N));
		fact("fork-child-own", dropped_as(plain(N), N));
		if (fork() == 0) {
			fact("grandchild", dropped_as(at, N));
			fact("grandchild-own", dropped_as(plain(N), N));
			exit(0);
		}
		wait(NULL);
		exit(0);
	}
	child_says(pid);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0L);
	if (pid == 0) {
		fact("clone-child", dropped_as(at, N));
		_exit(0);
	}
	child_says(pid);
	fact("parent-after", dropped_as(at, N));
}

/* A child of vfork has this very memory: what it unmaps is gone here, too. */
static void vforks(void)
{
	char *const at = plain(N);
	volatile int result = 5;
	pid_t pid = vfork();

	if (pid == 0)
		_exit(madvise(at, N * PAGE, MADV_DONTNEED) == 0 ? 0 : 1);
	fact_number("vfork-child-advises", child_says(pid));
	fact("parent-still", dropped_as(at, N));
	pid = vfork();
	if (pid == 0) {
		result = munmap(at, PAGE);
		_exit(0);
	}
	child_says(pid);
	fact_number("vfork-child-unmaps", result);
	errno = 0;
	fact_number("free-answer", madvise(at, N * PAGE, MADV_FREE));
	fact("free-error", error_name());
	errno = 0;
	fact_number("dontneed-answer", madvise(at, N * PAGE, MADV_DONTNEED));
	fact("dontneed-error", error_name());
	fact("parent-later", dropped_as(plain(N), N));
}

/* More ranges than the table has room for: RANGES_MOST is 8 in the library of this test. */
static void full(void)
{
	char *at[12], *big;
	int mine = 0;
	char name[16];

	big = plain(64);
	for (int i = 0; i < 12; i++)
		at[i] = plain(1);
	for (int i = 0; i < 12; i++) {
		const char *const as = dropped_as(at[i], 1);

		mine += strcmp(as, "ours") == 0;
		if (strcmp(as, "ours") != 0 && strcmp(as, "kernel") != 0)
			fact("wrong", as);
	}
	fact_number("ours", mine);
	/* A hole in the big one: no room for two. */
	mprotect(big + 32 * PAGE, PAGE, PROT_READ);
	fact_number("hole-answer", madvise(big, 64 * PAGE, MADV_DONTNEED));
	mprotect(big + 32 * PAGE, PAGE, RW);
	fact("hole", dropped_as(big + 32 * PAGE, 1));
	fact("below", dropped_as(big, 32));
	fact("above", dropped_as(big + 33 * PAGE, 31));
	for (int i = 0; i < 12; i++) {
		munmap(at[i], PAGE);
		snprintf(name, sizeof(name), "unmapped-%d", i);
		errno = 0;
		madvise(at[i], PAGE, MADV_DONTNEED);
		fact(name, error_name());
	}
}

static long inlined(long number, void *at, size_t length)
{
	long result;

	__asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(at), "S"(length) : "rcx", "r11", "memory");
	return result;
}

/* The library does not see an inline system call; it sees what comes after. */
static void unseen(void)
{
	const int fd = file_of(N);
	/* The lowest free address: without a hint the kernel goes there again. */
	char *at = map(N, RW, ANON), *again;

	fill(at, N);
	inlined(SYS_munmap, at, N * PAGE);
	again = mmap(NULL, N * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	errno = 0;
	fact_number("same-place", again == at);
	fact_number("answer", madvise(again, N * PAGE, MADV_FREE));
	fact("error", error_name());
	munmap(again, N * PAGE);
	/* Unmapped, and nothing in its place: the kernel is asked, but for advice that is answered. */
	at = plain(N);
	inlined(SYS_munmap, at, N * PAGE);
	errno = 0;
	fact_number("dontneed-answer", madvise(at, N * PAGE, MADV_DONTNEED));
	fact("dontneed-error", error_name());
}

static pthread_barrier_t rounds;
static char *_Atomic contended;
#define ROUNDS 4000

static void *unmapper(void *unused)
{
	(void)unused;
	for (int i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&rounds);
		munmap(contended, N * PAGE);
		pthread_barrier_wait(&rounds);
	}
	return NULL;
}

/* One thread maps what the other unmaps. Whoever was last: the answer is the kernel's. */
static void racing(void)
{
	unsigned char vector[N];
	pthread_t thread;
	long wrong = 0, both[2] = { 0, 0 };

	contended = plain(N);
	pthread_barrier_init(&rounds, NULL, 2);
	pthread_create(&thread, NULL, unmapper, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		bool there;

		pthread_barrier_wait(&rounds);
		for (int k = 0; k < i % 7; k++)
			getppid();
		mmap(contended, N * PAGE, RW, ANON | MAP_FIXED, -1, 0);
		pthread_barrier_wait(&rounds);
		there = mincore(contended, N * PAGE, vector) == 0;
		both[there]++;
		wrong += (madvise(contended, N * PAGE, MADV_FREE) == 0) != there;
	}
	pthread_join(thread, NULL);
	fact_number("wrong", wrong);
	fprintf(stderr, "last was unmapped %ld, mapped %ld\n", both[0], both[1]);
}

#define CROWD 4
#define HELD 32

static char *_Atomic held[CROWD][HELD];

static void *crowd_member(void *argument)
{
	const size_t index = (size_t)argument;
	unsigned int random = (unsigned int)index + 1;

	for (int i = 0; i < 4000; i++) {
		const size_t slot = (random = random * 1664525 + 1013904223) >> 8;
		char *const at = held[index][slot % HELD];

		if (at)
			munmap(at, PAGE);
		held[index][slot % HELD] = at ? NULL : plain(1);
		/* What plain() leaves around it must not pile up. */
		if (at) {
			munmap(at - PAGE, PAGE);
			munmap(at + PAGE, PAGE);
		}
	}
	return NULL;
}

/* Many threads edit the table at once. What it has afterwards is what the kernel has. */
static void crowd(void)
{
	pthread_t threads[CROWD];
	unsigned char vector;
	long wrong = 0, ours = 0;
	char *low = (char *)UINTPTR_MAX, *high = NULL;

	for (size_t i = 0; i < CROWD; i++)
		pthread_create(&threads[i], NULL, crowd_member, (void *)i);
	for (size_t i = 0; i < CROWD; i++)
		pthread_join(threads[i], NULL);
	for (size_t i = 0; i < CROWD * HELD; i++) {
		char *const at = held[i / HELD][i % HELD];

		if (!at)
			continue;
		low = at < low ? at : low;
		high = at > high ? at : high;
		ours += strcmp(dropped_as(at, 1), "ours") == 0;
		wrong += !all_are(at, 1, 0);
	}
	/* Every page between them: mapped or not, the answer is the kernel's. */
	for (char *at = low; at < high; at += PAGE) {
		const bool there = mincore(at, PAGE, &vector) == 0;

		wrong += (madvise(at, PAGE, MADV_COLD) == 0) != there;
	}
	fact_number("wrong", wrong);
	fact("most-are-ours", ours > CROWD * HELD / 4 ? "1" : "0");
}

static const struct test_case cases[] = {
	{ "kinds", kinds }, { "neighbours", neighbours }, { "changes", changes }, { "process-advice", process_advice },
	{ "shm", shm }, { "locked-all", locked_all }, { "userfault", userfault }, { "seccomp", seccomp_on },
	{ "forks", forks }, { "vforks", vforks }, { "full", full }, { "unseen", unseen },
	{ "racing", racing }, { "crowd", crowd }, { NULL, NULL },
};

int main(int argc, char **argv)
{
	return run_case(cases, argc, argv);
}
