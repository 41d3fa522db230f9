// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hidden entries. Data of a file that is only read, among several threads, is inserted
 * with the primary PTE left not present to hardware (pte_hide()). To Linux it is present.
 * A walk then finds nothing to mark: not those by other CPUs that fetch what a
 * fault-around has mapped, nor those that a processor makes on a guess. Those tell
 * nothing of who needs a flush, and would make the end of the mapping a flush of everyone.
 *
 * A read that faults, by another CPU or by this one when it has lost the entry, inserts
 * the page again if the SPTE lets it; else it reveals the entry: what the SPTE says
 * stays true, since whoever walks to it from then on sets the accessed bit.
 *
 * Who reads with faults disabled (a sampler, a probe) cannot wait for the lock that the
 * rest of this file has. It reveals by an exchange (abis_reveal_nofault()), maybe from an
 * NMI. So a hidden entry may turn into one that hardware marks at any moment, lock or
 * no lock: all changes of one are exchanges, and who fails to make one has lost it.
 *
 * A read that faults would not without hiding. It is charged to the account of insertion
 * (adapt.c), and hiding has an account of its own besides: each fault costs a point, each
 * page that goes without a flush of everyone brings one, and who has no points left hides
 * one page in SAMPLE.
 */

#include <linux/abis_fault.h>
#include <linux/bitmap.h>
#include <linux/mm.h>

#include <asm/processor.h>

#include "insert.h"

#define HIDING_MAX	1024
/* So many faults are risked before any page has paid. */
#define HIDING_DEBT	960
#define SAMPLE		64
/* What an interrupt for the pages of a window must bring in later. */
#define HIDING_TAKEN	8
/* So much is risked on such interrupts before any has paid. */
#define TAKING_DEBT	256
/* As many as a fault-around maps; within one page table. */
#define WINDOW_PAGES	16ul

/* Pages that were not hidden for want of points. */
static DEFINE_PER_CPU(unsigned int, sampled);

static void hiding_add(struct mm_struct *mm, int points)
{
	int hiding = READ_ONCE(mm->context.abis.hiding) + points;

	/* A hint: who loses a race may lose a point. */
	WRITE_ONCE(mm->context.abis.hiding, clamp(hiding, -HIDING_DEBT, HIDING_MAX));
}

/* Hidden to the end, and taken away without a flush of everyone. */
void abis_hidden_kept(struct mm_struct *mm)
{
	this_cpu_inc(abis_stat.hidden_kept);
	hiding_add(mm, 1);
}

/*
 * Data of a file that cannot be written here, among several threads: it may be one
 * thread's, to be read once and unmapped. A fault-around maps more than is read
 * before the CPU has to flush everything or the thread goes on elsewhere, and
 * each page that is then walked for makes the end of the mapping a flush of everyone,
 * who all have to walk again. Program text is for all.
 *
 * This chooses who is hidden, and nothing else: the VMA's flags, and the number of
 * users, may change at any time afterwards. What is hidden is safe whatever they are,
 * since all that asks does so by the PTE and its SPTE. And it may be read whatever they
 * are: whoever takes rights away makes a new PTE, which is not hidden.
 */
static bool is_read_apart(const struct vm_area_struct *vma)
{
	vm_flags_t unwanted = VM_WRITE | VM_EXEC | VM_LOCKED | VM_UFFD_MISSING |
			      VM_UFFD_WP | VM_UFFD_MINOR;

	if (abis_mutant(ABIS_MUTANT_HIDDEN_EXEC))
		unwanted &= ~VM_EXEC;
	return vma->vm_file && !(vma->vm_flags & unwanted) &&
	       atomic_read(&vma->vm_mm->mm_users) > 1;
}

/* Is it worth the faults? */
static bool may_hide(const struct vm_area_struct *vma, pte_t pte)
{
	/* Who is flushed as ever, or has page tables that devices walk, gains nothing. */
	if (pte_write(pte) || !is_read_apart(vma) || !abis_mm_is_eligible(vma->vm_mm) ||
	    abis_mutant(ABIS_MUTANT_HIDE_NOTHING))
		return false;
	/*
	 * By request the machine walks this node's tree for what is in sight, and an exchange
	 * hides it afterwards. Neither knows of replicas.
	 */
	if (abis_request_msr && abis_has_trees(vma->vm_mm) &&
	    !abis_mutant(ABIS_MUTANT_REQUEST_REPLICATED))
		return false;
	if (READ_ONCE(vma->vm_mm->context.abis.hiding) > -HIDING_DEBT)
		return true;
	return !(this_cpu_inc_return(sampled) % SAMPLE);
}

