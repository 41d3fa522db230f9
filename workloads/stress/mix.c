// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every thread changes its own pages in random ways (permissions, place, node,
 * swap, copying after a fork, access bits, rounds) while it reads those of all
 * others: shootdowns have many initiators at once. A page's word is its number
 * and a generation. The owner writes the next one after each change and then
 * publishes it; who sees it published may read nothing older.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/checked_load.h"
#include "support/elisions.h"
#include "support/hotplug.h"
#include "support/opt_in.h"
#include "support/page_idle.h"
#include "support/pressure.h"
#include "support/regions.h"
#include "support/system_files.h"

#define KSM "/sys/kernel/mm/ksm/"
#define THP "/sys/kernel/mm/transparent_hugepage/"
#define OWN_PAGES 48UL	/* a change of all of them is a round */
#define OWN_BYTES (OWN_PAGES * PAGE_BYTES)
#define SWAP_BYTES (32UL << 20)
#define LOOKS_PER_CHANGE 64U
/* A fork stops the whole process for longer than anything else. */
#define FORK_ONE_IN 16U

enum change { READ_ONLY, NO_ACCESS, MOVE, COLD, IDLE, PAGEOUT, MIGRATE, FORK, CHANGES };

struct owner {
	_Alignas(64) uint64_t random;
	uint64_t generation, reads, faults, done[CHANGES];
	struct page_idle idle;
	void *pages[OWN_PAGES];
	int to[OWN_PAGES], status[OWN_PAGES];
};

static struct {
	struct regions area, spare;
	struct owner owners[THREADS_MAX];
	_Atomic uint64_t published[THREADS_MAX];
	unsigned int node_count, nodes[NODES_MAX];
	bool has_idle, has_swap, are_equal;
	uint64_t changes_each;
	size_t protect_bytes;
	int zeros;
	_Atomic bool stop;
} mix;

static struct setting ksm_settings[] = {
	{ .path = KSM "sleep_millisecs", .value = "0" },
	{ .path = KSM "pages_to_scan", .value = "1000" },
	{ .path = KSM "smart_scan", .value = "0" },
	{ .path = KSM "run", .value = "1" },
};
static struct setting thp_settings[] = {
	{ .path = THP "enabled", .value = "always" },
	{ .path = THP "hugepages-64kB/enabled", .value = "always" },
};

static uint64_t word_of(unsigned int owner, uint64_t page, uint64_t generation)
{
	if (mix.are_equal)
		page = 0;
	return 0xa7ULL << 56 | generation << 16 | (owner * OWN_PAGES + page);
}

static volatile uint64_t *page_at(unsigned int owner, uint64_t page)
{
	return (volatile uint64_t *)(region_at(&mix.area, owner) + page * PAGE_BYTES);
}

static void look(struct run *run, unsigned int index)
{
	struct owner *self = &mix.owners[index];
	const uint64_t draw = random_next(&self->random);
	const unsigned int owner = (unsigned int)(draw % run->threads);
	const uint64_t page = (draw >> 32) % OWN_PAGES;
	const uint64_t floor = atomic_load(&mix.published[owner]);
	const struct loaded loaded = checked_load(page_at(owner, page));
	const uint64_t generation = (loaded.value & ~(0xffULL << 56)) >> 16;

	self->reads++;
	self->faults += loaded.has_faulted;
	if (loaded.has_faulted || (loaded.value == word_of(owner, page, generation) && generation >= floor))
		return;
	workload_fail(run, "stale read: address %p, expected 0x%llx or later, got 0x%llx", (void *)page_at(owner, page),
		      (unsigned long long)word_of(owner, page, floor), (unsigned long long)loaded.value);
	mix.stop = true;
}

/* After every change: the words that an entry of before must not show. */
static void write_next(unsigned int index)
{
	struct owner *self = &mix.owners[index];

	self->generation++;
	for (uint64_t page = 0; page < OWN_PAGES; page++)
		*page_at(index, page) = word_of(index, page, self->generation);
	atomic_store(&mix.published[index], self->generation);
}

static int idle_child(void *argument)
{
	(void)argument;
	for (;;)
		pause();
	return EXIT_SUCCESS;
}

