// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random loads, stores, fetches, tlbie, mtsr and changes of PTEs, compared with a model of the TLBs that was written
 * apart from the machine's: at each step what is read, what is raised, R and C in memory, and what the oracle finds in
 * the whole TLBs; every 16 steps all counters.
 */
#include "rules.h"

#define SPACES 4
#define INDEXES 10
#define PAGES (SPACES * INDEXES)
#define SEGMENTS 4
#define FIRST_SEGMENT 2
#define SETS 64
#define WAYS 2

/* What memory has. */
struct mapped {
	uint32_t vsid, index;
	uint32_t frames[2];
	struct pte *pte;
	/* Which place in the search: 1 to 16. */
	uint32_t place;
};

struct modelled {
	bool is_valid;
	uint32_t vsid, index, second;
	bool is_secondary;
	uint32_t used_at;
	/* The last round in which the oracle gave it. */
	uint32_t given_at;
};

enum kind { CODE, DATA };

static struct mapped pages[PAGES];
static struct modelled tlbs[2][SETS][WAYS];
static uint32_t segments[SEGMENTS], spaces[SPACES];
static struct tlb_stats expected;
static uint32_t clock_now, random_state, round_now;
static struct tlb_element elements[2 * SETS * WAYS + 1] __attribute__((aligned(8)));
/* Two congruence classes, and one page of another. The first ones are used more often: else no entry would last. */
static const uint32_t indexes[INDEXES] = { 0x05, 0x46, 0x45, 0x405, 0x8005, 0xffc5, 0x06, 0x406, 0x8006, 0x2007 };
#define INDEXES_HOT 2

static uint32_t random_below(uint32_t end)
{
	/* xorshift32 */
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;
	return (uint32_t)((uint64_t)random_state * end >> 32);
}

static uint32_t random_index(void)
{
	return indexes[random_below(random_below(4) ? INDEXES_HOT : INDEXES)];
}

static unsigned int random_segment(void)
{
	return random_below(random_below(2) ? 1 : SEGMENTS);
}

static struct modelled *model_find(enum kind kind, uint32_t vsid, uint32_t index)
{
	for (unsigned int way = 0; way < WAYS; way++) {
		struct modelled *entry = &tlbs[kind][index % SETS][way];

		if (entry->is_valid && entry->vsid == vsid && entry->index == index)
			return entry;
	}
	return NULL;
}

static struct modelled *model_place(enum kind kind, uint32_t index)
{
	struct modelled *set = tlbs[kind][index % SETS];

	if (!set[0].is_valid || !set[1].is_valid)
		return set[0].is_valid ? &set[1] : &set[0];
	return set[0].used_at < set[1].used_at ? &set[0] : &set[1];
}

/* 1 load, 2 store, 4 fetch. */
static bool model_allows(uint32_t segment, enum mode mode, uint32_t pp, uint32_t what)
{
	bool key = segment & (mode == USER ? SR_KP : SR_KS);
	uint32_t rights = pp == PP_READ_ONLY || (key && pp == PP_READ) ? 5 : key && pp == PP_NONE ? 0 : 7;

	return rights & what;
}

/* The page whose PTE a search has found and allowed, and the bits that it sets there. */
static unsigned int searched;
static uint32_t set;

/* What has to happen: Return: the vector; the entry that is used, and the cause of an exception. */
static uint32_t model_access(uint32_t segment, enum mode mode, uint32_t index, uint32_t what, struct modelled **used,
			     uint32_t *cause)
{
	enum kind kind = what == 4 ? CODE : DATA;
	uint32_t vector = kind == CODE ? VECTOR_ISI : VECTOR_DSI, vsid = segment & 0xffffff;
	uint32_t store = what == 2 ? IS_STORE : 0;
	struct modelled *entry = model_find(kind, vsid, index);
	struct mapped *page = NULL;

	searched = PAGES;
	*cause = NO_EXECUTE;
	if (kind == CODE && segment & SR_N)
		return vector;
	clock_now++;
	if (entry) {
		entry->used_at = clock_now;
		*cause = IS_DENIED | store;
		if (!model_allows(segment, mode, entry->second & PTE_PP, what))
			return vector;
		*used = entry;
		if (what != 2 || entry->second & PTE_C)
			return VECTOR_SC;
	}
	expected.at[entry ? CHANGED_SEARCHES : kind == CODE ? CODE_MISSES : DATA_MISSES]++;
	expected.at[SEARCHES]++;
	for (unsigned int i = 0; i < PAGES; i++)
		if (pages[i].vsid == vsid && pages[i].index == index && pages[i].pte->v & PTE_V)
			page = &pages[i];
	*cause = NO_PTE | store;
	if (!page) {
		expected.at[NOT_FOUND]++;
		expected.at[REFERENCES] += 16;
		return vector;
	}
	expected.at[page->place > 8 ? FOUND_SECONDARY : FOUND_PRIMARY]++;
	expected.at[REFERENCES] += page->place;
	*cause = IS_DENIED | store;
	if (!model_allows(segment, mode, page->pte->r & PTE_PP, what)) {
		expected.at[DENIED]++;
		return vector;
	}
	if (!entry) {
		entry = model_place(kind, index);
		expected.at[FILLS]++;
		expected.at[EVICTIONS] += entry->is_valid;
	}
	searched = (unsigned int)(page - pages);
	set = PTE_R | (what == 2 ? PTE_C : 0);
	expected.at[REFERENCED_UPDATES] += !(page->pte->r & PTE_R);
	expected.at[CHANGED_UPDATES] += what == 2 && !(page->pte->r & PTE_C);
	*entry = (struct modelled){ true, vsid, index, page->pte->r | set, page->place > 8, clock_now, 0 };
	*used = entry;
	return VECTOR_SC;
}

