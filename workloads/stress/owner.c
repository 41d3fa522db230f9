// SPDX-License-Identifier: GPL-2.0-only
/*
 * A thread comes back to pages that it alone had touched, and that others have
 * taken away meanwhile.
 *
 * The owner writes (of a file: reads) a fresh block on its own CPU. Then it runs on, reads the
 * block, sleeps (a lazy CPU), leaves the CPU to another process, or moves to
 * another CPU; and it may come back early, in the middle of what follows. The
 * first thread takes the first half of the block away, the second one (with
 * three threads or more) the other half at the same time: by munmap, mprotect,
 * mremap, MADV_DONTNEED, migration, reclaim or a write through /proc/self/mem,
 * which copies a file's page. When both are done, the owner looks, from its own
 * CPU: a page must fault, be empty, or hold the newer word.
 *
 * A kernel that knows who alone may hold a page interrupts only that CPU, or
 * none at all if it runs something else: then that must be made up for when it
 * returns.
 *
 * --set hotplug=1: CPUs come and go meanwhile.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/mempolicy.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/checked_load.h"
#include "support/hotplug.h"
#include "support/pressure.h"
#include "support/regions.h"
#include "support/system_files.h"

#define HALF_PAGES 16UL
#define HALF_BYTES (HALF_PAGES * PAGE_BYTES)
#define BLOCK_PAGES (2 * HALF_PAGES)
#define SWAP_BYTES (32UL << 20)
#define NAP_NS 20000
#define PAGEMAP_PRESENT (1ULL << 63)
#define LEAVE UINT32_MAX
#define WRITTEN 0x0eULL
#define NEWER 0x0fULL

enum where { RUNS, READS, SLEEPS, AWAY, MOVED, WHERES };
enum taking { UNMAP, PROTECT, REMAP, DONTNEED, MIGRATE, PAGEOUT, COPY, TAKINGS };

/* In memory that the process which takes the CPU shares. Generations, and what goes with them. */
struct owner {
	_Alignas(64) _Atomic uint32_t order;	/* futex: write the block */
	_Atomic uint32_t ready;			/* it is written, and the owner is where it should be, or on its way */
	_Atomic uint32_t done;			/* futex: it is taken away */
	_Atomic uint32_t checked;
	enum where where;
	unsigned int moved_to;
	bool is_brief, is_early;
	int pid, away[2], back[2];		/* the process, and pipes to it and from it */
};

static struct {
	struct regions area, spare;
	struct owner *owners;		/* by thread */
	unsigned int first;		/* thread that is an owner */
	_Atomic uint32_t helper_order, helper_done;
	_Atomic uint32_t half_taken;	/* the first one */
	bool helper_waits;		/* until the first half is being taken */
	unsigned int block;		/* that is being taken */
	enum taking takings[2];
	const char *only[2];		/* or NULL: any */
	unsigned int node_count, nodes[NODES_MAX];
	bool has_swap;
	bool is_hotplugging;		/* no CPU is there for certain */
	int file, memory, pagemap;	/* what is copied; /proc/self/mem; /proc/self/pagemap */
	uint64_t random, places[WHERES];
} state;

static const char *const wheres[WHERES] = { "ran on", "read", "slept", "had left its CPU", "had moved" };
static const char *const takings[TAKINGS] = { "munmap", "mprotect", "mremap", "dontneed", "migrate", "reclaim", "copy" };

static uint64_t draw(uint64_t below)
{
	return random_next(&state.random) % below;
}

static volatile uint64_t *page_at(unsigned int block, uint64_t page)
{
	return (volatile uint64_t *)(region_at(&state.area, block) + page * PAGE_BYTES);
}

static uint64_t word_of(uint64_t kind, uint32_t generation, uint64_t page)
{
	return kind << 56 | (uint64_t)generation << 16 | page;
}

static void wait_for(_Atomic uint32_t *word, uint32_t value)
{
	while (atomic_load(word) != value)
		cpu_pause();
}

static void sleep_until(_Atomic uint32_t *word, uint32_t value)
{
	uint32_t seen;

	while ((seen = atomic_load(word)) != value)
		syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
}

