// SPDX-License-Identifier: GPL-2.0-only
/* All states that can be reached in each scenario: model [MUTANT [SCENARIO]]. What they are: model.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "model.h"

enum mutant mutant;
unsigned int scenario;
const char *fault_found;

#define MUTANT_NAME(id, name) name,
static const char *const mutants[] = { MUTANTS(MUTANT_NAME) };

static const struct {
	const char *name;
	unsigned int scenario;
	operation *mutator, *rmap;
} all[] = {
	{ "write-back", 0, NULL, clean_step },
	{ "write-back, careless processor", LIBERTY, NULL, clean_step },
	{ "reclaim", NO_MEMORY, NULL, reclaim_step },
	{ "aging", AGING, NULL, age_step },
	{ "mprotect", ONE_HOME, protect_step, NULL },
	{ "mprotect and write-back", 0, protect_step, clean_step },
	{ "mprotect and write-back, careless processor", LIBERTY | ONE_HOME, protect_step, clean_step },
	{ "PROT_NONE and reclaim", PREFETCH, off_limits_step, reclaim_step },
	{ "fork", PREFETCH, fork_step, NULL },
	{ "fork and write-back", NO_MEMORY, fork_step, clean_step },
	{ "fork and write-back, careless processor", LIBERTY, fork_step, clean_step },
	{ "MADV_DONTNEED and write-back", 0, zap_step, clean_step },
	{ "MADV_DONTNEED and reclaim", ONE_HOME | NO_MEMORY, zap_step, reclaim_step },
	{ "exit", NO_MEMORY, exit_step, NULL },
	{ "exit and write-back", 0, exit_step, clean_step },
	{ "munmap and reclaim", NO_MEMORY, unmap_step, reclaim_step },
	{ "munmap and write-back", ONE_HOME, unmap_step, clean_step },
	{ "mremap and write-back", NO_MEMORY, move_step, clean_step },
	{ "mremap and reclaim", ONE_HOME, move_step, reclaim_step },
	{ "collapse and split", NO_MEMORY | PREFETCH, collapse_step, NULL },
	{ "a replica is given up, and write-back", 0, drop_step, clean_step },
	{ "a replica is given up, and reclaim", ONE_HOME | NO_MEMORY, drop_step, reclaim_step },
	{ "a replica is given up by two", 0, drop_step, drop_again_step },
	{ "two MADV_DONTNEED", ONE_HOME, dontneed_step, dontneed_again_step },
	{ "inserted, and MADV_DONTNEED", INSERTION | ONE_HOME, zap_step, NULL },
	{ "inserted, and munmap", INSERTION | ONE_HOME, unmap_step, reclaim_step },
	{ "inserted, and a replica is given up", INSERTION, drop_step, NULL },
	{ "processors come and go, mprotect", ONE_HOME | ABSENCE, protect_step, NULL },
	{ "processors come and go, reclaim", ABSENCE, NULL, reclaim_step },
	{ "processors come and go, write-back", ABSENCE, NULL, clean_step },
	{ "processors come and go, munmap", ONE_HOME | ABSENCE, unmap_step, NULL },
	{ "processors come and go, a replica is given up", ABSENCE, drop_step, NULL },
	{ "processors come and go, mprotect and reclaim", ONE_HOME | ABSENCE, protect_step, reclaim_step },
};

/* --- the states that were seen, and those still to be gone on from --- */

#define SEEN_MAX (1u << 24)
static struct state *seen;
static uint32_t *index_of;	/* 1 + place in seen */
static uint32_t count;

static uint32_t slot_for(const struct state *state)
{
	uint64_t word, sum = 0;

	for (size_t i = 0; i < sizeof(*state); i += sizeof(word)) {
		memcpy(&word, (const char *)state + i, sizeof(word));
		sum = (sum ^ word) * 0x9e3779b97f4a7c15ull;
		sum ^= sum >> 32;
	}
	return sum & (2 * SEEN_MAX - 1);
}

void reach(const struct state *state)
{
	uint32_t slot = slot_for(state);

	while (index_of[slot]) {
		if (!memcmp(&seen[index_of[slot] - 1], state, sizeof(*state)))
			return;
		slot = (slot + 1) & (2 * SEEN_MAX - 1);
	}
	if (count == SEEN_MAX) {
		fprintf(stderr, "model: more than %u states: make the scenario smaller\n", SEEN_MAX);
		exit(1);
	}
	seen[count++] = *state;
	index_of[slot] = count;
}

/* Return: whether a fault was found. */
static bool explore(operation *mutator, operation *rmap)
{
	struct state first;

	memset(&first, 0, sizeof(first));
	memset(index_of, 0, 2 * SEEN_MAX * sizeof(*index_of));
	count = 0;
	fault_found = NULL;
	first.unmapped = 2;
	reach(&first);
	for (uint32_t i = 0; i < count && !fault_found; i++) {
		const struct state from = seen[i];

		audit(&from);
		processors(&from);
		for (unsigned int node = 0; node < NODES; node++)
			fault_step(&from, node);
		if (mutator)
			mutator(&from);
		if (rmap)
			rmap(&from);
	}
	return fault_found;
}

int main(int argc, char **argv)
{
	bool found = false;
	uint64_t sum = 0;

	for (unsigned int i = 0; argc > 1 && i < MUTANT_COUNT; i++) {
		if (!strcmp(argv[1], mutants[i]))
			mutant = i;
	}
	if (argc > 1 && !mutant && strcmp(argv[1], mutants[NONE])) {
		fprintf(stderr, "model: there is no mutant '%s'; there are:", argv[1]);
		for (unsigned int i = 0; i < MUTANT_COUNT; i++)
			fprintf(stderr, " %s", mutants[i]);
		fprintf(stderr, "\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	seen = malloc(SEEN_MAX * sizeof(*seen));
	index_of = malloc(2 * SEEN_MAX * sizeof(*index_of));
	if (!seen || !index_of) {
		fprintf(stderr, "model: no memory for %u states\n", SEEN_MAX);
		return 1;
	}
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (argc > 2 && strcmp(all[i].name, argv[2]))
			continue;
		scenario = all[i].scenario;
		if (explore(all[i].mutator, all[i].rmap)) {
			printf("%s: %s (state %" PRIu32 ")\n", all[i].name, fault_found, count);
			found = true;
			break;
		}
		printf("%s: %" PRIu32 " states, ok\n", all[i].name, count);
		sum += count;
	}
	if (!found)
		printf("model: %" PRIu64 " states, ok\n", sum);
	return found;
}
