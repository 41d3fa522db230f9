// SPDX-License-Identifier: GPL-2.0-only
/*
 * See access_bits.h. Whether they are clear: idle page tracking tells, where
 * the clearer marks pages idle (page-idle, damon). Elsewhere the row
 * "Referenced" of /proc/self/smaps counts pages whose access bit is set or
 * whose page is marked referenced; but the classic LRU marks a page so when it
 * finds its access bit set and clears it, so there that mark tells.
 */
#define _GNU_SOURCE
#include "support/access_bits.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/mapped_file.h"
#include "support/pressure.h"
#include "support/system_files.h"

#define LRU_GEN_ENABLED "/sys/kernel/mm/lru_gen/enabled"
#define LRU_GEN "/sys/kernel/debug/lru_gen"
#define DAMON "/sys/kernel/mm/damon/admin/kdamonds"
#define PAGE_FLAGS "/proc/kpageflags"
#define PAGE_REFERENCED (1ULL << 2)
#define PAGE_ACTIVE (1ULL << 6)
#define CGROUP_RECLAIM "/sys/fs/cgroup/ceasefire/memory.reclaim"
#define SWAP_BYTES (64UL << 20)
#define CGROUP_BYTES (1UL << 30)
#define ROUNDS_OF_RECLAIM 256
#define POOL_PAGES(pages) (2 * (pages) + 1024)
#define LOOKS_MAX 20000

struct clearer {
	const char *name;
	int (*open)(struct run *run);
	int (*clear)(struct run *run);
	void (*close)(void);
	int64_t (*look)(void);
};

static struct {
	const struct clearer *clearer;
	const struct regions *regions;
	bool is_file, has_cgroup;
	struct page_idle idle;
	int pool_fd;	/* pages that reclaim takes instead of ours */
} state;

static struct setting lru_gen = { .path = LRU_GEN_ENABLED };

static uint64_t pages_total(void)
{
	return state.regions->count * state.regions->pages;
}

static int note_regions(struct run *run)
{
	page_idle_forget(&state.idle);
	for (uint64_t i = 0; i < state.regions->count; i++) {
		int error = page_idle_note(&state.idle, region_at(state.regions, i), state.regions->pages);

		if (error)
			return workload_fail(run, "/proc/self/pagemap cannot be read: %s", strerror(-error));
	}
	if (state.idle.count != pages_total())
		return workload_fail(run, "only %" PRIu64 " of %" PRIu64 " pages are present, or root is needed to see them",
				     state.idle.count, pages_total());
	return 0;
}

/* Pages in this CPU's batch are on no LRU list yet; advice that concerns no page empties it, and flushes nothing. */
static void drain_batch(void)
{
	void *nothing = mmap(NULL, PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (nothing == MAP_FAILED)
		return;
	(void)madvise(nothing, PAGE_BYTES, MADV_COLD);
	munmap(nothing, PAGE_BYTES);
}

static int64_t look_idle(void)
{
	return (int64_t)page_idle_count(&state.idle);
}

/* Of the mappings among the regions; they lie together. */
static int64_t look_smaps(void)
{
	const uintptr_t first = (uintptr_t)state.regions->start, end = first + state.regions->bytes;
	FILE *file = fopen("/proc/self/smaps", "re");
	uint64_t rss_kib = 0, referenced_kib = 0, value;
	unsigned long from, to;
	bool is_ours = false;
	char line[512];

	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			is_ours = from >= first && to <= end;
		else if (is_ours && sscanf(line, "Rss: %" SCNu64, &value) == 1)
			rss_kib += value;
		else if (is_ours && sscanf(line, "Referenced: %" SCNu64, &value) == 1)
			referenced_kib += value;
	}
	fclose(file);
	return (int64_t)((rss_kib - referenced_kib) * 1024 / PAGE_BYTES);
}

