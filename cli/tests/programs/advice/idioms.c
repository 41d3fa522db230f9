// SPDX-License-Identifier: GPL-2.0-only
// idioms NAME before|after FILE: does one thing as programs do it, or as it is advised to be done, while a thread spins.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 16
#define BYTES (PAGES * PAGE)
#define HUGE (2 << 20)
#define ROUNDS 600

extern char **environ;
static const char *file;
static volatile int is_over;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void *spin(void *unused)
{
	while (!is_over)
		;
	return unused;
}

static char *map(long bytes, int flags, int fd)
{
	char *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (area == MAP_FAILED)
		die("mmap");
	return area;
}

static char *anonymous(long bytes)
{
	return map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static int file_of(long bytes)
{
	int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || ftruncate(fd, bytes))
		die(file);
	return fd;
}

static void touch(char *area, long bytes)
{
	for (long at = 0; at < bytes; at += PAGE)
		((volatile char *)area)[at] = 1;
}

static void look(const char *area, long bytes)
{
	for (long at = 0; at < bytes; at += PAGE)
		(void)((const volatile char *)area)[at];
}

/* Pages that were only read are written; or they are written before. */
static void cow(int is_after)
{
	char *area = anonymous(ROUNDS * PAGE);

	if (is_after && madvise(area, ROUNDS * PAGE, MADV_POPULATE_WRITE))
		die("MADV_POPULATE_WRITE");
	look(area, ROUNDS * PAGE);
	touch(area, ROUNDS * PAGE);
}

/* An image is written to and dropped; or what was written is put back. */
static void reset(int is_after)
{
	int fd = file_of(BYTES);
	char *area = map(BYTES, MAP_PRIVATE, fd), image[PAGE] = "";

	for (int round = 0; round < ROUNDS; round++) {
		look(area, BYTES);
		touch(area, BYTES);
		if (!is_after && madvise(area, BYTES, MADV_DONTNEED))
			die("MADV_DONTNEED");
		for (int page = 0; is_after && page < PAGES; page++)
			memcpy(area + page * PAGE, image, PAGE);
	}
}

static void forks(int is_after)
{
	char *words[] = { "true", NULL }, *area = anonymous(BYTES);

	for (int round = 0; round < ROUNDS; round++) {
		pid_t child;

		touch(area, BYTES);
		if (is_after) {
			if (posix_spawn(&child, "/bin/true", NULL, NULL, words, environ))
				die("posix_spawn");
		} else {
			child = fork();
			if (child < 0)
				die("fork");
			if (!child)
				execv("/bin/true", words);
		}
		waitpid(child, NULL, 0);
	}
}

static void give_back(int is_after)
{
	char *area = anonymous(BYTES);

	for (int round = 0; round < ROUNDS; round++) {
		touch(area, BYTES);
		for (int page = 0; !is_after && page < PAGES; page++)
			madvise(area + page * PAGE, PAGE, MADV_DONTNEED);
		if (is_after)
			madvise(area, BYTES, MADV_DONTNEED);
	}
}

static void unmap(int is_after)
{
	char *area = anonymous(BYTES);

	for (int round = 0; round < ROUNDS; round++) {
		touch(area, BYTES);
		if (!is_after) {
			munmap(area, BYTES);
			area = anonymous(BYTES);
		}
	}
}

