// SPDX-License-Identifier: GPL-2.0-only
/*
 * The mechanisms under test, as the lab describes them:
 *
 *   --mechanism NAME[,switch=PATH][,cpuid=LEAF.REGISTER.BIT,first=BOOT=MODE,second=MODE][,counters=PATH][,prctl=NUMBER][,opt-in]
 *               [,warm-up=MS][,broadcasts-over=CPUS][,flush=FUNCTION]...[,level=COUNTER]...
 *
 * Counters are lines "name value", whatever they are. The text before and after
 * the measured part is kept as it is read and taken apart when nothing is
 * measured any more.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "harness.h"

struct mechanism {
	const char *spec;
	char name[32], switch_path[128], counters_path[128];
	/* Its second mode needs a feature of the processor; a word on the kernel's command line chooses the first. */
	char first[64], second[32];
	uint32_t leaf, register_index, bit;
	unsigned long prctl, warm_up_ms, broadcasts_over;
	bool has_opt_in;
	int fd;
	char text[2][16384];
};

static struct mechanism mechanisms[MECHANISMS_MAX];
static unsigned int count;

/* Copy a word of the description. Return: whether it fits. */
static bool take(char *to, size_t size, const char *from, size_t length)
{
	if (length == 0 || length >= size)
		return false;
	memcpy(to, from, length);
	to[length] = '\0';
	return true;
}

/* The word at *at, which then is behind it; NULL at the end. */
static const char *next_word(const char **at, size_t *length)
{
	const char *word = *at;

	if (!*word)
		return NULL;
	*length = strcspn(word, ",");
	*at = word + *length + (word[*length] == ',');
	return word;
}

/* Is this word `key`=VALUE? Return: the value, or NULL. */
static const char *value_of(const char *word, size_t *length, const char *key)
{
	size_t size = strlen(key);

	if (*length <= size || strncmp(word, key, size) != 0 || word[size] != '=')
		return NULL;
	*length -= size + 1;
	return word + size + 1;
}

/* 0x80000008.ebx.3 */
static bool take_feature(struct mechanism *mechanism, const char *text)
{
	static const char registers[] = "abcd";
	char letter;
	const char *at;

	if (sscanf(text, "%x.e%cx.%u", &mechanism->leaf, &letter, &mechanism->bit) != 3 || mechanism->bit > 31)
		return false;
	at = strchr(registers, letter);
	mechanism->register_index = at ? (uint32_t)(at - registers) : 0;
	return at;
}

static bool take_word(struct mechanism *mechanism, const char *word, size_t length)
{
	const char *value;

	value = value_of(word, &length, "switch");
	if (value)
		return take(mechanism->switch_path, sizeof(mechanism->switch_path), value, length);
	value = value_of(word, &length, "counters");
	if (value)
		return take(mechanism->counters_path, sizeof(mechanism->counters_path), value, length);
	value = value_of(word, &length, "cpuid");
	if (value)
		return take_feature(mechanism, value);
	value = value_of(word, &length, "first");
	if (value)
		return take(mechanism->first, sizeof(mechanism->first), value, length);
	value = value_of(word, &length, "second");
	if (value)
		return take(mechanism->second, sizeof(mechanism->second), value, length);
	value = value_of(word, &length, "prctl");
	if (value) {
		mechanism->prctl = strtoul(value, NULL, 0);
		return mechanism->prctl != 0;
	}
	value = value_of(word, &length, "warm-up");
	if (value) {
		mechanism->warm_up_ms = strtoul(value, NULL, 10);
		return mechanism->warm_up_ms != 0;
	}
	value = value_of(word, &length, "broadcasts-over");
	if (value) {
		mechanism->broadcasts_over = strtoul(value, NULL, 10);
		return mechanism->broadcasts_over != 0;
	}
	if (length == strlen("opt-in") && strncmp(word, "opt-in", length) == 0) {
		mechanism->has_opt_in = true;
		return true;
	}
	/* Looked up when they are asked for. */
	return value_of(word, &length, "flush") || value_of(word, &length, "level");
}

