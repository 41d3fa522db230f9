/* SPDX-License-Identifier: GPL-2.0-only */
/* What calls take, in nanoseconds: the least of many batches, as what else runs on the machine only makes it more. */
#include "facts.h"

#include <sys/ioctl.h>
#include <time.h>

#define BATCHES 80
#define CALLS 150

static int null, file;
static char *range, *changed;

static void call_getppid(void)
{
	getppid();
}

static void call_write(void)
{
	(void)!write(null, "", 1);
}

static void call_by_number(void)
{
	syscall(SYS_getppid);
}

static void call_ioctl(void)
{
	int flag = 0;

	ioctl(null, FIONBIO, &flag);
}

static void call_advice(void)
{
	madvise(changed, PAGE, MADV_WILLNEED);
}

static void call_dontneed(void)
{
	madvise(changed, PAGE, MADV_DONTNEED);
}

static void call_mprotect(void)
{
	static int turn;

	mprotect(changed, PAGE, ++turn & 1 ? PROT_READ : RW);
}

static void call_map_file(void)
{
	munmap(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, 0), PAGE);
}

static void call_map(void)
{
	munmap(mmap(NULL, PAGE, RW, ANON, -1, 0), PAGE);
}

static void call_free(void)
{
	madvise(range, 16 * PAGE, MADV_FREE);
}

static void call_dontneed_touch(void)
{
	madvise(range, 16 * PAGE, MADV_DONTNEED);
	for (int i = 0; i < 16; i++)
		range[(size_t)i * PAGE] = 1;
}

static const struct {
	const char *name;
	void (*call)(void);
} cases[] = {
	{ "getppid", call_getppid },
	{ "write", call_write },
	{ "syscall(getppid)", call_by_number },
	{ "ioctl", call_ioctl },
	{ "madvise(WILLNEED)", call_advice },
	{ "madvise(DONTNEED), not ours", call_dontneed },
	{ "mprotect, not ours", call_mprotect },
	{ "mmap+munmap of a file", call_map_file },
	{ "mmap+munmap", call_map },
	{ "madvise(FREE)", call_free },
	{ "madvise(DONTNEED)+16 touches", call_dontneed_touch },
};

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int main(void)
{
	null = open("/dev/null", O_WRONLY);
	file = memfd_create("overhead", 0);
	range = plain(16);
	fill(range, 16);
	changed = plain(4);
	fill(changed, 4);
	if (null < 0 || file < 0 || ftruncate(file, PAGE) != 0 || mprotect(changed, 4 * PAGE, RW) != 0)
		DIE("files");
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		double least = 1e18;

		for (int batch = 0; batch < BATCHES; batch++) {
			const double start = now_ns();

			for (int k = 0; k < CALLS; k++)
				cases[i].call();
			const double each = (now_ns() - start) / CALLS;
			if (each < least)
				least = each;
		}
		printf("%s\t%.1f\n", cases[i].name, least);
	}
	return 0;
}
