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

const char * const abis_refusal_names[ABIS_REFUSALS] = {
	[ABIS_REFUSED_MM]	= "mm",
	[ABIS_REFUSED_PAGE]	= "page",
	[ABIS_REFUSED_CPU]	= "cpu",
	[ABIS_REFUSED_MANY]	= "many",
	[ABIS_REFUSED_HELD]	= "held",
	[ABIS_REFUSED_MEMORY]	= "memory",
	[ABIS_REFUSED_FAULT]	= "fault",
};

static const char * const lag_names[ABIS_LAGS] = {
	[ABIS_LAG_SWITCH]	= "switch",
	[ABIS_LAG_LAZY]		= "lazy",
	[ABIS_LAG_IPI]		= "ipi",
};

static const char * const target_names[ABIS_ALL + 1] = {
	[ABIS_NONE]		= "none",
	[ABIS_CPU]		= "one",
	[ABIS_SET]		= "set",
	[ABIS_ALL]		= "all",
};

#define SUM(field)	SUM_OF(per_cpu(abis_stat, cpu_).field)

#ifdef CONFIG_ABIS_FULL
#define UNPAID	SUM_OF(per_cpu(abis_unpaid, cpu_))
#else
#define UNPAID	0ull
#endif

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
	seq_printf(file, "nested_proven %llu\n", SUM(nested_proven));
	seq_printf(file, "nested_flushed %llu\n", SUM(nested_flushed));
	seq_printf(file, "narrowed %llu\n", SUM(narrowed));
	seq_printf(file, "narrow_local %llu\n", SUM(narrow_local));
	seq_printf(file, "narrow_ipis %llu\n", SUM(narrow_ipis));
	seq_printf(file, "narrow_ranged %llu\n", SUM(narrow_ranged));
	seq_printf(file, "narrow_deferred %llu\n", SUM(narrow_deferred));
	seq_printf(file, "narrow_paid %llu\n", SUM(narrow_paid));
	for (i = 0; i < ABIS_LAGS; i++)
		seq_printf(file, "replays_%s %llu\n", lag_names[i], SUM(replays[i]));
	seq_printf(file, "replayed %llu\n", SUM(replayed));
	seq_printf(file, "insert_requests %llu\n", SUM(insert_requests));
	seq_printf(file, "inserted %llu\n", SUM(inserted));
	seq_printf(file, "insert_switches %llu\n", SUM(insert_switches));
	seq_printf(file, "hidden %llu\n", SUM(hidden));
	seq_printf(file, "hidden_faults %llu\n", SUM(hidden_faults));
	seq_printf(file, "hidden_again %llu\n", SUM(hidden_again));
	seq_printf(file, "hidden_taken %llu\n", SUM(hidden_taken));
	seq_printf(file, "hidden_kept %llu\n", SUM(hidden_kept));
	seq_printf(file, "hidden_revealed %llu\n", SUM(hidden_revealed));
	seq_printf(file, "reused %llu\n", SUM(reused));
	seq_printf(file, "protect_kept %llu\n", SUM(protect_kept));
	for (i = 0; i < ABIS_REFUSALS; i++)
		seq_printf(file, "insert_refused_%s %llu\n", abis_refusal_names[i],
			   SUM(insert_refused[i]));
	seq_printf(file, "insert_unpaid %llu\n", UNPAID);
	seq_printf(file, "adapt_saved %llu\n", SUM(adapt_saved));
	seq_printf(file, "adapt_trials %llu\n", SUM(adapt_trials));
	seq_printf(file, "insert_bytes %ld\n", abis_insert_bytes());
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
