// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program of the user's own, from its start to its end. The lab puts it into
 * DIRECTORY, and its words into WORDS, each with a zero byte at its end. Counted
 * are the start of the program (with its dynamic loader) and the end of its
 * address space, too; of this process nothing but a vfork, which shares memory.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workload.h"

#define DIRECTORY "/work"
#define WORDS "/program"
/* Not into a pipe: whoever reads it would run beside the program. */
#define OUTPUT "/tmp/program.output"
#define LINES_SHOWN 10

static char *text;
static char **argv;
static cpu_set_t cpus;
static pid_t child;
/* Set by the child, which shares this memory until it is the program. */
static volatile int refused;

static int words_read(struct run *run)
{
	struct stat status;
	ssize_t length;
	size_t words = 0;

	if (stat(WORDS, &status) != 0)
		return workload_skip(run, "there is no program to run; lab run --program FILE names one");
	text = malloc((size_t)status.st_size + 2);
	length = text ? file_read(WORDS, text, (size_t)status.st_size + 1) : -ENOMEM;
	if (length < 0)
		return workload_fail(run, "reading " WORDS ": %s", strerror((int)-length));
	for (ssize_t i = 0; i < length; i++)
		words += !text[i];
	argv = calloc(words + 1, sizeof(*argv));
	if (!argv || !words)
		return workload_fail(run, WORDS " names no program");
	for (size_t i = 0, at = 0; i < words; i++, at += strlen(text + at) + 1)
		argv[i] = text + at;
	return 0;
}

static int program_setup(struct run *run)
{
	CPU_ZERO(&cpus);
	for (unsigned int i = 0; i < run->threads; i++)
		CPU_SET(team_cpu(i), &cpus);
	return words_read(run);
}

/* Only system calls: the memory is the parent's. */
static void become_program(void)
{
	static char *const environment[] = {
		"PATH=/bin:/sbin:/usr/bin:/usr/sbin", "HOME=/tmp", "TMPDIR=/tmp", "LANG=C", NULL
	};
	const int input = open("/dev/null", O_RDONLY);
	const int output = open(OUTPUT, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);

	if (input >= 0 && output >= 0 && dup2(input, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 &&
	    dup2(output, STDERR_FILENO) >= 0 && close(input) == 0 && close(output) == 0 && setpgid(0, 0) == 0 &&
	    chdir(DIRECTORY) == 0 && sched_setaffinity(0, sizeof(cpus), &cpus) == 0) {
		/* Ignored signals stay ignored in a new program. */
		signal(SIGPIPE, SIG_DFL);
		execve(argv[0], argv, environment);
	}
	refused = errno;
	_exit(127);
}

static pid_t start(void)
{
	const pid_t pid = vfork();

	if (pid == 0)
		become_program();
	return pid;
}

/* The last lines of what it said. */
static void keep_output(struct run *run)
{
	const int fd = open(OUTPUT, O_RDONLY | O_CLOEXEC);
	const off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	const off_t most = sizeof(run->output) - 1;
	const off_t from = size > most ? size - most : 0;
	const ssize_t got = size > 0 ? pread(fd, run->output, (size_t)most, from) : 0;
	char *end = run->output + (got > 0 ? got : 0), *line;
	unsigned int lines = 0;

	if (fd >= 0)
		close(fd);
	while (end > run->output && end[-1] == '\n')
		end--;
	*end = '\0';
	/* A line that was cut says nothing. */
	line = from ? strchr(run->output, '\n') : NULL;
	line = line ? line + 1 : run->output;
	for (char *at = end; at > line; at--) {
		if (at[-1] == '\n' && ++lines == LINES_SHOWN)
			line = at;
	}
	memmove(run->output, line, (size_t)(end - line) + 1);
}

static int run_once(struct run *run)
{
	int status;

	refused = 0;
	child = start();
	if (child < 0)
		return workload_fail(run, "no process for the program: %s", strerror(errno));
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (refused)
		return workload_fail(run, "%s cannot be executed: %s", argv[0], strerror(refused));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	keep_output(run);
	if (WIFSIGNALED(status))
		return workload_fail(run, "%s was killed by signal %d (%s)", argv[0], WTERMSIG(status),
				     strsignal(WTERMSIG(status)));
	return workload_fail(run, "%s ended with exit code %d", argv[0], WEXITSTATUS(status));
}

static int program_measure(struct run *run)
{
	int error = 0;

	for (uint64_t i = 0; i < run->units && !error; i++)
		error = run_once(run);
	return error;
}

/* What it left behind must not run into the next repeat. */
static void program_teardown(struct run *run)
{
	(void)run;
	if (child > 0)
		kill(-child, SIGKILL);
	unlink(OUTPUT);
}

WORKLOAD(program) = {
	.name = "program",
	.group = "own",
	.unit = "run",
	.about = "A program of your own, from its start to its end (--program FILE).",
	.units = 1,
	.threads_min = 1,
	.own_processes = true,
	.setup = program_setup,
	.measure = program_measure,
	.teardown = program_teardown,
};
