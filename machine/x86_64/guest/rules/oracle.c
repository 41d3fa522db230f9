// SPDX-License-Identifier: GPL-2.0-only
/* The oracle's answers, where behaviour is known. */
#include "oracle.h"
#include "rules.h"

#define PAGE_FLAGS (W | U | A | D)
#define DOC "machine-oracle.md"

static void touch(void *argument)
{
	cr3_write(((uint64_t *)argument)[0]);
	load(((uint64_t *)argument)[1]);
}

static void leave(void *argument)
{
	(void)argument;
	cr3_write((uint64_t)boot_pml4);
}

static void drop(void *argument)
{
	invlpg((uint64_t)argument);
}

RULE(1309, "holders are the vCPUs that have used the page, no others", DOC " QUERY", ORACLE | CPUS4 | QUIET,
     "oracle-blind")
{
	uint64_t where[2] = { space(), window(0) };

	page_make(where[0], where[1], PAGE_FLAGS);
	for (uint64_t mask = 1; mask < 1ul << cpu_count && mask < 64; mask++) {
		uint64_t holders;

		for (unsigned int id = 0; id < cpu_count; id++)
			if (mask >> id & 1)
				on_cpu(id, touch, where);
		holders = oracle_holders(where[0], where[1], 1, LOOK_TLB);
		CHECK(holders == mask, "%lx instead of %lx", holders, mask);
		on_all(leave, NULL);
		holders = oracle_holders(where[0], where[1], 1, LOOK_TLB);
		CHECK(holders == 0, "%lx after a flush", holders);
	}
}

RULE(1310, "after an invalidation the vCPU is no holder, whichever invalidation it was", DOC " QUERY",
     ORACLE | PCID | INVPCID, "oracle-reports-stale")
{
	uint64_t root = space(), me = 1ul << this_cpu()->id;
	struct page page = page_make(root, window(0), PAGE_FLAGS);

	for (unsigned int how = 0; how < 9; how++) {
		load_flush(root, 1);
		load(page.address);
		CHECK(oracle_holders(root, page.address, 1, LOOK_TLB) == me, "way %u: no holder before", how);
		*page.pte = 0;
		switch (how) {
		case 0: invlpg(page.address); break;
		case 1: load_flush(root, 1); break;
		case 2: invpcid(INVPCID_ADDRESS, 1, page.address); break;
		case 3: invpcid(INVPCID_CONTEXT, 1, 0); break;
		case 4: invpcid(INVPCID_ALL_GLOBAL, 0, 0); break;
		case 5: invpcid(INVPCID_ALL, 0, 0); break;
		case 6: pge_toggle(); break;
		case 7: cr4_write(cr4_read() | CR4_SMEP); break;
		case 8: cr4_write(cr4_read() & ~CR4_PCIDE); break;
		}
		CHECK(oracle_holders(root, page.address, 1, LOOK_TLB) == 0, "way %u: a holder after", how);
		page_restore(&page);
		cpu_settle();
		pcid_on();
	}
}

RULE(1311, "a translation of a PCID that is not loaded counts, with its PCID", DOC " QUERY", ORACLE | PCID | QUIET,
     "oracle-current-pcid")
{
	uint64_t root = space(), other = space();
	struct page page = page_make(root, window(0), PAGE_FLAGS);
	struct tlb_holder holder[2];

	load_flush(root, 0x123);
	load(page.address);
	load_flush(other, 2);
	CHECK(oracle_look(root, page.address, 1, LOOK_TLB, holder, 2) == 1, "no holder");
	CHECK(holder[0].pcid == 0x123, "PCID %x", holder[0].pcid);
	load_keep(root, 0x123);
	CHECK(oracle_look(root, page.address, 1, LOOK_TLB, holder, 2) == 1, "no holder after a switch back");
}

static void expect_holder(const struct tlb_holder *holder, unsigned int size, uint64_t address, uint64_t frame,
			  uint32_t rights, uint64_t root)
{
	CHECK(holder->apic_id == this_cpu()->id, "apic_id %u", holder->apic_id);
	CHECK(holder->kind == 0, "kind %u", holder->kind);
	CHECK(holder->size == size, "size %u", holder->size);
	CHECK(holder->linear == address, "linear %lx", holder->linear);
	CHECK(holder->physical == frame, "physical %lx", holder->physical);
	CHECK(holder->rights == rights, "rights %x instead of %x", holder->rights, rights);
	CHECK(holder->root == root, "root %lx", holder->root);
	CHECK(!holder->state && holder->through == root, "state %x, through %lx", holder->state, holder->through);
}

