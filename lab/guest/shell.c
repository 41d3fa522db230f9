// SPDX-License-Identifier: GPL-2.0-only
/*
 * The guest's shell: the programs' own /bin/sh where the guest has one, else a
 * loop that knows a few words and can start programs.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

#define WORDS_MAX 64

static int complain(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	return 1;
}

static int list_one(const char *path)
{
	struct dirent **entries;
	struct stat status;
	int count;

	if (stat(path, &status))
		return complain(path);
	if (!S_ISDIR(status.st_mode)) {
		printf("%12lld %s\n", (long long)status.st_size, path);
		return 0;
	}
	count = scandir(path, &entries, NULL, alphasort);
	if (count < 0)
		return complain(path);
	for (int i = 0; i < count; i++) {
		if (entries[i]->d_name[0] != '.')
			printf("%s%s\n", entries[i]->d_name, entries[i]->d_type == DT_DIR ? "/" : "");
		free(entries[i]);
	}
	free(entries);
	return 0;
}

static int do_ls(char **words)
{
	int code = 0;

	if (!words[1])
		return list_one(".");
	for (char **path = words + 1; *path; path++)
		code |= list_one(*path);
	return code;
}

static int cat_one(const char *path)
{
	char buffer[4096];
	ssize_t got;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return complain(path);
	fflush(stdout);
	while ((got = read(fd, buffer, sizeof(buffer))) > 0)
		if (write(STDOUT_FILENO, buffer, (size_t)got) != got)
			break;
	close(fd);
	return got ? complain(path) : 0;
}

static int do_cat(char **words)
{
	int code = 0;

	if (!words[1])
		return cat_one("/proc/self/fd/0");
	for (char **path = words + 1; *path; path++)
		code |= cat_one(*path);
	return code;
}

static int do_echo(char **words)
{
	for (char **word = words + 1; *word; word++)
		printf("%s%s", *word, word[1] ? " " : "");
	putchar('\n');
	return 0;
}

/* One write call: files of the kernel take a value only as a whole. */
static int do_write(char **words)
{
	char text[4096];
	size_t used = 0;
	int fd, code = 0;

	if (!words[1] || !words[2]) {
		fprintf(stderr, "write wants FILE TEXT\n");
		return 2;
	}
	for (char **word = words + 2; *word && used < sizeof(text); word++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", *word, word[1] ? " " : "\n");
	if (used >= sizeof(text)) {
		fprintf(stderr, "write takes %zu bytes at most\n", sizeof(text) - 1);
		return 2;
	}
	fd = open(words[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return complain(words[1]);
	if (write(fd, text, used) != (ssize_t)used)
		code = complain(words[1]);
	close(fd);
	return code;
}

static int do_mounts(char **words)
{
	(void)words;
	return cat_one("/proc/mounts");
}

static int do_cd(char **words)
{
	return words[1] && chdir(words[1]) ? complain(words[1]) : 0;
}

static int start_program(char **words)
{
	pid_t pid;
	int status;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return complain("fork");
	if (pid == 0) {
		execvp(words[0], words);
		fprintf(stderr, "%s: %s; \"help\" lists the built-in words\n", words[0], strerror(errno));
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int do_run(char **words)
{
	if (words[1])
		return start_program(words + 1);
	fprintf(stderr, "run wants PROGRAM [ARGUMENT...]\n");
	return 2;
}

static int do_help(char **words);

static const struct {
	const char *word;
	int (*fn)(char **words);
	const char *help;
} words_known[] = {
	{ "ls", do_ls, "ls [PATH...]" },
	{ "cat", do_cat, "cat [FILE...]" },
	{ "echo", do_echo, "echo TEXT" },
	{ "write", do_write, "write FILE TEXT" },
	{ "mount", do_mounts, "mount: what is mounted" },
	{ "cd", do_cd, "cd PATH" },
	{ "run", do_run, "run PROGRAM [ARGUMENT...]; a program's name alone does it too, as in: workloads list" },
	{ "help", do_help, "help" },
};

static int do_help(char **words)
{
	(void)words;
	for (size_t i = 0; i < sizeof(words_known) / sizeof(*words_known); i++)
		printf("%s\n", words_known[i].help);
	printf("exit: power off\n");
	return 0;
}

/* Where the user's own program has such a name, it stays. */
void shell_link_words(void)
{
	char path[32];

	for (size_t i = 0; i < sizeof(words_known) / sizeof(*words_known); i++) {
		snprintf(path, sizeof(path), "/bin/%s", words_known[i].word);
		if (symlink("/init", path) && errno != EEXIST)
			port_log("no %s: %s", path, strerror(errno));
	}
}

int shell_word(char **argv)
{
	const char *slash = strrchr(argv[0], '/');
	const char *name = slash ? slash + 1 : argv[0];
	int code = -1;

	for (size_t i = 0; i < sizeof(words_known) / sizeof(*words_known); i++)
		if (strcmp(name, words_known[i].word) == 0)
			code = words_known[i].fn(argv);
	if (fflush(stdout) && code == 0)
		code = complain(name);
	return code;
}

static int execute(char *text)
{
	char *words[WORDS_MAX + 1], *rest = NULL;
	size_t count = 0;

	for (char *word = strtok_r(text, " \t\r\n", &rest); word; word = strtok_r(NULL, " \t\r\n", &rest)) {
		if (count == WORDS_MAX) {
			fprintf(stderr, "more than %d words\n", WORDS_MAX);
			return 2;
		}
		words[count++] = word;
	}
	words[count] = NULL;
	if (!count)
		return 0;
	for (size_t i = 0; i < sizeof(words_known) / sizeof(*words_known); i++)
		if (strcmp(words[0], words_known[i].word) == 0)
			return words_known[i].fn(words);
	return start_program(words);
}

int shell_command(const char *text)
{
	char *copy = strdup(text);
	int code = copy ? execute(copy) : 1;

	free(copy);
	fflush(stdout);
	return code;
}

static void loop(void)
{
	char line[4096];

	printf("No /bin/sh here; \"help\" lists the words this shell knows.\n");
	for (;;) {
		printf("guest> ");
		fflush(stdout);
		if (!fgets(line, sizeof(line), stdin))
			return;
		line[strcspn(line, "\r\n")] = '\0';
		if (strcmp(line, "exit") == 0)
			return;
		execute(line);
		fflush(stdout);
	}
}

/* /dev/console cannot be a controlling terminal; what is behind it can. */
static void take_terminal(void)
{
	static const char *const names[] = { "/dev/ttyS0", "/dev/hvc0", "/dev/console" };
	int fd = -1;

	setsid();
	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && fd < 0; i++)
		fd = open(names[i], O_RDWR);
	if (fd < 0)
		return;
	ioctl(fd, TIOCSCTTY, 0);
	for (int i = 0; i <= 2; i++)
		dup2(fd, i);
	if (fd > 2)
		close(fd);
}

void shell_interactive(void)
{
	pid_t pid = fork(), gone;

	if (pid == 0) {
		take_terminal();
		if (chdir(USERS_DIRECTORY) && errno != ENOENT)
			fprintf(stderr, "cd " USERS_DIRECTORY ": %s\n", strerror(errno));
		execl("/bin/sh", "sh", "-i", (char *)NULL);
		execl("/usr/bin/dash", "sh", "-i", (char *)NULL);
		loop();
		_exit(0);
	}
	if (pid < 0) {
		port_log("no process for the shell: %s", strerror(errno));
		return;
	}
	do
		gone = waitpid(-1, NULL, 0);
	while (gone != pid && (gone > 0 || errno == EINTR));
}
