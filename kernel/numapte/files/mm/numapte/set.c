// SPDX-License-Identifier: GPL-2.0-only
/*
 * Changes of a canonical table, and of its replicas.
 *
 * Each function below is called with the lock that serialises changes of the canonical
 * entry, or where nobody else can change it (exit, free_pgtables()). The canonical entry
 * goes first, then each replica: whoever fills a replica reads the canonical entry under
 * the same lock, so no order between the two can be seen but by hardware, and hardware
 * that still uses the old value is what the caller's TLB flush is for.
 */

#include <linux/export.h>
#include <linux/mm.h>

#include "numapte.h"

#define for_each_replica(node, mask, table)						\
	for ((mask) = READ_ONCE((table)->own);						\
	     (mask) && ({ (node) = __ffs64(mask); true; });				\
	     (mask) &= (mask) - 1)

/*
 * The table that @entry is in if others are to know of a change. The kernel's half of a root
 * is each root's own: sync_global_pgds() goes through all of them.
 */
static struct numapte_table *replicated(unsigned long *entry)
{
	struct numapte_table *table = numapte_of(entry);

	if (!table || !READ_ONCE(table->own))
		return NULL;
	if (table->level == NUMAPTE_PGD && !pgdp_maps_userspace(entry))
		return NULL;
	return table;
}

static inline unsigned long *replica_of(struct numapte_table *table, int node, unsigned int index)
{
	return READ_ONCE(table->page[node]) + index;
}

/* Hardware has set these bits in a replica: the canonical entry has them as well. */
void numapte_found_in(unsigned long *entry, u64 found)
{
	unsigned long old = READ_ONCE(*entry);

	while ((old & found) != found && !try_cmpxchg(entry, &old, old | found))
		;
}

/* For a caller that changes many entries of a table in one hold of its lock. */
struct numapte_table *__numapte_replicated(void *entry)
{
	return replicated(entry);
}

/*
 * A store over an entry that is present loses nothing of what hardware has set in replicas
 * of the same page: Linux reads the canonical entry, changes that and stores it again, where
 * on one tree it relies on the bits being there.
 */
void numapte_store_in(struct numapte_table *table, unsigned long *entry, unsigned long value)
{
	unsigned int index = entry_index(entry);
	u64 mask, found = 0;
	unsigned long image;
	int node;

	WRITE_ONCE(*entry, value);
	if (numapte_mutant(value ? MUTANT_STORE_CANONICAL : MUTANT_CLEAR_CANONICAL)) {
		numapte_audit_entry(table, entry);
		return;
	}
	image = numapte_replica(table->level, value);
	if (image)
		numapte_count(propagated, 1);
	for_each_replica(node, mask, table) {
		unsigned long *replica = replica_of(table, node, index);
		unsigned long old = READ_ONCE(*replica);

		if (old == image)
			continue;
		if (!numapte_walkable(old)) {
			WRITE_ONCE(*replica, image);
			continue;
		}
		old = xchg(replica, image);
		if (image)
			found |= numapte_found(value, old);
	}
	if (found)
		numapte_found_in(entry, found);
	numapte_audit_kept(entry, found);
	numapte_audit_entry(table, entry);
}

void __numapte_store(unsigned long *entry, unsigned long value)
{
	struct numapte_table *table = replicated(entry);

	if (table)
		numapte_store_in(table, entry, value);
	else
		WRITE_ONCE(*entry, value);
}
EXPORT_SYMBOL(__numapte_store);

/* Return: the old value, with what hardware has set in the replicas. */
unsigned long numapte_exchange_in(struct numapte_table *table, unsigned long *entry,
				  unsigned long value)
{
	unsigned int index = entry_index(entry);
	unsigned long old, image;
	u64 mask;
	int node;

	old = xchg(entry, value);
	if (numapte_mutant(MUTANT_FULL_CANONICAL)) {
		numapte_audit_entry(table, entry);
		return old;
	}
	image = numapte_replica(table->level, value);
	for_each_replica(node, mask, table) {
		unsigned long *replica = replica_of(table, node, index);

		if (READ_ONCE(*replica) == image)
			continue;
		if (numapte_mutant(MUTANT_FOLD_WHOLE))
			old |= xchg(replica, image);
		else
			old = numapte_fold(old, xchg(replica, image));
	}
	numapte_count(propagated, 1);
	numapte_audit_entry(table, entry);
	return old;
}

