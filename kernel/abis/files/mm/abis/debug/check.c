// SPDX-License-Identifier: GPL-2.0-only
/*
 * The debug kernel asks the emulated machine's TLB oracle at every flush that is
 * left out, under the PTE lock, before anything is stored in the PTE's place: no
 * CPU may hold the entry, or no other than the one that is to flush alone; and once
 * that one has flushed, none. After an insertion only this CPU may hold the page,
 * and nothing may lead into the secondary hierarchy. One in SAMPLE_EVERY flushes
 * that are not left out is asked, too: a site that never finds a holder is asked in
 * the wrong way.
 */

#define pr_fmt(fmt) "abis: " fmt

#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/seq_file.h>
#include <linux/swap.h>
#include <linux/swapops.h>

#include <asm/tlbflush.h>

#include "debug.h"

#define SAMPLE_EVERY	4

DEFINE_PER_CPU(struct abis_checks, abis_checks);
static atomic_long_t violations;

void abis_debug_held(const char *what, const struct machine_holder *holder,
		     struct mm_struct *mm)
{
	int cpu = oracle_cpu(holder->apic_id);

	atomic_long_inc(&violations);
	pr_err("%s, but CPU %d holds it: frame %#llx rights %#x pcid %u, its tlb_gen %llu of %llu\n",
	       what, cpu, holder->physical, holder->rights, holder->pcid,
	       per_cpu(cpu_tlbstate, cpu).ctxs[holder->pcid ? holder->pcid - 1 : 0].tlb_gen,
	       abis_gen_of(mm, oracle_cpu(holder->apic_id)));
	WARN_ON(1);
}

void abis_debug_violation(const char *what, unsigned long addr, pte_t pte)
{
	atomic_long_inc(&violations);
	pr_err("0x%lx %s: pte %#lx\n", addr, what, pte_val(pte));
	WARN_ON(1);
}

void abis_debug_check(struct mm_struct *mm, unsigned long addr, pte_t pte,
		      spte_t spte, enum abis_site site, struct abis_verdict verdict)
{
	bool is_private = verdict.targets == ABIS_CPU;
	const struct machine_holder *holder;
	struct oracle *oracle;
	unsigned long flags;

	if (!oracle_msr)
		return;
	local_irq_save(flags);
	oracle = oracle_here();
	if (verdict.targets != ABIS_NONE && !is_private) {
		if (this_cpu_inc_return(abis_checks.unelided[site]) % SAMPLE_EVERY == 0) {
			this_cpu_inc(abis_checks.sampled[site]);
			if (abis_oracle_holders(oracle, mm, addr))
				this_cpu_inc(abis_checks.sampled_held[site]);
		}
		goto out;
	}
	if (abis_oracle_remote_target(mm))
		this_cpu_inc(abis_checks.checked[site][verdict.reason]);
	if (mm_has_notifiers(mm))
		abis_debug_violation("left out, though devices may walk there", addr, pte);
	holder = abis_oracle_find(oracle, mm, addr, is_private ? verdict.cpu : -1,
			     verdict.reason != ABIS_IDLE);
	if (!holder)
		goto out;
	atomic_long_inc(&violations);
	pr_err("%s of 0x%lx elided (%s), but CPU %d holds it: pte %#lx spte %#x version %llu; held: frame %#llx rights %#x pcid %u, its tlb_gen %llu of %llu\n",
	       abis_site_names[site], addr, abis_reason_names[verdict.reason],
	       oracle_cpu(holder->apic_id), pte_val(pte), spte,
	       (u64)atomic64_read(&mm->context.abis.version), holder->physical,
	       holder->rights, holder->pcid,
	       per_cpu(cpu_tlbstate, oracle_cpu(holder->apic_id))
		       .ctxs[holder->pcid ? holder->pcid - 1 : 0].tlb_gen,
	       abis_gen_of(mm, oracle_cpu(holder->apic_id)));
	WARN_ON(1);
out:
	local_irq_restore(flags);
}

/*
 * Everyone has flushed the page at @addr, whose slot is empty still, and locked: nobody
 * holds it who does not flush it before he uses it, CPUs that lag behind included.
 */
void abis_debug_flushed(struct mm_struct *mm, unsigned long addr)
{
	const struct machine_holder *holder;
	unsigned long flags;

	if (!oracle_msr || !abis_tracking())
		return;
	local_irq_save(flags);
	holder = abis_oracle_find(oracle_here(), mm, addr, -1, false);
	if (holder)
		abis_debug_held("flushed on all CPUs", holder, mm);
	this_cpu_inc(abis_checks.flushed);
	local_irq_restore(flags);
}

/*
 * A plain store over a live PTE may lose an accessed bit that hardware sets at
 * that moment, and then nobody stamps: whatever is stored must have it set. What is
 * hidden may be live by then.
 */
void abis_debug_set_ptes(struct mm_struct *mm, pte_t *ptep, pte_t pte, unsigned int nr)
{
	if (!abis_tracking() || mm == &init_mm || (pte_flags(pte) & _PAGE_ACCESSED))
		return;
	while (nr--) {
		WARN_ONCE((pte_flags(ptep_get(ptep + nr)) & _PAGE_PRESENT) ||
			  pte_hidden(ptep_get(ptep + nr)),
			  "a live PTE %#lx is overwritten with %#lx\n",
			  pte_val(ptep_get(ptep + nr)), pte_val(pte));
	}
}
EXPORT_SYMBOL_GPL(abis_debug_set_ptes);

#define SUM(field)	SUM_OF(per_cpu(abis_checks, cpu_).field)

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
	seq_printf(file, "flushed_checked %llu\n", SUM(flushed));
	seq_printf(file, "narrow_checked %llu\n", SUM(narrowed));
	seq_printf(file, "insert_checked %llu\n", SUM(inserted));
	seq_printf(file, "insert_checked_held %llu\n", SUM(inserted_held));
	seq_printf(file, "secondary_checked %llu\n", SUM(secondaries));
	seq_printf(file, "tables_checked %llu\n", SUM(tables));
	abis_debug_show_classes(file);
	seq_printf(file, "checked %llu\n", checked);
	seq_printf(file, "violations %ld\n", atomic_long_read(&violations));
}

/*
 * What is not present has no accessed bit; bit 56 of a swap entry is of its offset. Page
 * walks hand such entries on: those of pages that a device has to itself. Mode off still.
 */
static void __init check_swap_entry(void)
{
	struct vm_area_struct vma = { .vm_mm = &init_mm };
	pte_t entry = swp_entry_to_pte(swp_entry(1, 1)), pte = entry;

	if (ptep_test_and_clear_young(&vma, 0, &pte) || !pte_same(pte, entry))
		abis_debug_violation("an accessed bit is cleared of what is not present", 0, pte);
}

void __init abis_debug_init(struct dentry *dir)
{
	check_swap_entry();
	abis_debug_mutants_init(dir);
	if (oracle_msr)
		pr_info("every elision is checked by the machine's TLB oracle\n");
	else
		pr_warn("no TLB oracle here: nothing is checked\n");
}
