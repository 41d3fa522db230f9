/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Nameless files with a known content, to be mapped. All makers return a file
 * descriptor, or a negative errno after the reason was said.
 */
#ifndef CEASEFIRE_MAPPED_FILE_H
#define CEASEFIRE_MAPPED_FILE_H

#include "workload.h"

#define PAGE_WORDS (PAGE_BYTES / sizeof(uint64_t))

/* In memory (tmpfs): never written back. */
int mapped_file_in_memory(struct run *run, uint64_t pages);

/*
 * On a file system that writes back, clean and out of the page cache. Where:
 * --set dir=PATH, else /ext2 (the lab's guest), else the current directory.
 */
int mapped_file_on_disk(struct run *run, uint64_t pages);

/* The same; also --set fs=ext4, the lab's /ext4, which not all kernels have. Without it, or with fs=ext2, as above. */
int mapped_file_on_chosen(struct run *run, uint64_t pages);

#endif
