// SPDX-License-Identifier: GPL-2.0-only
/* Exceptions: expected ones are noted and go on where the code asked, others end the rule. */
#include "cpu.h"

#define APIC_EOI ((volatile uint32_t *)0xfee000b0)
#define TSS_BYTES 104
#define GATE_INTERRUPT 0x8e
#define GATE_USER 0xee

struct frame {
	uint64_t r15, r14, r13, r12, r11, r10, r9, r8, rdi, rsi, rbp, rbx, rdx, rcx, rax;
	uint64_t vector, error, rip, cs, rflags, rsp, ss;
};

struct gate {
	uint16_t offset_low, selector;
	uint8_t stack, type;
	uint16_t offset_middle;
	uint32_t offset_high, reserved;
};

struct tss {
	uint32_t reserved;
	uint64_t rsp[3];
	uint8_t rest[TSS_BYTES - 28];
} __attribute__((packed));

extern struct gate idt[256];
extern uint64_t gdt[6 + 2 * CPUS_MAX];
extern uint32_t idt32_gp[2];
extern char vector_stubs[256][16], gdt_pointer[], idt_pointer[], gp32[], user_return[];

static struct tss segments[CPUS_MAX] __attribute__((aligned(128)));
/* Traps from user mode run here. */
static char trap_stacks[CPUS_MAX][4096] __attribute__((aligned(16)));

void trap(struct frame *frame);

void trap(struct frame *frame)
{
	struct cpu *cpu = this_cpu();

	if (frame->vector == VECTOR_WAKE || frame->vector == VECTOR_TICK) {
		*APIC_EOI = 0;
		cpu->wakes += frame->vector == VECTOR_WAKE;
		cpu->ticks += frame->vector == VECTOR_TICK;
		return;
	}
	if (frame->vector == VECTOR_NMI) {
		if (cpu->on_nmi)
			cpu->on_nmi();
		cpu->nmis++;
		return;
	}
	cpu->fault = (struct fault){ (int)frame->vector, frame->error, cr2_read(), frame->rip };
	if ((frame->cs & 3) == 3) {
		frame->cs = SEL_CODE64;
		frame->ss = SEL_DATA;
		frame->rip = (uint64_t)user_return;
		frame->rsp = cpu->user_rsp;
		frame->rflags = 2;
		return;
	}
	if (cpu->resume_rip) {
		frame->rip = cpu->resume_rip;
		frame->rsp = cpu->resume_rsp;
		cpu->resume_rip = 0;
		return;
	}
	give_up("CPU %u: exception %lu, error %lx, address %lx at %lx", cpu->id, frame->vector, frame->error,
		cr2_read(), frame->rip);
}

static void gate_set(unsigned int vector, uint8_t type)
{
	uint64_t stub = (uint64_t)vector_stubs[vector];

	idt[vector] = (struct gate){ .offset_low = (uint16_t)stub, .selector = SEL_CODE64, .type = type,
				     .offset_middle = (uint16_t)(stub >> 16), .offset_high = (uint32_t)(stub >> 32) };
}

void traps_init(struct cpu *cpu)
{
	struct tss *tss = &segments[cpu->id];
	uint64_t base = (uint64_t)tss;
	uint64_t *descriptor = gdt + SEL_TSS / 8 + 2 * cpu->id;

	if (cpu->id == 0) {
		for (unsigned int vector = 0; vector < 256; vector++)
			gate_set(vector, vector == VECTOR_USER ? GATE_USER : GATE_INTERRUPT);
		idt32_gp[0] = (uint32_t)SEL_CODE32 << 16 | ((uint32_t)(uint64_t)gp32 & 0xffff);
		idt32_gp[1] = ((uint32_t)(uint64_t)gp32 & 0xffff0000) | 0x8e00;
	}
	tss->rsp[0] = (uint64_t)trap_stacks[cpu->id + 1];
	descriptor[0] = (base & 0xffffff) << 16 | (base >> 24 & 0xff) << 56 | 0x89ul << 40 | (TSS_BYTES - 1);
	descriptor[1] = base >> 32;
	asm volatile("lgdt (%0); lidt (%1); ltr %w2"
		     : : "r"(gdt_pointer), "r"(idt_pointer), "r"(SEL_TSS + 16 * cpu->id) : "memory");
}
