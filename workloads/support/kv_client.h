/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The client of a key-value server: each team thread stores (3 of 10) and reads
 * back values of up to 16 KiB under its own keys, over Unix sockets, and checks
 * every answer.
 */
#ifndef CEASEFIRE_KV_CLIENT_H
#define CEASEFIRE_KV_CLIENT_H

#include "support/app.h"

#define KV_KEYS_PER_THREAD 64
#define KV_LINE_BYTES_MAX 256

/* A server and its protocol: texts of at most KV_LINE_BYTES_MAX with the ending zero. */
struct kv_server {
	const char *name;	/* as messages have it */
	/* Start it; it is to listen at that socket. Return: pid or -errno, said. */
	pid_t (*start)(struct run *run, const char *socket_path);
	/* What is sent before a value of that size; a line's end follows it. */
	void (*store)(char *text, const char *key, size_t bytes);
	/* The whole answer to it. */
	const char *stored;
	/* What is sent to get it back. */
	void (*fetch)(char *text, const char *key);
	/* The answer to that: what comes before the value, what after. */
	void (*found)(char *text, const char *key, size_t bytes);
	const char *end;
	/* Or NULL: what the first client asks for besides, over a connection that waits for no answer. */
	bool (*aside)(int fd);
};

/* How the server is asked. */
struct kv_load {
	/* Of each client, 1 to KV_KEYS_PER_THREAD: it asks over all of them, then reads the answers. */
	unsigned int connections;
	/* aside() comes after so many operations of the first client, again and again; 0: never. */
	uint64_t aside_every;
};

/* The three steps of such a workload. */
int kv_setup(struct run *run, const struct kv_server *server, const struct kv_load *load);
int kv_measure(struct run *run);
void kv_teardown(struct run *run);

/* For aside(): send a text, read one line. Return: whether there was one. */
bool kv_ask(int fd, const char *text, char line[KV_LINE_BYTES_MAX]);

#endif
