/* SPDX-License-Identifier: GPL-2.0-only */
/* Single instructions, those that may fault among them. */
#ifndef GUEST_CPU_H
#define GUEST_CPU_H

#include "guest.h"

#define CR0_WP (1ul << 16)
#define CR0_PG (1ul << 31)
#define CR3_KEEP (1ul << 63)
#define CR4_TSD (1ul << 2)
#define CR4_PAE (1ul << 5)
#define CR4_PGE (1ul << 7)
#define CR4_LA57 (1ul << 12)
#define CR4_PCIDE (1ul << 17)
#define CR4_SMEP (1ul << 20)
#define CR4_SMAP (1ul << 21)
#define CR4_PKE (1ul << 22)
#define CR4_BASE (CR4_PAE | CR4_PGE)

#define MSR_APIC_BASE 0x1b
#define MSR_EFER 0xc0000080
#define MSR_GS_BASE 0xc0000101
#define MSR_ORACLE 0x400000f0
#define MSR_INSERT 0x400000f1

#define STRING_(x) #x
#define STRING(x) STRING_(x)

/* Executes an instruction that may fault, with operands after it. Value: the vector, or NO_FAULT. */
#define TRY(instruction, ...) ({ \
	struct cpu *cpu_ = this_cpu(); \
	cpu_->fault.vector = NO_FAULT; \
	asm volatile("movq $9f, %%gs:" STRING(CPU_RESUME_RIP) "\n\t" \
		     "movq %%rsp, %%gs:" STRING(CPU_RESUME_RSP) "\n\t" \
		     instruction "\n" \
		     "9:\tmovq $0, %%gs:" STRING(CPU_RESUME_RIP) \
		     __VA_ARGS__); \
	*(volatile int *)&cpu_->fault.vector; })

#define CR_ACCESS(n) \
static inline uint64_t cr##n##_read(void) \
{ \
	uint64_t value; \
	asm volatile("mov %%cr" #n ", %0" : "=r"(value) : : "memory"); \
	return value; \
} \
static inline void cr##n##_write(uint64_t value) { asm volatile("mov %0, %%cr" #n : : "r"(value) : "memory"); } \
static inline int cr##n##_try(uint64_t value) { return TRY("mov %0, %%cr" #n, : : "r"(value) : "memory"); }
CR_ACCESS(0)
CR_ACCESS(2)
CR_ACCESS(3)
CR_ACCESS(4)

struct invpcid_descriptor {
	uint64_t pcid, address;
} __attribute__((aligned(16)));

enum { INVPCID_ADDRESS, INVPCID_CONTEXT, INVPCID_ALL_GLOBAL, INVPCID_ALL };

static inline int invpcid_try(uint64_t type, const void *descriptor)
{
	return TRY("invpcid (%0), %1", : : "r"(descriptor), "r"(type) : "memory");
}

/* Bits of RAX of INVLPGB; ECX: pages that follow, and with STRIDE_2M how far apart. */
enum { BY_ADDRESS = 1, BY_PCID = 2, BY_ASID = 4, WITH_GLOBAL = 8, FINAL_ONLY = 16, NESTED_TOO = 32 };
#define STRIDE_2M (1u << 31)
#define INVLPGB_CODE ".byte 0x0f, 0x01, 0xfe"
#define TLBSYNC_CODE ".byte 0x0f, 0x01, 0xff"

static inline int invlpgb_try(uint64_t rax, uint32_t ecx, uint32_t edx)
{
	return TRY(INVLPGB_CODE, : : "a"(rax), "c"(ecx), "d"(edx) : "memory");
}

static inline void invlpgb(uint64_t rax, uint32_t ecx, uint64_t pcid)
{
	asm volatile(INVLPGB_CODE : : "a"(rax), "c"(ecx), "d"((uint32_t)pcid << 16) : "memory");
}

static inline int tlbsync_try(void) { return TRY(TLBSYNC_CODE, : : : "memory"); }
static inline void tlbsync(void) { asm volatile(TLBSYNC_CODE : : : "memory"); }

static inline void invlpg(uint64_t address) { asm volatile("invlpg (%0)" : : "r"(address) : "memory"); }

static inline uint64_t load(uint64_t address)
{
	uint64_t value;

	asm volatile("mov (%1), %0" : "=r"(value) : "r"(address) : "memory");
	return value;
}

static inline void store(uint64_t address, uint64_t value)
{
	asm volatile("mov %1, (%0)" : : "r"(address), "r"(value) : "memory");
}

static inline int load_try(uint64_t address, uint64_t *value)
{
	uint64_t read = 0;
	int vector = TRY("mov (%1), %0", : "+r"(read) : "r"(address) : "memory");

	*value = read;
	return vector;
}

static inline int store_try(uint64_t address, uint64_t value)
{
	return TRY("mov %1, (%0)", : : "r"(address), "r"(value) : "memory");
}

/* Calls code that changes RAX alone. */
static inline int exec_try(uint64_t address, uint64_t *value)
{
	uint64_t result = 0;
	int vector = TRY("call *%1", : "+a"(result) : "r"(address) : "memory");

	*value = result;
	return vector;
}

static inline void pause(void) { asm volatile("pause" : : : "memory"); }
static inline void stac(void) { asm volatile("stac" : : : "memory"); }
static inline void clac(void) { asm volatile("clac" : : : "memory"); }
static inline void outb(uint16_t port, uint8_t value) { asm volatile("outb %0, %1" : : "a"(value), "Nd"(port)); }
static inline void outw(uint16_t port, uint16_t value) { asm volatile("outw %0, %1" : : "a"(value), "Nd"(port)); }

static inline uint8_t inb(uint16_t port)
{
	uint8_t value;

	asm volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
	return value;
}

static inline uint32_t inl(uint16_t port)
{
	uint32_t value;

	asm volatile("inl %1, %0" : "=a"(value) : "Nd"(port));
	return value;
}

static inline uint64_t rdmsr(uint32_t msr)
{
	uint32_t low, high;

	asm volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr));
	return (uint64_t)high << 32 | low;
}

