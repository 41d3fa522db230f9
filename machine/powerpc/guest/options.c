// SPDX-License-Identifier: GPL-2.0-only
/* Words in the machine's fw_cfg file opt/words: "name", or "name=value". */
#include "guest.h"

/* fw_cfg of the board: the selector, and the data byte by byte. */
#define SELECTOR 0xf0000510u
#define DATA 0xf0000512u
#define DIRECTORY 0x19
#define FILE "opt/words"
#define NAME_BYTES 56

static char words[512];

static void item_select(uint16_t item)
{
	*(volatile uint16_t *)SELECTOR = item;
	asm volatile("eieio" : : : "memory");
}

static uint32_t item_read(unsigned int bytes)
{
	uint32_t value = 0;

	while (bytes--)
		value = value << 8 | *(volatile uint8_t *)DATA;
	return value;
}

void options_init(void)
{
	uint32_t files;

	item_select(DIRECTORY);
	files = item_read(4);
	while (files--) {
		uint32_t bytes = item_read(4), item = item_read(2);
		bool is_ours = true;

		item_read(2);
		for (unsigned int i = 0; i < NAME_BYTES; i++) {
			char c = (char)item_read(1);

			if (i < sizeof(FILE))
				is_ours = is_ours && c == FILE[i];
		}
		if (!is_ours)
			continue;
		item_select((uint16_t)item);
		for (uint32_t i = 0; i < bytes && i < sizeof(words) - 1; i++)
			words[i] = (char)item_read(1);
		return;
	}
}

static bool is_end(char c)
{
	return !c || c == ' ';
}

/* The text after a word and its `=`, or NULL. */
static const char *option_text(const char *name)
{
	for (const char *word = words; *word;) {
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

static uint32_t number_read(const char **text)
{
	uint32_t value = 0;

	while (**text >= '0' && **text <= '9')
		value = value * 10 + (uint32_t)(*(*text)++ - '0');
	return value;
}

uint32_t option_number(const char *name, uint32_t otherwise)
{
	const char *text = option_text(name);

	return text ? number_read(&text) : otherwise;
}

bool option_lists(const char *name, uint32_t number)
{
	const char *text = option_text(name);

	while (text && !is_end(*text)) {
		uint32_t first = number_read(&text), last = first;

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
