// SPDX-License-Identifier: GPL-2.0-only
/*
 * A process with threads forks, as a database does for a snapshot. fork takes
 * write permission from every private page and flushes the whole address space
 * once, on every CPU that runs it. Then the parent's next write to its stack
 * copies a page, and flushes that.
 *
 * pages=N: the parent has N pages, which it has written and all its threads have
 * read, so fork copies their page tables, too. writer=child or writer=parent: that
 * process then writes them while both live, and each write copies a page. A write of
 * the parent flushes the page on every CPU that runs its address space, one of the
 * child on its own CPU only.
 *
 * Unit: a child forked and joined. Checksum: of the children's numbers and the
 * parent's pages.
 *
 * The system calls themselves: how many pages a library's fork() and waitpid()
 * write depends on where the program lies, which differs from boot to boot.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "workload.h"

#define PAGES_MAX (1UL << 17)

enum writer { WRITER_NONE, WRITER_CHILD, WRITER_PARENT, WRITERS };

static const char *const writer_names[WRITERS] = { "none", "child", "parent" };

static struct {
	uint64_t pages;
	enum writer writer;
	bool is_planted, is_apart;
	char *area;
	pid_t parent;
	int written[2];		/* writer=parent: a pipe, with a byte for each child whose pages are all written */
} family;

static volatile uint64_t *word(uint64_t page)
{
	return (volatile uint64_t *)(family.area + page * PAGE_BYTES);
}

/* What the parent has written there before it forks the child of that number. */
static uint64_t word_before(const struct run *run, uint64_t page, uint64_t child)
{
	return run->seed + page + (family.writer == WRITER_PARENT ? child << 32 : 0);
}

static void read_all(struct run *run, unsigned int index)
{
	(void)run;
	(void)index;
	for (uint64_t page = 0; page < family.pages; page++)
		(void)*word(page);
}

static int setup(struct run *run)
{
	const char *writer = option_text("writer", "none");

	family.pages = option_u64("pages", 0);
	while (family.writer < WRITERS && strcmp(writer, writer_names[family.writer]) != 0)
		family.writer++;
	family.is_planted = option_u64("plant", 0) != 0;
	family.is_apart = option_u64("apart", 0) != 0;
	if (family.writer == WRITERS)
		return workload_fail(run, "writer is none, child or parent, not %s", writer);
	if (family.pages > PAGES_MAX)
		return workload_fail(run, "pages is %llu, and must be 0 to %lu", (unsigned long long)family.pages,
				     PAGES_MAX);
	if (family.writer != WRITER_NONE && !family.pages)
		return workload_fail(run, "writer=%s needs pages to write: give pages=N, too", writer);
	if (family.is_planted && !family.pages)
		return workload_fail(run, "plant=1 needs a page to make wrong: give pages=N, too");
	if (family.writer == WRITER_PARENT && pipe(family.written))
		return workload_fail(run, "no pipe: %s", strerror(errno));
	family.parent = getpid();
	if (family.pages) {
		family.area = area_reserve(family.pages * PAGE_BYTES);
		if (!family.area || mprotect(family.area, family.pages * PAGE_BYTES, PROT_READ | PROT_WRITE))
			return workload_fail(run, "no memory for %llu pages", (unsigned long long)family.pages);
		for (uint64_t page = 0; page < family.pages; page++)
			*word(page) = word_before(run, page, 0);
		if (family.is_planted)
			*word(family.pages - 1) ^= 1;
		team_run(run, read_all);
	}
	return spinners_start(run);
}

/* Waits in the child until the parent has written all pages. Return: false if it never will. */
static bool parent_has_written(void)
{
	char byte;

	/* A parent that dies must leave no child behind that waits: not before this is said, nor after. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(family.written[1]);
	return getppid() == family.parent && read(family.written[0], &byte, 1) == 1;
}

/* Return: the child's exit code; 0 if it found in each page what was there when it was forked. */
static int live(const struct run *run, uint64_t child)
{
	/* Without a writer nothing can be wrong, and the child is to end at once. */
	if (family.writer == WRITER_NONE)
		return 0;
	if (family.writer == WRITER_PARENT && !parent_has_written())
		return 2;
	for (uint64_t page = 0; page < family.pages; page++) {
		if (*word(page) != word_before(run, page, child))
			return 1;
		if (family.writer == WRITER_CHILD)
			*word(page) = 0;
	}
	return 0;
}

static int parent_writes(struct run *run, uint64_t child)
{
	if (family.writer != WRITER_PARENT)
		return 0;
	for (uint64_t page = 0; page < family.pages; page++)
		*word(page) = word_before(run, page, child + 1);
	if (write(family.written[1], "", 1) != 1)
		return workload_fail(run, "the pipe to child %llu was refused: %s", (unsigned long long)child,
				     strerror(errno));
	return 0;
}

static int measure(struct run *run)
{
	uint64_t counted = 0;

	for (uint64_t i = 0; i < run->units; i++) {
		int status = 0;
		const uint64_t before = calls_count(run, family.is_apart);
		pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

		if (pid == 0)
			_exit(live(run, i));
		/* Where the child runs first, its life is part of it. */
		counted += calls_count(run, family.is_apart) - before;
		if (pid < 0)
			return workload_fail(run, "child %llu could not be started", (unsigned long long)i);
		/* The first failure is the one that is told; the child is joined all the same. */
		if (parent_writes(run, i))
			kill(pid, SIGKILL);
		if (syscall(SYS_wait4, pid, &status, 0, NULL) != pid || status)
			return workload_fail(run, "child %llu failed, or read a page that was not what it inherited",
					     (unsigned long long)i);
		run->checksum = checksum_add(run->checksum, i);
	}
	report_calls(run, "fork_instructions", counted, run->units);
	return 0;
}

/* No child has written the parent's pages. */
static int verify(struct run *run)
{
	for (uint64_t page = 0; page < family.pages; page++) {
		if (*word(page) != word_before(run, page, run->units))
			return workload_fail(run, "page %llu is not what the parent wrote", (unsigned long long)page);
		run->checksum = checksum_add(run->checksum, *word(page));
	}
	return 0;
}

static void teardown(struct run *run)
{
	spinners_stop(run);
	area_release(family.area, family.pages * PAGE_BYTES);
}

WORKLOAD(fork_children) = {
	.name = "fork",
	.group = "micro",
	.unit = "child forked and joined",
	.about = "Forks a child that ends at once while every other thread spins: fork flushes the whole address space, "
		 "whoever holds what. With --set pages=N --set writer=child (or parent), that process writes N pages, which "
		 "copies them. --set apart=1 counts fork in the parent alone, too, with --cost.",
	.units = 200,
	.threads_min = 1,
	.setup = setup,
	.measure = measure,
	.verify = verify,
	.teardown = teardown,
};
