// SPDX-License-Identifier: GPL-2.0-only
/* INVLPGB: what goes on all CPUs, and what stays. */
#include "crowd.h"

#define DOC "machine-broadcast.md What goes"
#define EFER_SVME (1ul << 12)

RULE(1916, "INVLPGB by address and PCID drops that page of that PCID, on all CPUs", DOC, PCID | BROADCAST,
     "invlpgb-does-nothing")
{
	crowd_usual();
	broadcast(BY_ADDRESS | BY_PCID | CROWD_PAGE, 0, PCID_MINE);
	EXPECT_CROWD("noooo");
	broadcast(BY_ADDRESS | BY_PCID | (CROWD_PAGE + PAGE_BYTES), 0, PCID_TOO);
	EXPECT_CROWD("noono");
}

RULE(1917, "INVLPGB of one PCID keeps another's translation of the same address", DOC, PCID | BROADCAST,
     "invlpgb-ignores-pcid")
{
	crowd_usual();
	broadcast(BY_ADDRESS | BY_PCID | CROWD_PAGE, 1, PCID_TOO);
	EXPECT_CROWD("oonno");
}

RULE(1918, "INVLPGB by address keeps other pages", DOC, PCID | BROADCAST, "invlpgb-ignores-address")
{
	crowd_usual();
	broadcast(BY_ADDRESS | CROWD_PAGE, 0, 0);
	broadcast(BY_ADDRESS | BY_PCID | (CROWD_PAGE - PAGE_BYTES), 0, PCID_MINE);
	EXPECT_CROWD("nonoo");
}

RULE(1919, "INVLPGB without bit 3 keeps global pages", DOC, PCID | BROADCAST, "invlpgb-drops-global")
{
	crowd_usual();
	broadcast(BY_ADDRESS | CROWD_GLOBAL, 0, 0);
	broadcast(BY_ADDRESS | BY_PCID | CROWD_GLOBAL, 0, PCID_MINE);
	EXPECT_CROWD("ooooo");
	broadcast(BY_PCID, 0, PCID_MINE);
	broadcast(0, 0, 0);
	EXPECT_CROWD("nnnno");
}

RULE(1920, "INVLPGB with bit 3 drops a global page", DOC, PCID | BROADCAST, "invlpgb-keeps-global")
{
	crowd_usual();
	broadcast(BY_ADDRESS | WITH_GLOBAL | CROWD_GLOBAL, 0, 0);
	EXPECT_CROWD("oooon");
}

RULE(1921, "INVLPGB with bit 3 drops a global page whatever the PCID", DOC, PCID | BROADCAST, "invlpgb-global-by-pcid")
{
	crowd_usual();
	broadcast(BY_ADDRESS | BY_PCID | WITH_GLOBAL | CROWD_GLOBAL, 0, PCID_TOO);
	EXPECT_CROWD("oooon");
	crowd_usual();
	broadcast(BY_PCID | WITH_GLOBAL, 0, 77);
	EXPECT_CROWD("oooon");
}

RULE(1922, "INVLPGB by address without a PCID drops the page of all PCIDs", DOC, PCID | BROADCAST,
     "invlpgb-current-pcid")
{
	crowd_usual();
	broadcast(BY_ADDRESS | CROWD_PAGE, 0, 0);
	EXPECT_CROWD("nonoo");
}

RULE(1923, "INVLPGB without an address drops all of a PCID but global pages", DOC, PCID | BROADCAST,
     "invlpgb-ignores-pcid")
{
	crowd_usual();
	broadcast(BY_PCID, 0, PCID_TOO);
	EXPECT_CROWD("oonno");
	crowd_usual();
	broadcast(BY_PCID, 0, PCID_MINE);
	EXPECT_CROWD("nnooo");
}

RULE(1924, "INVLPGB without address and PCID drops everything, global pages with bit 3", DOC, PCID | BROADCAST,
     "invlpgb-keeps-global")
{
	crowd_usual();
	broadcast(0, 0, 0);
	EXPECT_CROWD("nnnno");
	crowd_usual();
	broadcast(WITH_GLOBAL, 0, 0);
	EXPECT_CROWD("nnnnn");
}

