// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hidden entries. A write to a page that is mapped read-only ends in a walk of the
 * primary, and some processors set the accessed bit in that walk, although it
 * faults: nobody could tell any more who else has used the page. So where a page that
 * may be written later is inserted read-only, the primary PTE is left not present to
 * hardware (pte_hide()). To Linux it is present. The fault of a write then finds the
 * SPTE as it was, and so does everyone who takes the PTE away, asks, and flushes.
 *
 * A read that faults, by another CPU or by this one when it has lost the entry, inserts
 * the page again if the SPTE lets it; else it reveals the entry: what the SPTE says
 * stays true, since whoever walks to it from then on sets the accessed bit.
 *
 * That read is a fault that would not be without hiding. It is charged to the account
 * of insertion (adapt.c): who has none left hides nothing either. And nobody does for
 * writes where the probe has found that a faulting write leaves the accessed bit alone:
 * there it would gain nothing.
 *
 * Data of a file that is only read is hidden, too (is_read_apart()): not from writes
 * but from those walks that tell nothing of who needs a flush. It has an account of its
 * own besides: each fault costs a point, each page that goes without a flush of everyone
 * brings one, and who has no points left hides one page in SAMPLE.
 */

#include <linux/abis_fault.h>
#include <linux/bitmap.h>
#include <linux/mm.h>

#include "insert.h"

#define HIDING_MAX	1024
/* So many faults of data that is only read are risked before any page has paid. */
#define HIDING_DEBT	960
#define HIDING_WRITTEN	4
#define SAMPLE		64
/* What an interrupt for the pages of a window must bring in later. */
#define HIDING_TAKEN	8
/* So much is risked on such interrupts before any has paid. */
#define TAKING_DEBT	256
/* As many as a fault-around maps; within one page table. */
#define WINDOW_PAGES	16ul

/* Pages that were not hidden for want of points. */
static DEFINE_PER_CPU(unsigned int, sampled);

/*
 * Two accounts, each in its half of the word: of what may be written, for taking over
 * alone; and of the rest, for hiding, too.
 */
static unsigned int account_shift(const struct vm_area_struct *vma)
{
	return vma->vm_flags & VM_WRITE ? 0 : 16;
}

static int hiding_points(struct mm_struct *mm, unsigned int shift)
{
	return (s16)(READ_ONCE(mm->context.abis.hiding) >> shift);
}

static void hiding_add(struct mm_struct *mm, unsigned int shift, int points)
{
	int hiding = clamp(hiding_points(mm, shift) + points, -HIDING_DEBT, HIDING_MAX);
	u32 others = READ_ONCE(mm->context.abis.hiding) & ~(0xffffu << shift);

	/* A hint: who loses a race may lose a point. */
	WRITE_ONCE(mm->context.abis.hiding, others | (u32)(u16)hiding << shift);
}

/* A write that would have been a flush of everyone: it was worth keeping the page here. */
void abis_hidden_written(struct mm_struct *mm)
{
	this_cpu_inc(abis_stat.hidden_written);
	hiding_add(mm, 0, HIDING_WRITTEN);
}

/* Hidden to the end, and taken away without a flush of everyone. */
void abis_hidden_kept(struct mm_struct *mm)
{
	this_cpu_inc(abis_stat.hidden_kept);
	hiding_add(mm, 16, 1);
}

/*
 * Does the file system want to know of first writes? Then what is written will be
 * written back, and write-protected, soon.
 */
