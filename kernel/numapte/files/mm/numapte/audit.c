// SPDX-License-Identifier: GPL-2.0-only
/*
 * Is every replica what the canonical table says? Asked of an entry whenever it is changed,
 * with its lock held, of the whole table now and then, and of everything on demand.
 */

#define pr_fmt(fmt) "numapte: " fmt

#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>

#include <asm/pgalloc.h>

#include "numapte.h"

#define TABLE_EVERY	64	/* changes of entries, on one CPU */

static DEFINE_PER_CPU(unsigned int, changes);

static const char * const wrong_names[] = {
	[NUMAPTE_RIGHT] = "right",
	[NUMAPTE_NOT_GRANTED] = "grants what the canonical entry does not",
	[NUMAPTE_LITTER] = "is not empty, and not present",
	[NUMAPTE_OTHER_TABLE] = "leads to another table",
	[NUMAPTE_OTHER_FRAME] = "maps another page",
	[NUMAPTE_OTHER_RIGHTS] = "has other rights",
	[NUMAPTE_OTHER_DIRTY] = "differs in what makes a shadow stack",
};

/* Of entries that lead to a table: where this node's tree should go on. */
static u64 page_below(enum numapte_level level, unsigned long entry, int node)
{
	struct numapte_table *below;
	struct page *page;

	if (!numapte_is_table(level, entry))
		return 0;
	page = pfn_to_page((entry & PTE_PFN_MASK) >> PAGE_SHIFT);
	below = numapte_table_of(page_ptdesc(page));
	return below && below->page[node] ? __pa(below->page[node]) : 0;
}

static bool is_wrong(struct numapte_table *table, unsigned int index, unsigned long entry, int node)
{
	unsigned long replica = READ_ONCE(table->page[node][index]) & ~sme_me_mask;
	enum numapte_wrong wrong;

	entry &= ~sme_me_mask;
	wrong = numapte_audit(table->level, entry, replica, page_below(table->level, entry, node));
	/* A processor without shadow stacks may have been late (ptep_set_wrprotect()). */
	if (wrong == NUMAPTE_OTHER_DIRTY && !cpu_feature_enabled(X86_FEATURE_SHSTK) &&
	    replica & NUMAPTE_DIRTY)
		wrong = NUMAPTE_RIGHT;
	if (wrong == NUMAPTE_RIGHT)
		return false;
	WARN_ONCE(1, pr_fmt("node %d, level %d, entry %u %s: %016lx of %016lx\n"), node,
		  table->level, index, wrong_names[wrong], replica, entry);
	return true;
}

static unsigned int audit_index(struct numapte_table *table, unsigned long *entries,
				unsigned int index)
{
	unsigned long entry = READ_ONCE(entries[index]);
	unsigned int wrong = 0;
	u64 own;

	for (own = READ_ONCE(table->own); own; own &= own - 1) {
		numapte_count(audits, 1);
		wrong += is_wrong(table, index, entry, __ffs64(own));
	}
	if (wrong)
		numapte_count(audit_failures, wrong);
	return wrong;
}

/*
 * The lock of @entry is held, or nobody else can change it. Not so all entries of a table
 * above the PTE level: of these the one alone.
 */
void numapte_audit_entry(struct numapte_table *table, unsigned long *entry)
{
	unsigned long *entries = PTR_ALIGN_DOWN(entry, PAGE_SIZE);
	unsigned int index = entry_index(entry), i;

	audit_index(table, entries, index);
	if (table->level != NUMAPTE_PTE || this_cpu_inc_return(changes) % TABLE_EVERY)
		return;
	for (i = 0; i < ENTRIES; i++)
		audit_index(table, entries, i);
}

/* What hardware set in replicas of @entry, which have just been changed, must be in @entry. */
void numapte_audit_kept(const unsigned long *entry, u64 found)
{
	if (!(found & ~READ_ONCE(*entry)))
		return;
	numapte_count(audit_failures, 1);
	WARN_ONCE(1, pr_fmt("lost what a CPU has set: %016llx of %016lx\n"), found, *entry);
}

struct audit {
	unsigned long spaces, tables, wrong;
};

