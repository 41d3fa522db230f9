// SPDX-License-Identifier: GPL-2.0-only
/* INVLPGB and TLBSYNC: when it is done, and what the other CPUs see of it: nothing. */
#include "crowd.h"
#include "oracle.h"

#define DOC "machine-broadcast.md Completion"
#define ICR_NMI 0x4400
/* More than may be pending on a CPU. */
#define MANY 5000
#define INBOX 4096

RULE(1943, "early: the CPU that executes INVLPGB, and others once they execute anything, are done before TLBSYNC", DOC,
     PCID | BROADCAST | EARLY, "tlb-broadcast=late")
{
	crowd_usual();
	invlpgb(BY_ADDRESS | CROWD_PAGE, 0, 0);
	EXPECT_CROWD("nonoo");
	tlbsync();
}

RULE(1944, "late: before TLBSYNC no CPU is done, not even the one that executes INVLPGB", DOC,
     PCID | BROADCAST | LATE, "tlb-broadcast=early")
{
	crowd_usual();
	invlpgb(BY_ADDRESS | CROWD_PAGE, 0, 0);
	invlpgb(BY_PCID | WITH_GLOBAL, 0, PCID_MINE);
	EXPECT_CROWD("ooooo");
	tlbsync();
	EXPECT_CROWD("nnnon");
}

RULE(1945, "TLBSYNC is done when all CPUs are done with all that this one has asked for", DOC,
     PCID | BROADCAST | LATE, "tlbsync-does-nothing")
{
	crowd_usual();
	for (unsigned int i = 0; i < 100; i++)
		invlpgb(BY_ADDRESS | (CROWD_PAGE + (2 + i) * PAGE_BYTES), 0, 0);
	invlpgb(BY_ADDRESS | BY_PCID | CROWD_PAGE, 0, PCID_MINE);
	invlpgb(BY_ADDRESS | BY_PCID | (CROWD_PAGE + PAGE_BYTES), 0, PCID_TOO);
	invlpgb(BY_ADDRESS | WITH_GLOBAL | CROWD_GLOBAL, 0, 0);
	tlbsync();
	EXPECT_CROWD("noonn");
}

RULE(1946, "late: TLBSYNC completes on the own CPU, too", DOC, PCID | BROADCAST | LATE, "tlbsync-skips-self")
{
	crowd_usual();
	invlpgb(BY_ADDRESS | CROWD_PAGE, 0, 0);
	tlbsync();
	EXPECT_OF(0, "nonoo");
}

static void tlbsync_job(void *argument)
{
	(void)argument;
	tlbsync();
}

static void invlpgb_job(void *argument)
{
	(void)argument;
	invlpgb(BY_ADDRESS | (CROWD_PAGE + PAGE_BYTES), 0, 0);
}

RULE(1947, "late: another CPU's TLBSYNC does not complete mine, and mine not another's", DOC,
     PCID | BROADCAST | LATE | CPUS2, "tlbsync-any-cpu")
{
	crowd_usual();
	invlpgb(BY_ADDRESS | CROWD_PAGE, 0, 0);
	on_cpu(1, invlpgb_job, NULL);
	for (unsigned int id = 2; id < cpu_count; id++)
		on_cpu(id, tlbsync_job, NULL);
	EXPECT_CROWD("ooooo");
	on_cpu(1, tlbsync_job, NULL);
	EXPECT_CROWD("onono");
	tlbsync();
	EXPECT_CROWD("nnnno");
}

RULE(1948, "TLBSYNC of a CPU that has asked for nothing does nothing", DOC, PCID | BROADCAST | LATE | CPUS2,
     "tlbsync-any-cpu")
{
	crowd_usual();
	for (unsigned int i = 0; i < 100; i++)
		tlbsync();
	EXPECT_CROWD("ooooo");
	on_cpu(1, invlpgb_job, NULL);
	tlbsync();
	EXPECT_CROWD("ooooo");
	on_cpu(1, tlbsync_job, NULL);
	EXPECT_CROWD("onono");
}

