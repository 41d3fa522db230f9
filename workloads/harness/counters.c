// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is counted around the measured part. Three sources: the kernel's own
 * file (the lab's kernels; it passes on what the emulated machine counts),
 * tracepoints (any kernel, as root), and the rows of /proc every kernel has.
 * What mechanisms count beside them is read with them (mechanism.c).
 * Files are opened and buffers touched beforehand, so that reading them maps,
 * unmaps and allocates nothing.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

#define KERNEL_COUNTERS "/sys/kernel/debug/ceasefire/counters"
#define KERNEL_ENABLED "/sys/kernel/debug/ceasefire/enabled"

const char *const counter_names[COUNTERS] = {
	[REQUESTED] = "requested",
	[SENT] = "sent",
	[RECEIVED] = "received",
	[RECEIVED_IRQ] = "received_irq",
	[KERNEL_SENT] = "kernel_sent",
	[KERNEL_RECEIVED] = "kernel_received",
	[LOCAL_FULL] = "local_full",
	[LOCAL_SINGLE] = "local_single",
	[OTHER_IPIS] = "other_ipis",
	[NEEDED] = "needed",
	[UNASKED] = "unasked",
	[FAULTS] = "faults",
	[INSTRUCTIONS] = "instructions",
	[WALKS] = "walks",
	[SPECULATIVE_WALKS] = "speculative_walks",
	[STRUCTURE_HITS] = "structure_hits",
	[FILLS] = "fills",
	[EVICTIONS] = "evictions",
	[ASSISTS_ACCESSED] = "assists_accessed",
	[ASSISTS_DIRTY] = "assists_dirty",
	[CR3_FLUSH] = "cr3_flush",
	[CR3_NOFLUSH] = "cr3_noflush",
	[INVLPG] = "invlpg",
	[INVPCID] = "invpcid",
	[FLUSH_ALL] = "flush_all",
	[IPIS] = "ipis",
	[IPI_TARGETS] = "ipi_targets",
	[INSERTS] = "inserts",
	[INSERT_OPS] = "insert_ops",
	[USER_INTERRUPTS] = "user_interrupts",
	[INVLPGB] = "invlpgb",
	[INVLPGB_ALL] = "invlpgb_all",
	[TLBSYNC] = "tlbsync",
	[BROADCAST_TARGETS] = "broadcast_targets",
	[BROADCAST_HITS] = "broadcast_hits",
	[READS_LOCAL] = "reads_local",
	[READS_REMOTE] = "reads_remote",
	[READS_LOCAL_LEAF] = "reads_local_leaf",
	[READS_REMOTE_LEAF] = "reads_remote_leaf",
	[READS_LOCAL_USER] = "reads_local_user",
	[READS_REMOTE_USER] = "reads_remote_user",
	[KERNEL_INSTRUCTIONS] = "kernel_instructions",
	[SPIN_INSTRUCTIONS] = "spin_instructions",
	[HANDLER_INSTRUCTIONS] = "handler_instructions",
	[TIMER_INSTRUCTIONS] = "timer_instructions",
};

/* /proc/interrupts of 256 CPUs: 11 characters each in some 80 rows. */
static char text[512 * 1024];
static int interrupts_fd = -1, vmstat_fd = -1, kernel_fd = -1;
static bool probes_switched_on;

static bool read_all(int fd)
{
	size_t length = 0;

	text[0] = '\0';
	if (fd < 0)
		return false;
	while (length < sizeof(text) - 1) {
		ssize_t got = pread(fd, text + length, sizeof(text) - 1 - length, (off_t)length);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		length += (size_t)got;
	}
	text[length] = '\0';
	return length > 0;
}

/* The line whose first word is `word`; what follows that word. */
static const char *after_word(const char *word)
{
	size_t length = strlen(word);

	for (const char *line = text; line && *line;) {
		while (*line == ' ')
			line++;
		if (strncmp(line, word, length) == 0 && isspace((unsigned char)line[length]))
			return line + length;
		line = strchr(line, '\n');
		if (line)
			line++;
	}
	return NULL;
}

static int64_t value_of(const char *word)
{
	const char *at = after_word(word);

	return at ? (int64_t)strtoull(at, NULL, 10) : -1;
}

static int64_t sum_of_row(const char *word)
{
	const char *at = after_word(word);
	int64_t sum = 0;

	if (!at)
		return -1;
	for (;;) {
		char *end;
		unsigned long long value;

		while (*at == ' ')
			at++;
		if (!isdigit((unsigned char)*at))
			return sum;
		value = strtoull(at, &end, 10);
		sum += (int64_t)value;
		at = end;
	}
}

struct word {
	const char *word;
	enum counter counter;
};

/* The probes' part of the kernel's file. */
static void read_probes(struct sample *sample)
{
	static const struct word words[] = {
		{ "requested", REQUESTED },
		{ "sent", SENT },
		{ "received", RECEIVED },
		{ "kernel_sent", KERNEL_SENT },
		{ "kernel_received", KERNEL_RECEIVED },
		{ "local_full", LOCAL_FULL },
		{ "local_single", LOCAL_SINGLE },
		{ "other_csd", OTHER_IPIS },
		{ "needed", NEEDED },
		{ "unasked", UNASKED },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		sample->value[words[i].counter] = value_of(words[i].word);
}

/* The machine has a word for each level of page tables. */
#define ALL_LEVELS(word, counter) \
	{ word "_1", counter }, { word "_2", counter }, { word "_3", counter }, \
	{ word "_4", counter }, { word "_5", counter }

/* The machine's part; what has several words is their sum. */
static void read_machine(struct sample *sample)
{
	static const struct word words[] = {
		{ "walks", WALKS },
		{ "speculative_walks", SPECULATIVE_WALKS },
		{ "structure_hits", STRUCTURE_HITS },
		{ "fills", FILLS },
		{ "evictions", EVICTIONS },
		{ "assists_accessed", ASSISTS_ACCESSED },
		{ "assists_dirty", ASSISTS_DIRTY },
		{ "cr3_flush", CR3_FLUSH },
		{ "cr3_noflush", CR3_NOFLUSH },
		{ "invlpg", INVLPG },
		{ "invpcid_address", INVPCID },
		{ "invpcid_context", INVPCID },
		{ "invpcid_all_global", INVPCID },
		{ "invpcid_all", INVPCID },
		{ "flush_all", FLUSH_ALL },
		{ "ipis_sent", IPIS },
		{ "ipi_targets", IPI_TARGETS },
		{ "inserts", INSERTS },
		{ "insert_ops", INSERT_OPS },
		{ "user_interrupts", USER_INTERRUPTS },
		{ "invlpgb", INVLPGB },
		{ "invlpgb_all", INVLPGB_ALL },
		{ "tlbsync", TLBSYNC },
		{ "broadcast_targets", BROADCAST_TARGETS },
		{ "broadcast_hits", BROADCAST_HITS },
		ALL_LEVELS("reads_local", READS_LOCAL),
		ALL_LEVELS("speculative_reads_local", READS_LOCAL),
		ALL_LEVELS("reads_remote", READS_REMOTE),
		ALL_LEVELS("speculative_reads_remote", READS_REMOTE),
		{ "reads_local_1", READS_LOCAL_LEAF },
		{ "speculative_reads_local_1", READS_LOCAL_LEAF },
		{ "reads_remote_1", READS_REMOTE_LEAF },
		{ "speculative_reads_remote_1", READS_REMOTE_LEAF },
		{ "lower_reads_local_1", READS_LOCAL_USER },
		{ "lower_reads_remote_1", READS_REMOTE_USER },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		int64_t *sum = &sample->value[words[i].counter];
		int64_t value = value_of(words[i].word);

		if (value >= 0)
			*sum = *sum < 0 ? value : *sum + value;
	}
}

static void read_kernel(struct sample *sample)
{
	if (kernel_fd < 0 || !read_all(kernel_fd))
		return;
	/* Probes that were not switched on have counted nothing, which is not zero. */
	if (probes_switched_on)
		read_probes(sample);
	read_machine(sample);
}

int64_t counters_received_irq(void)
{
	return read_all(interrupts_fd) ? sum_of_row("TLB:") : -1;
}

static int64_t rescheduled;

static void read_rows(struct sample *sample)
{
	rescheduled = -1;
	if (!read_all(interrupts_fd))
		return;
	sample->value[RECEIVED_IRQ] = sum_of_row("TLB:");
	rescheduled = sum_of_row("RES:");
}

static void read_faults(struct sample *sample)
{
	if (read_all(vmstat_fd))
		sample->value[FAULTS] = value_of("pgfault");
}

static void combine(struct sample *sample)
{
	/* A one-CPU kernel has no rescheduling row: nobody could be interrupted. */
	if (sample->value[OTHER_IPIS] >= 0 && rescheduled > 0)
		sample->value[OTHER_IPIS] += rescheduled;
}

static void clear(struct sample *sample)
{
	for (int i = 0; i < COUNTERS; i++)
		sample->value[i] = -1;
}

/*
 * Reading a file interrupts nobody, but walks page tables: the kernel's file is
 * read nearest to the measured part on both sides, the interrupt row next.
 */
void counters_begin(struct sample *sample)
{
	clear(sample);
	read_faults(sample);
	tracepoints_read(sample, false);
	mechanisms_read(false);
	read_rows(sample);
}

/* Asking needs no system call, so it is done nearest of all. */
static void read_instructions(struct sample *sample)
{
	for (int i = KERNEL_INSTRUCTIONS; i <= TIMER_INSTRUCTIONS; i++)
		sample->value[i] = cpu_kernel_instructions(i - KERNEL_INSTRUCTIONS);
}

void counters_begin_nearest(struct sample *sample)
{
	read_kernel(sample);
	combine(sample);
	read_instructions(sample);
}

void counters_end(struct sample *sample)
{
	clear(sample);
	read_instructions(sample);
	read_kernel(sample);
	read_rows(sample);
	mechanisms_read(true);
	tracepoints_read(sample, true);
	read_faults(sample);
	combine(sample);
}

void counters_subtract(struct sample *end, const struct sample *begin)
{
	for (int i = 0; i < COUNTERS; i++) {
		if (end->value[i] < 0 || begin->value[i] < 0)
			end->value[i] = -1;
		else
			end->value[i] -= begin->value[i];
	}
	/* Without a probe the interrupt row is all there is: said by kernel_received being null. */
	if (end->value[RECEIVED] < 0)
		end->value[RECEIVED] = end->value[RECEIVED_IRQ];
}

bool counters_in_kernel(void)
{
	return access(KERNEL_COUNTERS, R_OK) == 0;
}

/* Return: 0, or -errno if the kernel's counters are there and cannot be switched on: they would read as zeros. */
int counters_open(bool cost)
{
	int error;

	interrupts_fd = open("/proc/interrupts", O_RDONLY | O_CLOEXEC);
	vmstat_fd = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
	kernel_fd = open(KERNEL_COUNTERS, O_RDONLY | O_CLOEXEC);
	mechanisms_open();
	ticks_open();
	/* Probes cost instructions: a cost row does without them. What the machine counts costs none. */
	if (cost)
		return 0;
	if (kernel_fd < 0) {
		tracepoints_open();
		return 0;
	}
	error = file_write(KERNEL_ENABLED, "1\n");
	probes_switched_on = !error;
	return error;
}

void counters_close(void)
{
	if (probes_switched_on)
		file_write(KERNEL_ENABLED, "0\n");
	tracepoints_close();
}
