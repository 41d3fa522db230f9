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
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include <asm/tlb.h>
#include <asm/tlbflush.h>

#include "../ceasefire/oracle.h"
#include "numapte.h"

#define PAGES_MAX	512UL	/* that one question is about */
#define HOLDERS_MAX	256
#define NO_PCID		0xffff

struct question {
	struct machine_request request;
	u64 roots[NUMAPTE_NODES];
	struct machine_holder holders[HOLDERS_MAX];
	u16 pcids[];	/* by CPU that is let off and has caught up */
};

static struct question **questions;	/* one for each CPU; NULL: nobody to ask */
static u32 machine_msr;

/* All roots but mm->pgd. Also for whoever counts the CPUs that a flush needs. */
unsigned int oracle_more_roots(struct mm_struct *mm, u64 *roots)
{
	struct numapte_mm *nm = numapte_trees(mm);
	int node;

	for (node = 0; nm && node < nr_node_ids; node++)
		roots[node] = nm->top.page[node] ? __pa(nm->top.page[node]) : 0;
	return nm ? nr_node_ids : 0;
}

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

static unsigned int ask(struct question *question, struct mm_struct *mm, unsigned long addr,
			unsigned long pages, u32 flags)
{
	struct machine_request *request = &question->request;

	*request = (struct machine_request) {
		.op = MACHINE_OP_QUERY,
		.flags = flags,
		.apic_id = MACHINE_ALL_CPUS,
		.linear = addr & PAGE_MASK,
		.pages = pages,
		.root = { __pa(mm->pgd) },
		.buffer = __pa(question->holders),
		.capacity = HOLDERS_MAX,
		.reserved = { __pa(question->roots), oracle_more_roots(mm, question->roots) },
	};
	wrmsrl(machine_msr, __pa(request));
	/* The WRMSR has written to memory that the compiler does not know of. */
	barrier();
	WARN_ONCE(request->status != MACHINE_ANSWERED, "the machine refused: %u\n",
		  request->status);
	return min_t(unsigned int, request->count, HOLDERS_MAX);
}

static void audit(struct mm_struct *mm, struct numapte_mm *nm, unsigned long addr,
		  unsigned long pages, u64 nodes, enum numapte_site site, unsigned int shift)
{
	struct question *question = questions[smp_processor_id()];
	bool is_any = false;
	unsigned int i, count;
	int cpu;

	for_each_possible_cpu(cpu) {
		bool is_let_off = !(nodes & BIT_ULL(cpu_to_node(cpu)));

		question->pcids[cpu] = is_let_off && cpu_online(cpu) ? pcid_of(mm, nm, cpu) :
				       NO_PCID;
		is_any |= question->pcids[cpu] != NO_PCID;
	}
	if (!is_any)
		return;
	numapte_count(let_off[site], 1);
	count = ask(question, mm, addr, pages,
		    shift ? MACHINE_FLAG_STRUCTURES : MACHINE_FLAG_TLB);
	for (i = 0; i < count; i++) {
		struct machine_holder *holder = &question->holders[i];

		cpu = oracle_cpu(holder->apic_id);
		if (cpu < 0 || holder->pcid != question->pcids[cpu] ||
		    (shift && holder->size != shift))
			continue;
		numapte_count(let_off_failures, 1);
		WARN_ONCE(1, pr_fmt("site %d, %lx: CPU %d of node %d holds what it is not to flush\n"),
			  site, addr, cpu, cpu_to_node(cpu));
	}
}

static void audit_range(struct mm_struct *mm, unsigned long addr, unsigned long bytes, u64 nodes,
			enum numapte_site site, unsigned int shift)
{
	struct numapte_mm *nm = numapte_trees(mm);
	unsigned long pages = DIV_ROUND_UP(bytes, PAGE_SIZE), some, flags;

	/* Pairs with the store that says that there are questions. */
	if (!smp_load_acquire(&questions) || !nm || !smp_load_acquire(&nm->is_loaded))
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
	size_t bytes = roundup_pow_of_two(sizeof(struct question) + nr_cpu_ids * sizeof(u16));
	struct question **all;
	int cpu;

	machine_msr = machine_find(NULL);
	if (!machine_msr)
		return;
	all = kcalloc(nr_cpu_ids, sizeof(*all), GFP_KERNEL);
	if (!all)
		return;
	for_each_possible_cpu(cpu) {
		/* Physically contiguous, and aligned as the request in it must be. */
		all[cpu] = kmalloc(bytes, GFP_KERNEL);
		if (!all[cpu])
			return;
	}
	/* Pairs with audit_range(). */
	smp_store_release(&questions, all);
}
