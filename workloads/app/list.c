// SPDX-License-Identifier: GPL-2.0-only
/*
 * A fixed list of other multi-threaded programs, in the place of the paper's
 * PARSEC: each works once through an input of `units` MiB on all threads. The
 * list was set before any mechanism was measured.
 */
#include "support/app.h"

#include <stdio.h>
#include <string.h>

#define ARGUMENTS_MAX 12
#define MIB (1024 * 1024ULL)
/* 7-Zip adds the ending itself where it is missing. */
#define OUTPUT "output.7z"

/* In an argument, %t becomes the number of threads; %i and %o the paths of input and output. */
static int app_list_run(struct run *run, const char *const *arguments)
{
	char texts[ARGUMENTS_MAX][APP_PATH_BYTES_MAX], in[APP_PATH_BYTES_MAX], out[APP_PATH_BYTES_MAX];
	const char *argv[ARGUMENTS_MAX + 1] = { NULL };
	struct app_command command = { .argv = argv, .input = in };
	uint64_t sum = CHECKSUM_SEED;
	bool names_output = false;
	pid_t pid;
	int error;

	app_path(in, "input");
	app_path(out, OUTPUT);
	for (size_t i = 0; arguments[i] && i < ARGUMENTS_MAX; i++) {
		const char *mark = strchr(arguments[i], '%');
		const int before = mark ? (int)(mark - arguments[i]) : (int)strlen(arguments[i]);

		snprintf(texts[i], sizeof(texts[i]), "%.*s", before, arguments[i]);
		if (mark && mark[1] == 't')
			snprintf(texts[i] + before, sizeof(texts[i]) - (size_t)before, "%u", run->threads);
		if (mark && (mark[1] == 'i' || mark[1] == 'o'))
			strcpy(texts[i], mark[1] == 'i' ? in : out);
		names_output |= mark && mark[1] == 'o';
		argv[i] = texts[i];
	}
	command.output = names_output ? NULL : out;
	pid = app_start(run, &command);
	if (pid < 0)
		return pid;
	error = app_wait(run, pid, argv[0]);
	if (error)
		return error;
	error = app_checksum_file(run, OUTPUT, &sum);
	run->checksum = sum;
	return error;
}

static int app_list_setup(struct run *run)
{
	const int error = app_begin(run);

	return error ? error : app_write_words(run, "input", run->seed, run->units * MIB);
}

static void app_list_teardown(struct run *run)
{
	(void)run;
	app_end();
}

/* Adding a program is adding one of these. */
#define APP_LIST(id, app_name, package, program, mib, sentence, ...)                     \
	static int id##_measure(struct run *run)                                         \
	{                                                                                \
		static const char *const arguments[] = { program, __VA_ARGS__, NULL };   \
                                                                                         \
		return app_list_run(run, arguments);                                     \
	}                                                                                \
	WORKLOAD(id) = {                                                                 \
		.name = app_name, .group = "app", .unit = "MiB of input",                \
		.about = sentence, .needs = "apps", .packages = package,                 \
		.programs = program, .units = mib, .threads_min = 1, .own_processes = true, \
		.setup = app_list_setup, .measure = id##_measure,                        \
		.teardown = app_list_teardown,                                           \
	}

APP_LIST(app_zstd, "app-zstd", "zstd", "/usr/bin/zstd", 16,
	 "zstd compresses a text, with jobs of 512 KiB on all threads.",
	 "-q", "-c", "-3", "-T%t", "-B524288");
APP_LIST(app_xz, "app-xz", "xz-utils", "/usr/bin/xz", 4,
	 "xz compresses a text, in blocks of 256 KiB on all threads.",
	 "-q", "-c", "-1", "-T%t", "--block-size=262144");
APP_LIST(app_pigz, "app-pigz", "pigz", "/usr/bin/pigz", 16,
	 "pigz compresses a text with zlib on all threads.",
	 "-c", "-n", "-3", "-p%t");
APP_LIST(app_lbzip2, "app-lbzip2", "lbzip2", "/usr/bin/lbzip2", 8,
	 "lbzip2 compresses a text, in blocks of 100 kB on all threads.",
	 "-c", "-1", "-n%t");
APP_LIST(app_plzip, "app-plzip", "plzip", "/usr/bin/plzip", 4,
	 "plzip compresses a text, in members of 256 KiB on all threads.",
	 "-q", "-c", "-1", "-n%t", "-B262144");
APP_LIST(app_7zz, "app-7zz", "7zip", "/usr/bin/7zz", 4,
	 "7-Zip compresses a text with LZMA2, in chunks of 256 KiB on all threads.",
	 "a", "-bd", "-mx=1", "-mmt=%t", "-m0=lzma2:d=64k:c=256k", "-mtm=off", "%o", "%i");
APP_LIST(app_sort, "app-sort", "coreutils", "/usr/bin/sort", 16,
	 "sort orders the lines of a text in memory on all threads.",
	 "--parallel=%t", "-S", "128M");
