// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lines of /job, each in a child with a hard time limit. Nothing here wakes
 * up while a child works: a timer of ours would be counted as its work.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

#define WORKLOADS "/bin/workloads"
#define SELFTESTS "/selftests"
#define OBSERVER "/bin/ceasefire"
#define RECORD "/tmp/watch.record"
#define NOBODY 65534
#define MECHANISM "mechanism "
#define MECHANISM_WORDS_MAX 8
#define ARGUMENTS_MAX 64
#define TIMEOUT_S_DEFAULT 60
#define TIMEOUT_S_COMMAND 600
#define AFTER_KILL_MS 5000

/* Text of a child, cut into lines. */
struct stream {
	int fd;
	size_t used;
	char text[LINE_BYTES_MAX];
};

struct child {
	pid_t pid;
	int pidfd;
	bool timed_out;
	int status;
	struct stream out, err;
	char last_error[512];	/* its last line on stderr: why it refused */
	bool is_selftest;	/* both streams are its result */
	bool is_command;	/* somebody waits for what it says, on both */
	bool is_nobody;		/* without root's rights */
	bool is_recorded;	/* by the observer, which runs it */
};

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void line_done(struct child *child, struct stream *stream)
{
	stream->text[stream->used] = '\0';
	if (child->is_selftest) {
		port_selftest_text(stream->text);
	} else if (stream == &child->out) {
		port_forward(stream->text);
	} else {
		fprintf(stderr, "%s\n", stream->text);
		/* Whoever looks on goes on talking; a remedy is no reason. */
		if (!child->is_recorded || strncmp(stream->text, "workloads: ", 11) == 0 ||
		    strncmp(stream->text, "error: ", 7) == 0)
			snprintf(child->last_error, sizeof(child->last_error), "%.511s", stream->text);
		if (child->is_command)
			port_forward(stream->text);
	}
	stream->used = 0;
}

/* Return: false at the end of the stream. */
static bool take(struct child *child, struct stream *stream)
{
	char buffer[4096];
	ssize_t got = read(stream->fd, buffer, sizeof(buffer));

	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return errno == EINTR;
	if (got <= 0)
		return false;
	for (ssize_t i = 0; i < got; i++) {
		if (buffer[i] == '\n' || stream->used == sizeof(stream->text) - 1)
			line_done(child, stream);
		if (buffer[i] != '\n')
			stream->text[stream->used++] = buffer[i];
	}
	return true;
}

static void drain(struct child *child, struct stream *stream)
{
	fcntl(stream->fd, F_SETFL, O_NONBLOCK);
	while (take(child, stream))
		;
	if (stream->used)
		line_done(child, stream);
	close(stream->fd);
}

