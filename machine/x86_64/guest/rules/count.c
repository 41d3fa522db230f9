// SPDX-License-Identifier: GPL-2.0-only
/* The kernel's instructions: each is counted once, and where it belongs. This guest is all kernel. */
#include "guest.h"
#include "rules.h"

#define DOC "machine-oracle.md Instructions"
#define LEAF 0x40000102u

enum { KERNEL, SPUN, HANDLERS, TIMER, COUNTERS };

struct counts {
	uint64_t at[COUNTERS];
};

/* Of all vCPUs, or of the one with this APIC ID. */
static uint64_t count(unsigned int index, uint32_t cpu)
{
	struct cpuid id = cpuid(LEAF, cpu << 8 | index);

	return (uint64_t)id.d << 32 | id.a;
}

static struct counts counts_now(void)
{
	struct counts now;

	for (unsigned int i = 0; i < COUNTERS; i++)
		now.at[i] = count(i, this_cpu()->id + 1);
	return now;
}

/* What that many turns count more than one, so that nothing else is in it. */
static struct counts measure(void (*loop)(uint64_t turns), uint64_t turns)
{
	struct counts one, all, before;

	before = counts_now();
	loop(1);
	one = counts_now();
	loop(turns + 1);
	all = counts_now();
	for (unsigned int i = 0; i < COUNTERS; i++)
		all.at[i] = all.at[i] - one.at[i] - (one.at[i] - before.at[i]);
	return all;
}

static void work(uint64_t turns)
{
	asm volatile("1: nop; dec %0; jnz 1b" : "+r"(turns));
}

static void wait(uint64_t turns)
{
	asm volatile("1: pause; nop; dec %0; jnz 1b" : "+r"(turns));
}

static void wait_and_work(uint64_t turns)
{
	asm volatile("1: pause; .rept 62; nop; .endr; dec %0; jnz 1b" : "+r"(turns));
}

static void expect_only(struct counts counts, unsigned int index, uint64_t value)
{
	for (unsigned int i = 0; i < COUNTERS; i++)
		CHECK(counts.at[i] == (i == index ? value : 0), "counter %u moved by %lu", i, counts.at[i]);
}

RULE(1601, "there are four counters, and each instruction counts once", DOC, COUNT, "tlb-count=off")
{
	CHECK(cpuid(0x40000100, 0).a == LEAF && cpuid(LEAF, 0).b == COUNTERS, "they are not announced");
	expect_only(measure(work, 1000), KERNEL, 3000);
}

RULE(1602, "a loop around a PAUSE that has up to 64 instructions waits, and a longer one works", DOC, COUNT,
     "tlb-count=off")
{
	expect_only(measure(wait, 1000), SPUN, 4000);
	expect_only(measure(wait_and_work, 1000), KERNEL, 65000);
}

static void work_job(void *argument)
{
	(void)argument;
	work(5000);
}

RULE(1603, "counters are a vCPU's own, and for all vCPUs their sum is given", DOC, COUNT | CPUS2, "tlb-count=off")
{
	uint64_t other = count(KERNEL, 2), all = count(KERNEL, 0);

	on_cpu(1, work_job, NULL);
	other = count(KERNEL, 2) - other;
	all = count(KERNEL, 0) - all;
	CHECK(other >= 15000, "vCPU 1 counted %lu of 15000", other);
	CHECK(all >= other, "all have %lu, and vCPU 1 alone %lu", all, other);
}
