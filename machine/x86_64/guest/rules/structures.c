// SPDX-License-Identifier: GPL-2.0-only
/*
 * The paging-structure cache. Two addresses under one page table: the first is read, so that the way to the table is
 * cached; then the entry above is made to point to another table, where the second address means NEW. What a read of
 * the second address returns says which way its walk took.
 */
#include "rules.h"

#define PAGE_FLAGS (W | U | A | D)
#define TABLE (P | W | U | A)

struct fork {
	uint64_t root, first, second;
	/* The entry that is changed, and what it held before and holds after. */
	volatile uint64_t *upper;
	uint64_t old_table, new_table;
	volatile uint64_t *old_pte, *new_pte;
};

/* `level`: of the entry that is changed; what is cached is the way to the table of the level below. */
static void fork_make_at(struct fork *f, uint64_t root, uint64_t base, unsigned int level)
{
	/* A 4 KiB page each; below a changed PDPTE the second lies in another 2 MiB, and so on. */
	uint64_t step = 1ul << (12 + 9 * (level - 2));
	uint64_t other = space();

	f->root = root;
	f->first = base;
	f->second = base + step;
	*entry(root, f->first, 1) = frame_alloc(OLD) | P | PAGE_FLAGS;
	f->old_pte = entry(root, f->second, 1);
	*f->old_pte = frame_alloc(OLD) | P | PAGE_FLAGS;
	f->upper = entry(root, base, level);
	f->old_table = *f->upper;
	*entry(other, f->first, 1) = frame_alloc(NEW) | P | PAGE_FLAGS;
	f->new_pte = entry(other, f->second, 1);
	*f->new_pte = frame_alloc(NEW) | P | PAGE_FLAGS;
	f->new_table = *entry(other, base, level);
}

/* Apart from what the kernel uses, in any small cache of several sets. */
#define APART (PAGE_1G * 1 + PAGE_2M * 2)
#define APART_TOO (PAGE_1G * 3 + PAGE_2M * 5)

static void fork_make(struct fork *f, unsigned int level)
{
	fork_make_at(f, space(), window(APART), level);
}

static void fork_turn(struct fork *f) { *f->upper = f->new_table; }
static void fork_back(struct fork *f) { *f->upper = f->old_table; }

RULE(801, "a walk starts from a cached PDE, although memory says otherwise by now",
     "SDM 3A 4.10.3.2", STRUCTURES | QUIET,
     "stock")
{
	struct fork f;

	fork_make(&f, 2);
	cr3_write(f.root);
	expect(f.first, OLD, __LINE__);
	fork_turn(&f);
	expect(f.second, OLD, __LINE__);
}

RULE(802, "cached PDPTEs and PML4Es are used likewise", "SDM 3A 4.10.3.2", STRUCTURES | QUIET, "stock")
{
	struct fork f;

	fork_make(&f, 3);
	cr3_write(f.root);
	expect(f.first, OLD, __LINE__);
	fork_turn(&f);
	expect(f.second, OLD, __LINE__);
	fork_make_at(&f, f.root, window(APART_TOO), 4);
	cr3_write(f.root);
	expect(f.first, OLD, __LINE__);
	fork_turn(&f);
	expect(f.second, OLD, __LINE__);
}

RULE(803, "INVLPG of any address drops all of the current PCID's", "SDM 3A 4.10.4.1", STRUCTURES | QUIET,
     "invlpg-keeps-structures")
{
	struct fork f;

	for (unsigned int level = 2; level <= 4; level++) {
		fork_make_at(&f, space(), window(APART + level * (PAGE_1G * 8)), level);
		cr3_write(f.root);
		expect(f.first, OLD, __LINE__);
		fork_turn(&f);
		/* Nothing is mapped there. */
		invlpg(window(PAGE_1G * 300));
		expect(f.second, NEW, __LINE__);
		/* The translation itself is another page's. */
		expect(f.first, OLD, __LINE__);
	}
}

