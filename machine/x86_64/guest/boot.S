/* SPDX-License-Identifier: GPL-2.0-only */
/* How a CPU gets from the boot loader, or from a start-up interrupt, into 64-bit C; and the ways out of C. */
#include "layout.h"

	.section .boot, "ax"
	.code32
/* Multiboot 1, with load addresses: the loader then does not ask whether the file is of 32 bits. */
	.align 4
multiboot_header:
	.long 0x1badb002, 0x00010003, -(0x1badb002 + 0x00010003)
	.long multiboot_header, image_start, image_end, bss_end, start

	.globl start
start:
	cld
	cli
	movl	%ebx, multiboot_info
enter_long_mode:
	movl	$0x20, %eax			/* CR4.PAE alone: whoever comes from INIT finds PGE as INIT left it */
	movl	%eax, %cr4
	movl	$boot_pml4, %eax
	movl	%eax, %cr3
	movl	$0xc0000080, %ecx
	rdmsr
	orl	$0x900, %eax			/* EFER.LME, EFER.NXE */
	wrmsr
	movl	$0x80010033, %eax		/* PG, WP, NE, ET, MP, PE */
	movl	%eax, %cr0
	lgdt	gdt_pointer
	ljmp	$SEL_CODE64, $1f

	.code64
1:	movl	$SEL_DATA, %eax
	movl	%eax, %ds
	movl	%eax, %es
	movl	%eax, %ss
	xorl	%eax, %eax
	movl	%eax, %fs
	movl	%eax, %gs
	movl	$1, %eax
	cpuid
	shrl	$24, %ebx			/* the APIC ID is the CPU's number here */
	cmpl	$CPUS_MAX, %ebx
	jae	2f
	movl	%ebx, %edi
	leal	1(%rbx), %eax
	imull	$STACK_BYTES, %eax, %eax
	leaq	stacks(%rax), %rsp
	xorl	%ebp, %ebp
	call	cpu_entry
2:	cli
	hlt
	jmp	2b

/* Copied to TRAMPOLINE: a start-up interrupt begins in real mode. */
	.code16
	.globl trampoline, trampoline_end
trampoline:
	cli
	cld
	xorw	%ax, %ax
	movw	%ax, %ds
	lgdtl	TRAMPOLINE + (trampoline_gdt_pointer - trampoline)
	movl	$0x11, %eax
	movl	%eax, %cr0
	ljmpl	$SEL_CODE32, $1f
	.align 4
trampoline_gdt_pointer:
	.word	6 * 8 - 1
	.long	gdt
trampoline_end:
	.code32
1:	movl	$SEL_DATA, %eax
	movl	%eax, %ds
	movl	%eax, %es
	movl	%eax, %ss
	jmp	enter_long_mode

/*
 * uint64_t legacy_trip(uint32_t cr4, uint32_t cr3)
 * Leaves long mode, loads CR4 and CR3 with paging off, stays while trip_hold is set, and comes back.
 * Return: bit 0, paging could not be turned off (#GP, nothing was loaded); bit 1, CR4 was refused (#GP).
 */
	.code64
	.globl legacy_trip
legacy_trip:
	pushq	%rbx
	pushq	%rbp
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	%gs:CPU_SELF, %rbx
	movq	%rsp, CPU_TRIP_RSP(%rbx)
	xorl	%ebp, %ebp
	pushq	$SEL_CODE32
	pushq	$1f
	lretq
	.code32
1:	movl	$2f, CPU_RESUME_RIP(%ebx)
	movl	%esp, CPU_RESUME_RSP(%ebx)
	movl	%cr0, %eax
	andl	$0x7fffffff, %eax
	movl	%eax, %cr0
2:	movl	$0, CPU_RESUME_RIP(%ebx)
	movl	%cr0, %eax
	testl	%eax, %eax
	jns	3f
	orl	$1, %ebp
	jmp	5f
3:	lidt	idt32_pointer
	movl	%edi, %cr4
trip_resume:
	movl	%esi, %cr3
	movl	$1, trip_held
4:	pause
	cmpl	$0, trip_hold
	jne	4b
	movl	$0, trip_held
	movl	%cr0, %eax
	orl	$0x80000000, %eax
	movl	%eax, %cr0
5:	ljmp	$SEL_CODE64, $6f
	.code64
6:	lidt	idt_pointer
	movq	%gs:CPU_SELF, %rbx
	movq	CPU_TRIP_RSP(%rbx), %rsp
	movl	%ebp, %eax
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbp
	popq	%rbx
	ret

	.code32
gp32:	addl	$4, %esp
	orl	$2, %ebp
	movl	$trip_resume, (%esp)
	iretl

