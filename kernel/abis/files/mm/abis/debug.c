// SPDX-License-Identifier: GPL-2.0-only
/*
 * The debug kernel asks the emulated machine's TLB oracle at every flush that is
 * left out, under the PTE lock, before anything is stored in the PTE's place: no
 * CPU may hold the entry, or no other than the one that is to flush alone; and once
 * that one has flushed, none. After an insertion only this CPU may hold the page,
 * and nothing may lead into the secondary hierarchy. After the flush for page tables
 * that were freed or moved nothing may lead into these. One in SAMPLE_EVERY flushes
 * that are not left out is asked, too: a site that never finds a holder is asked in
 * the wrong way.
 *
 * A CPU may hold the entry if it must flush fully before it uses the address
 * space again: its context lags behind tlb_gen, or it owes a flush (narrow.c), and
 * it is not running in it. A CPU that is about to load CR3 in the kernel looks as
 * if it did not have to: wait for it. One that runs user code with the entry at
 * hand does not.
 */

#define pr_fmt(fmt) "abis: " fmt

#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/seq_file.h>
#include <linux/string.h>

#include <asm/apic.h>
#include <asm/cpufeature.h>
#include <asm/msr.h>
#include <asm/tlbflush.h>

#include "../internal.h"
#include "abis.h"

#define ORACLE_LEAF		0x40000100	/* EAX: the last leaf; then a name */
#define ORACLE_NAME_EBX		0x54424c54	/* "TLBT" */
#define ORACLE_NAME_ECX		0x4c54424c	/* "LBTL" */
#define ORACLE_NAME_EDX		0x424c5442	/* "BTLB" */
#define ORACLE_ALL_CPUS		0xffffffff
#define ORACLE_OP_QUERY		1
#define ORACLE_FLAG_TLB		1
#define ORACLE_FLAG_STRUCTURES	2

#define ORACLE_KIND_PDE		2
#define ORACLE_HOLDER_USER	BIT(0)	/* it runs user code in the entry's context */

#define HOLDERS_MAX		256
#define SAMPLE_EVERY		4
#define RETRIES			10000
/* Page tables of one gather that are looked at, and where. */
#define TABLES_MAX		8
#define TABLES_SPAN		(64 * PMD_SIZE)

/* To be aligned to its size, as the machine asks. */
struct oracle_request {
	u32 op;
	u32 status;
	u32 flags;
	u32 apic_id;
	u64 linear;
	u64 pages;
	u64 root[4];
	u64 buffer;	/* physical */
	u32 capacity;
	u32 count;
	u64 reserved[2];
	u64 holders[4];
} __aligned(128);

struct oracle_holder {
	u32 apic_id;
	u16 pcid;
	u8 kind;
	u8 size;
	u32 rights;
	u32 state;
	u64 linear;
	u64 physical;
	u64 root;
	u64 reserved2;
};

static_assert(sizeof(struct oracle_request) == 128);
static_assert(sizeof(struct oracle_holder) == 48);

struct oracle {
	struct oracle_request request;
	struct oracle_holder holders[HOLDERS_MAX];
};

struct abis_checks {
	u64 checked[ABIS_SITES][ABIS_REASONS];
	u64 sampled[ABIS_SITES];
	u64 sampled_held[ABIS_SITES];
	u64 unelided[ABIS_SITES];
	u64 narrowed;
	u64 inserted;
	u64 inserted_held;
	u64 secondaries;
	u64 tables;
};

static struct oracle *oracles;		/* one for each CPU */
static u32 oracle_msr;
static DEFINE_PER_CPU(struct abis_checks, checks);
static atomic_long_t violations;

enum abis_mutant abis_mutant_chosen;

