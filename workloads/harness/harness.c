// SPDX-License-Identifier: GPL-2.0-only
/* `workloads`: every workload in one static binary, for the guest and for a plain host. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "harness.h"

/* The lines of a hundred cost repeats, which are printed at the end. */
#define OUTPUT_BYTES (128 * 1024)

/* Return: the exit code this repeat asks for; EXIT_PASS to go on. */
static int report(const struct outcome *outcome)
{
	const struct run *run = &outcome->run;

	if (run->has_failed || run->has_skipped) {
		const char *kind = run->has_failed ? "fail" : "skip";

		protocol_refusal(kind, run->workload->name, run->threads, run->reason, run->output);
		fprintf(stderr, "workloads: %s %s: %s\n", run->workload->name,
			run->has_failed ? "failed" : "skipped", run->reason);
		return run->has_failed ? EXIT_FAIL : EXIT_SKIP;
	}
	protocol_run(outcome);
	return EXIT_PASS;
}

static int refuse_option(const struct workload *workload)
{
	const char *known = options_known();

	fprintf(stderr, "workloads: %s knows no setting \"%s\"%s%s\n", workload->name, option_unused(),
		*known ? "; it knows " : "", known);
	return EXIT_USAGE;
}

static int run_repeats(const struct arguments *arguments)
{
	struct outcome *outcome =
		mmap(NULL, sizeof(*outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int code = EXIT_PASS;

	if (outcome == MAP_FAILED) {
		fprintf(stderr, "workloads: no memory for a result: %s\n", strerror(errno));
		return EXIT_FAIL;
	}
	for (unsigned int repeat = 0; repeat < arguments->repeats && code == EXIT_PASS; repeat++) {
		if (repeat_run(outcome, arguments, repeat) == -EINVAL)
			return EXIT_USAGE;
		if (option_unused() && !outcome->run.has_failed && !outcome->run.has_skipped)
			return refuse_option(arguments->workload);
		code = report(outcome);
	}
	return code;
}

static int run_command(int argc, char **argv)
{
	/* Given, because glibc ignores the size of a buffer it has to make itself. */
	static char output[OUTPUT_BYTES];
	struct arguments arguments;
	const struct workload *workload;
	unsigned int threads_min;
	int code, error;

	if (arguments_parse(&arguments, argc, argv))
		return EXIT_USAGE;
	workload = arguments.workload;
	threads_min = workload->threads_min ? workload->threads_min : 1;
	if (arguments.threads < threads_min) {
		char reason[128];

		snprintf(reason, sizeof(reason), "needs at least %u threads", threads_min);
		protocol_refusal("skip", workload->name, arguments.threads, reason, "");
		fprintf(stderr, "workloads: %s %s\n", workload->name, reason);
		return EXIT_SKIP;
	}
	/* Before any fork: an address space that never ran elsewhere has no other CPU to interrupt. */
	if (pin_to(0)) {
		fprintf(stderr, "workloads: cannot pin to CPU %d\n", team_cpu(0));
		return EXIT_FAIL;
	}
	setvbuf(stdout, output, _IOFBF, sizeof(output));
	error = counters_open(arguments.cost);
	if (error) {
		fprintf(stderr, "workloads: the kernel's counters cannot be switched on: %s\n", strerror(-error));
		return EXIT_FAIL;
	}
	code = run_repeats(&arguments);
	counters_close();
	return fflush(stdout) || ferror(stdout) ? EXIT_FAIL : code;
}

static int boot_command(int argc, char **argv)
{
	for (int i = 0; i < argc; i += 2) {
		if (strcmp(argv[i], "--mechanism") != 0) {
			arguments_usage();
			return EXIT_USAGE;
		}
		if (arguments_mechanism(i + 1 < argc ? argv[i + 1] : NULL))
			return EXIT_USAGE;
	}
	protocol_boot();
	return fflush(stdout) ? EXIT_FAIL : EXIT_PASS;
}

int main(int argc, char **argv)
{
	/* What workload `exec` executes. */
	if (argc == 2 && strcmp(argv[1], "end") == 0)
		return EXIT_PASS;
	/* A program that goes away is an error to report, not a reason to die. */
	signal(SIGPIPE, SIG_IGN);
	if (cpus_init() || options_init()) {
		fprintf(stderr, "workloads: cannot read which CPUs may be used: %s\n", strerror(errno));
		return EXIT_FAIL;
	}
	if (argc == 2 && strcmp(argv[1], "list") == 0)
		workload_print_list();
	else if (argc >= 2 && strcmp(argv[1], "boot") == 0)
		return boot_command(argc - 2, argv + 2);
	else if (argc >= 2 && strcmp(argv[1], "run") == 0)
		return run_command(argc - 2, argv + 2);
	else if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0))
		arguments_usage();
	else {
		arguments_usage();
		return EXIT_USAGE;
	}
	return fflush(stdout) ? EXIT_FAIL : EXIT_PASS;
}
