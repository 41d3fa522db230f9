/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of the workload "durable" share, and what it says to the host. */
#ifndef CEASEFIRE_DURABLE_H
#define CEASEFIRE_DURABLE_H

#include "workload.h"

#define MAPPINGS 2U
#define SLOTS_MAX 16U		/* one for each writer, the last for children */
#define SLOT_STRIDE 31U		/* words: they are spread over the page */
#define SPOT_PAGES 16U		/* that a writer visits */
#define TAIL_PAGES 64U		/* behind those that are checked: they come and go */
#define PROMISED_MAX 64U	/* pages of one record */

/* Each record is one write to the port, all in little endian. The host's reader: cli/tests/promises/records.rs. */
#define RECORD_MAGIC 0xcea5d15cU

enum record_kind {
	RECORD_EXTENTS = 1,	/* count times: page, pages (32 bits each), block (64 bits) */
	RECORD_PROMISE = 2,	/* count times slots: counters (32 bits) of the pages from `first` on */
	RECORD_DEEDS = 3,	/* count numbers (32 bits): how often each was done */
};

struct record {
	uint32_t magic, kind;
	uint32_t how;		/* RECORD_PROMISE: enum sync_call */
	uint32_t first, count, slots;
};

enum sync_call { MSYNC, FSYNC, FDATASYNC, SYNCFS, SYNC_CALLS };

/* What goes on beside; the host has their names. */
enum deed {
	PROTECT, MOVE, FORGET, FORK,			/* of mappings */
	TRUNCATE, PAGEOUT, RECLAIM, DROP, COMPACT, MIGRATE, START_WRITING,	/* of the file and its pages */
	DEEDS
};

extern struct durable {
	uint64_t pages;
	size_t bytes;
	int file, port;
	char *at[MAPPINGS], *spare, *tail;
	unsigned int writers, slots;
	unsigned int node_count, nodes[64];
	/* Of page and slot: what was written and has arrived. Shared with children. */
	_Atomic uint32_t (*counts)[SLOTS_MAX];
	_Atomic uint64_t spots[SLOTS_MAX];	/* where each writer is: the first page */
	_Atomic uint32_t deeds[DEEDS];
	_Atomic uint64_t promises;
	_Atomic bool stop;
} durable;

/* Raise the counter of that page and slot. What is read there must be what was written last. */
void durable_write(struct run *run, unsigned int mapping, uint64_t page, unsigned int slot);

/* Return: 0, or what workload_fail() gave. */
int durable_record(struct run *run, const struct record *record, const void *payload, size_t bytes);

/* durable_beside.c: one deed of either group. Each returns 0 or what workload_fail() gave. */
int durable_change_mappings(struct run *run, uint64_t *random);
int durable_change_file(struct run *run, uint64_t *random);

#endif
