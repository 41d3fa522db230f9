/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the application workloads share: a working directory, real programs as
 * children, deterministic input files. Functions returning int give 0, or a
 * negative errno after the reason was said with workload_skip() or
 * workload_fail().
 */
#ifndef CEASEFIRE_APP_H
#define CEASEFIRE_APP_H

#include <sys/types.h>

#include "workload.h"

#define APP_PATH_BYTES_MAX 128

/* A program to start. Null paths mean /dev/null. */
struct app_command {
	const char *const *argv;	/* argv[0]: absolute path */
	const char *input;
	const char *output;
	bool in_cgroup;			/* of pressure.h */
};

/*
 * Skip unless every file in workload->programs is there; then make an empty
 * working directory. app_end() removes it with all its files; calling it twice
 * does no harm.
 */
int app_begin(struct run *run);
void app_end(void);

/* The absolute path of a file in the working directory. */
void app_path(char path[APP_PATH_BYTES_MAX], const char *name);

/*
 * Start a child that may run on all CPUs of the team (the caller is pinned to
 * one). It gets SIGTERM if this process dies. Return: pid or -errno.
 */
pid_t app_start(struct run *run, const struct app_command *command);
/* Wait for its end; anything but exit code 0 fails the run. */
int app_wait(struct run *run, pid_t pid, const char *what);
/* SIGTERM, then wait. *pid becomes 0; does nothing when it is. */
void app_stop(pid_t *pid);
/* Whether the child ended by itself; its end is then collected, and *pid 0. */
bool app_is_gone(pid_t *pid);

/* Put text into a new file of the working directory. */
int app_write_text(struct run *run, const char *name, const char *text);
/* Lines of words as a natural text has them, the same for the same seed. */
int app_write_words(struct run *run, const char *name, uint64_t seed, uint64_t bytes);
/* Add the content and length of a file of the working directory to *sum. */
int app_checksum_file(struct run *run, const char *name, uint64_t *sum);

/* FNV-1a over bytes, eight at a time, the rest padded with zeros. */
uint64_t app_checksum_bytes(uint64_t sum, const void *bytes, size_t count);

#endif
