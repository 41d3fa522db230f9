// SPDX-License-Identifier: GPL-2.0-only
/* What the kernel shows of the first processor. */
#include <stdio.h>
#include <string.h>

#include "harness.h"

const char *cpu_flags(void)
{
	static char text[16384];
	char *flags, *end;

	if (file_read("/proc/cpuinfo", text, sizeof(text)) <= 0)
		return " ";
	flags = strstr(text, "\nflags");
	flags = flags ? strchr(flags, ':') : NULL;
	if (!flags)
		return " ";
	end = strchr(flags, '\n');
	if (end)
		strcpy(end, " ");
	return flags + 1;
}

bool cpu_has_flag(const char *word)
{
	char spaced[64];

	snprintf(spaced, sizeof(spaced), " %s ", word);
	return strstr(cpu_flags(), spaced) != NULL;
}