/* `count` pages, `step` apart, and one more on each side. */
static uint64_t row(unsigned int count, uint64_t step)
{
	crowd_begin();
	for (unsigned int i = 0; i < count + 2; i++)
		crowd_add(CROWD_PAGE + i * step, 0, PCID_MINE);
	crowd_fill();
	return CROWD_PAGE + step;
}

RULE(1925, "INVLPGB drops each page of its count, up to the largest", DOC, PCID | BROADCAST, "invlpgb-count-short")
{
	uint64_t address;

	CHECK(invlpgb_max() == 7, "the largest count is %u", invlpgb_max());
	address = row(8, PAGE_BYTES);
	broadcast(BY_ADDRESS | BY_PCID | address, 7, PCID_MINE);
	EXPECT_CROWD("onnnnnnnno");
	address = row(2, PAGE_BYTES);
	broadcast(BY_ADDRESS | address, 1, 0);
	EXPECT_CROWD("onno");
}

RULE(1926, "INVLPGB keeps the page behind the last of its count", DOC, PCID | BROADCAST, "invlpgb-count-long")
{
	uint64_t address = row(3, PAGE_BYTES);

	broadcast(BY_ADDRESS | BY_PCID | address, 2, PCID_MINE);
	EXPECT_CROWD("onnno");
	address = row(1, PAGE_BYTES);
	broadcast(BY_ADDRESS | BY_PCID | address, 0, PCID_MINE);
	EXPECT_CROWD("ono");
}

RULE(1927, "with bit 31 of ECX the pages of INVLPGB are 2 MiB apart", DOC, PCID | BROADCAST, "invlpgb-ignores-stride")
{
	uint64_t address = row(3, PAGE_2M);

	broadcast(BY_ADDRESS | BY_PCID | address, STRIDE_2M | 2, PCID_MINE);
	EXPECT_CROWD("onnno");
}

RULE(1928, "a step of 2 MiB is no size: pages of 4 KiB beside the addresses stay", DOC, PCID | BROADCAST,
     "invlpgb-stride-is-size")
{
	uint64_t address = row(1, PAGE_BYTES);

	broadcast(BY_ADDRESS | BY_PCID | address, STRIDE_2M | 1, PCID_MINE);
	EXPECT_CROWD("ono");
}

RULE(1929, "INVLPGB drops a page of 2 MiB by any address in it, and not the next one", DOC, PCID | BROADCAST,
     "invlpgb-ignores-size")
{
	crowd_begin();
	crowd_add_large(CROWD_PAGE, 0, PCID_MINE);
	crowd_add_large(CROWD_PAGE + PAGE_2M, 0, PCID_MINE);
	crowd_add_large(CROWD_PAGE + 2 * PAGE_2M, G, PCID_MINE);
	crowd_fill();
	broadcast(BY_ADDRESS | BY_PCID | (CROWD_PAGE + 100 * PAGE_BYTES), 3, PCID_MINE);
	EXPECT_CROWD("noo");
	broadcast(BY_ADDRESS | BY_PCID | WITH_GLOBAL | (CROWD_PAGE + 3 * PAGE_2M - PAGE_BYTES), 0, PCID_TOO);
	EXPECT_CROWD("non");
}

RULE(1930, "INVLPGB of a PCID that a CPU does not keep does nothing there", DOC, PCID | BROADCAST,
     "invlpgb-absent-is-current")
{
	crowd_usual();
	broadcast(BY_PCID, 0, 77);
	broadcast(BY_ADDRESS | BY_PCID | CROWD_PAGE, 1, 78);
	EXPECT_CROWD("ooooo");
}