/* A window is mapped over the last one; or read into it. */
static void window(int is_after)
{
	int fd = file_of(BYTES);
	char *area = map(BYTES, MAP_PRIVATE, fd);

	for (int round = 0; round < ROUNDS; round++) {
		look(area, BYTES);
		if (is_after ? pread(fd, area, BYTES, 0) != BYTES :
		    mmap(area, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
			die("window");
	}
}

/* A buffer grows; or has room from the start. */
static void grow(int is_after)
{
	for (int round = 0; round < ROUNDS; round++) {
		char *area = anonymous(is_after ? 8 * BYTES : BYTES), *barrier;

		touch(area, BYTES);
		/* What lies behind it makes it move. */
		barrier = is_after ? NULL : mmap(area + BYTES, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (!is_after) {
			area = mremap(area, BYTES, 8 * BYTES, MREMAP_MAYMOVE);
			if (area == MAP_FAILED || barrier == MAP_FAILED)
				die("mremap");
		}
		touch(area, 8 * BYTES);
	}
}

/* Other threads are to pass a barrier. */
static void barrier(int is_after)
{
	char *page = anonymous(PAGE);

	if (is_after && syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0))
		die("membarrier");
	for (int round = 0; round < ROUNDS; round++) {
		touch(page, PAGE);
		if (is_after) {
			syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
		} else {
			mprotect(page, PAGE, PROT_READ);
			mprotect(page, PAGE, PROT_READ | PROT_WRITE);
		}
	}
}

/* Many wait for a barrier each; or one serves them all. */
static void barriers(int is_after)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0))
		die("membarrier");
	for (int round = 0; round < ROUNDS; round++)
		for (int object = 0; object < (is_after ? 1 : PAGES); object++)
			syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

static void sync_file(int is_after)
{
	int fd = file_of(BYTES);
	char *area = map(BYTES, MAP_SHARED, fd), data[BYTES] = "";

	look(area, BYTES);
	for (int round = 0; round < ROUNDS / 4; round++) {
		if (is_after) {
			if (pwrite(fd, data, BYTES, 0) != BYTES || fdatasync(fd))
				die("pwrite");
		} else {
			touch(area, BYTES);
			msync(area, BYTES, MS_SYNC);
		}
	}
}

/* What others have mapped is cut; or another file takes its place. */
static void cut(int is_after)
{
	char other[4096];
	int fd = file_of(BYTES);
	char *area = map(BYTES, MAP_SHARED, fd);

	snprintf(other, sizeof(other), "%s.new", file);
	for (int round = 0; round < ROUNDS; round++) {
		if (is_after) {
			int next = open(other, O_RDWR | O_CREAT | O_TRUNC, 0600);

			if (next < 0 || ftruncate(next, BYTES) || rename(other, file))
				die(other);
			close(next);
			touch(area, BYTES);
		} else {
			touch(area, BYTES);
			if (ftruncate(fd, 0) || ftruncate(fd, BYTES))
				die("ftruncate");
		}
	}
}

/* As a program that asks for it, started with huge pages or without: a refusal is no failure. */
static void collapse(int is_after)
{
	char *area = anonymous(2 * HUGE);

	area = (char *)(((unsigned long)area + HUGE - 1) & ~(HUGE - 1UL));
	if (is_after && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		die("PR_SET_THP_DISABLE");
	for (int round = 0; round < ROUNDS / 4; round++) {
		madvise(area, HUGE, MADV_NOHUGEPAGE);
		touch(area, HUGE);
		madvise(area, HUGE, MADV_HUGEPAGE);
		madvise(area, HUGE, 25);	/* MADV_COLLAPSE */
		/* Without other threads' entries. */
		munmap(area, HUGE);
		if (mmap(area, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			die("mmap");
	}
}

static const struct {
	const char *name;
	void (*run)(int is_after);
} idioms[] = {
	{ "cow", cow }, { "reset", reset }, { "fork", forks }, { "give-back", give_back }, { "unmap", unmap },
	{ "window", window }, { "grow", grow }, { "barrier", barrier }, { "barriers", barriers },
	{ "sync", sync_file }, { "cut", cut }, { "collapse", collapse },
};

int main(int count, char **words)
{
	pthread_t thread;

	if (count != 4)
		return 2;
	file = words[3];
	for (unsigned int i = 0; i < sizeof(idioms) / sizeof(*idioms); i++) {
		if (strcmp(idioms[i].name, words[1]))
			continue;
		if (pthread_create(&thread, NULL, spin, NULL))
			die("pthread_create");
		idioms[i].run(!strcmp(words[2], "after"));
		is_over = 1;
		usleep(600 * 1000);	/* the observer looks for names while it lives */
		pthread_join(thread, NULL);
		return 0;
	}
	return 2;
}
