/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A small machine under a small Linux, to try the engine's rules on.
 *
 * hardware.c  TLBs, paging-structure caches, page walks: what a core may do at any moment
 * truth.c     what must never happen, judged from outside: the kernel side cannot see it
 * tlb.c       Linux 6.12's arch/x86/mm/tlb.c as small steps; rounds are credited here
 * insert.c    direct TLB insertion
 * kernel*.c   the operations on page tables as small steps, with the hooks of ABIS
 * schedule.c  who makes the next step (a seeded generator), counters, main()
 *
 * One step is what no other core can see the middle of: one atomic access, or
 * several under a lock that guards all of them. Memory is sequentially
 * consistent; the kernel's barriers have to make it so where it matters.
 */
#ifndef MODEL_H
#define MODEL_H

#include "engine.h"
#include "ring.h"

#define CORES		4
#define ASIDS		2		/* fewer than address spaces: they are given away */
#define MMS		4		/* 0 is init_mm, without user pages */
#define REGIONS		2
#define SLOTS		2		/* PTEs of a table */
#define PAGES		(REGIONS * SLOTS)
#define TABLES		(MMS * REGIONS)
#define NOBODY		(-1)
#define SWITCHING	(-2)		/* LOADED_MM_SWITCHING */
#define ROUND_EVERY	8
#define REPLAY_PAGES	16
#define GATHERS_BEGUN	(1ull << 24)
#define GATHERS_OPEN	(GATHERS_BEGUN - 1)
#define FLUSHES		32	/* truth: of so many generations, more than a ring has */

struct pte {
	bool present, write, accessed;
	bool hidden;			/* present to Linux, P = 0 to hardware: read-only, hwA clear, and revealed at any time */
	u32 page;
};

struct table {
	int mm;				/* NOBODY: free */
	int lock;			/* core that holds the page-table lock */
	struct pte pte[SLOTS];
	spte_t spte[SLOTS];
	u32 epoch;
	u64 proof_at[SLOTS];		/* truth: version at which idleness since the last stamp is proved; 0: no stamp */
	u64 protected_at[SLOTS];	/* truth */
	bool quiet[SLOTS];		/* truth: no round was in flight at that stamp */
	int private[SLOTS];		/* truth: core that inserted, plus 1, until the next stamp */
};

struct mm {
	bool live;
	u64 ctx_id, tlb_gen, version;
	struct ring ring;
	u32 in_flight;			/* rounds begun and not yet credited */
	u32 cpumask;
	u32 owed;			/* bit of each CPU that must flush before it uses the address space again */
	int table[REGIONS];
	int readers;			/* mmap_lock */
	bool writer;
	u32 unmapped;			/* bit of each region that is going, under a mmap_lock held for reading */
	u32 flush_pending;		/* mm->tlb_flush_pending */
	u64 gathers;			/* accountable gathers: low bits open, above begun */
	u32 unproven;			/* accountable gathers with PTEs to flush */
	u32 batched, batched_flushed;	/* mm->tlb_flush_batched */
	u32 blocked;
	bool refused;			/* prctl */
	/* truth */
	u64 dead_before[PAGES];		/* older translations belong to a finished operation */
	u64 tables_dead_before[REGIONS];
	u32 blocked_in_a_row;
	u32 debts;			/* owed and not yet paid */
	struct { bool all; int first, last; } flushes[FLUSHES];	/* by generation */
	u8 hot;				/* bit of each page that is used often */
};

struct entry {
	bool valid, write;
	bool secondary, wrong;		/* truth: filled by a secondary PTE; by one that was another address's */
	u32 page;
	u64 filled, ctx_id;
};

struct upper {				/* paging-structure cache */
	bool valid, secondary;
	int table;
	u64 filled;
};

struct secondary {			/* one page table per core: the upper levels lead one region to it */
	int mm, region;
	struct pte pte[SLOTS];
};

struct flush_info {
	bool pending, full, narrow;
	int mm;				/* NOBODY: whatever is loaded (a batch) */
	int first, last, stride;
	u64 new_tlb_gen;		/* 0: TLB_GENERATION_INVALID */
};

/* The small-step machines of a core; the first that is on makes the core's next step. */
struct replay { u32 count, done; u64 ranges[RING_SLOTS]; };	/* count 0: everything is flushed */
/* Steps of switch_mm_irqs_off() at which it decides what to flush. */
#define SWITCH_DECIDES_LAZY	3
#define SWITCH_DECIDES		9
struct switch_mm { bool on, was_lazy, flush, owed, is_new; int step, prev, next, asid; u64 gen; struct replay replay; };
struct flush_func { bool on, full, local; int step, from; u64 local_gen, mm_gen; struct flush_info info; struct replay replay; };
struct flush_range {
	bool on, freed_tables, batch, local, round;
	int step, cpu, loaded;
	u32 mask;			/* narrowed: its targets */
	u64 begun, seen;
	struct flush_info info;
};

