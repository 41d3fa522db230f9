// SPDX-License-Identifier: GPL-2.0-only
/*
 * Does this CPU do what insertion needs? In an address space of our own: a page
 * that was inserted can be read without its accessed bit being set; after INVLPG a
 * read sets it; and a page of the same 2 MiB that was not inserted is found, by a
 * walk from the primary. A speculative walk may spoil one try, not all.
 */

#define pr_fmt(fmt) "abis: " fmt

#include <linux/cpuhotplug.h>
#include <linux/mm.h>
#include <linux/mmu_context.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#include <asm/mmu_context.h>
#include <asm/pgalloc.h>

#include "insert.h"

#define PROBE_ADDRESS	(16ul << 20)
#define PROBES		16

/* AMD's translation cache extension, of which this Linux does not know. */
#ifndef EFER_TCE
#define EFER_TCE	(1 << 15)
#endif

static unsigned int nr_chains;

/* Software page tables that no page table of a process has. */
long abis_insert_bytes(void)
{
	return (long)READ_ONCE(nr_chains) *
	       (TABLES + (1 << PGD_ALLOCATION_ORDER)) * PAGE_SIZE;
}

/* They stay once they are there: 6 pages for each possible CPU. */
static int create_chain(struct secondary *secondary)
{
	int i;

	if (secondary->mm)
		return 0;
	for (i = 0; i < TABLES; i++) {
		secondary->tables[i] = (unsigned long *)get_zeroed_page(GFP_KERNEL);
		if (!secondary->tables[i])
			goto free;
	}
	secondary->mm = mm_alloc();
	if (!secondary->mm)
		goto free;
	secondary->root = __sme_pa(secondary->mm->pgd);
	secondary->addr = NOWHERE;
	nr_chains++;
	return 0;

free:
	while (--i >= 0)
		free_page((unsigned long)secondary->tables[i]);
	return -ENOMEM;
}

static int create_secondary(unsigned int cpu, bool by_request)
{
	struct secondary *secondary = per_cpu(abis_secondaries, cpu);

	if (!secondary) {
		secondary = kzalloc_node(sizeof(*secondary), GFP_KERNEL, cpu_to_node(cpu));
		if (!secondary)
			return -ENOMEM;
		per_cpu(abis_secondaries, cpu) = secondary;
	}
	return by_request ? 0 : create_chain(secondary);
}

struct probe {
	struct mm_struct *mm;
	pte_t *ptep;
	struct page *page;
	/* 0: by a secondary. */
	unsigned int msr;
	bool is_kept;
	bool is_detected;
	bool is_clean;
};

static bool probe_accessed(const struct probe *probe)
{
	return pte_flags(ptep_get(probe->ptep)) & _PAGE_ACCESSED;
}

static void probe_once(struct probe *probe)
{
	struct secondary *secondary = this_cpu_read(abis_secondaries);
	pte_t pte = mk_pte(probe->page, PAGE_READONLY);
	struct slot slot = {
		.addr = PROBE_ADDRESS,
		.ptep = probe->ptep,
		.pte = pte,
	};

	if (probe->msr) {
		native_set_pte(probe->ptep, pte_mkold(pte));
		abis_request(probe->msr, slot.addr, 1);
	} else {
		abis_wire(secondary, slot.addr);
		abis_wire_slot(secondary, &slot, true);
		abis_fill_tlb(probe->mm, secondary, &slot, 1);
		if (!slot.filled)
			return;
		native_set_pte(probe->ptep, pte_mkold(pte));
	}
	/* The neighbour is mapped in the primary alone. */
	native_set_pte(probe->ptep + 1, pte_mkold(pte));
	probe->is_kept |= touch(PROBE_ADDRESS) && !probe_accessed(probe);
	/* Before anything faults: a fault forgets what led into the secondary. */
	probe->is_clean &= touch(PROBE_ADDRESS + PAGE_SIZE);
	flush_page(PROBE_ADDRESS);
	probe->is_detected &= touch(PROBE_ADDRESS) && probe_accessed(probe);

	native_set_pte(probe->ptep, __pte(0));
	native_set_pte(probe->ptep + 1, __pte(0));
	flush_page(PROBE_ADDRESS);
	flush_page(PROBE_ADDRESS + PAGE_SIZE);
}

/*
 * With the translation cache extension on, INVLPG leaves the paging-structure cache
 * entries of other addresses alone: AMD64 APM vol. 2, 3.1.7 (EFER) and 5.5.2. Those of the
 * secondary would stay, and those of the primary before. Nobody sets it here.
 */
