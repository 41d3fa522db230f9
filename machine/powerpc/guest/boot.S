/* SPDX-License-Identifier: GPL-2.0-only */
/* From the reset vector to main(), and the way to code and data behind the TLBs and back. */
#include "layout.h"

#define SPRG0 272
#define DSISR 18
#define DAR 19
#define SRR0 26
#define SRR1 27
#define REGISTERS_BYTES 96

#define LOAD(register, symbol) \
	lis	register, symbol@ha; \
	addi	register, register, symbol@l

	.section .reset, "ax"
	.globl	reset
reset:
	/* The image to RAM, word by word, and then zeros. */
	LOAD(3, image_start)
	lis	4, 0xffc0
	LOAD(5, image_end)
1:	lwz	6, 0(4)
	stw	6, 0(3)
	addi	3, 3, 4
	addi	4, 4, 4
	cmplw	3, 5
	blt	1b
	LOAD(5, bss_end)
	li	6, 0
2:	stw	6, 0(3)
	addi	3, 3, 4
	cmplw	3, 5
	blt	2b
	/* A branch from each vector, 0x100 to 0x2f00, to the same code: li r3, vector; ba exception_entry */
	LOAD(5, vector_code)
	li	3, 0x100
3:	lwz	6, 0(5)
	stw	6, 0(3)
	lwz	6, 4(5)
	or	6, 6, 3
	stw	6, 4(3)
	lwz	6, 8(5)
	stw	6, 8(3)
	dcbst	0, 3
	sync
	icbi	0, 3
	addi	3, 3, 0x100
	cmplwi	3, 0x3000
	blt	3b
	sync
	isync
	/* Exceptions go to RAM: no MSR[IP]. */
	li	3, MSR_ME | MSR_RI
	mtmsr	3
	isync
	lis	1, STACK_TOP@h
	addi	1, 1, -64
	li	3, 0
	stw	3, 0(1)
	lis	3, main@ha
	addi	3, 3, main@l
	mtctr	3
	bctrl
4:	b	4b

	.text
vector_code:
	mtspr	SPRG0, 3
	li	3, 0
	ba	exception_entry

	/* SPRG0 has r3, and r3 the vector. Real mode; interrupts are never on, and who travels needs r4 and r5 no more. */
exception_entry:
	mfcr	5
	lis	4, journey_now@ha
	lwz	4, journey_now@l(4)
	cmplwi	4, 0
	beq	unexpected
	stw	5, JOURNEY_CR(4)
	stw	3, JOURNEY_VECTOR(4)
	mfspr	5, SPRG0
	stw	5, JOURNEY_VALUE(4)
	mfspr	5, SRR0
	stw	5, JOURNEY_SRR0(4)
	mfspr	5, SRR1
	stw	5, JOURNEY_SRR1(4)
	mfspr	5, DAR
	stw	5, JOURNEY_DAR(4)
	mfspr	5, DSISR
	stw	5, JOURNEY_DSISR(4)
	li	5, 0
	lis	4, journey_now@ha
	stw	5, journey_now@l(4)
	lis	4, journey_stack@ha
	lwz	1, journey_stack@l(4)
	li	3, MSR_ME | MSR_RI
	mtmsr	3
	isync
	lwz	0, 4(1)
	mtlr	0
	lwz	0, 8(1)
	mtcr	0
	lmw	13, 12(1)
	addi	1, 1, REGISTERS_BYTES
	blr

unexpected:
	lis	1, STACK_TOP@h
	addi	1, 1, -64
	mfspr	4, SRR0
	mfspr	5, DAR
	b	exception_unexpected

	/*
	 * void journey_go(struct journey *) goes to its address with its MSR, r3 its value and r4 its address, and
	 * comes back by the next exception.
	 */
	.globl	journey_go
journey_go:
	addi	1, 1, -REGISTERS_BYTES
	mflr	0
	stw	0, 4(1)
	mfcr	0
	stw	0, 8(1)
	stmw	13, 12(1)
	lis	4, journey_stack@ha
	stw	1, journey_stack@l(4)
	lis	4, journey_now@ha
	stw	3, journey_now@l(4)
	lwz	5, JOURNEY_PC(3)
	mtspr	SRR0, 5
	lwz	5, JOURNEY_MSR(3)
	mtspr	SRR1, 5
	lwz	4, JOURNEY_ADDRESS(3)
	lwz	3, JOURNEY_VALUE(3)
	rfi

	/* The accesses that a journey goes to; in real mode as far as the code is concerned */
	.globl	stub_load, stub_store, stub_dcbz, stub_stwcx, stub_stwcx_lost, stub_tlbie, stub_oracle, stub_tlbia
	.globl	stub_load_twice, stub_dcbi, stub_dcbf, stub_dcbst, stub_icbi, stub_dcbt, stub_dcbtst, stub_lmw, stub_stmw
	.globl	stub_stwcx_dropped, stub_stwcx_unmapped
stub_load:
	lwz	3, 0(4)
	sc
stub_store:
	stw	3, 0(4)
	sc
stub_dcbz:
	dcbz	0, 4
	sc
	/* r3 to where it is loaded from, and CR0 tells. */
stub_stwcx:
	lwarx	5, 0, 4
	stwcx.	3, 0, 4
	sc
	/* The reservation is for another address. */
stub_stwcx_lost:
	addi	6, 4, 64
	lwarx	5, 0, 6
	stwcx.	3, 0, 4
	sc
	/* The entry goes between the two. */
stub_stwcx_dropped:
	lwarx	5, 0, 4
	tlbie	4
	stwcx.	3, 0, 4
	sc
	/* So does the PTE, whose first word is at r3. */
stub_stwcx_unmapped:
	lwarx	5, 0, 4
	li	6, 0
	mfmsr	7
	li	8, MSR_DR
	andc	8, 7, 8
	mtmsr	8
	isync
	stw	6, 0(3)
	sync
	tlbie	4
	sync
	mtmsr	7
	isync
	stwcx.	3, 0, 4
	sc
stub_dcbi:
	dcbi	0, 4
	sc
stub_dcbf:
	dcbf	0, 4
	sc
stub_dcbst:
	dcbst	0, 4
	sc
stub_icbi:
	icbi	0, 4
	sc
stub_dcbt:
	dcbt	0, 4
	sc
stub_dcbtst:
	dcbtst	0, 4
	sc
	/* Two words; the second is what counts. */
stub_lmw:
	lmw	30, 0(4)
	mr	3, 31
	sc
	/* r3 twice */
stub_stmw:
	mr	30, 3
	mr	31, 3
	stmw	30, 0(4)
	sc
stub_tlbie:
	tlbie	4
	sc
stub_tlbia:
	.long	0x7c0002e4
	sc
stub_oracle:
	mfspr	3, 1014
	sc
	/* An access, mtsr and isync of what r5 says, and the access again: its value is what counts. */
stub_load_twice:
	lwz	5, 0(4)
	mtsrin	3, 4
	isync
	lwz	3, 0(4)
	sc

	.bss
	.align	2
	.globl	journey_now
journey_now:
	.space	4
journey_stack:
	.space	4