/* Start argv, or, if it is NULL, the built-in command. Return: 0 or -errno. */
static int start(struct child *child, char *const argv[], const char *command)
{
	int out[2], err[2];

	child->timed_out = false;
	child->out.used = child->err.used = 0;
	child->last_error[0] = '\0';
	if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		return -errno;
	child->pid = fork();
	if (child->pid < 0)
		return -errno;
	if (child->pid == 0) {
		setpgid(0, 0);
		dup2(out[1], STDOUT_FILENO);
		/* One stream keeps the order of what a test says. */
		dup2(child->is_selftest ? out[1] : err[1], STDERR_FILENO);
		if (child->is_selftest && chdir(SELFTESTS))
			_exit(127);
		if (child->is_command && chdir(USERS_DIRECTORY) && errno != ENOENT)
			_exit(127);
		if (child->is_nobody && (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY)))
			_exit(127);
		if (!argv)
			_exit(shell_command(command));
		execvp(argv[0], argv);
		fprintf(stderr, "%s cannot be executed: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	close(out[1]);
	close(err[1]);
	child->out.fd = out[0];
	child->err.fd = err[0];
	child->pidfd = (int)syscall(SYS_pidfd_open, child->pid, 0);
	return 0;
}

/*
 * What a job left behind must not disturb the next one, nor write on while its
 * streams are drained. PID 1 may end everybody else, and everybody is its child then.
 */
static void end_everybody(void)
{
	int64_t deadline = now_ms() + AFTER_KILL_MS;
	pid_t gone;

	kill(-1, SIGKILL);
	while ((gone = waitpid(-1, NULL, WNOHANG)) >= 0 && now_ms() < deadline)
		if (gone == 0)
			sched_yield();
}

static void wait_for_end(struct child *child, unsigned int timeout_s)
{
	int64_t deadline = now_ms() + (int64_t)timeout_s * 1000;
	bool is_gone = false;
	struct pollfd polled[3] = {
		{ .fd = child->out.fd, .events = POLLIN },
		{ .fd = child->err.fd, .events = POLLIN },
		{ .fd = child->pidfd, .events = POLLIN },
	};

	while (!is_gone) {
		int64_t left = deadline - now_ms();

		if (left <= 0 && !child->timed_out) {
			child->timed_out = true;
			kill(-child->pid, SIGKILL);
			kill(-1, SIGKILL);
			deadline = now_ms() + AFTER_KILL_MS;
			continue;
		}
		if (left <= 0)
			break;
		if (poll(polled, 3, (int)(left > INT32_MAX ? INT32_MAX : left)) < 0 && errno != EINTR)
			break;
		/* A stream that ended must not be polled again: it would always be ready. */
		if (polled[0].revents && !take(child, &child->out))
			polled[0].fd = -1;
		if (polled[1].revents && !take(child, &child->err))
			polled[1].fd = -1;
		is_gone = polled[2].revents & POLLIN;
	}
	if (!is_gone || waitpid(child->pid, &child->status, 0) < 0)
		child->status = -1;
	end_everybody();
	drain(child, &child->out);
	drain(child, &child->err);
	close(child->pidfd);
}

static bool exited_with(const struct child *child, int code)
{
	return child->status >= 0 && WIFEXITED(child->status) && WEXITSTATUS(child->status) == code;
}

static void describe_end(const struct child *child, unsigned int timeout_s, char *text, size_t size)
{
	const char *said = child->last_error;

	/* A refusal's sentence is the reason; who said it and with what code is not. */
	if (exited_with(child, 2) && strncmp(said, "workloads: ", 11) == 0)
		snprintf(text, size, "%s", said + 11);
	else if (child->timed_out)
		snprintf(text, size, "no end within %u s, killed", timeout_s);
	else if (child->status >= 0 && WIFSIGNALED(child->status))
		snprintf(text, size, "killed by signal %d (%s)", WTERMSIG(child->status),
			 strsignal(WTERMSIG(child->status)));
	else
		snprintf(text, size, "exit code %d%s%s",
			 child->status >= 0 ? WEXITSTATUS(child->status) : -1, *said ? ": " : "", said);
}

/* One `run` line, as the workloads binary wants it. */
struct run_line {
	char *argv[ARGUMENTS_MAX];
	unsigned int count;
	const char *workload;
	unsigned int threads, timeout_s;
	bool is_recorded;
};

/* What the workloads are told of the kernel's mechanisms: flags and values. */
static char *mechanisms[MECHANISM_WORDS_MAX];
static unsigned int mechanism_words;

void jobs_mechanisms(const char *path)
{
	static char line[LINE_BYTES_MAX];
	FILE *file = fopen(path, "re");

	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\r\n")] = '\0';
		if (strncmp(line, MECHANISM, strlen(MECHANISM)) != 0 || mechanism_words + 2 > MECHANISM_WORDS_MAX)
			continue;
		mechanisms[mechanism_words++] = "--mechanism";
		mechanisms[mechanism_words++] = strdup(line + strlen(MECHANISM));
	}
	if (file)
		fclose(file);
}

static bool add(struct run_line *line, char *argument)
{
	if (line->count + 1 >= ARGUMENTS_MAX)
		return false;
	line->argv[line->count++] = argument;
	line->argv[line->count] = NULL;
	return true;
}

static bool add_word(struct run_line *line, char *word)
{
	static const struct {
		const char *key;
		char *flag;
	} flags[] = {
		{ "threads=", "--threads" },
		{ "repeats=", "--repeats" },
		{ "seed=", "--seed" },
		{ "units=", "--units" },
		{ "set=", "--set" },
	};

	if (strncmp(word, "timeout_s=", 10) == 0) {
		line->timeout_s = (unsigned int)strtoul(word + 10, NULL, 10);
		return line->timeout_s > 0;
	}
	if (strcmp(word, "cost=1") == 0)
		return add(line, "--cost");
	if (strcmp(word, "cost=0") == 0)
		return true;
	if (strcmp(word, "record=1") == 0)
		return line->is_recorded = true;
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		size_t length = strlen(flags[i].key);

		if (strncmp(word, flags[i].key, length) != 0)
			continue;
		if (i == 0)
			line->threads = (unsigned int)strtoul(word + length, NULL, 10);
		return add(line, flags[i].flag) && add(line, word + length);
	}
	return false;
}