static const char * const mutant_names[ABIS_MUTANTS] = {
	[ABIS_MUTANT_NONE]		= "none",
	[ABIS_MUTANT_GAP_NONE]		= "gap-none",
	[ABIS_MUTANT_IN_FLIGHT_IGNORED]	= "in-flight-ignored",
	[ABIS_MUTANT_NAIVE_CREDIT]	= "naive-credit",
	[ABIS_MUTANT_EARLY_CREDIT]	= "early-credit",
	[ABIS_MUTANT_PARTIAL_ROUND]	= "partial-round",
	[ABIS_MUTANT_NEVER_IS_ZERO]	= "never-is-zero",
	[ABIS_MUTANT_EPOCH_IGNORED]	= "epoch-ignored",
	[ABIS_MUTANT_ACCESSED_IGNORED]	= "accessed-ignored",
	[ABIS_MUTANT_CLEAR_UNSTAMPED]	= "clear-unstamped",
	[ABIS_MUTANT_UNCACHED_UNFLUSHED] = "uncached-unflushed",
	[ABIS_MUTANT_SOFTWARE_BIT]	= "software-bit",
	[ABIS_MUTANT_NESTED_UNPROVEN]	= "nested-unproven",
	[ABIS_MUTANT_NESTED_UNACCOUNTED] = "nested-unaccounted",
	[ABIS_MUTANT_NESTED_EARLY]	= "nested-early",
	[ABIS_MUTANT_PRIVATE_SURVIVES]	= "private-survives-young",
	[ABIS_MUTANT_OWED_ON_SWITCH]	= "owed-ignored-on-switch",
	[ABIS_MUTANT_OWED_ON_LAZY]	= "owed-ignored-on-lazy",
	[ABIS_MUTANT_OWED_ONE_LOOK]	= "owed-one-look",
	[ABIS_MUTANT_OWED_DROPPED]	= "owed-dropped-by-handler",
	[ABIS_MUTANT_OWED_BY_RANGE]	= "owed-paid-by-range",
	[ABIS_MUTANT_NARROW_SHORT]	= "narrow-range-short",
	[ABIS_MUTANT_NARROW_DROPS]	= "narrow-drops-set-member",
	[ABIS_MUTANT_NARROW_ROUND]	= "narrow-is-round",
	[ABIS_MUTANT_BATCH_UNPAID]	= "batch-unpaid",
	[ABIS_MUTANT_BATCH_UNRAISED]	= "batch-round-unraised",
	[ABIS_MUTANT_BATCH_UNCACHED]	= "batch-uncached",
	[ABIS_MUTANT_INSERT_OVER_SHARED] = "insert-over-shared",
	[ABIS_MUTANT_INSERT_OVER_NEVER]	= "insert-over-never",
	[ABIS_MUTANT_INSERT_IN_BATCH]	= "insert-in-batch",
	[ABIS_MUTANT_INSERT_PRIMARY_FIRST] = "insert-primary-first",
	[ABIS_MUTANT_INSERT_NO_BEFORE]	= "insert-no-invlpg-before",
	[ABIS_MUTANT_INSERT_NO_AFTER]	= "insert-no-invlpg-after",
	[ABIS_MUTANT_HIDDEN_UNCACHED]	= "hidden-is-uncached",
	[ABIS_MUTANT_HIDDEN_OVER]	= "hidden-over-another",
	[ABIS_MUTANT_HIDDEN_PRIVATE]	= "hidden-revealed-private",
	[ABIS_MUTANT_HIDDEN_TAKEN]	= "hidden-taken-unflushed",
	[ABIS_MUTANT_INSERT_LEFT]	= "insert-left-behind",
	[ABIS_MUTANT_INSERT_INTERRUPTED] = "insert-interrupted",
	[ABIS_MUTANT_BORN_ACCESSED]	= "insert-born-accessed",
	[ABIS_MUTANT_NOTIFIERS_IGNORED]	= "notifiers-ignored",
	[ABIS_MUTANT_FREED_ELIDED]	= "freed-tables-elided",
	[ABIS_MUTANT_MOVED_ELIDED]	= "moved-table-elided",
	[ABIS_MUTANT_REQUEST_SPANS]	= "request-spans",
	[ABIS_MUTANT_REQUEST_HIDES]	= "request-hides-accessed",
};