/* The canonical entry at @addr of a level above PTE, under its lock. Return: what it is. */
static unsigned long audit_upper(struct audit *audit, unsigned long *entry, spinlock_t *lock)
{
	struct numapte_table *table = numapte_of(entry);
	unsigned long value;

	spin_lock(lock);
	value = READ_ONCE(*entry);
	if (table)
		audit->wrong += audit_index(table, PTR_ALIGN_DOWN(entry, PAGE_SIZE),
					    entry_index(entry));
	spin_unlock(lock);
	return value;
}

static void audit_ptes(struct audit *audit, struct mm_struct *mm, pmd_t *pmd, unsigned long addr)
{
	struct numapte_table *table;
	unsigned long *entries;
	spinlock_t *ptl;
	unsigned int i;
	pte_t *pte;

	pte = pte_offset_map_lock(mm, pmd, addr, &ptl);
	if (!pte)
		return;
	table = numapte_table_of(page_ptdesc(virt_to_page(pte)));
	if (table && table->own) {
		entries = PTR_ALIGN_DOWN(&pte->pte, PAGE_SIZE);
		for (i = 0; i < ENTRIES; i++)
			audit->wrong += audit_index(table, entries, i);
		audit->tables++;
	}
	pte_unmap_unlock(pte, ptl);
}

/* Return: how far it went. The VMA is locked: none of its tables above the PTE level can go. */
static unsigned long audit_addr(struct audit *audit, struct mm_struct *mm, unsigned long addr)
{
	unsigned long value;
	pgd_t *pgd = pgd_offset(mm, addr);
	p4d_t *p4d;
	pud_t *pud;
	pmd_t *pmd;

	value = audit_upper(audit, (unsigned long *)pgd, &mm->page_table_lock);
	if (!numapte_is_table(NUMAPTE_PGD, value))
		return PGDIR_SIZE;
	p4d = p4d_offset(pgd, addr);
	if (pgtable_l5_enabled()) {
		value = audit_upper(audit, (unsigned long *)p4d, &mm->page_table_lock);
		if (!numapte_is_table(NUMAPTE_P4D, value))
			return P4D_SIZE;
	}
	pud = pud_offset(p4d, addr);
	value = audit_upper(audit, (unsigned long *)pud, &mm->page_table_lock);
	if (!numapte_is_table(NUMAPTE_PUD, value))
		return PUD_SIZE;
	pmd = pmd_offset(pud, addr);
	value = audit_upper(audit, (unsigned long *)pmd, pmd_lockptr(mm, pmd));
	if (numapte_is_table(NUMAPTE_PMD, value))
		audit_ptes(audit, mm, pmd, addr);
	return PMD_SIZE;
}

static void audit_mm(struct audit *audit, struct mm_struct *mm)
{
	VMA_ITERATOR(vmi, mm, 0);
	struct vm_area_struct *vma;

	mmap_read_lock(mm);
	for_each_vma(vmi, vma) {
		unsigned long addr = vma->vm_start, size;

		while (addr < vma->vm_end) {
			size = audit_addr(audit, mm, addr);
			addr = (addr & ~(size - 1)) + size;
			if (!addr)
				break;
			cond_resched();
		}
	}
	mmap_read_unlock(mm);
	audit->spaces++;
}

/* Every table of every process that has trees. */
void numapte_audit_show(struct seq_file *file)
{
	struct audit audit = { };
	struct task_struct *task;
	struct mm_struct *mm;
	pid_t pid = 0;

	for (;;) {
		struct pid *next;

		rcu_read_lock();
		next = find_ge_pid(pid + 1, &init_pid_ns);
		task = next ? pid_task(next, PIDTYPE_TGID) : NULL;
		pid = next ? pid_nr(next) : -1;
		if (task)
			get_task_struct(task);
		rcu_read_unlock();
		if (pid < 0)
			break;
		if (!task)
			continue;
		mm = get_task_mm(task);
		put_task_struct(task);
		if (!mm)
			continue;
		if (numapte_trees(mm))
			audit_mm(&audit, mm);
		mmput(mm);
	}
	seq_printf(file, "spaces %lu\ntables %lu\nwrong %lu\n", audit.spaces, audit.tables,
		   audit.wrong);
}
