// SPDX-License-Identifier: GPL-2.0-only
/* To code and data behind the TLBs, and back by the next exception. */
#include "guest.h"

#define MSR_BASE (MSR_ME | MSR_RI)

struct journey journey;
static void *rescue[5];
static const char *reason;

static uint32_t go(uint32_t pc, uint32_t msr, uint32_t address, uint32_t value)
{
	journey = (struct journey){ .pc = pc, .msr = MSR_BASE | msr, .address = address, .value = value };
	asm volatile("" : : : "memory");
	journey_go(&journey);
	asm volatile("" : : : "memory");
	return journey.vector;
}

static uint32_t msr_of(enum mode mode)
{
	return mode == USER ? MSR_PR : 0;
}

uint32_t stub_try(void (*stub)(void), uint32_t msr, uint32_t address, uint32_t value)
{
	return go((uint32_t)stub, msr, address, value);
}

uint32_t load_try(enum mode mode, uint32_t address, uint32_t *value)
{
	uint32_t vector = go((uint32_t)stub_load, MSR_DR | msr_of(mode), address, 0);

	*value = journey.value;
	return vector;
}

uint32_t store_try(enum mode mode, uint32_t address, uint32_t value)
{
	return go((uint32_t)stub_store, MSR_DR | msr_of(mode), address, value);
}

uint32_t jump_try(enum mode mode, uint32_t address, uint32_t *value)
{
	uint32_t vector = go(address, MSR_IR | msr_of(mode), 0, 0);

	*value = journey.value;
	return vector;
}

uint32_t execute_try(enum mode mode, uint32_t address, uint32_t *value)
{
	return jump_try(mode, address + CODE_OFFSET, value);
}

void give_up(const char *format, ...)
{
	__builtin_va_list arguments;
	extern const char *text_from(const char *format, __builtin_va_list arguments);

	__builtin_va_start(arguments, format);
	reason = text_from(format, arguments);
	__builtin_va_end(arguments);
	__builtin_longjmp(rescue, 1);
}

const char *attempt(void (*what)(void))
{
	text_clear();
	reason = NULL;
	if (__builtin_setjmp(rescue) == 0)
		what();
	return reason;
}

void exception_unexpected(uint32_t vector, uint32_t srr0, uint32_t dar) __attribute__((noreturn, used));
void exception_unexpected(uint32_t vector, uint32_t srr0, uint32_t dar)
{
	say("lost exception %x at %x, DAR %x\n", vector, srr0, dar);
	power_off();
}
