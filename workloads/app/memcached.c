// SPDX-License-Identifier: GPL-2.0-only
/*
 * memcached serves a client of its own over a Unix socket: each team thread
 * stores and reads back values of its own keys and checks every answer.
 */
#include "support/app.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CONNECT_TRIES_MAX 2000000
#define KEYS_PER_THREAD 64
#define VALUE_BYTES_MAX 16384
#define LINE_BYTES_MAX 256

/* One client thread's state; a failure is told to the user by the main thread. */
struct client {
	int fd;
	bool has_failed;
	uint64_t random;
	uint64_t sum;
	uint64_t version[KEYS_PER_THREAD];	/* 0: not stored yet */
	char value[VALUE_BYTES_MAX], answer[VALUE_BYTES_MAX + LINE_BYTES_MAX];
};

struct state {
	pid_t server;
	struct client *clients;
};

static struct state state;

static int connect_once(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char path[APP_PATH_BYTES_MAX];
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int error;

	if (fd < 0)
		return -errno;
	app_path(path, "socket");
	snprintf(address.sun_path, sizeof(address.sun_path), "%.100s", path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

static int connect_client(struct run *run, struct client *client)
{
	for (unsigned int tries = 0; tries < CONNECT_TRIES_MAX; tries++) {
		client->fd = connect_once();
		if (client->fd >= 0)
			return 0;
		if (app_is_gone(&state.server))
			return workload_fail(run, "memcached ended before it served");
		sched_yield();
	}
	return workload_fail(run, "memcached opened no socket");
}

/* Content and length of a value follow from who stored it, where and when. */
static size_t make_value(char *value, unsigned int index, unsigned int key, uint64_t version)
{
	uint64_t random = ((uint64_t)index << 48) ^ ((uint64_t)key << 32) ^ version;
	const size_t bytes = (64 + random_next(&random) % (VALUE_BYTES_MAX - 64)) & ~7UL;

	for (size_t at = 0; at < bytes; at += 8) {
		const uint64_t word = random_next(&random);

		memcpy(value + at, &word, 8);
	}
	return bytes;
}

static bool send_all(int fd, const char *bytes, size_t count)
{
	while (count > 0) {
		const ssize_t done = send(fd, bytes, count, MSG_NOSIGNAL);

		if (done < 0 && errno != EINTR)
			return false;
		if (done > 0) {
			bytes += done;
			count -= (size_t)done;
		}
	}
	return true;
}

/* Read until the answer ends with this text; its length, or 0. */
static size_t receive_until(struct client *client, const char *end)
{
	const size_t length = strlen(end);
	size_t used = 0;

	while (used < sizeof(client->answer)) {
		const ssize_t got = read(client->fd, client->answer + used,
					 sizeof(client->answer) - used);

		if (got == 0 || (got < 0 && errno != EINTR))
			return 0;
		if (got > 0)
			used += (size_t)got;
		if (used >= length && memcmp(client->answer + used - length, end, length) == 0)
			return used;
	}
	return 0;
}

static bool store(struct client *client, unsigned int index, unsigned int key)
{
	const size_t bytes = make_value(client->value, index, key, ++client->version[key]);
	char line[LINE_BYTES_MAX];

	snprintf(line, sizeof(line), "set t%uk%u 0 0 %zu\r\n", index, key, bytes);
	return send_all(client->fd, line, strlen(line)) &&
	       send_all(client->fd, client->value, bytes) && send_all(client->fd, "\r\n", 2) &&
	       receive_until(client, "\r\n") == 8 && memcmp(client->answer, "STORED", 6) == 0;
}

static bool fetch(struct client *client, unsigned int index, unsigned int key)
{
	const size_t bytes = make_value(client->value, index, key, client->version[key]);
	char line[LINE_BYTES_MAX];
	size_t header;

	snprintf(line, sizeof(line), "get t%uk%u\r\n", index, key);
	if (!send_all(client->fd, line, strlen(line)))
		return false;
	snprintf(line, sizeof(line), "VALUE t%uk%u 0 %zu\r\n", index, key, bytes);
	header = strlen(line);
	if (receive_until(client, "\r\nEND\r\n") != header + bytes + 7 ||
	    memcmp(client->answer, line, header) != 0 ||
	    memcmp(client->answer + header, client->value, bytes) != 0)
		return false;
	client->sum = app_checksum_bytes(client->sum, client->answer + header, bytes);
	return true;
}

static void client_run(struct run *run, unsigned int index)
{
	struct client *client = &state.clients[index];

	for (uint64_t i = index; i < run->units && !client->has_failed; i += run->threads) {
		const uint64_t random = random_next(&client->random);
		const unsigned int key = (unsigned int)(random % KEYS_PER_THREAD);
		const bool is_store = !client->version[key] || (random >> 32) % 10 < 3;

		client->has_failed = !(is_store ? store(client, index, key) :
						  fetch(client, index, key));
	}
}

static void memcached_teardown(struct run *run)
{
	for (unsigned int i = 0; state.clients && i < run->threads; i++)
		if (state.clients[i].fd >= 0)
			close(state.clients[i].fd);
	free(state.clients);
	state.clients = NULL;
	app_stop(&state.server);
	app_end();
}

static int memcached_setup(struct run *run)
{
	char threads[16], socket_path[APP_PATH_BYTES_MAX];
	const char *const argv[] = { "/usr/bin/memcached", "-u", "root", "-t", threads, "-m", "64",
				     "-s", socket_path, NULL };
	const struct app_command command = { .argv = argv };
	int error = app_begin(run);

	if (error)
		return error;
	snprintf(threads, sizeof(threads), "%u", run->threads);
	app_path(socket_path, "socket");
	state.clients = calloc(run->threads, sizeof(*state.clients));
	if (!state.clients)
		error = workload_fail(run, "no memory for the clients");
	for (unsigned int i = 0; !error && i < run->threads; i++) {
		state.clients[i].fd = -1;
		state.clients[i].sum = CHECKSUM_SEED;
		state.clients[i].random = run->seed + i;
	}
	if (!error) {
		state.server = app_start(run, &command);
		error = state.server < 0 ? state.server : 0;
	}
	for (unsigned int i = 0; !error && i < run->threads; i++)
		error = connect_client(run, &state.clients[i]);
	if (error)
		memcached_teardown(run);
	return error;
}

static int memcached_measure(struct run *run)
{
	uint64_t sum = CHECKSUM_SEED;

	team_run(run, client_run);
	for (unsigned int i = 0; i < run->threads; i++) {
		if (state.clients[i].has_failed)
			return workload_fail(run, "memcached gave a wrong answer to client %u", i);
		sum = checksum_add(sum, state.clients[i].sum);
	}
	run->checksum = sum;
	return 0;
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
	.measure = memcached_measure,
	.teardown = memcached_teardown,
};
