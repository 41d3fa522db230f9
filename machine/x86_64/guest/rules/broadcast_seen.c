// SPDX-License-Identifier: GPL-2.0-only
/* What the oracle and the statistics say of PCIDs that were emptied, of INVLPGB and TLBSYNC, and of interrupts. */
#include "crowd.h"
#include "oracle.h"

#define ORACLE_DOC "machine-oracle.md QUERY"
#define DOC "machine-broadcast.md"
#define RFLAGS_IF 0x202

/*
 * PCID 1 was the first address space's and is the second one's, which is loaded without a flush. What was filled then
 * is of the second alone, if `emptied` has made it so.
 */
static struct {
	uint64_t first, second;
	struct page page;
} owner;

static void owner_make(void)
{
	owner.first = space();
	owner.second = space();
	owner.page = page_make(owner.second, window(PAGE_1G + PAGE_2M * 2), PAGE_FLAGS);
	load_flush(owner.first, 1);
	load_flush((uint64_t)boot_pml4, 3);
}

static void owner_expect(bool is_first, int line)
{
	uint64_t mine = 1ul << this_cpu()->id;

	load_keep(owner.second, 1);
	load(owner.page.address);
	CHECK(oracle_holders(owner.second, owner.page.address, 1, LOOK_TLB) & mine, "line %d: nobody holds it", line);
	CHECK(!(oracle_holders(owner.first, owner.page.address, 1, LOOK_TLB) & mine) == !is_first,
	      "line %d: it is %s the former address space's", line, is_first ? "not" : "still");
}
#define EXPECT_FORMER(is_first) owner_expect(is_first, __LINE__)

RULE(1901, "a PCID that INVPCID type 1 has emptied belongs to whom it is loaded for next, with a flush or without",
     ORACLE_DOC, PCID | INVPCID | ORACLE | QUIET, "oracle-keeps-owner")
{
	owner_make();
	invpcid(INVPCID_CONTEXT, 1, 0);
	EXPECT_FORMER(false);
}

RULE(1902, "so does one that INVPCID type 2 or 3 has emptied", ORACLE_DOC, PCID | INVPCID | ORACLE | QUIET,
     "oracle-keeps-owner")
{
	owner_make();
	invpcid(INVPCID_ALL_GLOBAL, 0, 0);
	EXPECT_FORMER(false);
	owner_make();
	invpcid(INVPCID_ALL, 0, 0);
	EXPECT_FORMER(false);
}

RULE(1903, "a PCID that is emptied while it is loaded belongs to the root in CR3", ORACLE_DOC,
     PCID | INVPCID | ORACLE | QUIET, "oracle-keeps-owner")
{
	owner_make();
	load_keep(owner.second, 1);
	invpcid(INVPCID_CONTEXT, 1, 0);
	EXPECT_FORMER(false);
	owner_make();
	load_keep(owner.second, 1);
	cr4_write(cr4_read() | CR4_SMEP);
	EXPECT_FORMER(false);
}

RULE(1904, "a PCID that was not emptied as a whole belongs to whom it belonged", ORACLE_DOC,
     PCID | INVPCID | ORACLE | QUIET, "oracle-disowns-always")
{
	owner_make();
	EXPECT_FORMER(true);
	owner_make();
	invpcid(INVPCID_CONTEXT, 2, 0);
	invpcid(INVPCID_ADDRESS, 1, owner.page.address);
	EXPECT_FORMER(true);
}

RULE(1957, "a PCID that INVLPGB without an address has emptied belongs to whom it is loaded for next", DOC,
     PCID | BROADCAST | ORACLE | QUIET, "oracle-keeps-owner")
{
	owner_make();
	broadcast(BY_PCID, 0, 1);
	EXPECT_FORMER(false);
	owner_make();
	broadcast(WITH_GLOBAL, 0, 0);
	EXPECT_FORMER(false);
}

