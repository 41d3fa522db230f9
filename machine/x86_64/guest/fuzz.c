// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random values for control registers, INVPCID, INVLPGB and MSRs, on all CPUs at once. For CR0, CR3, CR4, both
 * instructions and the oracle's MSR a model of its own says which fault must come; any other MSR may take the value or raise #GP.
 */
#include "long.h"
#include "nodes.h"
#include "oracle.h"

#define CR0_KNOWN 0xe005003ful
#define CR0_PE 1ul
#define CR0_NW (1ul << 29)
#define CR0_CD (1ul << 30)
/* What the guest has without nodes: -m 2048. */
#define RAM_BYTES (1ul << 31)

static struct {
	/* RAM, below and above the hole for devices. */
	struct {
		uint64_t begin, end;
	} ram[2];
	uint64_t roots[4];
	uint64_t scratch[CPUS_MAX];
	uint64_t seed, steps, begin_us;
	uint64_t seconds;
	volatile bool is_over;
	volatile uint64_t done[CPUS_MAX], faults[CPUS_MAX];
} it;

static uint64_t random_bits(uint64_t *random)
{
	uint64_t r = random_next(random);

	switch (r % 8) {
	case 0:
		return random_next(random);
	case 1:
		return 1ul << (r >> 8 & 63);
	case 2:
		return (1ul << (r >> 8 & 63)) | (1ul << (r >> 16 & 63));
	case 3:
		return random_next(random) & 0xffffffff;
	case 4:
		return ~0ul << (r >> 8 & 63);
	default:
		return 0;
	}
}

static void expect_vector(const char *what, uint64_t value, uint64_t also, int got, int expected)
{
	if (got == expected) {
		it.faults[this_cpu()->id] += got != NO_FAULT;
		return;
	}
	it.is_over = true;
	give_up("%s of %lx (%lx): exception %d instead of %d (CR4 %lx, CR3 %lx, seed %lu, step %lu)", what, value, also, got,
		expected, cr4_read(), cr3_read(), it.seed, it.done[this_cpu()->id]);
}

/* SDM 2B, MOV to control registers, 64-bit mode; 3A 2.5. */
static int cr0_model(uint64_t value)
{
	bool is_bad = value >> 32 || !(value & CR0_PG) || !(value & CR0_PE) || ((value & CR0_NW) && !(value & CR0_CD));

	return is_bad ? VECTOR_GP : NO_FAULT;
}

static void cr0_step(uint64_t *random)
{
	uint64_t before = cr0_read(), value = before ^ random_bits(random);
	int expected = cr0_model(value), got = cr0_try(value);
	uint64_t now = cr0_read();

	cr0_write(before);
	expect_vector("MOV CR0", value, now, got, expected);
	if (got != NO_FAULT && now != before)
		expect_vector("CR0 after a fault", value, now, 1, 0);
	/* ET is always 1. */
	if (got == NO_FAULT && (now ^ value) & CR0_KNOWN & ~(1ul << 4))
		expect_vector("CR0 reads otherwise", value, now, 1, 0);
}

static int cr3_model(uint64_t value)
{
	uint64_t reserved = ((1ul << 63) - 1) & ~0ul << physical_bits();

	if (!(cr4_read() & CR4_PCIDE))
		reserved |= CR3_KEEP;
	return value & reserved ? VECTOR_GP : NO_FAULT;
}

static void cr3_step(uint64_t *random)
{
	uint64_t r = random_next(random);
	uint64_t root = it.roots[r & 3], before = cr3_read(), now, value;
	int expected, got;

	/* A root that leads somewhere, but for bits that must fault. */
	value = root | (r >> 8 & 0xfff);
	if (r >> 20 & 1)
		value |= random_bits(random) & (~0ul << physical_bits() | 0xfff);
	expected = cr3_model(value);
	got = cr3_try(value);
	now = cr3_read();
	expect_vector("MOV CR3", value, now, got, expected);
	if (now != (got == NO_FAULT ? value & ~CR3_KEEP : before))
		expect_vector("CR3 reads otherwise", value, now, 1, 0);
}

