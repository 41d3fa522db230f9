// SPDX-License-Identifier: GPL-2.0-only
/* Code: what the emulator has translated must follow what the TLB says. */
#include "rules.h"

#define PAGE_FLAGS (W | U | A | D)

/* mov $imm32, %eax; ret */
static void stub_put(uint64_t address, uint32_t value)
{
	store(address, 0xb8ul | (uint64_t)value << 8 | 0xc3ul << 40);
}

static uint64_t run(uint64_t address)
{
	uint64_t value;

	EXPECT_OK(exec_try(address, &value));
	return value;
}

static struct page code_make(uint64_t root, uint64_t address)
{
	struct page page = page_make(root, address, PAGE_FLAGS);

	stub_put(page.old, 11);
	stub_put(page.new, 22);
	return page;
}

RULE(1201, "code is executed from where its cached translation points, until INVLPG", "SDM 3A 4.10.2.3, 4.10.4.1", 0,
     "invlpg-does-nothing")
{
	uint64_t root = space();
	struct page page = code_make(root, window(0)), other = code_make(root, window(PAGE_BYTES));

	cr3_write(root);
	for (unsigned int i = 0; i < 3; i++)
		CHECK(run(page.address) == 11, "other code was executed");
	page_repoint(&page);
	run(other.address);
	CHECK(run(page.address) == 11, "the translation was dropped");
	invlpg(page.address);
	CHECK(run(page.address) == 22, "the old code was executed after INVLPG");
}

RULE(1202, "code is executed from where the current PCID's translation points", "SDM 3A 4.10.1", PCID, "pcid-ignored")
{
	uint64_t root = space(), other = space();
	struct page page = code_make(root, window(0));

	*entry(other, window(0), 1) = page.new | page.flags;
	load_flush(other, 2);
	load_flush(root, 1);
	for (unsigned int i = 0; i < 50; i++) {
		load_keep(root, 1);
		CHECK(run(page.address) == 11, "PCID 1 executed the other's code in round %u", i);
		load_keep(other, 2);
		CHECK(run(page.address) == 22, "PCID 2 executed the other's code in round %u", i);
	}
}

RULE(1203, "the code of a PCID is kept across a load of CR3 without a flush", "SDM 3A 4.10.4.1", PCID,
     "noflush-flushes")
{
	uint64_t root = space();
	struct page page = code_make(root, window(0));

	load_flush(root, 1);
	CHECK(run(page.address) == 11, "other code was executed");
	page_repoint(&page);
	load_flush(root, 2);
	load_keep(root, 1);
	CHECK(run(page.address) == 11, "its translation was dropped");
	load_flush(root, 1);
	CHECK(run(page.address) == 22, "the old code was executed after a flush");
}

RULE(1204, "code that another PCID has written is executed as written", "SDM 3A 8.1.3, 11.6", PCID,
     "parked-keeps-dirty")
{
	uint64_t root = space(), writer = space();
	struct page page = code_make(root, window(0));
	uint64_t alias = window(PAGE_2M);

	*entry(writer, alias, 1) = page.old | page.flags;
	/* The writer's translation exists, and has written, before there is code to protect. */
	load_flush(writer, 2);
	store(alias + 64, 1);
	load_flush(root, 1);
	for (uint32_t i = 1; i < 50; i++) {
		load_keep(root, 1);
		run(page.address);
		load_keep(writer, 2);
		stub_put(alias, 1000 + i);
		load_keep(root, 1);
		CHECK(run(page.address) == 1000 + i, "what was written in round %u is not executed", i);
	}
}

RULE(1205, "code that user mode has written is executed by the kernel, and the other way round",
     "SDM 3A 8.1.3, 11.6", 0,
     "parked-keeps-dirty")
{
	uint64_t root = space(), value;
	struct page page = code_make(root, window(0));

	cr3_write(root);
	store(page.address + 64, 1);
	for (uint32_t i = 1; i < 20; i++) {
		run(page.address);
		EXPECT_FAULT(VECTOR_USER, user_write(page.address, 0xb8ul | (uint64_t)(1000 + i) << 8 | 0xc3ul << 40));
		CHECK(run(page.address) == 1000 + i, "what user mode wrote is not executed");
		stub_put(page.address, 2000 + i);
		EXPECT_FAULT(VECTOR_USER, user_exec(page.address, &value));
		CHECK(value == 2000 + i, "what the kernel wrote is not executed");
	}
}

static struct page shared;

static void other_write(void *argument)
{
	stub_put(shared.address, (uint32_t)(uint64_t)argument);
}

static void other_load(void *argument)
{
	cr3_write((uint64_t)argument);
}

RULE(1206, "code that another CPU has written is executed as written", "SDM 3A 8.1.3", CPUS2, "parked-keeps-dirty")
{
	uint64_t root = space();

	shared = code_make(root, window(0));
	cr3_write(root);
	on_cpu(1, other_load, (void *)root);
	on_cpu(1, other_write, (void *)7);
	for (uint64_t i = 1; i < 20; i++) {
		run(shared.address);
		on_cpu(1, other_write, (void *)(100 + i));
		CHECK(run(shared.address) == 100 + i, "what was written in round %lu is not executed", i);
	}
	on_cpu(1, other_load, boot_pml4);
}
