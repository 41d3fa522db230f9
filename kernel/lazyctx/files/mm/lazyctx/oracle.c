// SPDX-License-Identifier: GPL-2.0-only
/* Asks the emulated machine what its TLBs and the hash table hold: SPR 1014. */

#include <linux/align.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/printk.h>
#include <linux/seq_file.h>

#include "lazyctx.h"

#define SPRN_ORACLE	1014
#define ORACLE_NAME	0x544c4254	/* "TLBT" */
#define OP_QUERY	1
#define OP_STATS	2
#define IN_ITLB		1
#define IN_DTLB		2
#define IN_TABLE	4
#define UNANSWERED	(~0u)

struct oracle_request {
	u32 op;
	u32 status;
	u32 where;
	u32 vsid;
	u32 page;
	u32 pages;
	u32 vsids;	/* physical */
	u32 nvsids;
	u32 buffer;
	u32 capacity;
	u32 count;
	u32 found;
	u32 reserved[20];
} __aligned(128);

static_assert(sizeof(struct oracle_request) == 128);

enum { ITLB_MISSES, DTLB_MISSES, SEARCHES = 3, FOUND_PRIMARY, FOUND_SECONDARY, REFERENCES = 7, STATS };

static struct oracle_request request;
static u64 stats[STATS];

static void oracle_ask(void)
{
	asm volatile("mtspr %0,%1" : : "i" (SPRN_ORACLE), "r" (__pa_symbol(&request)) : "memory");
	WARN_ONCE(request.status, "lazyctx: the oracle refused: %u\n", request.status);
}

bool oracle_is_there(void)
{
	unsigned long name = 0;

	asm volatile("mfspr %0,%1" : "+r" (name) : "i" (SPRN_ORACLE));
	return name == ORACLE_NAME;
}

/* If the machine cannot say, that is as bad as an entry. */
u32 oracle_count(const u32 *vsids, u32 nvsids, u32 page, u32 pages)
{
	request = (struct oracle_request) {
		.op = OP_QUERY,
		.status = UNANSWERED,
		.where = IN_ITLB | IN_DTLB | IN_TABLE,
		.page = page,
		.pages = pages,
		.vsids = __pa(vsids),
		.nvsids = nvsids,
	};
	oracle_ask();
	return request.status ? ~0u : request.count;
}

void oracle_show(struct seq_file *seq)
{
	request = (struct oracle_request) {
		.op = OP_STATS,
		.status = UNANSWERED,
		.buffer = __pa_symbol(stats),
		.capacity = STATS,
	};
	oracle_ask();
	if (request.status)
		return;
	seq_printf(seq, "tlb_misses %llu\nsearches %llu\nsearches_found %llu\nreferences %llu\n",
		   stats[ITLB_MISSES] + stats[DTLB_MISSES], stats[SEARCHES],
		   stats[FOUND_PRIMARY] + stats[FOUND_SECONDARY], stats[REFERENCES]);
}
