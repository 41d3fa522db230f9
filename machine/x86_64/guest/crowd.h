/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pages that all CPUs have read, some of them under two PCIDs: what each of them reads afterwards tells what a broadcast
 * has left. A slot is an address under a PCID.
 */
#ifndef GUEST_CROWD_H
#define GUEST_CROWD_H

#include "rules.h"

#define PAGE_FLAGS (W | U | A | D)
#define SLOTS 24
/* PCIDs, in the order in which a CPU loads them. */
#define PCID_TOO 2
#define PCID_MINE 1

struct crowd {
	uint64_t root;
	unsigned int count;
	struct {
		struct page page;
		uint64_t pcid;
		volatile uint64_t saw[CPUS_MAX];
	} slots[SLOTS];
};

extern struct crowd crowd;

void crowd_begin(void);
/* Return: the address. */
uint64_t crowd_add(uint64_t address, uint64_t flags, uint64_t pcid);
/* The same for a page of 2 MiB. */
uint64_t crowd_add_large(uint64_t address, uint64_t flags, uint64_t pcid);
/* All CPUs read everything; then everything is repointed. */
void crowd_fill(void);
/* One CPU does it alone; repointing is the caller's. */
void crowd_fill_job(void *argument);
void crowd_look_job(void *argument);
void crowd_repoint(void);
/* `n` or `o` for each slot: all CPUs must read the new frame, or the old one; `-`: either. */
void crowd_expect(const char *expected, int line);
/* Of one CPU, which must have looked. */
void crowd_compare(unsigned int id, const char *expected, int line);

#define EXPECT_CROWD(expected) crowd_expect(expected, __LINE__)
/* What one CPU reads. */
#define EXPECT_OF(id, expected) do { \
	on_cpu(id, crowd_look_job, NULL); \
	crowd_compare(id, expected, __LINE__); \
} while (0)

/*
 * The usual one: 0 a page and 1 its neighbour under PCID_MINE, 2 and 3 the same under PCID_TOO, 4 a global page, that
 * PCID_MINE reads.
 */
void crowd_usual(void);
#define CROWD_PAGE window(PAGE_1G * 2 + PAGE_2M * 5)
#define CROWD_GLOBAL window(PAGE_1G * 2 + PAGE_2M * 9)

/* Asks and waits. */
static inline void broadcast(uint64_t rax, uint32_t ecx, uint64_t pcid)
{
	invlpgb(rax, ecx, pcid);
	tlbsync();
}

#endif