RULE(1931, "INVLPGB of another ASID than 0 leaves the host's translations", DOC, PCID | BROADCAST,
     "invlpgb-ignores-asid")
{
	uint64_t efer = rdmsr(MSR_EFER);

	crowd_usual();
	wrmsr(MSR_EFER, efer | EFER_SVME);
	EXPECT_OK(invlpgb_try(BY_ASID | WITH_GLOBAL, 0, 1));
	EXPECT_OK(invlpgb_try(BY_ASID | BY_ADDRESS | CROWD_PAGE, 1, 5));
	tlbsync();
	wrmsr(MSR_EFER, efer);
	EXPECT_CROWD("ooooo");
	EXPECT_OK(invlpgb_try(BY_ASID | BY_ADDRESS | CROWD_PAGE, 0, 0));
	tlbsync();
	EXPECT_CROWD("nonoo");
}

RULE(1932, "an address of INVLPGB that is not canonical matches nothing", DOC, PCID | BROADCAST, "invlpgb-truncates")
{
	crowd_usual();
	for (unsigned int bit = 48; bit < 64; bit++)
		broadcast(BY_ADDRESS | WITH_GLOBAL | CROWD_PAGE | 1ul << bit, 1, 0);
	EXPECT_CROWD("ooooo");
}

RULE(1933, "INVLPGB works on the CPU that executes it", DOC, PCID | BROADCAST, "invlpgb-skips-self")
{
	crowd_usual();
	broadcast(BY_ADDRESS | CROWD_PAGE, 0, 0);
	EXPECT_OF(0, "nonoo");
}

RULE(1934, "INVLPGB works on all other CPUs, whichever executes it", DOC, PCID | BROADCAST | CPUS2,
     "invlpgb-skips-others")
{
	crowd_usual();
	broadcast(BY_ADDRESS | CROWD_PAGE, 0, 0);
	for (unsigned int id = 1; id < cpu_count; id++)
		EXPECT_OF(id, "nonoo");
}

static void drop_job(void *argument)
{
	(void)argument;
	broadcast(BY_ADDRESS | CROWD_PAGE, 0, 0);
}

RULE(1935, "the CPU that executes INVLPGB is any", DOC, PCID | BROADCAST | CPUS2, "invlpgb-skips-others")
{
	crowd_usual();
	on_cpu(1, drop_job, NULL);
	EXPECT_CROWD("nonoo");
}

RULE(1936, "INVLPGB without a PCID works while CR4.PCIDE is 0", DOC, BROADCAST, "invlpgb-does-nothing")
{
	uint64_t root = space();
	struct page page, neighbour, global;

	cpu_settle();
	cr3_write(root);
	page = page_stale(root, window(0), PAGE_FLAGS);
	neighbour = page_stale(root, window(PAGE_BYTES), PAGE_FLAGS);
	global = page_stale(root, window(2 * PAGE_BYTES), PAGE_FLAGS | G);
	broadcast(BY_ADDRESS | page.address, 0, 0);
	EXPECT_NEW(page);
	EXPECT_OLD(neighbour);
	broadcast(0, 0, 0);
	EXPECT_NEW(neighbour);
	EXPECT_OLD(global);
}

RULE(1937, "no faster way to a translation is left after INVLPGB", DOC, PCID | BROADCAST, "invlpgb-keeps-fast")
{
	crowd_usual();
	broadcast(BY_ADDRESS | BY_PCID | CROWD_PAGE, 0, PCID_MINE);
	EXPECT_CROWD("noooo");
	broadcast(BY_ADDRESS | WITH_GLOBAL | CROWD_GLOBAL, 0, 0);
	EXPECT_CROWD("nooon");
	broadcast(BY_PCID, 0, PCID_MINE);
	EXPECT_CROWD("nnoon");
}

/*
 * Two pages that one page table maps; the first was read, so that the way to the table is cached on all CPUs. Then the
 * entry above names another table: which way a walk for the second page takes, tells whether the old way was kept.
 */
static struct {
	uint64_t root, first, second, pcid;
	volatile uint64_t saw[CPUS_MAX];
} fork;

static void fork_fill_job(void *argument)
{
	(void)argument;
	pcid_switch(true);
	load_flush(fork.root, fork.pcid);
	CHECK(load(fork.first) == OLD, "it is not filled");
	load_flush(space(), PCID_TOO + 1);
}