static bool parse_run(struct run_line *line, char *text)
{
	char *rest = text, *word = strtok_r(text, " \t", &rest);

	*line = (struct run_line){ .workload = word ? word : "", .threads = 1, .timeout_s = TIMEOUT_S_DEFAULT };
	add(line, WORKLOADS);
	add(line, "run");
	for (unsigned int i = 0; i < mechanism_words; i++)
		add(line, mechanisms[i]);
	if (!word || !add(line, word)) {
		port_refusal("fail", "", 0, "the job's run line names no workload");
		return false;
	}
	while ((word = strtok_r(NULL, " \t", &rest))) {
		if (!add_word(line, word)) {
			char reason[320];

			snprintf(reason, sizeof(reason), "the job's run line has \"%.200s\", which means nothing",
				 word);
			port_refusal("fail", line->workload, line->threads, reason);
			return false;
		}
	}
	return true;
}

static struct child child;

/* The same line, while the observer looks on. Return: 0 or -errno. */
static int start_recorded(struct run_line *line)
{
	static char *const watch[] = { OBSERVER, "watch", "record", "--events", "--output", RECORD, "--" };
	const unsigned int more = sizeof(watch) / sizeof(*watch);

	if (line->count + more >= ARGUMENTS_MAX)
		return -E2BIG;
	memmove(line->argv + more, line->argv, (line->count + 1) * sizeof(*line->argv));
	memcpy(line->argv, watch, sizeof(watch));
	unlink(RECORD);
	return start(&child, line->argv, NULL);
}

static bool do_run(char *text)
{
	struct run_line line;
	struct tally before = port_tally(), after;
	char reason[640];

	if (!parse_run(&line, text))
		return false;
	child.is_recorded = line.is_recorded;
	if (line.is_recorded ? start_recorded(&line) : start(&child, line.argv, NULL)) {
		child.is_recorded = false;
		port_refusal("fail", line.workload, line.threads, "no process for it");
		return false;
	}
	wait_for_end(&child, line.timeout_s);
	child.is_recorded = false;
	if (line.is_recorded && access(RECORD, F_OK) == 0) {
		int error = port_send_record(RECORD);

		if (error)
			port_log("the observer's record does not reach the host: %s", strerror(-error));
	}
	after = port_tally();
	describe_end(&child, line.timeout_s, reason, sizeof(reason));
	/* The exit code and the lines must tell the same story; if not, that is a failure. */
	if (exited_with(&child, 0) && after.runs > before.runs)
		return true;
	if (exited_with(&child, 4) && after.skips > before.skips)
		return true;
	if (exited_with(&child, 1) && after.fails > before.fails)
		return true;
	port_refusal("fail", line.workload, line.threads, reason);
	return true;
}

static bool do_command(const char *text)
{
	static const char *const shells[] = { "/bin/sh", "/usr/bin/sh", "/bin/dash", "/usr/bin/dash" };
	char *argv[4] = { NULL, "-c", (char *)text, NULL };
	char reason[640];

	for (size_t i = 0; i < sizeof(shells) / sizeof(*shells) && !argv[0]; i++)
		if (access(shells[i], X_OK) == 0)
			argv[0] = (char *)shells[i];
	child.is_command = true;
	if (start(&child, argv[0] ? argv : NULL, text)) {
		child.is_command = false;
		port_refusal("fail", "command", 0, "no process for it");
		return false;
	}
	wait_for_end(&child, TIMEOUT_S_COMMAND);
	child.is_command = false;
	if (exited_with(&child, 0))
		return true;
	describe_end(&child, TIMEOUT_S_COMMAND, reason, sizeof(reason));
	port_refusal("fail", "command", 0, reason);
	return true;
}

