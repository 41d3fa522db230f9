// SPDX-License-Identifier: GPL-2.0-only
// khugepaged MS: small pages where huge ones are wanted, made anew whenever khugepaged has collapsed them, while a thread
// spins.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE 4096
#define HUGE (2UL << 20)
#define AREAS 64
#define BYTES (AREAS * HUGE)

static volatile int is_over;

static void *spin(void *unused)
{
	while (!is_over)
		;
	return unused;
}

int main(int count, char **words)
{
	char *area = mmap(NULL, BYTES + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long left_ms = count > 1 ? atol(words[1]) : 3000;
	const struct timespec pause = { .tv_nsec = 500 * 1000 * 1000 };
	pthread_t thread;

	if (area == MAP_FAILED || pthread_create(&thread, NULL, spin, NULL))
		return 1;
	area = (char *)(((unsigned long)area + HUGE - 1) & ~(HUGE - 1));
	for (; left_ms > 0; left_ms -= 500) {
		if (madvise(area, BYTES, MADV_NOHUGEPAGE) || madvise(area, BYTES, MADV_DONTNEED))
			return 1;
		for (unsigned long at = 0; at < BYTES; at += PAGE)
			area[at] = 1;
		if (madvise(area, BYTES, MADV_HUGEPAGE))
			return 1;
		nanosleep(&pause, NULL);
	}
	is_over = 1;
	return pthread_join(thread, NULL);
}
