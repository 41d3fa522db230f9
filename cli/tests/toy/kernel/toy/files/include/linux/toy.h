/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_TOY_H
#define _LINUX_TOY_H

void toy_count_flush(void);

#endif
