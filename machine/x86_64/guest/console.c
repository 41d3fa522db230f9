// SPDX-License-Identifier: GPL-2.0-only
/* Lines on the first serial port, and the end of the machine. */
#include <stdarg.h>

#include "cpu.h"

#define SERIAL 0x3f8
#define LINE_STATUS (SERIAL + 5)
#define LINE_BYTES 320
/* The PIIX4's power management control, where SeaBIOS puts it; 0x2000: sleep, type 0 (off). */
#define PM_CONTROL 0x604
#define PM_OFF 0x2000

struct buffer {
	char *bytes;
	size_t size, used;
};

static void put(struct buffer *buffer, char c)
{
	if (buffer->used + 1 < buffer->size)
		buffer->bytes[buffer->used++] = c;
}

static void put_number(struct buffer *buffer, uint64_t value, unsigned int base)
{
	char digits[20];
	int count = 0;

	do {
		digits[count++] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value);
	while (count)
		put(buffer, digits[--count]);
}

/* %s, %c, %d, %u, %x, with l or without. */
static void format_into(struct buffer *buffer, const char *format, va_list arguments)
{
	for (; *format; format++) {
		bool is_long = false;
		int64_t value;

		if (*format != '%') {
			put(buffer, *format);
			continue;
		}
		if (*++format == 'l') {
			is_long = true;
			format++;
		}
		switch (*format) {
		case 's':
			for (const char *s = va_arg(arguments, const char *); *s; s++)
				put(buffer, *s);
			break;
		case 'c':
			put(buffer, (char)va_arg(arguments, int));
			break;
		case 'd':
			value = is_long ? va_arg(arguments, int64_t) : va_arg(arguments, int);
			if (value < 0)
				put(buffer, '-');
			put_number(buffer, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 10);
			break;
		case 'u':
		case 'x':
			put_number(buffer, is_long ? va_arg(arguments, uint64_t) : va_arg(arguments, unsigned int),
				   *format == 'u' ? 10 : 16);
			break;
		default:
			put(buffer, *format);
		}
	}
	buffer->bytes[buffer->used] = 0;
}

void say(const char *format, ...)
{
	static volatile int busy;
	char line[LINE_BYTES];
	struct buffer buffer = { line, sizeof(line), 0 };
	va_list arguments;

	va_start(arguments, format);
	format_into(&buffer, format, arguments);
	va_end(arguments);
	while (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE))
		pause();
	for (size_t i = 0; i < buffer.used; i++) {
		while (!(inb(LINE_STATUS) & 0x20))
			pause();
		outb(SERIAL, (uint8_t)line[i]);
	}
	__atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
}

const char *text(const char *format, ...)
{
	struct cpu *cpu = this_cpu();
	struct buffer buffer = { cpu->text, sizeof(cpu->text), 0 };
	va_list arguments;

	va_start(arguments, format);
	format_into(&buffer, format, arguments);
	va_end(arguments);
	return cpu->text;
}

void give_up(const char *format, ...)
{
	struct cpu *cpu = this_cpu();
	struct buffer buffer = { cpu->text, sizeof(cpu->text), 0 };
	va_list arguments;

	va_start(arguments, format);
	format_into(&buffer, format, arguments);
	va_end(arguments);
	cpu->abort_reason = cpu->text;
	jump_to(&cpu->abort, 1);
}

bool string_equal(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

void *memory_copy(void *to, const void *from, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		((volatile char *)to)[i] = ((const char *)from)[i];
	return to;
}

/* What the compiler may call. */
void *memcpy(void *to, const void *from, size_t bytes)
{
	void *result = to;

	asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
	return result;
}

void *memset(void *to, int value, size_t bytes)
{
	void *result = to;

	asm volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(value) : "memory");
	return result;
}

void power_off(void)
{
	/* The last byte has left. */
	while (!(inb(LINE_STATUS) & 0x40))
		pause();
	outw(PM_CONTROL, PM_OFF);
	for (;;)
		asm volatile("cli; hlt");
}
