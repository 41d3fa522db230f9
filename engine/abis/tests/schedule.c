// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who makes the next step: every choice comes from one seeded generator.
 *   model [--seed N] [--steps N] [--counters]
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "model.h"

struct world w;
void (*ring_yield)(void);	/* one publication is one step here; smaller ones: ring.c */
u64 counts[COUNTS];

static u64 seed = 1, steps = 10000000;

/* Where there are cores that no SPTE can name, the test has a name of its own. */
static const char *name(void)
{
	return SPTE_CPUS < CORES ? "few" : "model";
}

_Noreturn void fail(const char *rule, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	printf("%s:%s: FAILED at step %llu of seed %llu: ", name(), rule, (unsigned long long)w.now, (unsigned long long)seed);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n   rerun: engine/abis/tests/run %s --seed %llu --steps %llu\n", name(), (unsigned long long)seed, (unsigned long long)w.now);
	exit(1);
}

static const u8 weights[OPS] = {
	[OP_FAULT] = 60, [OP_ZAP] = 10, [OP_UNMAP_TABLE] = 1, [OP_COW] = 6, [OP_MKCLEAN] = 10, [OP_RECLAIM] = 10,
	[OP_PROTECT] = 8, [OP_REUSE] = 12, [OP_YOUNG] = 40, [OP_REMAP] = 8, [OP_MOVE_TABLE] = 4, [OP_FORK] = 2, [OP_ROUND] = 6,
	[OP_RUN] = 16, [OP_LAZY] = 10, [OP_MODE] = 1, [OP_REFUSE] = 1,
};

/* Swarm: for some thousand steps some operations are frequent, some are missing. */
static bool switching;
static u32 swarm[OPS], stall_every, stall_steps;

static void choose_swarm(void)
{
	static const u8 factors[] = { 0, 1, 1, 2, 8 };

	for (int kind = 0; kind < OPS; kind++)
		swarm[kind] = weights[kind] * factors[random_below(sizeof(factors))];
	swarm[OP_FAULT] += 20;
	stall_every = random_below(4) ? 16u << random_below(6) : 0;
	stall_steps = 16u << random_below(6);
	w.focus = random_below(2) ? (int)random_below(PAGES) : NOBODY;
	if (w.focus != NOBODY && random_below(2)) {	/* many rounds at once, about one page */
		swarm[OP_ROUND] += 300;
		swarm[OP_YOUNG] += 300;
		swarm[OP_RECLAIM] += random_below(300);
		swarm[OP_FAULT] += 200;
		swarm[OP_FORK] = swarm[OP_UNMAP_TABLE] = 0;
	}
	w.apart = w.focus == NOBODY && random_below(8);
	if (w.apart) {	/* thread-private memory: used by one core, then given back by some other */
		swarm[OP_FAULT] += 200;
		swarm[OP_ZAP] += random_below(200);
		swarm[OP_REUSE] += random_below(100);
		swarm[OP_MKCLEAN] += random_below(100);
		swarm[OP_RUN] += random_below(300);
		swarm[OP_LAZY] += random_below(300);
		swarm[OP_ROUND] /= 4;
		swarm[OP_YOUNG] /= 8;
	}
	w.gathering = w.focus != NOBODY && !random_below(4);
	if (w.gathering) {
		swarm[OP_FAULT] += 300;
		swarm[OP_ZAP] += 300;
		swarm[OP_PROTECT] += 300;
		swarm[OP_RUN] += 100;
		swarm[OP_FORK] = swarm[OP_UNMAP_TABLE] = swarm[OP_REFUSE] = 0;
	}
	switching = !random_below(6);
	swarm[OP_MODE] = switching && !w.apart ? 30 : 100;
}

static enum op_kind choose(void)
{
	u32 total = 0, at;
	int kind;

