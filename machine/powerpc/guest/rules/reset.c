// SPDX-License-Identifier: GPL-2.0-only
/* What a reset of the machine leaves. */
#include "rules.h"

#define MARK 0x5e5e715e

RULE(1001, "a reset empties the TLBs", "ours", ORACLE | RESET, "reset-keeps")
{
	volatile uint32_t *mark = (volatile uint32_t *)RESET_MARK;

	if (*mark != MARK) {
		page_stale(3, 0x123, BITS);
		page_stale_code(3, 0x124, BITS);
		*mark = MARK;
		say("resets\n");
		reset_all();
	}
	*mark = 0;
	CHECK(entries_at_start != NOT_COUNTED, "the oracle did not answer when the machine was back");
	CHECK(!entries_at_start, "%u entries", entries_at_start);
}
