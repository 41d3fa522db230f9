// SPDX-License-Identifier: GPL-2.0-only
/* See kv_client.h. */
#include "support/kv_client.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CONNECT_TRIES_MAX 2000000
#define VALUE_BYTES_MAX 16384
#define KEY_BYTES_MAX 32

/* What a connection waits for the answer of. */
struct operation {
	unsigned int key;
	bool is_store;
};

/* One client thread's state; a failure is told to the user by the main thread. */
struct client {
	int fd[KV_KEYS_PER_THREAD];
	struct operation open[KV_KEYS_PER_THREAD];
	bool has_failed;
	uint64_t done;
	uint64_t random;
	uint64_t sum;
	uint64_t version[KV_KEYS_PER_THREAD];	/* 0: not stored yet */
	char value[VALUE_BYTES_MAX], answer[VALUE_BYTES_MAX + KV_LINE_BYTES_MAX];
};

static struct {
	const struct kv_server *server;
	struct kv_load load;
	pid_t pid;
	struct client *clients;
} state;

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

static int connect_to_server(struct run *run, int *fd)
{
	for (unsigned int tries = 0; tries < CONNECT_TRIES_MAX; tries++) {
		*fd = connect_once();
		if (*fd >= 0)
			return 0;
		if (app_is_gone(&state.pid))
			return workload_fail(run, "%s ended before it served", state.server->name);
		sched_yield();
	}
	return workload_fail(run, "%s opened no socket", state.server->name);
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

/* Read more. Return: whether there was any. */
static bool receive_more(int fd, char *answer, size_t size, size_t *used)
{
	const ssize_t got = read(fd, answer + *used, size - *used);

	if (got > 0)
		*used += (size_t)got;
	return got > 0 || (got < 0 && errno == EINTR);
}

/* Whether the answer is that head, so many bytes of the value, that end, and nothing else. */
static bool receive(struct client *client, int fd, const char *head, size_t bytes, const char *end)
{
	const size_t before = strlen(head), after = strlen(end), all = before + bytes + after;
	size_t used = 0;

	while (used < all) {
		if (!receive_more(fd, client->answer, sizeof(client->answer), &used))
			return false;
		/* A refusal is shorter: do not wait for the rest of it. */
		if (memcmp(client->answer, head, used < before ? used : before) != 0)
			return false;
	}
	return used == all && memcmp(client->answer + before, client->value, bytes) == 0 &&
	       memcmp(client->answer + before + bytes, end, after) == 0;
}

bool kv_ask(int fd, const char *text, char line[KV_LINE_BYTES_MAX])
{
	size_t used = 0;

	if (!send_all(fd, text, strlen(text)))
		return false;
	while (used < KV_LINE_BYTES_MAX - 1 && receive_more(fd, line, KV_LINE_BYTES_MAX - 1, &used)) {
		line[used] = '\0';
		if (used >= 2 && strcmp(line + used - 2, "\r\n") == 0)
			return true;
	}
	return false;
}

static void name_key(char name[KEY_BYTES_MAX], unsigned int index, unsigned int key)
{
	snprintf(name, KEY_BYTES_MAX, "t%uk%u", index, key);
}

/* Each connection has keys of its own: what it asks for depends on no answer to another one. */
static bool ask(struct client *client, unsigned int index, unsigned int connection)
{
	const unsigned int connections = state.load.connections;
	const uint64_t random = random_next(&client->random);
	const unsigned int key = (unsigned int)(random % (KV_KEYS_PER_THREAD / connections)) * connections +
				 connection;
	const bool is_store = !client->version[key] || (random >> 32) % 10 < 3;
	const int fd = client->fd[connection];
	char name[KEY_BYTES_MAX], text[KV_LINE_BYTES_MAX];
	size_t bytes;

	client->open[connection] = (struct operation){ .key = key, .is_store = is_store };
	name_key(name, index, key);
	if (!is_store) {
		state.server->fetch(text, name);
		return send_all(fd, text, strlen(text));
	}
	bytes = make_value(client->value, index, key, ++client->version[key]);
	state.server->store(text, name, bytes);
	return send_all(fd, text, strlen(text)) && send_all(fd, client->value, bytes) &&
	       send_all(fd, "\r\n", 2);
}

static bool check(struct client *client, unsigned int index, unsigned int connection)
{
	const struct operation *operation = &client->open[connection];
	const int fd = client->fd[connection];
	char name[KEY_BYTES_MAX], head[KV_LINE_BYTES_MAX];
	size_t bytes;

	if (operation->is_store)
		return receive(client, fd, state.server->stored, 0, "");
	bytes = make_value(client->value, index, operation->key, client->version[operation->key]);
	name_key(name, index, operation->key);
	state.server->found(head, name, bytes);
	if (!receive(client, fd, head, bytes, state.server->end))
		return false;
	client->sum = app_checksum_bytes(client->sum, client->answer + strlen(head), bytes);
	return true;
}

static bool is_aside_due(unsigned int index, const struct client *client)
{
	return index == 0 && state.load.aside_every && client->done % state.load.aside_every == 0;
}

static void client_run(struct run *run, unsigned int index)
{
	struct client *client = &state.clients[index];
	uint64_t next = index;

	while (next < run->units && !client->has_failed) {
		unsigned int open = 0;

		for (; open < state.load.connections && next < run->units; open++, next += run->threads)
			client->has_failed |= !ask(client, index, open);
		for (unsigned int i = 0; i < open && !client->has_failed; i++) {
			client->has_failed = !check(client, index, i);
			client->done++;
			if (!client->has_failed && is_aside_due(index, client))
				client->has_failed = !state.server->aside(client->fd[i]);
		}
	}
}

static void clients_init(struct run *run)
{
	for (unsigned int i = 0; i < run->threads; i++) {
		struct client *client = &state.clients[i];

		for (unsigned int c = 0; c < KV_KEYS_PER_THREAD; c++)
			client->fd[c] = -1;
		client->sum = CHECKSUM_SEED;
		client->random = run->seed + i;
	}
}

void kv_teardown(struct run *run)
{
	for (unsigned int i = 0; state.clients && i < run->threads; i++)
		for (unsigned int c = 0; c < KV_KEYS_PER_THREAD; c++)
			if (state.clients[i].fd[c] >= 0)
				close(state.clients[i].fd[c]);
	free(state.clients);
	state.clients = NULL;
	app_stop(&state.pid);
	app_end();
}

int kv_setup(struct run *run, const struct kv_server *server, const struct kv_load *load)
{
	char socket_path[APP_PATH_BYTES_MAX];
	int error;

	if (load->connections < 1 || load->connections > KV_KEYS_PER_THREAD)
		return workload_fail(run, "connections is %u: give 1 to %u", load->connections,
				     KV_KEYS_PER_THREAD);
	state.server = server;
	state.load = *load;
	error = app_begin(run);
	if (error)
		return error;
	app_path(socket_path, "socket");
	state.clients = calloc(run->threads, sizeof(*state.clients));
	if (!state.clients)
		error = workload_fail(run, "no memory for the clients");
	if (!error) {
		clients_init(run);
		state.pid = server->start(run, socket_path);
		error = state.pid < 0 ? state.pid : 0;
	}
	for (unsigned int i = 0; !error && i < run->threads; i++)
		for (unsigned int c = 0; !error && c < load->connections; c++)
			error = connect_to_server(run, &state.clients[i].fd[c]);
	if (error)
		kv_teardown(run);
	return error;
}

int kv_measure(struct run *run)
{
	uint64_t sum = CHECKSUM_SEED;

	team_run(run, client_run);
	for (unsigned int i = 0; i < run->threads; i++) {
		if (state.clients[i].has_failed)
			return workload_fail(run, "%s gave a wrong answer to client %u", state.server->name, i);
		sum = checksum_add(sum, state.clients[i].sum);
	}
	run->checksum = sum;
	return 0;
}
