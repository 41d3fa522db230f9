// SPDX-License-Identifier: GPL-2.0-only
/* Translations that are put into the TLB without being used. */
#include "rules.h"

#define PAGE_FLAGS (W | U)
#define DOC "machine-insert.md"
#define WAYS 8

static int insert_try(uint64_t address, uint64_t pages)
{
	return wrmsr_try(MSR_INSERT, address + (pages - 1));
}

/* Return: how many pages the machine says were inserted. */
static uint64_t insert(uint64_t address, uint64_t pages)
{
	int vector = insert_try(address, pages);

	if (vector != NO_FAULT)
		give_up("the insertion of %lu pages at %lx: exception %d", pages, address, vector);
	return rdmsr(MSR_INSERT);
}

#define EXPECT_INSERTED(expected, address, pages) do { \
	uint64_t inserted_ = insert(address, pages); \
	CHECK(inserted_ == (expected), "line %d: %lu inserted instead of %lu", __LINE__, inserted_, \
	      (uint64_t)(expected)); \
} while (0)

#define EXPECT_BITS(page, bits_) \
	CHECK((*(page).pte & (A | D)) == (bits_), "line %d: A and D are %lx instead of %lx", __LINE__, \
	      *(page).pte & (A | D), (uint64_t)(bits_))

static uint64_t here(void)
{
	uint64_t root = space();

	cr3_write(root);
	return root;
}

/* Inserted while its entry names OLD, then repointed without a flush. */
static struct page page_inserted(uint64_t root, uint64_t address, uint64_t flags)
{
	struct page page = page_make(root, address, flags);

	EXPECT_INSERTED(1, address, 1);
	page_repoint(&page);
	return page;
}

RULE(1501, "CPUID announces the insertion, with the oracle and without", DOC " Finding it", INSERT, "tlb-insert=off")
{
	struct cpuid id = cpuid(0x40000100, 0);

	CHECK(cpuid(1, 0).c >> 31, "no hypervisor bit");
	CHECK(id.a == 0x40000101u + option("count") && id.b == 0x54424c54 && id.c == 0x4c54424c && id.d == 0x424c5442,
	      "leaf 40000100 is %x %x %x %x", id.a, id.b, id.c, id.d);
	id = cpuid(0x40000101, 0);
	CHECK(id.a >= 2 && id.c >> 4 & 1, "leaf 40000101 is %x %x %x", id.a, id.b, id.c);
	CHECK(id.b == (option("oracle") ? MSR_ORACLE : 0), "the oracle's MSR is %x", id.b);
}

RULE(1502, "without it its MSR raises #GP, and CPUID does not announce it", DOC " Finding it", NO_INSERT,
     "insert-always")
{
	uint64_t value;

	EXPECT_FAULT(VECTOR_GP, insert_try(window(0), 1));
	EXPECT_FAULT(VECTOR_GP, rdmsr_try(MSR_INSERT, &value));
	if (cpuid(0x40000100, 0).b == 0x54424c54)
		CHECK(!(cpuid(0x40000101, 0).c >> 4 & 1), "it is announced");
}

RULE(1503, "what was inserted is used without a walk, in kernel and user mode", DOC " What it does", INSERT | QUIET,
     "insert-does-nothing")
{
	uint64_t root = here(), value = 0;
	struct page page = page_make(root, window(0), PAGE_FLAGS);

	insert(page.address, 1);
	page_repoint(&page);
	EXPECT_OLD(page);
	EXPECT_FAULT(VECTOR_USER, user_read(page.address, &value));
	CHECK(value == OLD, "user mode read %lx", value);
	EXPECT_BITS(page, 0);
}

RULE(1504, "an insertion sets no bit in the entry that maps the page, nor does a read that uses it", DOC " What it does",
     INSERT | QUIET, "insert-sets-accessed")
{
	uint64_t root = here();
	struct page page = page_make(root, window(0), PAGE_FLAGS);

	EXPECT_INSERTED(1, page.address, 1);
	EXPECT_BITS(page, 0);
	EXPECT_OLD(page);
	EXPECT_BITS(page, 0);
}

RULE(1505, "an insertion sets A in the entries of all levels above, never D", DOC " What it does", INSERT | QUIET,
     "walk-skips-upper-accessed")
{
	uint64_t root = here();
	struct page page = page_make(root, window(0), PAGE_FLAGS);

	for (unsigned int level = 2; level <= 4; level++)
		*entry(root, window(0), level) &= ~A;
	EXPECT_INSERTED(1, page.address, 1);
	for (unsigned int level = 2; level <= 4; level++)
		CHECK((*entry(root, window(0), level) & (A | D)) == A, "level %u has %lx", level,
		      *entry(root, window(0), level) & (A | D));
	EXPECT_BITS(page, 0);
}

