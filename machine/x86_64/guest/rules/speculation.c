// SPDX-License-Identifier: GPL-2.0-only
/* Walks that no instruction asked for. */
#include "rules.h"

#define WAIT_US_MAX 20000000
/* Long enough for many walks, also where the emulator's timer has to wait for its turn on the host. */
#define WHILE_US 100000

static void spin_us(uint64_t us)
{
	for (uint64_t begin = now_us(); now_us() - begin < us;)
		for (unsigned int i = 0; i < 200; i++)
			asm volatile("");
}

static uint64_t here(void)
{
	uint64_t root = space();

	cr3_write(root);
	return root;
}

RULE(901, "with speculation the accessed bit of a page nobody touches is set sooner or later", "SDM 3A 4.10.2.3",
     SPECULATION, "speculation-off")
{
	struct page page = page_make(here(), window(0), W | U);
	uint64_t begin = now_us();

	while (!(*page.pte & A)) {
		CHECK(now_us() - begin < WAIT_US_MAX, "not in %u us", WAIT_US_MAX);
		spin_us(10);
	}
	text("after %lu us", now_us() - begin);
}

RULE(902, "what speculation fills is used, and its accessed bit was set before", "SDM 3A 4.8, 4.10.2.3", SPECULATION,
     "speculation-skips-accessed")
{
	struct page page = page_make(here(), window(0), W | U);

	for (unsigned int i = 0; i < 2000; i++) {
		uint64_t was;

		*page.pte = page.old | page.flags;
		invlpg(page.address);
		spin_us(20);
		was = __atomic_exchange_n(page.pte, page.new | page.flags, __ATOMIC_SEQ_CST);
		if (load(page.address) != OLD)
			continue;
		CHECK(was & A, "it was filled while A was clear");
		text("in round %u", i);
		return;
	}
	give_up("it was never filled");
}

RULE(903, "speculation never sets the dirty bit", "SDM 3A 4.8", SPECULATION, "speculation-sets-dirty")
{
	struct page page = page_make(here(), window(0), W | U);
	uint64_t begin = now_us(), seen = 0;

	while (seen < 20) {
		CHECK(now_us() - begin < WAIT_US_MAX, "A was not set in %u us", WAIT_US_MAX);
		CHECK(!(*page.pte & D), "D is set");
		if (!(*page.pte & A))
			continue;
		seen++;
		page_restore(&page);
		invlpg(page.address);
	}
}

RULE(904, "speculation never faults and leaves CR2 alone", "SDM 3A 4.10.2.3", SPECULATION, "speculation-faults")
{
	uint64_t root = here();
	struct page page = page_make(root, window(0), W | U), absent = page_make(root, window(PAGE_BYTES), W | U);
	uint64_t begin = now_us(), seen = 0;

	/* A host that is busy may let no walk happen for a long while: the present page says that they do. */
	for (unsigned int i = 0; seen < 20; i++) {
		CHECK(now_us() - begin < WAIT_US_MAX, "A was not set in %u us", WAIT_US_MAX);
		*absent.pte = i % 2 ? 0 : absent.old | P | 1ul << 51;
		invlpg(page.address);
		invlpg(absent.address);
		this_cpu()->fault.vector = NO_FAULT;
		asm volatile("mov %0, %%cr2" : : "r"(0x1234ul));
		/* What was walked for before this is not asked about. */
		page_restore(&page);
		spin_us(200);
		CHECK(cr2_read() == 0x1234, "CR2 is %lx", cr2_read());
		CHECK(this_cpu()->fault.vector == NO_FAULT, "exception %d", this_cpu()->fault.vector);
		seen += !!(*page.pte & A);
	}
}

RULE(905, "speculation starts from a stale paging-structure entry as any walk does: a wrong translation appears",
     "SDM 3A 4.10.2.3, 4.10.3.2", SPECULATION | STRUCTURES, "speculation-off")
{
	uint64_t root = here(), other = space();
	uint64_t first = window(PAGE_1G + PAGE_2M * 2), second = first + PAGE_BYTES;
	volatile uint64_t *pde;
	uint64_t table;

	*entry(root, first, 1) = frame_alloc(OLD) | P | W | U | A | D;
	*entry(root, second, 1) = frame_alloc(OLD) | P | W | U | A | D;
	*entry(other, second, 1) = frame_alloc(NEW) | P | W | U | A | D;
	pde = entry(root, first, 2);
	table = *pde;
	for (unsigned int i = 0; i < 2000; i++) {
		*pde = table;
		cr3_write(root);
		load(first);
		*pde = *entry(other, second, 2);
		/* Whatever was filled before this is gone, and the paging-structure entry may be there or not. */
		invlpg(second);
		*pde = table;
		load(first + 8);
		invlpg(first);
		load(first);
		*pde = *entry(other, second, 2);
		spin_us(30);
		/* Drops the paging-structure entries and keeps what speculation has filled. */
		invlpg(window(PAGE_1G * 300));
		if (load(second) == OLD) {
			text("in round %u", i);
			return;
		}
	}
	give_up("it never did");
}

RULE(906, "without speculation the accessed bit of a page nobody touches stays clear", "machine.md", QUIET,
     "tlb-speculation-us=20")
{
	uint64_t root = here();
	struct page page = page_make(root, window(0), W | U), touched = page_make(root, window(PAGE_BYTES), W | U);

	for (unsigned int i = 0; i < 20; i++) {
		load(touched.address);
		spin_us(WHILE_US / 20);
		invlpg(touched.address);
	}
	CHECK(*touched.pte & A, "the page that was touched has none");
	CHECK(!(*page.pte & A), "A is set");
}

RULE(907, "under icount the same seed speculates the same, another one does not", "machine.md",
     SPECULATION | ICOUNT, "tlb-seed=2")
{
	enum { PAGES = 64 };
	uint64_t root = here(), digest = 0;
	static struct page pages[PAGES];

	for (unsigned int i = 0; i < PAGES; i++)
		pages[i] = page_make(root, window(i * PAGE_BYTES * 7), W | U);
	for (unsigned int round = 0; round < 20; round++) {
		cr3_write(root);
		for (volatile unsigned int i = 0; i < 20000; i++)
			;
		for (unsigned int i = 0; i < PAGES; i++) {
			digest = digest * 31 + (*pages[i].pte >> 5 & 1);
			page_restore(&pages[i]);
		}
	}
	CHECK(digest, "nothing was set");
	digest &= 0xffffffff;
	CHECK(option_number("digest", digest) == digest, "what was set has the digest %lu", digest);
	text("digest=%lu", digest);
}
