// SPDX-License-Identifier: GPL-2.0-only
/* One translation for user and kernel mode: who fills it does not matter, what it permits does. */
#include "rules.h"

#define PAGE_FLAGS (W | U | A | D)

static uint64_t here(void)
{
	uint64_t root = space();

	cr3_write(root);
	return root;
}

RULE(601, "what a kernel read filled serves a user read", "SDM 3A 4.10.2.2", 0, "hit-splits-privilege")
{
	uint64_t root = here(), value;
	struct page page = page_stale(root, window(0), PAGE_FLAGS);

	EXPECT_FAULT(VECTOR_USER, user_read(page.address, &value));
	CHECK(value == OLD, "user mode read another frame");
}

RULE(602, "what a user read filled serves a kernel read", "SDM 3A 4.10.2.2", 0, "hit-splits-privilege")
{
	uint64_t root = here(), value;
	struct page page = page_make(root, window(0), PAGE_FLAGS);

	EXPECT_FAULT(VECTOR_USER, user_read(page.address, &value));
	page_repoint(&page);
	EXPECT_OLD(page);
}

RULE(603, "what a kernel write filled serves a user write", "SDM 3A 4.10.2.2", 0, "hit-splits-privilege")
{
	uint64_t root = here();
	struct page page = page_make(root, window(0), PAGE_FLAGS);

	store(page.address, 1);
	page_repoint(&page);
	EXPECT_FAULT(VECTOR_USER, user_write(page.address, 2));
	CHECK(load(page.old) == 2 && load(page.new) == NEW, "user mode wrote another frame");
}

RULE(604, "what a user write filled serves a kernel write", "SDM 3A 4.10.2.2", 0, "hit-splits-privilege")
{
	uint64_t root = here();
	struct page page = page_make(root, window(0), PAGE_FLAGS);

	EXPECT_FAULT(VECTOR_USER, user_write(page.address, 1));
	page_repoint(&page);
	store(page.address, 2);
	CHECK(load(page.old) == 2 && load(page.new) == NEW, "the kernel wrote another frame");
}

RULE(605, "a translation without U refuses user mode: #PF, error P|U", "SDM 3A 4.6.1", 0, "hit-ignores-user")
{
	uint64_t root = here(), value;
	struct page page = page_make(root, window(0), W | A | D);

	EXPECT_OLD(page);
	EXPECT_PF(PF_P | PF_U, user_read(page.address, &value));
	EXPECT_OLD(page);
	EXPECT_PF(PF_P | PF_U | PF_W, user_write(page.address, 1));
	EXPECT_OLD(page);
}

RULE(606, "U counts only where all levels have it", "SDM 3A 4.6", 0, "hit-ignores-user")
{
	uint64_t root = here(), value;

	for (unsigned int level = 2; level <= 4; level++) {
		uint64_t address = window((uint64_t)level << 30);
		struct page page = page_make(root, address, PAGE_FLAGS);

		/* The table of level 4 is shared with the kernel's part, its entry is not. */
		*entry(root, address, level) &= ~U;
		invlpg(address);
		EXPECT_OLD(page);
		EXPECT_PF(PF_P | PF_U, user_read(address, &value));
		*entry(root, address, level) |= U;
		invlpg(address);
		EXPECT_FAULT(VECTOR_USER, user_read(address, &value));
	}
}

RULE(607, "a translation without W refuses writes: #PF, error P|W, and U from user mode", "SDM 3A 4.6.1", 0,
     "hit-ignores-write")
{
	uint64_t root = here();
	struct page page = page_make(root, window(0), U | A | D);

	EXPECT_OLD(page);
	EXPECT_PF(PF_P | PF_W, store_try(page.address, 1));
	EXPECT_OLD(page);
	EXPECT_PF(PF_P | PF_W | PF_U, user_write(page.address, 1));
	EXPECT_OLD(page);
}

