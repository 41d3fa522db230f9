// SPDX-License-Identifier: GPL-2.0-only
/*
 * When an address space gets a tree for each node, and what a CPU loads.
 *
 * It begins with mm->pgd alone. When a CPU of a second node is about to run one of its
 * threads, that thread makes the trees on its way to user mode: a root for each node,
 * empty but for the kernel's half, so that a switch never has to allocate. From then on
 * mm->pgd is what Linux reads and changes, and no CPU walks it.
 */

#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/smp.h>

#include <asm/mmu_context.h>
#include <asm/pgalloc.h>
#include <asm/tlbflush.h>

#include "numapte.h"

static DEFINE_MUTEX(begin_lock);

void numapte_mm_init(struct mm_struct *mm)
{
	struct numapte_context *context = &mm->context.numapte;

	/* dup_mm() has copied the parent's. */
	context->mm = NULL;
	context->home = NUMA_NO_NODE;
	context->eligible = numapte_offered() && READ_ONCE(numapte_mode) != MODE_OFF;
}

pgd_t *__numapte_pgd(struct mm_struct *mm)
{
	struct numapte_mm *nm = numapte_trees(mm);
	unsigned long *root = nm ? nm->top.page[numa_node_id()] : NULL;

	return root ? (pgd_t *)root : mm->pgd;
}

pgd_t *__numapte_loaded_pgd(struct mm_struct *mm)
{
	struct numapte_mm *nm = numapte_trees(mm);
	pgd_t *pgd = __va(read_cr3_pa());
	int node;

	if (!nm)
		return mm->pgd;
	for (node = 0; node < nr_node_ids; node++) {
		if ((pgd_t *)nm->top.page[node] == pgd)
			return pgd;
	}
	return mm->pgd;
}

/* Is @task all that runs @mm? Not asked of mm_users: whoever only looks at @mm is in that, too. */
static bool is_alone(struct mm_struct *mm, struct task_struct *task)
{
	return task->mm == mm && !(task->flags & PF_KTHREAD) &&
	       atomic_read(&task->signal->live) == 1 && !test_bit(MMF_MULTIPROCESS, &mm->flags);
}

/* Must @task, which runs @mm here, make trees, or complete this node's, before it goes on? */
static bool must_act(struct mm_struct *mm, struct task_struct *task)
{
	struct numapte_context *context = &mm->context.numapte;
	struct numapte_mm *nm = numapte_trees(mm);
	int node = numa_node_id(), home;
	u64 bit = BIT_ULL(node);

	if (nm) {
		if (READ_ONCE(nm->nodes) & bit)
			return false;
		if (nm->eager)
			return true;
		set_bit(node, (unsigned long *)&nm->nodes);
		return false;
	}
	if (!context->eligible || test_bit(MMF_NUMAPTE_REFUSED, &mm->flags) ||
	    READ_ONCE(numapte_mode) == MODE_OFF)
		return false;
	if (READ_ONCE(numapte_forced))
		return true;
	/* A child of vfork() has its parent's @mm until it calls exec(). */
	if (task->vfork_done)
		return false;
	home = READ_ONCE(context->home);
	/* One thread is on one node at a time, and leaves the last for good. */
	if (home == NUMA_NO_NODE || (home != node && is_alone(mm, task))) {
		WRITE_ONCE(context->home, node);
		return false;
	}
	return home != node;
}

/*
 * Whenever a thread comes to run here, and at its faults, for the one that was told may have
 * gone on elsewhere: have it come by in resume_user_mode_work(). Does not sleep.
 */
void __numapte_switched(struct mm_struct *mm, struct task_struct *task)
{
	struct numapte_mm *nm = numapte_trees(mm);

	if (mm == &init_mm)
		return;
	if (nm)
		numapte_audit_root(mm, nm);
	task = task ?: current;
	if (must_act(mm, task) && task->mm == mm && !(task->flags & PF_KTHREAD))
		set_tsk_thread_flag(task, TIF_NOTIFY_RESUME);
}

static void free_roots(struct numapte_mm *nm)
{
	int node;

	for (node = 0; node < nr_node_ids; node++) {
		if (!nm->top.page[node])
			continue;
		numapte_root_dtor((pgd_t *)nm->top.page[node]);
		numapte_page_free(nm->top.page[node], NUMAPTE_PGD);
	}
	kfree(nm->gens);
	kfree(nm);
}

/* One tree is right, too: nothing is killed for these. */
static struct numapte_mm *make_roots(struct mm_struct *mm)
{
	gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_NORETRY;
	struct numapte_mm *nm;
	unsigned long *root;
	int node;

