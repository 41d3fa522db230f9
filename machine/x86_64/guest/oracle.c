// SPDX-License-Identifier: GPL-2.0-only
/* Asking the oracle. Requests and buffers are mapped one to one. */
#include "oracle.h"

struct tlb_request requests[CPUS_MAX];

struct tlb_request *oracle_request(uint32_t op)
{
	struct tlb_request *request = &requests[this_cpu()->id];

	*request = (struct tlb_request){ .op = op, .status = 99, .apic_id = ALL_CPUS };
	if (op == ORACLE_QUERY) {
		request->flags = LOOK_TLB;
		request->pages = 1;
	}
	return request;
}

uint32_t oracle_status(struct tlb_request *request)
{
	int vector = wrmsr_try(MSR_ORACLE, (uint64_t)request);

	if (vector != NO_FAULT)
		give_up("the oracle: exception %d", vector);
	return request->status;
}

void oracle_ask(struct tlb_request *request)
{
	uint32_t status = oracle_status(request);

	if (status != ANSWERED)
		give_up("the oracle: status %u", status);
}

uint64_t oracle_holders(uint64_t root, uint64_t address, uint64_t pages, uint32_t flags)
{
	struct tlb_request *request = oracle_request(ORACLE_QUERY);

	request->linear = address;
	request->pages = pages;
	request->root[0] = root;
	request->flags = flags;
	oracle_ask(request);
	return request->holders[0];
}

uint32_t oracle_look(uint64_t root, uint64_t address, uint64_t pages, uint32_t flags, struct tlb_holder *to,
		     uint32_t capacity)
{
	struct tlb_request *request = oracle_request(ORACLE_QUERY);

	request->linear = address;
	request->pages = pages;
	request->root[0] = root;
	request->flags = flags;
	request->buffer = (uint64_t)to;
	request->capacity = capacity;
	oracle_ask(request);
	return request->count;
}

struct tlb_stats oracle_stats(uint32_t apic_id)
{
	struct tlb_request *request = oracle_request(ORACLE_STATS);
	struct tlb_stats stats = { 0 };

	request->apic_id = apic_id;
	request->buffer = (uint64_t)&stats;
	request->capacity = STATS_ALL;
	oracle_ask(request);
	if (request->count < STATS_ALL)
		give_up("the oracle has %u counters", request->count);
	return stats;
}

struct tlb_stats oracle_measure(void (*what)(void))
{
	struct tlb_stats before, after;

	for (unsigned int i = 0; i < 3; i++) {
		before = oracle_stats(this_cpu()->id);
		what();
		after = oracle_stats(this_cpu()->id);
	}
	for (unsigned int i = 0; i < STATS_ALL; i++)
		after.at[i] -= before.at[i];
	return after;
}
