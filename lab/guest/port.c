// SPDX-License-Identifier: GPL-2.0-only
/* The verdict port: JSON lines, kept apart from the console's noise. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"

#define VERDICT_PORT "ceasefire.verdict"
#define RECORD_PORT "ceasefire.record"
/* As long as a host may be busy with something else, or its disk be full. */
#define HOST_TIMEOUT_MS 60000
#define PORTS_DIRECTORY "/sys/class/virtio-ports"

static int port_fd = STDOUT_FILENO;
static struct tally tally;

static bool has_name(const char *device, const char *port)
{
	char path[320], name[64];
	int fd;
	ssize_t length;

	snprintf(path, sizeof(path), PORTS_DIRECTORY "/%s/name", device);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	length = read(fd, name, sizeof(name) - 1);
	close(fd);
	if (length <= 0)
		return false;
	name[length] = '\0';
	name[strcspn(name, "\n")] = '\0';
	return strcmp(name, port) == 0;
}

/* Return: -1 where the machine has none of that name. */
static int open_port(const char *port, int flags)
{
	DIR *directory = opendir(PORTS_DIRECTORY);
	struct dirent *entry;
	int fd = -1;

	while (directory && fd < 0 && (entry = readdir(directory))) {
		char path[320];

		if (entry->d_name[0] == '.' || !has_name(entry->d_name, port))
			continue;
		snprintf(path, sizeof(path), "/dev/%s", entry->d_name);
		fd = open(path, O_WRONLY | O_CLOEXEC | flags);
	}
	if (directory)
		closedir(directory);
	return fd;
}

void port_open(void)
{
	int fd = open_port(VERDICT_PORT, 0);

	if (fd >= 0)
		port_fd = fd;
	else
		fprintf(stderr, "init: no port named " VERDICT_PORT ", the results go to the console\n");
}

/* Return: 0 or -errno; -ETIMEDOUT where the host does not take what a port that does not block is given. */
static int write_all(int fd, const char *text, size_t length)
{
	while (length) {
		struct pollfd polled = { .fd = fd, .events = POLLOUT };
		ssize_t done = write(fd, text, length);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0 && errno == EAGAIN) {
			if (poll(&polled, 1, HOST_TIMEOUT_MS) == 0)
				return -ETIMEDOUT;
			continue;
		}
		if (done <= 0)
			return done ? -errno : -EIO;
		text += done;
		length -= (size_t)done;
	}
	return 0;
}

int port_send_record(const char *path)
{
	static char buffer[1 << 16];
	int to = open_port(RECORD_PORT, O_NONBLOCK), from = open(path, O_RDONLY | O_CLOEXEC), error = 0;
	ssize_t got = -1;

	if (to < 0 || from < 0)
		error = to < 0 ? -ENODEV : -errno;
	while (!error && (got = read(from, buffer, sizeof(buffer))) > 0)
		error = write_all(to, buffer, (size_t)got);
	if (!error && got < 0)
		error = -errno;
	if (from >= 0)
		close(from);
	if (to >= 0)
		close(to);
	return error;
}

/*
 * A write to the port spins until the host has taken it: a number of
 * instructions that differs from boot to boot. Where instructions are counted,
 * the lines wait until the work is done.
 */
static char held[1 << 20];
static size_t held_bytes;
static bool is_holding;

void port_hold(void)
{
	is_holding = true;
}

void port_release(void)
{
	is_holding = false;
	write_all(port_fd, held, held_bytes);
	held_bytes = 0;
}

static void put(const char *text, size_t length)
{
	if (is_holding && length > sizeof(held) - held_bytes)
		port_release();
	if (!is_holding) {
		write_all(port_fd, text, length);
		return;
	}
	memcpy(held + held_bytes, text, length);
	held_bytes += length;
}

/* Append as the inside of a JSON string; what does not fit is cut. */
static size_t escape(char *out, size_t size, const char *text)
{
	size_t used = 0;

	for (; *text && used + 7 < size; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\') {
			out[used++] = '\\';
			out[used++] = (char)c;
		} else if (c < 0x20 || c == 0x7f) {
			/* The rest is UTF-8, or the host says that it is not. */
			used += (size_t)snprintf(out + used, size - used, "\\u%04x", c);
		} else {
			out[used++] = (char)c;
		}
	}
	out[used] = '\0';
	return used;
}

/* A protocol line is one object in one write, so that a kill cannot split it. */
static void put_object(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void put_object(const char *format, ...)
{
	static char line[LINE_BYTES_MAX];
	va_list list;
	int length;

	va_start(list, format);
	length = vsnprintf(line, sizeof(line), format, list);
	va_end(list);
	if (length > 0 && (size_t)length < sizeof(line))
		put(line, (size_t)length);
}

static void put_log(const char *text)
{
	static char escaped[LINE_BYTES_MAX - 64];

	escape(escaped, sizeof(escaped), text);
	put_object("{\"kind\":\"log\",\"text\":\"%s\"}\n", escaped);
}

void port_log(const char *format, ...)
{
	char text[512];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	put_log(text);
	fprintf(stderr, "init: %s\n", text);
}

static bool starts(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

void port_forward(const char *line)
{
	if (!starts(line, "{\"kind\":\"")) {
		put_log(line);
		return;
	}
	tally.runs += starts(line, "{\"kind\":\"run\"");
	tally.skips += starts(line, "{\"kind\":\"skip\"");
	tally.fails += starts(line, "{\"kind\":\"fail\"");
	put_object("%s\n", line);
}

void port_refusal(const char *kind, const char *workload, unsigned int threads, const char *reason)
{
	char name[256], escaped[1024];

	escape(name, sizeof(name), workload);
	escape(escaped, sizeof(escaped), reason);
	if (strcmp(kind, "skip") == 0)
		tally.skips++;
	else
		tally.fails++;
	put_object("{\"kind\":\"%s\",\"workload\":\"%s\",\"threads\":%u,\"reason\":\"%s\"}\n", kind, name, threads,
		   escaped);
}

void port_selftest_begin(const char *name)
{
	char escaped[256];

	escape(escaped, sizeof(escaped), name);
	put_object("{\"kind\":\"selftest\",\"name\":\"%s\",\"state\":\"begin\"}\n", escaped);
}

/* Never taken for protocol, whatever the test prints. */
void port_selftest_text(const char *line)
{
	put_log(line);
}

static const char *number_or_null(int number, char text[static 16])
{
	snprintf(text, 16, "%d", number);
	return number < 0 ? "null" : text;
}

void port_selftest_end(const char *name, int exit_code, int signal, bool timed_out, int64_t ms)
{
	char escaped[256], exit_text[16], signal_text[16];

	escape(escaped, sizeof(escaped), name);
	put_object("{\"kind\":\"selftest\",\"name\":\"%s\",\"state\":\"end\",\"exit\":%s,\"signal\":%s,"
		   "\"timed_out\":%s,\"ms\":%lld}\n",
		   escaped, number_or_null(exit_code, exit_text), number_or_null(signal, signal_text),
		   timed_out ? "true" : "false", (long long)ms);
}

void port_verdict(bool all_jobs_done)
{
	put_object("{\"kind\":\"verdict\",\"ok\":%s,\"runs\":%u,\"skips\":%u,\"fails\":%u}\n",
		   all_jobs_done && tally.fails == 0 ? "true" : "false", tally.runs, tally.skips, tally.fails);
}

struct tally port_tally(void)
{
	return tally;
}
