// SPDX-License-Identifier: GPL-2.0-only
/* See app.h. */
#define _GNU_SOURCE
#include "app.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pressure.h"

#define IO_BYTES 65536
#define VOCABULARY 4096
#define WORD_BYTES_MAX 12

static char directory[64];

static int require_programs(struct run *run)
{
	const char *next = run->workload->programs;

	while (next && *next) {
		const size_t length = strcspn(next, ",");
		char path[APP_PATH_BYTES_MAX];

		snprintf(path, sizeof(path), "%.*s", (int)length, next);
		if (access(path, R_OK) != 0)
			return workload_skip(run, "needs %s, from the Debian packages %s",
					     path, run->workload->packages);
		next += length + (next[length] == ',');
	}
	return 0;
}

int app_begin(struct run *run)
{
	int error = require_programs(run);

	if (error)
		return error;
	app_end();
	strcpy(directory, "/tmp/ceasefire-XXXXXX");
	/* Servers that drop root must still reach their files. */
	if (!mkdtemp(directory) || chmod(directory, 0755) != 0) {
		error = -errno;
		directory[0] = '\0';
		return workload_fail(run, "making a directory in /tmp: %s", strerror(-error));
	}
	return 0;
}

void app_end(void)
{
	struct dirent *entry;
	DIR *stream;

	if (!directory[0])
		return;
	stream = opendir(directory);
	while (stream && (entry = readdir(stream)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(stream), entry->d_name, 0);
	if (stream)
		closedir(stream);
	if (rmdir(directory) != 0)
		fprintf(stderr, "rmdir %s: %s\n", directory, strerror(errno));
	directory[0] = '\0';
}

void app_path(char path[APP_PATH_BYTES_MAX], const char *name)
{
	snprintf(path, APP_PATH_BYTES_MAX, "%s/%s", directory, name);
}

/* Only async-signal-safe calls: other threads of this process may hold locks. */
static void child_exec(const struct app_command *command, const cpu_set_t *cpus, pid_t parent)
{
	static const char *const environment[] = {
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "TMPDIR=/tmp", NULL
	};
	const char *input = command->input ? command->input : "/dev/null";
	const char *output = command->output ? command->output : "/dev/null";

	if (dup2(open(input, O_RDONLY | O_CLOEXEC), STDIN_FILENO) < 0)
		_exit(126);
	/* The results leave by stdout, so no child may ever write there. */
	if (dup2(open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), STDOUT_FILENO) < 0)
		_exit(126);
	/* Ignored signals stay ignored in a new program. */
	signal(SIGPIPE, SIG_DFL);
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent)
		_exit(126);
	if (sched_setaffinity(0, sizeof(*cpus), cpus) != 0)
		_exit(126);
	if (command->in_cgroup && pressure_cgroup_enter() != 0)
		_exit(125);
	execve(command->argv[0], (char *const *)command->argv, (char *const *)environment);
	_exit(127);
}

pid_t app_start(struct run *run, const struct app_command *command)
{
	const pid_t parent = getpid();
	cpu_set_t cpus;
	pid_t pid;

	CPU_ZERO(&cpus);
	for (unsigned int i = 0; i < run->threads; i++)
		CPU_SET(team_cpu(i), &cpus);
	pid = fork();
	if (pid < 0)
		return workload_fail(run, "starting %s: %s", command->argv[0], strerror(errno));
	if (pid == 0)
		child_exec(command, &cpus, parent);
	return pid;
}

int app_wait(struct run *run, pid_t pid, const char *what)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return workload_fail(run, "waiting for %s: %s", what, strerror(errno));
	if (WIFSIGNALED(status))
		return workload_fail(run, "%s was killed by signal %d", what, WTERMSIG(status));
	if (WEXITSTATUS(status) == 125)
		return workload_fail(run, "%s could not enter the cgroup", what);
	if (WEXITSTATUS(status) == 126 || WEXITSTATUS(status) == 127)
		return workload_fail(run, "%s could not be executed", what);
	if (WEXITSTATUS(status))
		return workload_fail(run, "%s ended with exit code %d", what, WEXITSTATUS(status));
	return 0;
}

