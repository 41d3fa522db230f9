/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ranges that this library saw mapped private, anonymous, read-write, and that nothing has changed since.
 *
 * The invariant: what the table has, the kernel has, at every moment in which no change of that range is in flight.
 * A change takes its range out before the kernel is asked. A new range comes in after the kernel has answered, unless
 * another change of it was in flight meanwhile.
 *
 * - All of it lies in pages that fork wipes. So a child, by fork() or by a raw clone, owns nothing, and finds no lock
 *   held.
 * - Readers take no lock: `sequence` is odd while the ranges are edited. Editors block signals, then take the lock.
 * - A change announces its range in a slot, then looks at the other slots. Of two that overlap at least one sees the
 *   other, and then neither is kept. An editor makes `sequence` odd before it looks at slots; a change is announced
 *   before it reads `sequence`. So either the editor sees the change, or the change waits for the editor.
 * - A slot that is never given back (its thread was cancelled, or left by longjmp) makes its range pass through.
 * - Whoever shares this memory with another process id (a child of vfork) never takes the lock: it could be killed
 *   with it. It retires the table instead: from then on everything passes through.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <signal.h>
#include <stdalign.h>
#include <sys/mman.h>

#include "deter.h"

/* Patience with slots that are all taken: then the table is retired. */
#define YIELDS_MOST 10000
#define READS_MOST 100

struct range {
	_Atomic uintptr_t start;
	_Atomic uintptr_t end;
};

/* A change in flight. `end` is 0 while there is none. */
struct change {
	_Atomic uintptr_t start;
	_Atomic uintptr_t end;
	_Atomic bool disturbed;
};

enum lock {
	LOCK_FREE,
	LOCK_HELD,
	LOCK_WAITED_FOR,
};

struct table {
	/* The process id that the ranges are of; 0 after fork. */
	_Atomic int32_t owner;
	_Atomic uint32_t retired;
	_Atomic uint32_t lock;
	_Atomic uint32_t sequence;
	_Atomic uint32_t count;
	/* A bit per slot of changes[]. */
	_Atomic uint64_t busy;
	struct change changes[CHANGES_MOST];
	/* Ascending; no two touch. */
	struct range ranges[RANGES_MOST];
};