RULE(1312, "an element names size, first address, frame and root: 4 KiB, 2 MiB, 1 GiB", DOC " QUERY", ORACLE | QUIET,
     "oracle-frame-wrong")
{
	uint64_t root = space(), frame = frame_alloc_2m(OLD);
	struct page page = page_make(root, window(0x5000), PAGE_FLAGS);
	struct tlb_holder holder[2];

	*entry(root, window(PAGE_2M * 3), 2) = frame | P | PS | PAGE_FLAGS;
	*entry(root, window(PAGE_1G * 3), 3) = PAGE_1G | P | PS | PAGE_FLAGS;
	cr3_write(root);
	load(page.address + 0x123);
	load(window(PAGE_2M * 3 + 0x12345));
	load(window(PAGE_1G * 3 + 0x1234567));
	CHECK(oracle_look(root, page.address + 8, 1, LOOK_TLB, holder, 2) == 1, "4 KiB: not one element");
	expect_holder(holder, 12, page.address, page.old, RIGHT_W | RIGHT_U | RIGHT_D, root);
	/* Any page of a large one. */
	CHECK(oracle_look(root, window(PAGE_2M * 3 + 0x100000), 1, LOOK_TLB, holder, 2) == 1, "2 MiB: not one element");
	expect_holder(holder, 21, window(PAGE_2M * 3), frame, RIGHT_W | RIGHT_U | RIGHT_D, root);
	CHECK(oracle_look(root, window(PAGE_1G * 3 + 0x30000000), 1, LOOK_TLB, holder, 2) == 1, "1 GiB: not one element");
	expect_holder(holder, 30, window(PAGE_1G * 3), PAGE_1G, RIGHT_W | RIGHT_U | RIGHT_D, root);
}

RULE(1313, "rights are those of all levels together: W, U, NX, G, D and the protection key", DOC " QUERY",
     ORACLE | QUIET, "oracle-rights-wrong")
{
	static const struct {
		uint64_t flags;
		uint32_t rights;
	} cases[] = {
		{ A, 0 }, { W | A, RIGHT_W }, { U | A, RIGHT_U }, { NX | A, RIGHT_NX }, { G | A, RIGHT_G },
		{ W | A | D, RIGHT_W | RIGHT_D }, { A | D, RIGHT_D }, { U | A | KEY(9), RIGHT_U | 9 << 8 },
		{ W | U | G | NX | A | D | KEY(15),
		  RIGHT_W | RIGHT_U | RIGHT_G | RIGHT_NX | RIGHT_D | 15 << 8 },
	};
	uint64_t root = space();
	struct tlb_holder holder[2];
	struct page page;

	cr3_write(root);
	if (has_pku())
		cr4_write(cr4_read() | CR4_PKE);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (cases[i].flags >> 59 & 15 && !has_pku())
			continue;
		page = page_make(root, window(i * PAGE_BYTES), cases[i].flags);
		load(page.address);
		CHECK(oracle_look(root, page.address, 1, LOOK_TLB, holder, 2) == 1, "case %lu: not one element", i);
		CHECK(holder[0].rights == cases[i].rights, "case %lu: rights %x instead of %x", i, holder[0].rights,
		      cases[i].rights);
	}
	page = page_make(root, window(PAGE_2M), PAGE_FLAGS);
	*entry(root, page.address, 2) &= ~(W | U);
	*entry(root, page.address, 2) |= NX;
	load(page.address);
	CHECK(oracle_look(root, page.address, 1, LOOK_TLB, holder, 2) == 1, "not one element");
	CHECK(holder[0].rights == (RIGHT_NX | RIGHT_D), "below a table without W and U: rights %x", holder[0].rights);
}

