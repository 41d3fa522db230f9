// SPDX-License-Identifier: GPL-2.0-only
/*
 * Boot parameter lazyctx=, /sys/kernel/mm/lazyctx/, /sys/kernel/debug/lazyctx/.
 *
 * Switched off, whatever is retired is taken out first: nothing is left of it then.
 */

#define pr_fmt(fmt) "lazyctx: " fmt

#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/init.h>
#include <linux/kobject.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "lazyctx.h"

#define CUTOFF			40	/* from here on mprotect() alone gains; the paper: 20 */
#define CUTOFF_MAX		(1u << 20)

DEFINE_STATIC_KEY_FALSE(lazyctx_count_key);

static const char * const mode_names[LAZYCTX_MODES] = {
	[LAZYCTX_OFF] = "off",
	[LAZYCTX_SEARCH] = "search",
	[LAZYCTX_LAZY] = "lazy",
	[LAZYCTX_LAZY_IDLE] = "lazy-idle",
};

static DEFINE_MUTEX(mode_lock);
static enum lazyctx_mode mode;
static int boot_mode __initdata;
static bool is_counting;	/* in whatever mode */
static bool is_asking;	/* the machine */
static unsigned int cutoff = CUTOFF;

enum lazyctx_mode lazyctx_mode(void)
{
	return READ_ONCE(mode);
}

static void set_policy(enum lazyctx_mode wanted)
{
	struct lazyctx_policy policy = { .renews = wanted >= LAZYCTX_LAZY, .cutoff = cutoff };

	lazyctx_set_policy(&policy);
}

static void set_counting(void)
{
	if (is_counting)
		static_branch_enable(&lazyctx_count_key);
	else
		static_branch_disable(&lazyctx_count_key);
}

/* Waits for fork() and exit, or for a signal. */
static int set_mode(enum lazyctx_mode wanted)
{
	int err = 0;

	/* A 603 searches no hash table. */
	if (wanted != LAZYCTX_OFF && !mmu_has_feature(MMU_FTR_HPTE_TABLE))
		return -EOPNOTSUPP;
	mutex_lock(&mode_lock);
	if (wanted != mode) {
		enum lazyctx_mode old = mode;

		if (old == LAZYCTX_OFF)
			static_branch_enable(&lazyctx_key);
		/* The idle task asks for the mode: what it needs is there first. */
		if (wanted >= LAZYCTX_LAZY && old < LAZYCTX_LAZY)
			lazyctx_start();
		set_policy(wanted);
		if (wanted < LAZYCTX_LAZY && old >= LAZYCTX_LAZY) {
			/* Nobody begins to owe a new id any more; who owes one is in a system call. */
			while (lazyctx_owing() && !err)
				err = msleep_interruptible(20) ? -EINTR : 0;
			if (err) {
				set_policy(old);
				goto out;
			}
			lazyctx_stop();
		}
		WRITE_ONCE(mode, wanted);
		if (wanted == LAZYCTX_OFF)
			static_branch_disable(&lazyctx_key);
		pr_info("%s\n", mode_names[wanted]);
	}
out:
	mutex_unlock(&mode_lock);
	return err;
}

static ssize_t mode_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", mode_names[lazyctx_mode()]);
}

static ssize_t mode_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t count)
{
	int wanted = sysfs_match_string(mode_names, buf), err;

	if (wanted < 0)
		return wanted;
	err = set_mode(wanted);
	return err ?: count;
}

static ssize_t cutoff_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(cutoff));
}

/* Pages: no more than these are flushed one by one. */
static ssize_t cutoff_store(struct kobject *kobj, struct kobj_attribute *attr,
			    const char *buf, size_t count)
{
	unsigned int value;
	int err = kstrtouint(buf, 0, &value);

	if (err)
		return err;
	if (value > CUTOFF_MAX)
		return -EINVAL;
	mutex_lock(&mode_lock);
	cutoff = value;
	set_policy(mode);
	mutex_unlock(&mode_lock);
	return count;
}

static struct kobj_attribute cutoff_attr = __ATTR_RW(cutoff);
static struct kobj_attribute mode_attr = __ATTR_RW(mode);
static struct attribute *lazyctx_attrs[] = { &mode_attr.attr, &cutoff_attr.attr, NULL };
static const struct attribute_group lazyctx_group = { .name = "lazyctx", .attrs = lazyctx_attrs };

static int __init lazyctx_setup(char *arg)
{
	int wanted = match_string(mode_names, ARRAY_SIZE(mode_names), arg ?: "");

	if (wanted < 0) {
		pr_err("lazyctx=%s is none of: off, search, lazy, lazy-idle; stays off\n",
		       arg ?: "");
		return wanted;
	}
	boot_mode = wanted;
	return 0;
}
early_param("lazyctx", lazyctx_setup);

/* Count, and ask the emulated machine for its own counts. No real processor knows the question. */
static int __init lazyctx_count_setup(char *arg)
{
	int err = kstrtobool(arg ?: "", &is_counting);

	is_asking = is_counting;
	return err;
}
early_param("lazyctx_count", lazyctx_count_setup);

static int __init lazyctx_cutoff_setup(char *arg)
{
	unsigned int wanted;
	int err = kstrtouint(arg ?: "", 0, &wanted);

	if (!err)
		cutoff = min(wanted, CUTOFF_MAX);
	return err;
}
early_param("lazyctx_cutoff", lazyctx_cutoff_setup);

static int counters_show(struct seq_file *seq, void *unused)
{
	if (!mmu_has_feature(MMU_FTR_HPTE_TABLE))
		return 0;
	lazyctx_show(seq);
	if (is_asking)
		oracle_show(seq);
	lazyctx_debug_show(seq);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counters);

static int counting_get(void *data, u64 *value)
{
	*value = READ_ONCE(is_counting);
	return 0;
}

static int counting_set(void *data, u64 value)
{
	if (value > 1)
		return -EINVAL;
	mutex_lock(&mode_lock);
	is_counting = value;
	set_counting();
	mutex_unlock(&mode_lock);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(counting_fops, counting_get, counting_set, "%llu\n");

static int __init lazyctx_init(void)
{
	struct dentry *dir = debugfs_create_dir("lazyctx", NULL);

	debugfs_create_file("counters", 0444, dir, NULL, &counters_fops);
	debugfs_create_file_unsafe("counting", 0600, dir, NULL, &counting_fops);
	lazyctx_debug_init(dir);
	is_asking = is_asking && oracle_is_there();
	set_counting();
	if (set_mode(boot_mode))
		pr_err("%s needs a hash table; stays off\n", mode_names[boot_mode]);
	return sysfs_create_group(mm_kobj, &lazyctx_group);
}
late_initcall(lazyctx_init);