RULE(608, "with CR0.WP 0 the kernel writes through it, user mode still does not", "SDM 3A 4.6.1", 0,
     "hit-ignores-write")
{
	uint64_t root = here();
	struct page page = page_make(root, window(0), U | A);

	EXPECT_OLD(page);
	cr0_write(cr0_read() & ~CR0_WP);
	EXPECT_OK(store_try(page.address, 7));
	CHECK(load(page.old) == 7, "the write went elsewhere");
	EXPECT_PF(PF_P | PF_W | PF_U, user_write(page.address, 1));
	EXPECT_OK(store_try(page.address, 8));
	cr0_write(cr0_read() | CR0_WP);
	EXPECT_PF(PF_P | PF_W, store_try(page.address, 9));
	CHECK(load(page.old) == 8, "a write that faulted was done");
}

/* mov $imm32, %eax; ret */
static void stub_put(uint64_t frame, uint32_t value)
{
	store(frame, 0xb8ul | (uint64_t)value << 8 | 0xc3ul << 40);
}

RULE(609, "a translation with NX refuses fetches: #PF, error P|I, and U from user mode", "SDM 3A 4.6.1", 0,
     "hit-ignores-nx")
{
	uint64_t root = here(), value;
	struct page page = page_make(root, window(0), PAGE_FLAGS | NX);

	stub_put(page.old, 11);
	load(page.address);
	EXPECT_PF(PF_P | PF_I, exec_try(page.address, &value));
	load(page.address);
	EXPECT_PF(PF_P | PF_I | PF_U, user_exec(page.address, &value));
}

RULE(610, "what a read filled serves a fetch, and what a fetch filled a read", "SDM 3A 4.10.2.2", 0,
     "hit-splits-fetch")
{
	uint64_t root = here(), value;
	struct page page = page_make(root, window(0), PAGE_FLAGS), other = page_make(root, window(PAGE_BYTES), PAGE_FLAGS);

	stub_put(page.old, 11);
	stub_put(page.new, 22);
	load(page.address);
	page_repoint(&page);
	EXPECT_OK(exec_try(page.address, &value));
	CHECK(value == 11, "the fetch used another frame");
	EXPECT_FAULT(VECTOR_USER, user_exec(page.address, &value));
	CHECK(value == 11, "the fetch in user mode used another frame");
	stub_put(other.old, 33);
	stub_put(other.new, 44);
	EXPECT_FAULT(VECTOR_USER, user_exec(other.address, &value));
	page_repoint(&other);
	CHECK(load(other.address) == load(other.old), "the read used another frame");
}

RULE(611, "with CR4.SMAP the kernel reads a page that user mode filled only with AC set", "SDM 3A 4.6.1", 0,
     "hit-ignores-smap")
{
	uint64_t root = here(), value;
	struct page page = page_make(root, window(0), PAGE_FLAGS);

	cr4_write(cr4_read() | CR4_SMAP);
	for (unsigned int i = 0; i < 2; i++) {
		EXPECT_FAULT(VECTOR_USER, user_read(page.address, &value));
		EXPECT_PF(PF_P, load_try(page.address, &value));
		EXPECT_FAULT(VECTOR_USER, user_write(page.address, OLD));
		EXPECT_PF(PF_P | PF_W, store_try(page.address, 1));
		stac();
		EXPECT_OLD(page);
		EXPECT_OK(store_try(page.address, OLD));
		clac();
		EXPECT_PF(PF_P, load_try(page.address, &value));
	}
}

RULE(612, "what a kernel read with AC set filled serves user mode, and the other way round", "SDM 3A 4.10.2.2", 0,
     "hit-splits-privilege")
{
	uint64_t root = here(), value;
	struct page page = page_make(root, window(0), PAGE_FLAGS), other = page_make(root, window(PAGE_BYTES), PAGE_FLAGS);

	cr4_write(cr4_read() | CR4_SMAP);
	stac();
	EXPECT_OLD(page);
	clac();
	page_repoint(&page);
	EXPECT_FAULT(VECTOR_USER, user_read(page.address, &value));
	CHECK(value == OLD, "user mode read another frame");
	EXPECT_FAULT(VECTOR_USER, user_read(other.address, &value));
	page_repoint(&other);
	stac();
	EXPECT_OLD(other);
	clac();
}