RULE(1314, "a dirty bit appears with the write that sets it, and the answer changes nothing", DOC " QUERY",
     ORACLE | QUIET, "hit-ignores-dirty")
{
	uint64_t root = space();
	struct page page = page_make(root, window(0), W | U);
	struct tlb_holder holder[2];

	cr3_write(root);
	load(page.address);
	for (unsigned int i = 0; i < 3; i++) {
		CHECK(oracle_look(root, page.address, 1, LOOK_TLB, holder, 2) == 1, "not one element");
		CHECK(!(holder[0].rights & RIGHT_D), "dirty before the write");
	}
	CHECK((*page.pte & (A | D)) == A, "the entry has %lx", *page.pte & (A | D));
	store(page.address, 1);
	CHECK(oracle_look(root, page.address, 1, LOOK_TLB, holder, 2) == 1, "not one element");
	CHECK(holder[0].rights & RIGHT_D, "not dirty after the write");
}

RULE(1315, "roots, first part: an entry belongs to the root that CR3 held when it was filled", DOC " QUERY",
     ORACLE | PCID | QUIET, "oracle-any-root")
{
	uint64_t root = space(), other = space(), me = 1ul << this_cpu()->id;
	struct page page = page_make(root, window(0), PAGE_FLAGS);
	struct tlb_request *request;

	load_flush(root, 1);
	load(page.address);
	CHECK(oracle_holders(root, page.address, 1, LOOK_TLB) == me, "its own root does not find it");
	CHECK(oracle_holders(root | 0xabc, page.address, 1, LOOK_TLB) == me, "the low 12 bits count");
	CHECK(oracle_holders(other, page.address, 1, LOOK_TLB) == 0, "another root finds it");
	CHECK(oracle_holders(0, page.address, 1, LOOK_TLB) == me, "no root does not find it");
	for (unsigned int slot = 0; slot < 4; slot++) {
		request = oracle_request(ORACLE_QUERY);
		request->linear = page.address;
		request->root[(slot + 1) % 4] = other;
		request->root[slot] = root;
		oracle_ask(request);
		CHECK(request->holders[0] == me, "root %u of the request does not find it", slot);
	}
}

RULE(1316, "roots, second part: what is filled under a PCID whose root was changed without a flush belongs to both",
     DOC " QUERY", ORACLE | PCID | QUIET, "oracle-forgets-owner")
{
	uint64_t root = space(), other = space(), me = 1ul << this_cpu()->id;
	struct page page = page_make(other, window(0), PAGE_FLAGS);
	struct tlb_holder holder[2];

	load_flush(root, 1);
	load_keep(other, 1);
	load(page.address);
	load_keep(root, 1);
	CHECK(oracle_holders(other, page.address, 1, LOOK_TLB) == me, "the root of the walk does not find it");
	CHECK(oracle_holders(root, page.address, 1, LOOK_TLB) == me, "the PCID's root does not find it");
	CHECK(oracle_look(root, page.address, 1, LOOK_TLB, holder, 2) == 1, "not one element");
	CHECK(holder[0].root == other, "the element names another root");
	/* A load with a flush gives the PCID to the other one. */
	load_flush(other, 1);
	load(page.address);
	CHECK(oracle_holders(root, page.address, 1, LOOK_TLB) == 0, "the root of before finds it");
}

RULE(1317, "a global entry belongs to every root", DOC " QUERY", ORACLE | QUIET, "oracle-hides-global")
{
	uint64_t root = space(), other = space();
	struct page page = page_make(root, window(0), PAGE_FLAGS | G);

	cr3_write(root);
	load(page.address);
	CHECK(oracle_holders(other, page.address, 1, LOOK_TLB) == 1ul << this_cpu()->id, "another root does not find it");
}