static int64_t look_flags(void)
{
	const int fd = open(PAGE_FLAGS, O_RDONLY | O_CLOEXEC);
	int64_t marked = 0;
	uint64_t flags;

	if (fd < 0)
		return -1;
	page_idle_forget(&state.idle);
	for (uint64_t i = 0; i < state.regions->count; i++)
		(void)page_idle_note(&state.idle, region_at(state.regions, i), state.regions->pages);
	for (uint64_t i = 0; i < state.idle.count; i++)
		if (pread(fd, &flags, sizeof(flags), (off_t)(state.idle.frames[i] * sizeof(flags))) == sizeof(flags))
			marked += (flags & (PAGE_REFERENCED | PAGE_ACTIVE)) != 0;
	close(fd);
	return marked;
}

static int64_t look_not(void)
{
	return -1;
}

static int nothing_to_do(struct run *run)
{
	(void)run;
	return 0;
}

static void nothing_to_close(void)
{
}

/* page-idle */

static int page_idle_begin(struct run *run)
{
	return page_idle_open(run, &state.idle, pages_total());
}

static int page_idle_clear(struct run *run)
{
	int error = note_regions(run);

	if (error)
		return error;
	error = page_idle_set(&state.idle);
	return error ? workload_fail(run, "pages cannot be marked idle: %s", strerror(-error)) : 0;
}

static void page_idle_end(void)
{
	page_idle_close(&state.idle);
}

/* cold */

static int cold_clear(struct run *run)
{
	for (uint64_t i = 0; i < state.regions->count; i++)
		if (madvise(region_at(state.regions, i), state.regions->pages * PAGE_BYTES, MADV_COLD))
			return workload_fail(run, "MADV_COLD: %s", strerror(errno));
	return 0;
}

/* classic */

/*
 * A cgroup of our own, with more pages of a file that nobody maps than pages in
 * use: reclaim takes those, and flushes nothing, and clears our access bits.
 */
static int classic_open(struct run *run)
{
	int error = system_may_change(run);

	if (!error)
		error = page_idle_begin(run);
	if (error)
		return error;
	lru_gen.value = "0";
	/* Absent where there is no other LRU. */
	error = setting_change(&lru_gen);
	if (error && error != -ENOENT)
		return workload_skip(run, "needs root to set " LRU_GEN_ENABLED);
	if (!state.is_file)
		error = pressure_swap_on(run, SWAP_BYTES);
	else
		error = 0;
	if (!error)
		error = pressure_cgroup_make(run, CGROUP_BYTES);
	if (error)
		return error;
	state.has_cgroup = true;
	if (access(CGROUP_RECLAIM, W_OK) != 0)
		return workload_skip(run, "needs memory.reclaim in a memory cgroup: Linux 5.19 or later");
	error = pressure_cgroup_enter();
	return error ? workload_fail(run, "the memory cgroup cannot be entered: %s", strerror(-error)) : 0;
}

/* Younger than the pages in use, so these are looked at first. */
static int pool_fill(struct run *run)
{
	static char page[PAGE_BYTES];

	state.pool_fd = mapped_file_on_disk(run, POOL_PAGES(pages_total()));
	if (state.pool_fd < 0)
		return state.pool_fd;
	for (uint64_t i = 0; i < POOL_PAGES(pages_total()); i++)
		if (pread(state.pool_fd, page, sizeof(page), (off_t)(i * PAGE_BYTES)) != (ssize_t)sizeof(page))
			return workload_fail(run, "the file cannot be read: %s", strerror(errno));
	return 0;
}

static int classic_clear(struct run *run)
{
	const char *ask = state.is_file ? "128K swappiness=0\n" : "128K swappiness=100\n";
	int64_t clear, there;
	int error = pool_fill(run);

	drain_batch();
	for (unsigned int i = 0; !error && i < ROUNDS_OF_RECLAIM; i++) {
		clear = look_flags();
		there = (int64_t)state.idle.count;
		/* The step that comes to the last of them may take some: those are gone, and it goes no further. */
		if (clear < 0 || clear >= there - there / 50)
			return 0;
		/* -EAGAIN: less was reclaimed than asked for. */
		error = file_write(CGROUP_RECLAIM, ask);
		if (error == -EAGAIN)
			error = 0;
	}
	return error ? workload_fail(run, "memory.reclaim: %s", strerror(-error)) : 0;
}

