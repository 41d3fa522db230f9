/* SPDX-License-Identifier: GPL-2.0-only */
/* What the harness's own files share. A workload includes workload.h alone. */
#ifndef CEASEFIRE_HARNESS_H
#define CEASEFIRE_HARNESS_H

#include <sys/types.h>

#include "workload.h"

/* The exit codes of every Ceasefire program. */
enum { EXIT_PASS = 0, EXIT_FAIL = 1, EXIT_USAGE = 2, EXIT_SKIP = 4 };

#define EXTRAS_MAX 32
#define OPTIONS_MAX 16

/* Names and order of the protocol's counters. */
enum counter {
	REQUESTED,
	SENT,
	RECEIVED,
	RECEIVED_IRQ,
	KERNEL_SENT,
	KERNEL_RECEIVED,
	LOCAL_FULL,
	LOCAL_SINGLE,
	OTHER_IPIS,
	NEEDED,
	UNASKED,
	FAULTS,
	INSTRUCTIONS,
	/* From here on the machine counts, if it does. */
	WALKS,
	SPECULATIVE_WALKS,
	STRUCTURE_HITS,
	FILLS,
	EVICTIONS,
	ASSISTS_ACCESSED,
	ASSISTS_DIRTY,
	CR3_FLUSH,
	CR3_NOFLUSH,
	INVLPG,
	INVPCID,
	FLUSH_ALL,
	IPIS,
	IPI_TARGETS,
	INSERTS,
	INSERT_OPS,
	USER_INTERRUPTS,
	INVLPGB,
	INVLPGB_ALL,
	TLBSYNC,
	BROADCAST_TARGETS,
	BROADCAST_HITS,
	/* What walks read, where there are several NUMA nodes: of all levels, and of the page tables that map pages. */
	READS_LOCAL,
	READS_REMOTE,
	READS_LOCAL_LEAF,
	READS_REMOTE_LEAF,
	READS_LOCAL_USER,
	READS_REMOTE_USER,
	/* Of the kernel, where the machine tells them apart; in the order of its CPUID leaf. */
	KERNEL_INSTRUCTIONS,
	SPIN_INSTRUCTIONS,
	HANDLER_INSTRUCTIONS,
	TIMER_INSTRUCTIONS,
	COUNTERS
};

/* A value of -1 is "cannot be measured here" (null in the protocol). */
struct sample {
	int64_t value[COUNTERS];
};

#define MECHANISMS_MAX 16
#define PAIRS_MAX 256

struct pair {
	char name[40];
	uint64_t value;
};

/* What one mechanism counted in one repeat; not there in a kernel without it. */
struct counted {
	bool is_there;
	unsigned int pairs;
	struct pair pair[PAIRS_MAX];
};

struct extra {
	char key[48];
	double value;
};

/* One repeat, in memory shared by the harness and the repeat's own process. */
struct outcome {
	struct run run;
	bool is_complete;
	struct sample counted;
	uint64_t duration_ns;
	unsigned int extras;
	struct extra extra[EXTRAS_MAX];
	struct counted mechanism[MECHANISMS_MAX];
};

/* arguments.c */
struct arguments {
	const struct workload *workload;
	unsigned int threads, repeats;
	uint64_t seed, units;
	bool cost;
};

int arguments_parse(struct arguments *arguments, int argc, char **argv);
void arguments_usage(void);
int arguments_mechanism(const char *spec);

/* options.c: --set KEY=VALUE */
int option_set(const char *text);
/* The first option given that the workload never asked for, or NULL. */
const char *option_unused(void);
/* What it did ask for, comma-separated; "" if nothing. */
const char *options_known(void);
int options_init(void);

/* registry.c */
extern const struct workload *const __start_workloads[];
extern const struct workload *const __stop_workloads[];
const struct workload *workload_find(const char *name);
void workload_print_nearest(const char *name);
void workload_print_list(void);
/* Name order, so that a listing does not depend on the linker. */
size_t workload_sorted(const struct workload **out, size_t max);

/* ticks.c */
/* Before anything is measured. */
void ticks_open(void);
/* Where an instruction takes a nanosecond of the machine's time: how many fit so many of cpu_ticks(). -1: nobody knows. */
double ticks_instructions(uint64_t ticks);

/* counters.c */
int counters_open(bool cost);
void counters_close(void);
bool counters_in_kernel(void);
/* What all CPUs have received since the boot, by the interrupt row; -1 where there is none. */
int64_t counters_received_irq(void);
void counters_begin(struct sample *sample);
/* The rest of it, to be read last: reading it disturbs itself least. */
void counters_begin_nearest(struct sample *sample);
void counters_end(struct sample *sample);
void counters_subtract(struct sample *end, const struct sample *begin);
extern const char *const counter_names[COUNTERS];

/* mechanism.c */
/* One more, as the lab describes it; the text must stay. Return: 0, or -errno for one that means nothing. */
int mechanism_add(const char *spec);
unsigned int mechanisms_count(void);
const char *mechanism_name(unsigned int index);
/* What their switches say, joined by "+"; "" in a kernel without any. */
void mechanisms_mode(char *mode, size_t size);
/* How long a process with so many threads must have sent shootdowns before it is measured; or 0. */
unsigned long mechanisms_warm_up_ms(unsigned int threads);
/* The functions of their own by which CPUs are asked to flush. Return: false behind the last. */
bool mechanisms_flush_function(unsigned int index, char *name, size_t size);
void mechanisms_open(void);
void mechanisms_read(bool is_end);
/* To be called when nothing is measured any more. */
void mechanisms_subtract(struct counted counted[MECHANISMS_MAX]);

/* tracepoints.c: the generic source, by perf_event_open */
void tracepoints_open(void);
void tracepoints_close(void);
void tracepoints_read(struct sample *sample, bool is_end);

/* place.c */
/*
 * The directory in CEASEFIRE_FAKE_NODES, or NULL. A test puts nodes there, as in /sys/devices/system/node, with CPUs
 * numbered from 0: so many may be used, wherever the threads really run.
 */
const char *nodes_fake(void);
/* Return: a node; -1 if none has this CPU. */
int cpu_find_node(int cpu);
/* The same, but 0 for a CPU of no node. */
unsigned int cpu_node(int cpu);
/* Put these CPUs, the first of which stays, into the order that --set cpus= asks for. Return: 0, or as workload_fail(). */
int cpus_place(struct run *run, int *cpus, unsigned int count);

/* team.c */
int cpus_init(void);
unsigned int cpus_allowed(void);
/* Before any thread is started. */
int team_place(struct run *run);
int team_start(struct run *run);

/* warm_up.c: with the team, before setup, where a mechanism of this kernel wants it. */
int warm_up(struct run *run);

/* repeat.c */
int repeat_run(struct outcome *outcome, const struct arguments *arguments,
	       unsigned int repeat);

/* cpuinfo.c: the first processor's flags, between blanks; " " where it has none. */
const char *cpu_flags(void);
bool cpu_has_flag(const char *word);

/* protocol.c */
void protocol_string(const char *text);
void protocol_boot(void);
void protocol_run(const struct outcome *outcome);
void protocol_refusal(const char *kind, const char *workload, unsigned int threads,
		      const char *reason, const char *output);

#endif
