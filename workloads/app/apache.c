// SPDX-License-Identifier: GPL-2.0-only
/*
 * Apache with the event MPM serves static files to wrk, or to ab where costs are
 * counted: ab ends with the last answer, wrk when it next looks at its clock,
 * every 100 ms, and idle time counts. For each request a server thread maps the file, sends it and unmaps it, and every unmap ends in
 * a shootdown of the CPUs that run other threads of the same server process.
 *
 * The files are text and are served compressed, as Debian's configuration does
 * it. On an emulated machine a shootdown takes as long as sending a hundred
 * small files; then the threads queue up for the lock of their address space,
 * their CPUs idle, and idle CPUs are no targets. Compressing gives each thread
 * work of its own. --set compress=N is zlib's level; 0 leaves it out.
 */
#include "support/app.h"

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
#define RESPONSE_BYTES_MAX (256 * 1024)

/* All above 8 KiB: Apache's portable runtime (APR) reads smaller files instead of mapping them. */
static const unsigned int default_bytes[FILES] = { 120000, 150000, 180000, 210000 };
#define FILE_BYTES_MIN 8193
#define FILE_BYTES_MAX (RESPONSE_BYTES_MAX - 1024)

struct apache {
	pid_t pid;
	uint16_t port;
	uint64_t content;	/* checksum of all files as served */
};

static struct apache server;

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
	server.port = ntohs(address.sin_port);
	return 0;
}

static unsigned int connections(struct run *run)
{
	return (unsigned int)option_u64("connections", 3ULL * run->threads);
}

/* --set bytes=N: the paper's request is Debian's default page, one of 10,701 bytes. */
static unsigned int file_bytes(unsigned int index)
{
	return (unsigned int)option_u64("bytes", default_bytes[index]);
}

static unsigned int compress_level(void)
{
	return (unsigned int)option_u64("compress", 6);
}

static int write_config(struct run *run)
{
	/* One process, so that all threads share one address space. */
	static const char format[] =
		"ServerRoot %s\n"
		"DefaultRuntimeDir %s\n"
		"PidFile %s/pid\n"
		"ServerName localhost\n"
		"Listen 127.0.0.1:%u\n"
		"LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\n"
		"LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\n"
		"%s%s"
		"ErrorLog %s/error\n"
		"LogLevel error\n"
		"DocumentRoot %s\n"
		"EnableMMAP On\n"
		"EnableSendfile Off\n"
		"KeepAlive On\n"
		"MaxKeepAliveRequests 0\n"
		"KeepAliveTimeout 60\n"
		"Timeout 60\n"
		"StartServers 1\n"
		"ServerLimit 1\n"
		"ThreadLimit %u\n"
		"ThreadsPerChild %u\n"
		"MaxRequestWorkers %u\n"
		"MinSpareThreads 1\n"
		"MaxSpareThreads %u\n"
		"MaxConnectionsPerChild 0\n";
	/* Small buffers: with larger ones the C library's own unmapping would add a shootdown per request. */
	static const char compress_format[] =
		"LoadModule filter_module /usr/lib/apache2/modules/mod_filter.so\n"
		"LoadModule deflate_module /usr/lib/apache2/modules/mod_deflate.so\n"
		"SetOutputFilter DEFLATE\n"
		"DeflateWindowSize 12\n"
		"DeflateMemLevel 5\n"
		"DeflateCompressionLevel %u\n";
	const char *user = geteuid() == 0 ? "User nobody\nGroup nogroup\n" : "";
	/* Twice the connections: a server that runs out of idle threads closes kept connections, an error to wrk. */
	const unsigned int threads = (unsigned int)option_u64("server_threads", 2 * connections(run));
	char text[2048], here[APP_PATH_BYTES_MAX], compress[512] = "";

	app_path(here, ".");
	if (compress_level())
		snprintf(compress, sizeof(compress), compress_format, compress_level());
	snprintf(text, sizeof(text), format, here, here, here, server.port, user,
		 compress, here, here, threads, threads, threads, threads);
	return app_write_text(run, "httpd.conf", text);
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

	snprintf(text, sizeof(text), format, requests, connections(run), FILES);
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
					     .sin_port = htons(server.port),
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
		if (app_is_gone(&server.pid))
			return workload_fail(run, "apache2 ended before it served");
		sched_yield();
	}
	return workload_fail(run, "apache2 opened no port");
}

