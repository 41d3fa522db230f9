// SPDX-License-Identifier: GPL-2.0-only
/* See http_load.h. */
#include "support/http_load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FILES 4
#define CONNECT_TRIES_MAX 2000000
/* The largest file and the header of its answer. */
#define RESPONSE_BYTES_MAX (HTTP_LOAD_FILE_BYTES_MAX + 1024)

static const unsigned int default_bytes[FILES] = { 120000, 150000, 180000, 210000 };

static struct {
	const struct http_server *server;
	pid_t pid;
	uint16_t port;
	uint64_t content;	/* checksum of all files as served */
} state;

static int find_free_port(struct run *run)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int error = 0;

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &length) != 0)
		error = errno;
	if (fd >= 0)
		close(fd);
	if (error)
		return workload_skip(run, "needs IPv4 on the loopback device: %s", strerror(error));
	state.port = ntohs(address.sin_port);
	return 0;
}

unsigned int http_load_connections(const struct run *run)
{
	return (unsigned int)option_u64("connections", 3ULL * run->threads);
}

/* --set bytes=N: the paper's request is Debian's default page, one of 10,701 bytes. */
static unsigned int file_bytes(unsigned int index)
{
	return (unsigned int)option_u64("bytes", default_bytes[index]);
}

unsigned int http_load_compress(void)
{
	return (unsigned int)option_u64("compress", state.server->compress);
}

/*
 * wrk knows a duration only. So after the last request its script sends nothing
 * more, and when every connection has had its last answer it ends wrk as
 * Ctrl-C would: no request is cut off, and none goes uncounted. wrk asks for one
 * request that it never sends, to see what the script makes: hence the -1.
 */
static int write_script(struct run *run, const char *name, uint64_t requests)
{
	static const char format[] =
		"local ffi = require('ffi')\n"
		"ffi.cdef('int getpid(void); int kill(int pid, int signal);')\n"
		"local headers = { ['Accept-Encoding'] = 'gzip' }\n"
		"local asked, requests, connections = -1, %" PRIu64 ", %u\n"
		"request = function()\n"
		"  asked = asked + 1\n"
		"  if asked <= requests then\n"
		"    return wrk.format('GET', '/file' .. asked %% %d, headers)\n"
		"  end\n"
		"  if asked == requests + connections then ffi.C.kill(ffi.C.getpid(), 2) end\n"
		"  return ''\n"
		"end\n";
	char text[1024];

	snprintf(text, sizeof(text), format, requests, http_load_connections(run), FILES);
	return app_write_text(run, name, text);
}

static int write_files(struct run *run)
{
	for (unsigned int i = 0; i < FILES; i++) {
		char name[32];
		int error;

		snprintf(name, sizeof(name), "file%u", i);
		error = app_write_words(run, name, run->seed + i, file_bytes(i));
		if (error)
			return error;
	}
	return 0;
}

