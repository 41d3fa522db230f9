// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every input the engine can have, against its promises put differently: the
 * oracle counts rounds with 64-bit numbers and CPUs with sets, and knows how an
 * SPTE is laid out from engine.h's comment alone.
 *   rules [TEST...]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine.h"

static const char *test;
static unsigned long long checks;

#define CHECK(condition, ...) do { \
	checks++; \
	if (!(condition)) { \
		printf("rules:%s: FAILED after %llu checks: %s: ", test, checks, #condition); \
		printf(__VA_ARGS__); \
		printf("\n   rerun: engine/abis/tests/run rules %s\n", test); \
		exit(1); \
	} \
} while (0)

static const u64 bases[] = { 0, 128, 256, 128ull << 20, (UINT64_MAX / 128 - 2) * 128 };
enum { BASES = sizeof(bases) / sizeof(*bases) };

/* CPUs that can be named: 0, 1, ... of a field of so many bits, whose last value is UNCACHED's. */
enum { NAMED = (1 << SPTE_CPU_BITS) - 2 };

/* What a two-byte value means, by engine.h. */
struct meaning {
	enum { NEVER, UNCACHED, STAMPED } kind;
	int cpu;		/* -1: any */
	u32 residue;		/* of the version at the stamp */
};

static struct meaning meaning_of(u32 value)
{
	u32 high = value / 256, low = value % 256;

	if (low >= 128)
		return (struct meaning){ STAMPED, (int)high - 1, low - 128 };
	return (struct meaning){ high == NAMED + 1 && !low ? UNCACHED : NEVER, -1, 0 };
}

static bool same(struct abis_verdict a, u8 targets, u8 reason, u16 cpu)
{
	return a.targets == targets && a.reason == reason && (targets != ABIS_CPU || a.cpu == cpu);
}

/* The least number of rounds that can lie between a stamp of this residue and now. */
static u64 least_age(u64 version, u32 residue)
{
	for (u64 age = 0; age < 128; age++)
		if ((version - age) % 128 == residue)
			return age;
	abort();
}

static void decide_one(u32 value, bool accessed, u64 version, u64 age)
{
	struct meaning means = meaning_of(value);
	struct abis_verdict got = abis_decide((spte_t)value, accessed, version);
	bool ok;

	if (accessed)
		ok = same(got, ABIS_ALL, ABIS_ACCESSED, 0);
	else if (means.kind == UNCACHED)
		ok = same(got, ABIS_NONE, ABIS_UNCACHED, 0);
	else if (means.kind == NEVER)
		ok = same(got, ABIS_ALL, ABIS_NEVER, 0);
	else if (age >= 2)
		ok = same(got, ABIS_NONE, ABIS_IDLE, 0);
	else if (means.cpu >= 0)
		ok = same(got, ABIS_CPU, ABIS_PRIVATE, (u16)means.cpu);
	else
		ok = same(got, ABIS_ALL, ABIS_RECENT, 0);
	CHECK(ok, "SPTE %#x, accessed %d, version %llu: targets %d, reason %d, cpu %d", value, accessed,
	      (unsigned long long)version, got.targets, got.reason, got.cpu);
}

static void test_decide(void)
{
	static const u64 extremes[] = { 0, 1, 2, 126, 127, 128, 129, 130, 255, 256, UINT32_MAX, 1ull << 32, 1ull << 63, UINT64_MAX - 1, UINT64_MAX };

	for (u32 residue = 0; residue < 128; residue++) {
		u64 age[128];

		for (u32 stamped = 0; stamped < 128; stamped++)
			age[stamped] = least_age(256 + residue, stamped);
		for (u32 value = 0; value < 65536; value++)
			for (int accessed = 0; accessed < 2; accessed++)
				decide_one(value, accessed, bases[value % BASES] + residue, age[meaning_of(value).residue]);
	}
	for (size_t i = 0; i < sizeof(extremes) / sizeof(*extremes); i++)
		for (u32 value = 0; value < 65536; value++)
			for (int accessed = 0; accessed < 2; accessed++)
				decide_one(value, accessed, extremes[i], (extremes[i] % 128 + 128 - meaning_of(value).residue) % 128);
}