static bool invlpg_spares_others(void)
{
	u64 efer;

	rdmsrl(MSR_EFER, efer);
	return efer & EFER_TCE || abis_mutant(ABIS_MUTANT_INVLPG_SPARES);
}

static long probe_cpu(void *data)
{
	struct probe *probe = data;
	struct mm_struct *mm;
	unsigned long flags;
	bool is_proved;
	int i;

	pagefault_disable();
	local_irq_save(flags);
	if (this_cpu_read(cpu_tlbstate_shared.is_lazy))
		leave_mm();
	mm = this_cpu_read(cpu_tlbstate.loaded_mm);
	switch_mm_irqs_off(NULL, probe->mm, current);
	probe->is_kept = false;
	probe->is_detected = true;
	probe->is_clean = true;
	for (i = 0; i < PROBES; i++)
		probe_once(probe);
	switch_mm_irqs_off(NULL, mm, current);
	local_irq_restore(flags);
	pagefault_enable();

	is_proved = probe->is_kept && probe->is_detected && probe->is_clean &&
		    !invlpg_spares_others();
	/* Whom no SPTE can name inserts nothing. */
	this_cpu_read(abis_secondaries)->is_proved[!!probe->msr] =
		is_proved && smp_processor_id() < abis_cpus;
	if (is_proved)
		return 0;
	pr_info("CPU %u: an inserted entry %s\n", smp_processor_id(),
		invlpg_spares_others() ? "may leave cached page tables (EFER.TCE)" :
		!probe->is_kept ? "is not kept" :
		!probe->is_detected ? "outlives INVLPG, or leaves no accessed bit" :
		"hides its neighbours");
	return -EIO;
}

/* Kept, as its page tables are: no VMA tells exit_mmap() of them. */
static struct probe probe;

/*
 * A CPU that comes on line when all others have been asked: one that fails takes no
 * part in insertion, and is no reason to do without it, or them.
 */
static int probe_new_cpu(unsigned int cpu)
{
	/* The way to insert that was prepared last: the other one stays as it was. */
	probe_cpu(&probe);
	return 0;
}

/* Return: why no page can be inserted on this machine, in that way, or NULL. */
const char *abis_insert_prepare(bool by_request)
{
	static bool is_watching;
	const char *why = NULL;
	spinlock_t *ptl;
	unsigned int cpu;

	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		return "page-table locks can be preempted";
	if (!boot_cpu_has(X86_FEATURE_PCID) || !(cr4_read_shadow() & X86_CR4_PCIDE))
		return "this processor has no PCIDs";
#ifdef CONFIG_PARAVIRT_XXL
	if (pv_ops.mmu.write_cr3 != native_write_cr3)
		return "the hypervisor loads CR3 (paravirtualised page tables)";
#endif
	if (invlpg_spares_others())
		return "INVLPG leaves cached page tables of other addresses (EFER.TCE)";
	if (by_request && !IS_ENABLED(CONFIG_ABIS_INSERT_MACHINE))
		return "this kernel is built without it (CONFIG_ABIS_INSERT_MACHINE)";
	if (by_request && !abis_machine_inserts())
		return "this processor inserts nothing on request, nor does any that is built";
	for_each_possible_cpu(cpu) {
		if (create_secondary(cpu, by_request))
			return "no memory for the CPUs' page tables";
	}

	if (!probe.mm) {
		probe.page = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!probe.page)
			return "no memory for the probe";
		probe.mm = mm_alloc();
		if (!probe.mm) {
			__free_page(probe.page);
			return "no memory for the probe";
		}
	}
	probe.ptep = get_locked_pte(probe.mm, PROBE_ADDRESS, &ptl);
	if (!probe.ptep)
		return "no memory for the probe";
	/* Nobody else knows this address space. */
	pte_unmap_unlock(probe.ptep, ptl);

	/* Whoever comes on line from here on is asked there, if not below. */
	if (!is_watching && cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "mm/abis:online",
						      probe_new_cpu, NULL) < 0)
		return "CPUs that come on line cannot be asked";
	is_watching = true;

	/* One CPU at a time, since none comes or goes meanwhile. */
	cpus_read_lock();
	probe.msr = by_request ? MACHINE_INSERT_MSR : 0;
	for_each_online_cpu(cpu) {
		if (work_on_cpu(cpu, probe_cpu, &probe)) {
			why = "insertion does not work on this processor (see above)";
			break;
		}
	}
	cpus_read_unlock();
	return why;
}
