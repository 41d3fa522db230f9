// SPDX-License-Identifier: GPL-2.0-only
/* See system_files.h. */
#define _GNU_SOURCE
#include "system_files.h"

#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


uint64_t file_row(const char *path, const char *name)
{
	static char text[32768];
	const size_t length = strlen(name);

	if (file_read(path, text, sizeof(text)) <= 0)
		return 0;
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, length) == 0 && line[length] == ' ')
			return strtoull(line + length, NULL, 10);
	}
	return 0;
}

unsigned int memory_nodes(unsigned int nodes[NODES_MAX])
{
	char text[1024], *at = text;
	unsigned int count = 0;

	/* A list such as "0-1,3"; absent without CONFIG_NUMA. */
	file_read("/sys/devices/system/node/has_memory", text, sizeof(text));
	while (isdigit((unsigned char)*at)) {
		unsigned long first = strtoul(at, &at, 10), last = first;

		if (*at == '-')
			last = strtoul(at + 1, &at, 10);
		for (; first <= last && count < NODES_MAX; first++)
			nodes[count++] = (unsigned int)first;
		at += *at == ',';
	}
	if (count == 0)
		nodes[count++] = 0;
	return count;
}

unsigned int node_here(void)
{
	unsigned int cpu, node = 0;

	getcpu(&cpu, &node);
	return node;
}

/* "always [madvise] never" is a choice: what is written back is the word in brackets. */
static void keep_chosen(char *text)
{
	const char *open = strchr(text, '[');
	const char *close = open ? strchr(open, ']') : NULL;

	if (!close)
		return;
	memmove(text, open + 1, (size_t)(close - open - 1));
	text[close - open - 1] = '\0';
}

int setting_change(struct setting *setting)
{
	const ssize_t length = file_read(setting->path, setting->old, sizeof(setting->old));
	const int error = length < 0 ? (int)length : file_write(setting->path, setting->value);

	setting->is_changed = !error;
	if (!error)
		keep_chosen(setting->old);
	return error;
}

void setting_restore(struct setting *setting)
{
	if (setting->is_changed && file_write(setting->path, setting->old) != 0)
		fprintf(stderr, "%s could not be set back to %s\n", setting->path, setting->old);
	setting->is_changed = false;
}

int system_may_change(struct run *run)
{
	const bool is_allowed = option_u64("change_host", 0) != 0;

	if (getenv("CEASEFIRE_GUEST") || is_allowed)
		return 0;
	return workload_skip(run, "changes settings of this machine; allow it with --set change_host=1");
}
