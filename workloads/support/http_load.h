/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the web servers share: a few files of text, who asks for them, and the
 * check of what comes back. That is wrk, or ab where costs are counted: ab ends
 * with the last answer, wrk when it next looks at its clock, every 100 ms, and
 * idle time counts.
 *
 *   --set bytes=N        all files have that size
 *   --set compress=N     zlib's level; 0 leaves compression out
 *   --set connections=N  kept open by wrk or ab
 */
#ifndef CEASEFIRE_HTTP_LOAD_H
#define CEASEFIRE_HTTP_LOAD_H

#include "support/app.h"

#define HTTP_LOAD_FILE_BYTES_MAX (255 * 1024U)
#define HTTP_LOAD_PACKAGES "apache2-utils,wrk"
#define HTTP_LOAD_PROGRAMS "/usr/bin/ab,/usr/bin/wrk"

struct http_server {
	const char *name;		/* as messages have it */
	unsigned int bytes_min;		/* the smallest file it serves in the way that is to be measured */
	unsigned int compress;		/* the level without --set */
	/*
	 * Start it in the working directory, whose files file0 … it is to serve
	 * at 127.0.0.1, compressed if http_load_compress() is not 0. Return: pid
	 * or -errno, said.
	 */
	pid_t (*start)(struct run *run, uint16_t port);
};

/* The three steps of such a workload. */
int http_load_setup(struct run *run, const struct http_server *server);
int http_load_measure(struct run *run);
void http_load_teardown(struct run *run);

/* For start(). */
unsigned int http_load_connections(const struct run *run);
unsigned int http_load_compress(void);

#endif