static union {
	struct table table;
	char pages[(sizeof(struct table) + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES];
} wiped __attribute__((aligned(PAGE_BYTES)));

#define table (wiped.table)

/* False before Linux 4.14: then a child could not be told from its parent. */
bool table_prepare(void)
{
	if (BROKEN(1))
		return true;
	return kernel3(SYS_madvise, (long)&wiped, sizeof(wiped), MADV_WIPEONFORK) == 0;
}

bool table_used(void)
{
	if (table.retired)
		return false;
	if (!table.owner)
		table.owner = (int32_t)kernel3(SYS_getpid, 0, 0, 0);
	return true;
}

void table_retire(void)
{
	table.retired = 1;
}

/* Of another process with this memory. Costs a system call. */
static bool foreign(void)
{
	return table.owner != (int32_t)kernel3(SYS_getpid, 0, 0, 0);
}

/* The first range that ends after `address`. */
static uint32_t find(uintptr_t address)
{
	uint32_t low = 0, high = table.count;

	if (high > RANGES_MOST)
		high = RANGES_MOST;
	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (table.ranges[middle].end > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static bool overlaps(uintptr_t start, uintptr_t end)
{
	const uint32_t at = find(start);

	return at < table.count && at < RANGES_MOST && table.ranges[at].start < end;
}

static bool covers(uintptr_t start, uintptr_t end)
{
	const uint32_t at = find(start);

	if (BROKEN(2))
		end -= PAGE_BYTES;
	return at < table.count && at < RANGES_MOST && table.ranges[at].start <= start && table.ranges[at].end >= end;
}

/* Lock: none. Return: whether *result is true of one moment. */
static bool read_ranges(bool (*question)(uintptr_t, uintptr_t), uintptr_t start, uintptr_t end, bool *result)
{
	for (int i = 0; i < READS_MOST; i++) {
		const uint32_t before = table.sequence;

		if (before & 1) {
			__builtin_ia32_pause();
			continue;
		}
		*result = question(start, end);
		if (table.sequence == before)
			return true;
	}
	return false;
}

static uint64_t signals_block(void)
{
	const uint64_t all = ~0UL;
	uint64_t before = 0;

	if (BROKEN(16))
		return before;
	/* Not libc's: that one lets thread cancellation through. */
	kernel4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, sizeof(all));
	return before;
}

static void signals_restore(uint64_t before)
{
	if (BROKEN(16))
		return;
	kernel4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof(before));
}

/* Signals are blocked. */
static void lock(void)
{
	uint32_t seen = LOCK_FREE;

	if (BROKEN(17))
		return;
	if (!atomic_compare_exchange_strong(&table.lock, &seen, LOCK_HELD)) {
		while (atomic_exchange(&table.lock, LOCK_WAITED_FOR) != LOCK_FREE)
			kernel4(SYS_futex, (long)&table.lock, FUTEX_WAIT_PRIVATE, LOCK_WAITED_FOR, 0);
	}
	atomic_fetch_add(&table.sequence, 1);
}

static void unlock(void)
{
	if (BROKEN(17))
		return;
	atomic_fetch_add(&table.sequence, 1);
	if (atomic_exchange(&table.lock, LOCK_FREE) == LOCK_WAITED_FOR)
		kernel4(SYS_futex, (long)&table.lock, FUTEX_WAKE_PRIVATE, 1, 0);
}

static void set(uint32_t at, uintptr_t start, uintptr_t end)
{
	atomic_store_explicit(&table.ranges[at].start, start, memory_order_relaxed);
	atomic_store_explicit(&table.ranges[at].end, end, memory_order_relaxed);
}

/* Lock: held. The ranges from `from` on move to `to`. */
static void shift(uint32_t from, uint32_t to)
{
	const uint32_t count = table.count;

	/* Makes the race likely. */
	if (BROKEN(17))
		kernel3(SYS_sched_yield, 0, 0, 0);
	if (to < from) {
		for (uint32_t i = from; i < count; i++)
			set(to + (i - from), table.ranges[i].start, table.ranges[i].end);
	} else {
		for (uint32_t i = count; i > from; i--)
			set(to + (i - 1 - from), table.ranges[i - 1].start, table.ranges[i - 1].end);
	}
	table.count = count + to - from;
}

/* Lock: held. A range that would split where there is no room loses its upper part. */
static void take_out(uintptr_t start, uintptr_t end)
{
	const uint32_t first = find(start);
	uint32_t at = first, past;

	if (BROKEN(3) && end - start > PAGE_BYTES)
		end -= PAGE_BYTES;
	if (at == table.count || table.ranges[at].start >= end)
		return;
	if (table.ranges[at].start < start) {
		const uintptr_t rest = table.ranges[at].end;

		if (BROKEN(4) && rest > end && table.count == RANGES_MOST)
			return;
		set(at, table.ranges[at].start, start);
		at++;
		if (rest > end) {
			if (table.count < RANGES_MOST) {
				shift(at, at + 1);
				set(at, end, rest);
			}
			return;
		}
	}
	for (past = at; past < table.count && table.ranges[past].end <= end; past++)
		;
	if (past < table.count && table.ranges[past].start < end)
		set(past, end, table.ranges[past].end);
	if (past > at)
		shift(past, at);
}

/* Lock: held. What does not fit is not kept. */
static void put_in(uintptr_t start, uintptr_t end)
{
	uint32_t at;
	bool before, after;

	take_out(start, end);
	at = find(start);
	before = at > 0 && table.ranges[at - 1].end == start;
	after = at < table.count && table.ranges[at].start == end;
	if (before && after) {
		set(at - 1, table.ranges[at - 1].start, table.ranges[at].end);
		shift(at + 1, at);
	} else if (before) {
		set(at - 1, table.ranges[at - 1].start, end);
	} else if (after) {
		set(at, start, table.ranges[at].end);
	} else if (table.count < RANGES_MOST) {
		shift(at, at + 1);
		set(at, start, end);
	}
}

/* Whether another change than `own` overlaps; marks those that do. */
static bool changes_overlap(int own, uintptr_t start, uintptr_t end, bool mark)
{
	bool found = false;

	for (uint64_t busy = table.busy; busy; busy &= busy - 1) {
		const int slot = __builtin_ctzl(busy);
		struct change *const other = &table.changes[slot];

		if (slot == own || other->start >= end || other->end <= start)
			continue;
		found = true;
		if (mark)
			other->disturbed = true;
	}
	return found;
}

/* Says that [start, end) is about to change. Return: its slot, or NO_CHANGE where the table has been retired. */
int change_announce(uintptr_t start, uintptr_t end)
{
	uint64_t busy = table.busy;
	struct change *change;
	int slot, yields = 0;

	do {
		while (!~busy) {
			if (++yields > YIELDS_MOST) {
				table_retire();
				return NO_CHANGE;
			}
			kernel3(SYS_sched_yield, 0, 0, 0);
			busy = table.busy;
		}
		slot = __builtin_ctzl(~busy);
	} while (!atomic_compare_exchange_weak(&table.busy, &busy, busy | 1UL << slot));
	change = &table.changes[slot];
	atomic_store_explicit(&change->disturbed, false, memory_order_relaxed);
	atomic_store_explicit(&change->start, start, memory_order_relaxed);
	/* From here on others see it. */
	change->end = end;
	if (!BROKEN(5) && changes_overlap(slot, start, end, true))
		change->disturbed = true;
	return slot;
}

void change_end(int slot)
{
	if (slot == NO_CHANGE)
		return;
	atomic_store_explicit(&table.changes[slot].end, 0, memory_order_release);
	atomic_fetch_and(&table.busy, ~(1UL << slot));
}

/* Takes a range out that the kernel is not asked about, or already has been. */
void table_forget(uintptr_t start, uintptr_t end)
{
	uint64_t signals;
	bool some;

	if (table.retired || (read_ranges(overlaps, start, end, &some) && !some))
		return;
	if (foreign()) {
		table_retire();
		return;
	}
	signals = signals_block();
	lock();
	take_out(start, end);
	unlock();
	signals_restore(signals);
}

/* Announces a change, and takes its range out. */
int change_begin(uintptr_t start, uintptr_t end)
{
	const int slot = change_announce(start, end);

	table_forget(start, end);
	return slot;
}

/* The kernel has mapped [start, end) as we want it. */
void change_keep(int slot, uintptr_t start, uintptr_t end)
{
	uint64_t signals;

	if (slot == NO_CHANGE || table.retired || start >= end)
		return;
	if (foreign()) {
		/* Or this process was forked off within the call, by a signal handler: then there is nothing to forget. */
		table_forget(start, end);
		return;
	}
	signals = signals_block();
	lock();
	if (table.changes[slot].disturbed)
		take_out(start, end);
	else
		put_in(start, end);
	unlock();
	signals_restore(signals);
}

/* Whether [start, end) is all ours. */
bool table_covers(uintptr_t start, uintptr_t end)
{
	bool all;

	return read_ranges(covers, start, end, &all) && all && !table.retired;
}

/* Holds the ranges as they are, where [start, end) is all ours and no change of it is in flight. */
bool table_hold(uintptr_t start, uintptr_t end, uint64_t *signals)
{
	if (foreign())
		return false;
	*signals = signals_block();
	lock();
	if (!table.retired && covers(start, end) && !changes_overlap(NO_CHANGE, start, end, false))
		return true;
	table_release(*signals);
	return false;
}

void table_release(uint64_t signals)
{
	unlock();
	signals_restore(signals);
}
