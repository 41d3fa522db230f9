/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of the debug kernel share. */
#ifndef _MM_ABIS_DEBUG_H
#define _MM_ABIS_DEBUG_H

#include "../abis.h"
#include "../../ceasefire/oracle.h"

struct abis_checks {
	u64 checked[ABIS_SITES][ABIS_REASONS];
	u64 sampled[ABIS_SITES];
	u64 sampled_held[ABIS_SITES];
	u64 unelided[ABIS_SITES];
	u64 flushed;
	u64 narrowed;
	u64 inserted;
	u64 inserted_held;
	u64 secondaries;
	u64 tables;
};

DECLARE_PER_CPU(struct abis_checks, abis_checks);

/* Entries of any CPU for the page at @addr. */
static inline unsigned int abis_oracle_holders(struct oracle *oracle, struct mm_struct *mm,
					       unsigned long addr)
{
	return oracle_ask(oracle, mm, addr, 1, MACHINE_FLAG_TLB, MACHINE_ALL_CPUS);
}

/* No address of a user. */
#define ABIS_EVERYTHING	(~0ul)
bool abis_oracle_must_flush(const struct machine_holder *holder, struct mm_struct *mm,
			    unsigned long addr);
const struct machine_holder *abis_oracle_find(struct oracle *oracle, struct mm_struct *mm,
					      unsigned long addr, int but, bool small_only);
bool abis_oracle_remote_target(struct mm_struct *mm);

void abis_debug_held(const char *what, const struct machine_holder *holder,
		     struct mm_struct *mm);
void abis_debug_show_classes(struct seq_file *file);
void abis_debug_mutants_init(struct dentry *dir);

#endif /* _MM_ABIS_DEBUG_H */