struct insert {
	bool on, irqs_off, quiet, in_flight;
	int step, table, region;
	u32 slots, again;		/* slots; those of them that were taken out, flushed, and are to be op.as */
	struct pte old[SLOTS], pte[SLOTS];	/* when it was chosen; to be mapped */
	u64 began, version;
};

struct batch {
	u32 cpumask, narrow;
	bool required;
	int count, mm;			/* the address space it is a round of: its first; NOBODY: none */
	u64 begun;			/* version, read before the last bump of @mm */
	struct { int mm, page; u64 ctx_id, when; } unmapped[4];
};

enum op_kind {
	OP_NONE, OP_FAULT, OP_ZAP, OP_UNMAP_TABLE, OP_COW, OP_MKCLEAN, OP_RECLAIM, OP_PROTECT, OP_YOUNG,
	OP_REMAP, OP_MOVE_TABLE, OP_FORK, OP_REUSE, OP_ROUND, OP_RUN, OP_LAZY, OP_MODE, OP_REFUSE, OPS,
};

struct op {
	enum op_kind kind;
	int step, mm, other_mm, page, other, table, slot, child, region, cpu;
	bool track, elide, need, shared, recent_only, restored, full, in_flight, write;
	/* a gather: it is accountable; it is counted in unproven; there is none, but a walk that flushes everything */
	bool counted, unproven, is_walk;
	u32 hold;			/* bits of CPUs to flush before the lock is released */
	u32 kept;			/* slots whose new PTE, in as, is to be inserted in this hold */
	struct pte as[SLOTS];
	int tries, first_region, regions;	/* its tables */
	u64 gone[PAGES];		/* when what was there before went, or 0: not touched */
	u32 pending_seen;
	u64 gathers_seen;
	int ask;			/* taken() */
	u32 pending;
	struct pte old;
	u64 stamp, version, when[SLOTS], protected[PAGES];
	bool done[SLOTS];
	struct abis_range range;
};

struct core {
	/* hardware */
	int cr3_mm, cr3_asid;
	bool cr3_secondary;
	struct secondary secondary;
	struct entry tlb[ASIDS][PAGES];
	struct upper upper[ASIDS][REGIONS];
	struct entry walk;		/* hwA is set, the entry not yet there */
	int walk_page, walk_asid;
	/* Linux: cpu_tlbstate */
	int loaded, asid, next_asid, current_mm;
	bool is_lazy;
	struct { u64 ctx_id, tlb_gen; } ctx[ASIDS];
	struct flush_info ipi[CORES];
	struct switch_mm sw;
	struct flush_func func;
	struct flush_range flush;
	struct insert insert;
	struct op op;
	struct batch batch;
	u64 stalled_until;
	bool see_track, see_elide;	/* static keys are patched core by core */
};

struct world {
	struct core core[CORES];
	struct mm mm[MMS];
	struct table table[TABLES];
	u64 now, last_ctx_id, random;
	u32 epoch, pages;
	int switcher;			/* core that changes the mode */
	bool mode_on;
	bool apart;			/* for a while most cores keep to pages of their own */
	bool gathering;			/* for a while many gather in one address space */
	int focus;			/* page that most of it is about, for a while; NOBODY: none */
};

extern struct world w;

