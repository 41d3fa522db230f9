// SPDX-License-Identifier: GPL-2.0-only
/* What CR0, CR4 and INIT drop. */
#include "rules.h"

#define PAGE_FLAGS (W | U | A | D)
#define ICR_SMI 0x4200
#define MSR_SMI_COUNT 0x34

/* A page under PCID 1, one under PCID 2, and a global one; PCID 1 is loaded. */
struct trio {
	uint64_t root;
	struct page one, two, global;
};

static void trio_make(struct trio *t)
{
	t->root = space();
	load_flush(t->root, 2);
	t->two = page_stale(t->root, window(PAGE_BYTES), PAGE_FLAGS);
	load_flush(t->root, 1);
	t->one = page_stale(t->root, window(0), PAGE_FLAGS);
	t->global = page_stale(t->root, window(2 * PAGE_BYTES), PAGE_FLAGS | G);
}

#define EXPECT_TRIO(t, one_, two_, global_) do { \
	load_keep((t)->root, 1); \
	expect((t)->one.address, one_, __LINE__); \
	expect((t)->global.address, global_, __LINE__); \
	load_keep((t)->root, 2); \
	expect((t)->two.address, two_, __LINE__); \
} while (0)

RULE(501, "clearing CR4.PGE drops everything, global pages and other PCIDs among it", "SDM 3A 4.10.4.1", PCID,
     "cr4-pge-keeps")
{
	struct trio t;

	trio_make(&t);
	cr4_write(cr4_read() & ~CR4_PGE);
	EXPECT_TRIO(&t, NEW, NEW, NEW);
}

RULE(502, "setting CR4.PGE drops everything", "SDM 3A 4.10.4.1", PCID, "cr4-pge-keeps")
{
	struct trio t;

	cr4_write(cr4_read() & ~CR4_PGE);
	trio_make(&t);
	cr4_write(cr4_read() | CR4_PGE);
	EXPECT_TRIO(&t, NEW, NEW, NEW);
}

RULE(503, "clearing CR4.PCIDE drops everything", "SDM 3A 4.10.4.1", PCID, "cr4-pcide-keeps")
{
	struct trio t;

	trio_make(&t);
	cr4_write(cr4_read() & ~CR4_PCIDE);
	expect(t.global.address, NEW, __LINE__);
	cr3_write(t.root);
	pcid_on();
	EXPECT_TRIO(&t, NEW, NEW, NEW);
}

RULE(504, "setting CR4.SMEP drops the current PCID", "SDM 3A 4.10.4.1", PCID, "smep-keeps")
{
	struct trio t;

	trio_make(&t);
	cr4_write(cr4_read() | CR4_SMEP);
	load_keep(t.root, 1);
	EXPECT_NEW(t.one);
}

RULE(505, "changing other bits of CR4 drops nothing", "SDM 3A 4.10.4.1", PCID, "cr4-flushes")
{
	struct trio t;

	trio_make(&t);
	cr4_write(cr4_read() | CR4_TSD);
	cr4_write(cr4_read() & ~CR4_TSD);
	cr4_write(cr4_read());
	EXPECT_TRIO(&t, OLD, OLD, OLD);
}

RULE(506, "clearing CR0.PG drops everything", "SDM 3A 4.10.4.1", 0, "cr0-pg-keeps")
{
	uint64_t root = space();
	struct page page, global;

	cr3_write(root);
	page = page_stale(root, window(0), PAGE_FLAGS);
	global = page_stale(root, window(PAGE_BYTES), PAGE_FLAGS | G);
	CHECK(legacy_trip((uint32_t)cr4_read(), (uint32_t)root) == 0, "CR0.PG was not cleared");
	EXPECT_NEW(global);
	EXPECT_NEW(page);
}

/* The CPU that INIT comes to: what it cached, and what it finds afterwards. */
static struct {
	struct trio trio;
	volatile uint64_t one, two;
} reset;

static void reset_fill(void *argument)
{
	(void)argument;
	cr4_write(CR4_PAE | CR4_PCIDE);
	trio_make(&reset.trio);
	load_keep((uint64_t)boot_pml4, 3);
}

static void reset_look(struct cpu *cpu)
{
	(void)cpu;
	cr4_write(CR4_PAE | CR4_PCIDE);
	load_keep(reset.trio.root, 1);
	reset.one = load(reset.trio.one.address);
	load_keep(reset.trio.root, 2);
	reset.two = load(reset.trio.two.address);
}

RULE(507, "INIT drops everything", "machine-oracle.md STATS", PCID | CPUS2, "reset-keeps")
{
	on_cpu(1, reset_fill, NULL);
	CHECK(cpu_restart(1, reset_look), "the CPU does not come back");
	cpus[1].on_start = NULL;
	CHECK(reset.one == NEW, "the current PCID was kept");
	CHECK(reset.two == NEW, "another PCID was kept");
}

RULE(508, "a flush of one CPU leaves the others as they are", "SDM 3A 4.10.5", PCID | CPUS2, "stock")
{
	static struct trio t;

	trio_make(&t);
	on_cpu(1, reset_fill, NULL);
	pge_toggle();
	EXPECT_TRIO(&t, NEW, NEW, NEW);
	cr4_write(CR4_BASE);
}

RULE(509, "system management mode drops everything", "machine-oracle.md Limits", 0, "smm-keeps")
{
	uint64_t root = space(), count = rdmsr(MSR_SMI_COUNT), begin = now_us();
	struct page page, global;

	cr3_write(root);
	page = page_stale(root, window(0), PAGE_FLAGS);
	global = page_stale(root, window(PAGE_BYTES), PAGE_FLAGS | G);
	cpu_kick(this_cpu()->id, ICR_SMI);
	while (rdmsr(MSR_SMI_COUNT) == count)
		CHECK(now_us() - begin < 1000000, "there is no such interrupt");
	CHECK(cr3_read() == root, "CR3 is %lx", cr3_read());
	EXPECT_NEW(global);
	EXPECT_NEW(page);
}
