// SPDX-License-Identifier: GPL-2.0-only
/* What the oracle says of an entry: may its holder use it now? */
#include "oracle.h"
#include "rules.h"

#define PAGE_FLAGS (W | U | A | D)
#define DOC "machine-oracle.md"

/* A vCPU that stays in user mode, with entries of several kinds, until it is told to leave. */
static struct {
	bool has_pcid;
	/* Its address space, and another one that it has used before; both have the two pages. */
	uint64_t root, before;
	uint64_t flags, page, global;
	/* Where the flags are in memory: told to leave, arrived. */
	volatile uint64_t *word;
} stay;

static void stay_job(void *argument)
{
	(void)argument;
	if (stay.has_pcid) {
		pcid_on();
		load_flush(stay.before, 1);
		load(stay.page);
		load(stay.global);
		load_flush(stay.root, 2);
	} else {
		cr3_write(stay.root);
		load(stay.page);
	}
	user_spin(stay.flags);
}

static void stay_begin(bool has_pcid)
{
	uint64_t frame = frame_alloc(0);

	stay.has_pcid = has_pcid;
	stay.root = space();
	stay.before = space();
	stay.flags = window(0);
	stay.page = window(PAGE_BYTES);
	stay.global = window(PAGE_BYTES * 2);
	stay.word = (uint64_t *)frame;
	*entry(stay.root, stay.flags, 1) = frame | P | PAGE_FLAGS;
	page_make(stay.root, stay.page, PAGE_FLAGS);
	page_make(stay.before, stay.page, PAGE_FLAGS);
	page_make(stay.before, stay.global, PAGE_FLAGS | G);
	on_cpu_begin(1, stay_job, NULL);
	for (uint64_t spins = 0; !stay.word[1]; spins++) {
		CHECK(spins < 100000000, "CPU 1 does not come to user mode");
		pause();
	}
}

static void stay_end(void)
{
	stay.word[0] = 1;
	on_cpu_end(1);
}

/* Return: the state of CPU 1's only entry for the page. */
static uint32_t stay_state(uint64_t address)
{
	struct tlb_request *request = oracle_request(ORACLE_QUERY);
	struct tlb_holder holder[2];

	request->apic_id = 1;
	request->linear = address;
	request->buffer = (uint64_t)holder;
	request->capacity = 2;
	oracle_ask(request);
	CHECK(request->count == 1, "%u elements for %lx", request->count, address);
	return holder[0].state;
}

/* Return: the state of CPU 1's CR3, the root of which is no node's. */
static uint32_t stay_cr3_state(void)
{
	static uint64_t none;
	struct tlb_request *request = oracle_request(ORACLE_ROOTS);
	struct tlb_holder holder[2];

	request->apic_id = 1;
	request->flags = LOOK_CR3;
	request->root[0] = stay.root;
	request->roots = (uint64_t)&none;
	request->nroots = 1;
	request->buffer = (uint64_t)holder;
	request->capacity = 2;
	oracle_ask(request);
	CHECK(request->count == 1 && holder[0].kind == KIND_CR3, "%u elements", request->count);
	return holder[0].state;
}

RULE(1327, "state: bit 0 while the vCPU is in user mode, without PCIDs, too", DOC " QUERY", ORACLE | CPUS2 | QUIET,
     "oracle-state-zero")
{
	uint32_t flags, page;

	stay_begin(false);
	flags = stay_state(stay.flags);
	page = stay_state(stay.page);
	stay_end();
	on_cpu(1, settle_job, NULL);
	CHECK(flags == STATE_USABLE && page == STATE_USABLE, "states %x and %x", flags, page);
}

RULE(1328, "state: not while the vCPU is in the kernel, nor of the one who asks", DOC " QUERY", ORACLE | CPUS2 | QUIET,
     "oracle-state-ignores-cpl")
{
	struct tlb_holder holder[4];
	uint32_t flags, count;

	stay_begin(false);
	stay_end();
	flags = stay_state(stay.flags);
	on_cpu(1, settle_job, NULL);
	CHECK(!flags, "state %x", flags);
	cr3_write(stay.root);
	load(stay.page);
	count = oracle_look(stay.root, stay.page, 1, LOOK_TLB, holder, 4);
	CHECK(count == 1 && !holder[0].state, "%u elements, state %x", count, holder[0].state);
}

RULE(1329, "state: only of entries of the PCID that is loaded, and of global ones", DOC " QUERY",
     ORACLE | PCID | CPUS2 | QUIET, "oracle-state-ignores-pcid")
{
	uint32_t flags, page, global;

	stay_begin(true);
	flags = stay_state(stay.flags);
	page = stay_state(stay.page);
	global = stay_state(stay.global);
	stay_end();
	on_cpu(1, settle_job, NULL);
	CHECK(flags == STATE_USABLE && !page && global == STATE_USABLE, "states %x, %x and %x", flags, page, global);
}

RULE(1826, "state: of CR3, too, bit 0 while the vCPU is in user mode", DOC " ROOTS", ORACLE | CPUS2 | QUIET,
     "oracle-state-zero")
{
	uint32_t state;

	stay_begin(false);
	state = stay_cr3_state();
	stay_end();
	on_cpu(1, settle_job, NULL);
	CHECK(state == STATE_USABLE, "state %x", state);
}

RULE(1827, "state: of CR3, not while the vCPU is in the kernel", DOC " ROOTS", ORACLE | CPUS2 | QUIET,
     "oracle-state-ignores-cpl")
{
	uint32_t state;

	stay_begin(false);
	stay_end();
	state = stay_cr3_state();
	on_cpu(1, settle_job, NULL);
	CHECK(!state, "state %x", state);
}
