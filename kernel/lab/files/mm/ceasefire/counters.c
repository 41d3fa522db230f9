// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts TLB shootdowns where their targets are chosen. NR_TLB_REMOTE_FLUSH
 * counts attempts, and the TLB row of /proc/interrupts leaves out kernel
 * ranges; these counters miss neither, and need no change to existing code.
 *
 *   /sys/kernel/debug/ceasefire/enabled    1 attaches all probes, 0 detaches them
 *   /sys/kernel/debug/ceasefire/counters   "name value" lines, summed over CPUs;
 *                                          then the machine's (machine.c), which
 *                                          count whether probes are attached or not
 *   /sys/kernel/debug/ceasefire/held       asks the machine (held.c)
 *
 * The counters only grow: a reader takes differences. A flush that is under
 * way while `enabled` changes may be counted in part.
 */

#define pr_fmt(fmt) "ceasefire: " fmt

#include <linux/cleanup.h>
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/seq_file.h>
#include <linux/tracepoint.h>

#include <asm/tlbflush.h>
#include <trace/events/csd.h>
#include <trace/events/tlb.h>

#include "counters.h"
#include "machine.h"

enum counter {
	REQUESTED,		/* calls of the functions in requests[] */
	SENT,			/* address-space shootdowns with a target */
	RECEIVED,		/* their targets */
	KERNEL_SENT,		/* kernel-range shootdowns with a target */
	KERNEL_RECEIVED,	/* their targets */
	LOCAL_FULL,		/* full flushes by a CPU of its own TLB */
	LOCAL_SINGLE,		/* pages invalidated by a CPU in its own TLB */
	OTHER_CSD,		/* targets of any other cross call */
	NEEDED,			/* of RECEIVED, those that held something, or may have */
	UNASKED,		/* of NEEDED, those of whom nobody knows */
	NR_COUNTERS,
};

static const char * const counter_names[NR_COUNTERS] = {
	[REQUESTED]		= "requested",
	[SENT]			= "sent",
	[RECEIVED]		= "received",
	[KERNEL_SENT]		= "kernel_sent",
	[KERNEL_RECEIVED]	= "kernel_received",
	[LOCAL_FULL]		= "local_full",
	[LOCAL_SINGLE]		= "local_single",
	[OTHER_CSD]		= "other_csd",
	[NEEDED]		= "needed",
	[UNASKED]		= "unasked",
};

struct cpu_counters {
	u64 count[NR_COUNTERS];
	/* This CPU announced an address-space shootdown, no target queued yet. */
	bool announced;
	/* Last target of this CPU's latest kernel-range shootdown. */
	unsigned int kernel_target;
};

static DEFINE_PER_CPU(struct cpu_counters, cpu_counters);

/* What arch/x86/mm lets other CPUs run to flush their TLBs. All are static there. */
static smp_call_func_t mm_flush;

/* What mechanisms add, by ceasefire_count_flush(): names, and functions once found. */
#define MORE_MAX	8
static const char *more_flush_names[MORE_MAX];
static smp_call_func_t more_flushes[MORE_MAX];
static unsigned int nr_more_flushes;

static const char * const kernel_flush_names[] = {
	"do_flush_tlb_all",
	"do_kernel_range_flush",
	"__cpa_flush_tlb",	/* set_memory_*() */
	"__cpa_flush_all",
};

static smp_call_func_t kernel_flushes[ARRAY_SIZE(kernel_flush_names)];

static bool is_closed __initdata;	/* no mechanism can add anything any more */
static DEFINE_MUTEX(enable_lock);
static bool enabled;

static __always_inline void add(enum counter counter, unsigned long n)
{
	this_cpu_add(cpu_counters.count[counter], n);
}

static void on_tlb_flush(void *data, int reason, unsigned long pages)
{
	if (reason == TLB_REMOTE_SEND_IPI)
		this_cpu_write(cpu_counters.announced, true);
	else if (pages == TLB_FLUSH_ALL)
		add(LOCAL_FULL, 1);
	else
		add(LOCAL_SINGLE, pages);
}

/*
 * Sent is exact: native_flush_tlb_multi() fires the tlb_flush event and then
 * queues its targets with preemption off, so both happen on one CPU, and no
 * interrupt handler starts a flush in between (flush_tlb_func() cannot be
 * queued from one). Every queueing of flush_tlb_func() thus follows its own
 * announcement; one that found no target leaves the mark set, which the next
 * announcement on this CPU would set anyway. Mechanisms promise the same of theirs.
 */
static void count_mm_target(unsigned int cpu)
{
	enum need need = needed_of(cpu);

	add(RECEIVED, 1);
	add(NEEDED, need != NEEDLESS_CPU);
	add(UNASKED, need == UNASKED_CPU);
	if (this_cpu_read(cpu_counters.announced)) {
		this_cpu_write(cpu_counters.announced, false);
		add(SENT, 1);
	}
}

/*
 * Kernel ranges announce nothing, but go to all online CPUs but this one, in
 * ascending order and with preemption off: a target that is not above the last
 * one begins a new shootdown. Exact while no CPU goes on or off line.
 */
static void count_kernel_target(unsigned int cpu)
{
	add(KERNEL_RECEIVED, 1);
	if (cpu <= this_cpu_read(cpu_counters.kernel_target))
		add(KERNEL_SENT, 1);
	this_cpu_write(cpu_counters.kernel_target, cpu);
}

static bool is_kernel_flush(smp_call_func_t func)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(kernel_flushes); i++) {
		if (func == kernel_flushes[i])
			return true;
	}
	return false;
}