/*
 * Does who causes the fault use the page at once? Populated (MAP_POPULATE, madvise(),
 * get_user_pages()) it may be for anyone. This CPU has it, and is named as its holder,
 * all the same; but a user elsewhere would pay for the hiding with a fault. What the
 * kernel copies for the thread that faults is that thread's: an exception sets the
 * second flag, get_user_pages() only for KVM, whose notifier makes @vmf's mm ineligible.
 */
static bool is_for_itself(const struct vm_fault *vmf)
{
	return vmf->flags & (FAULT_FLAG_USER | FAULT_FLAG_INTERRUPTIBLE);
}

bool abis_hides_fault(const struct vm_fault *vmf, pte_t pte)
{
	return is_for_itself(vmf) && may_hide(vmf->vma, pte);
}

/* @pte is not present to hardware. */
pte_t __pte_reveal(pte_t pte)
{
	pteval_t old = pte_val(pte);
	pteval_t val = (old & ~(_PAGE_PROTNONE | _PAGE_HIDDEN)) | _PAGE_PRESENT;

	if (!pte_hidden(pte))
		return pte;
	return __pte(flip_protnone_guard(old, val, PTE_PFN_MASK));
}

bool abis_hidden_needs_flush(pte_t oldpte, pte_t newpte)
{
	return pte_needs_flush(pte_reveal(oldpte), newpte);
}

/* Return: it was hidden until now. */
static bool reveal(pte_t *ptep, pteval_t flags)
{
	pteval_t old = READ_ONCE(ptep->pte);

	while (pte_hidden(__pte(old))) {
		if (try_cmpxchg(&ptep->pte, &old, pte_val(pte_reveal(__pte(old))) | flags))
			return true;
	}
	return false;
}

void __abis_reveal(pte_t *ptep, unsigned int nr)
{
	while (nr--)
		reveal(ptep + nr, 0);
}

/*
 * The page table entry of @addr in a tree of @mm, or NULL. Interrupts off: whoever frees a
 * page table interrupts all who run @mm first, and waits (freed page tables are always flushed
 * everywhere, and by interrupts in this Linux), or, where there are trees for nodes, waits for
 * RCU, and interrupts a node's CPUs before that node's replica goes. One that is moved to
 * another address meanwhile is as good: what is revealed there is no less right.
 */
static pte_t *find_lockless(pgd_t *root, unsigned long addr)
{
	pgd_t *pgdp = pgd_offset_pgd(root, addr), pgd = READ_ONCE(*pgdp);
	p4d_t *p4dp, p4d;
	pud_t *pudp, pud;
	pmd_t *pmdp, pmd;

	if (pgd_none(pgd) || unlikely(pgd_bad(pgd)))
		return NULL;
	p4dp = p4d_offset_lockless(pgdp, pgd, addr);
	p4d = READ_ONCE(*p4dp);
	if (p4d_none(p4d) || p4d_leaf(p4d) || unlikely(p4d_bad(p4d)))
		return NULL;
	pudp = pud_offset_lockless(p4dp, p4d, addr);
	pud = READ_ONCE(*pudp);
	if (!pud_present(pud) || pud_leaf(pud) || unlikely(pud_bad(pud)))
		return NULL;
	pmdp = pmd_offset_lockless(pudp, pud, addr);
	pmd = pmdp_get_lockless(pmdp);
	if (!pmd_present(pmd) || pmd_leaf(pmd) || unlikely(pmd_bad(pmd)))
		return NULL;
	return pte_offset_kernel(&pmd, addr);
}

/*
 * The kernel has found nothing at @addr, which is user memory, and may not fault: it is
 * in an interrupt, in an NMI, or has page faults disabled. If the page is hidden it is
 * revealed. Not while CR3 is not what the rest of the kernel thinks it is: what is read
 * then (in fill_tlb(), on the way to a reboot) has other tables, and fails. Where a node has
 * a replica of the page table, it fails there, too: what is revealed here is filled in by the
 * next access that may fault. Return: try again.
 */
