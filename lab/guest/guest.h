/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guest's PID 1, in four parts: mounts.c prepares the system, port.c speaks
 * to the host, jobs.c runs what /job asks for, shell.c is for people.
 */
#ifndef CEASEFIRE_GUEST_H
#define CEASEFIRE_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINE_BYTES_MAX 65536
/* What the user takes along. */
#define USERS_DIRECTORY "/work"

/* mounts.c. What is missing is said to the host and costs the workloads that need it, not the boot. */
void mounts_make(void);
void ext2_make(void);
void ext4_make(void);
void disk_mount(void);
void loopback_up(void);

/* port.c */
struct tally {
	unsigned int runs, skips, fails;
};

/* Find the verdict port; without one the console has to do. */
void port_open(void);
/* Keep lines back until port_release(). */
void port_hold(void);
void port_release(void);
/* One line of a child, without its newline: forwarded if it is protocol, else as a log line. */
void port_forward(const char *line);
void port_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
void port_refusal(const char *kind, const char *workload, unsigned int threads, const char *reason);
/* Begin and end of one of the kernel's own tests; `exit_code` and `signal` are -1 where there is none. */
void port_selftest_begin(const char *name);
void port_selftest_text(const char *line);
void port_selftest_end(const char *name, int exit_code, int signal, bool timed_out, int64_t ms);
void port_verdict(bool all_jobs_done);
/* What the observer has recorded, to the port that is made for it. Return: 0 or -errno. */
int port_send_record(const char *path);
struct tally port_tally(void);

/* jobs.c. Return: whether every line was understood and carried out. */
bool jobs_run(const char *path);
/* Does a line of the file count instructions? */
bool jobs_count_instructions(const char *path);
/* May a line of the file use /ext4? */
bool jobs_use_ext4(const char *path);
/* What its lines say of the kernel's mechanisms, for all that runs later. */
void jobs_mechanisms(const char *path);
/* Print the boot line, as the running system shows itself. */
void jobs_boot_line(void);

/* shell.c */
/* A shell on the console until it ends. */
void shell_interactive(void);
/* One command line, in the calling process. Return: its exit code. */
int shell_command(const char *text);
/* For the shell that the user takes along: the words of ours that it lacks, as programs. */
void shell_link_words(void);
/* The word that argv[0] names. Return: its exit code, or -1 if it names none. */
int shell_word(char **argv);

#endif