static void fork_look_job(void *argument)
{
	(void)argument;
	load_keep(fork.root, fork.pcid);
	fork.saw[this_cpu()->id] = load(fork.second);
}

static void fork_make(uint64_t pcid)
{
	uint64_t other = space();

	fork.pcid = pcid;
	fork.root = space();
	fork.first = window(PAGE_1G + PAGE_2M * 2);
	fork.second = fork.first + PAGE_BYTES;
	page_make(fork.root, fork.first, PAGE_FLAGS);
	page_make(fork.root, fork.second, PAGE_FLAGS);
	*entry(other, fork.second, 1) = frame_alloc(NEW) | P | PAGE_FLAGS;
	for (unsigned int id = 0; id < cpu_count; id++)
		on_cpu(id, fork_fill_job, NULL);
	*entry(fork.root, fork.first, 2) = *entry(other, fork.first, 2);
}

static void fork_expect(uint64_t canary, int line)
{
	on_all(fork_look_job, NULL);
	for (unsigned int id = 0; id < cpu_count; id++)
		CHECK(fork.saw[id] == canary, "line %d: CPU %u walked the %s way", line, id,
		      fork.saw[id] == OLD ? "old" : "new");
}
#define EXPECT_WAY(canary) fork_expect(canary, __LINE__)

RULE(1938, "INVLPGB of any address drops the paging-structure entries of the PCID", DOC,
     PCID | BROADCAST | STRUCTURES | QUIET, "invlpgb-keeps-structures")
{
	fork_make(PCID_MINE);
	broadcast(BY_ADDRESS | BY_PCID | window(PAGE_1G * 300), 0, PCID_MINE);
	EXPECT_WAY(NEW);
	fork_make(PCID_MINE);
	broadcast(BY_ADDRESS | window(PAGE_1G * 300), 0, 0);
	EXPECT_WAY(NEW);
}

RULE(1939, "INVLPGB without an address drops the paging-structure entries of the PCID", DOC,
     PCID | BROADCAST | STRUCTURES, "invlpgb-keeps-structures")
{
	fork_make(PCID_MINE);
	broadcast(BY_PCID, 0, PCID_MINE);
	EXPECT_WAY(NEW);
	fork_make(PCID_MINE);
	broadcast(0, 0, 0);
	EXPECT_WAY(NEW);
}

RULE(1940, "INVLPGB with bit 4 keeps the paging-structure entries, and drops the page", DOC,
     PCID | BROADCAST | STRUCTURES | QUIET, "invlpgb-drops-structures")
{
	fork_make(PCID_MINE);
	broadcast(BY_ADDRESS | BY_PCID | FINAL_ONLY | fork.first, 1, PCID_MINE);
	EXPECT_WAY(OLD);
	crowd_usual();
	broadcast(BY_ADDRESS | BY_PCID | FINAL_ONLY | CROWD_PAGE, 0, PCID_MINE);
	EXPECT_CROWD("noooo");
}

RULE(1941, "INVLPGB with bit 4 and without an address keeps the paging-structure entries, and drops the pages", DOC,
     PCID | BROADCAST | STRUCTURES | QUIET, "invlpgb-drops-structures")
{
	fork_make(PCID_MINE);
	broadcast(BY_PCID | FINAL_ONLY, 0, PCID_MINE);
	broadcast(FINAL_ONLY | WITH_GLOBAL, 0, 0);
	EXPECT_WAY(OLD);
	crowd_usual();
	broadcast(BY_PCID | FINAL_ONLY, 0, PCID_MINE);
	EXPECT_CROWD("nnooo");
}

RULE(1942, "INVLPGB of one PCID keeps the paging-structure entries of another", DOC,
     PCID | BROADCAST | STRUCTURES | QUIET, "invlpgb-structures-of-all")
{
	fork_make(PCID_MINE);
	broadcast(BY_ADDRESS | BY_PCID | fork.second, 0, PCID_TOO);
	broadcast(BY_PCID, 0, PCID_TOO);
	broadcast(BY_PCID, 0, 77);
	EXPECT_WAY(OLD);
}