bool __abis_reveal_nofault(struct mm_struct *mm, unsigned long addr)
{
	unsigned long flags;
	pgd_t *root;
	bool again = false;
	pte_t *ptep;

	if (!mm || addr >= TASK_SIZE_MAX)
		return false;
	local_irq_save(flags);
	root = __va(read_cr3_pa());
	if (abis_is_loaded(mm) &&
	    (root == mm->pgd ||
	     (abis_has_trees(mm) && !abis_mutant(ABIS_MUTANT_HIDDEN_UNREVEALED)))) {
		ptep = find_lockless(mm->pgd, addr);
		if (ptep)
			reveal(ptep, _PAGE_SWA);
		/* What this CPU's own walk finds now, whoever has revealed it. */
		if (!abis_mutant(ABIS_MUTANT_HIDDEN_AGAIN))
			ptep = find_lockless(root, addr);
		again = ptep && pte_flags(ptep_get(ptep)) & _PAGE_PRESENT;
	}
	local_irq_restore(flags);
	return again;
}

/* The pages of a fault-around: of one VMA, and of one page table. */
struct window {
	unsigned long start;
	unsigned long end;
	pte_t *ptep;
};

static struct window window_of(struct vm_area_struct *vma, unsigned long addr, pte_t *ptep)
{
	unsigned long first = round_down(addr, WINDOW_PAGES * PAGE_SIZE);
	struct window window = {
		.start = max(first, vma->vm_start),
		.end = min(first + WINDOW_PAGES * PAGE_SIZE, vma->vm_end),
	};

	window.ptep = ptep - ((addr - window.start) >> PAGE_SHIFT);
	return window;
}

/*
 * Somebody else reads here, and will go on to the neighbours, which a fault-around
 * may have mapped together. Nobody can have walked to what is hidden: their SPTEs
 * stay true, and the accessed bits clear.
 */
static void reveal_around(struct vm_area_struct *vma, unsigned long addr, pte_t *ptep)
{
	struct window window = window_of(vma, addr, ptep);

	for (; window.start < window.end; window.start += PAGE_SIZE, window.ptep++)
		reveal(window.ptep, 0);
}

/* The CPU that alone may hold what was filled from this hidden slot, or -1. */
static int holder_of(struct mm_struct *mm, pte_t *ptep)
{
	struct abis_verdict verdict;

	if (!pte_hidden(ptep_get(ptep)))
		return -1;
	verdict = abis_decide(abis_spte_read(ptep), false, abis_version(mm));
	return verdict.targets == ABIS_CPU ? verdict.cpu : -1;
}

/*
 * Another CPU alone may hold what is hidden: flush it there, then nobody does. That
 * is one interrupt now, or none if that CPU runs something else, for all of them
 * later. The thread has gone on here, and whatever of the window that CPU holds comes
 * along.
 *
 * Who takes over knows nothing but what the flush has proved: a slot becomes
 * UNCACHED only if it is among those that are flushed on its holder. Whoever fills it
 * meanwhile has had it revealed, and set its accessed bit. A batch that took such a PTE
 * away and put it back has left the SPTE, so the holder is flushed here, and once more by
 * the batch. The epoch stays as it is, too: tracking ends only when all who hold such
 * locks have let go.
 */