int mechanism_add(const char *spec)
{
	struct mechanism *mechanism = &mechanisms[count];
	const char *at = spec, *word;
	size_t length;

	if (count == MECHANISMS_MAX)
		return -ENOSPC;
	*mechanism = (struct mechanism){ .spec = spec, .fd = -1 };
	word = next_word(&at, &length);
	if (!word || !take(mechanism->name, sizeof(mechanism->name), word, length))
		return -EINVAL;
	while ((word = next_word(&at, &length)))
		if (!take_word(mechanism, word, length))
			return -EINVAL;
	if (mechanism->second[0] && !strchr(mechanism->first, '='))
		return -EINVAL;
	count++;
	return 0;
}

unsigned int mechanisms_count(void)
{
	return count;
}

const char *mechanism_name(unsigned int index)
{
	return mechanisms[index].name;
}

static bool in_second_mode(const struct mechanism *mechanism)
{
	char words[4096];

	if (!mechanism->second[0] || !cpu_has_bit(mechanism->leaf, mechanism->register_index, mechanism->bit) ||
	    file_read("/proc/cmdline", words, sizeof(words)) <= 0)
		return false;
	for (char *word = strtok(words, " \n"); word; word = strtok(NULL, " \n"))
		if (strcmp(word, mechanism->first) == 0)
			return false;
	return true;
}

/* Return: whether it has a mode. */
static bool read_mode(const struct mechanism *mechanism, char *mode, size_t size)
{
	if (mechanism->second[0]) {
		snprintf(mode, size, "%s", in_second_mode(mechanism) ? mechanism->second : strchr(mechanism->first, '=') + 1);
		return true;
	}
	if (!mechanism->switch_path[0] || file_read(mechanism->switch_path, mode, size) <= 0)
		return false;
	mode[strcspn(mode, "\n")] = '\0';
	return true;
}

void mechanisms_mode(char *mode, size_t size)
{
	mode[0] = '\0';
	for (unsigned int i = 0; i < count; i++) {
		char one[64];
		size_t length = strlen(mode);

		if (read_mode(&mechanisms[i], one, sizeof(one)))
			snprintf(mode + length, size - length, "%s%s", length ? "+" : "", one);
	}
}

unsigned long mechanisms_warm_up_ms(unsigned int threads)
{
	unsigned long longest = 0;

	for (unsigned int i = 0; i < count; i++)
		if (in_second_mode(&mechanisms[i]) && threads > mechanisms[i].broadcasts_over &&
		    mechanisms[i].warm_up_ms > longest)
			longest = mechanisms[i].warm_up_ms;
	return longest;
}

bool mechanism_broadcasts(unsigned int threads)
{
	for (unsigned int i = 0; i < count; i++)
		if (in_second_mode(&mechanisms[i]) && mechanisms[i].broadcasts_over && threads > mechanisms[i].broadcasts_over)
			return true;
	return false;
}

bool mechanisms_flush_function(unsigned int index, char *name, size_t size)
{
	for (unsigned int i = 0; i < count; i++) {
		const char *at = mechanisms[i].spec, *word;
		size_t length;

		while ((word = next_word(&at, &length))) {
			const char *value = value_of(word, &length, "flush");

			if (value && index-- == 0)
				return take(name, size, value, length);
		}
	}
	return false;
}

/* How much there is, not how much it grew: what counts is the value at the end. */
static bool is_level(const struct mechanism *mechanism, const char *name)
{
	const char *at = mechanism->spec, *word;
	size_t length;

	while ((word = next_word(&at, &length))) {
		const char *value = value_of(word, &length, "level");

		if (value && strlen(name) == length && strncmp(value, name, length) == 0)
			return true;
	}
	return false;
}

static bool is_there(const struct mechanism *mechanism)
{
	return mechanism->switch_path[0] && access(mechanism->switch_path, F_OK) == 0;
}

