// SPDX-License-Identifier: GPL-2.0-only
/* Lines on the first serial port, and the end of the machine. */
#include <stdarg.h>

#include "guest.h"

/* Grackle's configuration space: mac-io is device 16 of bus 0. */
#define CONFIG_ADDRESS 0xfec00000u
#define CONFIG_DATA 0xfee00000u
#define MACIO_CONFIG (0x80000000u | 16 << 11)
#define PCI_COMMAND 0x04
#define PCI_BAR0 0x10

/* Channel A of the ESCC. */
#define SERIAL_CONTROL (MACIO + 0x13020)
#define SERIAL_DATA (MACIO + 0x13030)

/* The 6522 that leads to CUDA; the lines are low when they are active. */
#define VIA_B (MACIO + 0x16000)
#define VIA_DIRECTION_B (MACIO + 0x16400)
#define VIA_SHIFT (MACIO + 0x17400)
#define VIA_CONTROL (MACIO + 0x17600)
#define SHIFT_OUT 0x10
#define ACKNOWLEDGE 0x10
#define IN_PROGRESS 0x20
#define CUDA_PACKET 1
#define CUDA_POWER_DOWN 0x0a
#define CUDA_RESET 0x11

#define LINE_BYTES 320

struct buffer {
	char *bytes;
	size_t size, used;
};

static char text_bytes[200];

static void config_write(uint32_t offset, uint32_t value)
{
	asm volatile("stwbrx %0, 0, %1; eieio" : : "r"(MACIO_CONFIG | offset), "r"(CONFIG_ADDRESS) : "memory");
	asm volatile("stwbrx %0, 0, %1; eieio" : : "r"(value), "r"(CONFIG_DATA) : "memory");
}

static void device_write(uint32_t address, uint8_t value)
{
	*(volatile uint8_t *)address = value;
	asm volatile("eieio" : : : "memory");
}

void console_init(void)
{
	config_write(PCI_BAR0, MACIO);
	config_write(PCI_COMMAND, 2);
	/* Register 5: 8 bits, and on. */
	device_write(SERIAL_CONTROL, 5);
	device_write(SERIAL_CONTROL, 0x68);
}

static void cuda_command(uint8_t command) __attribute__((noreturn));
static void cuda_command(uint8_t command)
{
	device_write(VIA_DIRECTION_B, ACKNOWLEDGE | IN_PROGRESS);
	device_write(VIA_B, ACKNOWLEDGE | IN_PROGRESS);
	device_write(VIA_CONTROL, SHIFT_OUT);
	device_write(VIA_SHIFT, CUDA_PACKET);
	device_write(VIA_B, ACKNOWLEDGE);
	device_write(VIA_SHIFT, command);
	device_write(VIA_B, 0);
	device_write(VIA_B, ACKNOWLEDGE | IN_PROGRESS);
	for (;;)
		asm volatile("" : : : "memory");
}

void power_off(void)
{
	cuda_command(CUDA_POWER_DOWN);
}

void reset_all(void)
{
	cuda_command(CUDA_RESET);
}

static void put(struct buffer *buffer, char c)
{
	if (buffer->used + 1 < buffer->size)
		buffer->bytes[buffer->used++] = c;
}

static void put_number(struct buffer *buffer, uint32_t value, unsigned int base)
{
	char digits[10];
	int count = 0;

	do {
		digits[count++] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value);
	while (count)
		put(buffer, digits[--count]);
}

/* %s, %c, %d, %u, %x. */
static void format_into(struct buffer *buffer, const char *format, va_list arguments)
{
	for (; *format; format++) {
		int32_t value;

		if (*format != '%') {
			put(buffer, *format);
			continue;
		}
		switch (*++format) {
		case 's':
			for (const char *s = va_arg(arguments, const char *); *s; s++)
				put(buffer, *s);
			break;
		case 'c':
			put(buffer, (char)va_arg(arguments, int));
			break;
		case 'd':
			value = va_arg(arguments, int);
			if (value < 0)
				put(buffer, '-');
			put_number(buffer, value < 0 ? 0 - (uint32_t)value : (uint32_t)value, 10);
			break;
		case 'u':
		case 'x':
			put_number(buffer, va_arg(arguments, unsigned int), *format == 'u' ? 10 : 16);
			break;
		default:
			put(buffer, *format);
		}
	}
	buffer->bytes[buffer->used] = 0;
}

void say(const char *format, ...)
{
	char line[LINE_BYTES];
	struct buffer buffer = { line, sizeof(line), 0 };
	va_list arguments;

	va_start(arguments, format);
	format_into(&buffer, format, arguments);
	va_end(arguments);
	for (size_t i = 0; i < buffer.used; i++)
		device_write(SERIAL_DATA, (uint8_t)line[i]);
}

const char *text_from(const char *format, va_list arguments);
const char *text_from(const char *format, va_list arguments)
{
	/* What is said may be of the text that was there. */
	char line[sizeof(text_bytes)];
	struct buffer buffer = { line, sizeof(line), 0 };

	format_into(&buffer, format, arguments);
	for (size_t i = 0; i <= buffer.used; i++)
		text_bytes[i] = line[i];
	return text_bytes;
}

const char *text(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	text_from(format, arguments);
	va_end(arguments);
	return text_bytes;
}

void text_clear(void)
{
	text_bytes[0] = 0;
}

const char *text_now(void)
{
	return text_bytes;
}

/* What the compiler may call. */
void *memcpy(void *to, const void *from, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		((volatile char *)to)[i] = ((const char *)from)[i];
	return to;
}

void *memset(void *to, int value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		((volatile char *)to)[i] = (char)value;
	return to;
}
