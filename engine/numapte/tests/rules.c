// SPDX-License-Identifier: GPL-2.0-only
/* Every input of the decisions that matters: each bit that one of them reads, and one that none does, in two frames. */
#include <stdio.h>
#include <stdlib.h>

#include "engine.h"

#define NX		(1ull << 63)
#define SOFT_DIRTY	(1ull << 11)

static const u64 bits[] = {
	NUMAPTE_PRESENT, NUMAPTE_RW, NUMAPTE_ACCESSED, NUMAPTE_DIRTY, NUMAPTE_PSE, NUMAPTE_SAVED_DIRTY, SOFT_DIRTY, NX,
	1ull << 13,
};
#define COUNT	(sizeof(bits) / sizeof(bits[0]))
#define PAGE	(5ull << 12)

static u64 value(unsigned int chosen)
{
	u64 sum = 1ull << 12;

	for (unsigned int i = 0; i < COUNT; i++)
		sum |= chosen >> i & 1 ? bits[i] : 0;
	return chosen ? sum : 0;
}

static unsigned long checks;

static void check(bool holds, const char *rule, enum numapte_level level, u64 entry, u64 replica)
{
	checks++;
	if (holds)
		return;
	printf("rules: FAILED: %s: level %d, %#llx, %#llx\n", rule, level, (unsigned long long)entry,
	       (unsigned long long)replica);
	exit(1);
}

static bool dirty(u64 entry)
{
	return entry & (NUMAPTE_DIRTY | NUMAPTE_SAVED_DIRTY);
}

static bool right(enum numapte_level level, u64 entry, u64 replica)
{
	return numapte_audit(level, entry, replica, PAGE) == NUMAPTE_RIGHT;
}

static void one(enum numapte_level level, u64 e)
{
	const bool present = e & NUMAPTE_PRESENT, leaf = level == NUMAPTE_PTE || e & NUMAPTE_PSE;
	const u64 r = numapte_replica(level, e), c = numapte_copy(level, e, true), n = numapte_copy(level, e, false);
	const u64 protected = e & NUMAPTE_DIRTY ? (e & ~NUMAPTE_DIRTY) | NUMAPTE_SAVED_DIRTY : e;

	check((r != 0) == (present && leaf), "a replica holds what hardware can use, and no tables", level, e, r);
	check(!r || !((r ^ e) & ~(NUMAPTE_SAVED_DIRTY | SOFT_DIRTY)),
	      "a replica differs in bits of software alone", level, e, r);
	check(right(level, e, r) && right(level, e, c) && right(level, e, n) && right(level, e, 0),
	      "it is right", level, e, r);
	check(!r || (c & NUMAPTE_ACCESSED && !(n & NUMAPTE_ACCESSED)), "a neighbour was not used", level, e, r);
	check(!r || !((c ^ r) & ~NUMAPTE_ACCESSED || (n ^ r) & ~NUMAPTE_ACCESSED),
	      "a copy differs in A alone", level, e, r);
	check(right(level, e, NUMAPTE_STRAY) && right(level, 0, NUMAPTE_DIRTY), "stray bits mean nothing", level, e, r);
	check(right(level, protected & ~NUMAPTE_RW, numapte_wrprotect(r)), "the right to write goes", level, e, r);
	check(!(numapte_wrprotect(e) & (NUMAPTE_RW | NUMAPTE_DIRTY)), "the right to write goes", level, e, r);
	if (present && !leaf) {
		check(right(level, e, numapte_link(e, PAGE)), "a link is right", level, e, PAGE);
		check(right(level, e, numapte_link(e, PAGE) | NUMAPTE_STRAY),
		      "A and D of a link mean nothing", level, e, PAGE);
		check(!right(level, e, numapte_link(e, 2 * PAGE)), "a link leads to this node's page", level, e, PAGE);
		check(numapte_audit(level, e, numapte_link(e, PAGE), 0), "a link leads to a page", level, e, PAGE);
		check(!right(level, e, numapte_link(e, PAGE) ^ NX), "a link has the table's rights", level, e, PAGE);
	}
}