RULE(804, "INVLPG keeps those of other PCIDs", "SDM 3A 4.10.4.1", PCID | STRUCTURES | QUIET,
     "invlpg-drops-others-structures")
{
	struct fork f;

	fork_make(&f, 2);
	load_flush(f.root, 2);
	expect(f.first, OLD, __LINE__);
	load_flush(space(), 1);
	invlpg(f.first);
	fork_turn(&f);
	load_keep(f.root, 2);
	expect(f.second, OLD, __LINE__);
}

RULE(805, "INVPCID type 0 drops those for its address", "SDM 3A 4.10.4.1", PCID | INVPCID | STRUCTURES,
     "invpcid-keeps-structures")
{
	struct fork f;

	fork_make(&f, 2);
	load_flush(f.root, 1);
	expect(f.first, OLD, __LINE__);
	fork_turn(&f);
	invpcid(INVPCID_ADDRESS, 1, f.second);
	expect(f.second, NEW, __LINE__);
}

RULE(806, "INVPCID type 0 keeps those for other addresses and other PCIDs", "machine.md",
     PCID | INVPCID | STRUCTURES | QUIET, "invpcid-drops-structures")
{
	struct fork f;

	fork_make(&f, 2);
	load_flush(f.root, 1);
	expect(f.first, OLD, __LINE__);
	fork_turn(&f);
	/* The same PDPTE, but another PDE. */
	invpcid(INVPCID_ADDRESS, 1, f.second + PAGE_2M * 3);
	invpcid(INVPCID_ADDRESS, 2, f.second);
	expect(f.second, OLD, __LINE__);
}

static void dropped_by_type(uint64_t type)
{
	struct fork f;

	for (unsigned int level = 2; level <= 4; level++) {
		fork_make_at(&f, space(), window(APART + level * (PAGE_1G * 8)), level);
		load_flush(f.root, 1);
		expect(f.first, OLD, __LINE__);
		fork_turn(&f);
		invpcid(type, 1, 0);
		expect(f.second, NEW, __LINE__);
	}
}

RULE(807, "INVPCID types 1, 2 and 3 drop those of their PCIDs", "SDM 3A 4.10.4.1", PCID | INVPCID | STRUCTURES,
     "invpcid-keeps-structures")
{
	dropped_by_type(INVPCID_CONTEXT);
	dropped_by_type(INVPCID_ALL_GLOBAL);
	dropped_by_type(INVPCID_ALL);
}

RULE(808, "a load of CR3 without bit 63 drops its PCID's and keeps the others'",
     "SDM 3A 4.10.4.1", PCID | STRUCTURES | QUIET,
     "flush-keeps-structures")
{
	struct fork f, g;

	fork_make_at(&f, space(), window(APART), 2);
	fork_make_at(&g, space(), window(APART_TOO), 2);
	load_flush(f.root, 1);
	expect(f.first, OLD, __LINE__);
	load_flush(g.root, 2);
	expect(g.first, OLD, __LINE__);
	fork_turn(&f);
	fork_turn(&g);
	load_flush(g.root, 2);
	expect(g.second, NEW, __LINE__);
	load_keep(f.root, 1);
	expect(f.second, OLD, __LINE__);
}

RULE(809, "a load of CR3 with bit 63 keeps them", "SDM 3A 4.10.4.1", PCID | STRUCTURES | QUIET, "stock")
{
	struct fork f;

	fork_make(&f, 2);
	load_flush(f.root, 1);
	expect(f.first, OLD, __LINE__);
	fork_turn(&f);
	load_flush(space(), 2);
	load_keep(f.root, 1);
	expect(f.second, OLD, __LINE__);
}

RULE(810, "those of one PCID are not used under another, even with the same root",
     "SDM 3A 4.10.3.2", PCID | STRUCTURES,
     "structures-untagged")
{
	struct fork f;

	fork_make(&f, 2);
	load_flush(f.root, 2);
	load_flush(f.root, 1);
	expect(f.first, OLD, __LINE__);
	fork_turn(&f);
	/* Drops what speculation may have put there, under PCID 2 alone. */
	load_flush(f.root, 2);
	expect(f.second, NEW, __LINE__);
}