unsigned long __numapte_exchange(unsigned long *entry, unsigned long value)
{
	struct numapte_table *table = replicated(entry);

	return table ? numapte_exchange_in(table, entry, value) : xchg(entry, value);
}
EXPORT_SYMBOL(__numapte_exchange);

/*
 * Write-protecting must not lose that a CPU has written: what is dirty in a replica is dirty
 * in the canonical entry afterwards, for nobody looks at a replica of an entry that is
 * read-only and clean (page_vma_mkclean_one()).
 */
void __numapte_wrprotect(unsigned long *entry)
{
	struct numapte_table *table = replicated(entry);
	unsigned int index = entry_index(entry);
	unsigned long old = READ_ONCE(*entry), new;
	u64 mask, found = 0;
	int node;

	do {
		new = pte_val(pte_wrprotect(__pte(old)));
	} while (!try_cmpxchg(entry, &old, new));
	if (!table)
		return;
	for_each_replica(node, mask, table) {
		unsigned long *replica = replica_of(table, node, index);
		unsigned long was = READ_ONCE(*replica);

		if (!numapte_walkable(was))
			continue;
		while (!try_cmpxchg(replica, &was, numapte_wrprotect(was)))
			;
		found |= numapte_found(new, was);
	}
	if (found && !numapte_mutant(MUTANT_WRPROTECT_UNFOLDED))
		numapte_found_in(entry, found);
	numapte_audit_kept(entry, found);
	numapte_audit_entry(table, entry);
}
EXPORT_SYMBOL(__numapte_wrprotect);

/* Of an entry that leads to a table, too: the bit is then of the node's own entry. */
int __numapte_clear_young(unsigned long *entry)
{
	struct numapte_table *table = replicated(entry);
	unsigned int index = entry_index(entry);
	int node, young = 0;
	u64 mask;

	if (READ_ONCE(*entry) & _PAGE_ACCESSED)
		young = test_and_clear_bit(_PAGE_BIT_ACCESSED, entry);
	if (!table || numapte_mutant(MUTANT_YOUNG_CANONICAL))
		return young;
	for_each_replica(node, mask, table) {
		unsigned long *replica = replica_of(table, node, index);

		if (READ_ONCE(*replica) & _PAGE_ACCESSED)
			young |= test_and_clear_bit(_PAGE_BIT_ACCESSED, replica);
	}
	return young;
}

unsigned long __numapte_read(unsigned long *entry)
{
	unsigned int index = entry_index(entry);
	unsigned long value = READ_ONCE(*entry);
	struct numapte_table *table;
	u64 mask;
	int node;

	/* The table of an empty entry may be on its way out, and its replicas be gone. */
	table = numapte_walkable(value) ? replicated(entry) : NULL;
	if (!table)
		return value;
	for_each_replica(node, mask, table) {
		unsigned long replica = READ_ONCE(*replica_of(table, node, index));

		/* The frames differ there: each leads to a page of its own node. */
		if (numapte_is_table(table->level, value))
			value |= replica & _PAGE_ACCESSED;
		else
			value = numapte_fold(value, replica);
	}
	return value;
}
EXPORT_SYMBOL(__numapte_read);

/* @pte, read from the first of @nr entries of a batch, with what hardware says of all of them. */
pte_t __numapte_batch_get(pte_t *ptep, int nr, pte_t pte)
{
	int i;

	for (i = 0; i < nr; i++) {
		unsigned long entry = __numapte_read(&ptep[i].pte);

		if (!numapte_walkable(entry))
			continue;
		if (entry & NUMAPTE_ACCESSED)
			pte = pte_mkyoung(pte);
		/* Not pte_mkdirty(): it would be soft-dirty, too. */
		if (entry & (NUMAPTE_DIRTY | NUMAPTE_SAVED_DIRTY))
			pte = __pte(pte_val(pte) | (pte_val(pte) & NUMAPTE_RW ? NUMAPTE_DIRTY :
									NUMAPTE_SAVED_DIRTY));
	}
	return pte;
}

/*
 * fork() reads an entry, write-protects it, and copies what it has read: a page that a CPU
 * of another node has written is dirty in the parent alone. If the parent goes first, reclaim
 * takes the child's page for one that is still what was read from swap. What was not writable
 * may be dirty in a replica alone, too: a CPU without shadow stacks may have been late.
 */
pte_t __numapte_copied_pte(pte_t *ptep, int nr, pte_t pte)
{
	return numapte_mutant(MUTANT_FORK_PLAIN) ? pte : __numapte_batch_get(ptep, nr, pte);
}