/* `selftest NAME TIMEOUT_S root|nobody PROGRAM [ARGUMENT...]`: what it says and how it ends is judged by the host. */
static bool do_selftest(char *text)
{
	char *argv[ARGUMENTS_MAX], program[256];
	char *rest = text, *name = strtok_r(text, " ", &rest);
	char *limit = strtok_r(NULL, " ", &rest), *user = strtok_r(NULL, " ", &rest);
	unsigned int count = 0, timeout_s = limit ? (unsigned int)strtoul(limit, NULL, 10) : 0;
	int64_t begun;
	bool has_exit, has_signal;

	while (count + 1 < ARGUMENTS_MAX && (argv[count] = strtok_r(NULL, " ", &rest)))
		count++;
	argv[count] = NULL;
	if (!count || !timeout_s) {
		port_refusal("fail", name ? name : "", 0, "the job's selftest line names no program or no time limit");
		return false;
	}
	snprintf(program, sizeof(program), SELFTESTS "/%s", argv[0]);
	argv[0] = program;
	child.is_selftest = true;
	child.is_nobody = strcmp(user, "nobody") == 0;
	port_selftest_begin(name);
	begun = now_ms();
	if (start(&child, argv, NULL)) {
		port_refusal("fail", name, 0, "no process for it");
	} else {
		wait_for_end(&child, timeout_s);
		has_exit = child.status >= 0 && WIFEXITED(child.status);
		has_signal = child.status >= 0 && WIFSIGNALED(child.status);
		port_selftest_end(name, has_exit ? WEXITSTATUS(child.status) : -1,
				  has_signal ? WTERMSIG(child.status) : -1, child.timed_out, now_ms() - begun);
	}
	child.is_selftest = child.is_nobody = false;
	return true;
}

void jobs_boot_line(void)
{
	char *argv[2 + MECHANISM_WORDS_MAX + 1] = { WORKLOADS, "boot" };

	for (unsigned int i = 0; i < mechanism_words; i++)
		argv[2 + i] = mechanisms[i];
	if (start(&child, argv, NULL)) {
		port_log("no process for " WORKLOADS);
		return;
	}
	wait_for_end(&child, TIMEOUT_S_DEFAULT);
	if (!exited_with(&child, 0))
		port_log(WORKLOADS " cannot describe this system: %s", child.last_error);
}

static bool do_line(char *line)
{
	char reason[320];

	/* Read before anything ran. */
	if (strncmp(line, MECHANISM, strlen(MECHANISM)) == 0)
		return true;

	if (strncmp(line, "run ", 4) == 0)
		return do_run(line + 4);
	if (strncmp(line, "command ", 8) == 0)
		return do_command(line + 8);
	if (strncmp(line, "selftest ", 9) == 0)
		return do_selftest(line + 9);
	if (strcmp(line, "shell") == 0) {
		shell_interactive();
		return true;
	}
	if (strcmp(line, "panic") == 0) {
		port_log("panic, as the job asks");
		/* The kernel panics when PID 1 ends. */
		_exit(1);
	}
	snprintf(reason, sizeof(reason), "the job has a line that means nothing: %.200s", line);
	port_refusal("fail", "", 0, reason);
	return false;
}

/* Is there such a line? */
static bool has_line(const char *path, bool (*is_such)(const char *line))
{
	static char line[LINE_BYTES_MAX];
	FILE *file = fopen(path, "re");
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file))
		found = is_such(line);
	if (file)
		fclose(file);
	return found;
}

static bool counts_instructions(const char *line)
{
	return strncmp(line, "run ", 4) == 0 && strstr(line, " cost=1");
}

bool jobs_count_instructions(const char *path)
{
	return has_line(path, counts_instructions);
}

/* People at a shell, and their scripts, need not say so. */
static bool uses_ext4(const char *line)
{
	return strncmp(line, "shell", 5) == 0 || strncmp(line, "command ", 8) == 0 || strstr(line, "ext4");
}

bool jobs_use_ext4(const char *path)
{
	return has_line(path, uses_ext4);
}

bool jobs_run(const char *path)
{
	static char line[LINE_BYTES_MAX];
	FILE *file = fopen(path, "re");
	bool done = true;

	if (!file) {
		port_log("%s cannot be read: %s", path, strerror(errno));
		return false;
	}
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\r\n")] = '\0';
		if (line[0] && line[0] != '#')
			done &= do_line(line);
	}
	fclose(file);
	return done;
}
