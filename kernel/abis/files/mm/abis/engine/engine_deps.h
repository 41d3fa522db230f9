/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the engine needs of the kernel. */
#ifndef ENGINE_DEPS_H
#define ENGINE_DEPS_H

#include <linux/types.h>

#endif