static void classic_close(void)
{
	if (state.pool_fd > 0)
		close(state.pool_fd);
	if (state.has_cgroup) {
		pressure_cgroup_leave();
		pressure_cgroup_remove();
	}
	pressure_swap_off();
	setting_restore(&lru_gen);
	page_idle_end();
}

/* mglru */

static int mglru_open(struct run *run)
{
	int error = system_may_change(run);

	if (error)
		return error;
	if (access(LRU_GEN, F_OK) != 0)
		return workload_skip(run, "needs the multi-generation LRU: enable CONFIG_LRU_GEN and mount debugfs");
	lru_gen.value = "7";
	error = setting_change(&lru_gen);
	return error ? workload_skip(run, "needs root to set " LRU_GEN_ENABLED) : 0;
}

/* One more generation in every cgroup and node: "+ cgroup node youngest swappiness force". */
static int mglru_clear(struct run *run)
{
	FILE *file;
	unsigned int cgroup = 0, node = 0;
	char commands[4096] = "", line[512];
	unsigned long seq, youngest = 0;
	bool has_node = false;
	size_t used = 0;
	int error;

	drain_batch();
	file = fopen(LRU_GEN, "re");
	if (!file)
		return workload_fail(run, LRU_GEN " cannot be read: %s", strerror(errno));
	for (;;) {
		const bool is_end = !fgets(line, sizeof(line), file);
		unsigned int number;
		const bool is_head = !is_end && (sscanf(line, " memcg %u", &number) == 1 || sscanf(line, " node %u", &number) == 1);

		if ((is_end || is_head) && has_node && used < sizeof(commands) - 64) {
			used += (size_t)snprintf(commands + used, sizeof(commands) - used, "+ %u %u %lu 200 1\n", cgroup, node,
						 youngest);
			has_node = false;
		}
		if (is_end)
			break;
		if (sscanf(line, " memcg %u", &number) == 1) {
			cgroup = number;
		} else if (sscanf(line, " node %u", &number) == 1) {
			node = number;
		} else if (sscanf(line, " %lu", &seq) == 1) {
			youngest = seq;
			has_node = true;
		}
	}
	fclose(file);
	error = file_write(LRU_GEN, commands);
	return error ? workload_fail(run, LRU_GEN ": %s", strerror(-error)) : 0;
}

static void mglru_close(void)
{
	setting_restore(&lru_gen);
}

/* damon */