static void two(enum numapte_level level, u64 e, u64 r)
{
	const bool usable = e & NUMAPTE_PRESENT && r & NUMAPTE_PRESENT && !((e ^ r) & NUMAPTE_FRAME);
	const bool leaf = level == NUMAPTE_PTE || e & NUMAPTE_PSE;
	const u64 found = numapte_found(e, r), fold = numapte_fold(e, r);
	const u64 free = NUMAPTE_ACCESSED | (e & NUMAPTE_RW ? NUMAPTE_DIRTY : 0);
	const bool equal = r & NUMAPTE_PRESENT ? !((r ^ numapte_replica(level, e)) & ~free) : !(r & ~NUMAPTE_STRAY);

	check(fold == (e | found) && !(found & ~(NUMAPTE_STRAY | NUMAPTE_SAVED_DIRTY)),
	      "folding sets A and D alone", level, e, r);
	check(dirty(fold) == (dirty(e) || (usable && r & NUMAPTE_DIRTY)), "folding finds each dirty bit", level, e, r);
	check(!(found & NUMAPTE_DIRTY) || e & NUMAPTE_RW, "folding makes no shadow stack", level, e, r);
	check(!(found & NUMAPTE_SAVED_DIRTY) || !(e & NUMAPTE_RW),
	      "saved-dirty is for what is not writable", level, e, r);
	check(!(found & NUMAPTE_ACCESSED) == !(usable && r & NUMAPTE_ACCESSED), "folding finds A", level, e, r);
	check(numapte_loses(e, r) == (usable && r & NUMAPTE_RW && r & NUMAPTE_DIRTY && !dirty(e)),
	      "a store may lose D", level, e, r);
	if (!(e & NUMAPTE_PRESENT) || leaf)
		check(right(level, e, r) == equal, "the audit finds each difference", level, e, r);
	if (right(level, e, r) && leaf) {
		check(numapte_must_copy(level, e, r) == (e & NUMAPTE_PRESENT && !(r & NUMAPTE_PRESENT)),
		      "an empty one is filled", level, e, r);
		check(!(r & NUMAPTE_RW) || right(level, e, r | NUMAPTE_STRAY), "hardware leaves it right", level, e, r);
	}
	check(!numapte_must_copy(level, e, r) || !(r & NUMAPTE_PRESENT), "a filled one is left alone", level, e, r);
}

/* @e becomes @next, and @r was right. */
static void three(enum numapte_level level, u64 e, u64 next, u64 r)
{
	if (right(level, e, r) && !numapte_must_store(level, e, next))
		check(right(level, next, r), "a store that is left out is not missed", level, e, next);
}

static void places(void)
{
	for (enum numapte_level level = NUMAPTE_PTE; level <= NUMAPTE_PGD; level++) {
		for (unsigned int i = 0; i < 8; i++) {
			const bool home = i & 1, own = i & 2, split = i & 4;
			const enum numapte_place place = numapte_place(level, home, own, split);

			check(level == NUMAPTE_PTE || place != NUMAPTE_CANONICAL,
			      "upper tables are not shared", level, i, place);
			check((place == NUMAPTE_NOWHERE) == (level != NUMAPTE_PTE && !own),
			      "there is a place", level, i, place);
			check(!own || (place == NUMAPTE_OWN) == (level || !home || split),
			      "a node has its own", level, i, place);
		}
	}
	for (enum numapte_leaving l = NUMAPTE_LINKED; l <= NUMAPTE_FOLDED; l++) {
		check(numapte_may_fold(l) == (l == NUMAPTE_FLUSHED || l == NUMAPTE_FOLDED),
		      "folded after the flush", 0, l, 0);
		check(numapte_may_free(l, true) == (l == NUMAPTE_FOLDED), "freed when folded", 0, l, 0);
		check(numapte_may_free(l, false) == numapte_may_fold(l), "freed after the flush", 0, l, 0);
	}
}

/* Who flushes: by three nodes, and whether each has loaded its root. */
static void flushed(void)
{
	for (unsigned int i = 0; i < 1u << 6; i++) {
		const u64 links = i & 7, rooted = i >> 3;

		check(numapte_flushed(links, rooted, false) == ~0ull, "all nodes until all roots are loaded", 0, links,
		      rooted);
		check((numapte_flushed(links, rooted, true) & ~rooted) == ~rooted,
		      "a node without a root uses every table", 0, links, rooted);
		check((numapte_flushed(links, rooted, true) & rooted) == (links & rooted),
		      "of the others those that use the table", 0, links, rooted);
	}
}

int main(void)
{
	places();
	flushed();
	for (enum numapte_level level = NUMAPTE_PTE; level <= NUMAPTE_PUD; level++) {
		for (unsigned int i = 0; i < 1u << COUNT; i++) {
			one(level, value(i));
			for (unsigned int k = 0; k < 1u << COUNT; k++) {
				two(level, value(i), value(k));
				three(level, value(i), value(k), 0);
				three(level, value(i), value(k), numapte_replica(level, value(i)));
				three(level, value(i), value(k), NUMAPTE_STRAY);
			}
		}
	}
	printf("rules: %lu checks, ok\n", checks);
	return 0;
}
