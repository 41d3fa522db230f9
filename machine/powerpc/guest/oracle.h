/* SPDX-License-Identifier: GPL-2.0-only */
/* The oracle's interface, as machine-powerpc.md has it. */
#ifndef GUEST_ORACLE_H
#define GUEST_ORACLE_H

#include "guest.h"

#define ORACLE_NAME 0x544c4254u

enum { ORACLE_QUERY = 1, ORACLE_STATS };
enum { ANSWERED, NO_SUCH_OP, OUT_OF_RANGE, BAD_ARRAY, NO_TABLE, NOT_ANSWERED = 99 };
enum { IN_CODE_TLB = 1, IN_DATA_TLB = 2, IN_HASH_TABLE = 4, IN_TLBS = 3, IN_ALL = 7 };
#define VSIDS_ALL 0xffffffffu

struct tlb_request {
	uint32_t op, status, where, vsid, page, pages, vsids, nvsids, buffer, capacity, count, found, reserved[20];
} __attribute__((aligned(128)));
_Static_assert(sizeof(struct tlb_request) == 128, "machine-powerpc.md");

struct tlb_element {
	uint32_t where, vsid, page, physical, bits, slot, secondary, reserved;
};
_Static_assert(sizeof(struct tlb_element) == 32, "machine-powerpc.md");

enum stat {
	CODE_MISSES, DATA_MISSES, CHANGED_SEARCHES, SEARCHES, FOUND_PRIMARY, FOUND_SECONDARY, NOT_FOUND, REFERENCES,
	DENIED, REFERENCED_UPDATES, CHANGED_UPDATES, FILLS, EVICTIONS, TLBIE, TLBIE_DROPPED, SEGMENT_WRITES,
	SEGMENT_CHANGES, STATS
};

/* By how much they have moved: 32 bits are enough. */
struct tlb_stats {
	uint32_t at[STATS];
};
extern const char *const stat_names[STATS];

/* Return: what reading SPR 1014 gives, `otherwise` if nothing. */
uint32_t oracle_name(uint32_t otherwise);
/* Return: a request, all zero but for `op`, and for a query one page. */
struct tlb_request *oracle_request(uint32_t op);
/* Return: the status, whatever it is. */
uint32_t oracle_status(struct tlb_request *request);
/* Asks; gives up unless the status is 0. */
void oracle_ask(struct tlb_request *request);
/* Return: where this page is found. */
uint32_t oracle_where(uint32_t vsid, uint32_t page, uint32_t where);
/* The same with details; Return: how many elements. */
uint32_t oracle_look(uint32_t vsid, uint32_t page, uint32_t where, struct tlb_element *to, uint32_t capacity);
/* Return: how many entries both TLBs have, or NOT_COUNTED if the oracle does not answer. */
#define NOT_COUNTED 0xffffffffu
uint32_t oracle_count(void);
struct tlb_stats oracle_stats(void);
/* By how much the counters have moved since. */
struct tlb_stats oracle_since(const struct tlb_stats *before);

#endif