/* Interrupts off: one question at a time on a CPU. Return: number of entries held. */
static unsigned int ask_for(struct oracle *oracle, struct mm_struct *mm,
			    unsigned long addr, u32 flags, u32 apic_id,
			    unsigned int pages)
{
	oracle->request = (struct oracle_request) {
		.op = ORACLE_OP_QUERY,
		.flags = flags,
		.apic_id = apic_id,
		.linear = addr & PAGE_MASK,
		.pages = pages,
		.root = { __pa(mm->pgd) },
		.buffer = virt_to_phys(oracle->holders),
		.capacity = HOLDERS_MAX,
	};
	wrmsrl(oracle_msr, virt_to_phys(&oracle->request));
	/* The WRMSR has written to memory that the compiler does not know of. */
	barrier();
	WARN_ONCE(oracle->request.status, "the oracle refused: %u\n",
		  oracle->request.status);
	WARN_ONCE(oracle->request.count > HOLDERS_MAX, "%u entries, %u looked at\n",
		  oracle->request.count, HOLDERS_MAX);
	return min_t(u32, oracle->request.count, HOLDERS_MAX);
}

static unsigned int ask(struct oracle *oracle, struct mm_struct *mm, unsigned long addr)
{
	return ask_for(oracle, mm, addr, ORACLE_FLAG_TLB, ORACLE_ALL_CPUS, 1);
}

static int cpu_of_apic_id(u32 apic_id)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		if (per_cpu(x86_cpu_to_apicid, cpu) == apic_id)
			return cpu;
	}
	return -1;
}

/* Must this CPU flush fully before it uses @mm again? It may be about to do so. */
static bool must_flush(const struct oracle_holder *holder, struct mm_struct *mm)
{
	int cpu = cpu_of_apic_id(holder->apic_id);
	const struct tlb_state *state;
	const struct tlb_context *context;
	unsigned int asid = holder->pcid ? holder->pcid - 1 : 0;

	if (cpu < 0 || asid >= TLB_NR_DYN_ASIDS)
		return false;
	state = &per_cpu(cpu_tlbstate, cpu);
	context = &state->ctxs[asid];
	if (READ_ONCE(context->ctx_id) != mm->context.ctx_id)
		return true;
	if (READ_ONCE(context->tlb_gen) >= atomic64_read(&mm->context.tlb_gen) &&
	    !(cpu < SPTE_CPUS && test_bit(cpu, mm->context.abis.owed)))
		return false;
	return READ_ONCE(state->loaded_mm) != mm ||
	       READ_ONCE(per_cpu(cpu_tlbstate_shared, cpu).is_lazy);
}

/*
 * Return: a holder other than @but (-1: any) that may use the entry, or NULL. Where
 * one CPU alone may hold what was filled from a slot, a larger entry is not meant:
 * it is from before there was a page table, and whoever took it away, and not yet
 * flushed it, answers for it.
 */
static const struct oracle_holder *find_holder(struct oracle *oracle,
					       struct mm_struct *mm, unsigned long addr,
					       int but, bool small_only)
{
	unsigned int i, count = ask(oracle, mm, addr);

	for (i = 0; i < count; i++) {
		const struct oracle_holder *holder = &oracle->holders[i];

		if (but >= 0 && cpu_of_apic_id(holder->apic_id) == but)
			continue;
		if (small_only && holder->size > PAGE_SHIFT)
			continue;
		if (!must_flush(holder, mm))
			return holder;
	}
	return NULL;
}

/* As above, but wait for those in the kernel: they may be about to flush. */
static const struct oracle_holder *find_stable(struct oracle *oracle,
					       struct mm_struct *mm, unsigned long addr,
					       int but, bool small_only)
{
	const struct oracle_holder *holder;
	int i;

	for (i = 0; i < RETRIES; i++) {
		holder = find_holder(oracle, mm, addr, but, small_only);
		if (!holder || holder->state & ORACLE_HOLDER_USER)
			return holder;
		cpu_relax();
	}
	return holder;
}

static void describe(const char *what, const struct oracle_holder *holder,
		     struct mm_struct *mm)
{
	int cpu = cpu_of_apic_id(holder->apic_id);

	atomic_long_inc(&violations);
	pr_err("%s, but CPU %d holds it: frame %#llx rights %#x pcid %u, its tlb_gen %llu of %llu\n",
	       what, cpu, holder->physical, holder->rights, holder->pcid,
	       per_cpu(cpu_tlbstate, cpu).ctxs[holder->pcid ? holder->pcid - 1 : 0].tlb_gen,
	       (u64)atomic64_read(&mm->context.tlb_gen));
	WARN_ON(1);
}