/*
 * A stamp, then rounds: two where one was in flight, else one. Nothing is left off
 * before that, that suffices, and never more is claimed than passed.
 */
static void test_rounds(void)
{
	for (int base = 0; base < BASES; base++) {
		for (u64 at = bases[base]; at < bases[base] + 128; at++) {
			for (int in_flight = 0; in_flight < 2; in_flight++) {
				u64 from = at + 1, needed = in_flight ? 2 : 1;
				spte_t shared = spte_shared(abis_stamp_version(from, in_flight));

				for (u64 passed = 0; passed < 600 && from + passed >= from; passed++) {
					bool none = abis_decide(shared, false, from + passed).targets == ABIS_NONE;

					CHECK(!none || passed >= needed, "version %llu, in flight %d, %llu rounds",
					      (unsigned long long)from, in_flight, (unsigned long long)passed);
					CHECK(none || passed < needed || passed >= 126 + needed, "version %llu, in flight %d, %llu rounds",
					      (unsigned long long)from, in_flight, (unsigned long long)passed);
				}
			}
		}
	}
	for (u64 version = 0; version < 600; version++) {
		for (u64 begun = 0; begun <= version; begun++) {
			u64 after = abis_round_done(version, begun);

			CHECK(after >= version && after <= version + 1, "version %llu goes to %llu", (unsigned long long)version, (unsigned long long)after);
			CHECK((after == version + 1) == (begun == version), "version %llu, begun at %llu", (unsigned long long)version, (unsigned long long)begun);
		}
	}
}

/* What is written is never a reserved value, and reads back as what was meant. */
static void test_stamp(void)
{
	for (int base = 0; base < BASES; base++) {
		for (u64 version = bases[base]; version < bases[base] + 128; version++) {
			u32 value = spte_shared(version);
			struct meaning means = meaning_of(value);

			CHECK(means.kind == STAMPED && means.cpu == -1 && means.residue == version % 128, "version %llu: %#x", (unsigned long long)version, value);
			for (u32 cpu = 0; cpu < 1024; cpu++) {
				u32 private = spte_private(cpu, version);

				means = meaning_of(private);
				CHECK(means.kind == STAMPED && means.residue == version % 128, "cpu %u: %#x", cpu, private);
				CHECK(means.cpu == (cpu < NAMED ? (int)cpu : -1), "cpu %u is recorded as %d", cpu, means.cpu);
			}
			CHECK(meaning_of(spte_private(UINT32_MAX, version)).cpu == -1, "cpu 2^32 - 1");
		}
	}
	CHECK(meaning_of(SPTE_NEVER).kind == NEVER && SPTE_NEVER == 0, "fresh tables are zeroed");
	CHECK(meaning_of(SPTE_UNCACHED).kind == UNCACHED, "reserved values differ");
}

/* A set bit, or none ever seen, starts a stamp; anything else is kept, however often it is asked. */
static void test_cleared(void)
{
	for (u32 value = 0; value < 65536; value++) {
		for (u64 version = bases[value % BASES]; version < bases[value % BASES] + 128; version++) {
			for (int accessed = 0; accessed < 2; accessed++) {
				spte_t got = spte_cleared((spte_t)value, accessed, version);
				bool restart = accessed || value == 0;

				CHECK(restart ? meaning_of(got).kind == STAMPED && meaning_of(got).cpu == -1 &&
				      meaning_of(got).residue == version % 128 : got == value,
				      "SPTE %#x, accessed %d, version %llu: %#x", value, accessed, (unsigned long long)version, got);
			}
		}
	}
}

static void test_force(void)
{
	for (u32 every = 0; every < 300; every++) {
		u32 blocked = 0, since = 0;

		for (u32 i = 0; i < 1000; i++) {
			bool forced = abis_round_force(&blocked, every);

			since++;
			CHECK(forced == (every && since == every), "every %u, after %u", every, since);
			if (forced)
				since = 0;
		}
	}
	/* Lowered while many wait, or never: neither waits for the count to wrap. */
	u32 blocked = 1000;
	CHECK(abis_round_force(&blocked, 8) && !blocked, "lowered");
	CHECK(!abis_round_force(&blocked, 0) && !blocked, "never");
}