static void step_access(void)
{
	unsigned int n = random_segment();
	uint32_t index = random_index(), segment = segments[n], bits[PAGES], value = 0;
	uint32_t address = address_of(FIRST_SEGMENT + n, index), what = 1u << random_below(3), wanted, cause, vector, raised;
	enum mode mode = random_below(2) ? USER : SUPERVISOR;
	struct modelled *entry = NULL;

	wanted = model_access(segment, mode, index, what, &entry, &cause);
	for (unsigned int i = 0; i < PAGES; i++)
		bits[i] = pages[i].pte->r;
	if (what == 1)
		vector = load_try(mode, address, &value);
	else if (what == 2)
		vector = store_try(mode, address + 8, round_now);
	else
		vector = execute_try(mode, address, &value);
	CHECK(vector == wanted, "round %u: %x %s at %x: exception %x instead of %x (%x)", round_now, what,
	      mode == USER ? "by user" : "by supervisor", address, vector, wanted, cause);
	if (wanted != VECTOR_SC) {
		raised = vector == VECTOR_DSI ? journey.dsisr : journey.srr1 & ISI_CAUSES;
		CHECK(raised == cause, "round %u: cause %x instead of %x", round_now, raised, cause);
	} else if (what == 2) {
		value = *(volatile uint32_t *)((entry->second & PTE_FRAME) + 8);
		CHECK(value == round_now, "round %u: the store at %x went elsewhere", round_now, address);
	} else {
		/* Every frame's canary is its address. */
		CHECK(value == (entry->second & PTE_FRAME), "round %u: %x at %x gave %x instead of %x", round_now, what,
		      address, value, entry->second & PTE_FRAME);
	}
	for (unsigned int i = 0; i < PAGES; i++)
		CHECK(pages[i].pte->r == (bits[i] | (i == searched ? set : 0)), "round %u: the PTE of page %x is %x, was %x",
		      round_now, pages[i].index, pages[i].pte->r, bits[i]);
}

static void step_segment(void)
{
	unsigned int n = random_below(SEGMENTS);
	uint32_t value = spaces[random_below(SPACES)] | (random_below(2) ? SR_KS : 0) | (random_below(2) ? SR_KP : 0) |
			 (random_below(8) ? 0 : SR_N);

	expected.at[SEGMENT_WRITES]++;
	expected.at[SEGMENT_CHANGES] += value != segments[n];
	segments[n] = value;
	segment_write(FIRST_SEGMENT + n, value);
}

static void step_tlbie(void)
{
	uint32_t address = address_of(random_below(16), random_index() ^ random_below(1024) << 6);

	expected.at[TLBIE]++;
	for (unsigned int kind = 0; kind < 2; kind++) {
		for (unsigned int way = 0; way < WAYS; way++) {
			struct modelled *entry = &tlbs[kind][address / PAGE_BYTES % SETS][way];

			expected.at[TLBIE_DROPPED] += entry->is_valid;
			entry->is_valid = false;
		}
	}
	tlbie(address);
}

