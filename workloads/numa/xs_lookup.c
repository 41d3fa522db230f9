// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lookups of cross sections as in XSBench, the kernel of a neutron transport code:
 * an energy is found in one sorted grid for all nuclides; then, for each nuclide of
 * a material, the cross sections are interpolated between two points of its own grid.
 * Unit: a material's cross sections looked up. Checksum: of all of them.
 *
 * Theory. The search reads some 20 energies and one row of indices, then two
 * neighbouring points for each of 4 to 32 nuclides, each nuclide on another page.
 * Nothing is written in the measured part: no shootdown.
 *
 * Energies, indices and cross sections are functions of seed and position. Which
 * interval is drawn is known before it is searched for, so the sum is computed again
 * without the grids. Integers stand for the floating-point numbers of XSBench, so
 * that sums do not depend on their order.
 */
#include "support/dataset.h"

#define NUCLIDES 32U
#define SECTIONS 5U
#define FRACTION_BITS 20U
#define INTERVAL_BITS 16U	/* each interval of this size has one energy, anywhere in it */

struct point {
	uint64_t energy;
	uint64_t section[SECTIONS];
};

struct row {
	uint32_t point[NUCLIDES];	/* each nuclide's last one that is not above the energy */
};

/* Nuclides in a material, with XSBench's twelve as the pattern. */
static const unsigned int material_size[] = { 32, 5, 4, 4, 27, 21, 21, 21, 21, 21, 9, 9 };

#define MATERIALS (sizeof(material_size) / sizeof(material_size[0]))

struct drawn {
	uint64_t position, energy;
	unsigned int material;
};

static struct {
	uint64_t *energy;	/* of the common grid, in order */
	struct row *rows;
	struct point *points;	/* of each nuclide, one grid after the other */
	uint64_t grid;		/* points of one nuclide */
	uint64_t energies;	/* of all nuclides */
} xs;

static uint64_t energy_at(const struct run *run, uint64_t position)
{
	return position << INTERVAL_BITS | (random_at(run->seed, position) & ((1U << INTERVAL_BITS) - 1));
}

/* In each block of NUCLIDES energies every nuclide has one; the order is random for each block. */
static unsigned int place_in_block(const struct run *run, unsigned int nuclide, uint64_t block)
{
	return (unsigned int)((nuclide * 5 + random_at(~run->seed, block)) % NUCLIDES);
}

static uint32_t index_at(const struct run *run, uint64_t position, unsigned int nuclide)
{
	const uint64_t block = position / NUCLIDES;

	/* In the first block a nuclide's first point stands for the one below, which it lacks. */
	if (!block || place_in_block(run, nuclide, block) <= position % NUCLIDES)
		return (uint32_t)block;
	return (uint32_t)(block - 1);
}

static struct point point_at(const struct run *run, unsigned int nuclide, uint64_t at)
{
	struct point point = { .energy = energy_at(run, at * NUCLIDES + place_in_block(run, nuclide, at)) };

	for (unsigned int i = 0; i < SECTIONS; i++)
		point.section[i] = (uint32_t)random_at(run->seed ^ 0x7873ULL << 48,
						       (nuclide * xs.grid + at) * SECTIONS + i);
	return point;
}

static void fill(struct run *run, unsigned int index)
{
	const struct span mine = dataset_share(run, xs.energies, index);

	for (uint64_t i = mine.first; i < mine.end; i++)
		xs.energy[i] = energy_at(run, i);
	for (uint64_t i = mine.first; i < mine.end; i++)
		for (unsigned int nuclide = 0; nuclide < NUCLIDES; nuclide++)
			xs.rows[i].point[nuclide] = index_at(run, i, nuclide);
	for (uint64_t i = mine.first; i < mine.end; i++)
		xs.points[i] = point_at(run, (unsigned int)(i / xs.grid), i % xs.grid);
}