RULE(613, "setting CR4.SMAP counts at once, without a flush", "SDM 3A 4.6.1", 0, "hit-ignores-smap")
{
	uint64_t root = here(), value;
	struct page page = page_make(root, window(0), PAGE_FLAGS);

	EXPECT_OLD(page);
	cr4_write(cr4_read() | CR4_SMAP);
	EXPECT_PF(PF_P, load_try(page.address, &value));
	cr4_write(cr4_read() & ~CR4_SMAP);
	EXPECT_OLD(page);
}

RULE(614, "with CR4.SMEP the kernel does not fetch from a page that user mode filled", "SDM 3A 4.6.1", 0,
     "hit-ignores-smep")
{
	uint64_t root = here(), value;
	struct page page = page_make(root, window(0), PAGE_FLAGS);

	stub_put(page.old, 11);
	cr4_write(cr4_read() | CR4_SMEP);
	EXPECT_FAULT(VECTOR_USER, user_exec(page.address, &value));
	CHECK(value == 11, "user mode executed something else");
	EXPECT_PF(PF_P | PF_I, exec_try(page.address, &value));
	EXPECT_FAULT(VECTOR_USER, user_exec(page.address, &value));
	cr4_write(cr4_read() & ~CR4_SMEP);
	EXPECT_OK(exec_try(page.address, &value));
}

RULE(615, "protection keys are looked at on every hit: PKRU counts at once, in both modes, for data alone",
     "SDM 3A 4.6.2", KEYS, "hit-ignores-pkey")
{
	uint64_t root = here(), value;
	struct page page = page_make(root, window(0), PAGE_FLAGS | KEY(5));

	cr4_write(cr4_read() | CR4_PKE);
	wrpkru(0);
	stub_put(page.old, 11);
	load(page.address);
	/* Access disable. */
	wrpkru(1u << 10);
	EXPECT_PF(PF_P | PF_PK, load_try(page.address, &value));
	EXPECT_PF(PF_P | PF_U | PF_PK, user_read(page.address, &value));
	EXPECT_OK(exec_try(page.address, &value));
	/* Write disable. */
	wrpkru(2u << 10);
	EXPECT_OK(load_try(page.address, &value));
	EXPECT_PF(PF_P | PF_W | PF_PK, store_try(page.address, 1));
	EXPECT_FAULT(VECTOR_USER, user_read(page.address, &value));
	EXPECT_PF(PF_P | PF_W | PF_U | PF_PK, user_write(page.address, 1));
	/* The kernel ignores it with WP 0. */
	cr0_write(cr0_read() & ~CR0_WP);
	EXPECT_OK(store_try(page.address + 8, 1));
	cr0_write(cr0_read() | CR0_WP);
	wrpkru(0);
	EXPECT_OK(store_try(page.address + 8, 1));
	EXPECT_FAULT(VECTOR_USER, user_write(page.address + 8, 1));
}

RULE(616, "protection keys do not concern pages without U", "SDM 3A 4.6.2", KEYS, "pkey-kernel")
{
	uint64_t root = here();
	struct page page = page_make(root, window(0), W | A | D | KEY(5));

	cr4_write(cr4_read() | CR4_PKE);
	wrpkru(3u << 10);
	EXPECT_OLD(page);
	EXPECT_OK(store_try(page.address, OLD));
}

