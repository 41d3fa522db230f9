// SPDX-License-Identifier: GPL-2.0-only
/*
 * What an ABIS kernel counts of its own: lines "name value", whatever they are.
 * The text before and after the measured part is kept as it is read and taken
 * apart when nothing is measured any more.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

#define ABIS_COUNTERS "/sys/kernel/debug/abis/counters"

static int fd = -1;
static char text[2][16384];

void abis_open(void)
{
	fd = open(ABIS_COUNTERS, O_RDONLY | O_CLOEXEC);
}

void abis_read(bool is_end)
{
	char *at = text[is_end];
	size_t length = 0;

	at[0] = '\0';
	if (fd < 0)
		return;
	while (length < sizeof(text[0]) - 1) {
		ssize_t got = pread(fd, at + length, sizeof(text[0]) - 1 - length, (off_t)length);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		length += (size_t)got;
	}
	at[length] = '\0';
}

/* One line into a pair. Return: false for a line that is none. */
static bool parse(const char *line, struct pair *pair)
{
	size_t length = 0;
	char *end;

	while (islower((unsigned char)line[length]) || isdigit((unsigned char)line[length]) || line[length] == '_')
		length++;
	if (length == 0 || length >= sizeof(pair->name) || line[length] != ' ' ||
	    !isdigit((unsigned char)line[length + 1]))
		return false;
	memcpy(pair->name, line, length);
	pair->name[length] = '\0';
	pair->value = strtoull(line + length + 1, &end, 10);
	return *end == '\n' || *end == '\0';
}

static const char *line_after(const char *line)
{
	line = strchr(line, '\n');
	return line && line[1] ? line + 1 : NULL;
}

/* The same line of the first text: it mostly stands at the same place. */
static bool find(const char **hint, const char *name, uint64_t *value)
{
	struct pair pair;

	for (int pass = 0; pass < 2; pass++) {
		for (const char *line = pass ? text[0] : *hint; line && *line; line = line_after(line)) {
			if (parse(line, &pair) && strcmp(pair.name, name) == 0) {
				*value = pair.value;
				*hint = line;
				return true;
			}
		}
	}
	return false;
}

/* Memory in use is a level, not a sum: what counts is how much it is at the end. */
static bool is_level(const char *name)
{
	return strcmp(name, "spte_bytes") == 0 || strcmp(name, "spte_tables") == 0;
}

void abis_subtract(struct abis_sample *sample)
{
	const char *hint = text[0];

	sample->is_there = text[0][0] && text[1][0];
	sample->pairs = 0;
	if (!sample->is_there)
		return;
	for (const char *line = text[1]; line && *line && sample->pairs < ABIS_PAIRS_MAX; line = line_after(line)) {
		struct pair *pair = &sample->pair[sample->pairs];
		uint64_t before;

		if (!parse(line, pair))
			continue;
		if (!is_level(pair->name)) {
			if (!find(&hint, pair->name, &before) || before > pair->value)
				continue;
			pair->value -= before;
		}
		sample->pairs++;
	}
}