static struct drawn draw(const struct run *run, uint64_t i)
{
	const uint64_t random = random_at(run->seed ^ 0x647261770aULL << 24, i);
	struct drawn drawn = {
		/* Not in the first or the last block: every nuclide has a point on either side. */
		.position = NUCLIDES + random % (xs.energies - 2 * NUCLIDES),
		.material = (unsigned int)(random >> 32) % MATERIALS,
	};
	const uint64_t from = energy_at(run, drawn.position), to = energy_at(run, drawn.position + 1);

	drawn.energy = from + (random >> 40) % (to - from);
	return drawn;
}

static unsigned int nuclide_of(unsigned int material, unsigned int i)
{
	return (material * 7 + i) % NUCLIDES;
}

static void add_nuclide(uint64_t total[SECTIONS], const struct point *low, const struct point *high, uint64_t energy)
{
	const int64_t fraction = (int64_t)(((energy - low->energy) << FRACTION_BITS) / (high->energy - low->energy));

	for (unsigned int i = 0; i < SECTIONS; i++) {
		const int64_t step = (int64_t)(high->section[i] - low->section[i]);

		total[i] += low->section[i] + (uint64_t)((step * fraction) >> FRACTION_BITS);
	}
}

static uint64_t total_of(const uint64_t total[SECTIONS])
{
	uint64_t sum = CHECKSUM_SEED;

	for (unsigned int i = 0; i < SECTIONS; i++)
		sum = checksum_add(sum, total[i]);
	return sum;
}

static uint64_t look_up(const struct run *run, uint64_t i)
{
	const struct drawn drawn = draw(run, i);
	uint64_t total[SECTIONS] = { 0 };
	uint64_t low = 0, high = xs.energies;

	while (high - low > 1) {
		const uint64_t middle = (low + high) / 2;

		if (xs.energy[middle] <= drawn.energy)
			low = middle;
		else
			high = middle;
	}
	for (unsigned int j = 0; j < material_size[drawn.material]; j++) {
		const unsigned int nuclide = nuclide_of(drawn.material, j);
		const struct point *point = &xs.points[nuclide * xs.grid + xs.rows[low].point[nuclide]];

		add_nuclide(total, point, point + 1, drawn.energy);
	}
	return total_of(total);
}

static uint64_t expected(const struct run *run, uint64_t i)
{
	const struct drawn drawn = draw(run, i);
	uint64_t total[SECTIONS] = { 0 };

	for (unsigned int j = 0; j < material_size[drawn.material]; j++) {
		const unsigned int nuclide = nuclide_of(drawn.material, j);
		const uint64_t at = index_at(run, drawn.position, nuclide);
		const struct point low = point_at(run, nuclide, at), high = point_at(run, nuclide, at + 1);

		add_nuclide(total, &low, &high, drawn.energy);
	}
	return total_of(total);
}

static int setup(struct run *run)
{
	const uint64_t bytes_per_energy = sizeof(*xs.energy) + sizeof(*xs.rows) + sizeof(*xs.points);
	const int error = dataset_open(run, 0);
	struct drawn first;

	if (error)
		return error;
	xs.grid = dataset.bytes / (bytes_per_energy * NUCLIDES);
	xs.energies = xs.grid * NUCLIDES;
	xs.energy = (uint64_t *)dataset.start;
	xs.rows = (struct row *)(xs.energy + xs.energies);
	xs.points = (struct point *)(xs.rows + xs.energies);
	team_run(run, fill);
	first = draw(run, 0);
	if (dataset.is_planted) {
		const unsigned int nuclide = nuclide_of(first.material, 0);
		const uint64_t at = nuclide * xs.grid + index_at(run, first.position, nuclide);

		/* A bit so high that it shows whatever the fraction is. */
		xs.points[at].section[0] ^= 1ULL << 40;
	}
	units_are(look_up, expected);
	dataset_warm(run);
	return 0;
}

WORKLOAD(xs_lookups) = {
	DATASET_ENTRY,
	.name = "xs-lookup",
	.unit = "cross section looked up",
	.about = "Threads look up random energies in sorted grids of --set mib=N MiB (64), and interpolate a material's "
		 "cross sections, as XSBench does.",
	.units = 20000,
	.measure = units_measure,
	.verify = units_verify,
};