void abis_debug_violation(const char *what, unsigned long addr, pte_t pte)
{
	atomic_long_inc(&violations);
	pr_err("0x%lx %s: pte %#lx\n", addr, what, pte_val(pte));
	WARN_ON(1);
}

/* All CPUs that may have held these pages have flushed, or must. PTE lock held. */
void abis_debug_narrowed(struct mm_struct *mm, const struct abis_hold *hold)
{
	unsigned int i, count = min_t(unsigned int, hold->pages, ARRAY_SIZE(hold->checked));
	const struct oracle_holder *holder;
	struct oracle *oracle;
	unsigned long flags;

	if (!oracle_msr)
		return;
	local_irq_save(flags);
	oracle = oracles + smp_processor_id();
	for (i = 0; i < count; i++) {
		holder = find_stable(oracle, mm, hold->checked[i].addr, -1, true);
		/* mprotect() has stored the new one: filled meanwhile, it is marked. */
		if (holder && !(pte_flags(ptep_get(hold->checked[i].ptep)) & _PAGE_ACCESSED))
			describe("flushed on one CPU or a few", holder, mm);
		this_cpu_inc(checks.narrowed);
	}
	local_irq_restore(flags);
}

/* Nobody else may hold it, unless the accessed bit says so. PTE lock held. */
void abis_debug_inserted(struct mm_struct *mm, unsigned long addr, pte_t *ptep)
{
	const struct oracle_holder *holder;
	struct oracle *oracle;
	unsigned long flags;
	unsigned int count;

	if (!oracle_msr)
		return;
	local_irq_save(flags);
	oracle = oracles + smp_processor_id();
	count = ask_for(oracle, mm, addr, ORACLE_FLAG_TLB,
			per_cpu(x86_cpu_to_apicid, smp_processor_id()), 1);
	if (count)
		this_cpu_inc(checks.inserted_held);
	holder = find_stable(oracle, mm, addr, smp_processor_id(), true);
	if (holder && !(pte_flags(ptep_get(ptep)) & _PAGE_ACCESSED))
		describe("inserted", holder, mm);
	this_cpu_inc(checks.inserted);
	local_irq_restore(flags);
}

/* After an insertion no walk of this CPU may begin in the secondary. Interrupts off. */
void abis_debug_secondary(struct mm_struct *mm, unsigned long addr,
			  const unsigned long *tables, unsigned int nr)
{
	struct oracle *oracle;
	unsigned int i, j, count;

	if (!oracle_msr)
		return;
	oracle = oracles + smp_processor_id();
	count = ask_for(oracle, mm, addr, ORACLE_FLAG_STRUCTURES,
			per_cpu(x86_cpu_to_apicid, smp_processor_id()), 1);
	for (i = 0; i < count; i++) {
		for (j = 0; j < nr; j++) {
			if (oracle->holders[i].physical == __pa(tables[j]))
				abis_debug_violation("leads into the secondary page tables",
						     addr, __pte(0));
		}
	}
	this_cpu_inc(checks.secondaries);
}

/* Nothing leads from the page tables into one for @addr. */
static bool is_taken_out(struct mm_struct *mm, unsigned long addr)
{
	pmd_t *pmd = mm_find_pmd(mm, addr);

	return !pmd || pmd_none(pmdp_get_lockless(pmd));
}

/* Return: a CPU that may start a walk for these 2 MiB in a page table, or NULL. */
static const struct oracle_holder *find_leading(struct oracle *oracle,
						struct mm_struct *mm, unsigned long addr)
{
	unsigned int i, count = ask_for(oracle, mm, addr, ORACLE_FLAG_STRUCTURES,
					ORACLE_ALL_CPUS, PTRS_PER_PTE);

	for (i = 0; i < count; i++) {
		const struct oracle_holder *holder = &oracle->holders[i];

		if (holder->kind == ORACLE_KIND_PDE && !must_flush(holder, mm))
			return holder;
	}
	return NULL;
}

/*
 * Page tables of this range were taken out, to be freed or moved, and all that may
 * lead into them was flushed, the CPUs that walk without a lock included: the
 * interrupt is what they wait for. The mmap lock, or those of the PMDs, keep others
 * from putting new ones there, but for VMAs beside the range.
 */