RULE(1958, "a PCID of which INVLPGB has left something belongs to whom it belonged", DOC,
     PCID | BROADCAST | ORACLE | QUIET, "oracle-disowns-always")
{
	owner_make();
	broadcast(BY_ADDRESS | owner.page.address, 0, 0);
	EXPECT_FORMER(true);
	owner_make();
	broadcast(BY_PCID | FINAL_ONLY, 0, 1);
	EXPECT_FORMER(true);
}

/* By CPU. */
static uint64_t holders(void)
{
	return oracle_holders(crowd.root, CROWD_PAGE, 1, LOOK_TLB);
}

RULE(1959, "late: what is pending is still in the TLB, and the oracle finds it until TLBSYNC", DOC,
     PCID | BROADCAST | LATE | ORACLE | QUIET, "oracle-hides-pending")
{
	uint64_t all = (1ul << cpu_count) - 1, found;

	crowd_usual();
	invlpgb(BY_ADDRESS | CROWD_PAGE, 0, 0);
	found = holders();
	CHECK(found == all, "the holders are %lx", found);
	tlbsync();
	found = holders();
	CHECK(!found, "the holders are %lx", found);
}

RULE(1960, "after TLBSYNC the oracle finds nothing of what was to go, and the rest", DOC,
     PCID | BROADCAST | ORACLE | QUIET, "invlpgb-does-nothing")
{
	uint64_t all = (1ul << cpu_count) - 1, found;

	crowd_usual();
	broadcast(BY_ADDRESS | CROWD_PAGE, 0, 0);
	found = holders();
	CHECK(!found, "the holders are %lx", found);
	found = oracle_holders(crowd.root, CROWD_PAGE + PAGE_BYTES, 1, LOOK_TLB);
	CHECK(found == all, "the neighbour's holders are %lx", found);
}

static void broadcast_some(void)
{
	for (unsigned int i = 0; i < 3; i++)
		invlpgb(BY_ADDRESS | window(0), 3, 0);
	invlpgb(BY_PCID, 0, 77);
	invlpgb(BY_PCID | FINAL_ONLY, 0, 78);
	for (unsigned int i = 0; i < 4; i++)
		tlbsync();
	/* Faults do not count. */
	invlpgb_try(NESTED_TOO, 0, 0);
	invlpgb_try(BY_ADDRESS | window(0), invlpgb_max() + 1, 0);
}

#define EXPECT_MOVED(stats, index, value) \
	CHECK((stats).at[index] == (uint64_t)(value), "line %d: counter %u moved by %lu instead of %lu", __LINE__, index, \
	      (stats).at[index], (uint64_t)(value))

RULE(1961, "invlpgb, of these invlpgb_all, and tlbsync; broadcast_targets: the other CPUs, for each", DOC,
     PCID | BROADCAST | ORACLE | QUIET, "targets-count-self")
{
	struct tlb_stats stats = oracle_measure(broadcast_some);

	EXPECT_MOVED(stats, INVLPGB, 5);
	EXPECT_MOVED(stats, INVLPGB_ALL, 2);
	EXPECT_MOVED(stats, TLBSYNC, 4);
	EXPECT_MOVED(stats, BROADCAST_TARGETS, 5 * (cpu_count - 1));
	EXPECT_MOVED(stats, BROADCAST_HITS, 0);
	EXPECT_MOVED(stats, IPI_TARGETS, 0);
	EXPECT_MOVED(stats, INVLPG, 0);
	EXPECT_MOVED(stats, FLUSH_ALL, 0);
}

static uint64_t hits(uint32_t id)
{
	return oracle_stats(id).at[BROADCAST_HITS];
}

