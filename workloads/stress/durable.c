// SPDX-License-Identifier: GPL-2.0-only
/*
 * Is what msync() and fsync() promised on the disk? Threads on all CPUs raise
 * counters in the pages of a file through two shared mappings. Others call
 * msync(), fsync(), fdatasync() and syncfs(), and then tell the host what the
 * counters were before the call. The host stops or kills the guest whenever it
 * likes, and looks for them in the disk's own bytes (tests/run promises).
 *
 * A writer writes a few pages some times, with what its TLB holds, rests in
 * between, and leaves them for long: what a page has lost with the last write
 * stays lost until somebody comes back.
 *
 * --set lie=N: every Nth call is not made, and promised all the same.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "durable.h"
#include "support/pressure.h"
#include "support/system_files.h"

#define DIRECTORY "/disk"
#define PORTS "/sys/class/virtio-ports"
#define PORT_NAME "ceasefire.promises"
#define PAGES 2048UL
#define PAGES_MIN 256UL
#define PAGES_MAX 65536UL
#define EXTENTS_MAX 256U
#define CGROUP_BYTES (512UL << 20)
#define SYNCERS 3U
#define HELPERS (SYNCERS + 2U)
#define PASSES_MAX 8U		/* over a spot's pages, and ... */
#define PASSES_LONG 256U	/* ... seldom so many */
#define REST_NS_MAX 1000000U	/* between two passes */
#define BREAK_US_MAX 8000U
#define VM "/proc/sys/vm/"

struct durable durable;

static struct setting write_back_settings[] = {
	{ .path = VM "dirty_writeback_centisecs", .value = "5" },
	{ .path = VM "dirty_expire_centisecs", .value = "10" },
};

static struct {
	char *area;
	size_t bytes;
	uint64_t lie;
	unsigned int started;
	pthread_t threads[HELPERS];
	_Atomic uint64_t calls;
	struct run *run;
} own;

struct extent {
	uint32_t page, pages;
	uint64_t block;
};

int durable_record(struct run *run, const struct record *record, const void *payload, size_t bytes)
{
	char whole[sizeof(*record) + PROMISED_MAX * SLOTS_MAX * sizeof(uint32_t) + EXTENTS_MAX * sizeof(struct extent)];
	const size_t length = sizeof(*record) + bytes;

	memcpy(whole, record, sizeof(*record));
	memcpy(whole + sizeof(*record), payload, bytes);
	if (write(durable.port, whole, length) != (ssize_t)length)
		return workload_fail(run, "the host cannot be told: %s", strerror(errno));
	return 0;
}