RULE(811, "the PCID tags them, not the root: another root under it, without a flush, walks through them",
     "SDM 3A 4.10.3.2", PCID | STRUCTURES | QUIET, "stock")
{
	struct fork f;
	uint64_t other = space();

	fork_make(&f, 2);
	*entry(other, f.second, 1) = frame_alloc(NEW) | P | PAGE_FLAGS;
	load_flush(f.root, 1);
	expect(f.first, OLD, __LINE__);
	load_keep(other, 1);
	expect(f.second, OLD, __LINE__);
}

RULE(812, "a page fault drops those that its walk used: the next walk starts above", "SDM 3A 4.10.4.1", STRUCTURES,
     "structures-survive-fault")
{
	struct fork f;
	uint64_t value;

	fork_make(&f, 2);
	*f.old_pte = 0;
	cr3_write(f.root);
	expect(f.first, OLD, __LINE__);
	fork_turn(&f);
	EXPECT_PF(0, load_try(f.second, &value));
	expect(f.second, NEW, __LINE__);
}

RULE(813, "they carry the rights of the levels above them", "SDM 3A 4.10.3.2", STRUCTURES | QUIET,
     "structures-forget-rights")
{
	struct fork f;
	uint64_t value;

	fork_make(&f, 2);
	/* Less than what the PTE permits, then all. */
	*f.upper = f.old_table & ~(W | U);
	cr3_write(f.root);
	expect(f.first, OLD, __LINE__);
	*f.upper = f.old_table;
	expect(f.second, OLD, __LINE__);
	EXPECT_PF(PF_P | PF_U, user_read(f.second, &value));
	/* The fault dropped what it used. */
	EXPECT_FAULT(VECTOR_USER, user_read(f.second, &value));
	cr3_write(f.root);
	expect(f.first, OLD, __LINE__);
	*f.upper = f.old_table & ~(W | U);
	EXPECT_OK(store_try(f.second, 1));
}

RULE(814, "an entry that is not present is not cached: no flush is needed to make it present", "SDM 3A 4.10.3.2",
     STRUCTURES, "caches-not-present")
{
	struct fork f;
	uint64_t value;

	for (unsigned int level = 2; level <= 4; level++) {
		fork_make_at(&f, space(), window(APART + level * (PAGE_1G * 8)), level);
		*f.upper = 0;
		cr3_write(f.root);
		EXPECT_PF(0, load_try(f.first, &value));
		fork_back(&f);
		expect(f.first, OLD, __LINE__);
	}
}

RULE(816, "changing CR4.PGE drops those of all PCIDs", "SDM 3A 4.10.4.1", PCID | STRUCTURES, "cr4-pge-keeps")
{
	struct fork f;

	fork_make(&f, 2);
	load_flush(f.root, 2);
	expect(f.first, OLD, __LINE__);
	load_flush(space(), 1);
	fork_turn(&f);
	pge_toggle();
	load_keep(f.root, 2);
	expect(f.second, NEW, __LINE__);
}

RULE(817, "a walk that starts from a cached PDE leaves A of the levels above alone", "SDM 3A 4.8", STRUCTURES | QUIET,
     "stock")
{
	struct fork f;

	fork_make(&f, 2);
	cr3_write(f.root);
	expect(f.first, OLD, __LINE__);
	for (unsigned int level = 2; level <= 4; level++)
		*entry(f.root, f.first, level) &= ~A;
	expect(f.second, OLD, __LINE__);
	for (unsigned int level = 2; level <= 4; level++)
		CHECK(!(*entry(f.root, f.first, level) & A), "level %u has A", level);
}

RULE(818, "there are no more than tlb-psc of them", "machine.md", STRUCTURES | QUIET, "structures-unbounded")
{
	enum { MANY = 200 };
	uint64_t root = space(), stale = 0, size = option_number("psc", 32);
	static struct fork forks[MANY];

	for (unsigned int i = 0; i < MANY; i++)
		fork_make_at(&forks[i], root, window(i * PAGE_2M), 2);
	cr3_write(root);
	for (unsigned int i = 0; i < MANY; i++)
		expect(forks[i].first, OLD, __LINE__);
	for (unsigned int i = 0; i < MANY; i++)
		fork_turn(&forks[i]);
	for (unsigned int i = MANY; i-- > 0;)
		stale += load(forks[i].second) == OLD;
	CHECK(stale <= size, "%lu of %lu were used", stale, size);
	CHECK(stale, "none was used");
	text("%lu of %lu used", stale, size);
}

