// SPDX-License-Identifier: GPL-2.0-only
/* When the walker sets the accessed and dirty bits. */
#include "rules.h"

static uint64_t here(void)
{
	uint64_t root = space();

	cr3_write(root);
	return root;
}

static uint64_t bits(const struct page *page)
{
	return *page->pte & (A | D);
}

#define EXPECT_BITS(page, bits_) \
	CHECK(bits(&(page)) == (bits_), "line %d: A and D are %lx instead of %lx", __LINE__, bits(&(page)), \
	      (uint64_t)(bits_))

RULE(701, "a read that walks sets A and leaves D alone", "SDM 3A 4.8", QUIET, "walk-sets-dirty")
{
	uint64_t root = here();
	struct page page = page_make(root, window(0), W | U);

	EXPECT_BITS(page, 0);
	EXPECT_OLD(page);
	EXPECT_BITS(page, A);
}

RULE(702, "a write sets A and D", "SDM 3A 4.8", 0, "walk-forgets-dirty")
{
	uint64_t root = here();
	struct page page = page_make(root, window(0), W | U);

	store(page.address, 1);
	EXPECT_BITS(page, A | D);
}

RULE(703, "a hit sets nothing: a cleared A stays clear while the translation is cached", "SDM 3A 4.8", QUIET,
     "hit-sets-accessed")
{
	uint64_t root = here(), value;
	struct page page = page_make(root, window(0), W | U);

	EXPECT_OLD(page);
	page_restore(&page);
	EXPECT_OLD(page);
	EXPECT_FAULT(VECTOR_USER, user_read(page.address, &value));
	EXPECT_BITS(page, 0);
	invlpg(page.address);
	EXPECT_OLD(page);
	EXPECT_BITS(page, A);
}

RULE(704, "a cleared A stays clear across a switch to another PCID and back", "SDM 3A 4.8, 4.10.4.1", PCID | QUIET,
     "noflush-flushes")
{
	uint64_t root = space(), other = space();
	struct page page = page_make(root, window(0), W | U);

	load_flush(root, 1);
	EXPECT_OLD(page);
	page_restore(&page);
	load_flush(other, 2);
	load_keep(root, 1);
	EXPECT_OLD(page);
	EXPECT_BITS(page, 0);
	load_flush(root, 1);
	EXPECT_OLD(page);
	EXPECT_BITS(page, A);
}

RULE(705, "ideal: a write through an entry cached without D sets D alone", "machine.md", IDEAL | QUIET,
     "dirty-sets-accessed")
{
	uint64_t root = here();
	struct page page = page_make(root, window(0), W | U);

	EXPECT_OLD(page);
	page_restore(&page);
	store(page.address, 1);
	EXPECT_BITS(page, D);
}

RULE(706, "dirty, denied: a write through an entry cached without D sets A again, too", "machine.md", DIRTY_MARKS,
     "dirty-skips-accessed")
{
	uint64_t root = here();
	struct page page = page_make(root, window(0), W | U);

	EXPECT_OLD(page);
	page_restore(&page);
	store(page.address, 1);
	EXPECT_BITS(page, A | D);
}

RULE(707, "ideal, dirty: a protection fault on a miss sets nothing in the entry that maps the page", "machine.md",
     DENIED_SPARES | QUIET, "denied-sets-accessed")
{
	uint64_t root = here(), value;
	struct page page = page_make(root, window(0), U | NX);

	EXPECT_PF(PF_P | PF_W, store_try(page.address, 1));
	EXPECT_PF(PF_P | PF_U | PF_W, user_write(page.address, 1));
	EXPECT_PF(PF_P | PF_I, exec_try(page.address, &value));
	EXPECT_BITS(page, 0);
}