RULE(1506, "an entry that is not dirty is inserted so: a write walks, and sets A and D", DOC " What it does",
     INSERT | QUIET, "insert-gives-dirty")
{
	uint64_t root = here();
	struct page page = page_make(root, window(0), PAGE_FLAGS), other = page_make(root, window(PAGE_BYTES), PAGE_FLAGS);

	EXPECT_INSERTED(2, page.address, 2);
	store(page.address, 1);
	EXPECT_BITS(page, A | D);
	EXPECT_OLD(other);
	EXPECT_FAULT(VECTOR_USER, user_write(other.address, 1));
	EXPECT_BITS(other, A | D);
}

RULE(1507, "ideal: that write sets A although it leaves A alone where a walk has filled the TLB", DOC " What it does",
     INSERT | IDEAL | QUIET, "insert-counts-as-use")
{
	uint64_t root = here();
	struct page page = page_make(root, window(0), PAGE_FLAGS);

	EXPECT_INSERTED(1, page.address, 1);
	store(page.address, 1);
	EXPECT_BITS(page, A | D);
	/* From here on it is an entry as any other. */
	*page.pte &= ~(A | D);
	invlpg(page.address);
	load(page.address);
	*page.pte &= ~A;
	store(page.address, 1);
	EXPECT_BITS(page, D);
}

RULE(1508, "an entry that is dirty is inserted dirty: a write sets nothing", DOC " What it does", INSERT | QUIET,
     "insert-forgets-dirty")
{
	uint64_t root = here();
	struct page page = page_make(root, window(0), PAGE_FLAGS | D);

	EXPECT_INSERTED(1, page.address, 1);
	store(page.address, OLD);
	EXPECT_BITS(page, D);
}

static void read_there(void *argument)
{
	cr3_write(((uint64_t *)argument)[0]);
	load(((uint64_t *)argument)[1]);
	cr3_write((uint64_t)boot_pml4);
}

RULE(1509, "another CPU's read sets A: an insertion is for the CPU that asks", DOC " What it does",
     INSERT | CPUS2 | QUIET, "insert-sets-accessed")
{
	uint64_t where[2] = { here(), window(0) };
	struct page page = page_make(where[0], where[1], PAGE_FLAGS);

	EXPECT_INSERTED(1, page.address, 1);
	EXPECT_OLD(page);
	EXPECT_BITS(page, 0);
	on_cpu(1, read_there, where);
	EXPECT_BITS(page, A);
}

RULE(1510, "INVLPG drops what was inserted: the next read walks and sets A", DOC " What it does", INSERT | QUIET,
     "invlpg-does-nothing")
{
	uint64_t root = here();
	struct page page = page_inserted(root, window(0), PAGE_FLAGS);

	invlpg(page.address);
	EXPECT_NEW(page);
	EXPECT_BITS(page, A);
}

RULE(1511, "a load of CR3 drops what was inserted", DOC " What it does", INSERT | QUIET, "flush-does-nothing")
{
	uint64_t root = here();
	struct page page = page_inserted(root, window(0), PAGE_FLAGS);

	cr3_write(root);
	EXPECT_NEW(page);
	EXPECT_BITS(page, A);
}

RULE(1512, "an insertion is for the PCID that is loaded, and kept by a load without a flush", DOC " What it does",
     INSERT | PCID | QUIET, "insert-ignores-pcid")
{
	uint64_t root = space(), other = space();
	struct page page = page_make(root, window(0), PAGE_FLAGS);

	*entry(other, window(0), 1) = frame_alloc(7) | P | PAGE_FLAGS | A;
	load_flush(other, 2);
	load_flush(root, 1);
	EXPECT_INSERTED(1, page.address, 1);
	page_repoint(&page);
	load_keep(other, 2);
	expect(window(0), 7, __LINE__);
	load_keep(root, 1);
	EXPECT_OLD(page);
	EXPECT_BITS(page, 0);
}

RULE(1513, "a global page is inserted as a global one", DOC " What it does", INSERT | QUIET, "global-by-pcid")
{
	uint64_t root = here();
	struct page page = page_inserted(root, window(0), PAGE_FLAGS | G);

	cr3_write(root);
	EXPECT_OLD(page);
	EXPECT_BITS(page, 0);
}

