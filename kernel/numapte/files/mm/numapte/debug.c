// SPDX-License-Identifier: GPL-2.0-only
/* Everything compared on demand, deliberate breaks, and memory that there is not. */

#define pr_fmt(fmt) "numapte: " fmt

#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/random.h>
#include <linux/seq_file.h>
#include <linux/string.h>

#include "numapte.h"

static const struct {
	const char *name;
	const char *what;
} mutants[MUTANTS] = {
	[MUTANT_NONE] = { "none", "nothing is broken" },
	[MUTANT_FULL_CANONICAL] = { "full-canonical", "entries are taken out of one table alone" },
	[MUTANT_WRPROTECT_UNFOLDED] = { "wrprotect-unfolded", "a replica's dirty bit is lost" },
	[MUTANT_FOLD_WHOLE] = { "fold-whole", "a replica's whole entry is added" },
	[MUTANT_STALE_COPY] = { "stale-copy", "what is copied was read before the lock was taken" },
	[MUTANT_GATE_PRESENT] = { "gate-present", "entries that hardware cannot use are copied" },
	[MUTANT_FOLD_EARLY] = { "fold-early", "what is reclaimed is looked at before the flush" },
	[MUTANT_FREE_EARLY] = { "free-early", "a replica is freed before the flush" },
	[MUTANT_ENABLE_NOT_LAZY] = { "enable-silent", "no CPU is told that there are trees" },
	[MUTANT_CLEAR_CANONICAL] = { "clear-canonical", "entries are cleared in one table alone" },
	[MUTANT_DEPOSIT_KEPT] = { "deposit-kept", "a table that is put aside keeps its replicas" },
	[MUTANT_STORE_CANONICAL] = { "store-canonical", "stores go to the canonical table alone" },
	[MUTANT_YOUNG_CANONICAL] = { "young-canonical", "use is looked up in one table alone" },
	[MUTANT_FORK_PLAIN] = { "fork-plain", "fork() copies what the canonical entry says" },
	[MUTANT_TWO_GIVERS] = { "two-givers", "several scans take replicas back at once" },
	[MUTANT_RAISE_NONE] = { "raise-none", "a filtered flush raises no generation" },
	[MUTANT_LAST_HOLD] = { "last-hold", "a gather flushes for the table that was locked last" },
	[MUTANT_SHARER_PLACE] = { "sharer-place", "a table is used by the node that it lies on" },
	[MUTANT_NESTED_FILTERED] = { "nested-filtered", "nested gathers flush for some nodes" },
	[MUTANT_ROUND_FILTERED] = { "round-filtered", "a flush for some nodes is a round" },
	[MUTANT_COPY_OVER] = { "copy-over", "a fill stores over what is there" },
};

enum numapte_mutant numapte_mutant_chosen;

static int __init mutant_setup(char *arg)
{
	int i;

	for (i = 0; i < MUTANTS; i++) {
		if (strcmp(arg ?: "", mutants[i].name))
			continue;
		numapte_mutant_chosen = i;
		if (i)
			pr_warn("broken on purpose: %s (%s)\n", mutants[i].name, mutants[i].what);
		return 0;
	}
	pr_err("numapte_mutant=%s is no break that this kernel knows\n", arg ?: "");
	return -EINVAL;
}
early_param("numapte_mutant", mutant_setup);

bool __numapte_nested_filtered(void)
{
	return numapte_mutant(MUTANT_NESTED_FILTERED);
}

bool __numapte_round_filtered(void)
{
	return numapte_mutant(MUTANT_ROUND_FILTERED);
}

/* numapte_fail=N: of N allocations that somebody can do without, one fails. */
static unsigned int fail_one_in;

bool numapte_denied(gfp_t gfp)
{
	return fail_one_in && !(gfp & __GFP_NOFAIL) && !get_random_u32_below(fail_one_in);
}

static int __init fail_setup(char *arg)
{
	return kstrtouint(arg ?: "", 0, &fail_one_in);
}
early_param("numapte_fail", fail_setup);

static int audit_show(struct seq_file *file, void *unused)
{
	numapte_audit_show(file);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(audit);

void __init numapte_debug_init(struct dentry *dir)
{
	debugfs_create_file("audit", 0400, dir, NULL, &audit_fops);
	numapte_audit_root_init();
	numapte_audit_filter_init();
}