void durable_write(struct run *run, unsigned int mapping, uint64_t page, unsigned int slot)
{
	volatile uint64_t *words = (volatile uint64_t *)(durable.at[mapping] + page * PAGE_BYTES);
	volatile uint64_t *counter = &words[1 + slot * SLOT_STRIDE];
	const uint32_t count = atomic_load_explicit(&durable.counts[page][slot], memory_order_relaxed);
	const uint64_t found = *counter;

	if (found != count || words[0] != page) {
		workload_fail(run, "page %llu, counter %u: %llu was written and %llu is read (the page says it is %llu)",
			      (unsigned long long)page, slot, (unsigned long long)count, (unsigned long long)found,
			      (unsigned long long)words[0]);
		durable.stop = true;
		return;
	}
	*counter = count + 1;
	atomic_store_explicit(&durable.counts[page][slot], count + 1, memory_order_release);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

static void write_pages(struct run *run, unsigned int index)
{
	uint64_t random = run->seed * 0x10001 + index;

	while (!durable.stop) {
		const uint64_t draw = random_next(&random);
		const uint64_t first = draw % (durable.pages - SPOT_PAGES + 1);
		const unsigned int mapping = (unsigned int)(draw >> 32) % MAPPINGS;
		const bool is_long = !(draw >> 34 & 63);
		const uint64_t passes = 1 + (draw >> 40) % (is_long ? PASSES_LONG : PASSES_MAX);

		durable.spots[index] = first;
		for (uint64_t i = 0; i < passes && !durable.stop; i++) {
			const uint64_t end = now_ns() + (is_long ? 0 : random_next(&random) % REST_NS_MAX);

			for (uint64_t page = first; page < first + SPOT_PAGES && !durable.stop; page++)
				durable_write(run, mapping, page, index);
			do
				cpu_pause();
			while (now_ns() < end);
		}
	}
}

/* Which pages to sync: those that somebody writes now, some, or all. */
static void choose_pages(uint64_t *random, uint64_t *first, uint64_t *count)
{
	const uint64_t draw = random_next(random);
	uint64_t end;

	if (draw % 4 == 0) {
		*first = 0;
		*count = durable.pages;
		return;
	}
	if (draw % 4 == 1) {
		*first = (draw >> 8) % durable.pages;
		end = *first + 1 + (draw >> 40) % 512;
	} else {
		*first = durable.spots[(draw >> 8) % durable.writers];
		end = *first + SPOT_PAGES;
	}
	*count = (end > durable.pages ? durable.pages : end) - *first;
}

static int sync_pages(enum sync_call how, unsigned int mapping, uint64_t first, uint64_t count)
{
	switch (how) {
	case MSYNC:
		return msync(durable.at[mapping] + first * PAGE_BYTES, count * PAGE_BYTES, MS_SYNC);
	case FSYNC:
		return fsync(durable.file);
	case FDATASYNC:
		return fdatasync(durable.file);
	default:
		return syncfs(durable.file);
	}
}

static int sync_and_promise(struct run *run, uint64_t *random)
{
	static _Thread_local uint32_t counts[PROMISED_MAX * SLOTS_MAX];
	struct record record = { .magic = RECORD_MAGIC, .kind = RECORD_PROMISE, .slots = durable.slots };
	const uint64_t draw = random_next(random);
	uint64_t first, count, told;
	bool is_lie;

	choose_pages(random, &first, &count);
	record.how = draw % 8 < 5 ? MSYNC : (uint32_t)(FSYNC + draw % 8 - 5);
	told = count < PROMISED_MAX ? count : PROMISED_MAX;
	record.first = (uint32_t)(first + (draw >> 8) % (count - told + 1));
	record.count = (uint32_t)told;
	for (uint64_t page = 0; page < told; page++)
		for (unsigned int slot = 0; slot < durable.slots; slot++)
			counts[page * durable.slots + slot] =
				atomic_load_explicit(&durable.counts[record.first + page][slot], memory_order_acquire);
	is_lie = own.lie && (atomic_fetch_add(&own.calls, 1) + 1) % own.lie == 0;
	if (!is_lie && sync_pages(record.how, (unsigned int)(draw >> 32) % MAPPINGS, first, count)) {
		/* While a mapping is elsewhere: nothing was promised. */
		if (record.how == MSYNC && errno == ENOMEM)
			return 0;
		return workload_fail(run, "call %u of msync, fsync, fdatasync, syncfs: %s", record.how, strerror(errno));
	}
	atomic_fetch_add(&durable.promises, 1);
	return durable_record(run, &record, counts, told * durable.slots * sizeof(counts[0]));
}

static int tell_deeds(struct run *run)
{
	const struct record record = { .magic = RECORD_MAGIC, .kind = RECORD_DEEDS, .count = DEEDS };
	uint32_t deeds[DEEDS];

	for (unsigned int i = 0; i < DEEDS; i++)
		deeds[i] = durable.deeds[i];
	return durable_record(run, &record, deeds, sizeof(deeds));
}

static void *help(void *argument)
{
	const unsigned int index = (unsigned int)(uintptr_t)argument;
	struct run *run = own.run;
	uint64_t random = ~run->seed * 0x10001 - index;
	int error = pin_to(index + 1);

	while (!error && !durable.stop) {
		if (index < SYNCERS) {
			error = sync_and_promise(run, &random);
			if (durable.promises >= run->units)
				durable.stop = true;
			continue;
		}
		error = index == SYNCERS ? durable_change_mappings(run, &random) : durable_change_file(run, &random);
		if (!error && index == SYNCERS)
			error = tell_deeds(run);
		usleep((useconds_t)(random_next(&random) % BREAK_US_MAX));
	}
	durable.stop = true;
	return NULL;
}

/* A mapping is away or read-only: it comes back, and then the write goes on. */
static void wait_for_mapping(int signal_number, siginfo_t *info, void *context)
{
	const char *at = info->si_addr;

	(void)context;
	if (at >= own.area && at < own.area + own.bytes)
		sched_yield();
	else
		signal(signal_number, SIG_DFL);
}

static int map_file(struct run *run)
{
	const int both = PROT_READ | PROT_WRITE;
	const size_t stride = durable.bytes + TAIL_PAGES * PAGE_BYTES;
	struct sigaction action = { .sa_sigaction = wait_for_mapping, .sa_flags = SA_SIGINFO };

	durable.counts = mmap(NULL, durable.pages * sizeof(*durable.counts), both, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (durable.counts == MAP_FAILED)
		return workload_fail(run, "no memory for counters: %s", strerror(errno));
	own.bytes = (MAPPINGS + 2) * stride;
	own.area = mmap(NULL, own.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (own.area == MAP_FAILED)
		return workload_fail(run, "no address space for %zu bytes: %s", own.bytes, strerror(errno));
	for (unsigned int i = 0; i < MAPPINGS; i++) {
		durable.at[i] = own.area + i * stride;
		if (mmap(durable.at[i], durable.bytes, both, MAP_SHARED | MAP_FIXED, durable.file, 0) == MAP_FAILED)
			return workload_fail(run, "mmap of the file was refused: %s", strerror(errno));
	}
	durable.spare = own.area + MAPPINGS * stride;
	durable.tail = own.area + (MAPPINGS + 1) * stride;
	if (mmap(durable.tail, TAIL_PAGES * PAGE_BYTES, both, MAP_SHARED | MAP_FIXED, durable.file,
		 (off_t)durable.bytes) == MAP_FAILED)
		return workload_fail(run, "mmap of the file's tail was refused: %s", strerror(errno));
	if (sigaction(SIGSEGV, &action, NULL))
		return workload_fail(run, "a handler for faults cannot be set: %s", strerror(errno));
	return 0;
}

static int make_file(struct run *run)
{
	uint64_t words[PAGE_BYTES / sizeof(uint64_t)] = { 0 };

	durable.file = open(DIRECTORY "/counters", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (durable.file < 0)
		return workload_skip(run, "needs a disk at " DIRECTORY " (tests/run promises brings one): %s",
				     strerror(errno));
	for (uint64_t page = 0; page < durable.pages; page++) {
		words[0] = page;
		if (write(durable.file, words, sizeof(words)) != (ssize_t)sizeof(words))
			return workload_fail(run, "a file of %llu pages cannot be written: %s",
					     (unsigned long long)durable.pages, strerror(errno));
	}
	if (fsync(durable.file))
		return workload_fail(run, "fsync: %s", strerror(errno));
	return 0;
}

/* Its blocks stay where they are: they are only written over. */
static int tell_extents(struct run *run)
{
	const uint32_t unusable = FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_ENCODED |
				  FIEMAP_EXTENT_NOT_ALIGNED | FIEMAP_EXTENT_UNWRITTEN;
	static struct {
		struct fiemap map;
		struct fiemap_extent extents[EXTENTS_MAX];
	} said;
	struct record record = { .magic = RECORD_MAGIC, .kind = RECORD_EXTENTS };
	struct extent extents[EXTENTS_MAX];

	said.map = (struct fiemap){ .fm_length = durable.bytes, .fm_flags = FIEMAP_FLAG_SYNC,
				    .fm_extent_count = EXTENTS_MAX };
	if (ioctl(durable.file, FS_IOC_FIEMAP, &said.map))
		return workload_fail(run, "the file's blocks cannot be asked for: %s", strerror(errno));
	for (uint32_t i = 0; i < said.map.fm_mapped_extents; i++) {
		const struct fiemap_extent *from = &said.extents[i];

		if (from->fe_flags & unusable)
			return workload_fail(run, "the file has no fixed blocks: flags 0x%x", from->fe_flags);
		extents[record.count++] = (struct extent){
			.page = (uint32_t)(from->fe_logical / PAGE_BYTES),
			.pages = (uint32_t)(from->fe_length / PAGE_BYTES),
			.block = from->fe_physical / PAGE_BYTES,
		};
	}
	return durable_record(run, &record, extents, record.count * sizeof(extents[0]));
}

static int open_port(struct run *run)
{
	DIR *directory = opendir(PORTS);
	const struct dirent *entry;

	durable.port = -1;
	while (directory && durable.port < 0 && (entry = readdir(directory))) {
		char path[320], name[64];

		snprintf(path, sizeof(path), PORTS "/%s/name", entry->d_name);
		if (file_read(path, name, sizeof(name)) <= 0 || strncmp(name, PORT_NAME, strlen(PORT_NAME)))
			continue;
		snprintf(path, sizeof(path), "/dev/%s", entry->d_name);
		durable.port = open(path, O_WRONLY | O_CLOEXEC);
	}
	if (directory)
		closedir(directory);
	return durable.port < 0 ? workload_skip(run, "needs a port named " PORT_NAME " (tests/run promises brings one)") : 0;
}

static int setup(struct run *run)
{
	int error = system_may_change(run);

	durable.file = durable.port = -1;
	durable.pages = option_u64("pages", PAGES);
	durable.bytes = durable.pages * PAGE_BYTES;
	durable.writers = run->threads;
	durable.slots = run->threads + 1;
	own.lie = option_u64("lie", 0);
	own.run = run;
	if (error)
		return error;
	if (durable.pages < PAGES_MIN || durable.pages > PAGES_MAX)
		return workload_fail(run, "pages is %llu, and must be %lu to %lu", (unsigned long long)durable.pages,
				     PAGES_MIN, PAGES_MAX);
	if (durable.slots > SLOTS_MAX)
		return workload_skip(run, "has counters for %u threads", SLOTS_MAX - 1);
	error = open_port(run);
	/* Reclaim takes from the cgroup that a page's first user is in. */
	if (!error)
		error = pressure_cgroup_make(run, CGROUP_BYTES);
	if (!error && pressure_cgroup_enter())
		error = workload_fail(run, "the memory cgroup cannot be entered");
	if (!error)
		error = make_file(run);
	if (!error)
		error = tell_extents(run);
	if (!error)
		error = map_file(run);
	for (size_t i = 0; i < sizeof(write_back_settings) / sizeof(write_back_settings[0]) && !error; i++)
		if (setting_change(&write_back_settings[i]))
			error = workload_fail(run, "%s cannot be set", write_back_settings[i].path);
	durable.node_count = memory_nodes(durable.nodes);
	return error;
}

static int measure(struct run *run)
{
	for (; own.started < HELPERS; own.started++)
		if (pthread_create(&own.threads[own.started], NULL, help, (void *)(uintptr_t)own.started)) {
			durable.stop = true;
			workload_fail(run, "thread %u cannot be started", own.started);
			break;
		}
	team_run(run, write_pages);
	while (own.started > 0)
		pthread_join(own.threads[--own.started], NULL);
	run->units = durable.promises;
	run->checksum = checksum_add(run->checksum, durable.pages);
	return run->has_failed ? -EIO : 0;
}

static void teardown(struct run *run)
{
	(void)run;
	for (size_t i = 0; i < sizeof(write_back_settings) / sizeof(write_back_settings[0]); i++)
		setting_restore(&write_back_settings[i]);
	if (own.area && own.area != MAP_FAILED)
		munmap(own.area, own.bytes);
	if (durable.file >= 0)
		close(durable.file);
	if (durable.port >= 0)
		close(durable.port);
	pressure_cgroup_leave();
	pressure_cgroup_remove();
}

WORKLOAD(durable_workload) = {
	.name = "durable",
	.group = "stress",
	.unit = "promise",
	.about = "All CPUs raise counters in a mapped file on a disk that is synced, truncated, reclaimed and moved; the host "
		 "is told what each sync has promised, and looks for it on the disk.",
	.needs = "disk",
	.units = 1000,
	.threads_min = 1,
	.shared = true,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
