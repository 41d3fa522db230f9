/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_TOY_H
#define _LINUX_TOY_H

#ifdef CONFIG_TOY
void toy_count_flush(void);
#else
static inline void toy_count_flush(void) { }
#endif

#endif