/* Send one GET. Return: the length of the whole answer, or a negative errno. */
static int get(struct run *run, unsigned int index, const char *header, char *response, size_t size)
{
	char request[160];
	size_t used = 0;
	ssize_t got;
	const int fd = connect_once();

	if (fd < 0)
		return workload_fail(run, "connecting to apache2: %s", strerror(-fd));
	snprintf(request, sizeof(request), "GET /file%u HTTP/1.0\r\nHost: localhost\r\n%s\r\n", index,
		 header);
	if (write(fd, request, strlen(request)) != (ssize_t)strlen(request)) {
		close(fd);
		return workload_fail(run, "asking apache2 for a file: %s", strerror(errno));
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

	for (unsigned int coded = 0; coded <= (compress_level() != 0); coded++) {
		const char *header = coded ? "Accept-Encoding: gzip\r\n" : "";
		const int length = get(run, index, header, response, sizeof(response));
		const char *body;
		size_t body_bytes;

		if (length < 0)
			return length;
		body = strstr(response, "\r\n\r\n");
		if (strncmp(response, "HTTP/1.1 200 ", 13) != 0 || !body)
			return workload_fail(run, "apache2 answered '%.40s'", response);
		body += 4;
		body_bytes = (size_t)(response + length - body);
		if (coded && !strstr(response, "\r\nContent-Encoding: gzip\r\n"))
			return workload_fail(run, "apache2 did not compress a file");
		if (!coded && body_bytes != file_bytes(index))
			return workload_fail(run, "apache2 served %zu of %u bytes", body_bytes,
					     file_bytes(index));
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

	snprintf(open, sizeof(open), "%u", connections(run));
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/", server.port);
	app_path(script, name);
	return run_client(run, &wrk, argv, requests);
}

/* It knows one address: all requests are for the same file. */
static int run_ab(struct run *run, uint64_t requests)
{
	char open[16], count[24], url[64];
	const char *const argv[] = { "/usr/bin/ab", "-q", "-k", "-s", "60", "-n", count, "-c", open,
				     "-H", "Accept-Encoding: gzip", url, NULL };

	snprintf(open, sizeof(open), "%" PRIu64, requests < connections(run) ? requests : connections(run));
	snprintf(count, sizeof(count), "%" PRIu64, requests);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/file0", server.port);
	return run_client(run, &ab, argv, requests);
}

static int run_requests(struct run *run, const char *script, uint64_t requests)
{
	return run->cost ? run_ab(run, requests) : run_wrk(run, script, requests);
}

static void apache_teardown(struct run *run)
{
	(void)run;
	app_stop(&server.pid);
	app_end();
}

static int apache_setup(struct run *run)
{
	char here[APP_PATH_BYTES_MAX], config[APP_PATH_BYTES_MAX];
	const char *const argv[] = { "/usr/sbin/apache2", "-D", "FOREGROUND", "-d", here,
				     "-f", config, NULL };
	const struct app_command command = { .argv = argv };
	int error;

	for (unsigned int i = 0; i < FILES; i++)
		if (file_bytes(i) < FILE_BYTES_MIN || file_bytes(i) > FILE_BYTES_MAX)
			return workload_fail(run, "bytes is %u: give %u to %u", file_bytes(i),
					     FILE_BYTES_MIN, FILE_BYTES_MAX);
	memset(&server, 0, sizeof(server));
	error = app_begin(run);
	if (error)
		return error;
	app_path(here, ".");
	app_path(config, "httpd.conf");
	error = find_free_port(run);
	if (!error)
		error = write_config(run);
	if (!error)
		error = write_script(run, "warm.lua", 2ULL * connections(run));
	if (!error)
		error = write_script(run, "measured.lua", run->units);
	if (!error)
		error = write_files(run);
	if (!error) {
		server.pid = app_start(run, &command);
		error = server.pid < 0 ? server.pid : 0;
	}
	if (!error)
		error = wait_for_server(run);
	if (!error)
		error = get_all(run, &server.content);
	/* The server starts its threads one by one: let them all be there before it counts. */
	if (!error)
		error = run_requests(run, "warm.lua", 2ULL * connections(run));
	if (error)
		apache_teardown(run);
	return error;
}

static int apache_measure(struct run *run)
{
	uint64_t content = 0;
	int error = run_requests(run, "measured.lua", run->units);

	if (!error)
		error = get_all(run, &content);
	if (!error && content != server.content)
		error = workload_fail(run, "apache2 served other content after the run than before");
	run->checksum = server.content;
	return error;
}

WORKLOAD(apache) = {
	.name = "apache",
	.group = "app",
	.unit = "request",
	.about = "Apache (event MPM) maps, compresses, sends and unmaps a static file per request of wrk.",
	.needs = "apps,net",
	.packages = "apache2-bin,apache2-utils,wrk",
	.programs = "/usr/sbin/apache2,/usr/lib/apache2/modules/mod_mpm_event.so,"
		    "/usr/lib/apache2/modules/mod_authz_core.so,/usr/lib/apache2/modules/mod_filter.so,"
		    "/usr/lib/apache2/modules/mod_deflate.so,/usr/bin/ab,/usr/bin/wrk",
	.units = 200,
	.threads_min = 1,
	.own_processes = true,
	.setup = apache_setup,
	.measure = apache_measure,
	.teardown = apache_teardown,
};
