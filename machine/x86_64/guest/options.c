// SPDX-License-Identifier: GPL-2.0-only
/* Words of the command line: "name", or "name=value". */
#include "guest.h"

static const char *command_line = "";

void options_set(const char *text)
{
	command_line = text;
}

static bool is_end(char c)
{
	return !c || c == ' ';
}

/* The text after a word and its `=`, or NULL. */
static const char *option_text(const char *name)
{
	for (const char *word = command_line; *word;) {
		const char *a = word, *b = name;

		while (*b && *a == *b) {
			a++;
			b++;
		}
		if (!*b && (is_end(*a) || *a == '='))
			return *a == '=' ? a + 1 : a;
		while (!is_end(*word))
			word++;
		while (*word == ' ')
			word++;
	}
	return NULL;
}

bool option(const char *name)
{
	return option_text(name) != NULL;
}

static uint64_t number_read(const char **text)
{
	uint64_t value = 0;

	while (**text >= '0' && **text <= '9')
		value = value * 10 + (uint64_t)(*(*text)++ - '0');
	return value;
}

uint64_t option_number(const char *name, uint64_t otherwise)
{
	const char *text = option_text(name);

	return text ? number_read(&text) : otherwise;
}

bool option_lists(const char *name, uint64_t number)
{
	const char *text = option_text(name);

	while (text && !is_end(*text)) {
		uint64_t first = number_read(&text), last = first;

		if (*text == '-') {
			text++;
			last = number_read(&text);
		}
		if (number >= first && number <= last)
			return true;
		if (*text == ',')
			text++;
		else if (!is_end(*text))
			return false;
	}
	return false;
}