static bool is_mm_flush(smp_call_func_t func)
{
	unsigned int i;

	if (func == mm_flush)
		return true;
	for (i = 0; i < nr_more_flushes; i++) {
		if (func == more_flushes[i])
			return true;
	}
	return false;
}

static void on_csd_queue_cpu(void *data, const unsigned int cpu,
			     unsigned long callsite, smp_call_func_t func,
			     call_single_data_t *csd)
{
	if (is_mm_flush(func))
		count_mm_target(cpu);
	else if (is_kernel_flush(func))
		count_kernel_target(cpu);
	else
		add(OTHER_CSD, 1);
}

static int on_request(struct kprobe *probe, struct pt_regs *regs)
{
	add(REQUESTED, 1);
	return 0;
}
NOKPROBE_SYMBOL(on_request);

/* The first of them; mechanisms add theirs. */
#define OWN_REQUESTS 4
static const char *requests[OWN_REQUESTS + MORE_MAX] = {
	"flush_tlb_mm_range",
	"arch_tlbbatch_flush",
	"flush_tlb_all",
	"flush_tlb_kernel_range",
};

static int nr_requests = OWN_REQUESTS;

static struct kprobe probes[ARRAY_SIZE(requests)];

static int attach_requests(void)
{
	struct kprobe *list[ARRAY_SIZE(probes)];
	int i;

	for (i = 0; i < nr_requests; i++) {
		/* It must be zero but for its description when it is registered. */
		probes[i] = (struct kprobe) {
			.symbol_name = requests[i],
			.pre_handler = on_request,
		};
		list[i] = &probes[i];
	}
	return register_kprobes(list, nr_requests);
}

static void detach_requests(void)
{
	struct kprobe *list[ARRAY_SIZE(probes)];
	int i;

	for (i = 0; i < nr_requests; i++)
		list[i] = &probes[i];
	unregister_kprobes(list, nr_requests);
}

static int attach(void)
{
	int cpu, err;

	for_each_possible_cpu(cpu) {
		per_cpu(cpu_counters.announced, cpu) = false;
		per_cpu(cpu_counters.kernel_target, cpu) = UINT_MAX;
	}

	err = register_trace_tlb_flush(on_tlb_flush, NULL);
	if (err)
		return err;
	err = register_trace_csd_queue_cpu(on_csd_queue_cpu, NULL);
	if (err)
		goto detach_tlb_flush;
	err = attach_requests();
	if (err)
		goto detach_csd_queue_cpu;
	return 0;

detach_csd_queue_cpu:
	unregister_trace_csd_queue_cpu(on_csd_queue_cpu, NULL);
detach_tlb_flush:
	unregister_trace_tlb_flush(on_tlb_flush, NULL);
	tracepoint_synchronize_unregister();
	return err;
}

static void detach(void)
{
	detach_requests();
	unregister_trace_csd_queue_cpu(on_csd_queue_cpu, NULL);
	unregister_trace_tlb_flush(on_tlb_flush, NULL);
	tracepoint_synchronize_unregister();
}

bool ceasefire_is_counting(void)
{
	return READ_ONCE(enabled);
}

static int enabled_get(void *data, u64 *value)
{
	*value = READ_ONCE(enabled);
	return 0;
}

static int enabled_set(void *data, u64 value)
{
	int err;

	if (value > 1)
		return -EINVAL;

	guard(mutex)(&enable_lock);
	if (value == enabled)
		return 0;
	if (value) {
		err = attach();
		if (err)
			return err;
	} else {
		detach();
	}
	WRITE_ONCE(enabled, value);
	/* Probes are turned into jumps, and back, later: not while measuring. */
	wait_for_kprobe_optimizer();
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(enabled_fops, enabled_get, enabled_set, "%llu\n");

static int counters_show(struct seq_file *seq, void *unused)
{
	int cpu, i;

	for (i = 0; i < NR_COUNTERS; i++) {
		u64 sum = 0;

		if (i >= NEEDED && !needed_is_known())
			break;
		for_each_possible_cpu(cpu)
			sum += READ_ONCE(per_cpu(cpu_counters.count[i], cpu));
		seq_printf(seq, "%s %llu\n", counter_names[i], sum);
	}
	machine_show(seq);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counters);

void __init ceasefire_count_flush(const char *function)
{
	if (!WARN_ON(is_closed || nr_more_flushes >= ARRAY_SIZE(more_flush_names)))
		more_flush_names[nr_more_flushes++] = function;
}

void __init ceasefire_count_request(const char *function)
{
	if (!WARN_ON(is_closed || nr_requests >= ARRAY_SIZE(requests)))
		requests[nr_requests++] = function;
}

/* A missing function would make every count zero: better no counters. */
static bool __init find(const char *name, smp_call_func_t *func)
{
	*func = (smp_call_func_t)kallsyms_lookup_name(name);
	return !WARN(!*func, "ceasefire: no function %s, no counters\n", name);
}

static int __init ceasefire_counters_init(void)
{
	struct dentry *dir;
	unsigned int i;

	is_closed = true;
	if (!find("flush_tlb_func", &mm_flush))
		return -ENOENT;
	for (i = 0; i < ARRAY_SIZE(kernel_flushes); i++) {
		if (!find(kernel_flush_names[i], &kernel_flushes[i]))
			return -ENOENT;
	}
	for (i = 0; i < nr_more_flushes; i++) {
		if (!find(more_flush_names[i], &more_flushes[i]))
			return -ENOENT;
	}

	dir = debugfs_create_dir("ceasefire", NULL);
	debugfs_create_file_unsafe("enabled", 0600, dir, NULL, &enabled_fops);
	debugfs_create_file("counters", 0400, dir, NULL, &counters_fops);
	held_init(dir);
	return 0;
}
late_initcall(ceasefire_counters_init);