RULE(1949, "late: what is pending when 4,096 are is done without TLBSYNC", DOC, PCID | BROADCAST | LATE,
     "inbox-unbounded")
{
	crowd_usual();
	invlpgb(BY_ADDRESS | CROWD_PAGE, 0, 0);
	for (unsigned int i = 1; i < INBOX - 1; i++)
		invlpgb(BY_ADDRESS | window(0), 0, 0);
	EXPECT_CROWD("ooooo");
	for (unsigned int i = INBOX; i < MANY; i++)
		invlpgb(BY_ADDRESS | window(0), 0, 0);
	/* Who is asked for more than it can keep may drop everything. */
	EXPECT_CROWD("n-n--");
	tlbsync();
}

RULE(1950, "late: none of many requests is lost", DOC, PCID | BROADCAST | LATE, "inbox-forgets")
{
	crowd_usual();
	for (unsigned int i = 0; i < 3; i++) {
		invlpgb(BY_ADDRESS | CROWD_PAGE, 0, 0);
		for (unsigned int j = 0; j < MANY; j++)
			invlpgb(BY_ADDRESS | window(0), 0, 0);
		invlpgb(BY_ADDRESS | (CROWD_PAGE + PAGE_BYTES), 0, 0);
		tlbsync();
		EXPECT_CROWD("nnnn-");
		crowd_usual();
	}
}

/* The CPU that INIT comes to reads the page as soon as it is back. */
static void restart_fill(struct cpu *cpu)
{
	(void)cpu;
	cr4_write(CR4_PAE | CR4_PCIDE);
	crowd_fill_job(NULL);
}

RULE(1951, "late: INIT leaves nothing pending", DOC, PCID | BROADCAST | LATE | CPUS2, "inbox-survives-init")
{
	crowd_begin();
	crowd_add(CROWD_PAGE, 0, PCID_MINE);
	on_cpu(1, crowd_fill_job, NULL);
	invlpgb(BY_ADDRESS | CROWD_PAGE, 0, 0);
	CHECK(cpu_restart(1, restart_fill), "the CPU does not come back");
	cpus[1].on_start = NULL;
	/* It has settled since. */
	on_cpu(1, crowd_fill_job, NULL);
	crowd_repoint();
	tlbsync();
	EXPECT_OF(1, "o");
}

/* A CPU that sleeps with interrupts off, and counts how often it has woken up. */
static volatile uint64_t woken, asleep;

static void sleep_job(void *argument)
{
	(void)argument;
	crowd_fill_job(NULL);
	asleep = 1;
	asm volatile("cli; hlt" : : : "memory");
	woken++;
	crowd_look_job(NULL);
}

/* Until the CPU sleeps indeed. */
static void wait_us(uint64_t us)
{
	for (uint64_t begin = now_us(); now_us() - begin < us;)
		pause();
}

static void sleeper_begin(void)
{
	crowd_begin();
	crowd_add(CROWD_PAGE, 0, PCID_MINE);
	woken = asleep = 0;
	on_cpu_begin(1, sleep_job, NULL);
	while (!asleep)
		pause();
	wait_us(2000);
	crowd_repoint();
}

static void sleeper_end(void)
{
	cpu_kick(1, ICR_NMI);
	on_cpu_end(1);
}

RULE(1952, "INVLPGB works on a CPU that sleeps", DOC, PCID | BROADCAST | CPUS2, "invlpgb-skips-halted")
{
	sleeper_begin();
	broadcast(BY_ADDRESS | CROWD_PAGE, 0, 0);
	sleeper_end();
	crowd_compare(1, "n", __LINE__);
}

RULE(1953, "INVLPGB and TLBSYNC wake nobody up", DOC, PCID | BROADCAST | CPUS2, "invlpgb-wakes-halted")
{
	uint64_t count;

	sleeper_begin();
	for (unsigned int i = 0; i < 20; i++) {
		broadcast(BY_ADDRESS | CROWD_PAGE, 0, 0);
		pause();
	}
	wait_us(2000);
	count = woken;
	sleeper_end();
	CHECK(!count, "it woke up");
	CHECK(woken == 1, "it woke up %lu times", woken);
}