RULE(1318, "a range finds what lies in it, and nothing beside it", DOC " QUERY", ORACLE | QUIET, "oracle-first-page")
{
	uint64_t root = space(), me = 1ul << this_cpu()->id;
	struct page page = page_make(root, window(PAGE_2M + 100 * PAGE_BYTES), PAGE_FLAGS);
	uint64_t frame = frame_alloc_2m(OLD);
	struct tlb_holder holder[8];

	*entry(root, window(PAGE_2M * 4), 2) = frame | P | PS | PAGE_FLAGS;
	cr3_write(root);
	load(page.address);
	for (uint64_t pages = 1; pages <= 512; pages = pages < 4 ? pages + 1 : pages * 2) {
		uint64_t at = page.address;

		CHECK(oracle_holders(root, at, pages, LOOK_TLB) == me, "not found as the first of %lu", pages);
		CHECK(oracle_holders(root, at - (pages - 1) * PAGE_BYTES, pages, LOOK_TLB) == me,
		      "not found as the last of %lu", pages);
		CHECK(oracle_holders(root, at + PAGE_BYTES, pages, LOOK_TLB) == 0, "found before a range of %lu", pages);
		CHECK(oracle_holders(root, at - pages * PAGE_BYTES, pages, LOOK_TLB) == 0, "found after a range of %lu",
		      pages);
	}
	/* A large page that begins before the range, or ends after it, is found once. */
	load(window(PAGE_2M * 4));
	CHECK(oracle_look(root, window(PAGE_2M * 4 + PAGE_BYTES * 7), 3, LOOK_TLB, holder, 8) == 1, "inside");
	CHECK(oracle_look(root, window(PAGE_2M * 4 - PAGE_BYTES), 2, LOOK_TLB, holder, 8) == 1, "its beginning");
	CHECK(oracle_look(root, window(PAGE_2M * 5 - PAGE_BYTES), 512, LOOK_TLB, holder, 8) == 1, "its end");
	CHECK(oracle_look(root, window(PAGE_2M * 5), 512, LOOK_TLB, holder, 8) == 0, "after it");
}

RULE(1319, "count tells how many there are, capacity how many are written", DOC " The request", ORACLE | QUIET,
     "oracle-overruns")
{
	uint64_t root = space();
	static struct tlb_holder holders[8];
	struct tlb_request *request;

	cr3_write(root);
	for (unsigned int i = 0; i < 5; i++) {
		page_make(root, window(i * PAGE_BYTES), PAGE_FLAGS);
		load(window(i * PAGE_BYTES));
	}
	for (uint32_t capacity = 0; capacity < 8; capacity++) {
		uint64_t seen = 0;

		for (unsigned int i = 0; i < 8; i++)
			holders[i].linear = OLD;
		request = oracle_request(ORACLE_QUERY);
		request->linear = window(0);
		request->pages = 8;
		request->root[0] = root;
		request->buffer = (uint64_t)holders;
		request->capacity = capacity;
		oracle_ask(request);
		CHECK(request->count == 5, "count %u at capacity %u", request->count, capacity);
		for (unsigned int i = 0; i < 8; i++)
			CHECK((holders[i].linear != OLD) == (i < capacity && i < 5), "capacity %u, element %u", capacity, i);
		for (unsigned int i = 0; i < capacity && i < 5; i++) {
			uint64_t bit = 1ul << (holders[i].linear - window(0)) / PAGE_BYTES;

			CHECK(!(seen & bit), "an element comes twice");
			seen |= bit;
		}
	}
	CHECK(oracle_look(root, window(0), 8, LOOK_TLB, NULL, 0) == 5, "without a buffer");
}

RULE(1320, "apic_id asks one vCPU alone", DOC " The request", ORACLE | CPUS2 | QUIET, "oracle-ignores-apic-id")
{
	uint64_t where[2] = { space(), window(0) };

	page_make(where[0], where[1], PAGE_FLAGS);
	on_cpu(0, touch, where);
	on_cpu(1, touch, where);
	for (uint32_t id = 0; id < 2; id++) {
		struct tlb_request *request = oracle_request(ORACLE_QUERY);

		request->linear = where[1];
		request->apic_id = id;
		oracle_ask(request);
		CHECK(request->holders[0] == 1ul << id && request->count == 1, "vCPU %u: holders %lx, count %u", id,
		      request->holders[0], request->count);
	}
	on_cpu(1, drop, (void *)where[1]);
	CHECK(oracle_holders(where[0], where[1], 1, LOOK_TLB) == 1, "after INVLPG on vCPU 1");
	on_cpu(1, leave, NULL);
}

