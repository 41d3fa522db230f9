// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads the command line, runs what it names, and says the outcome in lines:
 *
 *   rule 17 ok [what was seen]   rule 17 FAIL why   rule 17 skip what is missing
 *   done 40 passed 1 failed 3 skipped
 *
 * Words: rules=1,20-39 (all), list, force (run rules whose needs are not met), cpus=N, canary=N, fuzz=N or seconds=N, price=N,
 * seed=N, digest=N (rule 907), and what the machine was given: psc, speculation, dirty, denied, entries, oracle, insert,
 * icount, nodes, broadcast, late.
 */
#include "long.h"
#include "rules.h"

extern uint32_t multiboot_info;
uint32_t multiboot_info __attribute__((section(".data")));
extern const struct rule *const rules_begin[], *const rules_end[];

static bool is_chosen(unsigned int number)
{
	if (!option("rules"))
		return !option("canary") && !option("fuzz") && !option("seconds") && !option("price");
	return option_lists("rules", number);
}

/* Return: what the machine lacks for the rule, or NULL. */
static const char *missing(unsigned int needs)
{
	const struct {
		unsigned int need;
		bool is_there;
		const char *text;
	} all[] = {
		{ PCID, has_pcid(), "PCID" },
		{ INVPCID, has_invpcid(), "INVPCID" },
		{ NO_PCID, !has_pcid() && !has_invpcid(), "a CPU without PCID" },
		{ IDEAL, !option("dirty") && !option("denied"), "access bits as ideal" },
		{ DIRTY_MARKS, option("dirty") || option("denied"), "access bits as dirty or denied" },
		{ DENIED_MARKS, option("denied"), "access bits as denied" },
		{ DENIED_SPARES, !option("denied"), "access bits as ideal or dirty" },
		{ STRUCTURES, option("psc"), "a paging-structure cache" },
		{ SPECULATION, option("speculation"), "speculation" },
		{ QUIET, !option("speculation"), "no speculation" },
		{ BOUNDED, option("entries"), "a small TLB" },
		{ LARGE, !option("entries"), "a large TLB" },
		{ ORACLE, option("oracle"), "the oracle" },
		{ NO_ORACLE, !option("oracle"), "no oracle" },
		{ CPUS2, cpu_count >= 2, "two CPUs" },
		{ CPUS4, cpu_count >= 4, "four CPUs" },
		{ LA57, has_la57(), "five-level paging" },
		{ KEYS, has_pku(), "protection keys" },
		{ ICOUNT, option("icount"), "icount" },
		{ INSERT, option("insert"), "the insertion" },
		{ NO_INSERT, !option("insert"), "no insertion" },
		{ COUNT, option("count"), "the count of instructions" },
		{ NODES, option("nodes"), "several nodes" },
		{ ONE_NODE, !option("nodes"), "one node" },
		{ BROADCAST, option("broadcast"), "INVLPGB" },
		{ NO_BROADCAST, !option("broadcast"), "a CPU without INVLPGB" },
		{ EARLY, !option("late"), "INVLPGB as early as can be" },
		{ LATE, option("late"), "INVLPGB as late as can be" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (needs & all[i].need && !all[i].is_there)
			return all[i].text;
	return NULL;
}

static void run_one(const struct rule *rule)
{
	/* A broadcast is tried on all CPUs that there are. */
	if (rule->needs & (CPUS2 | CPUS4 | BROADCAST))
		on_all(settle_job, NULL);
	else
		cpu_settle();
	memory_reset();
	if (rule->needs & PCID)
		CHECK(cr4_try(CR4_BASE | CR4_PCIDE) == NO_FAULT, "CR4.PCIDE cannot be set");
	rule->run();
}

/* Return: NULL, or why the rule gave up. */
static const char *attempt(const struct rule *rule)
{
	this_cpu()->text[0] = 0;
	if (jump_save(&this_cpu()->abort))
		return this_cpu()->abort_reason;
	run_one(rule);
	return NULL;
}

static void rules_run(void)
{
	unsigned int passed = 0, failed = 0, skipped = 0;

	for (const struct rule *const *rule = rules_begin; rule < rules_end; rule++) {
		const char *why, *lacks = missing((*rule)->needs);

		if (!is_chosen((*rule)->number))
			continue;
		if (lacks && !option("force")) {
			say("rule %u skip %s\n", (*rule)->number, lacks);
			skipped++;
			continue;
		}
		say("rule %u ", (*rule)->number);
		set_window((unsigned int)(rule - rules_begin));
		why = attempt(*rule);
		if (why) {
			say("FAIL %s\n", why);
			failed++;
		} else {
			say("ok %s\n", this_cpu()->text);
			passed++;
		}
	}
	say("done %u passed %u failed %u skipped\n", passed, failed, skipped);
}

void main(void) __attribute__((noreturn));
void main(void)
{
	const uint32_t *info = (const uint32_t *)(uint64_t)multiboot_info;

	if (info && info[0] & 4)
		options_set((const char *)(uint64_t)info[4]);
	cpus_start();
	if (option("list")) {
		for (const struct rule *const *rule = rules_begin; rule < rules_end; rule++)
			say("%u\t%s\t%s\t%s\t%s\n", (*rule)->number, (*rule)->name, (*rule)->source,
			    (*rule)->needs_text, (*rule)->killer);
		power_off();
	}
	if (jump_save(&this_cpu()->abort) == 0) {
		if (option("canary"))
			canary(option_number("canary", 10000), option_number("seed", 1));
		if (option("fuzz") || option("seconds"))
			fuzz(option_number("fuzz", 10000), option_number("seed", 1));
		if (option("price"))
			price(option_number("price", 10000));
	} else {
		say("FAIL %s\n", this_cpu()->abort_reason);
	}
	rules_run();
	power_off();
}
