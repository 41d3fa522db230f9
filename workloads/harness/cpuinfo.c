// SPDX-License-Identifier: GPL-2.0-only
/* What the kernel shows of the first processor. */
#include <stdio.h>
#include <string.h>

#include "harness.h"

const char *cpu_flags(void)
{
	static char text[16384];
	static const char *known;
	char *flags, *end;

	/* Read once: what stands before it may have another length the next time. */
	if (known)
		return known;
	known = " ";
	if (file_read("/proc/cpuinfo", text, sizeof(text)) <= 0)
		return known;
	flags = strstr(text, "\nflags");
	flags = flags ? strchr(flags, ':') : NULL;
	if (!flags)
		return known;
	end = strchr(flags, '\n');
	if (end)
		strcpy(end, " ");
	known = flags + 1;
	return known;
}

bool cpu_has_flag(const char *word)
{
	char spaced[64];

	snprintf(spaced, sizeof(spaced), " %s ", word);
	return strstr(cpu_flags(), spaced) != NULL;
}