RULE(1321, "paging-structure entries are found where asked for: cached PDE, PDPTE, PML4E with their tables",
     DOC " QUERY", ORACLE | STRUCTURES | QUIET, "oracle-no-structures")
{
	uint64_t root = space(), address = window(PAGE_1G + PAGE_2M * 2);
	struct page page = page_make(root, address, PAGE_FLAGS);
	struct tlb_holder holders[8];
	uint32_t count, seen = 0;

	cr3_write(root);
	load(page.address);
	/* Beside the page: only its tables are in common. */
	CHECK(oracle_holders(root, address + PAGE_BYTES, 1, LOOK_TLB) == 0, "found as a translation");
	count = oracle_look(root, address + PAGE_BYTES, 1, LOOK_STRUCTURES, holders, 8);
	CHECK(count == 3, "%u instead of 3", count);
	for (unsigned int i = 0; i < count; i++) {
		unsigned int level = holders[i].kind, lg = 3 + 9 * level;

		CHECK(level >= 2 && level <= 4, "kind %u", level);
		CHECK(holders[i].size == lg, "kind %u has size %u", level, holders[i].size);
		CHECK(holders[i].linear == (address & ~0ul << lg), "kind %u begins at %lx", level, holders[i].linear);
		CHECK(holders[i].physical == (*entry(root, address, level) & FRAME_MASK), "kind %u points to %lx", level,
		      holders[i].physical);
		CHECK(holders[i].root == root, "kind %u has root %lx", level, holders[i].root);
		seen |= 1u << level;
	}
	CHECK(seen == 0x1c, "the kinds are %x", seen);
	CHECK(oracle_look(root, address, 1, LOOK_TLB | LOOK_STRUCTURES, holders, 8) == 4, "all together");
	invlpg(address);
	CHECK(oracle_holders(root, address, 1, LOOK_TLB | LOOK_STRUCTURES) == 0, "after INVLPG");
}

RULE(1322, "five levels: a cached PML5E is found, and addresses of 57 bits are canonical", DOC " QUERY",
     ORACLE | STRUCTURES | LA57 | QUIET, "oracle-no-structures")
{
	uint64_t root5 = page_alloc(), address = (5ul << 48) + PAGE_1G + PAGE_2M * 2;
	struct tlb_holder holders[8];
	uint32_t count, seen = 0;

	*(uint64_t *)root5 = space() | P | W | U | A;
	*entry5(root5, address, 1) = frame_alloc(OLD) | P | PAGE_FLAGS;
	CHECK(legacy_trip(CR4_BASE | CR4_LA57, (uint32_t)root5) == 0, "five-level paging cannot be entered");
	load(address);
	count = oracle_look(root5, address, 1, LOOK_TLB | LOOK_STRUCTURES, holders, 8);
	for (unsigned int i = 0; i < count && i < 8; i++)
		seen |= 1u << holders[i].kind;
	CHECK(seen == 0x3d, "the kinds are %x", seen);
	EXPECT_STATUS(ANSWERED, ORACLE_QUERY, request->linear = 1ul << 55);
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_QUERY, request->linear = 1ul << 56);
}

static struct {
	uint64_t where[2];
	volatile uint64_t wrong;
} storm;

static void storm_job(void *argument)
{
	uint64_t me = 1ul << this_cpu()->id;

	(void)argument;
	cr3_write(storm.where[0]);
	for (unsigned int i = 0; i < 300; i++) {
		load(storm.where[1]);
		if (!(oracle_holders(storm.where[0], storm.where[1], 1, LOOK_TLB) & me))
			storm.wrong++;
		invlpg(storm.where[1]);
		if (oracle_holders(storm.where[0], storm.where[1], 1, LOOK_TLB) & me)
			storm.wrong++;
	}
	cr3_write((uint64_t)boot_pml4);
}

RULE(1323, "all vCPUs ask at once, interrupts off: each answer is right about the one who asks", DOC " Finding it",
     ORACLE | CPUS2 | QUIET, "oracle-reports-stale")
{
	storm.where[0] = space();
	storm.where[1] = window(0);
	storm.wrong = 0;
	page_make(storm.where[0], storm.where[1], PAGE_FLAGS);
	on_all(storm_job, NULL);
	CHECK(!storm.wrong, "%lu answers of %u were wrong", storm.wrong, cpu_count * 600);
}