static u64 random_state = 1;

static u32 random_below(u32 limit)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)((random_state >> 33) % limit);
}

/* Sets of CPUs: 0 to 1023, by what a range of verdicts asks for. */
static void test_range(void)
{
	enum { CPUS = 1024 };

	for (u32 run = 0; run < 400000; run++) {
		struct abis_range range = { 0 };
		bool want[CPUS] = { false }, all = false;
		u32 adds = random_below(run % 16 ? 6 : 300), few = 1 + random_below(run % 3 ? 300 : 3);

		for (u32 i = 0; i < adds; i++) {
			struct abis_verdict verdict = { .targets = ABIS_CPU, .reason = ABIS_PRIVATE, .cpu = (u16)random_below(few) };
			u32 kind = random_below(adds > 8 ? 400 : 10);

			if (kind == 0)
				verdict.targets = ABIS_ALL;
			else if (kind < 3)
				verdict.targets = ABIS_NONE;
			if (verdict.targets == ABIS_ALL || (verdict.targets == ABIS_CPU && verdict.cpu >= NAMED))
				all = true;
			else if (verdict.targets == ABIS_CPU)
				want[verdict.cpu] = true;
			abis_range_add(&range, verdict);
		}
		u32 wanted = 0, one = 0;
		for (u32 cpu = 0; cpu < CPUS; cpu++) {
			if (want[cpu]) {
				wanted++;
				one = cpu;
			}
		}
		u8 targets = all ? ABIS_ALL : wanted > 1 ? ABIS_SET : wanted ? ABIS_CPU : ABIS_NONE;

		CHECK(range.targets == targets, "run %u: %u CPUs, targets %d instead of %d", run, wanted, range.targets, targets);
		if (targets == ABIS_CPU)
			CHECK(range.cpu == one, "run %u: CPU %u instead of %u", run, range.cpu, one);
		for (u32 cpu = 0; targets == ABIS_SET && cpu < 256; cpu++)
			CHECK((range.set[cpu / 64] >> cpu % 64 & 1) == want[cpu], "run %u: CPU %u", run, cpu);
	}
}

/* Sets of CPUs, with what lies behind them in memory: a CPU that none can have is not found there. */
static void test_set(void)
{
	u64 memory[64];

	for (u32 member = 0; member < NAMED + 1; member++) {
		memset(memory, 0xff, sizeof(memory));
		memset(memory, 0, 4 * sizeof(u64));
		if (member < NAMED)
			memory[member / 64] = 1ull << member % 64;
		for (u32 cpu = 0; cpu < 4096; cpu++)
			CHECK(abis_set_has(memory, cpu) == (cpu == member && member < NAMED), "CPU %u in a set of %u", cpu, member);
		CHECK(!abis_set_has(memory, UINT32_MAX), "CPU 2^32 - 1 in a set of %u", member);
	}
}

static const struct { const char *name; void (*run)(void); } tests[] = {
	{ "stamp", test_stamp }, { "cleared", test_cleared }, { "decide", test_decide }, { "rounds", test_rounds },
	{ "force", test_force }, { "range", test_range }, { "set", test_set },
};
enum { TESTS = sizeof(tests) / sizeof(*tests) };

static int run(const char *name)
{
	int found = 0;

	for (int i = 0; i < TESTS; i++) {
		if (name && strcmp(name, tests[i].name))
			continue;
		found = 1;
		test = tests[i].name;
		checks = 0;
		tests[i].run();
		printf("rules:%-8s ok, %llu checks\n", test, checks);
	}
	return found;
}

int main(int argc, char **argv)
{
	if (SPTE_CPU_BITS != 8)
		printf("rules: an SPTE can name %d CPUs\n", NAMED);
	for (int i = 1; i < argc; i++) {
		if (!run(argv[i])) {
			fprintf(stderr, "error: there is no test '%s'; the tests are: stamp cleared decide rounds force range set\n", argv[i]);
			return 2;
		}
	}
	if (argc == 1)
		run(NULL);
	return 0;
}
