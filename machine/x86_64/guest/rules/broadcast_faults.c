// SPDX-License-Identifier: GPL-2.0-only
/* INVLPGB and TLBSYNC: where they are, and what they refuse. */
#include "crowd.h"

#define DOC "machine-broadcast.md Faults"
#define EFER_SVME (1ul << 12)

RULE(1905, "INVLPGB and TLBSYNC are no instructions where CPUID has none: #UD", DOC, NO_BROADCAST,
     "invlpgb-ignores-cpuid")
{
	CHECK(!has_invlpgb() && !invlpgb_max(), "CPUID has them");
	EXPECT_FAULT(VECTOR_UD, invlpgb_try(WITH_GLOBAL, 0, 0));
	EXPECT_FAULT(VECTOR_UD, tlbsync_try());
}

RULE(1906, "CPUID announces both and the largest count, which is not all ones; nothing for guests of a guest", DOC,
     BROADCAST, "invlpgb-announces-all")
{
	CHECK(has_invlpgb(), "the flag is not set");
	CHECK(invlpgb_max() == 7, "the largest count is %u", invlpgb_max());
	CHECK(!(cpuid(0x80000008, 0).b >> 21 & 1), "bit 21 of EBX is set");
	EXPECT_OK(invlpgb_try(WITH_GLOBAL, 0, 0));
	EXPECT_OK(tlbsync_try());
}

RULE(1907, "INVLPGB and TLBSYNC in user mode: #GP, and nothing is dropped", DOC, PCID | BROADCAST,
     "invlpgb-accepts-user")
{
	crowd_usual();
	EXPECT_FAULT(VECTOR_GP, user_invlpgb(WITH_GLOBAL, 0));
	EXPECT_FAULT(VECTOR_GP, user_invlpgb(BY_ADDRESS | CROWD_PAGE, 1));
	EXPECT_FAULT(VECTOR_GP, user_tlbsync());
	EXPECT_CROWD("ooooo");
}

RULE(1908, "INVLPGB and TLBSYNC with a prefix 66, F2, F3 or LOCK: #UD", DOC, BROADCAST, "invlpgb-accepts-prefix")
{
#define EXPECT_NO_PREFIX(prefix) do { \
	EXPECT_FAULT(VECTOR_UD, TRY(".byte " prefix "\n\t" INVLPGB_CODE, : : "a"(8), "c"(0), "d"(0) : "memory")); \
	EXPECT_FAULT(VECTOR_UD, TRY(".byte " prefix "\n\t" TLBSYNC_CODE, : : : "memory")); \
} while (0)
	EXPECT_NO_PREFIX("0x66");
	EXPECT_NO_PREFIX("0xf2");
	EXPECT_NO_PREFIX("0xf3");
	EXPECT_NO_PREFIX("0xf0");
}

RULE(1909, "INVLPGB of more pages than CPUID allows: #GP, with an address or without", DOC, BROADCAST,
     "invlpgb-accepts-count")
{
	uint32_t max = invlpgb_max();

	for (uint32_t count = 0; count <= max; count++)
		EXPECT_OK(invlpgb_try(BY_ADDRESS | window(0), count, 0));
	EXPECT_OK(invlpgb_try(0, max, 0));
	for (uint32_t count = max + 1; count <= 0xffff; count = 2 * count + 1) {
		EXPECT_FAULT(VECTOR_GP, invlpgb_try(BY_ADDRESS | window(0), count, 0));
		EXPECT_FAULT(VECTOR_GP, invlpgb_try(0, count, 0));
	}
	EXPECT_FAULT(VECTOR_GP, invlpgb_try(BY_ADDRESS | window(0), (max + 1) | STRIDE_2M, 0));
}

RULE(1910, "INVLPGB of a PCID while CR4.PCIDE is 0: #GP, of PCID 0 as well", DOC, BROADCAST, "invlpgb-accepts-pcid")
{
	cpu_settle();
	EXPECT_FAULT(VECTOR_GP, invlpgb_try(BY_PCID, 0, 0));
	EXPECT_FAULT(VECTOR_GP, invlpgb_try(BY_PCID | BY_ADDRESS | window(0), 0, 1 << 16));
	EXPECT_OK(invlpgb_try(BY_ADDRESS | window(0), 0, 0));
	if (!has_pcid())
		return;
	pcid_on();
	EXPECT_OK(invlpgb_try(BY_PCID, 0, 0));
	EXPECT_OK(invlpgb_try(BY_PCID, 0, 0xfff << 16));
}

