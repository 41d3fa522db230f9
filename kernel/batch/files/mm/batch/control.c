// SPDX-License-Identifier: GPL-2.0-only
/*
 * Boot parameter batch=, /sys/kernel/mm/batch/mode, /sys/kernel/debug/batch/counters.
 *
 * What is write-protected when it is switched off stays dirty, and is flushed page by page.
 */

#define pr_fmt(fmt) "batch: " fmt

#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/kobject.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "batch.h"

DEFINE_PER_CPU(struct batch_stat, batch_stat);
DEFINE_STATIC_KEY_FALSE(writeback_batch_key);
EXPORT_SYMBOL_GPL(writeback_batch_key);

static const char * const mode_names[] = { "off", "on" };
static DEFINE_MUTEX(mode_lock);
static int mode;
static int boot_mode __initdata;

static void set_mode(int wanted)
{
	mutex_lock(&mode_lock);
	if (wanted != mode) {
		if (wanted)
			static_branch_enable(&writeback_batch_key);
		else
			static_branch_disable(&writeback_batch_key);
		WRITE_ONCE(mode, wanted);
		pr_info("%s\n", mode_names[wanted]);
	}
	mutex_unlock(&mode_lock);
}

static ssize_t mode_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", mode_names[READ_ONCE(mode)]);
}

static ssize_t mode_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t count)
{
	int wanted = sysfs_match_string(mode_names, buf);

	if (wanted < 0)
		return wanted;
	set_mode(wanted);
	return count;
}

static struct kobj_attribute mode_attr = __ATTR_RW(mode);
static struct attribute *batch_attrs[] = { &mode_attr.attr, NULL };
static const struct attribute_group batch_group = { .name = "batch", .attrs = batch_attrs };

static int __init batch_setup(char *arg)
{
	int wanted = match_string(mode_names, ARRAY_SIZE(mode_names), arg ?: "");

	if (wanted < 0) {
		pr_err("batch=%s is none of: off, on; stays off\n", arg ?: "");
		return wanted;
	}
	boot_mode = wanted;
	return 0;
}
early_param("batch", batch_setup);

static int counters_show(struct seq_file *file, void *unused)
{
	struct batch_stat sum = { };
	int cpu;

	for_each_possible_cpu(cpu) {
		const u64 *from = (const u64 *)per_cpu_ptr(&batch_stat, cpu);
		u64 *to = (u64 *)&sum;
		unsigned int i;

		for (i = 0; i < sizeof(sum) / sizeof(u64); i++)
			to[i] += READ_ONCE(from[i]);
	}
	seq_printf(file, "windows %llu\n", sum.windows);
	seq_printf(file, "mappings %llu\n", sum.mappings);
	seq_printf(file, "protected %llu\n", sum.protected);
	seq_printf(file, "cleaned %llu\n", sum.cleaned);
	seq_printf(file, "pending %llu\n", sum.pending);
	seq_printf(file, "sparse %llu\n", sum.sparse);
	seq_printf(file, "refused %llu\n", sum.refused);
	seq_printf(file, "notified %llu\n", sum.notified);
	seq_printf(file, "memory %llu\n", sum.memory);
	if (IS_ENABLED(CONFIG_WRITEBACK_BATCH_DEBUG)) {
		seq_printf(file, "checked %llu\n", sum.checked);
		seq_printf(file, "violations %llu\n", sum.violations);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counters);

static int __init batch_init(void)
{
	struct dentry *dir = debugfs_create_dir("batch", NULL);

	debugfs_create_file("counters", 0444, dir, NULL, &counters_fops);
	batch_debug_init(dir);
	set_mode(boot_mode);
	return sysfs_create_group(mm_kobj, &batch_group);
}
late_initcall(batch_init);
