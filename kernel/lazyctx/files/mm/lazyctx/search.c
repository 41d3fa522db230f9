// SPDX-License-Identifier: GPL-2.0-only
/*
 * The control: how Linux flushed a range in 1999. Every address of it is searched in the hash
 * table, whether or not there was ever an entry for it.
 */

#include <linux/irqflags.h>
#include <linux/mm.h>

#include <asm/lazyctx.h>
#include <asm/tlbflush.h>

#include "lazyctx.h"

#define GROUP_WORDS	16
#define SECONDARY	0x40	/* H of an entry's first word */

/* Return: the entry in the group at @entry whose first word is @word, or NULL. */
static u32 *search_group(u32 *entry, u32 word)
{
	u32 *end = entry + GROUP_WORDS;

	for (; entry < end; entry += 2) {
		if (*entry == word)
			return entry;
	}
	return NULL;
}

static bool search_page(unsigned long id, unsigned long addr)
{
	u32 mask = lazyctx_groups() - 1, vsid = lazyctx_vsid(id, addr >> 28);
	u32 hash = (vsid ^ (addr >> PAGE_SHIFT & 0xffff)) & mask;
	u32 word = LAZYCTX_VALID | vsid << LAZYCTX_VSID_SHIFT | (addr >> 22 & 0x3f);
	u32 *table = lazyctx_table();
	u32 *entry = search_group(table + hash * GROUP_WORDS, word);

	if (!entry)
		entry = search_group(table + (~hash & mask) * GROUP_WORDS, word | SECONDARY);
	if (entry)
		*entry = 0;
	mb();	/* sync: memory before TLB */
	_tlbie(addr);
	return entry;
}

/* What it finds it takes out, and then the PTE has no entry any more. */
void lazyctx_search(struct mm_struct *mm, unsigned long start, unsigned long end)
{
	unsigned long addr, flags;

	if (lazyctx_mode() != LAZYCTX_SEARCH || mm == &init_mm)
		return;
	for (addr = start & PAGE_MASK; addr < end; addr += PAGE_SIZE) {
		local_irq_save(flags);
		if (search_page(mm->context.id, addr)) {
			pte_t *pte = lazyctx_pte(mm, addr);

			if (pte)
				*(unsigned long *)pte &= ~_PAGE_HASHPTE;
			lazyctx_counters.found++;
		}
		local_irq_restore(flags);
	}
	lazyctx_counters.searched += (end - (start & PAGE_MASK)) >> PAGE_SHIFT;
}

void lazyctx_search_mm(struct mm_struct *mm)
{
	VMA_ITERATOR(vmi, mm, 0);
	struct vm_area_struct *vma;

	if (lazyctx_mode() != LAZYCTX_SEARCH)
		return;
	for_each_vma(vmi, vma)
		lazyctx_search(mm, vma->vm_start, vma->vm_end);
}