static void step_pte(void)
{
	struct mapped *page = &pages[random_below(SPACES) * INDEXES + random_below(random_below(2) ? INDEXES_HOT : INDEXES)];

	/* Most are valid. */
	if (random_below(4) == 0 || !(page->pte->v & PTE_V))
		page->pte->v ^= PTE_V;
	page->pte->r = page->frames[random_below(2)] | (random_below(2) ? PTE_R : 0) | (random_below(2) ? PTE_C : 0) |
		       (random_below(4) ? PP_WRITE : random_below(4));
	asm volatile("sync" : : : "memory");
}

/* The oracle knows exactly the entries that the model has. */
static void compare_entries(void)
{
	struct tlb_request *request = oracle_request(ORACLE_QUERY);
	uint32_t count = 0, found;

	for (unsigned int kind = 0; kind < 2; kind++)
		for (unsigned int set = 0; set < SETS; set++)
			for (unsigned int way = 0; way < WAYS; way++)
				count += tlbs[kind][set][way].is_valid;
	request->where = IN_TLBS;
	request->pages = 0x10000;
	request->nvsids = VSIDS_ALL;
	request->buffer = (uint32_t)elements;
	request->capacity = 2 * SETS * WAYS;
	oracle_ask(request);
	found = request->count;
	CHECK(found == count, "round %u: %u entries instead of %u", round_now, found, count);
	for (unsigned int i = 0; i < found; i++) {
		const struct tlb_element *element = &elements[i];
		struct modelled *entry = model_find(element->where == IN_CODE_TLB ? CODE : DATA, element->vsid,
						    element->page);

		CHECK(entry && entry->second == (element->physical | element->bits) &&
		      entry->is_secondary == element->secondary, "round %u: VSID %x, page %x: %x instead of %x", round_now,
		      element->vsid, element->page, element->physical | element->bits, entry ? entry->second : 0);
		CHECK(entry->given_at != round_now, "round %u: VSID %x, page %x twice", round_now, element->vsid,
		      element->page);
		entry->given_at = round_now;
	}
}

static void compare_counters(const struct tlb_stats *before)
{
	struct tlb_stats stats = oracle_since(before);

	for (unsigned int i = 0; i < STATS; i++)
		CHECK(stats.at[i] == expected.at[i], "round %u: %s is %u instead of %u", round_now, stat_names[i],
		      stats.at[i], expected.at[i]);
}

static void universe_make(void)
{
	for (unsigned int i = 0; i < SPACES; i++)
		spaces[i] = (vsid(3) + i * 0x3811) & 0xffffff;
	for (unsigned int i = 0; i < PAGES; i++) {
		struct mapped *page = &pages[i];
		bool is_secondary = random_below(2);
		struct pte *group;
		unsigned int slot;

		page->vsid = spaces[i / INDEXES];
		page->index = indexes[i % INDEXES];
		group = group_of(page->vsid, page->index, is_secondary);
		do {
			slot = random_below(8);
		} while (group[slot].v);
		for (unsigned int n = 0; n < 2; n++) {
			page->frames[n] = frame_alloc(0);
			/* The canary is the address. */
			*(uint32_t *)page->frames[n] = page->frames[n];
			((uint32_t *)(page->frames[n] + CODE_OFFSET))[0] |= page->frames[n] >> 16;
			((uint32_t *)(page->frames[n] + CODE_OFFSET))[1] |= page->frames[n] & 0xffff;
			asm volatile("dcbst 0, %0; sync; icbi 0, %0; sync; isync" : : "r"(page->frames[n] + CODE_OFFSET));
		}
		page->pte = pte_at(&group[slot], page->vsid, page->index, is_secondary, page->frames[0] | PP_WRITE);
		page->place = slot + 1 + (is_secondary ? 8 : 0);
	}
	for (unsigned int n = 0; n < SEGMENTS; n++) {
		segments[n] = spaces[n];
		segment_write(FIRST_SEGMENT + n, segments[n]);
	}
}

void fuzz(uint32_t rounds, uint32_t seed)
{
	struct tlb_stats before;

	random_state = seed * 2654435761u | 1;
	universe_make();
	before = oracle_stats();
	for (round_now = 1; round_now <= rounds; round_now++) {
		uint32_t dice = random_below(20);

		if (dice == 0)
			step_segment();
		else if (dice == 1)
			step_tlbie();
		else if (dice < 8)
			step_pte();
		else
			step_access();
		compare_entries();
		if (round_now % 16 == 0)
			compare_counters(&before);
	}
	compare_counters(&before);
	text("rounds=%u misses=%u evictions=%u changed=%u", rounds, expected.at[DATA_MISSES] + expected.at[CODE_MISSES],
	     expected.at[EVICTIONS], expected.at[CHANGED_SEARCHES]);
}
