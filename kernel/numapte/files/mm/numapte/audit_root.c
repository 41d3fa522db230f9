// SPDX-License-Identifier: GPL-2.0-only
/*
 * Does a CPU use another root than its node's? The emulated machine knows through which
 * root each entry of its TLB and its paging-structure cache came. It is asked at the first
 * switches and faults of an address space that has got trees, and at one in a hundred later.
 */

#define pr_fmt(fmt) "numapte: " fmt

#include <linux/irqflags.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include <asm/tlbflush.h>

#include "../ceasefire/oracle.h"
#include "numapte.h"

#define ROOT_FIRST		64	/* of an address space */
#define ROOT_EVERY		100	/* of one CPU */
#define MACHINE_OP_ROOTS	4
#define MACHINE_FLAG_CR3	4
#define MACHINE_FLAG_PCID	8	/* of this PCID, whatever the root */
#define PCID_MASK		0xfffUL

struct question {
	struct machine_request request;
	u64 roots[NUMAPTE_NODES];	/* by node, physical */
};

static DEFINE_PER_CPU(unsigned int, switches);
static struct question *questions;	/* one for each CPU; NULL: nobody to ask */
static u32 machine_msr;

/* All that the question has found came by insertion (mm/abis/insert.c), as far as is listed. */
static bool is_inserted(struct mm_struct *mm, struct machine_request *request)
{
#ifdef CONFIG_ABIS_FULL
	struct oracle *oracle = oracle_here();
	u64 root = abis_secondary_root();
	unsigned int i, count;

	request->buffer = __pa(oracle->holders);
	request->capacity = ORACLE_HOLDERS_MAX;
	wrmsrl(machine_msr, __pa(request));
	/* As below. */
	barrier();
	count = min_t(u32, request->count, ORACLE_HOLDERS_MAX);
	for (i = 0; i < count; i++) {
		if (oracle->holders[i].through != root ||
		    oracle->holders[i].kind)
			return false;
	}
	return root && count;
#else
	return false;
#endif
}

/*
 * Ask about what this CPU holds under the PCID that is loaded. All of it must have come
 * through the root of its node. Interrupts are off. Return: something has not.
 */
static bool ask(struct mm_struct *mm, struct numapte_mm *nm)
{
	struct question *question = questions + smp_processor_id();
	struct machine_request *request = &question->request;
	int node;

	for (node = 0; node < nr_node_ids; node++)
		question->roots[node] = nm->top.page[node] ? __pa(nm->top.page[node]) : 0;
	*request = (struct machine_request) {
		.op = MACHINE_OP_ROOTS,
		.flags = MACHINE_FLAG_TLB | MACHINE_FLAG_STRUCTURES | MACHINE_FLAG_CR3 |
			 MACHINE_FLAG_PCID,
		.apic_id = this_cpu_read(x86_cpu_to_apicid),
		.root = { __pa(mm->pgd) },
		/* the array; how many it has, and above that the PCID */
		.reserved = { __pa(question->roots),
			      nr_node_ids | (__read_cr3() & PCID_MASK) << 32 },
	};
	wrmsrl(machine_msr, __pa(request));
	/* The WRMSR has written to memory that the compiler does not know of. */
	barrier();
	WARN_ONCE(request->status != MACHINE_ANSWERED, "the machine refused: %u\n",
		  request->status);
	if (!(request->holders[0] | request->holders[1] | request->holders[2] |
	      request->holders[3]))
		return false;
	return !is_inserted(mm, request);
}

/* Not of a node that came later: its CPUs walk mm->pgd. */
void numapte_audit_root(struct mm_struct *mm, struct numapte_mm *nm)
{
	unsigned long flags;

	/* Pair with the stores that say that there are questions, and that all roots are loaded. */
	if (!smp_load_acquire(&questions) || !smp_load_acquire(&nm->is_loaded))
		return;
	if (atomic_read(&nm->asked) < ROOT_FIRST)
		atomic_inc(&nm->asked);
	else if (this_cpu_inc_return(switches) % ROOT_EVERY)
		return;
	local_irq_save(flags);
	if (this_cpu_read(cpu_tlbstate.loaded_mm) == mm && nm->top.page[numa_node_id()]) {
		numapte_count(root_audits, 1);
		if (ask(mm, nm)) {
			numapte_count(root_failures, 1);
			WARN_ONCE(1, pr_fmt("a CPU of node %d uses the root of another (CR3 %lx)\n"),
				  numa_node_id(), __read_cr3());
		}
	}
	local_irq_restore(flags);
}

void __init numapte_audit_root_init(void)
{
	struct question *all;

	machine_msr = machine_find(NULL);
	if (!machine_msr)
		return;
	/* Physically contiguous and aligned as the requests in it must be. */
	all = kzalloc(roundup_pow_of_two(nr_cpu_ids * sizeof(*all)), GFP_KERNEL);
	/* Pairs with numapte_audit_root(): machine_msr is set. */
	smp_store_release(&questions, all);
}
