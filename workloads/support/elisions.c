// SPDX-License-Identifier: GPL-2.0-only
/* See elisions.h. */
#include "support/elisions.h"

#include <stdio.h>
#include <unistd.h>

#include "support/system_files.h"

bool elisions_are_counted(void)
{
	return access(mechanism_counters(), R_OK) == 0;
}

uint64_t elisions_at(const char *site, const char *reason)
{
	char name[64];

	snprintf(name, sizeof(name), "%s_%s", site, reason);
	return file_row(mechanism_counters(), name);
}

uint64_t elisions_all(void)
{
	static const char *const sites[] = { "zap", "reclaim", "migrate", "protect", "remap", "clear_flush" };
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof(sites) / sizeof(*sites); i++)
		sum += elisions_at(sites[i], "idle") + elisions_at(sites[i], "uncached");
	return sum;
}
