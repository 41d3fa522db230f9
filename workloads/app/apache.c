// SPDX-License-Identifier: GPL-2.0-only
/*
 * Apache with the event MPM serves static files. For each request a server
 * thread maps the file, sends it and unmaps it, and every unmap ends in a
 * shootdown of the CPUs that run other threads of the same server process.
 *
 * The files are text and are served compressed, as Debian's configuration does
 * it. On an emulated machine a shootdown takes as long as sending a hundred
 * small files; then the threads queue up for the lock of their address space,
 * their CPUs idle, and idle CPUs are no targets. Compressing gives each thread
 * work of its own.
 */
#include <stdio.h>
#include <unistd.h>

#include "support/http_load.h"

static int write_config(struct run *run, uint16_t port)
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
	const unsigned int threads = (unsigned int)option_u64("server_threads", 2 * http_load_connections(run));
	char text[2048], here[APP_PATH_BYTES_MAX], compress[512] = "";

	app_path(here, ".");
	if (http_load_compress())
		snprintf(compress, sizeof(compress), compress_format, http_load_compress());
	snprintf(text, sizeof(text), format, here, here, here, port, user,
		 compress, here, here, threads, threads, threads, threads);
	return app_write_text(run, "httpd.conf", text);
}

static pid_t start(struct run *run, uint16_t port)
{
	char here[APP_PATH_BYTES_MAX], config[APP_PATH_BYTES_MAX];
	const char *const argv[] = { "/usr/sbin/apache2", "-D", "FOREGROUND", "-d", here,
				     "-f", config, NULL };
	const struct app_command command = { .argv = argv };
	const int error = write_config(run, port);

	if (error)
		return error;
	app_path(here, ".");
	app_path(config, "httpd.conf");
	return app_start(run, &command);
}

static const struct http_server apache2 = {
	.name = "apache2",
	/* Above 8 KiB: Apache's portable runtime (APR) reads smaller files instead of mapping them. */
	.bytes_min = 8193,
	.compress = 6,
	.start = start,
};

static int apache_setup(struct run *run)
{
	return http_load_setup(run, &apache2);
}

WORKLOAD(apache) = {
	.name = "apache",
	.group = "app",
	.unit = "request",
	.about = "Apache (event MPM) maps, compresses, sends and unmaps a static file per request of wrk.",
	.needs = "apps,net",
	.packages = "apache2-bin," HTTP_LOAD_PACKAGES,
	.programs = "/usr/sbin/apache2,/usr/lib/apache2/modules/mod_mpm_event.so,"
		    "/usr/lib/apache2/modules/mod_authz_core.so,/usr/lib/apache2/modules/mod_filter.so,"
		    "/usr/lib/apache2/modules/mod_deflate.so," HTTP_LOAD_PROGRAMS,
	.units = 200,
	.threads_min = 1,
	.own_processes = true,
	.setup = apache_setup,
	.measure = http_load_measure,
	.teardown = http_load_teardown,
};