/* A fault of its own, whose address must stay in CR2. */
static void fault_there(uint64_t address)
{
	uint64_t value;

	EXPECT_PF(0, load_try(address, &value));
}

#define EXPECT_CR2(address) \
	CHECK(cr2_read() == (address), "line %d: CR2 is %lx", __LINE__, cr2_read())

RULE(1514, "of a page that is not present nothing is inserted, at no level, and nothing faults", DOC " What it does",
     INSERT | QUIET, "insert-takes-not-present")
{
	uint64_t root = here(), nowhere = window(PAGE_1G * 9);
	struct page page = page_make(root, window(0), PAGE_FLAGS);

	fault_there(nowhere);
	*page.pte = page.old | PAGE_FLAGS;
	EXPECT_INSERTED(0, page.address, 1);
	CHECK(*page.pte == (page.old | PAGE_FLAGS), "the entry is %lx", *page.pte);
	EXPECT_CR2(nowhere);
	/* It becomes present: no flush is needed. */
	page_repoint(&page);
	EXPECT_NEW(page);
	for (unsigned int level = 2; level <= 4; level++) {
		volatile uint64_t *upper = entry(root, window(PAGE_1G), level);
		uint64_t was;

		page = page_make(root, window(PAGE_1G), PAGE_FLAGS);
		was = *upper;
		*upper = was & ~P;
		invlpg(page.address);
		EXPECT_INSERTED(0, page.address, 1);
		*upper = was;
		EXPECT_BITS(page, 0);
	}
}

RULE(1515, "of a large page nothing is inserted, and its entry is left alone", DOC " What it does", INSERT | QUIET,
     "insert-takes-large")
{
	uint64_t root = here(), frame = frame_alloc_2m(OLD);
	volatile uint64_t *pde = entry(root, window(PAGE_2M * 3), 2), *pdpte = entry(root, window(PAGE_1G * 3), 3);

	*pde = frame | P | PS | PAGE_FLAGS;
	*pdpte = PAGE_1G | P | PS | PAGE_FLAGS;
	EXPECT_INSERTED(0, window(PAGE_2M * 3), 1);
	EXPECT_INSERTED(0, window(PAGE_2M * 3 + 0x5000), 8);
	EXPECT_INSERTED(0, window(PAGE_1G * 3), 2);
	CHECK(*pde == (frame | P | PS | PAGE_FLAGS), "the PDE is %lx", *pde);
	CHECK(*pdpte == (PAGE_1G | P | PS | PAGE_FLAGS), "the PDPTE is %lx", *pdpte);
	*pde = frame_alloc_2m(NEW) | P | PS | PAGE_FLAGS;
	expect(window(PAGE_2M * 3), NEW, __LINE__);
}

RULE(1516, "of a page whose entry has a reserved bit nothing is inserted, and nothing faults", DOC " What it does",
     INSERT | QUIET, "insert-takes-reserved")
{
	uint64_t root = here(), nowhere = window(PAGE_1G * 9), bad;
	struct page page = page_make(root, window(0), PAGE_FLAGS);

	if (physical_bits() >= 52)
		return;
	fault_there(nowhere);
	bad = page.old | P | PAGE_FLAGS | 1ul << 51;
	*page.pte = bad;
	EXPECT_INSERTED(0, page.address, 1);
	CHECK(*page.pte == bad, "the entry is %lx", *page.pte);
	EXPECT_CR2(nowhere);
	page_repoint(&page);
	EXPECT_NEW(page);
}

RULE(1517, "of a page that any level keeps from user mode nothing is inserted, and A stays clear", DOC " What it does",
     INSERT | QUIET, "insert-takes-supervisor")
{
	uint64_t root = here(), nowhere = window(PAGE_1G * 9);
	struct page page = page_make(root, window(0), W);

	fault_there(nowhere);
	EXPECT_INSERTED(0, page.address, 1);
	EXPECT_BITS(page, 0);
	page_repoint(&page);
	EXPECT_NEW(page);
	page = page_make(root, window(PAGE_1G), PAGE_FLAGS);
	for (unsigned int level = 2; level <= 4; level++) {
		*entry(root, page.address, level) &= ~U;
		/* What paging-structure entries say, too. */
		invlpg(page.address);
		EXPECT_INSERTED(0, page.address, 1);
		EXPECT_BITS(page, 0);
		*entry(root, page.address, level) |= U;
		invlpg(page.address);
	}
	EXPECT_INSERTED(1, page.address, 1);
	fault_there(nowhere);
}

