// SPDX-License-Identifier: GPL-2.0-only
/* Asking the oracle, in real mode. */
#include "oracle.h"

static struct tlb_request only_request;

const char *const stat_names[STATS] = {
	"itlb_misses", "dtlb_misses", "changed_searches", "searches", "found_primary", "found_secondary", "not_found",
	"references", "denied", "referenced_updates", "changed_updates", "fills", "evictions", "tlbie", "tlbie_dropped",
	"segment_writes", "segment_changes",
};

uint32_t oracle_name(uint32_t otherwise)
{
	uint32_t value = otherwise;

	asm volatile("mfspr %0, 1014" : "+r"(value));
	return value;
}

struct tlb_request *oracle_request(uint32_t op)
{
	only_request = (struct tlb_request){ .op = op, .status = NOT_ANSWERED };
	if (op == ORACLE_QUERY) {
		only_request.where = IN_ALL;
		only_request.pages = 1;
	}
	return &only_request;
}

uint32_t oracle_status(struct tlb_request *request)
{
	asm volatile("mtspr 1014, %0" : : "r"(request) : "memory");
	return request->status;
}

void oracle_ask(struct tlb_request *request)
{
	uint32_t status = oracle_status(request);

	if (status != ANSWERED)
		give_up("the oracle: status %u", status);
}

uint32_t oracle_where(uint32_t vsid, uint32_t page, uint32_t where)
{
	struct tlb_request *request = oracle_request(ORACLE_QUERY);

	request->vsid = vsid;
	request->page = page;
	request->where = where;
	oracle_ask(request);
	return request->found;
}

uint32_t oracle_look(uint32_t vsid, uint32_t page, uint32_t where, struct tlb_element *to, uint32_t capacity)
{
	struct tlb_request *request = oracle_request(ORACLE_QUERY);

	request->vsid = vsid;
	request->page = page;
	request->where = where;
	request->buffer = (uint32_t)to;
	request->capacity = capacity;
	oracle_ask(request);
	return request->count;
}

uint32_t oracle_count(void)
{
	struct tlb_request *request = oracle_request(ORACLE_QUERY);

	request->where = IN_TLBS;
	request->nvsids = VSIDS_ALL;
	request->pages = 0x10000;
	return oracle_status(request) == ANSWERED ? request->count : NOT_COUNTED;
}

struct tlb_stats oracle_stats(void)
{
	static uint64_t counters[STATS] __attribute__((aligned(8)));
	struct tlb_request *request = oracle_request(ORACLE_STATS);
	struct tlb_stats stats;

	request->buffer = (uint32_t)counters;
	request->capacity = STATS;
	oracle_ask(request);
	if (request->count < STATS)
		give_up("the oracle has %u counters", request->count);
	for (unsigned int i = 0; i < STATS; i++) {
		if (counters[i] >> 32)
			give_up("the upper half of %s is %x", stat_names[i], (uint32_t)(counters[i] >> 32));
		stats.at[i] = (uint32_t)counters[i];
	}
	return stats;
}

struct tlb_stats oracle_since(const struct tlb_stats *before)
{
	struct tlb_stats stats = oracle_stats();

	for (unsigned int i = 0; i < STATS; i++)
		stats.at[i] -= before->at[i];
	return stats;
}
