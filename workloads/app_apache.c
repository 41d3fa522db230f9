// SPDX-License-Identifier: GPL-2.0-only
/*
 * Apache with the event MPM serves static files to wrk. For each request a
 * server thread maps the file, sends it and unmaps it, and every unmap ends in
 * a shootdown of the CPUs that run other threads of the same server process.
 *
 * wrk cannot run a fixed number of requests, so it runs for a fixed time; a
 * unit is one request answered.
 */
#include "app.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FILES 4
#define CONNECT_TRIES_MAX 2000000
#define RESPONSE_BYTES_MAX (128 * 1024)

/* All above 8 KiB: the C library of Apache (APR) reads smaller files instead of mapping them. */
static const unsigned int file_bytes[FILES] = { 12000, 20000, 32000, 48000 };

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
		"%s"
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
	const char *user = geteuid() == 0 ? "User nobody\nGroup nogroup\n" : "";
	const unsigned int threads = (unsigned int)option_u64("server_threads", 25);
	char text[2048], here[APP_PATH_BYTES_MAX];

	app_path(here, ".");
	snprintf(text, sizeof(text), format, here, here, here, server.port, user, here, here,
		 threads, threads, threads, threads);
	return app_write_text(run, "httpd.conf", text);
}

static int write_script(struct run *run)
{
	static const char format[] =
		"local paths, next = {}, 0\n"
		"for i = 0, %d do paths[i] = '/file' .. i end\n"
		"request = function()\n"
		"  next = (next + 1) %% %d\n"
		"  return wrk.format('GET', paths[next])\n"
		"end\n";
	char text[512];

	snprintf(text, sizeof(text), format, FILES - 1, FILES);
	return app_write_text(run, "requests.lua", text);
}

static int write_files(struct run *run)
{
	for (unsigned int i = 0; i < FILES; i++) {
		char name[32];
		int error;

		snprintf(name, sizeof(name), "file%u", i);
		error = app_write_words(run, name, run->seed + i, file_bytes[i]);
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

/* One GET of one file: status 200 and the expected length, or the run fails. */
static int get_file(struct run *run, unsigned int index, uint64_t *sum)
{
	static char response[RESPONSE_BYTES_MAX];
	const char *body;
	char request[128];
	size_t used = 0;
	ssize_t got;
	const int fd = connect_once();

	if (fd < 0)
		return workload_fail(run, "connecting to apache2: %s", strerror(-fd));
	snprintf(request, sizeof(request), "GET /file%u HTTP/1.0\r\nHost: localhost\r\n\r\n", index);
	if (write(fd, request, strlen(request)) != (ssize_t)strlen(request)) {
		close(fd);
		return workload_fail(run, "asking apache2 for a file: %s", strerror(errno));
	}
	while (used < sizeof(response) - 1 &&
	       (got = read(fd, response + used, sizeof(response) - 1 - used)) > 0)
		used += (size_t)got;
	close(fd);
	response[used] = '\0';
	body = strstr(response, "\r\n\r\n");
	if (strncmp(response, "HTTP/1.1 200 ", 13) != 0 || !body)
		return workload_fail(run, "apache2 answered '%.40s'", response);
	body += 4;
	if ((size_t)(response + used - body) != file_bytes[index])
		return workload_fail(run, "apache2 served %zu of %u bytes",
				     (size_t)(response + used - body), file_bytes[index]);
	*sum = app_checksum_bytes(*sum, body, file_bytes[index]);
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
		error = write_script(run);
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
	if (error)
		apache_teardown(run);
	return error;
}

/* Take the number of requests from wrk's report; any error in it fails the run. */
static int read_report(struct run *run)
{
	char path[APP_PATH_BYTES_MAX], line[256];
	unsigned long long requests = 0;
	int error = 0;
	FILE *report;

	app_path(path, "report");
	report = fopen(path, "re");
	if (!report)
		return workload_fail(run, "wrk left no report");
	while (!error && fgets(line, sizeof(line), report)) {
		const char *text = line + strspn(line, " ");

		if (strncmp(text, "Socket errors", 13) == 0 ||
		    strncmp(text, "Non-2xx", 7) == 0) {
			line[strcspn(line, "\n")] = '\0';
			error = workload_fail(run, "wrk reports: %s", text);
		} else if (strstr(text, " requests in ")) {
			requests = strtoull(text, NULL, 10);
		}
	}
	fclose(report);
	if (!error && requests == 0)
		error = workload_fail(run, "wrk reports no request");
	run->units = requests;
	return error;
}

static int apache_measure(struct run *run)
{
	char threads[16], connections[16], seconds[16], url[64];
	char script[APP_PATH_BYTES_MAX], report[APP_PATH_BYTES_MAX];
	const char *const argv[] = { "/usr/bin/wrk", "-t", threads, "-c", connections, "-d", seconds,
				     "--timeout", "60s", "-s", script, url, NULL };
	const struct app_command command = { .argv = argv, .output = report };
	const unsigned int clients = (unsigned int)option_u64("wrk_threads", run->threads);
	uint64_t content;
	pid_t pid;
	int error;

	snprintf(threads, sizeof(threads), "%u", clients);
	snprintf(connections, sizeof(connections), "%u",
		 (unsigned int)option_u64("connections", 8ULL * run->threads));
	snprintf(seconds, sizeof(seconds), "%us", (unsigned int)option_u64("seconds", 5));
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/", server.port);
	app_path(script, "requests.lua");
	app_path(report, "report");

	pid = app_start(run, &command);
	if (pid < 0)
		return pid;
	error = app_wait(run, pid, "wrk");
	if (!error)
		error = read_report(run);
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
	.about = "Apache (event MPM) maps, sends and unmaps a static file per request of wrk.",
	.needs = "apps,net",
	.packages = "apache2-bin,wrk",
	.programs = "/usr/sbin/apache2,/usr/lib/apache2/modules/mod_mpm_event.so,"
		    "/usr/lib/apache2/modules/mod_authz_core.so,/usr/bin/wrk",
	.units = 1,
	.threads_min = 1,
	.own_processes = true,
	.setup = apache_setup,
	.measure = apache_measure,
	.teardown = apache_teardown,
};
