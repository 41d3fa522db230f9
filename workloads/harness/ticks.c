// SPDX-License-Identifier: GPL-2.0-only
/* From ticks of the processor's counter of time to instructions, where one takes a nanosecond of the machine's time. */
#include <dirent.h>
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"

/* x86's time stamp counter has a tick for each, then. 0: not known. */
static double instructions_per_tick = 1;

#if defined(__powerpc__)

#define CPUS_DIRECTORY "/proc/device-tree/cpus"

/* The firmware knows how often the timebase ticks; what the kernel says is what it measured. Return: Hz, or 0. */
static uint32_t timebase_frequency(void)
{
	DIR *directory = opendir(CPUS_DIRECTORY);
	struct dirent *entry;
	uint32_t frequency = 0;

	while (directory && !frequency && (entry = readdir(directory))) {
		char path[320], raw[sizeof(frequency) + 1];

		snprintf(path, sizeof(path), CPUS_DIRECTORY "/%s/timebase-frequency", entry->d_name);
		if (entry->d_name[0] != '.' && file_read(path, raw, sizeof(raw)) == (ssize_t)sizeof(frequency))
			memcpy(&frequency, raw, sizeof(frequency));
	}
	if (directory)
		closedir(directory);
	return be32toh(frequency);
}

void ticks_open(void)
{
	const uint32_t frequency = timebase_frequency();

	instructions_per_tick = frequency ? 1e9 / frequency : 0;
}

#else

void ticks_open(void)
{
}

#endif

double ticks_instructions(uint64_t ticks)
{
	return instructions_per_tick > 0 ? (double)ticks * instructions_per_tick : -1;
}
