// SPDX-License-Identifier: GPL-2.0-only
/* See checked_load.h: the handler of the fault goes on at another address. */
#define _GNU_SOURCE
#include "support/checked_load.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#if defined(__x86_64__)

__asm__(".pushsection .text\n"
	".globl checked_load\n"
	".type checked_load, @function\n"
	"checked_load:\n"
	"	mov (%rdi), %rax\n"
	"	xor %edx, %edx\n"
	"	ret\n"
	".globl checked_load_faulted\n"
	"checked_load_faulted:\n"
	"	xor %eax, %eax\n"
	"	mov $1, %edx\n"
	"	ret\n"
	".size checked_load, . - checked_load\n"
	".globl checked_store\n"
	".type checked_store, @function\n"
	"checked_store:\n"
	"	mov %rsi, (%rdi)\n"
	"	xor %eax, %eax\n"
	"	ret\n"
	".globl checked_store_faulted\n"
	"checked_store_faulted:\n"
	"	mov $1, %eax\n"
	"	ret\n"
	".size checked_store, . - checked_store\n"
	".popsection\n");

#define checked_store_itself checked_store

static uintptr_t *program_counter(ucontext_t *context)
{
	return (uintptr_t *)&context->uc_mcontext.gregs[REG_RIP];
}

#elif defined(__powerpc__)

/* Through a register of 64 bits: two loads could read two halves of different words. */
__asm__(".pushsection .text\n"
	".globl checked_load\n"
	".type checked_load, @function\n"
	"checked_load:\n"
	"	lfd 0, 0(4)\n"
	"	li 5, 0\n"
	"	li 6, 0\n"
	"	stfd 0, 0(3)\n"
	"	stw 5, 8(3)\n"
	"	stw 6, 12(3)\n"
	"	blr\n"
	".globl checked_load_faulted\n"
	"checked_load_faulted:\n"
	"	li 5, 0\n"
	"	li 6, 1\n"
	"	stw 5, 0(3)\n"
	"	stw 5, 4(3)\n"
	"	stw 5, 8(3)\n"
	"	stw 6, 12(3)\n"
	"	blr\n"
	".size checked_load, . - checked_load\n"
	".globl checked_store\n"
	".type checked_store, @function\n"
	"checked_store:\n"
	/* Below r1 nothing is ours: a signal's frame may lie there. */
	"	stwu 1, -16(1)\n"
	"	stw 5, 8(1)\n"
	"	stw 6, 12(1)\n"
	"	lfd 0, 8(1)\n"
	"	addi 1, 1, 16\n"
	"	b checked_store_itself\n"
	".globl checked_store_itself\n"
	"checked_store_itself:\n"
	"	stfd 0, 0(3)\n"
	"	li 3, 0\n"
	"	blr\n"
	".globl checked_store_faulted\n"
	"checked_store_faulted:\n"
	"	li 3, 1\n"
	"	blr\n"
	".size checked_store, . - checked_store\n"
	".popsection\n");

void checked_store_itself(void);

static uintptr_t *program_counter(ucontext_t *context)
{
	return (uintptr_t *)&context->uc_mcontext.uc_regs->gregs[32];
}

#else
#error "say here how this processor loads a word and where its program counter is"
#endif

void checked_load_faulted(void);
void checked_store_faulted(void);

static void go_on(int signal_number, siginfo_t *info, void *context)
{
	uintptr_t *at = program_counter(context);

	(void)info;
	if (*at == (uintptr_t)checked_load)
		*at = (uintptr_t)checked_load_faulted;
	else if (*at == (uintptr_t)checked_store_itself)
		*at = (uintptr_t)checked_store_faulted;
	else
		/* Not ours: it faults again, and kills. */
		signal(signal_number, SIG_DFL);
}

int checked_load_open(struct run *run)
{
	struct sigaction action = { .sa_sigaction = go_on, .sa_flags = SA_SIGINFO };

	if (sigaction(SIGSEGV, &action, NULL) || sigaction(SIGBUS, &action, NULL))
		return workload_fail(run, "a handler for faults cannot be set: %s", strerror(errno));
	return 0;
}