static int connect_once(void)
{
	const struct sockaddr_in address = { .sin_family = AF_INET,
					     .sin_port = htons(state.port),
					     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int error;

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

static int wait_for_server(struct run *run)
{
	for (unsigned int tries = 0; tries < CONNECT_TRIES_MAX; tries++) {
		const int fd = connect_once();

		if (fd >= 0) {
			close(fd);
			return 0;
		}
		if (app_is_gone(&state.pid))
			return workload_fail(run, "%s ended before it served", state.server->name);
		sched_yield();
	}
	return workload_fail(run, "%s opened no port", state.server->name);
}

/* Send one GET. Return: the length of the whole answer, or a negative errno. */
static int get(struct run *run, unsigned int index, const char *header, char *response, size_t size)
{
	char request[160];
	size_t used = 0;
	ssize_t got;
	const int fd = connect_once();

	if (fd < 0)
		return workload_fail(run, "connecting to %s: %s", state.server->name, strerror(-fd));
	snprintf(request, sizeof(request), "GET /file%u HTTP/1.0\r\nHost: localhost\r\n%s\r\n", index,
		 header);
	if (write(fd, request, strlen(request)) != (ssize_t)strlen(request)) {
		close(fd);
		return workload_fail(run, "asking %s for a file: %s", state.server->name, strerror(errno));
	}
	while (used < size - 1 && (got = read(fd, response + used, size - 1 - used)) > 0)
		used += (size_t)got;
	close(fd);
	response[used] = '\0';
	return (int)used;
}

/* One file, as it is and as wrk gets it: complete and with status 200, or the run fails. */
static int get_file(struct run *run, unsigned int index, uint64_t *sum)
{
	static char response[RESPONSE_BYTES_MAX];

	for (unsigned int coded = 0; coded <= (http_load_compress() != 0); coded++) {
		const char *header = coded ? "Accept-Encoding: gzip\r\n" : "";
		const int length = get(run, index, header, response, sizeof(response));
		const char *body;
		size_t body_bytes;

		if (length < 0)
			return length;
		body = strstr(response, "\r\n\r\n");
		if (strncmp(response, "HTTP/1.1 200 ", 13) != 0 || !body)
			return workload_fail(run, "%s answered '%.40s'", state.server->name, response);
		body += 4;
		body_bytes = (size_t)(response + length - body);
		if (coded && !strstr(response, "\r\nContent-Encoding: gzip\r\n"))
			return workload_fail(run, "%s did not compress a file", state.server->name);
		if (!coded && body_bytes != file_bytes(index))
			return workload_fail(run, "%s served %zu of %u bytes", state.server->name,
					     body_bytes, file_bytes(index));
		*sum = app_checksum_bytes(*sum, body, body_bytes);
	}
	return 0;
}

static int get_all(struct run *run, uint64_t *sum)
{
	*sum = CHECKSUM_SEED;
	for (unsigned int i = 0; i < FILES; i++) {
		const int error = get_file(run, i, sum);

		if (error)
			return error;
	}
	return 0;
}

/* What asks for the files, and how its report reads. */
struct client {
	const char *name;
	/* Of the line with the number of requests: what comes before it, what comes after. */
	const char *before, *after;
	/* Lines that must not be there, or with no number but 0. */
	const char *errors[2];
};

static const struct client wrk = { "wrk", "", " requests in ", { "Socket errors", "Non-2xx" } };
static const struct client ab = { "ab", "Complete requests:", "\n", { "Failed requests:", "Non-2xx" } };

static bool is_error(const struct client *client, const char *text)
{
	for (unsigned int i = 0; i < 2; i++) {
		const char *error = client->errors[i];

		if (strncmp(text, error, strlen(error)) == 0 && strpbrk(text + strlen(error), "123456789"))
			return true;
	}
	return false;
}

/* Any error that the client reports, or another number of requests, fails the run. */
static int read_report(struct run *run, const struct client *client, uint64_t expected)
{
	char path[APP_PATH_BYTES_MAX], line[256];
	unsigned long long requests = 0;
	int error = 0;
	FILE *report;

	app_path(path, "report");
	report = fopen(path, "re");
	if (!report)
		return workload_fail(run, "%s left no report", client->name);
	while (!error && fgets(line, sizeof(line), report)) {
		const char *text = line + strspn(line, " ");

		if (is_error(client, text)) {
			line[strcspn(line, "\n")] = '\0';
			error = workload_fail(run, "%s reports: %s", client->name, text);
		} else if (strncmp(text, client->before, strlen(client->before)) == 0 &&
			   strstr(text, client->after)) {
			requests = strtoull(text + strlen(client->before), NULL, 10);
		}
	}
	fclose(report);
	if (!error && requests != expected)
		error = workload_fail(run, "%s reports %llu requests instead of %" PRIu64, client->name, requests,
				      expected);
	return error;
}

static int run_client(struct run *run, const struct client *client, const char *const argv[], uint64_t requests)
{
	char report[APP_PATH_BYTES_MAX];
	const struct app_command command = { .argv = argv, .output = report };
	pid_t pid;
	int error;

	app_path(report, "report");
	pid = app_start(run, &command);
	if (pid < 0)
		return pid;
	error = app_wait(run, pid, client->name);
	return error ? error : read_report(run, client, requests);
}

/* One thread of wrk: its script counts for itself alone. */
static int run_wrk(struct run *run, const char *name, uint64_t requests)
{
	char open[16], url[64], script[APP_PATH_BYTES_MAX];
	const char *const argv[] = { "/usr/bin/wrk", "-t", "1", "-c", open, "-d", "1h",
				     "--timeout", "60s", "-s", script, url, NULL };

	snprintf(open, sizeof(open), "%u", http_load_connections(run));
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/", state.port);
	app_path(script, name);
	return run_client(run, &wrk, argv, requests);
}

/* It knows one address: all requests are for the same file. */
static int run_ab(struct run *run, uint64_t requests)
{
	const uint64_t connections = http_load_connections(run);
	char open[16], count[24], url[64];
	const char *const argv[] = { "/usr/bin/ab", "-q", "-k", "-s", "60", "-n", count, "-c", open,
				     "-H", "Accept-Encoding: gzip", url, NULL };

	snprintf(open, sizeof(open), "%" PRIu64, requests < connections ? requests : connections);
	snprintf(count, sizeof(count), "%" PRIu64, requests);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/file0", state.port);
	return run_client(run, &ab, argv, requests);
}

static int run_requests(struct run *run, const char *script, uint64_t requests)
{
	return run->cost ? run_ab(run, requests) : run_wrk(run, script, requests);
}

void http_load_teardown(struct run *run)
{
	(void)run;
	app_stop(&state.pid);
	app_end();
}

int http_load_setup(struct run *run, const struct http_server *server)
{
	int error;

	memset(&state, 0, sizeof(state));
	state.server = server;
	for (unsigned int i = 0; i < FILES; i++)
		if (file_bytes(i) < server->bytes_min || file_bytes(i) > HTTP_LOAD_FILE_BYTES_MAX)
			return workload_fail(run, "bytes is %u: give %u to %u", file_bytes(i),
					     server->bytes_min, HTTP_LOAD_FILE_BYTES_MAX);
	error = app_begin(run);
	if (error)
		return error;
	error = find_free_port(run);
	if (!error)
		error = write_script(run, "warm.lua", 2ULL * http_load_connections(run));
	if (!error)
		error = write_script(run, "measured.lua", run->units);
	if (!error)
		error = write_files(run);
	if (!error) {
		state.pid = server->start(run, state.port);
		error = state.pid < 0 ? state.pid : 0;
	}
	if (!error)
		error = wait_for_server(run);
	if (!error)
		error = get_all(run, &state.content);
	/* A server may start its threads one by one: let them all be there before it counts. */
	if (!error)
		error = run_requests(run, "warm.lua", 2ULL * http_load_connections(run));
	if (error)
		http_load_teardown(run);
	return error;
}

int http_load_measure(struct run *run)
{
	uint64_t content = 0;
	int error = run_requests(run, "measured.lua", run->units);

	if (!error)
		error = get_all(run, &content);
	if (!error && content != state.content)
		error = workload_fail(run, "%s served other content after the run than before",
				      state.server->name);
	run->checksum = state.content;
	return error;
}
