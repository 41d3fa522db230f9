// SPDX-License-Identifier: GPL-2.0-only
/* memcached serves a client of its own: kv_client.h. */
#include <stdio.h>

#include "support/kv_client.h"

static void store(char *text, const char *key, size_t bytes)
{
	snprintf(text, KV_LINE_BYTES_MAX, "set %s 0 0 %zu\r\n", key, bytes);
}

static void fetch(char *text, const char *key)
{
	snprintf(text, KV_LINE_BYTES_MAX, "get %s\r\n", key);
}

static void found(char *text, const char *key, size_t bytes)
{
	snprintf(text, KV_LINE_BYTES_MAX, "VALUE %s 0 %zu\r\n", key, bytes);
}

static pid_t start(struct run *run, const char *socket_path)
{
	char threads[16];
	const char *const argv[] = { "/usr/bin/memcached", "-u", "root", "-t", threads, "-m", "64",
				     "-s", socket_path, NULL };
	const struct app_command command = { .argv = argv };

	snprintf(threads, sizeof(threads), "%u", run->threads);
	return app_start(run, &command);
}

static const struct kv_server memcached = {
	.name = "memcached",
	.start = start,
	.store = store,
	.stored = "STORED\r\n",
	.fetch = fetch,
	.found = found,
	.end = "\r\nEND\r\n",
};

static int memcached_setup(struct run *run)
{
	return kv_setup(run, &memcached, &(struct kv_load){ .connections = 1 });
}

WORKLOAD(memcached_workload) = {
	.name = "memcached",
	.group = "app",
	.unit = "operation",
	.about = "memcached answers stores (3 of 10) and fetches of values up to 16 KiB.",
	.needs = "apps",
	.packages = "memcached",
	.programs = "/usr/bin/memcached",
	.units = 10000,
	.threads_min = 1,
	.setup = memcached_setup,
	.measure = kv_measure,
	.teardown = kv_teardown,
};