void abis_debug_tables(struct mm_struct *mm, unsigned long start, unsigned long end)
{
	const struct oracle_holder *holder = NULL;
	struct oracle *oracle;
	unsigned int i, tables = 0;
	unsigned long flags, addr;

	if (!oracle_msr)
		return;
	local_irq_save(flags);
	oracle = oracles + smp_processor_id();
	end = min(end, start + TABLES_SPAN);
	for (addr = start & PMD_MASK; addr < end && tables < TABLES_MAX; addr += PMD_SIZE) {
		if (!is_taken_out(mm, addr))
			continue;
		tables++;
		this_cpu_inc(checks.tables);
		for (i = 0; i < RETRIES; i++) {
			holder = find_leading(oracle, mm, addr);
			if (!holder || holder->state & ORACLE_HOLDER_USER)
				break;
			cpu_relax();
		}
		if (holder && is_taken_out(mm, addr))
			describe("a page table was taken out", holder, mm);
	}
	local_irq_restore(flags);
}

bool abis_debug_spares_moved(void)
{
	return abis_mutant(ABIS_MUTANT_MOVED_ELIDED);
}

/* Would Linux have interrupted anybody? See should_flush_tlb(). */
static bool has_remote_target(struct mm_struct *mm)
{
	int cpu, this = raw_smp_processor_id();

	for_each_cpu(cpu, mm_cpumask(mm)) {
		if (cpu != this && !per_cpu(cpu_tlbstate_shared, cpu).is_lazy &&
		    per_cpu(cpu_tlbstate, cpu).loaded_mm == mm)
			return true;
	}
	return false;
}

void abis_debug_check(struct mm_struct *mm, unsigned long addr, pte_t pte,
		      spte_t spte, enum abis_site site, struct abis_verdict verdict)
{
	bool is_private = verdict.targets == ABIS_CPU;
	const struct oracle_holder *holder;
	struct oracle *oracle;
	unsigned long flags;

	if (!oracle_msr)
		return;
	local_irq_save(flags);
	oracle = oracles + smp_processor_id();
	if (verdict.targets != ABIS_NONE && !is_private) {
		if (this_cpu_inc_return(checks.unelided[site]) % SAMPLE_EVERY == 0) {
			this_cpu_inc(checks.sampled[site]);
			if (ask(oracle, mm, addr))
				this_cpu_inc(checks.sampled_held[site]);
		}
		goto out;
	}
	if (has_remote_target(mm))
		this_cpu_inc(checks.checked[site][verdict.reason]);
	if (mm_has_notifiers(mm))
		abis_debug_violation("left out, though devices may walk there", addr, pte);
	holder = find_stable(oracle, mm, addr, is_private ? verdict.cpu : -1,
			     verdict.reason != ABIS_IDLE);
	if (!holder)
		goto out;
	atomic_long_inc(&violations);
	pr_err("%s of 0x%lx elided (%s), but CPU %d holds it: pte %#lx spte %#x version %llu; held: frame %#llx rights %#x pcid %u, its tlb_gen %llu of %llu\n",
	       abis_site_names[site], addr, abis_reason_names[verdict.reason],
	       cpu_of_apic_id(holder->apic_id), pte_val(pte), spte,
	       (u64)atomic64_read(&mm->context.abis.version), holder->physical,
	       holder->rights, holder->pcid,
	       per_cpu(cpu_tlbstate, cpu_of_apic_id(holder->apic_id))
		       .ctxs[holder->pcid ? holder->pcid - 1 : 0].tlb_gen,
	       (u64)atomic64_read(&mm->context.tlb_gen));
	WARN_ON(1);
out:
	local_irq_restore(flags);
}

/*
 * The trace: for each page that was inserted, and walked for all the same, what
 * became of the entry of the CPU that inserted it, whether that CPU takes the page
 * away, and who holds it in the end. Read-only to everything else.
 */
#define LOSSES_KEPT	16