RULE(1518, "RDMSR: how many pages were inserted, without those that were there and those that cannot be",
     DOC " What it does", INSERT | QUIET, "insert-counts-requests")
{
	uint64_t root = here();
	struct page pages[4];

	for (unsigned int i = 0; i < 4; i++)
		pages[i] = page_make(root, window(i * PAGE_BYTES), PAGE_FLAGS);
	EXPECT_OLD(pages[0]);
	*pages[1].pte = 0;
	EXPECT_INSERTED(2, window(0), 4);
	CHECK(rdmsr(MSR_INSERT) == 2, "read twice, it changes");
	EXPECT_INSERTED(0, window(0), 4);
	invlpg(pages[2].address);
	EXPECT_INSERTED(1, window(0), 4);
	*pages[1].pte = pages[1].old | pages[1].flags;
	EXPECT_INSERTED(1, window(0), 4);
	for (unsigned int i = 1; i < 4; i++) {
		EXPECT_OLD(pages[i]);
		EXPECT_BITS(pages[i], 0);
	}
}

RULE(1519, "#GP: not canonical, more than 512 pages, past the end of 2 MiB; then nothing is done", DOC " Finding it",
     INSERT | QUIET, "insert-accepts-requests")
{
	uint64_t root = here();
	struct page page = page_make(root, window(PAGE_2M - PAGE_BYTES), PAGE_FLAGS);
	struct page first = page_make(root, window(0), PAGE_FLAGS);

	EXPECT_INSERTED(1, first.address, 1);
	EXPECT_FAULT(VECTOR_GP, insert_try(1ul << 56, 1));
	EXPECT_FAULT(VECTOR_GP, insert_try(1ul << 63, 1));
	EXPECT_FAULT(VECTOR_GP, insert_try(~0ul << 58 & ~(1ul << 63), 1));
	EXPECT_FAULT(VECTOR_GP, insert_try(window(0), 513));
	EXPECT_FAULT(VECTOR_GP, insert_try(window(0), 1024));
	EXPECT_FAULT(VECTOR_GP, insert_try(window(0), 4096));
	EXPECT_FAULT(VECTOR_GP, insert_try(window(PAGE_BYTES), 512));
	EXPECT_FAULT(VECTOR_GP, insert_try(page.address, 2));
	CHECK(rdmsr(MSR_INSERT) == 1, "RDMSR returns %lu", rdmsr(MSR_INSERT));
	page_repoint(&page);
	EXPECT_NEW(page);
	/* The last page there is, and the last one below the hole. */
	EXPECT_INSERTED(0, ~0ul << 12, 1);
	EXPECT_INSERTED(0, (1ul << 47) - PAGE_BYTES, 1);
	EXPECT_INSERTED(0, ~0ul << 47, 512);
}

RULE(1520, "512 pages at once", DOC " What it does", INSERT | LARGE | QUIET, "insert-first-page")
{
	uint64_t root = here(), old = frame_alloc(OLD), new = frame_alloc(NEW);

	for (unsigned int i = 0; i < 512; i++)
		*entry(root, window(i * PAGE_BYTES), 1) = old | P | PAGE_FLAGS;
	EXPECT_INSERTED(512, window(0), 512);
	for (unsigned int i = 0; i < 512; i++)
		*entry(root, window(i * PAGE_BYTES), 1) = new | P | PAGE_FLAGS;
	for (unsigned int i = 0; i < 512; i++) {
		expect(window(i * PAGE_BYTES), OLD, __LINE__);
		CHECK(*entry(root, window(i * PAGE_BYTES), 1) == (new | P | PAGE_FLAGS), "page %u: the entry is %lx", i,
		      *entry(root, window(i * PAGE_BYTES), 1));
	}
}

RULE(1521, "an insertion displaces the entry used longest ago, and is displaced: then a read walks and sets A",
     DOC " What it does", INSERT | BOUNDED | QUIET, "capacity-ignored")
{
	uint64_t root = here();
	struct page pages[WAYS + 1];

	/* 2 MiB apart: in one set, and in none that the kernel uses. */
	for (unsigned int i = 0; i <= WAYS; i++)
		pages[i] = page_make(root, window(i * PAGE_2M + 5 * PAGE_BYTES), PAGE_FLAGS);
	for (unsigned int i = 0; i < WAYS; i++)
		EXPECT_INSERTED(1, pages[i].address, 1);
	EXPECT_INSERTED(1, pages[WAYS].address, 1);
	for (unsigned int i = 0; i <= WAYS; i++)
		page_repoint(&pages[i]);
	for (unsigned int i = 1; i <= WAYS; i++) {
		EXPECT_OLD(pages[i]);
		EXPECT_BITS(pages[i], 0);
	}
	EXPECT_NEW(pages[0]);
	EXPECT_BITS(pages[0], A);
}

