/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef MM_CEASEFIRE_MACHINE_H
#define MM_CEASEFIRE_MACHINE_H

struct seq_file;

/* Statistics of the emulated TLBs as "name value" lines; none on other machines. */
void machine_show(struct seq_file *seq);

#endif
