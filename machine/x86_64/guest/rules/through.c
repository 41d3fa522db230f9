// SPDX-License-Identifier: GPL-2.0-only
/* The root that an entry came through. Both roots share a PCID; walks go on where `other` has led. */
#include "oracle.h"
#include "roots.h"

#define PAGE_FLAGS (W | U | A | D)
#define DOC "machine-oracle.md QUERY"

/* The address has one entry. CR3 held `root` when it was filled. */
static void expect_entry(uint64_t address, uint64_t root, uint64_t through, int line)
{
	struct tlb_holder holder[2];
	uint32_t count = oracle_look(0, address, 1, LOOK_TLB, holder, 2);

	CHECK(count == 1, "line %d: %u entries", line, count);
	CHECK(holder[0].root == root && holder[0].through == through, "line %d: root %lx, through %lx", line, holder[0].root,
	      holder[0].through);
}
#define EXPECT_ENTRY(address, root, through) expect_entry(address, root, through, __LINE__)

/* The page is used through `other`. From then on CR3 has `mine`. */
static void change_root(const struct two_roots *it)
{
	load_flush(it->other, 1);
	load(it->page);
	load_keep(it->mine, 1);
}

RULE(1804, "a walk that begins at a paging-structure entry comes through that entry's root, whatever CR3 holds",
     DOC, ORACLE | PCID | STRUCTURES | QUIET, "through-from-cr3")
{
	struct two_roots it = two_roots();

	change_root(&it);
	load(it.beside);
	EXPECT_ENTRY(it.beside, it.mine, it.other);
	invlpg(it.beside);
	load(it.beside);
	EXPECT_ENTRY(it.beside, it.mine, it.mine);
}

RULE(1805, "a paging-structure entry hands its root on to those that walks from it fill", DOC,
     ORACLE | PCID | STRUCTURES | QUIET, "through-from-cr3")
{
	struct two_roots it = two_roots();
	struct tlb_holder holder[8];
	uint32_t count;

	change_root(&it);
	load(it.below);
	count = oracle_look(0, it.below, 1, LOOK_STRUCTURES, holder, 8);
	CHECK(count == 3, "%u elements", count);
	for (unsigned int i = 0; i < count; i++) {
		CHECK(holder[i].through == it.other, "kind %u through %lx", holder[i].kind, holder[i].through);
		CHECK(holder[i].root == (holder[i].kind == 2 ? it.mine : it.other), "kind %u: root %lx", holder[i].kind,
		      holder[i].root);
	}
}

/* Speculation has filled the entry since CR3 has `mine`, and the PDE that it began at is still the one of before. */
static bool is_filled_since(const struct two_roots *it)
{
	struct tlb_holder holder[8];
	uint32_t count = oracle_look(0, it->beside, 1, LOOK_TLB | LOOK_STRUCTURES, holder, 8);
	bool is_filled = false, is_kept = false;

	for (unsigned int i = 0; i < count; i++) {
		is_filled |= holder[i].kind == 0 && holder[i].root == it->mine;
		is_kept |= holder[i].kind == 2 && holder[i].root == it->other;
	}
	return is_filled && is_kept;
}

RULE(1821, "what speculation fills came through its paging-structure entry's root, too", DOC,
     ORACLE | PCID | STRUCTURES | SPECULATION, "through-from-cr3")
{
	struct two_roots it = two_roots();
	uint64_t begin = now_us();

	do {
		CHECK(now_us() - begin < 20000000, "it fills nothing");
		change_root(&it);
		/* Speculation follows the loads, and these drop nothing. */
		for (unsigned int i = 0; i < 200; i++)
			load_keep(it.mine, 1);
	} while (!is_filled_since(&it));
	EXPECT_ENTRY(it.beside, it.mine, it.other);
}

RULE(1822, "what is inserted came through its paging-structure entry's root, too", DOC,
     ORACLE | INSERT | PCID | STRUCTURES | QUIET, "through-from-cr3")
{
	struct two_roots it = two_roots();

	change_root(&it);
	wrmsr(MSR_INSERT, it.beside);
	EXPECT_ENTRY(it.beside, it.mine, it.other);
}

RULE(1824, "QUERY finds what came through a root asked for, whatever CR3 has held since", DOC,
     ORACLE | PCID | STRUCTURES | QUIET, "oracle-forgets-through")
{
	struct two_roots it = two_roots();
	uint64_t owner = space(), stranger = space();
	const struct {
		uint64_t root;
		bool is_held;
	} cases[] = { { owner, true }, { it.other, true }, { it.mine, true }, { stranger, false } };

	load_flush(owner, 1);
	load_keep(it.other, 1);
	load(it.page);
	load_keep(it.mine, 1);
	load(it.beside);
	EXPECT_ENTRY(it.beside, it.mine, it.other);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t holders = oracle_holders(cases[i].root, it.beside, 1, LOOK_TLB);

		CHECK(holders == cases[i].is_held, "root %lu: holders %lx", i, holders);
	}
}

RULE(1825, "five levels: what is filled from a PML5E came through that one's root", DOC,
     ORACLE | PCID | STRUCTURES | LA57 | QUIET, "through-from-cr3")
{
	/* One PML5E covers both; the PML4Es are different ones. */
	uint64_t roots[2], first = 5ul << 48, second = first + (1ul << 39);
	struct tlb_holder holder[8];
	uint32_t count;

	for (unsigned int i = 0; i < 2; i++) {
		roots[i] = page_alloc();
		*(uint64_t *)roots[i] = space() | P | W | U | A;
		*entry5(roots[i], first, 1) = frame_alloc(OLD) | P | PAGE_FLAGS;
		*entry5(roots[i], second, 1) = frame_alloc(OLD) | P | PAGE_FLAGS;
	}
	cr4_write(CR4_BASE);
	CHECK(legacy_trip(CR4_BASE | CR4_LA57, (uint32_t)roots[0]) == 0, "five-level paging cannot be entered");
	pcid_on();
	load_flush(roots[0], 1);
	load(first);
	load_keep(roots[1], 1);
	load(second);
	EXPECT_ENTRY(second, roots[1], roots[0]);
	count = oracle_look(0, second, 1, LOOK_STRUCTURES, holder, 8);
	CHECK(count == 4, "%u paging-structure entries", count);
	for (unsigned int i = 0; i < count; i++)
		CHECK(holder[i].through == roots[0] && holder[i].root == roots[holder[i].kind != 5],
		      "kind %u: root %lx, through %lx", holder[i].kind, holder[i].root, holder[i].through);
}