/* Direct insertion: a second root, which maps one page, is loaded under the same PCID without a flush. */
struct insertion {
	uint64_t primary, secondary;
	uint64_t address, neighbour;
	volatile uint64_t *primary_pte, *secondary_pte;
	uint64_t frame;
};

static void insertion_make(struct insertion *in)
{
	in->primary = space();
	in->secondary = space();
	in->address = window(APART);
	in->neighbour = window(APART + PAGE_BYTES);
	in->frame = frame_alloc(OLD);
	in->primary_pte = entry(in->primary, in->address, 1);
	in->secondary_pte = entry(in->secondary, in->address, 1);
	*entry(in->primary, in->neighbour, 1) = frame_alloc(NEW) | P | PAGE_FLAGS;
	*entry(in->primary, window(APART + 2 * PAGE_BYTES), 1) = frame_alloc(NEW) | P | PAGE_FLAGS;
}

static void insert(struct insertion *in, bool with_invlpg)
{
	*in->secondary_pte = in->frame | P | W | U | A | D;
	load_keep(in->secondary, 1);
	if (with_invlpg)
		invlpg(window(PAGE_1G * 300));
	load(in->address);
	*in->secondary_pte = 0;
	load_keep(in->primary, 1);
	if (with_invlpg)
		invlpg(window(PAGE_1G * 300));
	*in->primary_pte = in->frame | P | W | U | D;
}

RULE(820, "direct insertion: the primary's A is clear after it, after a hit, and after another PCID; a walk sets it",
     "SDM 3A 4.8, 4.10.1", PCID | QUIET, "noflush-flushes")
{
	struct insertion in;
	uint64_t value;

	insertion_make(&in);
	load_flush(in.primary, 1);
	insert(&in, true);
	CHECK(!(*in.primary_pte & A), "A is set after the insertion");
	expect(in.address, OLD, __LINE__);
	EXPECT_FAULT(VECTOR_USER, user_read(in.address, &value));
	CHECK(value == OLD, "user mode read %lx", value);
	EXPECT_FAULT(VECTOR_USER, user_write(in.address, OLD));
	CHECK(!(*in.primary_pte & A), "A is set after a hit");
	load_flush(in.secondary, 2);
	load_keep(in.primary, 1);
	expect(in.address, OLD, __LINE__);
	CHECK(!(*in.primary_pte & A), "A is set after another PCID");
	load_flush(in.primary, 1);
	expect(in.address, OLD, __LINE__);
	CHECK(*in.primary_pte & A, "A is clear after a flush and a walk");
}

RULE(821, "direct insertion without INVLPG: the read walks through the primary's cached tables", "SDM 3A 4.10.3.2",
     PCID | STRUCTURES | QUIET, "stock")
{
	struct insertion in;
	uint64_t value;

	insertion_make(&in);
	load_flush(in.primary, 1);
	/* The way to the primary's table is cached. */
	expect(in.neighbour, NEW, __LINE__);
	*in.secondary_pte = in.frame | P | W | U | A | D;
	load_keep(in.secondary, 1);
	EXPECT_PF(0, load_try(in.address, &value));
	/* The fault dropped it; now the secondary's is found and stays behind. */
	expect(in.address, OLD, __LINE__);
	load_keep(in.primary, 1);
	/* Mapped in the primary, but this walk goes through the secondary, where it is not. */
	EXPECT_PF(0, load_try(window(APART + 2 * PAGE_BYTES), &value));
}

RULE(822, "direct insertion with INVLPG after each load of CR3: both roots walk through their own tables",
     "SDM 3A 4.10.4.1", PCID | STRUCTURES | QUIET, "invlpg-keeps-structures")
{
	struct insertion in;

	insertion_make(&in);
	load_flush(in.primary, 1);
	expect(in.neighbour, NEW, __LINE__);
	insert(&in, true);
	CHECK(!(*in.primary_pte & A), "the read set A in the primary");
	expect(in.address, OLD, __LINE__);
	/* A page that no translation is cached for. */
	expect(window(APART + 2 * PAGE_BYTES), NEW, __LINE__);
}
