// SPDX-License-Identifier: GPL-2.0-only
/* Tells the lab's counters by which functions CPUs flush that alone hold something. */

#include <linux/init.h>

#include "../ceasefire/counters.h"

static int __init abis_lab_init(void)
{
	ceasefire_count_flush("abis_flush_owed");
	ceasefire_count_request("__abis_hold_flush");
	return 0;
}
device_initcall(abis_lab_init);
