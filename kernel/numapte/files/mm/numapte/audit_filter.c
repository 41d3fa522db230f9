// SPDX-License-Identifier: GPL-2.0-only
/*
 * Does a CPU that a filtered flush lets off hold what is flushed? The emulated machine knows
 * what each CPU holds. It is asked at each request of a flush, with the lock of the page table
 * held: no other node can get to use the table meanwhile.
 *
 * A CPU that has not caught up with its node's generation may hold anything: it flushes before
 * it uses it. That is looked at before the machine is asked.
 */

#define pr_fmt(fmt) "numapte: " fmt

#include <linux/irqflags.h>
#include <linux/mm.h>
#include <linux/percpu.h>

#include <asm/tlb.h>
#include <asm/tlbflush.h>

#include "../ceasefire/oracle.h"
#include "numapte.h"

#define PAGES_MAX	512UL	/* that one question is about */
#define NO_PCID		0xffff

/* Of each CPU, by CPU that is let off and has caught up: its PCID. NULL: nobody to ask. */
static u16 __percpu *pcids;

/* The PCID of @mm on @cpu if that has caught up, else NO_PCID. */
static u16 pcid_of(struct mm_struct *mm, struct numapte_mm *nm, int cpu)
{
	const struct tlb_context *ctxs = per_cpu(cpu_tlbstate.ctxs, cpu);
	unsigned int asid;

	for (asid = 0; asid < TLB_NR_DYN_ASIDS; asid++) {
		u64 gen = READ_ONCE(ctxs[asid].tlb_gen);

		if (READ_ONCE(ctxs[asid].ctx_id) == mm->context.ctx_id)
			return gen == atomic64_read(&nm->gens[cpu_to_node(cpu)].gen) ?
			       (boot_cpu_has(X86_FEATURE_PCID) ? asid + 1 : 0) : NO_PCID;
	}
	return NO_PCID;
}

/* Return: one of those in @pcid that holds it, or NULL. */
static const struct machine_holder *find_holder(struct oracle *oracle, struct mm_struct *mm,
						unsigned long addr, unsigned long pages,
						const u16 *pcid, unsigned int shift)
{
	unsigned int i, count;

	count = oracle_ask(oracle, mm, addr, pages,
			   shift ? MACHINE_FLAG_STRUCTURES : MACHINE_FLAG_TLB, MACHINE_ALL_CPUS);
	for (i = 0; i < count; i++) {
		const struct machine_holder *holder = &oracle->holders[i];
		int cpu = oracle_cpu(holder->apic_id);

		if (cpu >= 0 && holder->pcid == pcid[cpu] && (!shift || holder->size == shift))
			return holder;
	}
	return NULL;
}

/*
 * A CPU that comes back says that it has caught up, and then loads CR3, which flushes: wait
 * for it. One that runs user code with the entry at hand does not.
 */
static void audit(struct mm_struct *mm, struct numapte_mm *nm, unsigned long addr,
		  unsigned long pages, u64 nodes, enum numapte_site site, unsigned int shift)
{
	const struct machine_holder *holder;
	struct oracle *oracle = oracle_here();
	u16 *pcid = this_cpu_ptr(pcids);
	bool is_any = false;
	unsigned int i;
	int cpu;

	for_each_possible_cpu(cpu) {
		bool is_let_off = !(nodes & BIT_ULL(cpu_to_node(cpu)));

		pcid[cpu] = is_let_off && cpu_online(cpu) ? pcid_of(mm, nm, cpu) : NO_PCID;
		is_any |= pcid[cpu] != NO_PCID;
	}
	if (!is_any)
		return;
	numapte_count(let_off[site], 1);
	for (i = 0; i < ORACLE_RETRIES; i++) {
		holder = find_holder(oracle, mm, addr, pages, pcid, shift);
		if (!holder)
			return;
		if (holder->state & MACHINE_HOLDER_USER)
			break;
		cpu_relax();
	}
	cpu = oracle_cpu(holder->apic_id);
	numapte_count(let_off_failures, 1);
	WARN_ONCE(1, pr_fmt("site %d, %lx: CPU %d of node %d holds what it is not to flush\n"),
		  site, addr, cpu, cpu_to_node(cpu));
}

static void audit_range(struct mm_struct *mm, unsigned long addr, unsigned long bytes, u64 nodes,
			enum numapte_site site, unsigned int shift)
{
	struct numapte_mm *nm = numapte_trees(mm);
	unsigned long pages = DIV_ROUND_UP(bytes, PAGE_SIZE), some, flags;

	/* Pairs with the store that says that there is somebody to ask. */
	if (!smp_load_acquire(&pcids) || !nm || !smp_load_acquire(&nm->is_loaded))
		return;
	nodes = numapte_flushed(nodes, nm->top.own, true);
	local_irq_save(flags);
	for (; pages; pages -= some, addr += some * PAGE_SIZE) {
		some = min(pages, PAGES_MAX);
		audit(mm, nm, addr, some, nodes, site, shift);
	}
	local_irq_restore(flags);
}

void numapte_audit_nodes(struct mm_struct *mm, unsigned long addr, unsigned long bytes, u64 nodes,
			 enum numapte_site site)
{
	audit_range(mm, addr, bytes, nodes, site, 0);
}

/* The flush is over, and all locks held: no CPU of @node holds what the replica had, nor leads there. */
void numapte_audit_replica(struct mm_struct *mm, unsigned long addr, int node)
{
	audit_range(mm, addr & PMD_MASK, PMD_SIZE, ~BIT_ULL(node), NUMAPTE_TABLES, 0);
	audit_range(mm, addr & PMD_MASK, PAGE_SIZE, ~BIT_ULL(node), NUMAPTE_TABLES, PMD_SHIFT);
}

/* A table's level is told by the size of the entry that led to it. */
void __numapte_gather_ask(struct mmu_gather *tlb, unsigned long addr, unsigned long bytes,
			  unsigned int shift)
{
	if (tlb->fullmm || tlb->need_flush_all)
		return;
	audit_range(tlb->mm, addr, bytes, shift ? tlb->numapte.freed : tlb->numapte.held,
		    shift ? NUMAPTE_TABLES : tlb->numapte.site, shift);
}

void __init numapte_audit_filter_init(void)
{
	u16 __percpu *all;

	if (!oracle_msr)
		return;
	all = __alloc_percpu(nr_cpu_ids * sizeof(*all), sizeof(*all));
	/* Pairs with audit_range(). */
	smp_store_release(&pcids, all);
}
