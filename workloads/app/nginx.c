// SPDX-License-Identifier: GPL-2.0-only
/*
 * nginx, one worker process, serves static files. The worker's main thread does
 * all of a request but the reading of the file: a thread of a pool reads it
 * into a buffer that the main thread allocates, sends and frees.
 *
 * Theory: nginx maps no file, so shootdowns come from
 * the C library's memory. A buffer is as large as the file. malloc() maps what
 * is larger than 128 KiB, here three files of four, and free() unmaps it: a
 * shootdown of the CPUs that run threads of the pool. But that raises the limit
 * to the size that was freed. So after the first requests, before the measured
 * part, buffers lie in the heap. From then on shootdowns come from the heap's
 * end alone, which free() gives back once twice that limit is unused there. The
 * faults that fill the heap again are the pool's, on whichever node its thread
 * runs. A thread of the pool that has nothing to read sleeps, and an idle CPU is
 * no target. So there are far fewer shootdowns than Apache has.
 *
 * The files are served as they are. The main thread would have to compress for
 * all, and the pool would sleep: --set compress=6 shows that.
 */
#include <stdio.h>

#include "support/http_load.h"

/* Each connection has its place, and so have the listening socket and what wakes the main thread. */
#define OTHER_CONNECTIONS 32

static int write_config(struct run *run, uint16_t port)
{
	/*
	 * One process, which is the worker, so that all threads share one
	 * address space. Its user would be www-data, whom the guest lacks. Errors
	 * go where the lab shows them. Nothing is ever written to the temporary
	 * paths: they are a directory that exists, or nginx would make them.
	 */
	static const char format[] =
		"daemon off;\n"
		"master_process off;\n"
		"worker_processes 1;\n"
		"user root root;\n"
		"pid %s/pid;\n"
		"error_log stderr error;\n"
		"thread_pool default threads=%u max_queue=65536;\n"
		"events { worker_connections %u; }\n"
		"http {\n"
		"  access_log off;\n"
		"  client_body_temp_path %s;\n"
		"  proxy_temp_path %s;\n"
		"  fastcgi_temp_path %s;\n"
		"  uwsgi_temp_path %s;\n"
		"  scgi_temp_path %s;\n"
		/* With sendfile the pool would touch no memory of the process. */
		"  sendfile off;\n"
		"  aio threads;\n"
		/* One buffer for the whole file, whatever its size: it takes no more than the file needs. */
		"  output_buffers 1 512k;\n"
		"  keepalive_timeout 60s;\n"
		"  keepalive_requests 1000000000;\n"
		"%s"
		"  server {\n"
		"    listen 127.0.0.1:%u;\n"
		"    root %s;\n"
		"  }\n"
		"}\n";
	static const char compress_format[] =
		"  gzip on;\n"
		"  gzip_types *;\n"
		"  gzip_http_version 1.0;\n"
		"  gzip_comp_level %u;\n";
	const unsigned int threads = (unsigned int)option_u64("server_threads", run->threads);
	const unsigned int places = http_load_connections(run) + OTHER_CONNECTIONS;
	char text[2048], here[APP_PATH_BYTES_MAX], compress[256] = "";

	app_path(here, ".");
	if (http_load_compress())
		snprintf(compress, sizeof(compress), compress_format, http_load_compress());
	snprintf(text, sizeof(text), format, here, threads, places, here, here, here, here, here, compress,
		 port, here);
	return app_write_text(run, "nginx.conf", text);
}

static pid_t start(struct run *run, uint16_t port)
{
	char here[APP_PATH_BYTES_MAX], config[APP_PATH_BYTES_MAX];
	const char *const argv[] = { "/usr/sbin/nginx", "-p", here, "-c", config, NULL };
	const struct app_command command = { .argv = argv };
	const int error = write_config(run, port);

	if (error)
		return error;
	app_path(here, ".");
	app_path(config, "nginx.conf");
	return app_start(run, &command);
}

static const struct http_server nginx_server = {
	.name = "nginx",
	.bytes_min = 1,
	.compress = 0,
	.start = start,
};

static int nginx_setup(struct run *run)
{
	return http_load_setup(run, &nginx_server);
}

WORKLOAD(nginx) = {
	.name = "nginx",
	.group = "app",
	.unit = "request",
	.about = "nginx reads a static file per request of wrk into a buffer, by a pool of threads, and sends it.",
	.needs = "apps,net",
	.packages = "nginx," HTTP_LOAD_PACKAGES,
	.programs = "/usr/sbin/nginx," HTTP_LOAD_PROGRAMS,
	.units = 200,
	.threads_min = 1,
	.own_processes = true,
	.setup = nginx_setup,
	.measure = http_load_measure,
	.teardown = http_load_teardown,
};
