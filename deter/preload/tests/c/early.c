/* SPDX-License-Identifier: GPL-2.0-only */
/* A library whose constructor runs before the preload library's. */
#include "facts.h"

__attribute__((constructor(101))) static void early(void)
{
	char *const at = plain(16);

	fprintf(stderr, "early %s\n", dropped_as(at, 16));
	munmap(at, 16 * PAGE);
}
