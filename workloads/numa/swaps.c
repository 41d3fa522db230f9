// SPDX-License-Identifier: GPL-2.0-only
/*
 * Simulated annealing as in PARSEC's canneal: two random elements of a net list
 * change places if that makes their wires shorter, or not much longer. Unit: a swap
 * tried. Checksum: of the places of all elements; it depends on the number of threads.
 *
 * Theory. A try reads two elements and the 12 neighbours of each, nearly all on
 * different pages; a swap writes two of them. Nothing is mapped or unmapped: no
 * shootdown.
 *
 * canneal's result depends on which thread comes first. Here each thread swaps only
 * elements of its own, which lie everywhere, and takes the others to be where they
 * were at the last barrier. So one thread can do all of it again, with neighbours
 * that are computed, not read, and must put each element in the same place.
 */
#include <errno.h>
#include <stdlib.h>

#include "support/dataset.h"

#define NEIGHBOURS 12U
#define TRIES_PER_ROUND 256U

struct element {
	uint64_t place;		/* row and column on the chip */
	uint64_t shown;		/* where it was at the last barrier */
	uint32_t neighbour[NEIGHBOURS];
};

/* What a try needs to know of one of the two elements. */
struct wires {
	uint64_t place, around[NEIGHBOURS];
};

struct changes {
	uint64_t count;
	uint32_t element[2 * TRIES_PER_ROUND];
};

static struct {
	struct element *elements;
	uint64_t count;		/* a power of two */
	uint64_t width;
	unsigned int row_shift;
	struct changes changes[THREADS_MAX];
	uint64_t accepted[THREADS_MAX];
} chip;

static uint64_t first_place(const struct run *run, uint64_t element)
{
	return (element * SCATTER + run->seed) & (chip.count - 1);
}

static uint32_t neighbour_of(const struct run *run, uint64_t element, unsigned int i)
{
	return (uint32_t)(random_at(run->seed ^ 0x77697265ULL << 32, element * NEIGHBOURS + i) & (chip.count - 1));
}

static void fill(struct run *run, unsigned int index)
{
	const struct span mine = dataset_share(run, chip.count, index);

	for (uint64_t i = mine.first; i < mine.end; i++) {
		struct element *element = &chip.elements[i];

		element->place = element->shown = first_place(run, i);
		for (unsigned int j = 0; j < NEIGHBOURS; j++)
			element->neighbour[j] = neighbour_of(run, i, j);
	}
}

static int setup(struct run *run)
{
	const int error = dataset_open(run, 0);

	if (error)
		return error;
	chip.elements = (struct element *)dataset.start;
	chip.count = dataset.bytes / sizeof(struct element);
	while (1ULL << 2 * chip.row_shift < chip.count)
		chip.row_shift++;
	chip.width = 1ULL << chip.row_shift;
	team_run(run, fill);
	if (dataset.is_planted)
		chip.elements[run->seed % chip.count].place ^= 1;
	dataset_warm(run);
	return 0;
}

static uint64_t distance(uint64_t from, uint64_t to)
{
	const int64_t columns = (int64_t)(from & (chip.width - 1)) - (int64_t)(to & (chip.width - 1));
	const int64_t rows = (int64_t)(from >> chip.row_shift) - (int64_t)(to >> chip.row_shift);

	return (uint64_t)(llabs(columns) + llabs(rows));
}

/* By how much all wires of both get longer. */
static int64_t lengthening(const struct wires *a, const struct wires *b)
{
	uint64_t before = 0, after = 0;

	for (unsigned int i = 0; i < NEIGHBOURS; i++) {
		before += distance(a->place, a->around[i]) + distance(b->place, b->around[i]);
		after += distance(b->place, a->around[i]) + distance(a->place, b->around[i]);
	}
	return (int64_t)(after - before);
}

/* The wires may get longer by less and less from round to round. */
static bool is_accepted(const struct wires *a, const struct wires *b, uint64_t round)
{
	return lengthening(a, b) < (int64_t)(chip.width / (round + 1));
}

/* The threads' elements are dealt out like cards: thread t has t, t + threads, and so on. */
static uint32_t drawn(const struct run *run, unsigned int index, uint64_t draw)
{
	return (uint32_t)(random_at(run->seed, draw) % (chip.count / run->threads) * run->threads + index);
}

static uint64_t rounds(const struct run *run)
{
	const struct span most = work_share(run, run->units, 0);

	return (most.end + TRIES_PER_ROUND - 1) / TRIES_PER_ROUND;
}

/* The tries of one thread in one round. */
static struct span tries_of(const struct run *run, unsigned int index, uint64_t round)
{
	struct span all = work_share(run, run->units, index);