static uint64_t cr4_allowed(void)
{
	struct cpuid one = cpuid(1, 0), seven = cpuid(7, 0);
	uint64_t allowed = 0x7ff;

	allowed |= (uint64_t)(seven.c >> 2 & 1) << 11;		/* UMIP */
	allowed |= (uint64_t)(seven.c >> 16 & 1) << 12;		/* LA57 */
	allowed |= (uint64_t)(one.c >> 5 & 1) << 13;		/* VMXE */
	allowed |= (uint64_t)(one.c >> 6 & 1) << 14;		/* SMXE */
	allowed |= (uint64_t)(seven.b & 1) << 16;		/* FSGSBASE */
	allowed |= (uint64_t)(one.c >> 17 & 1) << 17;		/* PCIDE */
	allowed |= (uint64_t)(one.c >> 26 & 1) << 18;		/* OSXSAVE */
	allowed |= (uint64_t)(seven.c >> 23 & 1) << 19;		/* KL */
	allowed |= (uint64_t)(seven.b >> 7 & 1) << 20;		/* SMEP */
	allowed |= (uint64_t)(seven.b >> 20 & 1) << 21;		/* SMAP */
	allowed |= (uint64_t)(seven.c >> 3 & 1) << 22;		/* PKE */
	allowed |= (uint64_t)((seven.c >> 7 | seven.d >> 20) & 1) << 23;	/* CET */
	allowed |= (uint64_t)(seven.c >> 31 & 1) << 24;		/* PKS */
	allowed |= (uint64_t)(seven.d >> 5 & 1) << 25;		/* UINTR */
	return allowed;
}

static int cr4_model(uint64_t before, uint64_t value)
{
	if (value & ~cr4_allowed() || !(value & CR4_PAE) || (value ^ before) & CR4_LA57)
		return VECTOR_GP;
	if (value & ~before & CR4_PCIDE && cr3_read() & 0xfff)
		return VECTOR_GP;
	return NO_FAULT;
}

static void cr4_step(uint64_t *random)
{
	uint64_t before = cr4_read(), value = before ^ random_bits(random), now;
	int expected, got;

	if (random_next(random) % 2)
		value = before ^ (random_bits(random) & cr4_allowed());
	expected = cr4_model(before, value);
	got = cr4_try(value);
	now = cr4_read();
	expect_vector("MOV CR4", value, now, got, expected);
	if (now != (got == NO_FAULT ? value : before))
		expect_vector("CR4 reads otherwise", value, now, 1, 0);
	/* PCIDE and PGE may stay as they have become. */
	cr4_try((CR4_BASE & ~CR4_PGE) | (now & (CR4_PGE | CR4_PCIDE)));
}

static int invpcid_model(uint64_t type, const struct invpcid_descriptor *descriptor)
{
	bool is_pcide = cr4_read() & CR4_PCIDE;

	if (!has_invpcid())
		return VECTOR_UD;
	if (type > 3 || descriptor->pcid >> 12)
		return VECTOR_GP;
	if (type < 2 && !is_pcide && descriptor->pcid)
		return VECTOR_GP;
	if (type == 0 && (uint64_t)((int64_t)(descriptor->address << 16) >> 16) != descriptor->address)
		return VECTOR_GP;
	return NO_FAULT;
}

static void invpcid_step(uint64_t *random)
{
	struct invpcid_descriptor descriptor = { random_bits(random) >> (random_next(random) % 3 * 26),
						 random_bits(random) };
	uint64_t type = random_next(random) % 4 ? random_next(random) % 5 : random_bits(random);

	expect_vector("INVPCID", type, descriptor.pcid, invpcid_try(type, &descriptor), invpcid_model(type, &descriptor));
}

static int invlpgb_model(uint64_t rax, uint32_t ecx, uint32_t edx)
{
	if (!has_invlpgb())
		return VECTOR_UD;
	if (rax & 0xfe0 || ecx & 0x7fff0000 || edx >> 28 || (ecx & 0xffff) > invlpgb_max())
		return VECTOR_GP;
	if (rax & BY_PCID && !(cr4_read() & CR4_PCIDE))
		return VECTOR_GP;
	/* EFER.SVME is never set here. */
	return rax & BY_ASID && edx & 0xffff ? VECTOR_GP : NO_FAULT;
}

static void invlpgb_step(uint64_t *random)
{
	uint64_t r = random_next(random), rax = random_bits(random);
	uint32_t ecx = (uint32_t)(r & 7), edx = (uint32_t)(r >> 3 & 0xf) << 16;

	/* Mostly right but for one thing. */
	rax = r >> 8 & 3 ? (rax & ~0xfe0ul) : rax;
	if (!(r >> 10 & 3))
		ecx = (uint32_t)random_bits(random);
	if (!(r >> 12 & 3))
		edx = (uint32_t)random_bits(random);
	expect_vector("INVLPGB", rax, (uint64_t)edx << 32 | ecx, invlpgb_try(rax, ecx, edx), invlpgb_model(rax, ecx, edx));
	if (r >> 14 & 1)
		expect_vector("TLBSYNC", 0, 0, tlbsync_try(), has_invlpgb() ? NO_FAULT : VECTOR_UD);
}

