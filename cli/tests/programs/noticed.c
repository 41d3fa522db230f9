// SPDX-License-Identifier: GPL-2.0-only
// Prints what tells whether memory calls are answered for it: noticed [SECONDS], which it lives on.
#define _DEFAULT_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_FREE
#define MADV_FREE 8
#endif

#define BYTES (1 << 20)
#define BLOCKS 4096

#ifdef AS_WITH_A_SANITIZER
void __asan_init(void);
void __asan_init(void)
{
}
#endif

int main(int count, char **words)
{
	static void *blocks[BLOCKS];
	unsigned char page = 0;
	char *range = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	/* Zeroing leaves the page, the kernel does not. */
	memset(range, 1, BYTES);
	madvise(range, BYTES, MADV_DONTNEED);
	mincore(range, 1, &page);
	printf("resident %d, zero %d\n", page & 1, range[5] == 0);
	/* The filter cannot see that nothing is mapped there. */
	munmap(range, BYTES);
	errno = 0;
	madvise(range, BYTES, MADV_FREE);
	printf("free %s\n", errno ? "refused" : "answered");
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(4096);
		memset(blocks[i], 1, 4096);
	}
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	printf("trimmed %d\n", malloc_trim(0));
	fflush(stdout);
	if (count > 1)
		sleep(atoi(words[1]));
	return 0;
}