RULE(1522, "a translation that is there already is left as it is", DOC " What it does", INSERT | QUIET,
     "insert-replaces")
{
	uint64_t root = here();
	struct page page = page_stale(root, window(0), PAGE_FLAGS);

	EXPECT_INSERTED(0, page.address, 1);
	EXPECT_OLD(page);
	EXPECT_BITS(page, 0);
	invlpg(page.address);
	EXPECT_NEW(page);
}

RULE(1523, "one that does not serve user mode is replaced, and what it allowed is gone", DOC " What it does",
     INSERT | QUIET, "insert-keeps-fast")
{
	uint64_t root = here();
	struct page page = page_make(root, window(0), W | A | D);

	store(page.address, OLD);
	EXPECT_OLD(page);
	*page.pte = page.new | P | U;
	EXPECT_INSERTED(1, page.address, 1);
	EXPECT_NEW(page);
	EXPECT_BITS(page, 0);
	EXPECT_PF(PF_P | PF_W, store_try(page.address, 1));
}

RULE(1524, "protection keys and SMAP do not matter to an insertion", DOC " What it does", INSERT | KEYS | QUIET,
     "insert-checks-keys")
{
	uint64_t root = here();
	struct page page = page_make(root, window(0), PAGE_FLAGS | KEY(1));

	cr4_write(cr4_read() | CR4_PKE | (has_smap() ? CR4_SMAP : 0));
	wrpkru(3 << 2);
	EXPECT_INSERTED(1, page.address, 1);
	page_repoint(&page);
	wrpkru(0);
	cr4_write(cr4_read() & ~CR4_SMAP);
	EXPECT_OLD(page);
	EXPECT_BITS(page, 0);
}

RULE(1525, "a key that forbids the access forbids it to an inserted entry, too", DOC " What it does",
     INSERT | KEYS | QUIET, "hit-ignores-pkey")
{
	uint64_t root = here(), value;
	struct page page = page_make(root, window(0), PAGE_FLAGS | KEY(1));

	cr4_write(cr4_read() | CR4_PKE);
	EXPECT_INSERTED(1, page.address, 1);
	wrpkru(3 << 2);
	EXPECT_PF(PF_P | PF_PK, load_try(page.address, &value));
	EXPECT_PF(PF_P | PF_PK | PF_U, user_read(page.address, &value));
	wrpkru(0);
}

RULE(1526, "an insertion walks from the paging-structure cache, and fills it", DOC " What it does",
     INSERT | STRUCTURES | QUIET, "tlb-psc=0")
{
	uint64_t root = here(), first = window(PAGE_1G + PAGE_2M * 2), was;
	struct page pages[3];
	volatile uint64_t *pde;

	for (unsigned int i = 0; i < 3; i++)
		pages[i] = page_make(root, first + i * PAGE_BYTES, PAGE_FLAGS);
	pde = entry(root, first, 2);
	EXPECT_INSERTED(1, pages[0].address, 1);
	was = *pde;
	*pde = 0;
	EXPECT_OLD(pages[1]);
	EXPECT_INSERTED(1, pages[2].address, 1);
	EXPECT_OLD(pages[2]);
	*pde = was;
	EXPECT_BITS(pages[0], 0);
	EXPECT_BITS(pages[1], A);
	EXPECT_BITS(pages[2], 0);
}

RULE(1527, "five levels: addresses of 57 bits are canonical", DOC " Finding it", INSERT | LA57 | QUIET,
     "insert-does-nothing")
{
	uint64_t root5 = page_alloc(), address = (5ul << 48) + PAGE_1G + PAGE_2M * 2, frame = frame_alloc(OLD);
	volatile uint64_t *pte;

	*(uint64_t *)root5 = space() | P | W | U | A;
	pte = entry5(root5, address, 1);
	*pte = frame | P | PAGE_FLAGS;
	CHECK(legacy_trip(CR4_BASE | CR4_LA57, (uint32_t)root5) == 0, "five-level paging cannot be entered");
	EXPECT_FAULT(VECTOR_GP, insert_try(1ul << 56, 1));
	EXPECT_INSERTED(0, 1ul << 55, 1);
	EXPECT_INSERTED(1, address, 1);
	expect(address, OLD, __LINE__);
	CHECK((*pte & (A | D)) == 0, "the entry is %lx", *pte);
}
