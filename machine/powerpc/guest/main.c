// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads its words, runs what they name, and says the outcome in lines:
 *
 *   rule 17 ok [what was seen]   rule 17 FAIL why   rule 17 skip what is missing
 *   rule 17 lost exception …, if one came that was no part of a journey: the end of everything
 *   done 40 passed 1 failed 3 skipped
 *
 * Words: rules=1,20-39 (all), list, force (run rules whose needs are not met), fuzz=N, seed=N, and what the machine was
 * given: model, oracle, icount, reset.
 */
#include "rules.h"

extern const struct rule *const rules_begin[], *const rules_end[];

uint32_t entries_at_start = NOT_COUNTED;

static bool is_chosen(const struct rule *rule)
{
	if (!option("rules"))
		return !option("fuzz");
	return option_lists("rules", rule->number);
}

/* Return: what the machine lacks for the rule, or NULL. */
static const char *missing(unsigned int needs)
{
	const struct {
		unsigned int need;
		bool is_there;
		const char *text;
	} all[] = {
		{ MODEL, option("model"), "the model" },
		{ ORACLE, option("oracle"), "the oracle" },
		{ NO_ORACLE, !option("oracle"), "no oracle" },
		{ ICOUNT, option("icount"), "icount" },
		{ RESET, option("reset"), "a reset" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (needs & all[i].need && !all[i].is_there)
			return all[i].text;
	return NULL;
}

static const struct rule *current;

static void run_current(void)
{
	memory_reset();
	current->run();
}

static void rules_run(void)
{
	unsigned int passed = 0, failed = 0, skipped = 0;

	for (const struct rule *const *rule = rules_begin; rule < rules_end; rule++) {
		const char *why, *lacks = missing((*rule)->needs);

		if (!is_chosen(*rule))
			continue;
		if (lacks && !option("force")) {
			say("rule %u skip %s\n", (*rule)->number, lacks);
			skipped++;
			continue;
		}
		say("rule %u ", (*rule)->number);
		current = *rule;
		/* VSIDs that no other rule has used: what one leaves behind means nothing to the next. */
		vsid_base((uint32_t)(rule - rules_begin + 1) * 0x4000);
		why = attempt(run_current);
		if (why) {
			say("FAIL %s\n", why);
			failed++;
		} else {
			say("ok %s\n", text_now());
			passed++;
		}
	}
	say("done %u passed %u failed %u skipped\n", passed, failed, skipped);
}

static void fuzz_run(void)
{
	memory_reset();
	fuzz(option_number("fuzz", 100000), option_number("seed", 1));
}

void main(void) __attribute__((noreturn));
void main(void)
{
	console_init();
	options_init();
	if (option("oracle"))
		entries_at_start = oracle_count();
	if (option("list")) {
		for (const struct rule *const *rule = rules_begin; rule < rules_end; rule++)
			say("%u\t%s\t%s\t%s\t%s\n", (*rule)->number, (*rule)->name, (*rule)->source,
			    (*rule)->needs_text, (*rule)->killer);
		power_off();
	}
	if (option("fuzz")) {
		const char *why = attempt(fuzz_run);

		say("fuzz %s %s\n", why ? "FAIL" : "ok", text_now());
	}
	rules_run();
	power_off();
}