/* The one that workloads speak of: the first that this kernel has. */
static const struct mechanism *first(void)
{
	for (unsigned int i = 0; i < count; i++)
		if (is_there(&mechanisms[i]))
			return &mechanisms[i];
	return NULL;
}

const char *mechanism_switch(void)
{
	const struct mechanism *mechanism = first();

	return mechanism ? mechanism->switch_path : "";
}

const char *mechanism_setting(const char *name)
{
	static char path[192];
	const char *mode = mechanism_switch();
	const char *end = strrchr(mode, '/');

	if (!end)
		return "";
	snprintf(path, sizeof(path), "%.*s/%s", (int)(end - mode), mode, name);
	return path;
}

const char *mechanism_counters(void)
{
	const struct mechanism *mechanism = first();

	return mechanism ? mechanism->counters_path : "";
}

int mechanism_prctl(unsigned long value)
{
	for (unsigned int i = 0; i < count; i++)
		/* A kernel without it does not know the number. */
		if (mechanisms[i].prctl && prctl((int)mechanisms[i].prctl, value, 0UL, 0UL, 0UL) && errno != EINVAL)
			return -errno;
	return 0;
}

int mechanism_opt_in_get(void)
{
	for (unsigned int i = 0; i < count; i++) {
		int said;

		if (!mechanisms[i].has_opt_in || !is_there(&mechanisms[i]))
			continue;
		said = prctl((int)mechanisms[i].prctl + 1, 0UL, 0UL, 0UL, 0UL);
		return said < 0 ? -errno : said;
	}
	return -ENODEV;
}

void mechanisms_open(void)
{
	for (unsigned int i = 0; i < count; i++)
		if (mechanisms[i].counters_path[0])
			mechanisms[i].fd = open(mechanisms[i].counters_path, O_RDONLY | O_CLOEXEC);
}

static void read_text(struct mechanism *mechanism, bool is_end)
{
	char *at = mechanism->text[is_end];
	size_t length = 0;

	at[0] = '\0';
	if (mechanism->fd < 0)
		return;
	while (length < sizeof(mechanism->text[0]) - 1) {
		ssize_t got = pread(mechanism->fd, at + length, sizeof(mechanism->text[0]) - 1 - length,
				    (off_t)length);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		length += (size_t)got;
	}
	at[length] = '\0';
}

void mechanisms_read(bool is_end)
{
	for (unsigned int i = 0; i < count; i++)
		read_text(&mechanisms[i], is_end);
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
static bool find(const char *text, const char **hint, const char *name, uint64_t *value)
{
	struct pair pair;

	for (int pass = 0; pass < 2; pass++) {
		for (const char *line = pass ? text : *hint; line && *line; line = line_after(line)) {
			if (parse(line, &pair) && strcmp(pair.name, name) == 0) {
				*value = pair.value;
				*hint = line;
				return true;
			}
		}
	}
	return false;
}

static void subtract(const struct mechanism *mechanism, struct counted *counted)
{
	const char *hint = mechanism->text[0];

	counted->is_there = mechanism->text[0][0] && mechanism->text[1][0];
	counted->pairs = 0;
	if (!counted->is_there)
		return;
	for (const char *line = mechanism->text[1]; line && *line && counted->pairs < PAIRS_MAX;
	     line = line_after(line)) {
		struct pair *pair = &counted->pair[counted->pairs];
		uint64_t before;

		if (!parse(line, pair))
			continue;
		if (!is_level(mechanism, pair->name)) {
			if (!find(mechanism->text[0], &hint, pair->name, &before) || before > pair->value)
				continue;
			pair->value -= before;
		}
		counted->pairs++;
	}
}

void mechanisms_subtract(struct counted counted[MECHANISMS_MAX])
{
	for (unsigned int i = 0; i < count; i++)
		subtract(&mechanisms[i], &counted[i]);
}