RULE(1911, "INVLPGB of an ASID other than 0 while EFER.SVME is 0: #GP", DOC, BROADCAST, "invlpgb-accepts-asid")
{
	uint64_t efer = rdmsr(MSR_EFER);

	EXPECT_OK(invlpgb_try(BY_ASID, 0, 0));
	for (unsigned int bit = 0; bit < 16; bit++)
		EXPECT_FAULT(VECTOR_GP, invlpgb_try(BY_ASID, 0, 1u << bit));
	wrmsr(MSR_EFER, efer | EFER_SVME);
	CHECK(rdmsr(MSR_EFER) & EFER_SVME, "there is no EFER.SVME");
	for (unsigned int bit = 0; bit < 16; bit++)
		EXPECT_OK(invlpgb_try(BY_ASID, 0, 1u << bit));
	wrmsr(MSR_EFER, efer);
	EXPECT_FAULT(VECTOR_GP, invlpgb_try(BY_ASID, 0, 1));
}

RULE(1912, "INVLPGB for guests of a guest, which is not offered: #GP", DOC, BROADCAST, "invlpgb-accepts-nested")
{
	EXPECT_FAULT(VECTOR_GP, invlpgb_try(NESTED_TOO, 0, 0));
	EXPECT_FAULT(VECTOR_GP, invlpgb_try(NESTED_TOO | BY_ASID | BY_ADDRESS | window(0), 0, 0));
}

RULE(1913, "INVLPGB with a reserved bit in EAX, ECX or EDX: #GP", DOC, BROADCAST, "invlpgb-accepts-reserved")
{
	for (unsigned int bit = 6; bit < 12; bit++)
		EXPECT_FAULT(VECTOR_GP, invlpgb_try(1u << bit, 0, 0));
	for (unsigned int bit = 16; bit < 31; bit++)
		EXPECT_FAULT(VECTOR_GP, invlpgb_try(0, 1u << bit, 0));
	for (unsigned int bit = 28; bit < 32; bit++)
		EXPECT_FAULT(VECTOR_GP, invlpgb_try(0, 0, 1u << bit));
	EXPECT_OK(invlpgb_try(BY_ADDRESS | WITH_GLOBAL | FINAL_ONLY | window(0), STRIDE_2M, 0));
}

RULE(1914, "INVLPGB ignores an address, a PCID and an ASID that do not count", DOC, PCID | BROADCAST,
     "invlpgb-rejects-ignored")
{
	crowd_usual();
	EXPECT_OK(invlpgb_try(BY_ADDRESS | CROWD_PAGE, 0, PCID_TOO << 16 | 0xffff));
	tlbsync();
	EXPECT_CROWD("nonoo");
	crowd_usual();
	EXPECT_OK(invlpgb_try(BY_PCID | 1ul << 62 | window(0), invlpgb_max() | STRIDE_2M, PCID_TOO << 16 | 1));
	tlbsync();
	EXPECT_CROWD("oonno");
}

RULE(1915, "a fault of INVLPGB drops nothing", DOC, PCID | BROADCAST, "invlpgb-accepts-count")
{
	crowd_usual();
	EXPECT_FAULT(VECTOR_GP, invlpgb_try(BY_ADDRESS | CROWD_PAGE, invlpgb_max() + 1, 0));
	EXPECT_FAULT(VECTOR_GP, invlpgb_try(WITH_GLOBAL | NESTED_TOO, 0, 0));
	EXPECT_FAULT(VECTOR_GP, invlpgb_try(WITH_GLOBAL, 0, 1u << 31));
	EXPECT_FAULT(VECTOR_GP, invlpgb_try(WITH_GLOBAL | BY_ASID, 0, 1));
	tlbsync();
	EXPECT_CROWD("ooooo");
}
