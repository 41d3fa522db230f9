// SPDX-License-Identifier: GPL-2.0-only
/*
 * Are writes lost to the soft-dirty bit while pages migrate?
 *
 *   cc -O2 -pthread -o reproduce reproduce.c && sudo ./reproduce [ROUNDS]
 *
 * A thread moves pages between the nodes 0 and 1. Another clears the soft-dirty bits, writes one byte to each page,
 * and reads the bits: each must be set. Exit: 0 all were, 1 some were not, 4 this machine cannot be asked.
 * Needs two NUMA nodes with memory and CONFIG_MEM_SOFT_DIRTY.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGES 512
#define PAGE_BYTES 4096
#define SOFT_DIRTY (UINT64_C(1) << 55)
#define MOVE 2 /* MPOL_MF_MOVE */

enum { ALL_SEEN, SOME_LOST, SKIP = 4 };

static unsigned char *memory;
static volatile int is_over;
static unsigned long moved;

static int skip(const char *what)
{
	fprintf(stderr, "skip: %s: %s\n", what, strerror(errno));
	return SKIP;
}

/* Return: how many pages are on the node now, or -1. */
static long move_to(int node)
{
	static void *pages[PAGES];
	static int nodes[PAGES], status[PAGES];
	long there = 0;

	for (int i = 0; i < PAGES; i++) {
		pages[i] = memory + (size_t)i * PAGE_BYTES;
		nodes[i] = node;
	}
	if (syscall(SYS_move_pages, 0, (unsigned long)PAGES, pages, nodes, status, MOVE) < 0)
		return -1;
	for (int i = 0; i < PAGES; i++)
		there += status[i] == node;
	return there;
}

static void *move(void *unused)
{
	for (int node = 0; !is_over; node = !node) {
		const long there = move_to(node);

		if (there > 0)
			moved += (unsigned long)there;
	}
	return unused;
}

/* Return: how many of the written pages have no soft-dirty bit, or -1. */
static long round_of_writes(int refs, int pagemap)
{
	static uint64_t entries[PAGES];
	long lost = 0;

	if (pwrite(refs, "4", 1, 0) != 1)
		return -1;
	for (int i = 0; i < PAGES; i++)
		((volatile unsigned char *)memory)[(size_t)i * PAGE_BYTES]++;
	if (pread(pagemap, entries, sizeof(entries), (off_t)((uintptr_t)memory / PAGE_BYTES * sizeof(uint64_t))) !=
	    (ssize_t)sizeof(entries))
		return -1;
	for (int i = 0; i < PAGES; i++)
		lost += !(entries[i] & SOFT_DIRTY);
	return lost;
}

int main(int argc, char **argv)
{
	const long asked = argc > 1 ? atol(argv[1]) : 0, rounds = asked > 0 ? asked : 1000;
	const int refs = open("/proc/self/clear_refs", O_WRONLY);
	const int pagemap = open("/proc/self/pagemap", O_RDONLY);
	long lost = 0, bad_rounds = 0;
	pthread_t mover;

	if (refs < 0 || pagemap < 0)
		return skip("/proc/self/clear_refs and pagemap");
	memory = mmap(NULL, (size_t)PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return skip("mmap");
	madvise(memory, (size_t)PAGES * PAGE_BYTES, MADV_NOHUGEPAGE);
	memset(memory, 1, (size_t)PAGES * PAGE_BYTES);
	if (move_to(1) != PAGES || move_to(0) != PAGES)
		return skip("two nodes that pages can be moved between");
	/* Nobody moves pages yet: whatever is lost now is another fault, or the bits are not kept. */
	if (round_of_writes(refs, pagemap) != 0)
		return skip("soft-dirty bits (CONFIG_MEM_SOFT_DIRTY)");
	if (pthread_create(&mover, NULL, move, NULL) != 0)
		return skip("a thread");
	for (long i = 0; i < rounds; i++) {
		const long now = round_of_writes(refs, pagemap);

		if (now < 0)
			return skip("/proc/self/clear_refs and pagemap");
		lost += now;
		bad_rounds += now > 0;
	}
	is_over = 1;
	pthread_join(mover, NULL);
	/* Of the calls the first may have found the pages where it wanted them. */
	if (moved <= PAGES) {
		fprintf(stderr, "skip: no page changed its node\n");
		return SKIP;
	}
	printf("%ld rounds of %d writes, %lu pages moved meanwhile: %ld writes lost, in %ld rounds\n", rounds, PAGES, moved, lost,
	       bad_rounds);
	return lost ? SOME_LOST : ALL_SEEN;
}
