// SPDX-License-Identifier: GPL-2.0-only
/* The statistics of an emulated machine's TLBs. */

#include <linux/array_size.h>
#include <linux/cleanup.h>
#include <linux/init.h>
#include <linux/lockdep.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>

#include <asm/page.h>

#include "machine.h"

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
	"reads_local_1",
	"reads_local_2",
	"reads_local_3",
	"reads_local_4",
	"reads_local_5",
	"reads_remote_1",
	"reads_remote_2",
	"reads_remote_3",
	"reads_remote_4",
	"reads_remote_5",
	"speculative_reads_local_1",
	"speculative_reads_local_2",
	"speculative_reads_local_3",
	"speculative_reads_local_4",
	"speculative_reads_local_5",
	"speculative_reads_remote_1",
	"speculative_reads_remote_2",
	"speculative_reads_remote_3",
	"speculative_reads_remote_4",
	"speculative_reads_remote_5",
	"lower_reads_local_1",
	"lower_reads_remote_1",
	"invlpgb",
	"invlpgb_all",
	"tlbsync",
	"broadcast_targets",
	"broadcast_hits",
	"user_interrupts",
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
	if (machine_ask(machine_msr, __pa_symbol(&request)))
		return 0;
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
	machine_msr = machine_find(NULL);
	return 0;
}
late_initcall(machine_init);