static const char * const loss_names[ABIS_LOSSES] = {
	[ABIS_LOST_NOTHING]	= "kept",
	[ABIS_LOST_LAG_SWITCH]	= "lag_switch",
	[ABIS_LOST_LAG_LAZY]	= "lag_lazy",
	[ABIS_LOST_LAG_IPI]	= "lag_ipi",
	[ABIS_LOST_ASKED]	= "asked",
	[ABIS_LOST_OWED]	= "owed",
	[ABIS_LOST_ASID]	= "asid",
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

/* The slot's table is its own, not that of all new ones. */
static struct abis_record *record_of(pte_t *ptep)
{
	void *table = virt_to_ptdesc(ptep)->pt_spte;
	struct abis_record *records = table + PTRS_PER_PTE * sizeof(spte_t);

	return records + offset_in_page(ptep) / sizeof(*ptep);
}

void abis_debug_record(pte_t *ptep)
{
	u16 asid = this_cpu_read(cpu_tlbstate.loaded_mm_asid);

	*record_of(ptep) = (struct abis_record) {
		.losses = this_cpu_read(losses[asid].count),
		.cpu = smp_processor_id() + 1,
		.asid = asid,
	};
}

/* How the CPU that inserted it lost it first. */
static enum abis_loss loss_of(const struct abis_record *record)
{
	const struct losses *lost = per_cpu(losses, record->cpu - 1) + record->asid;
	u32 count = READ_ONCE(lost->count);

	if (count == record->losses)
		return ABIS_LOST_NOTHING;
	/* Overwritten meanwhile: the oldest that is left. */
	if (count - record->losses > LOSSES_KEPT)
		return lost->why[count % LOSSES_KEPT];
	return lost->why[record->losses % LOSSES_KEPT];
}

static unsigned int holders_of(struct mm_struct *mm, unsigned long addr, int inserter)
{
	struct oracle *oracle = oracles + smp_processor_id();
	unsigned int i, count = ask(oracle, mm, addr), held = HELD_BY_NONE;

	for (i = 0; i < count; i++)
		held |= cpu_of_apic_id(oracle->holders[i].apic_id) == inserter ?
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
	if (verdict.reason != ABIS_ACCESSED || !has_remote_target(mm))
		return;
	if (nr > 1)
		this_cpu_inc(classes.in_folio);
	if (!record.cpu) {
		this_cpu_inc(classes.not_inserted);
		return;
	}
	local_irq_save(flags);
	held = holders_of(mm, addr, record.cpu - 1);
	this_cpu_inc(classes.walked[loss_of(&record)]
			    [record.cpu - 1 == smp_processor_id()][held]);
	local_irq_restore(flags);
}

/*
 * A plain store over a live PTE may lose an accessed bit that hardware sets at
 * that moment, and then nobody stamps: whatever is stored must have it set.
 */
void abis_debug_set_ptes(struct mm_struct *mm, pte_t *ptep, pte_t pte, unsigned int nr)
{
	if (!abis_tracking() || mm == &init_mm || (pte_flags(pte) & _PAGE_ACCESSED))
		return;
	while (nr--) {
		WARN_ONCE(pte_flags(ptep_get(ptep + nr)) & _PAGE_PRESENT,
			  "a live PTE %#lx is overwritten with %#lx\n",
			  pte_val(ptep_get(ptep + nr)), pte_val(pte));
	}
}
EXPORT_SYMBOL_GPL(abis_debug_set_ptes);

#define SUM_OF(variable) ({					\
	u64 sum_ = 0;						\
	int cpu_;						\
								\
	for_each_possible_cpu(cpu_)				\
		sum_ += READ_ONCE(variable);			\
	sum_;							\
})
#define SUM(field)		SUM_OF(per_cpu(checks, cpu_).field)
#define SUM_CLASSES(field)	SUM_OF(per_cpu(classes, cpu_).field)

static void show_classes(struct seq_file *file)
{
	int loss, here, held;

	for (loss = 0; loss < ABIS_LOSSES; loss++) {
		for (here = 0; here < 2; here++) {
			for (held = 0; held < HOLDERS; held++)
				seq_printf(file, "walked_%s_%s_%s %llu\n",
					   loss_names[loss], here ? "here" : "away",
					   holder_names[held],
					   SUM_CLASSES(walked[loss][here][held]));
		}
		seq_printf(file, "lost_%s %llu\n", loss_names[loss], SUM_CLASSES(lost[loss]));
	}
	seq_printf(file, "walked_in_folio %llu\n", SUM_CLASSES(in_folio));
	seq_printf(file, "walked_not_inserted %llu\n", SUM_CLASSES(not_inserted));
}