/*
 * uint64_t user_call(uint64_t rip, uint64_t rsp, uint64_t rdi, uint64_t rsi, uint64_t rdx)
 * Runs code in user mode until it raises an exception or INT 0x80. Return: its RAX.
 */
	.code64
	.globl user_call, user_return, user_rflags
	.pushsection .data
user_rflags:
	.quad	2
	.popsection
user_call:
	pushq	%rbx
	pushq	%rbp
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	%rsp, %gs:CPU_USER_RSP
	pushq	$SEL_USER_DATA
	pushq	%rsi
	pushq	user_rflags
	pushq	$SEL_USER_CODE
	pushq	%rdi
	movq	%rdx, %rdi
	movq	%rcx, %rsi
	movq	%r8, %rdx
	iretq
user_return:
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbp
	popq	%rbx
	ret

/* int jump_save(struct jump *) and jump_to(struct jump *, int): setjmp and longjmp. */
	.globl jump_save, jump_to
jump_save:
	movq	%rbx, (%rdi)
	movq	%rbp, 8(%rdi)
	movq	%r12, 16(%rdi)
	movq	%r13, 24(%rdi)
	movq	%r14, 32(%rdi)
	movq	%r15, 40(%rdi)
	movq	%rsp, 48(%rdi)
	movq	(%rsp), %rax
	movq	%rax, 56(%rdi)
	xorl	%eax, %eax
	ret
jump_to:
	movq	(%rdi), %rbx
	movq	8(%rdi), %rbp
	movq	16(%rdi), %r12
	movq	24(%rdi), %r13
	movq	32(%rdi), %r14
	movq	40(%rdi), %r15
	movq	48(%rdi), %rsp
	movl	%esi, %eax
	movq	56(%rdi), %rdx
	movq	%rdx, (%rsp)
	ret

/* One stub of 16 bytes for each vector. */
	.align 16
	.globl vector_stubs
vector_stubs:
	vector = 0
	.rept 256
	.align 16
	.if !(vector == 8 || (vector >= 10 && vector <= 14) || vector == 17 || vector == 21)
	pushq	$0
	.endif
	pushq	$vector
	jmp	trap_common
	vector = vector + 1
	.endr
	.align 16
trap_common:
	cld
	pushq	%rax
	pushq	%rcx
	pushq	%rdx
	pushq	%rbx
	pushq	%rbp
	pushq	%rsi
	pushq	%rdi
	pushq	%r8
	pushq	%r9
	pushq	%r10
	pushq	%r11
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	%rsp, %rdi
	movq	%rsp, %rbx
	andq	$-16, %rsp
	call	trap
	movq	%rbx, %rsp
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%r11
	popq	%r10
	popq	%r9
	popq	%r8
	popq	%rdi
	popq	%rsi
	popq	%rbp
	popq	%rbx
	popq	%rdx
	popq	%rcx
	popq	%rax
	addq	$16, %rsp
	iretq

	.data
	.align 8
	.globl gdt
gdt:	.quad	0
	.quad	0x00cf9a000000ffff		/* SEL_CODE32 */
	.quad	0x00af9a000000ffff		/* SEL_CODE64 */
	.quad	0x00cf92000000ffff		/* SEL_DATA */
	.quad	0x00cff2000000ffff		/* SEL_USER_DATA */
	.quad	0x00affa000000ffff		/* SEL_USER_CODE */
	.fill	2 * CPUS_MAX, 8, 0		/* a task state segment for each CPU */
gdt_end:
	.globl gdt_pointer, idt_pointer
gdt_pointer:
	.word	gdt_end - gdt - 1
	.quad	gdt
	.align 8
idt_pointer:
	.word	256 * 16 - 1
	.quad	idt
	.align 8
idt32_pointer:
	.word	14 * 8 - 1
	.long	idt32
	.align 8
idt32:	.fill	13, 8, 0
idt32_gp:
	.globl idt32_gp, gp32
	.quad	0				/* #GP, filled in by traps.c */

/* The first 4 GiB, one to one, in pages of 2 MiB, accessed and dirty. */
	.align 4096
	.globl boot_pml5, boot_pml4, identity_pdpt
boot_pml5:
	.quad	boot_pml4 + 0x23
	.fill	511, 8, 0
boot_pml4:
	.quad	identity_pdpt + 0x23
	.fill	511, 8, 0
identity_pdpt:
	.quad	identity_pds + 0x0023
	.quad	identity_pds + 0x1023
	.quad	identity_pds + 0x2023
	.quad	identity_pds + 0x3023
	.fill	508, 8, 0
identity_pds:
	page = 0
	.rept 4 * 512
	.quad	page + 0xe3
	page = page + 0x200000
	.endr

	.bss
	.align 4096
	.globl idt, stacks
idt:	.space	256 * 16
stacks:	.space	CPUS_MAX * STACK_BYTES
	.section .note.GNU-stack, "", @progbits