/* What a run must have seen to mean anything. */
#define COUNTERS(X) \
	X(elided_idle) X(elided_uncached) X(private) X(private_held) X(recent) X(accessed) X(never) X(flushed_and_held) \
	X(stamped_quiet) X(stamped_in_flight) X(elided_after_one) \
	X(rounds) X(rounds_untracked) X(rounds_overlapping) X(rounds_forced) X(rounds_batched) X(credit_raced) X(version_wrapped) \
	X(lazy_return_flushed) X(lazy_return_fresh) X(lazy_not_interrupted) X(lazy_interrupted) X(asid_kept) X(asid_flushed) X(asid_new) \
	X(published) X(replayed_by_interrupt) X(replayed_by_switch) X(replayed_by_lazy_return) X(replay_unknown) X(replay_too_far) X(elided_and_replayed) \
	X(flush_partial) X(flush_widened) X(flush_not_needed) X(elided_while_switching) X(elided_while_lazy) \
	X(restored) X(restored_elided) X(batches) X(batched_pending_flushed) X(remapped) X(tables_moved) \
	X(gathers_nested) X(nested_proven) X(nested_spared) X(nested_unaccountable) X(nested_unproven) X(nested_retried) \
	X(gathers_midway) X(gathers_of_two_tables) X(walks_without_gather) X(narrow_widened) X(tables_freed) X(tables_freed_alone) X(stamps_failed) \
	X(forks) X(born_old) X(young_cleared) X(young_kept) X(uncached_recorded) X(mode_changes) X(epoch_wiped) X(refused) \
	X(narrowed) X(narrowed_set) X(narrowed_late) X(narrowed_interrupted) X(narrowed_local) X(narrowed_owed) X(narrowed_owed_and_interrupted) \
	X(narrowed_by_batch) X(owed_by_handler) X(paid_by_switch) X(paid_by_new_asid) X(paid_by_lazy_return) X(paid_by_interrupt) \
	X(paid_when_off) \
	X(inserted) X(inserted_together) X(inserted_by_cow) X(inserted_by_reuse) X(inserted_by_protect) X(protect_flushed_all) X(protect_flushed_cpu) X(reuse_in_place) X(insert_over_none) X(insert_over_own) X(insert_over_flushed) X(insert_refused) X(insert_refused_cpu) \
	X(window_walked_primary) X(window_interrupt_waited) X(walks_secondary) \
	X(hidden) X(hidden_again) X(hidden_lost) X(hidden_refused) X(revealed) X(revealed_unlocked) X(revealed_beside_lock) X(hidden_walked) X(hidden_written) X(hidden_private_written) \
	X(hidden_read_elsewhere) X(hidden_zapped) X(hidden_reclaimed) X(hidden_protected) X(hidden_moved) X(hidden_forked) X(hidden_when_off) \
	X(marked_by_fault) X(dropped_by_fault) X(wrote) \
	X(walks) X(walks_dropped) X(walks_outlive_cr3) X(evicted) X(used) X(used_inside_operation) X(used_stale_in_time) X(probed)
enum {
#define X(name) COUNT_##name,
	COUNTERS(X)
#undef X
	COUNTS,
};
extern u64 counts[COUNTS];
#define COUNT(name) (counts[COUNT_##name]++)

static inline u32 random_below(u32 limit)
{
	w.random ^= w.random >> 12;
	w.random ^= w.random << 25;
	w.random ^= w.random >> 27;
	return (u32)((w.random * 0x2545f4914f6cdd1dull >> 32) * limit >> 32);
}

static inline int some_page(void)
{
	int page = (int)random_below(PAGES);

	return w.focus != NOBODY && random_below(8) ? w.focus : page;
}

/* hardware.c */
void cpu_step(struct core *core);
void cpu_use(struct core *core, int page, bool write);
void cpu_load_cr3(struct core *core, int mm, int asid, bool flush);
void cpu_load_secondary(struct core *core, bool secondary);
const struct entry *cpu_read(struct core *core, int page);
void cpu_flush(struct core *core);
void cpu_invlpg(struct core *core, int page);

/* truth.c */
_Noreturn void fail(const char *rule, const char *format, ...);
bool must_flush(const struct core *core, int asid, int mm, int page);
void truth_raised(int mm, bool all, int first, int last);
void truth_asked(int mm, int page, u64 when, struct abis_verdict verdict);
void truth_finished(int mm, u64 ctx_id, int page, u64 when);
void truth_cleared(struct table *table, int slot, bool accessed, u64 version, bool in_flight);
void truth_in_flight(int mm);
void truth_decided(const struct table *table, int slot, const struct op *op, struct abis_verdict verdict);
void truth_blocked(struct mm *mm, bool round);
void truth_owed(int mm, u32 cpu);
void truth_paid(int mm, u32 cpu);
void truth_read(const struct core *core, const struct entry *entry);
void truth_taken(const struct pte *pte);
void truth_resolved(const struct core *core, int page, bool inserted);
void truth_inserted(struct table *table, int slot, u32 cpu, u64 version, bool in_flight);

/* tlb.c */
bool tlb_busy(const struct core *core);
bool tlb_step(struct core *core);
void switch_start(struct core *core, int next);
void flush_start(struct core *core, int mm, int first, int last, int stride, bool full, bool freed_tables);
void flush_start_batch(struct core *core);
void flush_start_narrow(struct core *core, int mm, int first, int last, bool full, u32 mask);
void owe(int mm, u32 cpu);

/* insert.c */
void insert_start(struct core *core, int table, int region, u32 slots, u32 again);
void insert_step(struct core *core);

/* kernel.c */
spte_t *spte_of(struct table *table, int slot);
void op_start(struct core *core, enum op_kind kind);
void op_step(struct core *core);
bool is_own(const struct core *core, int page);
void kernel_probe(const struct core *core, int table, int slot);
void kernel_init(void);

#endif
