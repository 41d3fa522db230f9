// SPDX-License-Identifier: GPL-2.0-only
/* Tells the lab's counters by which function flushes for some nodes are requested. */

#include <linux/init.h>

#include "../ceasefire/counters.h"

static int __init numapte_lab_init(void)
{
	ceasefire_count_request("flush_tlb_mm_nodes");
	return 0;
}
device_initcall(numapte_lab_init);
