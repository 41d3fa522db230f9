// SPDX-License-Identifier: GPL-2.0-only
/*
 * --set KEY=VALUE. The table is shared with the repeats' processes, so that a
 * key that no workload asked for is noticed and refused instead of ignored.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

static struct table {
	unsigned int count;
	struct {
		char key[48], value[208];
		bool used;
	} option[OPTIONS_MAX];
	char known[256];
} *table;

int options_init(void)
{
	table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return table == MAP_FAILED ? -errno : 0;
}

int option_set(const char *text)
{
	const char *equals = strchr(text, '=');

	if (!equals || equals == text || table->count == OPTIONS_MAX ||
	    (size_t)(equals - text) >= sizeof(table->option[0].key) ||
	    strlen(equals + 1) >= sizeof(table->option[0].value))
		return -EINVAL;
	memcpy(table->option[table->count].key, text, (size_t)(equals - text));
	strcpy(table->option[table->count++].value, equals + 1);
	return 0;
}

static void remember(const char *key)
{
	size_t length = strlen(key), used = strlen(table->known);
	const char *found = strstr(table->known, key);

	if (found && (found[length] == ',' || found[length] == '\0') &&
	    (found == table->known || found[-1] == ' '))
		return;
	if (used + length + 3 <= sizeof(table->known))
		snprintf(table->known + used, sizeof(table->known) - used, "%s%s", used ? ", " : "", key);
}

const char *option_text(const char *key, const char *fallback)
{
	const char *value = fallback;

	remember(key);
	for (unsigned int i = 0; i < table->count; i++) {
		if (strcmp(table->option[i].key, key) == 0) {
			table->option[i].used = true;
			value = table->option[i].value;
		}
	}
	return value;
}

uint64_t option_u64(const char *key, uint64_t fallback)
{
	const char *text = option_text(key, NULL);
	char *end;
	uint64_t value;

	if (!text)
		return fallback;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end || end == text || *text == '-') {
		fprintf(stderr, "workloads: --set %s=%s is not a whole number\n", key, text);
		/* In a repeat's own process: what stdout still holds is the parent's to print. */
		_exit(EXIT_USAGE);
	}
	return value;
}

const char *option_unused(void)
{
	for (unsigned int i = 0; i < table->count; i++)
		if (!table->option[i].used)
			return table->option[i].key;
	return NULL;
}

const char *options_known(void)
{
	return table->known;
}
