// SPDX-License-Identifier: GPL-2.0-only
/* Boot parameter toy=, /sys/kernel/mm/toy/mode, /sys/kernel/debug/toy/counters. */
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/kobject.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/toy.h>

static const char * const mode_names[] = { "off", "on" };
static int mode;
static DEFINE_PER_CPU(u64, flushes);

void toy_count_flush(void)
{
	if (READ_ONCE(mode))
		this_cpu_inc(flushes);
}

static int counters_show(struct seq_file *file, void *unused)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu(flushes, cpu);
	seq_printf(file, "flushes %llu\n", sum);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counters);

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
	WRITE_ONCE(mode, wanted);
	return count;
}

static struct kobj_attribute mode_attr = __ATTR_RW(mode);
static struct attribute *toy_attrs[] = { &mode_attr.attr, NULL };
static const struct attribute_group toy_group = { .name = "toy", .attrs = toy_attrs };

static int __init toy_setup(char *arg)
{
	int wanted = match_string(mode_names, ARRAY_SIZE(mode_names), arg ?: "");

	if (wanted < 0)
		return wanted;
	mode = wanted;
	return 0;
}
early_param("toy", toy_setup);

static int __init toy_init(void)
{
	debugfs_create_file("counters", 0444, debugfs_create_dir("toy", NULL), NULL,
			    &counters_fops);
	return sysfs_create_group(mm_kobj, &toy_group);
}
late_initcall(toy_init);
