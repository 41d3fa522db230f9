// SPDX-License-Identifier: GPL-2.0-only
/*
 * Some kernels have something for processes that they have watched for a while. Linux with INVLPGB gives one a PCID of
 * its own on all CPUs once it has sent shootdowns while it ran on more than three; it looks in one of 32 jiffies, which
 * the caller's id chooses. What is measured is the time after that, so all threads run while the first one sends some.
 */
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#include "harness.h"

#define IN_A_ROW 64

static _Atomic bool is_over;
static uint64_t calls;
static bool is_warm;

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Return: whether there was memory for it. */
static bool send_shootdown(void)
{
	volatile char *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return false;
	*page = 1;
	munmap((void *)page, PAGE_BYTES);
	calls++;
	let_others_run();
	return true;
}

/* Until some in a row have interrupted nobody, or the time is over. */
static void send_shootdowns(unsigned int threads)
{
	const uint64_t end_ms = now_ms() + mechanisms_warm_up_ms(threads);
	int64_t before, after;
	int sent;

	do {
		before = counters_received_irq();
		for (sent = 0; sent < IN_A_ROW && send_shootdown(); sent++)
			;
		after = counters_received_irq();
		is_warm = sent == IN_A_ROW && before >= 0 && before == after;
	} while (!is_warm && now_ms() < end_ms);
}

static void take_part(struct run *run, unsigned int index)
{
	if (index == 0) {
		send_shootdowns(run->threads);
		atomic_store(&is_over, true);
	}
	while (!atomic_load_explicit(&is_over, memory_order_relaxed))
		cpu_pause();
}

int warm_up(struct run *run)
{
	if (!mechanisms_warm_up_ms(run->threads))
		return 0;
	/* Its processes are not there yet. */
	if (!run->workload->own_processes) {
		team_run(run, take_part);
		if (!is_warm)
			return workload_fail(run, "shootdowns interrupt still after %llu calls and %lu ms: this kernel "
					     "does not use what the processor has",
					     (unsigned long long)calls, mechanisms_warm_up_ms(run->threads));
	}
	report_extra(run, "warm_up_calls", (double)calls);
	report_extra(run, "is_warm", is_warm);
	return 0;
}
