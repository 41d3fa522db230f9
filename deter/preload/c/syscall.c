/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * syscall() of libc. Most numbers go straight to the kernel, without a frame on the stack, as in libc: whoever forks
 * or clones in this way returns twice.
 */
#define _GNU_SOURCE
#include "deter.h"

#define NUMBERS 512

/* Not in the headers that this is compiled with. */
#define NR_set_mempolicy_home_node 450
#define NR_mseal 462

__attribute__((used)) const unsigned char deter_watched[NUMBERS] = {
	[SYS_mmap] = 1,
	[SYS_mprotect] = 1,
	[SYS_munmap] = 1,
	[SYS_ioctl] = 1,
	[SYS_mremap] = 1,
	[SYS_madvise] = 1,
	[SYS_shmat] = 1,
	[SYS_mlock] = 1,
	[SYS_mlockall] = 1,
	[SYS_prctl] = 1,
	[SYS_arch_prctl] = 1,
	[SYS_remap_file_pages] = 1,
	[SYS_mbind] = 1,
	[SYS_seccomp] = 1,
	[SYS_userfaultfd] = 1,
	[SYS_mlock2] = 1,
	[SYS_pkey_mprotect] = 1,
	[SYS_process_madvise] = 1,
	[NR_set_mempolicy_home_node] = 1,
	[NR_mseal] = 1,
};

__attribute__((used)) long deter_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	return answer(watched_call(number, a, b, c, d, e, f));
}

__asm__(".pushsection .text\n"
	".globl syscall\n"
	".type syscall, @function\n"
	"syscall:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	cmpq $511, %rdi\n"
	"	ja 1f\n"
	"	leaq deter_watched(%rip), %rax\n"
	"	cmpb $0, (%rax,%rdi)\n"
	"	jne deter_syscall\n"
	"1:	movq %rdi, %rax\n"
	"	movq %rsi, %rdi\n"
	"	movq %rdx, %rsi\n"
	"	movq %rcx, %rdx\n"
	"	movq %r8, %r10\n"
	"	movq %r9, %r8\n"
	"	movq 8(%rsp), %r9\n"
	"	syscall\n"
	"	cmpq $-4095, %rax\n"
	"	jae 2f\n"
	"	ret\n"
	"2:	movq %rax, %rdi\n"
	"	jmp answer\n"
	"	.cfi_endproc\n"
	".size syscall, .-syscall\n"
	".popsection\n");
