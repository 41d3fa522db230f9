// SPDX-License-Identifier: GPL-2.0-only
/*
 * A flush is for the nodes whose trees use the page tables that it is about.
 *
 * A CPU fills its TLB and its paging-structure cache by walks from its node's root alone, so
 * an entry that came from a slot of a table is held on nodes of the table's links alone: a node
 * is added before its tree leads to the table, and taken out when all of its CPUs have flushed.
 * Who changes the slot reads the links in the same hold of the table's lock; who links the
 * table later copies, or walks, the changed slot. Threads hold nothing, CPUs do: a thread that
 * moves to another node changes nothing.
 *
 * Generations are counted by node. A filtered flush raises those of its nodes before it reads
 * mm_cpumask, and a CPU compares with its own node's, so that a CPU of another node, lazy or
 * absent, has nothing to catch up with. An unfiltered flush raises all. They begin where no
 * address space comes that has one tree: what a CPU has caught up to there is out of date.
 *
 * docs/proofs/numapte-filter.md has the argument, and what is not filtered.
 */

#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/numapte_flush.h>
#include <linux/slab.h>
#include <linux/topology.h>

#include <asm/numapte_flush.h>
#include <asm/tlb.h>
#include <asm/tlbbatch.h>

#include "numapte.h"

#define GEN_FIRST	(1ull << 62)

bool numapte_filter = true;

/* By CPU that flushes, and by node. */
static DEFINE_PER_CPU(u64 [NUMAPTE_NODES], flush_gens);

struct numapte_gen *numapte_gens_alloc(gfp_t gfp)
{
	struct numapte_gen *gens = kcalloc(nr_node_ids, sizeof(*gens), gfp | __GFP_NOWARN);
	int node;

	for (node = 0; gens && node < nr_node_ids; node++)
		atomic64_set(&gens[node].gen, GEN_FIRST);
	return gens;
}

static u64 all_nodes(void)
{
	return nr_node_ids == NUMAPTE_NODES ? NUMAPTE_ALL : BIT_ULL(nr_node_ids) - 1;
}

u64 __numapte_tlb_gen(struct mm_struct *mm)
{
	return numapte_gen_of(mm, numa_node_id());
}

/* What CPUs of @node must have caught up with. */
u64 numapte_gen_of(struct mm_struct *mm, int node)
{
	struct numapte_mm *nm = numapte_trees(mm);

	return atomic64_read(nm ? &nm->gens[node].gen : &mm->context.tlb_gen);
}

#ifdef CONFIG_ABIS_FULL
/* NULL without trees. */
u64 *numapte_ring_of(struct mm_struct *mm, int node)
{
	struct numapte_mm *nm = numapte_trees(mm);

	return nm ? nm->gens[node].ring : NULL;
}
#endif

/* The nodes that use the table of @entry, whose lock is held, or which nothing leads to. */
u64 __numapte_nodes(const void *entry)
{
	struct numapte_table *table;

	if (!PageTable(virt_to_page(entry)))
		return NUMAPTE_ALL;
	table = numapte_of(entry);
	if (!table)
		return 0;
	if (numapte_mutant(MUTANT_SHARER_PLACE))
		return BIT_ULL(page_to_nid(virt_to_page(entry)));
	return READ_ONCE(table->links);
}

void __numapte_gather_init(struct mmu_gather *tlb)
{
	tlb->numapte = (struct numapte_gather) {
		.filters = numapte_trees(tlb->mm),
		.freed = NUMAPTE_ALL,
	};
}

/* What the hold of a lock has still to come is for the same nodes. */
void __numapte_gather_flushed(struct mmu_gather *tlb)
{
	tlb->numapte.nodes = tlb->numapte.held;
	tlb->numapte.freed = NUMAPTE_ALL;
}

void __numapte_gather_lock(struct mmu_gather *tlb, pte_t *ptep, enum numapte_site site)
{
	tlb->numapte.site = site;
	tlb->numapte.held = __numapte_nodes(ptep);
	if (numapte_mutant(MUTANT_LAST_HOLD))
		tlb->numapte.nodes = 0;
	/* With ABIS a table may hold nothing that is to be flushed: numapte_gather_ptes(). */
	if (!IS_ENABLED(CONFIG_ABIS))
		tlb->numapte.nodes |= tlb->numapte.held;
}