RULE(1962, "broadcast_hits: requests of others by which this CPU lost something, of either cache", DOC,
     PCID | BROADCAST | ORACLE | CPUS2 | QUIET, "hits-count-targets")
{
	uint64_t mine, other;

	crowd_usual();
	mine = hits(0);
	other = hits(1);
	/* Found; gone by now; another PCID; a PCID that is empty; a global page; everything; nothing is left. */
	broadcast(BY_ADDRESS | BY_PCID | FINAL_ONLY | CROWD_PAGE, 1, PCID_MINE);
	CHECK(hits(1) == other + 1, "line %d: moved by %lu", __LINE__, hits(1) - other);
	broadcast(BY_ADDRESS | BY_PCID | FINAL_ONLY | CROWD_PAGE, 1, PCID_MINE);
	broadcast(BY_ADDRESS | BY_PCID | CROWD_PAGE, 1, 77);
	broadcast(BY_PCID, 0, 77);
	CHECK(hits(1) == other + 1, "line %d: moved by %lu", __LINE__, hits(1) - other);
	broadcast(BY_PCID, 0, PCID_TOO);
	CHECK(hits(1) == other + 2, "line %d: moved by %lu", __LINE__, hits(1) - other);
	broadcast(BY_PCID, 0, PCID_TOO);
	CHECK(hits(1) == other + 2, "line %d: moved by %lu", __LINE__, hits(1) - other);
	broadcast(BY_ADDRESS | WITH_GLOBAL | FINAL_ONLY | CROWD_GLOBAL, 0, 0);
	CHECK(hits(1) == other + 3, "line %d: moved by %lu", __LINE__, hits(1) - other);
	broadcast(WITH_GLOBAL, 0, 0);
	CHECK(hits(1) == other + 4, "line %d: moved by %lu", __LINE__, hits(1) - other);
	CHECK(hits(0) == mine, "the own CPU's moved by %lu", hits(0) - mine);
}

/* CPU 1 stays in user mode, where it can be interrupted. */
static struct {
	uint64_t root;
	volatile uint64_t *word;
	bool ticks;
} user;

static void user_job(void *argument)
{
	(void)argument;
	pcid_switch(true);
	cr3_write(user.root);
	if (user.ticks)
		cpu_tick();
	user_rflags = RFLAGS_IF;
	user_spin(window(0));
	user_rflags = 2;
	cpu_settle();
}

static void user_begin(bool ticks)
{
	uint64_t frame = frame_alloc(0);

	user.root = space();
	user.word = (uint64_t *)frame;
	user.ticks = ticks;
	*entry(user.root, window(0), 1) = frame | P | PAGE_FLAGS;
	on_cpu_begin(1, user_job, NULL);
	while (!user.word[1])
		pause();
}

static void user_end(void)
{
	user.word[0] = 1;
	on_cpu_end(1);
}

static void wait_for(const volatile uint64_t *count, uint64_t value)
{
	for (uint64_t begin = now_us(); *count < value; pause())
		CHECK(now_us() - begin < 5000000, "no interrupt comes");
}

static uint64_t interrupts(void)
{
	return oracle_stats(1).at[USER_INTERRUPTS];
}

RULE(1963, "user_interrupts: interrupts that come while the CPU is in user mode, and no others",
     "machine-oracle.md STATS", ORACLE | CPUS2 | QUIET, "user-interrupts-all")
{
	uint64_t before = interrupts(), in_user, wakes;

	user_begin(false);
	CHECK(interrupts() == before, "line %d: moved by %lu", __LINE__, interrupts() - before);
	wakes = cpus[1].wakes;
	for (unsigned int i = 1; i <= 5; i++) {
		cpu_kick(1, 0x4000 | VECTOR_WAKE);
		wait_for(&cpus[1].wakes, wakes + i);
	}
	in_user = interrupts();
	user_end();
	CHECK(in_user == before + 5, "line %d: moved by %lu", __LINE__, in_user - before);
	for (unsigned int i = 0; i < 5; i++)
		on_cpu(1, settle_job, NULL);
	CHECK(interrupts() == in_user, "line %d: moved by %lu", __LINE__, interrupts() - in_user);
}

RULE(1964, "user_interrupts: not those of the own APIC's timer", "machine-oracle.md STATS", ORACLE | CPUS2 | QUIET,
     "user-interrupts-timer")
{
	uint64_t before = interrupts(), ticks = cpus[1].ticks, after;

	user_begin(true);
	wait_for(&cpus[1].ticks, ticks + 1);
	after = interrupts();
	user_end();
	CHECK(after == before, "moved by %lu", after - before);
}