static int damon_write(const char *file, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int damon_write(const char *file, const char *format, ...)
{
	char path[256], text[64];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	snprintf(path, sizeof(path), DAMON "/%s", file);
	return file_write(path, text);
}

/* One region a page: each is sampled, that is cleared, once per interval. */
static int damon_regions(void)
{
	const struct regions *regions = state.regions;
	uint64_t number = 0;
	char path[128];
	int error = damon_write("0/contexts/0/targets/0/regions/nr_regions", "%" PRIu64, pages_total());

	for (uint64_t i = 0; i < regions->count; i++) {
		for (uint64_t page = 0; page < regions->pages && !error; page++, number++) {
			const uintptr_t at = (uintptr_t)region_at(regions, i) + page * PAGE_BYTES;

			snprintf(path, sizeof(path), "0/contexts/0/targets/0/regions/%" PRIu64 "/start", number);
			error = damon_write(path, "%" PRIuPTR, at);
			snprintf(path, sizeof(path), "0/contexts/0/targets/0/regions/%" PRIu64 "/end", number);
			if (!error)
				error = damon_write(path, "%" PRIuPTR, (uintptr_t)(at + PAGE_BYTES));
		}
	}
	return error;
}

static int damon_open(struct run *run)
{
	static const struct {
		const char *file, *value;
	} settings[] = {
		{ "nr_kdamonds", "1" },
		{ "0/contexts/nr_contexts", "1" },
		{ "0/contexts/0/operations", "fvaddr" },
		{ "0/contexts/0/targets/nr_targets", "1" },
		{ "0/contexts/0/monitoring_attrs/intervals/sample_us", "20000" },
		/* Never while this runs: regions would be merged. */
		{ "0/contexts/0/monitoring_attrs/intervals/aggr_us", "1000000000" },
		{ "0/contexts/0/monitoring_attrs/intervals/update_us", "1000000000" },
	};
	int error = system_may_change(run);

	if (!error)
		error = page_idle_begin(run);
	if (error)
		return error;
	if (access(DAMON, F_OK) != 0)
		return workload_skip(run, "needs DAMON: enable CONFIG_DAMON_VADDR and CONFIG_DAMON_SYSFS");
	for (size_t i = 0; i < sizeof(settings) / sizeof(*settings) && !error; i++)
		error = damon_write(settings[i].file, "%s", settings[i].value);
	if (!error)
		error = damon_write("0/contexts/0/monitoring_attrs/nr_regions/max", "%" PRIu64, pages_total() + 16);
	if (!error)
		error = damon_write("0/contexts/0/targets/0/pid_target", "%d", getpid());
	if (!error)
		error = damon_regions();
	return error ? workload_fail(run, DAMON ": %s", strerror(-error)) : 0;
}

static int damon_clear(struct run *run)
{
	const uint64_t wanted = pages_total();
	int error = note_regions(run);
	uint64_t idle = 0;

	if (error)
		return error;
	drain_batch();
	error = damon_write("0/state", "on");
	for (unsigned int i = 0; !error && i < LOOKS_MAX && idle < wanted; i++) {
		sched_yield();
		/* Reading clears what DAMON has marked and somebody used since; not before DAMON came. */
		if (i % 64 == 63)
			idle = page_idle_count(&state.idle);
	}
	if (!error)
		error = damon_write("0/state", "off");
	return error ? workload_fail(run, DAMON ": %s", strerror(-error)) : 0;
}

static void damon_close(void)
{
	damon_write("nr_kdamonds", "0");
	page_idle_end();
}

static const struct clearer clearers[] = {
	{ "none", nothing_to_do, nothing_to_do, nothing_to_close, look_not },
	{ "page-idle", page_idle_begin, page_idle_clear, page_idle_end, look_idle },
	{ "cold", nothing_to_do, cold_clear, nothing_to_close, look_smaps },
	{ "classic", classic_open, classic_clear, classic_close, look_flags },
	{ "mglru", mglru_open, mglru_clear, mglru_close, look_smaps },
	{ "damon", damon_open, damon_clear, damon_close, look_idle },
};

int access_bits_open(struct run *run, const char *how, const struct regions *regions, bool is_file)
{
	state.regions = regions;
	state.is_file = is_file;
	for (size_t i = 0; i < sizeof(clearers) / sizeof(*clearers); i++)
		if (strcmp(clearers[i].name, how) == 0)
			state.clearer = &clearers[i];
	if (!state.clearer)
		return workload_fail(run, "clear is none, page-idle, cold, classic, mglru or damon, not %s", how);
	return state.clearer->open(run);
}

void access_bits_close(void)
{
	if (state.clearer)
		state.clearer->close();
	state.clearer = NULL;
}

int access_bits_clear(struct run *run, int64_t *clear_pages)
{
	int error = state.clearer->clear(run);

	*clear_pages = error ? -1 : state.clearer->look();
	return error;
}

int64_t access_bits_look(void)
{
	return state.clearer->look();
}