RULE(617, "a write through an entry cached without D walks again, and then uses what it finds", "SDM 3A 4.8", QUIET,
     "hit-ignores-dirty")
{
	uint64_t root = here();
	struct page page = page_make(root, window(0), W | U | A);

	EXPECT_OLD(page);
	page_repoint(&page);
	store(page.address, 5);
	CHECK(load(page.old) == OLD, "the write went through the old translation, whose D was never set");
	CHECK(load(page.new) == 5, "the write went nowhere");
	CHECK(*page.pte & D, "D is not set");
}

RULE(618, "a write through an entry cached with D needs no walk", "SDM 3A 4.8", 0, "hit-forgets-dirty")
{
	uint64_t root = here();
	struct page page = page_make(root, window(0), W | U | A);

	store(page.address, 1);
	CHECK(*page.pte & D, "D is not set");
	*page.pte = page.new | P | W | U | A;
	EXPECT_FAULT(VECTOR_USER, user_write(page.address, 2));
	CHECK(load(page.old) == 2, "the write walked again");
	CHECK(!(*page.pte & D), "D was set again");
}

RULE(619, "after a page fault an access works by the entries as they are: more rights need no flush",
     "SDM 3A 4.10.4.1, 4.10.4.3", 0, "hit-faults-at-once")
{
	uint64_t root = here(), value;
	struct page page = page_make(root, window(0), U | A | D | NX);

	/* Each may fault once, because of the cached entry; not a second time. */
	EXPECT_OLD(page);
	*page.pte = page.old | P | W | U | A | D | NX;
	if (store_try(page.address, 1) != NO_FAULT)
		EXPECT_OK(store_try(page.address, 1));
	stub_put(page.old, 11);
	load(page.address);
	*page.pte = page.old | P | W | U | A | D;
	if (exec_try(page.address, &value) != NO_FAULT)
		EXPECT_OK(exec_try(page.address, &value));
	*page.pte = page.old | P | W | A | D;
	invlpg(page.address);
	load(page.address);
	*page.pte = page.old | P | W | U | A | D;
	if (user_read(page.address, &value) != VECTOR_USER)
		EXPECT_FAULT(VECTOR_USER, user_read(page.address, &value));
}

RULE(620, "a page fault drops the address's translation, in the current PCID alone", "SDM 3A 4.10.4.1", PCID,
     "fault-keeps-entry")
{
	uint64_t root = space();
	struct page page;

	load_flush(root, 2);
	page = page_make(root, window(0), U | A | D);
	EXPECT_OLD(page);
	load_flush(root, 1);
	EXPECT_OLD(page);
	page_repoint(&page);
	EXPECT_OLD(page);
	EXPECT_PF(PF_P | PF_W, store_try(page.address, 1));
	EXPECT_NEW(page);
	load_keep(root, 2);
	EXPECT_OLD(page);
}

RULE(621, "a reserved bit in an entry: #PF, error P|RSVD, and nothing is cached", "SDM 3A 4.7, 4.10.2.3", 0,
     "rsvd-without-p")
{
	uint64_t root = here(), value;
	struct page page = page_make(root, window(0), PAGE_FLAGS);

	if (physical_bits() >= 52)
		return;
	*page.pte |= 1ul << 51;
	invlpg(page.address);
	EXPECT_PF(PF_P | PF_RSVD, load_try(page.address, &value));
	EXPECT_PF(PF_P | PF_RSVD | PF_U, user_read(page.address, &value));
	page_restore(&page);
	EXPECT_OLD(page);
}

RULE(622, "large pages serve both modes, too", "SDM 3A 4.10.2.2", 0, "hit-splits-privilege")
{
	uint64_t root = here(), value;
	uint64_t old = frame_alloc_2m(OLD), new = frame_alloc_2m(NEW);
	volatile uint64_t *pde = entry(root, window(0), 2);

	*pde = old | P | PS | PAGE_FLAGS;
	expect(window(0), OLD, __LINE__);
	*pde = new | P | PS | PAGE_FLAGS;
	EXPECT_FAULT(VECTOR_USER, user_read(window(PAGE_2M - 8), &value));
	CHECK(value == OLD, "user mode read another frame");
}