/* A CPU whose every register and flag would tell of an interrupt. */
static struct {
	volatile uint64_t leave, running, carry_lost, cr2;
} victim;

static void victim_job(void *argument)
{
	uint64_t lost;

	(void)argument;
	crowd_fill_job(NULL);
	asm volatile("mov %0, %%cr2" : : "r"(0x1234000ul) : "memory");
	victim.running = 1;
	asm volatile("stc\n"
		     "1:	jnc 2f\n"
		     "	mov (%1), %%rcx\n"
		     "	jrcxz 1b\n"
		     "2:	sbb %0, %0"
		     : "=r"(lost) : "r"(&victim.leave) : "rcx", "cc", "memory");
	victim.carry_lost = ~lost;
	victim.cr2 = cr2_read();
	victim.running = 0;
}

static void victim_begin(void)
{
	crowd_begin();
	crowd_add(CROWD_PAGE, 0, PCID_MINE);
	victim.leave = victim.running = 0;
	on_cpu_begin(1, victim_job, NULL);
	while (!victim.running)
		pause();
	for (unsigned int i = 0; i < 20; i++) {
		broadcast(BY_ADDRESS | CROWD_PAGE, 0, 0);
		pause();
	}
}

static void victim_end(void)
{
	victim.leave = 1;
	on_cpu_end(1);
}

RULE(1954, "the other CPUs see no interrupt, and no change of a flag", DOC, PCID | BROADCAST | CPUS2,
     "invlpgb-interrupts")
{
	uint64_t nmis = cpus[1].nmis;

	victim_begin();
	victim_end();
	CHECK(cpus[1].nmis == nmis, "it was interrupted");
	CHECK(!victim.carry_lost, "a flag has changed");
}

RULE(1955, "the other CPUs see no change of CR2", DOC, PCID | BROADCAST | CPUS2, "invlpgb-sets-cr2")
{
	victim_begin();
	victim_end();
	CHECK(victim.cr2 == 0x1234000, "CR2 is %lx", victim.cr2);
}

/* All CPUs at once: each has a page of its own, that all use. */
#define ROUNDS 200

static struct {
	uint64_t root;
	struct page pages[CPUS_MAX];
	volatile uint64_t wrong, done;
} storm;

static void storm_job(void *argument)
{
	unsigned int id = this_cpu()->id;
	struct page *mine = &storm.pages[id];

	(void)argument;
	pcid_switch(true);
	load_flush(storm.root, id + 1);
	for (unsigned int round = 0; round < ROUNDS; round++) {
		for (unsigned int other = 0; other < cpu_count; other++)
			load(storm.pages[other].address);
		/* The others' turn. */
		pause();
		if (round % 2)
			page_repoint(mine);
		else
			page_restore(mine);
		broadcast(BY_ADDRESS | mine->address, 0, 0);
		storm.wrong += load(mine->address) != (round % 2 ? NEW : OLD);
	}
	__atomic_fetch_add(&storm.done, 1, __ATOMIC_SEQ_CST);
	while (storm.done < cpu_count)
		pause();
	/* All have come to an end with NEW. */
	for (unsigned int other = 0; other < cpu_count; other++)
		storm.wrong += load(storm.pages[other].address) != NEW;
}

RULE(1956, "all CPUs may broadcast at once: none waits for ever, and no page is left", DOC, PCID | BROADCAST | CPUS2,
     "invlpgb-skips-others")
{
	storm.root = space();
	storm.wrong = storm.done = 0;
	for (unsigned int id = 0; id < cpu_count; id++)
		storm.pages[id] = page_make(storm.root, CROWD_PAGE + id * PAGE_BYTES, PAGE_FLAGS);
	on_all(storm_job, NULL);
	CHECK(!storm.wrong, "%lu reads saw another frame", storm.wrong);
}
