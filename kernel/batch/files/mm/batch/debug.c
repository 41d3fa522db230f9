// SPDX-License-Identifier: GPL-2.0-only
/* Asks the emulated machine who may still write what is cleaned, and breaks things on purpose. */

#define pr_fmt(fmt) "batch: " fmt

#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include <asm/tlbflush.h>

#include "../ceasefire/oracle.h"
#include "batch.h"

#define RETRIES		1000
#define RIGHT_WRITABLE	BIT(0)	/* machine_holder.rights */

static const struct {
	const char *name;
	const char *what;
} mutants[MUTANTS] = {
	[MUTANT_NONE] = { "none", "nothing is broken" },
	[MUTANT_UNFLUSHED] = { "unflushed", "what is write-protected is not flushed" },
	[MUTANT_PENDING_IGNORED] = { "pending-ignored", "a flush under way counts as done" },
	[MUTANT_CLEAN_EARLY] = { "clean-early", "the dirty bit is taken before the flush" },
	[MUTANT_WRITE_LEFT] = { "write-left", "what is cleaned may be written unnoticed" },
	[MUTANT_MAPPING_FORGOTTEN] = { "mapping-forgotten", "one mapping of several is cleaned" },
};

enum batch_mutant batch_mutant_chosen;

static int __init mutant_setup(char *arg)
{
	int i;

	for (i = 0; i < MUTANTS; i++) {
		if (strcmp(arg ?: "", mutants[i].name))
			continue;
		batch_mutant_chosen = i;
		if (i)
			pr_warn("broken on purpose: %s (%s)\n", mutants[i].name, mutants[i].what);
		return 0;
	}
	pr_err("batch_mutant=%s is no break that this kernel knows\n", arg ?: "");
	return -EINVAL;
}
early_param("batch_mutant", mutant_setup);

bool writeback_batch_debug_forgets(struct vm_area_struct *vma, unsigned long addr)
{
	pgoff_t index = vma->vm_pgoff + ((addr - vma->vm_start) >> PAGE_SHIFT);
	struct vm_area_struct *first;

	if (!batch_mutant(MUTANT_MAPPING_FORGOTTEN))
		return false;
	vma_interval_tree_foreach(first, &vma->vm_file->f_mapping->i_mmap, index, index) {
		if (first->vm_flags & VM_SHARED)
			return vma != first;
	}
	return false;
}

/* Between protecting and flushing: so that others come in between. */
void batch_debug_linger(void)
{
	if (batch_mutant(MUTANT_CLEAN_EARLY) || batch_mutant(MUTANT_PENDING_IGNORED))
		mdelay(2);
}

/* May this CPU use what it holds of @mm? If it runs something else it flushes before. */
static bool may_use(const struct machine_holder *holder, struct mm_struct *mm)
{
	int cpu = oracle_cpu(holder->apic_id);
	/* Page-table isolation has a second PCID. */
	unsigned int asid = (holder->pcid & 0x7ff) ? (holder->pcid & 0x7ff) - 1 : 0;

	if (cpu < 0 || asid >= TLB_NR_DYN_ASIDS)
		return true;
	return READ_ONCE(per_cpu(cpu_tlbstate, cpu).loaded_mm) == mm &&
	       !READ_ONCE(per_cpu(cpu_tlbstate_shared, cpu).is_lazy) &&
	       READ_ONCE(per_cpu(cpu_tlbstate, cpu).ctxs[asid].ctx_id) == mm->context.ctx_id;
}

static const struct machine_holder *find_writer(struct oracle *oracle, struct mm_struct *mm,
						unsigned long addr)
{
	unsigned int i, count = oracle_ask(oracle, mm, addr, 1, MACHINE_FLAG_TLB, MACHINE_ALL_CPUS);

	for (i = 0; i < count; i++) {
		const struct machine_holder *holder = &oracle->holders[i];

		if (holder->rights & RIGHT_WRITABLE && may_use(holder, mm))
			return holder;
	}
	return NULL;
}

/* @pte is about to clean the page at @addr without a flush; its slot is empty, and locked. */
void batch_debug_cleaned(struct mm_struct *mm, unsigned long addr, pte_t pte)
{
	const struct machine_holder *writer = NULL;
	unsigned long flags;
	int i;

	if (!oracle_msr)
		return;
	local_irq_save(flags);
	for (i = 0; i < RETRIES; i++) {
		writer = find_writer(oracle_here(), mm, addr);
		/* Another one in the kernel may be about to flush. */
		if (!writer || writer->state & MACHINE_HOLDER_USER ||
		    oracle_cpu(writer->apic_id) == smp_processor_id())
			break;
		cpu_relax();
	}
	batch_count(checked, 1);
	if (writer || pte_write(pte)) {
		batch_count(violations, 1);
		pr_warn_ratelimited("CPU %d may write %lx, which is being cleaned\n",
				    writer ? oracle_cpu(writer->apic_id) : -1, addr);
	}
	local_irq_restore(flags);
}

/*
 * A slab of kernel address space, as an allocator would take it: mapped, used by every
 * CPU and unmapped, at once or page by page. "PAGES range" or "PAGES pages".
 */
#define SLAB_PAGES_MAX	512

static void use_slab(void *area)
{
	const struct vm_struct *slab = area;
	unsigned long offset;

	for (offset = 0; offset < get_vm_area_size(slab); offset += PAGE_SIZE)
		READ_ONCE(*(char *)(slab->addr + offset));
}

static int unmap_slab(unsigned int count, bool by_range, struct page **pages)
{
	struct vm_struct *area = get_vm_area((unsigned long)count << PAGE_SHIFT, VM_SPARSE);
	unsigned long start, end, addr;
	int err;

	if (!area)
		return -ENOMEM;
	start = (unsigned long)area->addr;
	end = start + ((unsigned long)count << PAGE_SHIFT);
	err = vm_area_map_pages(area, start, end, pages);
	if (!err) {
		on_each_cpu(use_slab, area, true);
		if (by_range) {
			vm_area_unmap_pages(area, start, end);
		} else {
			for (addr = start; addr < end; addr += PAGE_SIZE)
				vm_area_unmap_pages(area, addr, addr + PAGE_SIZE);
		}
	}
	free_vm_area(area);
	return err;
}

static ssize_t slab_write(struct file *file, const char __user *from, size_t size, loff_t *offset)
{
	char text[32] = "", how[8] = "";
	struct page **pages;
	unsigned int count, i;
	int err = -ENOMEM;

	if (size >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, size))
		return -EFAULT;
	if (sscanf(text, "%u %7s", &count, how) != 2 || !count || count > SLAB_PAGES_MAX ||
	    (strcmp(how, "range") && strcmp(how, "pages")))
		return -EINVAL;
	pages = kvcalloc(count, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return -ENOMEM;
	for (i = 0; i < count; i++) {
		pages[i] = alloc_page(GFP_KERNEL);
		if (!pages[i])
			goto out;
	}
	err = unmap_slab(count, !strcmp(how, "range"), pages);
out:
	while (i--)
		__free_page(pages[i]);
	kvfree(pages);
	return err ?: size;
}

static const struct file_operations slab_fops = {
	.write	= slab_write,
};

void __init batch_debug_init(struct dentry *dir)
{
	debugfs_create_file("slab", 0200, dir, NULL, &slab_fops);
}