	all.first += round * TRIES_PER_ROUND;
	if (all.first > all.end)
		all.first = all.end;
	if (all.end - all.first > TRIES_PER_ROUND)
		all.end = all.first + TRIES_PER_ROUND;
	return all;
}

static void gather(const struct run *run, unsigned int index, const struct element *element, struct wires *wires)
{
	wires->place = element->place;
	for (unsigned int i = 0; i < NEIGHBOURS; i++) {
		const uint32_t other = element->neighbour[i];
		const struct element *at = &chip.elements[other];

		wires->around[i] = other % run->threads == index ? at->place : at->shown;
	}
}

static void anneal(struct run *run, unsigned int index)
{
	struct changes *changes = &chip.changes[index];
	const uint64_t count = rounds(run);

	for (uint64_t round = 0; round < count; round++) {
		const struct span mine = tries_of(run, index, round);

		changes->count = 0;
		for (uint64_t i = mine.first; i < mine.end; i++) {
			const uint32_t a = drawn(run, index, 2 * i), b = drawn(run, index, 2 * i + 1);
			struct element *at_a = &chip.elements[a], *at_b = &chip.elements[b];
			struct wires of_a, of_b;

			gather(run, index, at_a, &of_a);
			gather(run, index, at_b, &of_b);
			if (!is_accepted(&of_a, &of_b, round))
				continue;
			at_a->place = of_b.place;
			at_b->place = of_a.place;
			changes->element[changes->count++] = a;
			changes->element[changes->count++] = b;
		}
		team_barrier(run);
		for (uint64_t i = 0; i < changes->count; i++) {
			struct element *element = &chip.elements[changes->element[i]];

			element->shown = element->place;
		}
		chip.accepted[index] += changes->count / 2;
		team_barrier(run);
	}
}

static int measure(struct run *run)
{
	team_run(run, anneal);
	return 0;
}

/* The second computation, by one thread; it keeps nothing but places. */
struct again {
	uint64_t *place, *shown;
};

static void gather_again(const struct run *run, const struct again *again, unsigned int index, uint32_t element,
			 struct wires *wires)
{
	wires->place = again->place[element];
	for (unsigned int i = 0; i < NEIGHBOURS; i++) {
		const uint32_t other = neighbour_of(run, element, i);

		wires->around[i] = (other % run->threads == index ? again->place : again->shown)[other];
	}
}

static void anneal_again(const struct run *run, struct again *again)
{
	for (uint64_t round = 0; round < rounds(run); round++) {
		for (unsigned int index = 0; index < run->threads; index++) {
			const struct span tries = tries_of(run, index, round);

			for (uint64_t i = tries.first; i < tries.end; i++) {
				const uint32_t a = drawn(run, index, 2 * i), b = drawn(run, index, 2 * i + 1);
				struct wires of_a, of_b;

				gather_again(run, again, index, a, &of_a);
				gather_again(run, again, index, b, &of_b);
				if (!is_accepted(&of_a, &of_b, round))
					continue;
				again->place[a] = of_b.place;
				again->place[b] = of_a.place;
			}
		}
		/* Only what was drawn can have moved. */
		for (unsigned int index = 0; index < run->threads; index++) {
			const struct span tries = tries_of(run, index, round);

			for (uint64_t draw = 2 * tries.first; draw < 2 * tries.end; draw++) {
				const uint32_t element = drawn(run, index, draw);

				again->shown[element] = again->place[element];
			}
		}
	}
}

static int verify(struct run *run)
{
	const uint64_t bytes = chip.count * sizeof(uint64_t);
	struct again again;
	uint64_t expected = CHECKSUM_SEED, accepted = 0;

	dataset_report(run);
	for (unsigned int i = 0; i < run->threads; i++)
		accepted += chip.accepted[i];
	report_extra(run, "swaps_accepted", (double)accepted);
	again.place = again_alloc(run, 2 * bytes);
	if (!again.place)
		return -ENOMEM;
	again.shown = again.place + chip.count;
	for (uint64_t i = 0; i < chip.count; i++)
		again.place[i] = again.shown[i] = first_place(run, i);
	anneal_again(run, &again);
	for (uint64_t i = 0; i < chip.count; i++) {
		run->checksum = checksum_add(run->checksum, chip.elements[i].place);
		expected = checksum_add(expected, again.place[i]);
	}
	again_free(again.place, 2 * bytes);
	return checksum_must_be(run, expected);
}

WORKLOAD(chip_swaps) = {
	DATASET_ENTRY,
	.name = "swaps",
	.unit = "swap tried",
	.about = "Threads swap random elements of a net list of --set mib=N MiB (64) where that makes wires shorter, as "
		 "PARSEC's canneal does.",
	.units = 50000,
	.measure = measure,
	.verify = verify,
};
