// SPDX-License-Identifier: GPL-2.0-only
/*
 * Adaptation: does insertion pay in this address space?
 *
 * Not to insert is always safe: the page is mapped as without ABIS, with a set
 * accessed bit, and so counts as used by anyone, whatever its SPTE says. So all
 * that is here is a matter of cost: every number is a hint, and who loses a race
 * loses some points.
 *
 * Each address space has an account. An insertion costs points. A flush that was
 * left out, or done by the one CPU, because the pages were inserted brings some for
 * each CPU that Linux would have interrupted. Without points nothing is inserted: an
 * address space that faults and never unmaps, or in which nobody else runs, pays
 * what it had to begin with, once, and then for a comparison in each fault. Each
 * thread that begins brings some to try with, since pages are read long before their
 * flushes are due. Nothing at all to begin with would be too little: PBZIP2, for one, maps
 * its buffers before it has threads.
 *
 * What insertion could bring is seen without inserting: it is the flush that goes
 * to everyone. Half of what such a flush costs is put by, and when it is enough for
 * TRIAL_PAGES pages of each CPU the account is open again. So many at once, rather
 * than a page now and then: of a mapping of 30 pages all must have been inserted
 * for its flush to be left out. So in the long run insertion costs no more than it
 * brings, and half of what flushes cost in spite of it.
 *
 * The points are modelled cycles (docs/reference/modelled-cycles.md of the series), some 250
 * each: two loads of CR3, two INVLPG, and the instructions around them for an
 * insertion at once of any number of pages, and the work for each page. What is hidden
 * (hide.c) goes on costing: each fault of a read, by others or after the TLB has lost
 * the page, is charged to the same account, since both bring the same.
 */

#include <linux/cpumask.h>
#include <linux/mm.h>

#include "abis.h"

#define COST_SWITCH	4
#define COST_REQUEST	1
#define COST_PAGE	1
/* A fault on a hidden page, where a walk would have done. */
#define COST_REFAULT	4
/* A flush that interrupts others: whoever waits, and each that is interrupted. */
#define WORTH_WAIT	8
#define WORTH_TARGET	8
/* A batch flushes once for so many pages; reclaim's has about 32. */
#define BATCH_PAGES	16

#define TRIAL_PAGES	64
#define THREAD_POINTS	5120
#define POINTS_MAX	65536
/* Kept back on each CPU: the account is shared by all that run the address space. */
#define KEPT_BACK	64

/* Up to this an account is empty: 0, or INT_MIN where insertion is never to stop. */
int abis_points_floor __read_mostly;
/* Pages, or runs of pages of a folio, that were mapped without, for want of points. */
DEFINE_PER_CPU(u64, abis_unpaid);

/* Of whatever address spaces: who fills it up is charged, or paid, for all. */
struct purse {
	int cost;
	int gain;
	unsigned int batched;
};

static DEFINE_PER_CPU(struct purse, purses);

static void add(struct mm_struct *mm, int points)
{
	points += READ_ONCE(mm->context.abis.points);
	WRITE_ONCE(mm->context.abis.points, min(points, POINTS_MAX));
}

/* Preemption off. Costs and gains apart: what one brings does not hide what another costs. */
static void put(struct mm_struct *mm, int __percpu *kept, int points)
{
	int sum = this_cpu_add_return(*kept, points);

	if (abs(sum) < KEPT_BACK)
		return;
	this_cpu_write(*kept, 0);
	add(mm, sum);
}

/* Whom would a flush of everyone interrupt? Lazy CPUs are counted, too. */
static int count_others(struct mm_struct *mm)
{
	if (atomic_read(&mm->mm_users) <= 1)
		return 0;
	return clamp((int)cpumask_weight(mm_cpumask(mm)), 1, 65) - 1;
}

/* Of the pages of batches, one in as many as a batch has. Preemption may be on: a hint. */
static bool is_whole_batch(void)
{
	return !(this_cpu_inc_return(purses.batched) % BATCH_PAGES);
}

/* @pages of @mm were inserted at once; @by_request: by the machine. Preemption off. */
void abis_adapt_inserted(struct mm_struct *mm, unsigned int pages, bool by_request)
{
	int cost = (by_request ? COST_REQUEST : COST_SWITCH) + pages * COST_PAGE;

	if (abis_is_adaptive())
		put(mm, &purses.cost, -cost);
}

/* A read has found a hidden page of @mm. Preemption off. */
void abis_adapt_refault(struct mm_struct *mm)
{
	if (abis_is_adaptive())
		put(mm, &purses.cost, -COST_REFAULT);
}

/* Another thread, of this process or not, is about to run @mm. */
void __abis_adapt_thread(struct mm_struct *mm)
{
	add(mm, THREAD_POINTS);
}

/*
 * A flush went to no more than @interrupted CPUs, because pages were inserted.
 * @batched: one page of a batch, which might have flushed for many.
 */
void abis_adapt_saved(struct mm_struct *mm, int interrupted, bool batched)
{
	int others, worth;

	if (!abis_inserting() || !abis_is_adaptive() || !abis_pays(mm) ||
	    (batched && !is_whole_batch()))
		return;
	others = count_others(mm);
	if (others <= interrupted)
		return;
	worth = WORTH_TARGET * (others - interrupted);
	if (!interrupted)
		worth += WORTH_WAIT;

	preempt_disable();
	this_cpu_add(abis_stat.adapt_saved, others - interrupted);
	put(mm, &purses.gain, worth);
	preempt_enable();
}

/* A flush goes to everyone. */
void __abis_adapt_missed(struct mm_struct *mm, bool batched)
{
	int others, earned;

	if (!abis_is_adaptive() || (batched && !is_whole_batch()))
		return;
	others = count_others(mm);
	if (!others)
		return;
	earned = READ_ONCE(mm->context.abis.earned) +
		 (WORTH_WAIT + WORTH_TARGET * others) / 2;
	if (earned < TRIAL_PAGES * (COST_SWITCH + COST_PAGE) * (others + 1)) {
		WRITE_ONCE(mm->context.abis.earned, earned);
		return;
	}
	WRITE_ONCE(mm->context.abis.earned, 0);
	if (!abis_pays(mm))
		this_cpu_inc(abis_stat.adapt_trials);
	add(mm, earned);
}
