/* SPDX-License-Identifier: GPL-2.0-only */
/* What the engine needs from its host, here a hosted C11 compiler or a freestanding one. */
#ifndef ENGINE_DEPS_H
#define ENGINE_DEPS_H

#include <stdbool.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#endif
