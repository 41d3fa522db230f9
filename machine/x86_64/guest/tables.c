// SPDX-License-Identifier: GPL-2.0-only
/* Frames, page tables, address spaces, and code for user mode. All memory is mapped one to one below 4 GiB. */
#include "cpu.h"

#define POOL_BEGIN (32ul << 20)
#define POOL_END (192ul << 20)
#define POOL_2M_BEGIN (192ul << 20)
#define POOL_2M_END (448ul << 20)
#define TABLE_FLAGS (P | W | U | A)
/* PML4 slots: 0 kernel, 1 to 250 windows, 255 user text. */
#define WINDOWS 250

extern char user_text[];

static uint64_t pool_next = POOL_BEGIN, pool_next_2m = POOL_2M_BEGIN;
static uint64_t user_pdpt;
static uint64_t window_base;

static uint64_t page_take(void)
{
	uint64_t page = __atomic_fetch_add(&pool_next, PAGE_BYTES, __ATOMIC_RELAXED);

	if (page >= POOL_END)
		give_up("out of memory");
	return page;
}

uint64_t page_alloc(void)
{
	uint64_t page = page_take();

	frame_fill(page, 0);
	return page;
}

void frame_fill(uint64_t frame, uint64_t canary)
{
	uint64_t count = 512;

	asm volatile("rep stosq" : "+D"(frame), "+c"(count) : "a"(canary) : "memory");
}

uint64_t frame_alloc(uint64_t canary)
{
	uint64_t frame = page_take();

	frame_fill(frame, canary);
	return frame;
}

uint64_t frame_alloc_2m(uint64_t canary)
{
	uint64_t frame = pool_next_2m;

	pool_next_2m += PAGE_2M;
	if (pool_next_2m > POOL_2M_END)
		give_up("out of large frames");
	frame_fill(frame, canary);
	frame_fill(frame + PAGE_2M - PAGE_BYTES, canary);
	return frame;
}

/* Stubs for user mode; position-independent, in a page of their own. */
asm(".pushsection .user, \"ax\"\n"
    ".globl stub_read, stub_write, stub_exec, stub_invlpg, stub_invpcid, stub_invlpgb, stub_tlbsync, stub_spin\n"
    "stub_read:	mov (%rdi), %rax; int $0x80\n"
    "stub_write:	mov %rsi, (%rdi); int $0x80\n"
    "stub_exec:	xorl %eax, %eax; call *%rdi; int $0x80\n"
    "stub_invlpg:	invlpg (%rdi); int $0x80\n"
    "stub_invpcid:	invpcid (%rdi), %rsi; int $0x80\n"
    "stub_invlpgb:	mov %rdi, %rax; mov %esi, %ecx; .byte 0x0f, 0x01, 0xfe; int $0x80\n"
    "stub_tlbsync:	.byte 0x0f, 0x01, 0xff; int $0x80\n"
    "stub_spin:	movq $1, 8(%rdi)\n"
    "1:	pause; mov (%rdi), %rax; test %rax, %rax; jz 1b; int $0x80\n"
    ".popsection");
extern char stub_read[], stub_write[], stub_exec[], stub_invlpg[], stub_invpcid[], stub_invlpgb[], stub_tlbsync[],
	stub_spin[];

void memory_reset(void)
{
	pool_next = POOL_BEGIN;
	pool_next_2m = POOL_2M_BEGIN;
	user_pdpt = 0;
}

static void user_make(void)
{
	uint64_t root = page_alloc();

	user_pdpt = 1;
	*entry(root, USER_BASE, 1) = (uint64_t)user_text | P | U | A | D;
	/* One stack page for each CPU. */
	for (unsigned int id = 0; id < CPUS_MAX; id++)
		*entry(root, USER_STACK + id * PAGE_BYTES, 1) = page_alloc() | P | W | U | A | D | NX;
	user_pdpt = ((uint64_t *)root)[USER_BASE >> 39 & 511];
}

uint64_t space(void)
{
	uint64_t root = page_alloc();

	if (!user_pdpt)
		user_make();
	((uint64_t *)root)[0] = boot_pml4[0];
	((uint64_t *)root)[USER_BASE >> 39 & 511] = user_pdpt;
	return root;
}

static volatile uint64_t *descend(uint64_t table, unsigned int top, uint64_t address, unsigned int level)
{
	for (;;) {
		volatile uint64_t *slot = (uint64_t *)table + (address >> (3 + 9 * top) & 511);

		if (top == level)
			return slot;
		if (!(*slot & P))
			*slot = page_alloc() | TABLE_FLAGS;
		table = *slot & FRAME_MASK;
		top--;
	}
}

volatile uint64_t *entry(uint64_t root, uint64_t address, unsigned int level)
{
	return descend(root, 4, address, level);
}

volatile uint64_t *entry5(uint64_t root5, uint64_t address, unsigned int level)
{
	return descend(root5, 5, address, level);
}

void set_window(unsigned int index)
{
	window_base = (uint64_t)(1 + index % WINDOWS) << 39;
}

uint64_t window(uint64_t offset)
{
	return window_base + offset;
}

static int user_run(const char *stub, uint64_t rdi, uint64_t rsi, uint64_t *result)
{
	struct cpu *cpu = this_cpu();
	uint64_t rip = USER_BASE + (uint64_t)(stub - user_text);
	uint64_t value = user_call(rip, USER_STACK + (cpu->id + 1) * PAGE_BYTES, rdi, rsi, 0);

	if (result)
		*result = value;
	return *(volatile int *)&cpu->fault.vector;
}

int user_read(uint64_t address, uint64_t *value)
{
	return user_run(stub_read, address, 0, value);
}

int user_write(uint64_t address, uint64_t value)
{
	return user_run(stub_write, address, value, NULL);
}

int user_exec(uint64_t address, uint64_t *value)
{
	return user_run(stub_exec, address, 0, value);
}

int user_invlpg(uint64_t address)
{
	return user_run(stub_invlpg, address, 0, NULL);
}

int user_invpcid(uint64_t type, const void *descriptor)
{
	return user_run(stub_invpcid, (uint64_t)descriptor, type, NULL);
}

int user_invlpgb(uint64_t rax, uint32_t ecx)
{
	return user_run(stub_invlpgb, rax, ecx, NULL);
}

int user_tlbsync(void)
{
	return user_run(stub_tlbsync, 0, 0, NULL);
}

int user_spin(uint64_t address)
{
	return user_run(stub_spin, address, 0, NULL);
}