void app_stop(pid_t *pid)
{
	int status;

	if (*pid <= 0)
		return;
	kill(*pid, SIGTERM);
	while (waitpid(*pid, &status, 0) < 0 && errno == EINTR)
		;
	*pid = 0;
}

bool app_is_gone(pid_t *pid)
{
	int status;

	if (*pid > 0 && waitpid(*pid, &status, WNOHANG) == 0)
		return false;
	*pid = 0;
	return true;
}

static int write_all(int fd, const char *bytes, size_t count)
{
	while (count > 0) {
		const ssize_t done = write(fd, bytes, count);

		if (done < 0 && errno != EINTR)
			return -errno;
		if (done > 0) {
			bytes += done;
			count -= (size_t)done;
		}
	}
	return 0;
}

static int open_new(struct run *run, const char *name)
{
	char path[APP_PATH_BYTES_MAX];
	int fd;

	app_path(path, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	return fd >= 0 ? fd : workload_fail(run, "writing %s: %s", path, strerror(errno));
}

int app_write_text(struct run *run, const char *name, const char *text)
{
	const int fd = open_new(run, name);
	int error;

	if (fd < 0)
		return fd;
	error = write_all(fd, text, strlen(text));
	close(fd);
	return error ? workload_fail(run, "writing %s: %s", name, strerror(-error)) : 0;
}

/* Short words are likelier to be picked, as in a natural text. */
static size_t pick_word(uint64_t *state)
{
	const uint64_t a = random_next(state) % VOCABULARY;
	const uint64_t b = random_next(state) % VOCABULARY;

	return (size_t)(a * b / VOCABULARY);
}

int app_write_words(struct run *run, const char *name, uint64_t seed, uint64_t bytes)
{
	static char words[VOCABULARY][WORD_BYTES_MAX + 1], buffer[IO_BYTES];
	const int fd = open_new(run, name);
	uint64_t state = seed;
	size_t used = 0;
	int error = 0;

	if (fd < 0)
		return fd;
	for (size_t w = 0; w < VOCABULARY; w++) {
		const size_t length = 2 + w * (WORD_BYTES_MAX - 2) / VOCABULARY;

		for (size_t i = 0; i < length; i++)
			words[w][i] = (char)('a' + random_next(&state) % 26);
		words[w][length] = '\0';
	}
	while (bytes > 0 && !error) {
		const char *word = words[pick_word(&state)];

		while (*word && used < sizeof(buffer))
			buffer[used++] = *word++;
		if (used < sizeof(buffer))
			buffer[used++] = random_next(&state) % 10 ? ' ' : '\n';
		if (used == sizeof(buffer) || used >= bytes) {
			if (used > bytes)
				used = (size_t)bytes;
			error = write_all(fd, buffer, used);
			bytes -= used;
			used = 0;
		}
	}
	close(fd);
	return error ? workload_fail(run, "writing %s: %s", name, strerror(-error)) : 0;
}

uint64_t app_checksum_bytes(uint64_t sum, const void *bytes, size_t count)
{
	const unsigned char *at = bytes;

	while (count > 0) {
		const size_t part = count < 8 ? count : 8;
		uint64_t word = 0;

		memcpy(&word, at, part);
		sum = checksum_add(sum, word);
		at += part;
		count -= part;
	}
	return sum;
}

int app_checksum_file(struct run *run, const char *name, uint64_t *sum)
{
	static char buffer[IO_BYTES];
	char path[APP_PATH_BYTES_MAX];
	uint64_t total = 0;
	ssize_t got;
	int fd;

	app_path(path, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return workload_fail(run, "reading %s: %s", path, strerror(errno));
	/* Regular files give short reads only at their end. */
	while ((got = read(fd, buffer, sizeof(buffer))) > 0) {
		*sum = app_checksum_bytes(*sum, buffer, (size_t)got);
		total += (uint64_t)got;
	}
	close(fd);
	if (got < 0)
		return workload_fail(run, "reading %s: %s", path, strerror(errno));
	*sum = checksum_add(*sum, total);
	return 0;
}