/* Raise the generations of @nodes, or of more: those that have to flush. Return: these. */
static u64 raise(struct numapte_mm *nm, u64 nodes, u64 *gens)
{
	/* Pairs with publish(). */
	bool is_loaded = smp_load_acquire(&nm->is_loaded);
	u64 all = all_nodes(), rest;
	int node;

	if (!READ_ONCE(numapte_filter))
		nodes = NUMAPTE_ALL;
	nodes = numapte_flushed(nodes, nm->top.own, is_loaded) & all;
	if (numapte_mutant(MUTANT_RAISE_NONE) && nodes != all)
		return nodes;
	for (rest = nodes; rest; rest &= rest - 1) {
		node = __ffs64(rest);
		gens[node] = atomic64_inc_return(&nm->gens[node].gen);
	}
	if (nodes == all)
		numapte_count(flushed_all, 1);
	else
		numapte_count(flushed_some, 1);
	return nodes;
}

void __numapte_flush_raise(struct flush_tlb_info *info, u64 nodes)
{
	struct numapte_mm *nm = numapte_trees(info->mm);
	u64 *gens = this_cpu_ptr(flush_gens);

	if (nm)
		info->numapte = (struct numapte_flush) { raise(nm, nodes, gens), gens };
	else
		info->numapte.gens = NULL;
}

/* Not by cpumask_of_node(), which loses CPUs that go offline and hold entries still. */
bool __numapte_flushes(int cpu, void *data)
{
	struct flush_tlb_info *info = data;

	return !info->mm || !info->numapte.gens ||
	       info->numapte.nodes & BIT_ULL(cpu_to_node(cpu));
}

bool __numapte_any_but(const struct flush_tlb_info *info, int cpu)
{
	int other;

	for_each_cpu(other, mm_cpumask(info->mm)) {
		if (other != cpu && __numapte_flushes(other, (void *)info))
			return true;
	}
	return false;
}

/*
 * On the CPU that is to flush. Who asked before it saw the trees has raised no node's
 * generation: this CPU then has a node's already, and has flushed for it, or has to flush
 * everything, since no node's is as low.
 */
const struct flush_tlb_info *__numapte_flush_info(const struct flush_tlb_info *info,
						  struct flush_tlb_info *mine)
{
	int node = numa_node_id();

	if (!info->mm || !info->numapte.gens)
		return info;
	*mine = *info;
	/* Lower than any node's: nothing to do. */
	mine->new_tlb_gen = info->numapte.nodes & BIT_ULL(node) ? info->numapte.gens[node] : 1;
	return mine;
}

void __numapte_flush_range(struct vm_area_struct *vma, pte_t *ptep, unsigned long start,
			   unsigned long end, bool freed_tables, enum numapte_site site)
{
	u64 nodes = __numapte_nodes(ptep);

	numapte_audit_nodes(vma->vm_mm, start, end - start, nodes, site);
	flush_tlb_mm_nodes(vma->vm_mm, start, end, PAGE_SHIFT, freed_tables, nodes);
}

/* The batch is flushed by generation: CPUs of other nodes are not in it, and lag behind none. */
void __numapte_add_pending(struct arch_tlbflush_unmap_batch *batch, struct mm_struct *mm,
			   pte_t *ptep, unsigned long addr)
{
	u64 nodes = ptep ? __numapte_nodes(ptep) : NUMAPTE_ALL, gens[NUMAPTE_NODES];
	struct numapte_mm *nm = numapte_trees(mm);
	int cpu;

#ifdef CONFIG_ABIS
	/* Only what everyone executes is a round. Who gets trees meanwhile stays with that. */
	if (!nm || nodes == NUMAPTE_ALL) {
		nodes = NUMAPTE_ALL;
		abis_batch_add(batch, mm);
	}
#endif
	/* Before the trees are looked at, as flush_tlb_mm_range() does. */
	inc_mm_tlb_gen(mm);
	nm = numapte_trees(mm);
	if (nm) {
		numapte_audit_nodes(mm, addr, PAGE_SIZE, nodes, NUMAPTE_BATCH);
		nodes = raise(nm, nodes, gens);
	} else {
		nodes = NUMAPTE_ALL;
	}
	for_each_cpu(cpu, mm_cpumask(mm)) {
		if (nodes & BIT_ULL(cpu_to_node(cpu)))
			cpumask_set_cpu(cpu, &batch->cpumask);
	}
	mmu_notifier_arch_invalidate_secondary_tlbs(mm, 0, -1UL);
}
