/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A rule is a function that returns if the machine keeps it and gives up if not.
 *
 * The tools of most rules are a page with two frames, OLD and NEW: it is read while its PTE names OLD, then the PTE is
 * changed to NEW without a tlbie. What a read returns from then on says whether an entry was kept.
 */
#ifndef GUEST_RULES_H
#define GUEST_RULES_H

#include "oracle.h"

/* What a rule needs of the machine; without it the rule is skipped. */
enum need {
	MODEL = 1 << 0,		/* tlb-model=on, or an option that needs it */
	ORACLE = 1 << 1,
	NO_ORACLE = 1 << 2,
	ICOUNT = 1 << 3,	/* -icount shift=0, and tb-frequency=1000000000 */
	RESET = 1 << 4,		/* without -no-reboot */
};

struct rule {
	unsigned int number;
	const char *name, *source;
	unsigned int needs;
	const char *needs_text;
	/* `stock`, the break (tlb-break=…), or the option of the machine under which it must fail. */
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

#define OLD 0x01d01d00u
#define NEW 0x4e34e340u
#define OTHER 0x07e407e4u

/* The PTE of a page that most rules use: R and C are set, so that no search changes it. */
#define BITS (PTE_R | PTE_C | PP_WRITE)

struct page {
	uint32_t address, vsid, index, old, new, bits;
	struct pte *pte;
};

static inline uint32_t address_of(unsigned int segment, uint32_t page)
{
	return segment << 28 | page * PAGE_BYTES;
}

/* A page of a VSID, mapped to OLD; `segment` is where it is looked at. */
static inline struct page page_of_vsid(uint32_t vsid, unsigned int segment, uint32_t index, uint32_t bits)
{
	struct page page = { .address = address_of(segment, index), .vsid = vsid, .index = index, .bits = bits,
			     .old = frame_alloc(OLD), .new = frame_alloc(NEW) };

	page.pte = pte_make(vsid, index, page.old | bits);
	return page;
}

static inline struct page page_make(unsigned int segment, uint32_t index, uint32_t bits)
{
	return page_of_vsid(vsid(segment), segment, index, bits);
}

static inline void page_repoint(struct page *page)
{
	page->pte->r = page->new | page->bits;
	asm volatile("sync" : : : "memory");
}

static inline const char *canary_name(uint32_t value)
{
	return value == OLD ? "the old frame" : value == NEW ? "the new frame" : value == OTHER ? "the other frame" :
	       "something else";
}

static inline void expect(uint32_t address, uint32_t canary, int line)
{
	uint32_t value, vector = load_try(SUPERVISOR, address, &value);

	CHECK(vector == VECTOR_SC, "line %d: exception %x, DSISR %x", line, vector, journey.dsisr);
	CHECK(value == canary, "line %d: read %s, %x", line, canary_name(value), value);
}
#define EXPECT(page, canary) expect((page).address, canary, __LINE__)
#define EXPECT_OLD(page) expect((page).address, OLD, __LINE__)
#define EXPECT_NEW(page) expect((page).address, NEW, __LINE__)

static inline void expect_code(uint32_t address, uint32_t canary, int line)
{
	uint32_t value, vector = execute_try(SUPERVISOR, address, &value);

	CHECK(vector == VECTOR_SC, "line %d: exception %x, SRR1 %x", line, vector, journey.srr1);
	CHECK(value == canary, "line %d: executed %s, %x", line, canary_name(value), value);
}
/* A word of code in a frame. */
static inline void code_put(uint32_t frame, uint32_t offset, uint32_t word)
{
	*(uint32_t *)(frame + offset) = word;
	asm volatile("dcbst 0, %0; sync; icbi 0, %0; sync; isync" : : "r"(frame + offset) : "memory");
}

#define CODE_NOP 0x60000000u
#define CODE_SC 0x44000002u
/* li r3 or r5, a small number */
#define CODE_LI3(number) (0x38600000u | (number))
#define CODE_LI5(number) (0x38a00000u | (number))
#define CODE_MTCTR5 0x7ca903a6u
/* bdnz over the next word */
#define CODE_BDNZ_OVER 0x42000008u
#define CODE_B(from, to) (0x48000000u | (((to) - (from)) & 0x03fffffcu))

#define EXPECT_CODE(page, canary) expect_code((page).address, canary, __LINE__)

/* Mapped, read, and repointed without a tlbie. */
static inline struct page page_stale(unsigned int segment, uint32_t index, uint32_t bits)
{
	struct page page = page_make(segment, index, bits);

	EXPECT_OLD(page);
	page_repoint(&page);
	return page;
}

static inline struct page page_stale_code(unsigned int segment, uint32_t index, uint32_t bits)
{
	struct page page = page_make(segment, index, bits);

	EXPECT_CODE(page, OLD);
	page_repoint(&page);
	return page;
}

#define EXPECT_OK(expression) do { \
	uint32_t vector_ = (expression); \
	CHECK(vector_ == VECTOR_SC, "line %d: exception %x, DSISR %x, SRR1 %x", __LINE__, vector_, journey.dsisr, \
	      journey.srr1); \
} while (0)
#define EXPECT_DSI(dsisr_, expression) do { \
	uint32_t vector_ = (expression); \
	CHECK(vector_ == VECTOR_DSI && journey.dsisr == (dsisr_), "line %d: exception %x, DSISR %x instead of a DSI, %x", \
	      __LINE__, vector_, journey.dsisr, (uint32_t)(dsisr_)); \
} while (0)
#define ISI_CAUSES 0x78000000u
#define EXPECT_ISI(cause_, expression) do { \
	uint32_t vector_ = (expression); \
	CHECK(vector_ == VECTOR_ISI && (journey.srr1 & ISI_CAUSES) == (cause_), \
	      "line %d: exception %x, SRR1 %x instead of an ISI, %x", __LINE__, vector_, journey.srr1, \
	      (uint32_t)(cause_)); \
} while (0)

#define NO_PTE 0x40000000u
#define NO_EXECUTE 0x10000000u
#define IS_DENIED 0x08000000u
#define IS_STORE 0x02000000u

/* R and C in memory. */
#define EXPECT_BITS(page, bits_) \
	CHECK(((page).pte->r & (PTE_R | PTE_C)) == (bits_), "line %d: R and C are %x instead of %x", __LINE__, \
	      (page).pte->r & (PTE_R | PTE_C), (uint32_t)(bits_))

/* The counters have moved by so much, and all others not at all. */
static inline void expect_moved(const struct tlb_stats *stats, const uint32_t *by, int line)
{
	for (unsigned int i = 0; i < STATS; i++)
		CHECK(stats->at[i] == by[i], "line %d: %s moved by %u instead of %u", line, stat_names[i],
		      stats->at[i], by[i]);
}
#define EXPECT_MOVED(stats, ...) expect_moved(&(stats), (const uint32_t[STATS]){ __VA_ARGS__ }, __LINE__)
#define EXPECT_STILL(stats) expect_moved(&(stats), (const uint32_t[STATS]){ 0 }, __LINE__)
/* A search that finds the PTE at once. */
#define A_SEARCH [SEARCHES] = 1, [FOUND_PRIMARY] = 1, [REFERENCES] = 1
#define A_MISS [DATA_MISSES] = 1, A_SEARCH

#define MANUAL "604 figure 5-7"

#endif
