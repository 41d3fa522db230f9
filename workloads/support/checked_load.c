// SPDX-License-Identifier: GPL-2.0-only
/* See checked_load.h: the handler of the fault goes on at another address. */
#define _GNU_SOURCE
#include "support/checked_load.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

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

void checked_load_faulted(void);
void checked_store_faulted(void);

static void go_on(int signal_number, siginfo_t *info, void *context)
{
	greg_t *at = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	(void)info;
	if (*at == (greg_t)(uintptr_t)checked_load)
		*at = (greg_t)(uintptr_t)checked_load_faulted;
	else if (*at == (greg_t)(uintptr_t)checked_store)
		*at = (greg_t)(uintptr_t)checked_store_faulted;
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