static bool take_over(struct vm_area_struct *vma, unsigned long addr, pte_t *ptep)
{
	struct mm_struct *mm = vma->vm_mm;
	struct window window = window_of(vma, addr, ptep);
	unsigned int i, pages = (window.end - window.start) >> PAGE_SHIFT;
	int holder = holder_of(mm, ptep);
	DECLARE_BITMAP(taken, WINDOW_PAGES) = {};
	struct needed needed = { };
	struct abis_hold hold;

	if (READ_ONCE(mm->context.abis.hiding) < -TAKING_DEBT)
		return false;
	/* A CPU that does not run @mm is not interrupted, and of two that do nobody is spared. */
	if (holder < 0 || !abis_table_is_own(ptep) || !abis_spares_others(mm, holder))
		return false;

	abis_hold_init(&hold, false);
	for (i = 0; i < pages; i++) {
		if (holder_of(mm, window.ptep + i) != holder)
			continue;
		__set_bit(i, taken);
		if (abis_mutant(ABIS_MUTANT_HIDDEN_TAKEN) && window.ptep + i != ptep)
			continue;
		abis_hold_add(&hold, holder, window.start + i * PAGE_SIZE, window.ptep + i);
		needed_ask(&needed, mm, window.start + i * PAGE_SIZE, PAGE_SIZE);
	}
	needed_begin(&needed);
	abis_hold_flush(mm, &hold);
	needed_end();
	for_each_set_bit(i, taken, pages) {
		/* The table is there: see above. */
		spte_t *spte = abis_spte_write(window.ptep + i);

		if (spte)
			*spte = SPTE_UNCACHED;
		this_cpu_inc(abis_stat.hidden_taken);
	}
	hiding_add(mm, -HIDING_TAKEN);
	return true;
}

/*
 * What this CPU has lost at once it finds again at once: the pages around that are
 * hidden, too, and that it may insert. Each slot is asked for itself, and what is hidden
 * is inserted only if nobody else holds it (abis_may_insert()). The window is of one VMA
 * and one page table, whose lock is held; it may hold any kind of PTE.
 */
static unsigned int add_around(struct vm_area_struct *vma, unsigned long addr,
			       pte_t *ptep, struct slot *slots)
{
	struct window window = window_of(vma, addr, ptep);
	unsigned int nr = 0;

	for (; window.start < window.end; window.start += PAGE_SIZE, window.ptep++) {
		pte_t pte = ptep_get(window.ptep);

		if (window.ptep == ptep || !pte_hidden(pte) ||
		    !abis_may_insert(vma->vm_mm, abis_spte_read(window.ptep), pte) ||
		    !abis_is_plain(vma, pte_reveal(pte)))
			continue;
		slots[nr++] = (struct slot) {
			.addr = window.start,
			.ptep = window.ptep,
			/* The table is there: the slot that the fault is about has an SPTE. */
			.spte = abis_spte_write(window.ptep),
			.pte = pte_reveal(pte),
			.old = pte,
			.hide = true,
		};
	}
	return nr;
}

bool __abis_hidden_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned long addr = vmf->address;
	pte_t *ptep = vmf->pte, pte = vmf->orig_pte;
	struct secondary *secondary = this_cpu_read(abis_secondaries);
	struct mm_struct *mm = vma->vm_mm;
	struct slot slot = {
		.addr = addr,
		.ptep = ptep,
		.pte = pte_mkyoung(pte_reveal(pte)),
		.old = pte,
		.hide = true,
	};
	unsigned int nr;
	bool is_shared;

	this_cpu_inc(abis_stat.hidden_faults);
	hiding_add(mm, -1);
	abis_adapt_refault(mm);
	if (abis_inserting() && abis_pays_for_fault(mm) && may_hide(vma, slot.pte) &&
	    abis_is_insertable(vma, slot.pte) &&
	    (abis_may_insert(mm, abis_spte_read(ptep), pte) || take_over(vma, addr, ptep))) {
		slot.spte = abis_spte_write(ptep);
		if (!slot.spte)
			abis_refuse(ABIS_REFUSED_MEMORY, 1);
	}
	if (slot.spte) {
		secondary->slots[0] = slot;
		nr = 1 + add_around(vma, addr, ptep, secondary->slots + 1);
		this_cpu_add(abis_stat.hidden_again, nr);
		abis_insert(mm, secondary, secondary->slots, nr);
		return true;
	}
	this_cpu_inc(abis_stat.hidden_revealed);
	is_shared = !abis_may_insert(mm, abis_spte_read(ptep), pte);
	reveal(ptep, _PAGE_SWA);
	if (is_shared)
		reveal_around(vma, addr, ptep);
	if (abis_mutant(ABIS_MUTANT_HIDDEN_PRIVATE)) {
		spte_t *spte = abis_spte_write(ptep);

		if (spte)
			*spte = spte_private(smp_processor_id(), abis_version_to_stamp(mm));
	}
	return true;
}