/* The thread has just taken its right to write there: what it asks the kernel to write must fail. */
static void look_for_right(struct run *run, void *page)
{
	if (read(mix.zeros, page, sizeof(uint64_t)) < 0)
		return;
	workload_fail(run, "page %p can be written after mprotect() without PROT_WRITE", page);
	mix.stop = true;
}

static int change(struct run *run, unsigned int index, enum change what)
{
	struct owner *self = &mix.owners[index];
	char *at = region_at(&mix.area, index), *spare = region_at(&mix.spare, index);
	int child, error = 0;

	switch (what) {
	case READ_ONLY:
	case NO_ACCESS:
		error = mprotect(at, mix.protect_bytes, what == READ_ONLY ? PROT_READ : PROT_NONE);
		if (!error)
			look_for_right(run, at + random_next(&self->random) % mix.protect_bytes / PAGE_BYTES * PAGE_BYTES);
		error |= mprotect(at, mix.protect_bytes, PROT_READ | PROT_WRITE);
		break;
	case MOVE:
		error = mremap(at, OWN_BYTES, OWN_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, spare) != spare ||
			mremap(spare, OWN_BYTES, OWN_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, at) != at;
		break;
	case COLD:
		error = madvise(at, OWN_BYTES, MADV_COLD);
		break;
	case IDLE:
		page_idle_forget(&self->idle);
		error = page_idle_note(&self->idle, at, OWN_PAGES) || page_idle_set(&self->idle);
		break;
	case PAGEOUT:
		error = madvise(at, OWN_BYTES, MADV_PAGEOUT);
		break;
	case MIGRATE:
		for (uint64_t page = 0; page < OWN_PAGES; page++) {
			self->pages[page] = at + page * PAGE_BYTES;
			self->to[page] = (int)mix.nodes[self->generation % mix.node_count];
		}
		error = syscall(SYS_move_pages, 0, OWN_PAGES, self->pages, self->to, self->status, MPOL_MF_MOVE) < 0;
		break;
	default:
		/* The child keeps the pages while the parent writes copies. */
		child = process_start(index, idle_child, NULL);
		if (child < 0)
			return child;
		write_next(index);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	return error ? -errno : 0;
}

static bool is_possible(struct owner *self, enum change what)
{
	switch (what) {
	case IDLE:
		return mix.has_idle;
	case PAGEOUT:
		return mix.has_swap;
	case MIGRATE:
		return mix.node_count > 1;
	case FORK:
		return random_next(&self->random) % FORK_ONE_IN == 0;
	default:
		return true;
	}
}

static void change_and_look(struct run *run, unsigned int index)
{
	struct owner *self = &mix.owners[index];

	for (uint64_t i = 0; i < mix.changes_each && !mix.stop; i++) {
		enum change what;
		int error;

		do
			what = (enum change)(random_next(&self->random) % CHANGES);
		while (!is_possible(self, what));
		error = change(run, index, what);
		if (error) {
			workload_fail(run, "change %d of thread %u: %s", what, index, strerror(-error));
			mix.stop = true;
		}
		/* Bits that were cleared stay so until a later change: its flush may be left out. */
		if (what != COLD && what != IDLE)
			write_next(index);
		self->done[what]++;
		for (unsigned int looks = 0; looks < LOOKS_PER_CHANGE && !mix.stop; looks++)
			look(run, index);
		hotplug_return(index);
		cpu_pause();
	}
}

/* If the option asks for it. Return: 0, or what workload_skip() gave. */
static int settings_change(struct run *run, const char *option, struct setting *settings, size_t count)
{
	if (!option_u64(option, 0))
		return 0;
	if (system_may_change(run))
		return -EPERM;
	for (size_t i = 0; i < count; i++) {
		if (setting_change(&settings[i]))
			return workload_skip(run, "%s cannot be set: this kernel has no %s", settings[i].path, option);
	}
	return 0;
}

static void settings_restore(struct setting *settings, size_t count)
{
	for (size_t i = 0; i < count; i++)
		setting_restore(&settings[i]);
}

static int memory_advise(struct run *run, unsigned int index)
{
	char *at = region_at(&mix.area, index);

	if (mix.are_equal && madvise(at, OWN_BYTES, MADV_MERGEABLE))
		return workload_fail(run, "MADV_MERGEABLE was refused: %s", strerror(errno));
	if (thp_settings[0].is_changed && madvise(at, OWN_BYTES, MADV_HUGEPAGE))
		return workload_fail(run, "MADV_HUGEPAGE was refused: %s", strerror(errno));
	return 0;
}

static int setup(struct run *run)
{
	struct run quiet = *run;
	int error = regions_reserve(run, &mix.area, run->threads, OWN_PAGES);

	if (!error)
		error = regions_reserve(run, &mix.spare, run->threads, OWN_PAGES);
	if (!error)
		error = checked_load_open(run);
	if (!error)
		error = settings_change(run, "ksm", ksm_settings, sizeof(ksm_settings) / sizeof(ksm_settings[0]));
	if (!error)
		error = settings_change(run, "thp", thp_settings, sizeof(thp_settings) / sizeof(thp_settings[0]));
	if (!error)
		error = opt_in(run, false);
	/* What a mechanism does with few pages alone, it is to do with some. */
	mix.protect_bytes = option_u64("opt-in", 0) ? OWN_BYTES / 2 : OWN_BYTES;
	mix.zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	if (!error && mix.zeros < 0)
		error = workload_fail(run, "/dev/zero cannot be opened: %s", strerror(errno));
	mix.are_equal = ksm_settings[0].is_changed;
	for (unsigned int i = 0; i < run->threads && !error; i++) {
		error = region_map(run, &mix.area, i, -1);
		if (!error)
			error = memory_advise(run, i);
	}
	if (error)
		return error;
	mix.node_count = memory_nodes(mix.nodes);
	mix.has_swap = pressure_swap_on(&quiet, SWAP_BYTES) == 0;
	mix.has_idle = page_idle_available();
	for (unsigned int i = 0; i < run->threads; i++) {
		mix.owners[i].random = run->seed + i;
		mix.has_idle = mix.has_idle && page_idle_open(&quiet, &mix.owners[i].idle, OWN_PAGES) == 0;
		write_next(i);
	}
	mix.changes_each = (run->units + run->threads - 1) / run->threads;
	return 0;
}

static int measure(struct run *run)
{
	static const char *const names[CHANGES] = {
		"read_only_changes", "no_access_changes", "move_changes", "cold_changes",
		"idle_changes", "pageout_changes", "migrate_changes", "fork_changes",
	};
	const uint64_t elided = elisions_all(), unmerged = file_row(VMSTAT, "cow_ksm");
	uint64_t reads = 0, faults = 0;
	int error = hotplug_start(run);

	if (error)
		return error;
	team_run(run, change_and_look);
	error = hotplug_stop(run);
	if (run->has_failed || error)
		return -EIO;
	for (unsigned int what = 0; what < CHANGES; what++) {
		uint64_t done = 0;

		for (unsigned int i = 0; i < run->threads; i++)
			done += mix.owners[i].done[what];
		report_extra(run, names[what], (double)done);
		run->checksum = checksum_add(run->checksum, done);
	}
	for (unsigned int i = 0; i < run->threads; i++) {
		reads += mix.owners[i].reads;
		faults += mix.owners[i].faults;
	}
	run->units = mix.changes_each * run->threads;
	report_extra(run, "reads", (double)reads);
	report_extra(run, "faulting_reads", (double)faults);
	report_extra(run, "stale_reads", 0);
	if (mix.are_equal)
		report_extra(run, "unmerged_pages", (double)(file_row(VMSTAT, "cow_ksm") - unmerged));
	if (elisions_are_counted())
		report_extra(run, "elided_pages", (double)(elisions_all() - elided));
	return 0;
}

static void teardown(struct run *run)
{
	for (unsigned int i = 0; i < run->threads; i++)
		page_idle_close(&mix.owners[i].idle);
	regions_release(&mix.area);
	regions_release(&mix.spare);
	pressure_swap_off();
	if (mix.zeros > 0)
		close(mix.zeros);
	settings_restore(ksm_settings, sizeof(ksm_settings) / sizeof(ksm_settings[0]));
	settings_restore(thp_settings, sizeof(thp_settings) / sizeof(thp_settings[0]));
}

WORKLOAD(stress_mix) = {
	.name = "stress-mix",
	.group = "stress",
	.unit = "change of a thread's pages",
	.about = "Every thread changes its own pages by mprotect, mremap, swap, migration, fork and access bits while it reads "
		 "those of all others, and must never see an older word than published.",
	.needs = "zram",
	.units = 2000,
	.threads_min = 2,
	.shared = true,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
