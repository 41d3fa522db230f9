// SPDX-License-Identifier: GPL-2.0-only
// Gives pages back from three functions deep, while a thread of its own spins.
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES (16 * 4096)

static volatile int is_over;

static void *spin(void *unused)
{
	while (!is_over)
		;
	return unused;
}

static inline __attribute__((always_inline)) void storm_inline(char *area)
{
	madvise(area, BYTES, MADV_DONTNEED);
}

__attribute__((noinline)) void storm_inner(char *area)
{
	for (int at = 0; at < BYTES; at += 4096)
		area[at] = 1;
	storm_inline(area);
	__asm__ volatile("");	/* no tail call */
}

__attribute__((noinline)) void storm_middle(char *area)
{
	storm_inner(area);
	__asm__ volatile("");
}

__attribute__((noinline)) void storm_outer(char *area, long rounds)
{
	for (long round = 0; round < rounds; round++)
		storm_middle(area);
}

int main(int argc, char **argv)
{
	char *area = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t thread;

	if (area == MAP_FAILED || pthread_create(&thread, NULL, spin, NULL))
		return 1;
	storm_outer(area, argc > 1 ? atol(argv[1]) : 1000);
	is_over = 1;
	sleep(3);	/* the observer looks for names once a second */
	pthread_join(thread, NULL);
	return 0;
}
