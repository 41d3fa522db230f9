/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A rule is a function that returns if the machine keeps it and gives up if not.
 *
 * The tools of most rules are a page with two frames, OLD and NEW: it is read
 * while its entry names OLD, then the entry is changed to NEW without a flush.
 * What a read returns from then on says whether a translation was kept.
 */
#ifndef GUEST_RULES_H
#define GUEST_RULES_H

#include "cpu.h"

/* What a rule needs of the machine; without it the rule is skipped. */
enum need {
	PCID = 1 << 0,
	INVPCID = 1 << 1,
	NO_PCID = 1 << 2,	/* turned off by -cpu …,-pcid,-invpcid */
	/* Of the values of tlb-access-bit: ideal; dirty and denied; denied; ideal and dirty */
	IDEAL = 1 << 3,
	DIRTY_MARKS = 1 << 4,
	STRUCTURES = 1 << 5,	/* tlb-psc=32 */
	SPECULATION = 1 << 6,
	QUIET = 1 << 7,		/* no speculation */
	BOUNDED = 1 << 8,	/* tlb-entries=64,tlb-ways=8 */
	LARGE = 1 << 9,		/* tlb-entries=0 */
	ORACLE = 1 << 10,
	NO_ORACLE = 1 << 11,
	CPUS2 = 1 << 12,	/* at least two CPUs */
	CPUS4 = 1 << 13,
	LA57 = 1 << 14,
	KEYS = 1 << 15,
	ICOUNT = 1 << 16,
	INSERT = 1 << 17,
	NO_INSERT = 1 << 18,
	DENIED_MARKS = 1 << 19,
	DENIED_SPARES = 1 << 20,
	COUNT = 1 << 21,	/* tlb-count=on */
	NODES = 1 << 22,	/* -numa as nodes.h has it */
	ONE_NODE = 1 << 23,
	BROADCAST = 1 << 24,	/* invlpgb=on */
	NO_BROADCAST = 1 << 25,
	EARLY = 1 << 26,	/* of tlb-broadcast */
	LATE = 1 << 27,
};

struct rule {
	unsigned int number;
	const char *name, *source;
	unsigned int needs;
	const char *needs_text;
	/* `stock`, the mutant, or the option (tlb-…=…) under which it must fail. */
	const char *killer;
	void (*run)(void);
};

#define RULE(number_, name_, source_, needs_, killer_) \
static void rule_##number_(void); \
static const struct rule rule_struct_##number_ = { \
	.number = number_, .name = name_, .source = source_, .needs = needs_, .needs_text = #needs_, .killer = killer_, \
	.run = rule_##number_ }; \
static const struct rule *const rule_pointer_##number_ \
	__attribute__((section(".rules." #number_), used)) = &rule_struct_##number_; \
static void rule_##number_(void)

#define CHECK(condition, ...) do { \
	if (!(condition)) \
		give_up(__VA_ARGS__); \
} while (0)

#define OLD 0x01d01d01d01d01d0ul
#define NEW 0x4e34e34e34e34e34ul

struct page {
	uint64_t address;
	volatile uint64_t *pte;
	uint64_t old, new, flags;
};

/* Maps `address` to OLD; `flags` beside P. */
static inline struct page page_make(uint64_t root, uint64_t address, uint64_t flags)
{
	struct page page = { .address = address, .pte = entry(root, address, 1), .flags = flags | P,
			     .old = frame_alloc(OLD), .new = frame_alloc(NEW) };

	*page.pte = page.old | page.flags;
	return page;
}

static inline void page_repoint(struct page *page)
{
	*page->pte = page->new | page->flags;
}

static inline void page_restore(struct page *page)
{
	*page->pte = page->old | page->flags;
}

static inline void expect(uint64_t address, uint64_t canary, int line)
{
	uint64_t value;
	int vector = load_try(address, &value);

	if (vector != NO_FAULT)
		give_up("line %d: exception %d, error %lx", line, vector, this_cpu()->fault.error);
	if (value != canary)
		give_up("line %d: read %s", line, value == OLD ? "the old frame" : value == NEW ? "the new frame" :
			text("%lx", value));
}

#define EXPECT_OLD(page) expect((page).address, OLD, __LINE__)
#define EXPECT_NEW(page) expect((page).address, NEW, __LINE__)

/* Mapped, read, and repointed without a flush, in the address space that CR3 names now. */
static inline struct page page_stale(uint64_t root, uint64_t address, uint64_t flags)
{
	struct page page = page_make(root, address, flags);

	expect(address, OLD, __LINE__);
	page_repoint(&page);
	return page;
}

#define EXPECT_FAULT(vector_, expression) do { \
	int vector_is_ = (expression); \
	CHECK(vector_is_ == (vector_), "line %d: exception %d instead of %d", __LINE__, vector_is_, (int)(vector_)); \
} while (0)
#define EXPECT_OK(expression) EXPECT_FAULT(NO_FAULT, expression)
/* A page fault with exactly this error code. */
#define EXPECT_PF(error_, expression) do { \
	int vector_is_ = (expression); \
	CHECK(vector_is_ == VECTOR_PF && this_cpu()->fault.error == (error_), \
	      "line %d: exception %d, error %lx instead of a page fault, error %lx", __LINE__, vector_is_, \
	      vector_is_ == NO_FAULT ? 0 : this_cpu()->fault.error, (uint64_t)(error_)); \
} while (0)

static inline void load_flush(uint64_t root, uint64_t pcid) { cr3_write(root | pcid); }
static inline void load_keep(uint64_t root, uint64_t pcid) { cr3_write(root | pcid | CR3_KEEP); }

static inline void invpcid(uint64_t type, uint64_t pcid, uint64_t address)
{
	struct invpcid_descriptor descriptor = { pcid, address };

	asm volatile("invpcid (%0), %1" : : "r"(&descriptor), "r"(type) : "memory");
}

static inline void pcid_on(void) { cr4_write(cr4_read() | CR4_PCIDE); }
static inline void pge_toggle(void)
{
	cr4_write(cr4_read() ^ CR4_PGE);
	cr4_write(cr4_read() ^ CR4_PGE);
}

#endif
