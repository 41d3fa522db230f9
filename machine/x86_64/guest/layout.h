/* SPDX-License-Identifier: GPL-2.0-only */
/* Numbers that assembler and C share. */
#ifndef GUEST_LAYOUT_H
#define GUEST_LAYOUT_H

#define CPUS_MAX 16
#define STACK_BYTES 16384
/* Below 1 MiB and page-aligned, as a start-up interrupt wants it. */
#define TRAMPOLINE 0x8000

#define SEL_CODE32 0x08
#define SEL_CODE64 0x10
#define SEL_DATA 0x18
#define SEL_USER_DATA 0x23
#define SEL_USER_CODE 0x2b
#define SEL_TSS 0x30

/* Offsets in struct cpu, checked in cpus.c. */
#define CPU_SELF 0
#define CPU_RESUME_RIP 8
#define CPU_RESUME_RSP 16
#define CPU_USER_RSP 24
#define CPU_TRIP_RSP 32

#endif
