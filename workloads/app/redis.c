// SPDX-License-Identifier: GPL-2.0-only
/*
 * Redis serves a client of its own (kv_client.h). Its main thread alone looks
 * values up and stores them. Other threads of the process read requests and
 * write answers, but only while at least two connections for each thread have an
 * answer to come. With one connection for each client there never are so many:
 * --set connections=N.
 *
 * --set save=N: after each N operations of its own, the first client has Redis
 * save its data in the background (BGSAVE). Redis forks, and the child writes
 * the data to a file. A save that is asked for while one runs is refused.
 *
 * Theory: one allocator has all values, and it gives
 * pages back rarely. So without saves there are few shootdowns. A save has one
 * for the fork, which takes the right to write from all pages, and one for each
 * page that is written before the child has ended. The targets are the threads
 * for requests and answers, which spin while there are any.
 */
#include <stdio.h>
#include <string.h>

#include "support/kv_client.h"

/* More, it refuses. */
#define IO_THREADS_MAX 128

static uint64_t started_saves;

static void store(char *text, const char *key, size_t bytes)
{
	snprintf(text, KV_LINE_BYTES_MAX, "*3\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%zu\r\n", strlen(key), key, bytes);
}

static void fetch(char *text, const char *key)
{
	snprintf(text, KV_LINE_BYTES_MAX, "*2\r\n$3\r\nGET\r\n$%zu\r\n%s\r\n", strlen(key), key);
}

static void found(char *text, const char *key, size_t bytes)
{
	(void)key;
	snprintf(text, KV_LINE_BYTES_MAX, "$%zu\r\n", bytes);
}

static bool save(int fd)
{
	char line[KV_LINE_BYTES_MAX];

	if (!kv_ask(fd, "*1\r\n$6\r\nBGSAVE\r\n", line))
		return false;
	if (line[0] == '+') {
		started_saves++;
		return true;
	}
	return strstr(line, "already in progress") != NULL;
}

static pid_t start(struct run *run, const char *socket_path)
{
	char threads[16], here[APP_PATH_BYTES_MAX];
	/* It saves when it is asked to, never by itself: not even when it ends, so SIGTERM ends it at once. */
	const char *const argv[] = { "/usr/bin/redis-server", "--port", "0", "--unixsocket", socket_path,
				     "--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", here,
				     "--io-threads", threads, "--io-threads-do-reads", "yes", NULL };
	const struct app_command command = { .argv = argv };

	snprintf(threads, sizeof(threads), "%u", run->threads < IO_THREADS_MAX ? run->threads : IO_THREADS_MAX);
	app_path(here, ".");
	return app_start(run, &command);
}

static const struct kv_server redis = {
	.name = "redis-server",
	.start = start,
	.store = store,
	.stored = "+OK\r\n",
	.fetch = fetch,
	.found = found,
	.end = "\r\n",
	.aside = save,
};

static int redis_setup(struct run *run)
{
	const struct kv_load load = {
		.connections = (unsigned int)option_u64("connections", 8),
		.aside_every = option_u64("save", 0),
	};

	started_saves = 0;
	return kv_setup(run, &redis, &load);
}

static int redis_measure(struct run *run)
{
	const int error = kv_measure(run);

	if (!error && option_u64("save", 0))
		report_extra(run, "started_saves", (double)started_saves);
	return error;
}

WORKLOAD(redis_workload) = {
	.name = "redis",
	.group = "app",
	.unit = "operation",
	.about = "Redis answers stores (3 of 10) and fetches of values up to 16 KiB, and may save them.",
	.needs = "apps",
	/* The program is a link to one of the tools. */
	.packages = "redis-server,redis-tools",
	.programs = "/usr/bin/redis-server",
	.units = 10000,
	.threads_min = 1,
	.setup = redis_setup,
	.measure = redis_measure,
	.teardown = kv_teardown,
};