static bool is_ram(uint64_t address, uint64_t bytes)
{
	for (unsigned int i = 0; i < 2; i++)
		if (address >= it.ram[i].begin && address < it.ram[i].end && bytes <= it.ram[i].end - address)
			return true;
	return !bytes;
}

static bool is_canonical(uint64_t address)
{
	return (uint64_t)((int64_t)(address << 16) >> 16) == address;
}

/* Flags, range, roots and PCID. */
static bool is_in_range(const struct tlb_request *request)
{
	uint64_t last = request->linear + (request->pages - 1) * PAGE_BYTES;
	bool has_range = request->pages && request->pages <= 512 && is_canonical(request->linear) && is_canonical(last) &&
			 !((request->linear ^ last) >> 63);

	switch (request->op) {
	case ORACLE_QUERY:
		return has_range && request->flags && request->flags < 4 && !request->pcid &&
		       (request->roots ? request->nroots >= 1 && request->nroots <= ROOTS_MAX : !request->nroots);
	case ORACLE_ROOTS:
		return (has_range || (!request->pages && !request->linear)) && request->flags & 7 && request->flags < 16 &&
		       request->pcid < (request->flags & LOOK_PCID ? 0x1000 : 1) && request->roots &&
		       request->nroots >= 1 && request->nroots <= ROOTS_MAX;
	default:
		return !request->roots && !request->nroots && !request->pcid;
	}
}

static bool has_root(const struct tlb_request *request)
{
	uint64_t all = 0;

	for (unsigned int i = 0; i < 4; i++)
		all |= request->root[i];
	for (unsigned int i = 0; i < request->nroots; i++)
		all |= ((const uint64_t *)request->roots)[i];
	return all & FRAME_MASK;
}

/* Before it is asked: answers may be written over the roots. */
static uint32_t request_model(const struct tlb_request *request)
{
	static const uint64_t sizes[] = { 0, sizeof(struct tlb_holder), 8, sizeof(struct tlb_context),
					  sizeof(struct tlb_holder), sizeof(struct tlb_node) };

	if (request->op < ORACLE_QUERY || request->op > ORACLE_NODES)
		return NO_SUCH_OP;
	if ((!request->buffer && request->capacity) || !is_in_range(request))
		return OUT_OF_RANGE;
	if (request->roots && (request->roots % 8 || !is_ram(request->roots, request->nroots * 8)))
		return BAD_BUFFER;
	if (request->op == ORACLE_ROOTS && !(request->flags & LOOK_PCID) && !has_root(request))
		return OUT_OF_RANGE;
	if (request->buffer &&
	    (request->buffer % 8 || !is_ram(request->buffer, sizes[request->op] * request->capacity)))
		return BAD_BUFFER;
	if (request->apic_id != ALL_CPUS && request->apic_id >= cpu_count)
		return NO_SUCH_CPU;
	return ANSWERED;
}

/* Anything but RAM that is not ours to be written. */
static uint64_t random_buffer(uint64_t *random)
{
	uint64_t r = random_next(random), scratch = it.scratch[this_cpu()->id];

	switch (r % 8) {
	case 0:
		return 0;
	case 1:
		return scratch + 4096 + (r >> 8 & 0xff);
	case 2:
		return it.ram[0].end + (random_next(random) << 3);
	case 3:
		return 0xfee00000 + (r >> 8 & 0xff8);
	default:
		return scratch + 4096 + (r >> 8 & 0xf8);
	}
}

/*
 * On both sides of where RAM ends and begins again. All CPUs write there, so none of them may have its roots there: the
 * model reads them before the machine does.
 */
static uint64_t random_edge(uint64_t *random)
{
	uint64_t r = random_next(random), edges[] = { it.ram[0].end, it.ram[1].begin, it.ram[1].end };

	return edges[r % 3] - 0x800 + (r >> 8 & 0xff8);
}

