/* SPDX-License-Identifier: GPL-2.0-only */
/* Where things lie in RAM (64 MiB); for C and for the assembler. */
#ifndef GUEST_LAYOUT_H
#define GUEST_LAYOUT_H

#define IMAGE_BASE 0x00010000
#define STACK_TOP 0x00100000
/* Aligned to its largest size, 128 KiB */
#define HASH_TABLE 0x00200000
#define FRAMES 0x00400000
#define FRAMES_END 0x03f00000
/* A word that a reset leaves alone */
#define RESET_MARK 0x03f80000

/* The device registers of the board: a PCI address that boot.S gives to mac-io */
#define MACIO 0x80800000

/* Bits of the MSR, and where an exception leaves them */
#define MSR_PR 0x4000
#define MSR_ME 0x1000
#define MSR_IR 0x20
#define MSR_DR 0x10
#define MSR_RI 0x02

/* struct journey */
#define JOURNEY_PC 0
#define JOURNEY_MSR 4
#define JOURNEY_ADDRESS 8
#define JOURNEY_VALUE 12
#define JOURNEY_VECTOR 16
#define JOURNEY_SRR0 20
#define JOURNEY_SRR1 24
#define JOURNEY_DAR 28
#define JOURNEY_DSISR 32
#define JOURNEY_CR 36

#endif
