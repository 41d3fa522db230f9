// SPDX-License-Identifier: GPL-2.0-only
/*
 * The trace: for each page that was inserted, and walked for all the same, what
 * became of the entry of the CPU that inserted it, whether that CPU takes the page
 * away, and who holds it in the end. Read-only to everything else.
 */

#include <linux/mm.h>
#include <linux/seq_file.h>

#include <asm/tlbflush.h>

#include "debug.h"

#define LOSSES_KEPT	16
/* A power of two. */
#define RANGES_KEPT	64

static const char * const loss_names[ABIS_LOSSES] = {
	[ABIS_LOST_NOTHING]	= "kept",
	[ABIS_LOST_LAG_SWITCH]	= "lag_switch",
	[ABIS_LOST_LAG_LAZY]	= "lag_lazy",
	[ABIS_LOST_LAG_IPI]	= "lag_ipi",
	[ABIS_LOST_ASKED]	= "asked",
	[ABIS_LOST_OWED]	= "owed",
	[ABIS_LOST_ASID]	= "asid",
	[ABIS_LOST_REPLAY]	= "replay",
};

enum { HELD_BY_NONE, HELD_BY_INSERTER, HELD_BY_OTHERS, HELD_BY_BOTH, HOLDERS };

static const char * const holder_names[HOLDERS] = {
	[HELD_BY_NONE]		= "none",
	[HELD_BY_INSERTER]	= "inserter",
	[HELD_BY_OTHERS]	= "others",
	[HELD_BY_BOTH]		= "both",
};

struct losses {
	u32 count;
	u8 why[LOSSES_KEPT];
	/* What was flushed to catch up, instead of everything, and the count of losses then. */
	u16 replays;
	struct {
		u64 range;
		u32 losses;
	} replayed[RANGES_KEPT];
};

struct classes {
	u64 walked[ABIS_LOSSES][2][HOLDERS];
	/* Of these only one, or not all, need have been walked for. */
	u64 in_folio;
	u64 not_inserted;
	u64 lost[ABIS_LOSSES];
};

static DEFINE_PER_CPU(struct losses[TLB_NR_DYN_ASIDS], losses);
static DEFINE_PER_CPU(struct classes, classes);

/* Interrupts off. This CPU is about to flush all that this ASID holds. */
void abis_debug_lost(u16 asid, enum abis_loss why)
{
	struct losses *lost = this_cpu_ptr(losses) + asid;

	lost->why[lost->count % LOSSES_KEPT] = why;
	WRITE_ONCE(lost->count, lost->count + 1);
	this_cpu_inc(classes.lost[why]);
}

/* Interrupts off. This CPU is about to flush these @ranges of pages of @mm to catch up. */
void abis_debug_replayed(struct mm_struct *mm, const u64 *ranges, unsigned int count)
{
	struct losses *lost;
	unsigned int i;
	u16 asid = 0;

	while (this_cpu_read(cpu_tlbstate.ctxs[asid].ctx_id) != mm->context.ctx_id) {
		if (++asid == TLB_NR_DYN_ASIDS)
			return;
	}
	lost = this_cpu_ptr(losses) + asid;
	for (i = 0; i < count; i++) {
		lost->replayed[lost->replays % RANGES_KEPT].range = ranges[i];
		lost->replayed[lost->replays % RANGES_KEPT].losses = lost->count;
		WRITE_ONCE(lost->replays, lost->replays + 1);
	}
	if (count)
		this_cpu_inc(classes.lost[ABIS_LOST_REPLAY]);
}

/* The slot's table is its own, not that of all new ones. */
static struct abis_record *record_of(pte_t *ptep)
{
	void *table = abis_sptes_of(virt_to_ptdesc(ptep));
	struct abis_record *records = table + PTRS_PER_PTE * sizeof(spte_t);

	return records + offset_in_page(ptep) / sizeof(*ptep);
}

