// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * model MUTANT all CUTOFF             every order of the steps
 * model MUTANT draw CUTOFF STEPS SEED     that many, drawn by chance
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAZYCTX_MUTANT_NAMES
#include "model.h"

struct state now;
const char *fault;
enum lazyctx_mutant lazyctx_mutant;


void fail(const char *what)
{
	if (!fault)
		fault = what;
}

/* The choices of one step: each once, or drawn. */
#define CHOICES_MAX 16
static u32 chosen[CHOICES_MAX], of[CHOICES_MAX], depth, known;
static bool is_drawing;
static u64 seed;

static u32 draw(u32 n)
{
	/* xorshift64*: by Vigna */
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return (u32)((seed * 0x2545f4914f6cdd1dull >> 32) * n >> 32);
}

u32 choose(u32 n)
{
	if (is_drawing)
		return draw(n);
	if (depth == CHOICES_MAX)
		abort();
	if (depth == known) {
		chosen[known] = 0;
		of[known++] = n;
	}
	return chosen[depth++];
}

/* Return: whether there is another way. */
static bool next_way(void)
{
	while (known && chosen[known - 1] + 1 == of[known - 1])
		known--;
	if (!known)
		return false;
	chosen[known - 1]++;
	return true;
}

/* States that were seen, each once, in the order in which they were. */
static struct state *states;
static u32 *index_of;
static size_t count, room, buckets;

static u64 hash_of(const struct state *state)
{
	const unsigned char *byte = (const unsigned char *)state;
	u64 hash = 0xcbf29ce484222325ull;
	size_t i;

	for (i = 0; i < sizeof(*state); i++)
		hash = (hash ^ byte[i]) * 0x100000001b3ull;
	return hash ^ hash >> 29;
}

static void *grow(void *old, size_t size)
{
	void *new = realloc(old, size);

	if (!new) {
		fprintf(stderr, "error: no memory\n");
		exit(2);
	}
	return new;
}

static void rehash(void)
{
	size_t i, at;

	buckets = buckets ? buckets * 2 : 1 << 20;
	index_of = grow(index_of, buckets * sizeof(*index_of));
	memset(index_of, 0, buckets * sizeof(*index_of));
	for (i = 0; i < count; i++) {
		for (at = hash_of(&states[i]) % buckets; index_of[at]; at = (at + 1) % buckets)
			;
		index_of[at] = (u32)i + 1;
	}
}

static void remember(const struct state *state)
{
	size_t at;

	if (2 * count >= buckets)
		rehash();
	for (at = hash_of(state) % buckets; index_of[at]; at = (at + 1) % buckets) {
		if (!memcmp(&states[index_of[at] - 1], state, sizeof(*state)))
			return;
	}
	if (count == room) {
		room = room ? room * 2 : 1 << 16;
		states = grow(states, room * sizeof(*states));
	}
	states[count] = *state;
	index_of[at] = (u32)++count;
}

static int report(const char *how, u64 steps)
{
	if (fault)
		printf("model: FAILED after %llu %s: %s\n", (unsigned long long)steps, how, fault);
	else
		printf("model: ok, %llu %s\n", (unsigned long long)steps, how);
	if (!fault)
		tell();
	return fault ? 1 : 0;
}

static int try_all(u32 cutoff)
{
	u64 steps = 0;
	size_t i;

	start(cutoff);
	remember(&now);
	for (i = 0; i < count; i++) {
		known = 0;
		do {
			now = states[i];
			depth = 0;
			step();
			check();
			steps++;
			if (fault)
				return report("steps", steps);
			remember(&now);
		} while (next_way());
	}
	printf("model: %llu states\n", (unsigned long long)count);
	return report("steps, all there are", steps);
}

static int try_some(u32 cutoff, u64 steps)
{
	u64 i;

	start(cutoff);
	for (i = 0; i < steps; i++) {
		step();
		check();
		if (fault)
			break;
	}
	return report("steps by chance", i);
}

int main(int argc, char **argv)
{
	u32 i, cutoff;

	if (argc < 4)
		return 2;
	for (i = 0; i < LAZYCTX_MUTANTS && strcmp(argv[1], lazyctx_mutant_names[i]); i++)
		;
	if (i == LAZYCTX_MUTANTS)
		return 2;
	lazyctx_mutant = (enum lazyctx_mutant)i;
	cutoff = (u32)atoi(argv[3]);
	is_drawing = !strcmp(argv[2], "draw");
	if (!is_drawing)
		return try_all(cutoff);
	if (argc < 6)
		return 2;
	seed = strtoull(argv[5], NULL, 10) * 2 + 1;
	return try_some(cutoff, strtoull(argv[4], NULL, 10));
}
