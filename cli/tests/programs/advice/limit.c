// SPDX-License-Identifier: GPL-2.0-only
// limit FILE ROUNDS [pread]: reads a file of 64 MiB, round after round, through a shared mapping or by pread(), while a
// thread spins. In a memory cgroup with less than that it reclaims what it has read.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define BYTES (64UL << 20)

static volatile int is_over;

static void *spin(void *unused)
{
	while (!is_over)
		;
	return unused;
}

int main(int count, char **words)
{
	static char page[PAGE] = { 1 };
	long rounds = count > 2 ? atol(words[2]) : 0;
	volatile char *area;
	unsigned long sum = 0;
	pthread_t thread;
	int fd;

	if (!rounds)
		return 2;
	fd = open(words[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
	for (unsigned long at = 0; at < BYTES; at += PAGE)
		if (write(fd, page, PAGE) != PAGE)
			return 1;
	if (fsync(fd))
		return 1;
	area = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
	if (area == MAP_FAILED || pthread_create(&thread, NULL, spin, NULL))
		return 1;
	while (rounds--)
		for (unsigned long at = 0; at < BYTES; at += PAGE) {
			if (count <= 3)
				sum += area[at];
			else if (pread(fd, page, PAGE, at) == PAGE)
				sum += page[0];
		}
	is_over = 1;
	return pthread_join(thread, NULL) || !sum;
}
