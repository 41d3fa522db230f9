// SPDX-License-Identifier: GPL-2.0-only
/* The command line of `workloads run`, each mistake answered in one sentence. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#define REPEATS_MAX 10000
#define UNITS_MAX (1ULL << 40)	/* of pages or MiB, still a number of bytes */

void arguments_usage(void)
{
	fprintf(stderr, "usage: workloads list\n"
			"       workloads boot [--mechanism SPEC]...\n"
			"       workloads run NAME [--threads N] [--repeats R] [--seed S] [--units U]\n"
			"                     [--cost] [--set KEY=VALUE]... [--mechanism SPEC]...\n");
}

static int number(const char *flag, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = text ? strtoull(text, &end, 10) : 0;
	if (!text || !*text || *end || *text == '-' || errno || value < min || value > max) {
		fprintf(stderr, "workloads: %s wants a whole number from %llu to %llu, not \"%s\"\n", flag,
			(unsigned long long)min, (unsigned long long)max, text ? text : "");
		return -EINVAL;
	}
	*out = value;
	return 0;
}

static int unknown_flag(const char *flag)
{
	static const char *const flags[] = { "--threads", "--repeats", "--seed", "--units", "--cost", "--set",
					      "--mechanism" };
	const char *nearest = NULL;

	/* Three letters after the dashes are enough to tell them apart. */
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags) && !nearest; i++)
		if (strncmp(flag, flags[i], 5) == 0 || (strlen(flag) > 2 && strncmp(flag, flags[i], 4) == 0))
			nearest = flags[i];
	fprintf(stderr, "workloads: there is no flag \"%s\"%s%s\n", flag,
		nearest ? "; nearest: " : "; the flags are --threads, --repeats, --seed, --units, --cost, --set and --mechanism",
		nearest ? nearest : "");
	return -EINVAL;
}

int arguments_mechanism(const char *spec)
{
	int error = spec ? mechanism_add(spec) : -EINVAL;

	if (error == -ENOSPC)
		fprintf(stderr, "workloads: --mechanism may be given %d times\n", MECHANISMS_MAX);
	else if (error)
		fprintf(stderr, "workloads: --mechanism wants NAME[,KEY=VALUE]..., not \"%s\"\n", spec ? spec : "");
	return error;
}

static int name(struct arguments *arguments, const char *text)
{
	if (arguments->workload) {
		fprintf(stderr, "workloads: run takes one workload, not also \"%s\"\n", text);
		return -EINVAL;
	}
	arguments->workload = workload_find(text);
	if (arguments->workload)
		return 0;
	fprintf(stderr, "workloads: there is no workload \"%s\"", text);
	workload_print_nearest(text);
	fputc('\n', stderr);
	return -EINVAL;
}

static int flag(struct arguments *arguments, int argc, char **argv, int *at)
{
	const char *text = argv[*at];
	const char *value = *at + 1 < argc ? argv[*at + 1] : NULL;
	uint64_t parsed = 0;
	int error;

	if (strcmp(text, "--cost") == 0) {
		arguments->cost = true;
		return 0;
	}
	++*at;
	if (strcmp(text, "--threads") == 0) {
		error = number(text, value, 1, UINT32_MAX, &parsed);
		arguments->threads = (unsigned int)parsed;
	} else if (strcmp(text, "--repeats") == 0) {
		error = number(text, value, 1, REPEATS_MAX, &parsed);
		arguments->repeats = (unsigned int)parsed;
	} else if (strcmp(text, "--seed") == 0) {
		error = number(text, value, 0, UINT64_MAX, &arguments->seed);
	} else if (strcmp(text, "--units") == 0) {
		error = number(text, value, 1, UNITS_MAX, &arguments->units);
	} else if (strcmp(text, "--set") == 0) {
		error = value ? option_set(value) : -EINVAL;
		if (error)
			fprintf(stderr, "workloads: --set wants KEY=VALUE (at most %d times), not \"%s\"\n",
				OPTIONS_MAX, value ? value : "");
	} else if (strcmp(text, "--mechanism") == 0) {
		error = arguments_mechanism(value);
	} else {
		error = unknown_flag(text);
	}
	return error;
}

int arguments_parse(struct arguments *arguments, int argc, char **argv)
{
	*arguments = (struct arguments){ .threads = 1, .repeats = 1, .seed = 1 };
	for (int i = 0; i < argc; i++) {
		int error = argv[i][0] == '-' ? flag(arguments, argc, argv, &i) : name(arguments, argv[i]);

		if (error)
			return error;
	}
	if (!arguments->workload) {
		fprintf(stderr, "workloads: run wants the name of a workload; \"workloads list\" prints them\n");
		return -EINVAL;
	}
	if (arguments->threads > cpus_allowed() || arguments->threads > THREADS_MAX) {
		fprintf(stderr,
			"workloads: %u threads asked for, but each needs a CPU of its own and %u may be used here; "
			"use --threads %u or less\n",
			arguments->threads, cpus_allowed(), cpus_allowed());
		return -EINVAL;
	}
	if (!arguments->units)
		arguments->units = arguments->workload->units;
	return 0;
}
