// SPDX-License-Identifier: GPL-2.0-only
/*
 * The statistics of an emulated machine's TLBs. The machine announces itself
 * by a CPUID leaf and answers one MSR, which is given the physical address of
 * a request; the answer is in memory when the WRMSR is done.
 */

#include <linux/array_size.h>
#include <linux/cleanup.h>
#include <linux/init.h>
#include <linux/lockdep.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>

#include <asm/cpufeature.h>
#include <asm/msr.h>
#include <asm/page.h>
#include <asm/processor.h>

#include "machine.h"

#define MACHINE_LEAF		0x40000100	/* EAX: the last leaf; then a name */
#define MACHINE_NAME_EBX	0x54424c54	/* "TLBT" */
#define MACHINE_NAME_ECX	0x4c54424c	/* "LBTL" */
#define MACHINE_NAME_EDX	0x424c5442	/* "BTLB" */
#define MACHINE_ALL_CPUS	0xffffffff
#define MACHINE_OP_STATS	2
#define MACHINE_ANSWERED	0

/* To be aligned to its size, as the machine asks. */
struct machine_request {
	u32 op;
	u32 status;
	u32 flags;
	u32 apic_id;
	u64 linear;
	u64 pages;
	u64 root[4];
	u64 buffer;	/* physical */
	u32 capacity;	/* u64s that fit into the buffer */
	u32 count;	/* u64s that the machine has */
	u64 reserved[2];
	u64 holders[4];
} __aligned(128);

static_assert(sizeof(struct machine_request) == 128);

/* In the machine's order, which only grows at its end. */
static const char * const stat_names[] = {
	"walks",
	"walk_loads",
	"fills",
	"hits",
	"evictions",
	"structure_hits",
	"speculative_walks",
	"speculative_fills",
	"page_faults",
	"assists_accessed",
	"assists_dirty",
	"cr3_flush",
	"cr3_noflush",
	"invlpg",
	"invpcid_address",
	"invpcid_context",
	"invpcid_all_global",
	"invpcid_all",
	"flush_all",
	"contexts_dropped",
	"ipi_targets",
	"ipis_sent",
	"inserts",
	"insert_ops",
};

static u32 machine_msr __ro_after_init;

/* Both are given to the machine by their physical addresses; one question at a time. */
static DEFINE_MUTEX(machine_lock);
static struct machine_request request;
static u64 stats[ARRAY_SIZE(stat_names)];

/* Sums over all CPUs. Return: how many of @stats are valid. */
static unsigned int machine_stats(void)
{
	lockdep_assert_held(&machine_lock);

	request = (struct machine_request) {
		.op = MACHINE_OP_STATS,
		.apic_id = MACHINE_ALL_CPUS,
		.buffer = __pa_symbol(stats),
		.capacity = ARRAY_SIZE(stats),
	};
	if (wrmsrl_safe(machine_msr, __pa_symbol(&request)))
		return 0;
	/* The WRMSR has written to memory that the compiler does not know of. */
	barrier();
	if (request.status != MACHINE_ANSWERED)
		return 0;
	return min_t(u32, request.count, ARRAY_SIZE(stats));
}

void machine_show(struct seq_file *seq)
{
	unsigned int i, count;

	if (!machine_msr)
		return;
	guard(mutex)(&machine_lock);
	count = machine_stats();
	for (i = 0; i < count; i++)
		seq_printf(seq, "%s %llu\n", stat_names[i], stats[i]);
}

static int __init machine_init(void)
{
	u32 eax, ebx, ecx, edx;

	if (!boot_cpu_has(X86_FEATURE_HYPERVISOR))
		return 0;
	cpuid(MACHINE_LEAF, &eax, &ebx, &ecx, &edx);
	if (eax <= MACHINE_LEAF || ebx != MACHINE_NAME_EBX ||
	    ecx != MACHINE_NAME_ECX || edx != MACHINE_NAME_EDX)
		return 0;
	cpuid(MACHINE_LEAF + 1, &eax, &ebx, &ecx, &edx);
	if (eax)
		machine_msr = ebx;
	return 0;
}
late_initcall(machine_init);
