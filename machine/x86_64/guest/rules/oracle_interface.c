// SPDX-License-Identifier: GPL-2.0-only
/* The oracle's interface: how it is found, what it refuses. */
#include "oracle.h"
#include "rules.h"

#define DOC "machine-oracle.md"

RULE(1301, "CPUID announces the oracle and says what the machine is", DOC " Finding it", ORACLE, "stock")
{
	struct cpuid id = cpuid(0x40000100, 0);
	uint32_t expected;

	CHECK(cpuid(1, 0).c >> 31, "no hypervisor bit");
	CHECK(id.a == 0x40000101u + option("count") && id.b == 0x54424c54 && id.c == 0x4c54424c && id.d == 0x424c5442,
	      "leaf 40000100 is %x %x %x %x", id.a, id.b, id.c, id.d);
	id = cpuid(0x40000101, 0);
	expected = option("denied") | (uint32_t)option("psc") << 1 | (uint32_t)option("speculation") << 2 |
		   (uint32_t)has_pcid() << 3 | (uint32_t)option("insert") << 4 |
		   (uint32_t)(option("dirty") || option("denied")) << 5 | (uint32_t)option("nodes") << 6;
	CHECK(id.a == 4 && id.b == MSR_ORACLE && id.c == expected, "leaf 40000101 is %x %x %x", id.a, id.b, id.c);
	CHECK(option("entries") ? id.d == 64 : id.d >= 1536, "the TLB has %u entries", id.d);
}

RULE(1302, "RDMSR returns 0", DOC " Finding it", ORACLE, "oracle-reads-back")
{
	uint64_t value;

	oracle_ask(oracle_request(ORACLE_STATS));
	EXPECT_OK(rdmsr_try(MSR_ORACLE, &value));
	CHECK(value == 0, "it returned %lx", value);
}

RULE(1303, "a request that is not aligned to 128 or not in RAM: #GP", DOC " Finding it", ORACLE,
     "oracle-accepts-address")
{
	uint64_t request = (uint64_t)oracle_request(ORACLE_STATS);

	EXPECT_OK(wrmsr_try(MSR_ORACLE, request));
	for (unsigned int bit = 0; bit < 7; bit++)
		EXPECT_FAULT(VECTOR_GP, wrmsr_try(MSR_ORACLE, request + (1ul << bit)));
	EXPECT_FAULT(VECTOR_GP, wrmsr_try(MSR_ORACLE, 0xfee00000));
	EXPECT_FAULT(VECTOR_GP, wrmsr_try(MSR_ORACLE, 1ul << 39));
	EXPECT_FAULT(VECTOR_GP, wrmsr_try(MSR_ORACLE, 1ul << 51));
	EXPECT_FAULT(VECTOR_GP, wrmsr_try(MSR_ORACLE, ~127ul));
	EXPECT_OK(wrmsr_try(MSR_ORACLE, request));
}

RULE(1304, "without the oracle its MSR raises #GP, and CPUID does not announce it", DOC " Finding it", NO_ORACLE,
     "oracle-always")
{
	EXPECT_FAULT(VECTOR_GP, wrmsr_try(MSR_ORACLE, (uint64_t)oracle_request(ORACLE_STATS)));
	/* The leaf is there for the insertion, too. */
	if (cpuid(0x40000100, 0).b == 0x54424c54)
		CHECK(option("insert") && !cpuid(0x40000101, 0).b, "it is announced");
}

RULE(1305, "status 1: no such op", DOC " The request", ORACLE, "oracle-accepts-requests")
{
	EXPECT_STATUS(NO_SUCH_OP, 0, );
	EXPECT_STATUS(NO_SUCH_OP, 6, );
	EXPECT_STATUS(NO_SUCH_OP, ~0u, );
	for (uint32_t op = 1; op < 6; op++)
		if (op != ORACLE_ROOTS)
			EXPECT_STATUS(ANSWERED, op, );
}

RULE(1306, "status 2: flags, linear, pages, capacity or a reserved field out of range", DOC " The request", ORACLE,
     "oracle-accepts-requests")
{
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_QUERY, request->flags = 0);
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_QUERY, request->flags = 4 | LOOK_TLB);
	EXPECT_STATUS(ANSWERED, ORACLE_QUERY, request->flags = LOOK_STRUCTURES);
	EXPECT_STATUS(ANSWERED, ORACLE_QUERY, request->flags = LOOK_TLB | LOOK_STRUCTURES);
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_QUERY, request->pages = 0);
	EXPECT_STATUS(ANSWERED, ORACLE_QUERY, request->pages = 512);
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_QUERY, request->pages = 513);
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_QUERY, request->pages = ~0ul);
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_QUERY, request->linear = 1ul << 47);
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_QUERY, request->linear = 1ul << 63);
	EXPECT_STATUS(ANSWERED, ORACLE_QUERY, request->linear = ~0ul << 47);
	/* The last page there is, and one more. */
	EXPECT_STATUS(ANSWERED, ORACLE_QUERY, request->linear = ~0ul);
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_QUERY, request->linear = ~0ul; request->pages = 2);
	EXPECT_STATUS(ANSWERED, ORACLE_QUERY, request->linear = (1ul << 47) - 1);
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_QUERY, request->linear = (1ul << 47) - 1; request->pages = 2);
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_QUERY, request->capacity = 1);
	/* Fields that other questions have. */
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_QUERY, request->pcid = 1);
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_STATS, request->roots = 1);
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_CONTEXTS, request->pcid = 1u << 31);
	EXPECT_STATUS(OUT_OF_RANGE, ORACLE_NODES, request->nroots = 1);
}

RULE(1307, "status 3: a buffer that is not aligned to 8 or not in RAM", DOC " The request", ORACLE,
     "oracle-accepts-requests")
{
	uint64_t buffer = page_alloc();

	for (uint32_t op = 1; op < 4; op++) {
		EXPECT_STATUS(ANSWERED, op, request->buffer = buffer; request->capacity = 2);
		EXPECT_STATUS(BAD_BUFFER, op, request->buffer = buffer + 4; request->capacity = 2);
		EXPECT_STATUS(BAD_BUFFER, op, request->buffer = 0xfee00000; request->capacity = 2);
		EXPECT_STATUS(BAD_BUFFER, op, request->buffer = 1ul << 50; request->capacity = 2);
		EXPECT_STATUS(BAD_BUFFER, op, request->buffer = ~7ul; request->capacity = 2);
		/* It begins in RAM and ends outside. */
		EXPECT_STATUS(BAD_BUFFER, op, request->buffer = buffer; request->capacity = ~0u);
	}
}

RULE(1308, "status 4: no vCPU has this APIC ID", DOC " The request", ORACLE, "oracle-accepts-requests")
{
	for (uint32_t op = 1; op < 4; op++) {
		EXPECT_STATUS(ANSWERED, op, request->apic_id = cpu_count - 1);
		EXPECT_STATUS(NO_SUCH_CPU, op, request->apic_id = CPUS_MAX + 1);
		EXPECT_STATUS(NO_SUCH_CPU, op, request->apic_id = 0xfffffffe);
	}
}
