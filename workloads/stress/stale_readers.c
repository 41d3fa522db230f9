// SPDX-License-Identifier: GPL-2.0-only
/* The threads that read all the time, and judge what they may see. See stale.c. */
#define _GNU_SOURCE
#include <sched.h>
#include <time.h>

#include "stale.h"
#include "support/checked_load.h"

#define NAP_NS 20000

/* Return: NULL, or why the word is wrong. */
static const char *judge(uint64_t before, uint64_t after, struct loaded loaded, uint64_t page)
{
	const uint64_t generation = stale_generation(before);
	const enum phase phase = stale_phase(before);
	const uint64_t floor = phase == UPDATING ? generation - 1 : generation;
	const bool is_same = before == after;
	uint64_t got;

	if (loaded.has_faulted)
		return is_same && (phase == OPEN || phase == UPDATING) ? "a mapped page faulted" : NULL;
	if (is_same && phase == CLOSED)
		return "a page was read that is gone";
	if (loaded.value == 0)
		return is_same && (phase == OPEN || phase == UPDATING) ? "a page lost its content" : NULL;
	if (loaded.value == POISON)
		return "a frame was read that is another page's";
	got = (loaded.value & ~(0xffULL << 56)) >> 16;
	if (loaded.value != stale_word(page, got))
		return "a word is not this page's";
	if (got < floor)
		return "a word is of an earlier life";
	return got > stale_generation(after) ? "a word is of a later life" : NULL;
}

static void look_at(struct run *run, struct reader *reader, unsigned int block, uint64_t page)
{
	const volatile uint64_t *address = stale_page(block, page) + (reader->random & 1 ? 0 : LAST_WORD);
	const uint64_t number = block * BLOCK_PAGES + page;
	const uint64_t before = atomic_load(&stale.blocks[block].sequence);
	const struct loaded loaded = checked_load(address);
	const uint64_t after = atomic_load(&stale.blocks[block].sequence);
	const char *wrong = judge(before, after, loaded, number);

	reader->reads++;
	reader->faults += loaded.has_faulted;
	if (!wrong)
		return;
	workload_fail(run, "stale read: %s: address %p, sequence 0x%llx then 0x%llx, expected 0x%llx, got %s0x%llx", wrong,
		      (void *)address, (unsigned long long)before, (unsigned long long)after,
		      (unsigned long long)stale_word(number, stale_generation(before)), loaded.has_faulted ? "a fault, " : "",
		      (unsigned long long)loaded.value);
	stale.stop = true;
}

static void look_at_block(struct run *run, struct reader *reader, unsigned int block)
{
	const uint64_t sequence = atomic_load(&stale.blocks[block].sequence);
	const uint64_t draw = random_next(&reader->random);

	if (stale.blocks[block].is_quiet && draw % 64 != 0)
		return;
	/* A fault costs a hundred reads, and its lock holds the writer up: one is enough. */
	if (stale_phase(sequence) == CLOSED) {
		if (reader->closed_seen[block] == sequence && draw % 128 != 0)
			return;
		reader->closed_seen[block] = sequence;
	}
	if (stale.blocks[block].is_quiet || stale_phase(sequence) == CLOSED) {
		look_at(run, reader, block, (draw >> 8) % BLOCK_PAGES);
		return;
	}
	for (uint64_t i = 0; i < BLOCK_PAGES; i++)
		look_at(run, reader, block, (i + (draw >> 8)) % BLOCK_PAGES);
}

void stale_nap(long ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

void stale_read(struct run *run, unsigned int index)
{
	struct reader *reader = &stale.readers[index];

	while (!stale.stop) {
		for (unsigned int i = 0; i < BLOCKS && !stale.stop; i++) {
			const unsigned int focus = stale.focus;

			look_at_block(run, reader, focus);
			atomic_fetch_add(&reader->looks, 1);
			if (focus != (i + index) % BLOCKS)
				look_at_block(run, reader, (i + index) % BLOCKS);
			cpu_pause();
		}
		atomic_fetch_add(&reader->passes, 1);
		switch (random_next(&reader->random) % 32) {
		case 0:
			stale_nap(NAP_NS);
			break;
		case 1:
			sched_yield();
			break;
		}
	}
}
