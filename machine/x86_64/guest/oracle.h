/* SPDX-License-Identifier: GPL-2.0-only */
/* The oracle's interface, as machine-oracle.md has it. */
#ifndef GUEST_ORACLE_H
#define GUEST_ORACLE_H

#include "cpu.h"

enum { ORACLE_QUERY = 1, ORACLE_STATS, ORACLE_CONTEXTS, ORACLE_ROOTS, ORACLE_NODES };
enum { ANSWERED, NO_SUCH_OP, OUT_OF_RANGE, BAD_BUFFER, NO_SUCH_CPU };
/* The last one only looks at `pcid`. */
enum { LOOK_TLB = 1, LOOK_STRUCTURES = 2, LOOK_CR3 = 4, LOOK_PCID = 8 };
enum { KIND_CR3 = 6 };
#define ROOTS_MAX 64
/* The vCPU was in user mode, with the entry's PCID. */
enum { STATE_USABLE = 1 };
enum { RIGHT_W = 1, RIGHT_U = 2, RIGHT_NX = 4, RIGHT_G = 8, RIGHT_D = 16 };
#define ALL_CPUS 0xffffffffu

struct tlb_request {
	uint32_t op, status, flags, apic_id;
	uint64_t linear, pages, root[4], buffer;
	uint32_t capacity, count;
	uint64_t roots;
	uint32_t nroots, pcid;
	uint64_t holders[4];
} __attribute__((aligned(128)));
_Static_assert(sizeof(struct tlb_request) == 128, "machine-oracle.md");

struct tlb_holder {
	uint32_t apic_id;
	uint16_t pcid;
	uint8_t kind, size;
	uint32_t rights, state;
	uint64_t linear, physical, root, through;
};
_Static_assert(sizeof(struct tlb_holder) == 48, "machine-oracle.md");

struct tlb_context {
	uint32_t apic_id, pcid;
	uint64_t root, hits, fills;
};

enum { NODE_OF_CPU, NODE_OF_RAM };

struct tlb_node {
	uint32_t kind, node;
	uint64_t first, count, reserved;
};

enum stat {
	WALKS, WALK_LOADS, FILLS, HITS, EVICTIONS, STRUCTURE_HITS, SPECULATIVE_WALKS, SPECULATIVE_FILLS, PAGE_FAULTS,
	ASSISTS_ACCESSED, ASSISTS_DIRTY, CR3_FLUSH, CR3_NOFLUSH, INVLPG, INVPCID_0, INVPCID_1, INVPCID_2, INVPCID_3,
	FLUSH_ALL, CONTEXTS_DROPPED, IPI_TARGETS, IPIS_SENT, INSERTS, INSERT_OPS, STATS,
	/* 0 with one node; each for levels 1 to 5. */
	LOADS_LOCAL = STATS, LOADS_REMOTE = LOADS_LOCAL + 5, SPECULATIVE_LOCAL = LOADS_REMOTE + 5,
	SPECULATIVE_REMOTE = SPECULATIVE_LOCAL + 5, LOWER_LOCAL = SPECULATIVE_REMOTE + 5, LOWER_REMOTE, STATS_NODES,
	INVLPGB = STATS_NODES, INVLPGB_ALL, TLBSYNC, BROADCAST_TARGETS, BROADCAST_HITS, USER_INTERRUPTS, STATS_ALL
};

struct tlb_stats {
	uint64_t at[STATS_ALL];
};

/* One for each CPU. */
extern struct tlb_request requests[CPUS_MAX];

/* Return: the calling CPU's request, all zero but for `op`, all CPUs and one page. */
struct tlb_request *oracle_request(uint32_t op);
/* Asks; gives up unless the status is 0. */
void oracle_ask(struct tlb_request *request);
/* Return: the status, whatever it is. */
uint32_t oracle_status(struct tlb_request *request);
/* Return: bit N: CPU N holds `address` in `root` (0: in any), as `flags` say. */
uint64_t oracle_holders(uint64_t root, uint64_t address, uint64_t pages, uint32_t flags);
/* The same with details; Return: how many. */
uint32_t oracle_look(uint64_t root, uint64_t address, uint64_t pages, uint32_t flags, struct tlb_holder *to,
		     uint32_t capacity);
struct tlb_stats oracle_stats(uint32_t apic_id);
/*
 * By how much `what` moves this CPU's counters. It runs three times, and the last time counts: the code and data that
 * it needs itself are in the TLB by then.
 */
struct tlb_stats oracle_measure(void (*what)(void));

/* The request that `make` returns, with a change, must be answered with this status. */
#define EXPECT_STATUS_OF(expected, make, change) do { \
	struct tlb_request *request = make; \
	uint32_t status; \
	change; \
	status = oracle_status(request); \
	CHECK(status == (expected), "line %d: status %u instead of %u", __LINE__, status, (unsigned int)(expected)); \
} while (0)
/* The same of a request of `op_`. */
#define EXPECT_STATUS(expected, op_, change) EXPECT_STATUS_OF(expected, oracle_request(op_), change)

#endif