static bool is_noticed(struct vm_area_struct *vma)
{
	return (vma->vm_flags & VM_SHARED) && vma->vm_ops && vma->vm_ops->page_mkwrite;
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
 * since all that asks does so by the PTE and its SPTE.
 */
static bool is_read_apart(struct vm_area_struct *vma)
{
	return vma->vm_file && !(vma->vm_flags & (VM_WRITE | VM_EXEC)) &&
	       atomic_read(&vma->vm_mm->mm_users) > 1;
}

/*
 * Is @pte read-only and likely to be written later, or writable and likely to be
 * write-protected soon, or for reading only, and worth the faults? A write through a
 * clean entry would walk, so what is writable must be dirty.
 */
bool abis_may_hide(struct vm_area_struct *vma, pte_t pte)
{
	if (vma->vm_flags & (VM_LOCKED | VM_UFFD_MISSING | VM_UFFD_WP | VM_UFFD_MINOR))
		return false;
	if (pte_write(pte) && !(pte_dirty(pte) && is_noticed(vma)))
		return false;
	/* Who is flushed as ever, or has page tables that devices walk, gains nothing. */
	if (!abis_mm_is_eligible(vma->vm_mm) ||
	    (!(abis_is_hiding && (vma->vm_flags & VM_WRITE)) && !is_read_apart(vma)))
		return false;
	/* What may be written has no account but that of insertion, which the caller asks. */
	if ((vma->vm_flags & VM_WRITE) ||
	    hiding_points(vma->vm_mm, account_shift(vma)) > -HIDING_DEBT)
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
	return is_for_itself(vmf) && abis_may_hide(vmf->vma, pte);
}

bool abis_hidden_needs_flush(pte_t oldpte, pte_t newpte)
{
	return pte_needs_flush(pte_reveal(oldpte), newpte);
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

	for (; window.start < window.end; window.start += PAGE_SIZE, window.ptep++) {
		pte_t pte = ptep_get(window.ptep);

		if (pte_hidden(pte))
			set_ptes(vma->vm_mm, window.start, window.ptep, pte_reveal(pte), 1);
	}
}

/* The CPU that alone may hold what was filled from this hidden slot, or -1. */
static int holder_of(struct mm_struct *mm, pte_t *ptep)
{
	struct abis_verdict verdict;

	if (!pte_hidden(ptep_get(ptep)))
		return -1;
	verdict = abis_decide(abis_spte_read(ptep), false,
			      atomic64_read(&mm->context.abis.version));
	return verdict.targets == ABIS_CPU ? verdict.cpu : -1;
}

/*
 * Another CPU alone may hold what is hidden: flush it there, then nobody does. That
 * is one interrupt now, or none if that CPU runs something else, for all of them
 * later. So only where hiding has paid. Where nothing is written the thread has gone
 * on here, and whatever of the window that CPU holds comes along; where it is, two
 * threads may share a window, and each writes its pages once.
 *
 * Who takes over knows nothing but what the flush has proved: a slot becomes
 * UNCACHED only if it is among those that are flushed on its holder. Nobody can fill
 * it meanwhile: it is hidden when it is asked for, and the lock is held until it is
 * inserted here. A batch that took such a PTE away and put it back has left the SPTE,
 * so the holder is flushed here, and once more by the batch. The epoch stays as it is,
 * too: tracking ends only when all who hold such locks have let go.
 */
static bool take_over(struct vm_area_struct *vma, unsigned long addr, pte_t *ptep)
{
	struct mm_struct *mm = vma->vm_mm;
	bool is_written = vma->vm_flags & VM_WRITE;
	struct window window = { .start = addr, .end = addr + PAGE_SIZE, .ptep = ptep };
	int holder = holder_of(mm, ptep);
	DECLARE_BITMAP(taken, WINDOW_PAGES) = {};
	struct abis_hold hold;
	unsigned int i, pages;

	if (hiding_points(mm, account_shift(vma)) < (is_written ? HIDING_MAX / 2 : -TAKING_DEBT))
		return false;
	/* A CPU that does not run @mm is not interrupted, and of two that do nobody is spared. */
	if (holder < 0 || !abis_table_is_own(ptep) || !abis_spares_others(mm, holder))
		return false;
	if (!is_written)
		window = window_of(vma, addr, ptep);
	pages = (window.end - window.start) >> PAGE_SHIFT;

	abis_hold_init(&hold, false);
	for (i = 0; i < pages; i++) {
		if (holder_of(mm, window.ptep + i) != holder)
			continue;
		__set_bit(i, taken);
		if (abis_mutant(ABIS_MUTANT_HIDDEN_TAKEN) && window.ptep + i != ptep)
			continue;
		abis_hold_add(&hold, holder, window.start + i * PAGE_SIZE, window.ptep + i);
	}
	abis_hold_flush(mm, &hold);
	for_each_set_bit(i, taken, pages) {
		/* The table is there: see above. */
		spte_t *spte = abis_spte_write(window.ptep + i);

		if (spte)
			*spte = SPTE_UNCACHED;
		this_cpu_inc(abis_stat.hidden_taken);
	}
	hiding_add(mm, account_shift(vma), is_written ? -HIDING_WRITTEN : -HIDING_TAKEN);
	return true;
}

/*
 * What this CPU has lost at once it finds again at once, where data is only read: the
 * pages around that are hidden, too, and that it may insert. Each slot is asked for
 * itself, and what is hidden is inserted only if nobody else holds it (abis_may_insert()).
 * The window is of one VMA and one page table, whose lock is held; it may hold any kind
 * of PTE.
 */
static unsigned int add_around(struct vm_area_struct *vma, unsigned long addr,
			       pte_t *ptep, struct slot *slots)
{
	struct window window = window_of(vma, addr, ptep);
	unsigned int nr = 0;

	for (; window.start < window.end; window.start += PAGE_SIZE, window.ptep++) {
		pte_t pte = ptep_get(window.ptep);

		if (window.ptep == ptep || !pte_hidden(pte) || !abis_may_insert(vma->vm_mm, window.ptep))
			continue;
		pte = pte_reveal(pte);
		if (!abis_is_plain(vma, pte))
			continue;
		slots[nr++] = (struct slot) {
			.addr = window.start,
			.ptep = window.ptep,
			.pte = pte,
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
		.hide = true,
	};
	unsigned int nr;
	bool is_shared;

	this_cpu_inc(abis_stat.hidden_faults);
	if (!(vma->vm_flags & VM_WRITE))
		this_cpu_inc(abis_stat.hidden_reads);
	hiding_add(mm, account_shift(vma), -1);
	abis_adapt_refault(mm);
	if (abis_inserting() && abis_pays_for_fault(mm) && abis_may_hide(vma, slot.pte) &&
	    abis_insert_refusal(vma, slot.pte, 1) == ABIS_REFUSALS &&
	    (abis_may_insert(mm, ptep) || take_over(vma, addr, ptep))) {
		secondary->slots[0] = slot;
		nr = 1;
		if (!(vma->vm_flags & VM_WRITE))
			nr += add_around(vma, addr, ptep, secondary->slots + 1);
		this_cpu_add(abis_stat.hidden_again, nr);
		abis_insert(mm, secondary, secondary->slots, nr);
		return true;
	}
	this_cpu_inc(abis_stat.hidden_revealed);
	/* Asked and set while it is hidden: afterwards hardware may mark it. */
	is_shared = !abis_may_insert(mm, ptep);
	set_ptes(mm, addr, ptep, pte_set_flags(pte_reveal(pte), _PAGE_SWA), 1);
	if (is_shared)
		reveal_around(vma, addr, ptep);
	if (abis_mutant(ABIS_MUTANT_HIDDEN_PRIVATE)) {
		spte_t *spte = abis_spte_write(ptep);

		if (spte)
			*spte = spte_private(smp_processor_id(), abis_version_to_stamp(mm));
	}
	return true;
}

/*
 * wp_page_reuse(). The PTE is taken away by an exchange, since hardware may set the
 * accessed bit of one that is not hidden; then this CPU flushes what it may hold, which
 * has the old rights. Whoever else holds the old rights is left alone, as without ABIS.
 */
bool __abis_reuse_pte(struct vm_fault *vmf, pte_t pte)
{
	struct vm_area_struct *vma = vmf->vma;
	struct mm_struct *mm = vma->vm_mm;
	unsigned long addr = vmf->address;
	pte_t old = vmf->orig_pte, *ptep = vmf->pte;
	struct abis_verdict verdict;
	bool blocked = false, elided;
	struct abis_hold hold;

	if ((pte_flags(old) & _PAGE_ACCESSED) || !pte_write(pte) ||
	    abis_insert_refusal(vma, pte, 1) != ABIS_REFUSALS)
		return false;
	verdict = abis_decide(abis_spte_read(ptep), false,
			      atomic64_read(&mm->context.abis.version));
	if (verdict.targets != ABIS_NONE &&
	    (verdict.targets != ABIS_CPU || verdict.cpu != smp_processor_id()))
		return false;

	old = ptep_get_and_clear(mm, addr, ptep);
	abis_hold_init(&hold, false);
	elided = __abis_elide(mm, addr, ptep, old, 1, ABIS_CLEAR_FLUSH, &blocked, &hold);
	abis_count_request_hold(ABIS_CLEAR_FLUSH, elided, hold.pages);
	if (!elided) {
		set_ptes(mm, addr, ptep, pte, 1);
		return true;
	}
	abis_hold_flush(mm, &hold);
	this_cpu_inc(abis_stat.reused);
	__abis_set_flushed_pte(vmf, pte);
	return true;
}