static void random_roots(struct tlb_request *request, uint64_t *random)
{
	uint64_t r = random_next(random), array = it.scratch[this_cpu()->id] + 32768;

	for (unsigned int i = 0; i < ROOTS_MAX; i++)
		((uint64_t *)array)[i] = random_next(random) % 16 || r & 3 ? 0 : it.roots[i % 4];
	request->roots = r >> 8 & 7 ? array + (r >> 12 & 7 ? 0 : r >> 16 & 0xff) : random_buffer(random);
	request->nroots = r >> 24 & 7 ? 1 + (r >> 28) % ROOTS_MAX : (uint32_t)random_bits(random);
	request->pcid = r >> 34 & 3 ? 0 : (uint32_t)random_bits(random);
	request->flags = r >> 36 & 7 ? 1 + (r >> 40) % 15 : request->flags;
	if (r >> 44 & 1)
		request->pages = request->linear = 0;
}

static void oracle_step(uint64_t *random)
{
	uint64_t r = random_next(random), address = it.scratch[this_cpu()->id] + (r >> 8 & 7) * 128;
	struct tlb_request *request = (struct tlb_request *)address, copy;
	int expected = option("oracle") ? NO_FAULT : VECTOR_GP, got;
	uint32_t status;

	*request = (struct tlb_request){
		.op = r >> 16 & 7 ? 1 + (r >> 20) % 5 : (uint32_t)random_bits(random),
		.status = 77, .flags = r >> 24 & 7 ? 1 + (r >> 28) % 3 : (uint32_t)random_bits(random),
		.apic_id = r >> 32 & 3 ? ALL_CPUS : (uint32_t)(r >> 36) % (cpu_count + 1),
		.linear = r >> 40 & 3 ? window(r & 0xffffff) : random_next(random) << (r >> 44 & 31),
		.pages = r >> 48 & 7 ? 1 + (r >> 50) % 512 : random_bits(random),
		.root = { r >> 52 & 1 ? it.roots[r & 3] : 0, r >> 53 & 1 ? random_bits(random) : 0 },
		.buffer = r >> 60 & 7 ? random_buffer(random) : random_edge(random),
		.capacity = r >> 54 & 7 ? (uint32_t)(r >> 57) % 100 : (uint32_t)random_bits(random),
	};
	if (request->op == ORACLE_ROOTS || r >> 58 & 1)
		random_roots(request, random);
	/* A large capacity in RAM would be a promise that the buffer cannot keep. */
	if (request->buffer && request->capacity > 1000 && is_ram(request->buffer, 1))
		request->capacity = 0xffffffff;
	if (r % 8 == 0) {
		address += 1 + (r >> 4) % 127;
		expected = VECTOR_GP;
	} else if (r % 8 == 1) {
		address = (it.ram[0].end + random_next(random) % (0xfffffffful - it.ram[0].end)) & ~127ul;
		if (r >> 4 & 1)
			address |= 1ul << (32 + (r >> 5) % 32);
		expected = VECTOR_GP;
	}
	copy = *request;
	status = request_model(&copy);
	got = wrmsr_try(MSR_ORACLE, address);
	expect_vector("WRMSR of the oracle", address, copy.op, got, expected);
	if (got == NO_FAULT && request->status != status)
		expect_vector("the oracle's status", request->status, status, 1, 0);
	if (got != NO_FAULT && request->status != 77)
		expect_vector("a status after a fault", request->status, 0, 1, 0);
}

static void insert_step(uint64_t *random)
{
	uint64_t r = random_next(random), request = r & 3 ? window(r >> 8 & 0x1ffffff) : random_bits(random), inserted = 0;
	uint64_t address = request & ~0xffful, pages = (request & 0xfff) + 1;
	bool is_valid = is_canonical(address) && (address >> 12 & 511) + pages <= 512;

	expect_vector("WRMSR of the insertion", request, 0, wrmsr_try(MSR_INSERT, request),
		      option("insert") && is_valid ? NO_FAULT : VECTOR_GP);
	expect_vector("RDMSR of the insertion", request, 0, rdmsr_try(MSR_INSERT, &inserted),
		      option("insert") ? NO_FAULT : VECTOR_GP);
	if (inserted > 512)
		give_up("%lu pages inserted", inserted);
}

