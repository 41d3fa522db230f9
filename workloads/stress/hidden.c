// SPDX-License-Identifier: GPL-2.0-only
/*
 * File data that one thread has read, used by others in ways that must not be made to
 * fault, or that are no reads. A mechanism may keep such a page out of the page tables
 * while one CPU alone has it in its TLB; nobody may notice.
 *
 * Each unit: the first thread maps a page of a file and reads it. Then the second, by turns,
 *
 *  - has its stack sampled there by perf, which reads it with page faults disabled: the
 *    sample must be whole;
 *  - populates it (MADV_POPULATE_READ), or locks it, and reads it: no fault;
 *  - makes it executable, and calls what is there.
 *
 * The other threads read the page meanwhile. Then the first unmaps it. In every other round
 * of turns all read it at once instead, and nobody has read it before. exec=1: the page may be
 * executed from the start, and the second thread calls it each time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/mapped_file.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#define RING_BYTES (8 * PAGE_BYTES)
/* What perf copies: not the whole page, since a record has 64 KiB at most and a ring little more. */
#define SAMPLE_BYTES 2048U
/* The stack pointer of who is sampled: what lies below it is his. */
#define STACK_OFFSET 1024U

enum { SAMPLE, POPULATE, LOCK, CALL, WAYS };

static struct {
	int fd, perf;
	bool exec;
	volatile uint64_t *page;
	struct perf_event_mmap_page *ring;
	uint64_t *fresh;	/* a page that is not there yet, to be faulted in */
	uint64_t faults, samples, samples_short, wrong;
} hidden;

/* mov $VALUE, %eax; ret: at the beginning of the page. */
static const unsigned char code[8] = { 0xb8, 0x2a, 0x00, 0x00, 0x00, 0xc3, 0x90, 0x90 };

static uint64_t word_of(uint64_t index)
{
	uint64_t first;

	memcpy(&first, code, sizeof(first));
	return index ? index * 0x9e3779b97f4a7c15ULL : first;
}

static int write_file(struct run *run)
{
	uint64_t words[PAGE_WORDS];

	for (uint64_t i = 0; i < PAGE_WORDS; i++)
		words[i] = word_of(i);
	hidden.fd = mapped_file_in_memory(run, 1);
	if (hidden.fd < 0)
		return hidden.fd;
	if (pwrite(hidden.fd, words, sizeof(words), 0) != (ssize_t)sizeof(words))
		return workload_fail(run, "the file cannot be written: %s", strerror(errno));
	return 0;
}

/* Each fault of the thread that opens it is a sample. */
static int open_perf(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_PAGE_FAULTS,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_STACK_USER,
		.sample_stack_user = SAMPLE_BYTES,
		.disabled = 1,
	};

	hidden.perf = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0UL);
	if (hidden.perf < 0)
		return -errno;
	hidden.ring = mmap(NULL, PAGE_BYTES + RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, hidden.perf, 0);
	if (hidden.ring == MAP_FAILED) {
		hidden.ring = NULL;
		return -errno;
	}
	return 0;
}

/* By the second thread, whose faults are sampled. */
static void prepare(struct run *run, unsigned int index)
{
	(void)run;
	if (index != 1 || !open_perf())
		return;
	if (hidden.perf >= 0)
		close(hidden.perf);
	hidden.perf = -1;
}

static int setup(struct run *run)
{
	int error;

	memset(&hidden, 0, sizeof(hidden));
	hidden.fd = hidden.perf = -1;
	hidden.exec = option_u64("exec", 0);
	if (!CPU_IS_X86)
		return workload_skip(run, "has code of x86 alone");
	error = write_file(run);
	if (error)
		return error;
	hidden.fresh = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (hidden.fresh == MAP_FAILED)
		return workload_fail(run, "no page of memory: %s", strerror(errno));
	team_run(run, prepare);
	return hidden.perf < 0 ? workload_skip(run, "needs perf events, and the right to sample the user's stack") : 0;
}

/* Fault, while the stack pointer leads into the page. */
static void fault_there(void)
{
#if CPU_IS_X86
	const uintptr_t stack = (uintptr_t)hidden.page + STACK_OFFSET;

	__asm__ volatile("mov %%rsp, %%r12\n\t"
			 "mov %[stack], %%rsp\n\t"
			 "movq $1, (%[fresh])\n\t"
			 "mov %%r12, %%rsp"
			 :
			 : [stack] "r"(stack), [fresh] "r"(hidden.fresh)
			 : "r12", "memory");
#endif
}

static uint64_t at(uint64_t position)
{
	uint64_t word;

	memcpy(&word, (const char *)hidden.ring + PAGE_BYTES + position % RING_BYTES, sizeof(word));
	return word;
}

