// SPDX-License-Identifier: GPL-2.0-only
/* /sys/kernel/debug/abis/counters: "name value" lines, summed over CPUs. */

#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "abis.h"

DEFINE_PER_CPU(struct abis_stat, abis_stat);
DEFINE_PER_CPU(u64[ABIS_SITES], abis_accessed);

const char * const abis_site_names[ABIS_SITES] = {
	[ABIS_ZAP]		= "zap",
	[ABIS_RECLAIM]		= "reclaim",
	[ABIS_MIGRATE]		= "migrate",
	[ABIS_PROTECT]		= "protect",
	[ABIS_REMAP]		= "remap",
	[ABIS_CLEAR_FLUSH]	= "clear_flush",
};

const char * const abis_reason_names[ABIS_REASONS] = {
	[ABIS_IDLE]		= "idle",
	[ABIS_UNCACHED]		= "uncached",
	[ABIS_PRIVATE]		= "private",
	[ABIS_RECENT]		= "recent",
	[ABIS_ACCESSED]		= "accessed",
	[ABIS_NEVER]		= "never",
};

static const char * const target_names[ABIS_ALL + 1] = {
	[ABIS_NONE]		= "none",
	[ABIS_CPU]		= "one",
	[ABIS_SET]		= "set",
	[ABIS_ALL]		= "all",
};

#define SUM_OF(variable) ({					\
	u64 sum_ = 0;						\
	int cpu_;						\
								\
	for_each_possible_cpu(cpu_)				\
		sum_ += READ_ONCE(variable);			\
	sum_;							\
})
#define SUM(field)	SUM_OF(per_cpu(abis_stat, cpu_).field)

static u64 pages(int site, int reason)
{
	u64 sum = SUM(pages[site][reason]);

	if (reason == ABIS_ACCESSED)
		sum += SUM_OF(per_cpu(abis_accessed, cpu_)[site]);
	return sum;
}

static int counters_show(struct seq_file *file, void *unused)
{
	long tables = atomic_long_read(&abis_tables);
	int site, i;

	for (site = 0; site < ABIS_SITES; site++) {
		for (i = 0; i < ABIS_REASONS; i++)
			seq_printf(file, "%s_%s %llu\n", abis_site_names[site],
				   abis_reason_names[i], pages(site, i));
		for (i = 0; i <= ABIS_ALL; i++)
			seq_printf(file, "%s_%s %llu\n", abis_site_names[site],
				   target_names[i], SUM(requests[site][i]));
	}
	seq_printf(file, "rounds %llu\n", SUM(rounds));
	seq_printf(file, "rounds_forced %llu\n", SUM(rounds_forced));
	seq_printf(file, "spte_failed %llu\n", SUM(spte_failed));
	seq_printf(file, "spte_tables %ld\n", tables);
	seq_printf(file, "spte_bytes %ld\n", tables * (long)(PTRS_PER_PTE * sizeof(spte_t)));
	abis_debug_show(file);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counters);

int __init abis_stat_init(void)
{
	struct dentry *dir = debugfs_create_dir("abis", NULL);

	debugfs_create_file("counters", 0444, dir, NULL, &counters_fops);
	abis_debug_init(dir);
	return 0;
}