void abis_debug_show(struct seq_file *file)
{
	u64 checked = 0, n;
	int site, reason;

	for (site = 0; site < ABIS_SITES; site++) {
		for (reason = 0; reason <= ABIS_PRIVATE; reason++) {
			n = SUM(checked[site][reason]);
			checked += n;
			seq_printf(file, "%s_checked_%s %llu\n", abis_site_names[site],
				   abis_reason_names[reason], n);
		}
		seq_printf(file, "%s_sampled %llu\n", abis_site_names[site],
			   SUM(sampled[site]));
		seq_printf(file, "%s_sampled_held %llu\n", abis_site_names[site],
			   SUM(sampled_held[site]));
	}
	seq_printf(file, "narrow_checked %llu\n", SUM(narrowed));
	seq_printf(file, "insert_checked %llu\n", SUM(inserted));
	seq_printf(file, "insert_checked_held %llu\n", SUM(inserted_held));
	seq_printf(file, "secondary_checked %llu\n", SUM(secondaries));
	seq_printf(file, "tables_checked %llu\n", SUM(tables));
	show_classes(file);
	seq_printf(file, "checked %llu\n", checked);
	seq_printf(file, "violations %ld\n", atomic_long_read(&violations));
}

static int mutant_show(struct seq_file *file, void *unused)
{
	int i;

	for (i = 0; i < ABIS_MUTANTS; i++)
		seq_printf(file, i == abis_mutant_chosen ? "[%s]\n" : "%s\n",
			   mutant_names[i]);
	return 0;
}

static int mutant_open(struct inode *inode, struct file *file)
{
	return single_open(file, mutant_show, NULL);
}

static ssize_t mutant_write(struct file *file, const char __user *from, size_t count,
			    loff_t *offset)
{
	char name[32] = "";
	int chosen;

	if (count >= sizeof(name))
		return -EINVAL;
	if (copy_from_user(name, from, count))
		return -EFAULT;
	chosen = sysfs_match_string(mutant_names, name);
	if (chosen < 0)
		return chosen;
	WRITE_ONCE(abis_mutant_chosen, chosen);
	if (chosen)
		pr_warn("broken on purpose: %s\n", mutant_names[chosen]);
	return count;
}

static const struct file_operations mutant_fops = {
	.open		= mutant_open,
	.read		= seq_read,
	.write		= mutant_write,
	.llseek		= seq_lseek,
	.release	= single_release,
};

static int __init mutant_setup(char *arg)
{
	int chosen = arg ? match_string(mutant_names, ABIS_MUTANTS, arg) : -EINVAL;

	if (chosen < 0) {
		pr_err("abis_mutant=%s is no break that this kernel knows\n", arg ?: "");
		return chosen;
	}
	abis_mutant_chosen = chosen;
	if (chosen)
		pr_warn("broken on purpose: %s\n", mutant_names[chosen]);
	return 0;
}
early_param("abis_mutant", mutant_setup);

static bool __init oracle_found(void)
{
	u32 eax, ebx, ecx, edx;

	if (!boot_cpu_has(X86_FEATURE_HYPERVISOR))
		return false;
	cpuid(ORACLE_LEAF, &eax, &ebx, &ecx, &edx);
	if (eax <= ORACLE_LEAF || ebx != ORACLE_NAME_EBX ||
	    ecx != ORACLE_NAME_ECX || edx != ORACLE_NAME_EDX)
		return false;
	cpuid(ORACLE_LEAF + 1, &eax, &ebx, &ecx, &edx);
	if (!eax)
		return false;
	oracle_msr = ebx;
	return true;
}

void __init abis_debug_init(struct dentry *dir)
{
	debugfs_create_file("mutant", 0600, dir, NULL, &mutant_fops);
	/* Physically contiguous and aligned as the requests in it must be. */
	oracles = kcalloc(nr_cpu_ids, roundup_pow_of_two(sizeof(*oracles)), GFP_KERNEL);
	if (oracles && oracle_found())
		pr_info("every elision is checked by the machine's TLB oracle\n");
	else
		pr_warn("no TLB oracle here: nothing is checked\n");
}