static struct {
	uint64_t root, address;
	volatile uint64_t holders, count;
} nmi;

static void nmi_ask(void)
{
	nmi.holders = oracle_holders(nmi.root, nmi.address, 1, LOOK_TLB);
	nmi.count++;
}

static void nmi_wait(void *argument)
{
	(void)argument;
	this_cpu()->on_nmi = nmi_ask;
	for (uint64_t i = 0; !nmi.count && i < 10000000; i++)
		pause();
	this_cpu()->on_nmi = NULL;
}

RULE(1324, "it answers in an NMI", DOC " Finding it", ORACLE | CPUS2 | QUIET, "oracle-blind")
{
	struct page page;

	nmi.root = space();
	nmi.address = window(0);
	nmi.count = nmi.holders = 0;
	page = page_make(nmi.root, nmi.address, PAGE_FLAGS);
	cr3_write(nmi.root);
	load(page.address);
	on_cpu_begin(1, nmi_wait, NULL);
	while (!cpus[1].on_nmi)
		pause();
	cpu_kick(1, 0x4400);
	on_cpu_end(1);
	CHECK(nmi.count == 1, "%lu NMIs", nmi.count);
	CHECK(nmi.holders == 1, "holders %lx", nmi.holders);
}

RULE(1325, "CONTEXTS lists the PCIDs of a vCPU with their roots, hits and fills", DOC " CONTEXTS",
     ORACLE | PCID | QUIET, "oracle-contexts-stale")
{
	uint64_t root = space(), other = space(), value;
	static struct tlb_context contexts[64];
	struct page page = page_make(root, window(0), PAGE_FLAGS);
	struct tlb_request *request;
	unsigned int seen = 0;

	load_flush(root, 0x111);
	load(page.address);
	EXPECT_FAULT(VECTOR_USER, user_read(page.address, &value));
	load_flush(other, 0x222);
	/* Under its PCID another root, without a flush: it still belongs to the first. */
	load_keep(other, 0x111);
	request = oracle_request(ORACLE_CONTEXTS);
	request->apic_id = this_cpu()->id;
	request->buffer = (uint64_t)contexts;
	request->capacity = 64;
	oracle_ask(request);
	CHECK(request->count <= 64, "%u contexts", request->count);
	for (unsigned int i = 0; i < request->count; i++) {
		CHECK(contexts[i].apic_id == this_cpu()->id, "apic_id %u", contexts[i].apic_id);
		if (contexts[i].pcid == 0x111) {
			CHECK(contexts[i].root == root, "root %lx", contexts[i].root);
			CHECK(contexts[i].fills >= 1 && contexts[i].hits >= 1, "fills %lu, hits %lu", contexts[i].fills,
			      contexts[i].hits);
			seen |= 1;
		}
		if (contexts[i].pcid == 0x222) {
			CHECK(contexts[i].root == other, "root %lx", contexts[i].root);
			seen |= 2;
		}
	}
	CHECK(seen == 3, "seen: %x", seen);
}

/* As in the page itself. */
static struct tlb_request request;

static bool held_elsewhere(uint64_t address, uint64_t pgd, unsigned int my_apic_id)
{
	request = (struct tlb_request){
		.op = 1, .flags = 1, .apic_id = ~0u,
		.linear = address, .pages = 1, .root = { pgd },
	};
	wrmsr(0x400000f0, (uint64_t)&request);
	request.holders[my_apic_id / 64] &= ~(1ull << my_apic_id % 64);
	return request.holders[0] | request.holders[1] | request.holders[2] | request.holders[3];
}

RULE(1326, "the example of the documentation works", DOC " Example", ORACLE | CPUS2 | QUIET, "oracle-blind")
{
	uint64_t where[2] = { space(), window(0) };

	page_make(where[0], where[1], PAGE_FLAGS);
	touch(where);
	CHECK(!held_elsewhere(where[1], where[0], 0), "held before anybody else has used it");
	on_cpu(1, touch, where);
	CHECK(held_elsewhere(where[1], where[0], 0), "not held after vCPU 1 has used it");
	on_cpu(1, leave, NULL);
	CHECK(!held_elsewhere(where[1], where[0], 0), "held after vCPU 1 has flushed");
}