void abis_debug_record(pte_t *ptep)
{
	u16 asid = this_cpu_read(cpu_tlbstate.loaded_mm_asid);

	*record_of(ptep) = (struct abis_record) {
		.losses = this_cpu_read(losses[asid].count),
		.replays = this_cpu_read(losses[asid].replays),
		.cpu = smp_processor_id() + 1,
		.asid = asid,
	};
}

/* Has it caught up by flushing this page, and lost nothing before? As far as is remembered. */
static bool is_replayed(const struct losses *lost, const struct abis_record *record,
			unsigned long addr)
{
	u16 at = READ_ONCE(lost->replays), count = at - record->replays;

	for (count = min_t(u16, count, RANGES_KEPT); count; count--) {
		at--;
		if (lost->replayed[at % RANGES_KEPT].losses == record->losses &&
		    abis_range_has(lost->replayed[at % RANGES_KEPT].range, addr))
			return true;
	}
	return false;
}

/* How the CPU that inserted it lost it first. */
static enum abis_loss loss_of(const struct abis_record *record, unsigned long addr)
{
	const struct losses *lost = per_cpu(losses, record->cpu - 1) + record->asid;
	u32 count = READ_ONCE(lost->count);

	if (is_replayed(lost, record, addr))
		return ABIS_LOST_REPLAY;
	if (count == record->losses)
		return ABIS_LOST_NOTHING;
	/* Overwritten meanwhile: the oldest that is left. */
	if (count - record->losses > LOSSES_KEPT)
		return lost->why[count % LOSSES_KEPT];
	return lost->why[record->losses % LOSSES_KEPT];
}

static unsigned int holders_of(struct mm_struct *mm, unsigned long addr, int inserter)
{
	struct oracle *oracle = oracle_here();
	unsigned int i, count = abis_oracle_holders(oracle, mm, addr), held = HELD_BY_NONE;

	for (i = 0; i < count; i++)
		held |= oracle_cpu(oracle->holders[i].apic_id) == inserter ?
			HELD_BY_INSERTER : HELD_BY_OTHERS;
	return held;
}

/* One of @nr pages taken away at once. PTE lock held. */
void abis_debug_class(struct mm_struct *mm, unsigned long addr, pte_t *ptep,
		      enum abis_site site, struct abis_verdict verdict, unsigned int nr)
{
	struct abis_record record = {};
	unsigned int held;
	unsigned long flags;

	if (!oracle_msr)
		return;
	if (abis_table_is_own(ptep)) {
		record = *record_of(ptep);
		*record_of(ptep) = (struct abis_record) {};
	}
	if (verdict.reason != ABIS_ACCESSED || !abis_oracle_remote_target(mm))
		return;
	if (nr > 1)
		this_cpu_inc(classes.in_folio);
	if (!record.cpu) {
		this_cpu_inc(classes.not_inserted);
		return;
	}
	local_irq_save(flags);
	held = holders_of(mm, addr, record.cpu - 1);
	this_cpu_inc(classes.walked[loss_of(&record, addr)]
			    [record.cpu - 1 == smp_processor_id()][held]);
	local_irq_restore(flags);
}

#define SUM(field)	SUM_OF(per_cpu(classes, cpu_).field)

void abis_debug_show_classes(struct seq_file *file)
{
	int loss, here, held;

	for (loss = 0; loss < ABIS_LOSSES; loss++) {
		for (here = 0; here < 2; here++) {
			for (held = 0; held < HOLDERS; held++)
				seq_printf(file, "walked_%s_%s_%s %llu\n",
					   loss_names[loss], here ? "here" : "away",
					   holder_names[held],
					   SUM(walked[loss][here][held]));
		}
		seq_printf(file, "lost_%s %llu\n", loss_names[loss], SUM(lost[loss]));
	}
	seq_printf(file, "walked_in_folio %llu\n", SUM(in_folio));
	seq_printf(file, "walked_not_inserted %llu\n", SUM(not_inserted));
}