/* The one sample: u64 size, the stack, u64 of it that could be read. */
static void look_at_sample(void)
{
	uint64_t tail = hidden.ring->data_tail, end = __atomic_load_n(&hidden.ring->data_head, __ATOMIC_ACQUIRE);
	bool whole = false;

	for (; tail < end; tail += at(tail) >> 48) {
		const uint64_t words = at(tail + 8) / sizeof(uint64_t);

		if ((uint32_t)at(tail) != PERF_RECORD_SAMPLE)
			continue;
		whole = words && at(tail + 16 + words * 8) >= SAMPLE_BYTES;
		for (uint64_t i = 0; whole && i < SAMPLE_BYTES / 8; i++)
			whole = at(tail + 16 + i * 8) == word_of(STACK_OFFSET / 8 + i);
	}
	__atomic_store_n(&hidden.ring->data_tail, end, __ATOMIC_RELEASE);
	hidden.samples++;
	hidden.samples_short += !whole;
}

static void sample(void)
{
	madvise(hidden.fresh, PAGE_BYTES, MADV_DONTNEED);
	ioctl(hidden.perf, PERF_EVENT_IOC_ENABLE, 0);
	fault_there();
	ioctl(hidden.perf, PERF_EVENT_IOC_DISABLE, 0);
	look_at_sample();
}

static uint64_t faults_of_thread(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return (uint64_t)(usage.ru_minflt + usage.ru_majflt);
}

/* What is populated, or locked, is read without a fault. */
static void read_populated(struct run *run, bool lock)
{
	void *page = (void *)hidden.page;
	uint64_t before;

	/* Nothing is populated for this lock: what is there already stays, and is there. */
	if (lock ? mlock2(page, PAGE_BYTES, MLOCK_ONFAULT) : madvise(page, PAGE_BYTES, MADV_POPULATE_READ)) {
		workload_fail(run, "the page cannot be %s: %s", lock ? "locked" : "populated", strerror(errno));
		return;
	}
	before = faults_of_thread();
	hidden.wrong += hidden.page[1] != word_of(1);
	hidden.faults += faults_of_thread() - before;
}

static void call(struct run *run)
{
	if (!hidden.exec && mprotect((void *)hidden.page, PAGE_BYTES, PROT_READ | PROT_EXEC)) {
		workload_fail(run, "the page cannot be made executable: %s", strerror(errno));
		return;
	}
	hidden.wrong += ((int (*)(void))(uintptr_t)hidden.page)() != 0x2a;
}

static void use(struct run *run, uint64_t unit)
{
	switch (hidden.exec ? CALL : unit % WAYS) {
	case SAMPLE:
		sample();
		break;
	case POPULATE:
	case LOCK:
		read_populated(run, unit % WAYS == LOCK);
		break;
	case CALL:
		call(run);
	}
}

static void map_page(struct run *run, bool read)
{
	const int rights = hidden.exec ? PROT_READ | PROT_EXEC : PROT_READ;
	void *page = mmap(NULL, PAGE_BYTES, rights, MAP_PRIVATE, hidden.fd, 0);

	hidden.page = page == MAP_FAILED ? NULL : page;
	if (!hidden.page)
		workload_fail(run, "the file cannot be mapped: %s", strerror(errno));
	else if (read && hidden.page[2] != word_of(2))
		hidden.wrong++;
}

static void run_units(struct run *run, unsigned int index)
{
	for (uint64_t unit = 0; unit < run->units && !run->has_failed; unit++) {
		const bool one_first = unit / WAYS % 2 == 0;

		if (index == 0)
			map_page(run, one_first);
		team_barrier(run);
		if (hidden.page && index == 1 && one_first)
			use(run, unit);
		else if (hidden.page && (index || !one_first) && hidden.page[3] != word_of(3))
			workload_fail(run, "the page has changed");
		team_barrier(run);
		if (index == 0 && hidden.page)
			munmap((void *)hidden.page, PAGE_BYTES);
		/* Nobody leaves the loop alone. */
		team_barrier(run);
	}
}

static int measure(struct run *run)
{
	team_run(run, run_units);
	if (run->has_failed)
		return -EIO;
	if (hidden.wrong)
		return workload_fail(run, "%llu reads or calls found something else", (unsigned long long)hidden.wrong);
	run->checksum = checksum_add(run->checksum, hidden.samples);
	report_extra(run, "samples", (double)hidden.samples);
	report_extra(run, "samples_short", (double)hidden.samples_short);
	report_extra(run, "populated_faults", (double)hidden.faults);
	return 0;
}

static void teardown(struct run *run)
{
	(void)run;
	if (hidden.ring)
		munmap(hidden.ring, PAGE_BYTES + RING_BYTES);
	if (hidden.fresh && hidden.fresh != MAP_FAILED)
		munmap(hidden.fresh, PAGE_BYTES);
	if (hidden.perf >= 0)
		close(hidden.perf);
	if (hidden.fd >= 0)
		close(hidden.fd);
}

WORKLOAD(hidden_pages) = {
	.name = "hidden",
	.group = "stress",
	.unit = "page of a file",
	.about = "A page that one thread has read is sampled by perf, populated, locked or called by another: nobody may notice "
		 "that it was hidden.",
	.units = 2000,
	.threads_min = 2,
	.setup = setup,
	.measure = measure,
	.teardown = teardown,
};