static uint32_t random_msr(uint64_t *random)
{
	static const uint32_t known[] = {
		0x10, 0x3a, 0x3b, 0x48, 0x79, 0x8b, 0xfe, 0x10a, 0x10f, 0x122, 0x174, 0x175, 0x176, 0x179, 0x17a, 0x17b,
		0x198, 0x199, 0x1a0, 0x1d9, 0x200, 0x20f, 0x250, 0x258, 0x26f, 0x277, 0x2ff, 0x38f, 0x400, 0x403, 0x480,
		0x491, 0x560, 0x6a0, 0x6e0, 0x6e1, 0xda0, 0xc0000080, 0xc0000081, 0xc0000082, 0xc0000083, 0xc0000084,
		0xc0000100, 0xc0000102, 0xc0000103, 0xc0000104, 0xc0010114, 0xc0010117, 0x40000000, 0x40000001, 0x40000073,
		0x400000ef, 0x400000f1, 0x4b564d00,
	};
	static const uint32_t bases[] = { 0, 0xc0000000, 0xc0010000, 0x40000000, 0x800 };
	uint64_t r = random_next(random);

	if (r & 1)
		return known[(r >> 8) % (sizeof(known) / sizeof(known[0]))];
	if (r & 2)
		return bases[(r >> 8) % 5] + (uint32_t)(r >> 16 & 0x1ff);
	return (uint32_t)(r >> 32);
}

static void msr_step(uint64_t *random)
{
	uint32_t msr = random_msr(random);
	uint64_t before = 0, value = random_bits(random), efer = rdmsr(MSR_EFER), kept;
	int vector = rdmsr_try(msr, &before);

	if (vector != NO_FAULT && vector != VECTOR_GP)
		expect_vector("RDMSR", msr, 0, vector, VECTOR_GP);
	/* The APIC stays where it is, and GS is how a fault finds its CPU; the x2APIC's would send interrupts. */
	if (msr == MSR_APIC_BASE || msr == MSR_GS_BASE || (msr >= 0x800 && msr < 0x900) || msr == MSR_ORACLE)
		return;
	if (random_next(random) % 2)
		value ^= before;
	/* Long mode, and NX in the tables, must stay. */
	if (msr == MSR_EFER)
		value |= efer & 0xd00;
	vector = wrmsr_try(msr, value);
	if (vector != NO_FAULT && vector != VECTOR_GP)
		expect_vector("WRMSR", msr, value, vector, VECTOR_GP);
	if (rdmsr_try(msr, &kept) == NO_FAULT)
		wrmsr_try(msr, before);
	wrmsr(MSR_EFER, efer);
	it.faults[this_cpu()->id] += vector != NO_FAULT;
}

static void fuzz_job(void *argument)
{
	unsigned int id = this_cpu()->id;
	uint64_t random = it.seed * 64 + id;
	static void (*const steps[])(uint64_t *) = { cr0_step, cr3_step, cr3_step, cr4_step, cr4_step, invpcid_step,
						     invpcid_step, invlpgb_step, oracle_step, insert_step, msr_step };

	(void)argument;
	cr3_write(it.roots[0]);
	while (!it.is_over) {
		steps[random_next(&random) % (sizeof(steps) / sizeof(steps[0]))](&random);
		it.done[id]++;
		/* The machine still translates, in both modes. */
		if (it.done[id] % 16 == 0) {
			uint64_t value = 0;

			cr4_write(cr4_read() & ~CR4_SMAP);
			if (load(window(0)) != 1 || user_read(window(0), &value) != VECTOR_USER || value != 1)
				give_up("the page reads %lx", value);
		}
		if (it.done[id] % 64 == 0)
			pause();
		if (id == 0 && (it.seconds ? now_us() - it.begin_us > it.seconds * 1000000 : it.done[0] >= it.steps))
			it.is_over = true;
	}
	cpu_settle();
}

void fuzz(uint64_t steps, uint64_t seed)
{
	uint64_t done = 0, faults = 0;

	memory_reset();
	set_window(201);
	it.seed = seed;
	it.steps = steps;
	it.seconds = option_number("seconds", 0);
	it.begin_us = now_us();
	it.ram[0].begin = 0x100000;
	it.ram[0].end = it.ram[1].begin = it.ram[1].end = RAM_BYTES;
	if (option("nodes")) {
		map_above_hole();
		it.ram[0].end = HOLE_BEGIN;
		it.ram[1].begin = HOLE_END;
		it.ram[1].end = RAM_END;
	}
	for (unsigned int i = 0; i < 4; i++) {
		it.roots[i] = space();
		*entry(it.roots[i], window(0), 1) = frame_alloc(1) | P | W | U | A | D;
	}
	for (unsigned int id = 0; id < cpu_count; id++) {
		it.scratch[id] = frame_alloc_2m(0);
	}
	on_all(fuzz_job, NULL);
	for (unsigned int id = 0; id < cpu_count; id++) {
		done += it.done[id];
		faults += it.faults[id];
	}
	say("fuzz ok steps=%lu faults=%lu seed=%lu\n", done, faults, seed);
}