	if (numapte_denied(0))
		return NULL;
	nm = kzalloc(struct_size(nm, top.page, 2 * nr_node_ids), gfp | __GFP_NOWARN);
	if (!nm)
		return NULL;
	nm->mm = mm;
	nm->gens = numapte_gens_alloc(gfp);
	if (!nm->gens) {
		kfree(nm);
		return NULL;
	}
	nm->scan_from = (unsigned long *)(nm->top.page + nr_node_ids);
	nm->top.level = NUMAPTE_PGD;
	nm->eager = READ_ONCE(numapte_mode) == MODE_EAGER;
	for_each_online_node(node) {
		root = numapte_page_alloc(node, NUMAPTE_PGD, gfp);
		if (!root) {
			free_roots(nm);
			return NULL;
		}
		numapte_root_ctor(mm, (pgd_t *)root);
		numapte_own(&nm->top, node, root);
	}
	return nm;
}

/*
 * Publish the roots, then have each CPU that may walk mm->pgd load its own. A CPU that is in
 * mm_cpumask is interrupted, a lazy one, too: it returns to the process without a load of
 * CR3, and its paging-structure caches know the PCID, not the root. Any other sees the raised
 * generation when it switches to @mm, and flushes what it holds under an old PCID: it sets
 * its bit in mm_cpumask before it reads the generation, and reads the roots after that.
 */
static void publish(struct mm_struct *mm, struct numapte_mm *nm)
{
	struct page *top = virt_to_page(mm->pgd);

	__folio_set_pgtable(page_folio(top));
	numapte_table_set(page_ptdesc(top), &nm->top);
	/* Pairs with numapte_trees(): whoever fills a root is seen by the setters, too. */
	smp_store_release(&mm->context.numapte.mm, nm);
	inc_mm_tlb_gen(mm);
	if (!numapte_mutant(MUTANT_ENABLE_NOT_LAZY))
		on_each_cpu_mask(mm_cpumask(mm), numapte_reload, mm, true);
	/* Pairs with numapte_audit_root(): no CPU walks mm->pgd from here on. */
	smp_store_release(&nm->is_loaded, true);
}

/*
 * Mode eager: all that there is for @node, which runs @mm from now on. Where memory does not
 * suffice it has faults, as with mode on.
 */
static void fill_all(struct mm_struct *mm, struct numapte_mm *nm, int node)
{
	VMA_ITERATOR(vmi, mm, 0);
	struct vm_area_struct *vma;

	mmap_read_lock(mm);
	set_bit(node, (unsigned long *)&nm->nodes);
	for_each_vma(vmi, vma) {
		unsigned long addr = vma->vm_start, skip;

		while (addr < vma->vm_end) {
			if (fatal_signal_pending(current) ||
			    numapte_fill(mm, nm, addr, node, false, &skip))
				goto out;
			addr = (addr & ~(skip - 1)) + skip;
			if (!addr)
				break;
			cond_resched();
		}
	}
out:
	mmap_read_unlock(mm);
}

static void begin(struct mm_struct *mm)
{
	struct numapte_context *context = &mm->context.numapte;
	struct numapte_mm *nm = make_roots(mm);

	/* Threads of several nodes come here at once. */
	mutex_lock(&begin_lock);
	if (context->mm) {
		if (nm)
			free_roots(nm);
	} else if (nm) {
		/*
		 * Who is about to change an entry, and has seen the key off, holds the entry's
		 * lock, which a fill needs, too; or no VMA covers the entry, so no fill comes
		 * there (free_pgtables(), a table withdrawn for a split).
		 */
		static_branch_enable(&numapte_key);
		/* Another thread may have had no memory meanwhile. */
		context->eligible = true;
		if (!nm->eager) {
			nm->nodes = BIT_ULL(numa_node_id());
			if (context->home != NUMA_NO_NODE)
				nm->nodes |= BIT_ULL(context->home);
		}
		publish(mm, nm);
		numapte_reclaim_add(nm);
		numapte_count(begun, 1);
	} else {
		context->eligible = false;
		numapte_count(refused, 1);
	}
	mutex_unlock(&begin_lock);
}

void __numapte_resume(void)
{
	struct mm_struct *mm = current->mm;
	struct numapte_mm *nm;
	u64 nodes;

	if (!mm || !must_act(mm, current))
		return;
	if (!mm->context.numapte.mm)
		begin(mm);
	nm = numapte_trees(mm);
	if (!nm || !nm->eager)
		return;
	nodes = BIT_ULL(numa_node_id()) | (READ_ONCE(numapte_forced) & nm->top.own);
	if (mm->context.numapte.home != NUMA_NO_NODE)
		nodes |= BIT_ULL(mm->context.numapte.home);
	for (nodes &= ~READ_ONCE(nm->nodes); nodes; nodes &= nodes - 1)
		fill_all(mm, nm, __ffs64(nodes));
}

void __numapte_mm_free(struct mm_struct *mm)
{
	struct numapte_mm *nm = mm->context.numapte.mm;
	struct page *top;

	if (!nm)
		return;
	top = virt_to_page(mm->pgd);
	numapte_table_unset(page_ptdesc(top));
	__folio_clear_pgtable(page_folio(top));
	mm->context.numapte.mm = NULL;
	numapte_reclaim_del(nm);
	free_roots(nm);
}