static inline void wrmsr(uint32_t msr, uint64_t value)
{
	asm volatile("wrmsr" : : "c"(msr), "a"((uint32_t)value), "d"((uint32_t)(value >> 32)) : "memory");
}

static inline int wrmsr_try(uint32_t msr, uint64_t value)
{
	return TRY("wrmsr", : : "c"(msr), "a"((uint32_t)value), "d"((uint32_t)(value >> 32)) : "memory");
}

static inline int rdmsr_try(uint32_t msr, uint64_t *value)
{
	uint32_t low = 0, high = 0;
	int vector = TRY("rdmsr", : "+a"(low), "+d"(high) : "c"(msr) : "memory");

	*value = (uint64_t)high << 32 | low;
	return vector;
}

struct cpuid {
	uint32_t a, b, c, d;
};

static inline struct cpuid cpuid(uint32_t leaf, uint32_t subleaf)
{
	struct cpuid id;

	asm volatile("cpuid" : "=a"(id.a), "=b"(id.b), "=c"(id.c), "=d"(id.d) : "a"(leaf), "c"(subleaf));
	return id;
}

static inline void wrpkru(uint32_t value) { asm volatile("wrpkru" : : "a"(value), "c"(0), "d"(0) : "memory"); }

static inline bool has_pcid(void) { return cpuid(1, 0).c >> 17 & 1; }
static inline bool has_invpcid(void) { return cpuid(7, 0).b >> 10 & 1; }
static inline bool has_invlpgb(void) { return cpuid(0x80000008, 0).b >> 3 & 1; }
/* The largest count that ECX may have. */
static inline uint32_t invlpgb_max(void) { return cpuid(0x80000008, 0).d & 0xffff; }
static inline bool has_smep(void) { return cpuid(7, 0).b >> 7 & 1; }
static inline bool has_smap(void) { return cpuid(7, 0).b >> 20 & 1; }
static inline bool has_pku(void) { return cpuid(7, 0).c >> 3 & 1; }
static inline bool has_la57(void) { return cpuid(7, 0).c >> 16 & 1; }
/* CR4 as rules find it, with PCIDE if there is one and it is wanted. */
static inline void pcid_switch(bool is_on)
{
	cr4_write(CR4_BASE | (is_on && has_pcid() ? CR4_PCIDE : 0));
}
static inline unsigned int physical_bits(void) { return cpuid(0x80000008, 0).a & 0xff; }

#endif