	for (kind = 0; kind < OPS; kind++)
		total += swarm[kind];
	at = random_below(total);
	for (kind = 0; at >= swarm[kind]; kind++)
		at -= swarm[kind];
	return kind == OP_MODE && w.mode_on && !switching ? OP_YOUNG : (enum op_kind)kind;
}

/*
 * A core that is held up hurts most between a verdict of one CPU and its flush, between
 * two looks of that flush, and between the looks of who comes back. 0: not there.
 */
static u32 fragile(const struct core *core)
{
	/* Who has taken something and not flushed it yet, and who decides whether that matters. */
	if (w.gathering && core->op.regions && !core->flush.on)
		return 8;
	if (core->op.kind && (core->op.range.targets == ABIS_CPU || core->op.range.targets == ABIS_SET) && !core->flush.on)
		return 8;
	if (core->flush.on && core->flush.info.narrow && core->flush.step > 10)
		return 4;
	return core->sw.on && core->sw.next && core->sw.step != 4 ? 16 : 0;
}

static void step(void)
{
	struct core *core = &w.core[random_below(CORES)];

	if (!(w.now++ % 8192))
		choose_swarm();
	kernel_probe(&w.core[random_below(CORES)], (int)random_below(TABLES), some_page() % SLOTS);
	if (core->stalled_until > w.now || !random_below(3)) {
		cpu_step(core);
	} else if (!tlb_step(core)) {
		if (core->op.kind)
			op_step(core);
		else
			op_start(core, choose());
	}
	/* A vCPU that lost its turn, an interrupt: its TLB lives on meanwhile. */
	if (stall_every && core->stalled_until <= w.now && !random_below(stall_every))
		core->stalled_until = w.now + random_below(stall_steps);
	if (stall_every && core->stalled_until <= w.now && fragile(core) && !random_below(fragile(core)))
		core->stalled_until = w.now + random_below(128);
	if (!random_below(4096))
		w.mm[random_below(MMS)].hot ^= (u8)(1u << random_below(PAGES));
}

static int report(bool all)
{
	static const char *const names[] = {
#define X(name) #name,
		COUNTERS(X)
#undef X
	};
	int missing = 0;

	for (int i = 0; i < COUNTS; i++) {
		if (all)
			printf("   %-24s %llu\n", names[i], (unsigned long long)counts[i]);
		if (i == COUNT_insert_refused_cpu && SPTE_CPUS >= CORES)
			continue;
		if (!counts[i] && steps >= 10000000) {
			printf("%s:coverage: FAILED: '%s' never happened in %llu steps of seed %llu\n", name(), names[i],
			       (unsigned long long)steps, (unsigned long long)seed);
			missing = 1;
		}
	}
	return missing;
}

static bool number(const char *text, u64 *value)
{
	char *rest;

	if (!text || *text < '0' || *text > '9')
		return false;
	*value = strtoull(text, &rest, 0);
	return !*rest && *value;
}

int main(int argc, char **argv)
{
	bool all = false;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--counters")) {
			all = true;
		} else if (!strcmp(argv[i], "--seed") && number(argv[i + 1], &seed)) {
			i++;
		} else if (!strcmp(argv[i], "--steps") && number(argv[i + 1], &steps)) {
			i++;
		} else {
			fprintf(stderr, "error: '%s' is not understood; use model, or few, [--seed N] [--steps N] [--counters], N at least 1\n", argv[i]);
			return 2;
		}
	}
	w.random = seed * 0x9e3779b97f4a7c15ull | 1;
	for (int i = 0; i < 16; i++)
		random_below(2);
	kernel_init();
	while (w.now < steps)
		step();
	printf("%s: %llu steps of seed %llu: %llu flushes left off, %llu rounds, nothing stale\n", name(), (unsigned long long)steps,
	       (unsigned long long)seed, (unsigned long long)(counts[COUNT_elided_idle] + counts[COUNT_elided_uncached]),
	       (unsigned long long)counts[COUNT_rounds]);
	return report(all);
}
