/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A guest without an operating system that tries the machine's TLBs, rule by
 * rule. console.c speaks, traps.c catches, cpus.c starts and employs the CPUs,
 * tables.c builds address spaces, oracle.c asks, options.c reads the command line;
 * rules/ holds the rules, canary.c and fuzz.c the two long tests, main.c chooses.
 */
#ifndef GUEST_H
#define GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"

#define NO_FAULT (-1)
#define PAGE_BYTES 4096ul
#define PAGE_2M (1ul << 21)
#define PAGE_1G (1ul << 30)

enum vector { VECTOR_NMI = 2, VECTOR_UD = 6, VECTOR_GP = 13, VECTOR_PF = 14, VECTOR_USER = 0x80, VECTOR_WAKE = 0xf0,
	      VECTOR_TICK = 0xf1 };

/* Bits of a page fault's error code. */
enum { PF_P = 1, PF_W = 2, PF_U = 4, PF_RSVD = 8, PF_I = 16, PF_PK = 32 };

/* console.c */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A string in a buffer that the next call on this CPU overwrites. */
const char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool string_equal(const char *a, const char *b);
void power_off(void) __attribute__((noreturn));

/* traps.c */
struct fault {
	int vector;
	uint64_t error, address, rip;
};

struct jump {
	uint64_t registers[8];
};
int jump_save(struct jump *jump) __attribute__((returns_twice));
void jump_to(struct jump *jump, int value) __attribute__((noreturn));

struct cpu {
	struct cpu *self;
	/* Where a fault in the kernel goes on; 0: it is not expected. */
	uint64_t resume_rip, resume_rsp;
	uint64_t user_rsp, trip_rsp;
	unsigned int id;
	struct fault fault;
	/* Where an unexpected fault ends what this CPU does. */
	struct jump abort;
	const char *abort_reason;
	void (*on_nmi)(void);
	volatile uint64_t nmis;
	/* Interrupts of the vectors that mean nothing but that. */
	volatile uint64_t wakes, ticks;
	/* What the CPU is asked to do, and how often it was and has done it. */
	void (*job)(void *argument);
	void *argument;
	volatile uint64_t asked, done;
	/* Run instead of the idle loop by a CPU that comes from INIT. */
	void (*volatile on_start)(struct cpu *cpu);
	char text[160];
};

void traps_init(struct cpu *cpu);
/* Ends the rule (on an AP: its job) with a sentence. */
void give_up(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* cpus.c */
extern struct cpu cpus[CPUS_MAX];
extern unsigned int cpu_count;

static inline struct cpu *this_cpu(void)
{
	struct cpu *cpu;

	asm volatile("movq %%gs:0, %0" : "=r"(cpu));
	return cpu;
}

void cpus_start(void);
void cpu_kick(unsigned int id, uint32_t command);
/* One interrupt of the calling CPU's timer, soon. */
void cpu_tick(void);
/* INIT and start-up for one CPU; Return: whether it came back. */
bool cpu_restart(unsigned int id, void (*on_start)(struct cpu *cpu));
/* Run on one CPU and wait; a job that gave up makes the caller give up. */
void on_cpu(unsigned int id, void (*job)(void *argument), void *argument);
void on_cpu_begin(unsigned int id, void (*job)(void *argument), void *argument);
void on_cpu_end(unsigned int id);
/* On all CPUs at once, this one included. */
void on_all(void (*job)(void *argument), void *argument);
/* Paging, control registers and TLB as every rule finds them. */
void cpu_settle(void);
/* The same as a job. */
void settle_job(void *argument);
uint64_t now_us(void);
/* boot.S. Return: bit 0, CR0.PG could not be cleared; bit 1, CR4 was refused outside long mode. */
uint64_t legacy_trip(uint32_t cr4, uint32_t cr3);
/* A CPU on that trip stays outside long mode while `trip_hold` is set, and sets `trip_held` there. */
extern volatile uint32_t trip_hold, trip_held;

/* tables.c */
/* Bits of a paging-structure entry. */
#define P 1ul
#define W 2ul
#define U 4ul
#define A 32ul
#define D 64ul
#define PS 128ul
#define G 256ul
#define NX (1ul << 63)
#define KEY(n) ((uint64_t)(n) << 59)
#define FRAME_MASK 0x000ffffffffff000ul

extern uint64_t boot_pml4[512], boot_pml5[512], identity_pdpt[512];

void memory_reset(void);
uint64_t page_alloc(void);
/* A frame whose every 8 bytes are `canary`. */
uint64_t frame_alloc(uint64_t canary);
/* A free 2 MiB frame; only its first page and last page are filled. */
uint64_t frame_alloc_2m(uint64_t canary);
void frame_fill(uint64_t frame, uint64_t canary);
/* A four-level address space with the kernel and the user text in it. */
uint64_t space(void);
/* The entry for an address at a level (1: PTE); the tables above it are made, with U, W and A. */
volatile uint64_t *entry(uint64_t root, uint64_t address, unsigned int level);
volatile uint64_t *entry5(uint64_t root5, uint64_t address, unsigned int level);
void set_window(unsigned int index);
/* An address that no other rule uses; `offset` below 2^39. */
uint64_t window(uint64_t offset);

/* user mode */
#define USER_BASE 0x7f8000000000ul
#define USER_STACK (USER_BASE + 0x10000)
/* With which flags user mode begins; interrupts are off in them. */
extern uint64_t user_rflags;
uint64_t user_call(uint64_t rip, uint64_t rsp, uint64_t rdi, uint64_t rsi, uint64_t rdx);
/* Return: the vector, VECTOR_USER if the stub came to its end. */
int user_read(uint64_t address, uint64_t *value);
int user_write(uint64_t address, uint64_t value);
int user_exec(uint64_t address, uint64_t *value);
int user_invlpg(uint64_t address);
int user_invpcid(uint64_t type, const void *descriptor);
int user_invlpgb(uint64_t rax, uint32_t ecx);
int user_tlbsync(void);
/* Writes 1 to the second word at the address and stays in user mode until the first is not 0. */
int user_spin(uint64_t address);
void *memory_copy(void *to, const void *from, size_t bytes);

/* options.c: words of the command line */
void options_set(const char *text);
bool option(const char *name);
uint64_t option_number(const char *name, uint64_t otherwise);
/* Is the number in the word's list, as in "name=1,20-39"? */
bool option_lists(const char *name, uint64_t number);

/* splitmix64 */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15ul;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ul;
	x = (x ^ x >> 27) * 0x94d049bb133111ebul;
	return x ^ x >> 31;
}

#endif
