// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who holds what nobody may have any more?
 *
 *   echo ADDRESS PAGES >/sys/kernel/debug/ceasefire/held
 *
 * is about the writer's own address space: ADDRESS in hexadecimal, 512 pages at most. EBUSY:
 * a CPU that runs a program of this address space holds an entry of one of them. CPUs in
 * the kernel may be about to flush, and CPUs that run something else flush before they come
 * back, so neither counts. ENXIO: this machine cannot be asked.
 */

#define pr_fmt(fmt) "ceasefire: " fmt

#include <linux/cleanup.h>
#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/irqflags.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "counters.h"
#include "oracle.h"

#define TEXT_MAX 64

/* The first of the CPUs that do. Return: -1: none. */
static int find_holder(struct mm_struct *mm, unsigned long addr, unsigned int pages)
{
	struct oracle *oracle;
	unsigned long flags;
	unsigned int i, count;
	int cpu = -1;

	local_irq_save(flags);
	oracle = oracle_here();
	count = oracle_ask(oracle, mm, addr, pages, MACHINE_FLAG_TLB, MACHINE_ALL_CPUS);
	for (i = 0; i < count && cpu < 0; i++) {
		if (oracle->holders[i].state & MACHINE_HOLDER_USER)
			cpu = oracle_cpu(oracle->holders[i].apic_id);
	}
	local_irq_restore(flags);
	return cpu;
}

static ssize_t held_write(struct file *file, const char __user *from, size_t bytes, loff_t *pos)
{
	char *text __free(kfree) = NULL;
	unsigned long addr;
	unsigned int pages;
	int cpu;

	if (!oracle_msr)
		return -ENXIO;
	if (bytes >= TEXT_MAX)
		return -EINVAL;
	text = memdup_user_nul(from, bytes);
	if (IS_ERR(text))
		return PTR_ERR(no_free_ptr(text));
	if (sscanf(text, "%lx %u", &addr, &pages) != 2 || !pages || pages > PTRS_PER_PTE ||
	    addr >= TASK_SIZE_MAX)
		return -EINVAL;
	cpu = find_holder(current->mm, addr, pages);
	if (cpu < 0)
		return bytes;
	pr_debug("CPU %d holds an entry of %#lx or the %u pages from there\n", cpu, addr, pages);
	return -EBUSY;
}

static const struct file_operations held_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = held_write,
};

void __init held_init(struct dentry *dir)
{
	debugfs_create_file("held", 0200, dir, NULL, &held_fops);
}
