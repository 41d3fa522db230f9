// SPDX-License-Identifier: GPL-2.0-only
/* Asks the oracle one question many times; the host's clock tells what one costs. */
#include "cpu.h"
#include "long.h"
#include "oracle.h"

void price(uint64_t questions)
{
	uint64_t holders = 0;

	for (uint64_t i = 0; i < questions; i++)
		holders |= oracle_holders(0, (uint64_t)&requests[0] + i % 64 * PAGE_BYTES, 1, LOOK_TLB | LOOK_STRUCTURES);
	say("price ok questions=%lu cpus=%u holders=%lx\n", questions, cpu_count, holders);
}
