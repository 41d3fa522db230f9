// SPDX-License-Identifier: GPL-2.0-only
/* Control registers: what may be written, what faults, what is read back. */
#include "rules.h"

RULE(101, "CPUID announces PCID and INVPCID", "SDM 2A CPUID 01H:ECX.17, 07H:EBX.10", PCID | INVPCID, "stock")
{
	CHECK(has_pcid(), "no PCID");
	CHECK(has_invpcid(), "no INVPCID");
}

RULE(102, "CR4.PCIDE is set in long mode while CR3[11:0] is 0", "SDM 3A 4.10.1", PCID, "stock")
{
	cpu_settle();
	EXPECT_OK(cr4_try(CR4_BASE | CR4_PCIDE));
	CHECK(cr4_read() & CR4_PCIDE, "CR4.PCIDE is not read back");
}

RULE(103, "CR4.PCIDE is not set while CR3[11:0] is not 0: #GP", "SDM 3A 4.10.1", PCID, "pcide-accepts-cr3")
{
	cpu_settle();
	/* PWT and PCD, bits 3 and 4, are the only low bits that mean something without PCIDE. */
	for (unsigned int bit = 0; bit < 12; bit++) {
		cr3_write((uint64_t)boot_pml4 | 1ul << bit);
		if (!(cr3_read() & 0xfff))
			continue;
		EXPECT_FAULT(VECTOR_GP, cr4_try(CR4_BASE | CR4_PCIDE));
		CHECK(!(cr4_read() & CR4_PCIDE), "CR4.PCIDE was set all the same");
	}
	cr3_write((uint64_t)boot_pml4);
	EXPECT_OK(cr4_try(CR4_BASE | CR4_PCIDE));
}

RULE(104, "CR4.PCIDE is not set outside long mode: #GP", "SDM 3A 4.10.1", PCID, "pcide-accepts-legacy-mode")
{
	cpu_settle();
	CHECK(legacy_trip(CR4_BASE | CR4_PCIDE, (uint32_t)(uint64_t)boot_pml4) == 2, "no #GP");
	CHECK(!(cr4_read() & CR4_PCIDE), "CR4.PCIDE was set all the same");
}

RULE(105, "CR4.PCIDE stays set while CR3[11:0] is not 0", "SDM 3A 4.10.1", PCID, "pcide-recheck")
{
	cr3_write((uint64_t)boot_pml4 | 5);
	EXPECT_OK(cr4_try(CR4_BASE | CR4_PCIDE));
	EXPECT_OK(cr4_try(CR4_BASE | CR4_PCIDE | CR4_TSD));
	EXPECT_OK(cr4_try(CR4_BASE));
	CHECK((cr3_read() & 0xfff) == 5, "CR3[11:0] changed");
}

RULE(106, "CR0.PG is not cleared while CR4.PCIDE is 1: #GP", "SDM 3A 4.10.1", PCID, "cr0-accepts-pg-clear")
{
	/* From compatibility mode: in 64-bit mode it faults anyway. */
	CHECK(legacy_trip(CR4_BASE, (uint32_t)(uint64_t)boot_pml4) == 1, "no #GP");
	CHECK(cr0_read() & CR0_PG, "CR0.PG was cleared all the same");
	CHECK(cr4_read() & CR4_PCIDE, "CR4 was loaded");
}

RULE(107, "a CR3 with a reserved bit from MAXPHYADDR to 62 is refused: #GP", "SDM 3A 4.10.4.1, 2B MOV CR", PCID,
     "cr3-accepts-reserved")
{
	uint64_t before = cr3_read();

	for (unsigned int bit = physical_bits(); bit < 63; bit++) {
		/* Linear address masking, where there is any, has 61 and 62. */
		if (bit >= 61 && cpuid(7, 1).a >> 26 & 1)
			continue;
		EXPECT_FAULT(VECTOR_GP, cr3_try((uint64_t)boot_pml4 | 1ul << bit));
		EXPECT_FAULT(VECTOR_GP, cr3_try((uint64_t)boot_pml4 | 1ul << bit | CR3_KEEP));
		CHECK(cr3_read() == before, "CR3 changed all the same");
	}
}

RULE(108, "bit 63 of CR3 is reserved while CR4.PCIDE is 0: #GP", "SDM 2B MOV CR", PCID, "cr3-accepts-keep")
{
	cpu_settle();
	EXPECT_FAULT(VECTOR_GP, cr3_try((uint64_t)boot_pml4 | CR3_KEEP));
	pcid_on();
	EXPECT_OK(cr3_try((uint64_t)boot_pml4 | CR3_KEEP));
}

RULE(109, "bit 63 of CR3 is not read back", "SDM 2B MOV CR", PCID, "cr3-returns-bit63")
{
	cr3_write((uint64_t)boot_pml4 | 7 | CR3_KEEP);
	CHECK(cr3_read() == ((uint64_t)boot_pml4 | 7), "CR3 reads %lx", cr3_read());
}

RULE(110, "CR3[11:0] is read back", "SDM 3A 4.10.1", PCID, "stock")
{
	for (uint64_t pcid = 0; pcid < 4096; pcid += 35) {
		cr3_write((uint64_t)boot_pml4 | pcid);
		CHECK(cr3_read() == ((uint64_t)boot_pml4 | pcid), "PCID %lx reads %lx", pcid, cr3_read());
	}
}

RULE(111, "a CR4 with a reserved bit is refused: #GP", "SDM 3A 2.5", 0, "cr4-accepts-reserved")
{
	for (unsigned int bit = 26; bit < 64; bit++)
		EXPECT_FAULT(VECTOR_GP, cr4_try(CR4_BASE | 1ul << bit));
	EXPECT_FAULT(VECTOR_GP, cr4_try(CR4_BASE | 1ul << 15));
	EXPECT_FAULT(VECTOR_GP, cr4_try(CR4_BASE | 1ul << 19));
	CHECK(cr4_read() == CR4_BASE, "CR4 changed all the same");
}

RULE(112, "CR4.PCIDE is reserved where CPUID has no PCID: #GP", "SDM 3A 2.5", NO_PCID, "pcide-ignores-cpuid")
{
	EXPECT_FAULT(VECTOR_GP, cr4_try(CR4_BASE | CR4_PCIDE));
	CHECK(cr4_read() == CR4_BASE, "CR4 changed all the same");
}

RULE(113, "INVPCID is no instruction where CPUID has none: #UD", "SDM 2A INVPCID", NO_PCID, "invpcid-ignores-cpuid")
{
	struct invpcid_descriptor descriptor = { 0, 0 };

	EXPECT_FAULT(VECTOR_UD, invpcid_try(INVPCID_ALL, &descriptor));
}

RULE(114, "CR4.PCIDE 1 to 0 is allowed with any PCID, and then CR3[11:0] is no PCID", "SDM 3A 4.10.1", PCID,
     "pcide-clear-keeps-tag")
{
	uint64_t root = space();
	struct page page;

	load_flush(root, 9);
	cr4_write(CR4_BASE);
	/* PCID 0 is the only one now. */
	page = page_stale(root, window(0), W | U | A | D);
	cr3_write(root);
	EXPECT_NEW(page);
	pcid_on();
	load_keep(root, 9);
	EXPECT_NEW(page);
}
