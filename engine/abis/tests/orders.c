// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ring itself, not a copy of it: whoever publishes and whoever reads are threads of
 * this program that may be exchanged before each access, in every order there is.
 *   engine/abis/tests/run ring
 */
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include "ring.h"

#define THREADS	3
#define STEPS	64
#define STACK	16384
#define MAX	48u		/* pages that a reader takes */

void (*ring_yield)(void);

struct task {
	u64 gen;		/* publishes this one; 0: reads ... */
	u64 from, to;		/* ... these */
};

static const char *test;
static unsigned long long checks;

#define CHECK(condition, ...) do { \
	checks++; \
	if (!(condition)) { \
		printf("ring:%s: FAILED after %llu checks: %s: ", test, checks, #condition); \
		printf(__VA_ARGS__); \
		printf("\n   rerun: engine/abis/tests/run ring\n"); \
		exit(1); \
	} \
} while (0)

static struct ring ring;
static ucontext_t scheduler, thread[THREADS];
static char stack[THREADS][STACK];
static const struct task *tasks;
static bool is_over[THREADS];
static int running;
static unsigned long long found;

/* Of each generation: different ones in the same slot differ. */
static u64 start_of(u64 gen) { return gen << 12; }
static u64 pages_of(u64 gen) { return 1 + gen % 5; }

static void publish(u64 gen)
{
	ring_publish(&ring, gen, start_of(gen), pages_of(gen));
}

/* What is found is what was published, all of it. */
static u32 collect(u64 from, u64 to)
{
	u64 ranges[RING_SLOTS], pages = 0;
	u32 count = ring_collect(&ring, from, to, MAX, ranges);

	CHECK(count == 0 || count == to - from, "%u ranges for generations %llu to %llu", count,
	      (unsigned long long)from + 1, (unsigned long long)to);
	for (u32 i = 0; i < count; i++) {
		CHECK(ranges[i] == (start_of(from + 1 + i) | pages_of(from + 1 + i)), "generation %llu flushes %llx",
		      (unsigned long long)from + 1 + i, (unsigned long long)ranges[i]);
		pages += pages_of(from + 1 + i);
	}
	CHECK(!count || pages <= MAX, "%llu pages are too many", (unsigned long long)pages);
	return count;
}

static void body(void)
{
	const struct task *task = &tasks[running];

	if (task->gen)
		publish(task->gen);
	else
		found += collect(task->from, task->to) > 0;
	is_over[running] = true;
	swapcontext(&thread[running], &scheduler);
}

static void yield(void)
{
	swapcontext(&thread[running], &scheduler);
}

/* One run: @choice says who goes on at each step, @options gets how many could. Return: steps. */
static int run_once(const u8 *choice, int chosen, u8 *options)
{
	int steps = 0;

	for (int i = 0; i < THREADS; i++) {
		getcontext(&thread[i]);
		thread[i].uc_stack.ss_sp = stack[i];
		thread[i].uc_stack.ss_size = STACK;
		makecontext(&thread[i], body, 0);
		is_over[i] = !tasks[i].gen && !tasks[i].to;
	}
	ring_yield = yield;
	for (;;) {
		int ready[THREADS], count = 0;

		for (int i = 0; i < THREADS; i++)
			if (!is_over[i])
				ready[count++] = i;
		if (!count)
			break;
		if (steps == STEPS)
			abort();
		options[steps] = (u8)count;
		running = ready[steps < chosen ? choice[steps] : 0];
		steps++;
		swapcontext(&scheduler, &thread[running]);
	}
	ring_yield = NULL;
	return steps;
}

/* Every order of the accesses of these tasks, after @before has been published. */
static unsigned long long run_all(const struct task *all, const u64 *before)
{
	u8 choice[STEPS] = { 0 }, options[STEPS];
	unsigned long long orders = 0;
	int chosen = 0, steps;

	tasks = all;
	found = 0;
	do {
		ring = (struct ring){ 0 };
		for (const u64 *gen = before; *gen; gen++)
			publish(*gen);
		steps = run_once(choice, chosen, options);
		orders++;
		for (chosen = steps; chosen > 0 && choice[chosen - 1] + 1 == options[chosen - 1]; chosen--)
			choice[chosen - 1] = 0;
		if (chosen)
			choice[chosen - 1]++;
	} while (chosen);
	return orders;
}

/* Two write the same slot, the older one late; or neighbouring ones. */
static void test_orders(void)
{
	static const struct { struct task tasks[THREADS]; u64 before[4]; } cases[] = {
		{ { { .gen = 3 }, { .gen = 19 }, { .from = 2, .to = 3 } }, { 0 } },
		{ { { .gen = 3 }, { .gen = 19 }, { .from = 18, .to = 19 } }, { 0 } },
		{ { { .gen = 3 }, { .gen = 4 }, { .from = 2, .to = 4 } }, { 0 } },
		{ { { .gen = 19 }, { .gen = 20 }, { .from = 2, .to = 4 } }, { 3, 4, 0 } },
		{ { { .gen = 19 }, { .gen = 35 }, { .from = 18, .to = 19 } }, { 3, 0 } },
		{ { { .gen = 35 }, { .from = 2, .to = 3 }, { .from = 18, .to = 19 } }, { 3, 19, 0 } },
	};
	unsigned long long orders = 0, some = 0;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		orders += run_all(cases[i].tasks, cases[i].before);
		some += found;
	}
	CHECK(some > 0, "nobody found anything in %llu orders", orders);
	printf("ring:orders: %llu orders, %llu found all\n", orders, some);
}

static u64 random_state = 88172645463325252ull;

static u64 random_below(u64 limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % limit;
}

/* One after the other: found is what is known, no less. Some generations flush everything. */
static void test_known(void)
{
	for (int run = 0; run < 3000; run++) {
		u64 gens = 1 + random_below(60), all_of = 1 + random_below(8);
		bool is_known[64] = { false };

		ring = (struct ring){ 0 };
		for (u64 gen = 1; gen <= gens; gen++) {
			if (!random_below(all_of))
				continue;
			publish(gen);
			for (u64 old = gen % RING_SLOTS; old < gen; old += RING_SLOTS)
				is_known[old] = false;
			is_known[gen] = true;
		}
		for (u64 from = 0; from <= gens; from++) {
			for (u64 to = from; to <= gens; to++) {
				bool want = to > from;
				u64 pages = 0;

				for (u64 gen = from + 1; gen <= to; gen++) {
					want &= is_known[gen];
					pages += pages_of(gen);
				}
				want &= pages <= MAX;
				CHECK((collect(from, to) > 0) == want, "generations %llu to %llu of %llu",
				      (unsigned long long)from + 1, (unsigned long long)to, (unsigned long long)gens);
			}
		}
	}
}

int main(void)
{
	static const struct { const char *name; void (*run)(void); } tests[] = {
		{ "known", test_known }, { "orders", test_orders },
	};

	for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
		test = tests[i].name;
		checks = 0;
		tests[i].run();
		printf("ring:%-8s ok, %llu checks\n", test, checks);
	}
	return 0;
}
