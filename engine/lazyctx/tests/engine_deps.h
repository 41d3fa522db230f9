/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#include <stdbool.h>
#include <stdint.h>

typedef uint32_t u32;
typedef uint64_t u64;