RULE(708, "denied: a protection fault on a miss sets A in the entry that maps the page, never D", "machine.md",
     DENIED_MARKS, "denied-skips-accessed")
{
	uint64_t root = here(), value;
	struct page page = page_make(root, window(0), U | NX);

	EXPECT_PF(PF_P | PF_W, store_try(page.address, 1));
	EXPECT_BITS(page, A);
	page_restore(&page);
	EXPECT_PF(PF_P | PF_I, exec_try(page.address, &value));
	EXPECT_BITS(page, A);
	*page.pte = page.old | P | W;
	EXPECT_PF(PF_P | PF_U | PF_W, user_write(page.address, 1));
	EXPECT_BITS(page, A);
}

RULE(709, "a walk sets A in the entries of all levels above, never D", "SDM 3A 4.8", QUIET,
     "walk-skips-upper-accessed")
{
	uint64_t root = here();
	struct page page = page_make(root, window(0), W | U);

	for (unsigned int level = 2; level <= 4; level++)
		*entry(root, window(0), level) &= ~A;
	store(page.address, 1);
	for (unsigned int level = 2; level <= 4; level++)
		CHECK((*entry(root, window(0), level) & (A | D)) == A, "level %u has %lx", level,
		      *entry(root, window(0), level) & (A | D));
}

RULE(710, "large pages have A and D in the entry that maps them", "SDM 3A 4.8", QUIET, "walk-forgets-dirty")
{
	uint64_t root = here();
	uint64_t frame = frame_alloc_2m(OLD);
	volatile uint64_t *pde = entry(root, window(0), 2);

	*pde = frame | P | PS | W | U;
	load(window(0x3000));
	CHECK((*pde & (A | D)) == A, "after a read %lx", *pde & (A | D));
	store(window(0x5000), 1);
	CHECK((*pde & (A | D)) == (A | D), "after a write %lx", *pde & (A | D));
}

RULE(711, "a fetch sets A", "SDM 3A 4.8", QUIET, "fetch-skips-accessed")
{
	uint64_t root = here(), value;
	struct page page = page_make(root, window(0), U);

	store(page.old, 0xb8ul | 11ul << 8 | 0xc3ul << 40);
	EXPECT_OK(exec_try(page.address, &value));
	EXPECT_BITS(page, A);
}

RULE(712, "a walk that finds an entry not present sets nothing in it", "SDM 3A 4.8", QUIET, "walk-marks-not-present")
{
	uint64_t root = here(), value;
	struct page page = page_make(root, window(0), W | U);

	*page.pte = page.old | W | U;
	EXPECT_PF(0, load_try(page.address, &value));
	EXPECT_PF(PF_W, store_try(page.address, 1));
	CHECK(*page.pte == (page.old | W | U), "the entry is %lx", *page.pte);
}

/* One CPU takes entries away, others write through them: a write that was done has left D in what was taken. */
static struct {
	struct page page;
	uint64_t root;
	volatile bool is_over;
	volatile uint64_t flushes[CPUS_MAX];
} race;

static void race_write(void *argument)
{
	struct cpu *cpu = this_cpu();

	(void)argument;
	cr3_write(race.root);
	while (!race.is_over) {
		store_try(race.page.address + 8 + 8 * cpu->id, 1);
		cr3_write(race.root);
		/* A turn ends here where CPUs take turns; without, a pause is only slow. */
		if (++race.flushes[cpu->id] % 64 == 0)
			pause();
	}
	cr3_write((uint64_t)boot_pml4);
}