static void set_and_wake(_Atomic uint32_t *word, uint32_t value)
{
	atomic_store(word, value);
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* The process that the owner leaves its CPU to */

static int take_cpu(void *argument)
{
	struct owner *owner = argument;
	uint32_t generation;

	while (read(owner->away[0], &generation, sizeof(generation)) == sizeof(generation)) {
		if (!owner->is_early)
			atomic_store(&owner->ready, generation);
		if (!owner->is_brief)
			wait_for(&owner->done, generation);
		if (write(owner->back[1], &generation, sizeof(generation)) != sizeof(generation))
			return 1;
	}
	return 1;
}

/* Owners */

static void go_away(struct run *run, struct owner *owner, uint32_t generation)
{
	uint32_t said;

	if (owner->is_early)
		atomic_store(&owner->ready, generation);
	if (write(owner->away[1], &generation, sizeof(generation)) != sizeof(generation) ||
	    read(owner->back[0], &said, sizeof(said)) != sizeof(said))
		workload_fail(run, "the process that takes the owner's CPU is gone");
}

/* Until a page is gone: each fault would hold up who takes the others. */
static void read_until_done(struct owner *owner, unsigned int block, uint32_t generation)
{
	for (uint64_t page = 0; atomic_load(&owner->done) != generation; page = (page + 1) % BLOCK_PAGES) {
		if (checked_load(page_at(block, page)).has_faulted)
			return;
		if (page == 0)
			cpu_pause();
	}
}

static void be_elsewhere(struct run *run, struct owner *owner, unsigned int index, uint32_t generation)
{
	if (owner->where == AWAY) {
		go_away(run, owner, generation);
		return;
	}
	if (owner->where == MOVED && pin_to(owner->moved_to) && !state.is_hotplugging)
		workload_fail(run, "no other CPU");
	atomic_store(&owner->ready, generation);
	if (owner->where == READS)
		read_until_done(owner, index, generation);
	else if (owner->where == SLEEPS && owner->is_brief)
		nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
	else if (owner->where == SLEEPS)
		sleep_until(&owner->done, generation);
	else if (owner->where == MOVED && !owner->is_brief)
		wait_for(&owner->done, generation);
	if (owner->where == MOVED)
		(void)pin_to(index);
}

/* Return: NULL, or what the page should be. */
static const char *judge(enum taking taking, struct loaded loaded, uint64_t newer)
{
	switch (taking) {
	case UNMAP:
	case PROTECT:
	case REMAP:
		return loaded.has_faulted ? NULL : "gone";
	case DONTNEED:
		return !loaded.has_faulted && loaded.value == 0 ? NULL : "empty";
	default:
		return !loaded.has_faulted && loaded.value == newer ? NULL : "the newer one";
	}
}

static void check(struct run *run, const struct owner *owner, unsigned int index, uint32_t generation)
{
	for (uint64_t page = 0; page < BLOCK_PAGES && !run->has_failed; page++) {
		const enum taking taking = state.takings[page / HALF_PAGES];
		const struct loaded loaded = checked_load(page_at(index, page));
		const char *wanted = judge(taking, loaded, word_of(NEWER, generation, page));

		if (wanted)
			workload_fail(run, "stale read: %s0x%llx at %p, and should be %s: taken by %s while its owner %s",
				      loaded.has_faulted ? "a fault, " : "", (unsigned long long)loaded.value,
				      (void *)page_at(index, page), wanted, takings[taking], wheres[owner->where]);
	}
}

static void own(struct run *run, unsigned int index)
{
	struct owner *owner = &state.owners[index];

	for (uint32_t generation = 0;;) {
		const uint32_t last = generation;

		while ((generation = atomic_load(&owner->order)) == last)
			syscall(SYS_futex, &owner->order, FUTEX_WAIT, last, NULL, NULL, 0);
		if (generation == LEAVE)
			return;
		hotplug_return(index);
		for (uint64_t page = 0; page < BLOCK_PAGES; page++) {
			if (state.takings[page / HALF_PAGES] == COPY)
				(void)*page_at(index, page);
			else
				*page_at(index, page) = word_of(WRITTEN, generation, page);
		}
		be_elsewhere(run, owner, index, generation);
		wait_for(&owner->done, generation);
		check(run, owner, index, generation);
		atomic_store(&owner->checked, generation);
	}
}

/* Who takes away */

static int move_away(char *at)
{
	void *pages[HALF_PAGES];
	int to[HALF_PAGES], status[HALF_PAGES];

	for (uint64_t i = 0; i < HALF_PAGES; i++)
		pages[i] = at + i * PAGE_BYTES;
	if (syscall(SYS_move_pages, 0, HALF_PAGES, pages, NULL, status, 0) < 0)
		return -1;
	for (uint64_t i = 0; i < HALF_PAGES; i++)
		to[i] = (int)state.nodes[state.nodes[0] == (unsigned int)status[i]];
	return syscall(SYS_move_pages, 0, HALF_PAGES, pages, to, status, MPOL_MF_MOVE) < 0 ? -1 : 0;
}

static int take(char *at, enum taking taking)
{
	char *spare = region_at(&state.spare, state.block) + (at - region_at(&state.area, state.block));

	switch (taking) {
	case UNMAP:
		return munmap(at, HALF_BYTES);
	case PROTECT:
		return mprotect(at, HALF_BYTES, PROT_NONE);
	case REMAP:
		return mremap(at, HALF_BYTES, HALF_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, spare) == spare ? 0 : -1;
	case DONTNEED:
		return madvise(at, HALF_BYTES, MADV_DONTNEED);
	case MIGRATE:
		return move_away(at);
	case PAGEOUT:
		return madvise(at, HALF_BYTES, MADV_PAGEOUT);
	default:
		return 0;
	}
}

/* By a store, or in the kernel: then no walk of this CPU marks the page that is copied. */
static void write_newer(struct run *run, uint64_t page, uint32_t generation, bool by_kernel)
{
	const uint64_t word = word_of(NEWER, generation, page);
	volatile uint64_t *at = page_at(state.block, page);

	if (!by_kernel)
		*at = word;
	else if (pwrite(state.memory, &word, sizeof(word), (off_t)(uintptr_t)at) != sizeof(word))
		workload_fail(run, "a write through /proc/self/mem was refused: %s", strerror(errno));
}

static void take_half(struct run *run, unsigned int half, uint32_t generation)
{
	const enum taking taking = state.takings[half];
	char *at = region_at(&state.area, state.block) + half * HALF_BYTES;

	if (take(at, taking)) {
		workload_fail(run, "%s of %lu pages was refused: %s", takings[taking], HALF_PAGES, strerror(errno));
		return;
	}
	if (taking != MIGRATE && taking != PAGEOUT && taking != COPY)
		return;
	for (uint64_t page = half * HALF_PAGES; page < (half + 1) * HALF_PAGES; page++)
		write_newer(run, page, generation, taking == COPY);
}

static bool is_present(unsigned int block, uint64_t page)
{
	uint64_t entry = 0;
	const off_t at = (off_t)((uintptr_t)page_at(block, page) / PAGE_BYTES * sizeof(entry));

	return pread(state.pagemap, &entry, sizeof(entry), at) == sizeof(entry) && entry & PAGEMAP_PRESENT;
}

static void help(struct run *run)
{
	for (uint32_t generation = 0;;) {
		const uint32_t last = generation;

		while ((generation = atomic_load(&state.helper_order)) == last)
			cpu_pause();
		if (generation == LEAVE)
			return;
		while (state.helper_waits && is_present(state.block, 0) && state.half_taken != generation)
			cpu_pause();
		take_half(run, 1, generation);
		atomic_store(&state.helper_done, generation);
	}
}

static enum taking draw_taking(unsigned int half)
{
	for (;;) {
		const enum taking taking = (enum taking)draw(TAKINGS);

		if (state.only[half] && strcmp(state.only[half], takings[taking]))
			continue;
		if ((taking != MIGRATE || state.node_count > 1) && (taking != PAGEOUT || state.has_swap))
			return taking;
	}
}

static int map_block(struct run *run, unsigned int index)
{
	int error = region_map(run, &state.area, index, -1);

	for (unsigned int half = 0; half < 2 && !error; half++) {
		char *at = region_at(&state.area, index) + half * HALF_BYTES;

		if (state.takings[half] == COPY && mmap(at, HALF_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
							state.file, 0) != at)
			error = workload_fail(run, "mmap of a file was refused: %s", strerror(errno));
	}
	return error;
}

static void one_block(struct run *run, unsigned int index, uint32_t generation)
{
	struct owner *owner = &state.owners[index];
	uint64_t pauses;

	state.block = index;
	for (unsigned int half = 0; half < 2; half++)
		state.takings[half] = draw_taking(half);
	if (map_block(run, index))
		return;
	owner->where = (enum where)draw(WHERES);
	owner->moved_to = index + 1 + (unsigned int)draw(run->threads - 1);
	owner->is_brief = draw(4) == 0;
	owner->is_early = draw(2) == 0;
	pauses = draw(4) == 0 ? draw(64) : 0;
	state.places[owner->where]++;

	set_and_wake(&owner->order, generation);
	wait_for(&owner->ready, generation);
	while (pauses--)
		cpu_pause();
	state.helper_waits = draw(2);
	atomic_store(&state.helper_order, generation);
	take_half(run, 0, generation);
	state.half_taken = generation;
	if (state.first > 1)
		wait_for(&state.helper_done, generation);
	else
		take_half(run, 1, generation);
	set_and_wake(&owner->done, generation);
	wait_for(&owner->checked, generation);
	run->checksum = checksum_add(run->checksum, word_of(owner->where, generation, state.takings[0] * TAKINGS + state.takings[1]));
}

static void take_turns(struct run *run, unsigned int index)
{
	if (index >= state.first) {
		own(run, index);
		return;
	}
	if (index == 1) {
		help(run);
		return;
	}
	for (uint64_t i = 0; i < run->units && !run->has_failed; i++)
		one_block(run, state.first + (unsigned int)(i % (run->threads - state.first)), (uint32_t)i + 1);
	atomic_store(&state.helper_order, LEAVE);
	for (unsigned int i = state.first; i < run->threads; i++)
		set_and_wake(&state.owners[i].order, LEAVE);
}

static int start_process(struct run *run, unsigned int index)
{
	struct owner *owner = &state.owners[index];

	if (pipe(owner->away) || pipe(owner->back))
		return workload_fail(run, "no pipe: %s", strerror(errno));
	owner->pid = process_start(index, take_cpu, owner);
	return owner->pid < 0 ? workload_fail(run, "no process: %s", strerror(-owner->pid)) : 0;
}

/* --set first=NAME, second=NAME: how the halves are taken. */
static int read_option(struct run *run, unsigned int half)
{
	const char *name = option_text(half ? "second" : "first", NULL);
	bool is_known = !name;

	for (unsigned int i = 0; i < TAKINGS && !is_known; i++)
		is_known = !strcmp(name, takings[i]) && (i != MIGRATE || state.node_count > 1) && (i != PAGEOUT || state.has_swap);
	state.only[half] = name;
	return is_known ? 0 : workload_fail(run, "%s is munmap, mprotect, mremap, dontneed, migrate (two nodes), reclaim (swap) "
					    "or copy, not %s", half ? "second" : "first", name);
}

static int setup(struct run *run)
{
	const size_t bytes = THREADS_MAX * sizeof(struct owner);
	int error = regions_reserve(run, &state.area, run->threads, BLOCK_PAGES);

	if (!error)
		error = regions_reserve(run, &state.spare, run->threads, BLOCK_PAGES);
	if (!error)
		error = checked_load_open(run);
	if (error)
		return error;
	state.owners = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (state.owners == MAP_FAILED)
		return workload_fail(run, "no memory that processes share: %s", strerror(errno));
	state.file = memfd_create("owner", MFD_CLOEXEC);
	if (state.file < 0 || ftruncate(state.file, HALF_BYTES))
		return workload_fail(run, "no file in memory: %s", strerror(errno));
	state.memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	if (state.memory < 0)
		return workload_fail(run, "/proc/self/mem cannot be opened: %s", strerror(errno));
	/* Without it the second half is taken when the first is. */
	state.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	state.random = run->seed;
	state.first = run->threads > 2 ? 2 : 1;
	state.node_count = memory_nodes(state.nodes);
	for (unsigned int i = state.first; i < run->threads && !error; i++)
		error = start_process(run, i);
	if (error)
		return error;
	if (!system_may_change(run) && !pressure_swap_on(run, SWAP_BYTES))
		state.has_swap = true;
	/* Without swap there is one way less: no reason not to run. */
	run->has_skipped = false;
	error = read_option(run, 0);
	return error ? error : read_option(run, 1);
}

static int measure(struct run *run)
{
	static const char *const names[WHERES] = { "owner_runs_blocks", "owner_reads_blocks", "owner_sleeps_blocks",
						   "owner_away_blocks", "owner_moved_blocks" };
	int error;

	state.is_hotplugging = option_u64("hotplug", 0);
	error = hotplug_start(run);
	if (error)
		return error;
	team_run(run, take_turns);
	error = hotplug_stop(run);
	if (run->has_failed || error)
		return -EIO;
	report_extra(run, "stale_reads", 0);
	for (unsigned int i = 0; i < WHERES; i++)
		report_extra(run, names[i], (double)state.places[i]);
	return 0;
}

static void teardown(struct run *run)
{
	for (unsigned int i = state.first; state.owners && i < run->threads; i++) {
		if (state.owners[i].pid <= 0)
			continue;
		kill(state.owners[i].pid, SIGKILL);
		waitpid(state.owners[i].pid, NULL, 0);
	}
	if (state.has_swap)
		pressure_swap_off();
	regions_release(&state.area);
	regions_release(&state.spare);
}

WORKLOAD(owner) = {
	.name = "owner",
	.group = "stress",
	.unit = "block taken away",
	.about = "Pages that one thread alone has touched are taken away while it runs, sleeps, is on another CPU or has left "
		 "its CPU to another process; it comes back, and must not see them.",
	.needs = "zram",
	.units = 4000,
	.threads_min = 2,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