RULE(713, "a write is never done after its entry was taken away without D in what was taken", "SDM 3A 4.8, 8.1.2.1",
     CPUS2, "walk-forgets-dirty")
{
	uint64_t begin, taken = 0, dirty = 0, random = 1;

	race.root = space();
	race.page = page_make(race.root, window(0), W | U);
	*race.page.pte = 0;
	race.is_over = false;
	for (unsigned int id = 1; id < cpu_count; id++) {
		race.flushes[id] = 0;
		on_cpu_begin(id, race_write, NULL);
	}
	begin = now_us();
	while ((taken < 2000 || dirty < 100) && (taken % 16 || now_us() - begin < (dirty ? 100000 : 10000000))) {
		uint64_t was, frame = race.page.old;

		for (unsigned int id = 1; id < cpu_count; id++)
			store(frame + 8 + 8 * id, 0);
		*race.page.pte = frame | race.page.flags;
		/* Now and then until somebody has written. */
		for (uint64_t spins = 1; taken % 8 == 0 && !(*race.page.pte & D) && spins < 1000000; spins++)
			if (spins % 1024 == 0)
				pause();
		for (uint64_t spin = random_next(&random) % 8192; spin; spin--)
			asm volatile("");
		was = __atomic_exchange_n(race.page.pte, 0, __ATOMIC_SEQ_CST);
		/* Until all have flushed: of two loads of CR3 the second begins after the entry was taken. */
		for (unsigned int id = 1; id < cpu_count; id++)
			for (uint64_t seen = race.flushes[id], spins = 1; race.flushes[id] < seen + 2; spins++)
				if (spins % 65536 == 0)
					pause();
		/* Clean when taken: nobody may have written since. */
		for (unsigned int id = 1; id < cpu_count && !(was & D); id++)
			if (load(frame + 8 + 8 * id)) {
				race.is_over = true;
				give_up("CPU %u wrote through an entry that never was dirty", id);
			}
		dirty += !!(was & D);
		taken++;
	}
	race.is_over = true;
	for (unsigned int id = 1; id < cpu_count; id++)
		on_cpu_end(id);
	CHECK(dirty, "nobody wrote in %lu rounds", taken);
	text("%lu taken, %lu dirty", taken, dirty);
}

RULE(714, "ideal, dirty: a protection fault of a page of 1 GiB sets nothing in its entry either", "machine.md",
     DENIED_SPARES | QUIET, "denied-sets-accessed")
{
	uint64_t root = here();
	volatile uint64_t *pdpte = entry(root, window(PAGE_1G * 3), 3);

	*pdpte = PAGE_1G | P | PS | U | NX;
	EXPECT_PF(PF_P | PF_W, store_try(window(PAGE_1G * 3), 1));
	CHECK((*pdpte & (A | D)) == 0, "the PDPTE has %lx", *pdpte & (A | D));
	load(window(PAGE_1G * 3));
	CHECK((*pdpte & (A | D)) == A, "the PDPTE has %lx after a read", *pdpte & (A | D));
}

/* In the TLB, with A clear: a read hits, and leaves it so. */
static void cache_unaccessed(const struct page *page)
{
	EXPECT_OLD(*page);
	*page->pte &= ~(A | D);
	EXPECT_OLD(*page);
	EXPECT_BITS(*page, 0);
}

RULE(715, "ideal, dirty: a protection fault on a hit sets nothing either", "machine.md", DENIED_SPARES | QUIET,
     "denied-sets-accessed")
{
	uint64_t root = here(), value;
	struct page page = page_make(root, window(0), U | NX);

	cache_unaccessed(&page);
	EXPECT_PF(PF_P | PF_W, store_try(page.address, 1));
	EXPECT_BITS(page, 0);
	cache_unaccessed(&page);
	EXPECT_PF(PF_P | PF_U | PF_W, user_write(page.address, 1));
	EXPECT_BITS(page, 0);
	cache_unaccessed(&page);
	EXPECT_PF(PF_P | PF_I, exec_try(page.address, &value));
	EXPECT_BITS(page, 0);
}

RULE(716, "denied: a protection fault on a hit sets A, too, never D", "machine.md", DENIED_MARKS | QUIET,
     "denied-skips-accessed")
{
	uint64_t root = here(), value;
	struct page page = page_make(root, window(0), U | NX);

	cache_unaccessed(&page);
	EXPECT_PF(PF_P | PF_W, store_try(page.address, 1));
	EXPECT_BITS(page, A);
	cache_unaccessed(&page);
	EXPECT_PF(PF_P | PF_U | PF_W, user_write(page.address, 1));
	EXPECT_BITS(page, A);
	cache_unaccessed(&page);
	EXPECT_PF(PF_P | PF_I, exec_try(page.address, &value));
	EXPECT_BITS(page, A);
}
